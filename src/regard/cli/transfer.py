"""`regard transfer`: pretrained or random weights, by number of labels."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import tyro

from regard.checkpoint.probe import check_folder
from regard.cli.options import Section, option, parse
from regard.cli.output import check_free, note, print_json, print_line
from regard.utils.errors import UsageError
from regard.views.view import check_format


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Measure what pretraining is worth: a classifier from pretrained weights beside one from random weights.

    Both train on the same samples of DATA, a table of labelled texts (.tsv, .csv, .jsonl), with the same tokenizer and
    shape. Without DATA the built-in opinions are used.
    """

    model: tyro.conf.Positional[Path] = option("Folder of an encoder.")
    data: tyro.conf.Positional[tuple[Path, ...]] = option("A table with texts and labels.", ())
    validation: Path | None = option("File to score on; otherwise a tenth of DATA is held out.", None)
    text_column: str | None = option("Name or number of the column with the texts.", None)
    label_column: str | None = option("Name or number of the column with the labels.", None)
    skip_bad_rows: bool = option("Skip unusable rows and list them.", False)
    out: Path | None = option("Page with both curves (.html), or a picture (.svg, .png).", None)
    force: bool = option("Replace an existing file.", False)
    json: bool = option("Print the numbers as JSON.", False)


def main(verb: str, arguments: list[str]) -> int:
    from regard.experiments.transfer import TransferConfig, transfer_curve

    asked, given = parse(Arguments, arguments, program="regard transfer", sections=[Section(TransferConfig)])
    check_folder(asked.model)
    config = TransferConfig(**given)
    if len(asked.data) > 1:
        raise UsageError(
            f"{len(asked.data)} files were given; labels are read from one table.",
            argument="data",
            value=len(asked.data),
        )
    if asked.out is not None:
        check_free(asked.out, force=asked.force)
        check_format(asked.out)
    columns = {"text": asked.text_column, "label": asked.label_column}
    transfer = transfer_curve(
        asked.model,
        asked.data[0] if asked.data else None,
        validation=asked.validation,
        columns={role: name for role, name in columns.items() if name is not None},
        skip_bad_rows=asked.skip_bad_rows,
        config=config,
        notify=note,
    )
    if asked.json:
        print_json(transfer.numbers())
    else:
        print_line("\n".join(transfer.lines()))
    if asked.out is not None:
        from regard.views.transfer import transfer_view

        transfer_view(transfer, title=f"What pretraining is worth: {asked.model.name}").save(asked.out)
        if not asked.json:
            print_line(str(asked.out))
    return 0
