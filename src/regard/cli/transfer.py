"""`regard transfer`: pre-trained or from scratch, by number of labels."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro

from regard.checkpoint.presence import check_folder
from regard.cli.flags import parse
from regard.cli.output import answer, answer_json, check_free, note
from regard.errors import UsageError
from regard.views.view import check_format


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """What pre-training is worth: a classifier from a BERT's weights and one from random ones, by number of labels.

    Both learn from the same samples of DATA, a table of labelled texts (.tsv, .csv, .jsonl), with the same tokens and
    shape. Without DATA the built-in world's opinions are used.
    """

    model: tyro.conf.Positional[Path]  # the folder of a BERT
    data: tyro.conf.Positional[tuple[Path, ...]] = ()  # a table with texts and labels
    validation: Path | None = None  # a file to score on; otherwise a tenth of DATA is held out
    text_column: str | None = None  # the name or number of the column with the texts
    label_column: str | None = None  # that of the column with the labels
    skip_bad_rows: bool = False  # leave out rows that cannot be used, and list them
    out: Path | None = None  # a page with both curves (.html), or a picture of them (.svg, .png)
    force: bool = False  # replace a file that is already there
    json: bool = False  # print the numbers as JSON


def main(verb: str, arguments: list[str]) -> int:
    from regard.labs.transfer import TransferConfig, transfer_curve

    asked: Any = parse(Arguments, arguments, program="regard transfer", owners={TransferConfig: "(default: {})"})
    check_folder(asked.model)
    names = [field.name for field in dataclasses.fields(TransferConfig)]
    config = TransferConfig(**{name: getattr(asked, name) for name in names if getattr(asked, name) is not None})
    if len(asked.data) > 1:
        raise UsageError(f"{len(asked.data)} files were given; labels are read from one table.")
    if asked.out is not None:
        check_free(asked.out, force=asked.force)
        check_format(asked.out)
    from regard.cli.classify import label_columns

    transfer = transfer_curve(
        asked.model,
        asked.data[0] if asked.data else None,
        validation=asked.validation,
        columns=label_columns(asked, "classify"),
        skip_bad_rows=asked.skip_bad_rows,
        config=config,
        say=note,
    )
    if asked.json:
        answer_json(transfer.numbers())
    else:
        answer("\n".join(transfer.lines()))
    if asked.out is not None:
        from regard.views.transfer import transfer_view

        transfer_view(transfer, title=f"What pre-training is worth: {asked.model.name}").save(asked.out)
        if not asked.json:
            answer(str(asked.out))
    return 0
