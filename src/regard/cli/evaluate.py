"""`regard evaluate`: official scores on a test file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import tyro

from regard.checkpoint.presence import check_folder
from regard.cli.flags import parse
from regard.cli.output import answer, answer_json
from regard.generation.settings import SearchConfig


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Translate a test file and score it: sacreBLEU and chrF, with their signatures.

    What is not given of --beams and --length-penalty is taken from the model's folder.
    """

    model: tyro.conf.Positional[Path]  # a model folder
    data: tyro.conf.Positional[tuple[Path, ...]]  # a table of pairs, or two line-aligned files
    columns: tuple[str, str] | None = None  # names of the source and target columns, or numbers if there is no header
    reverse: bool = False  # translate from the second language to the first
    skip_bad_rows: bool = False  # leave out rows that cannot be used, and list them
    beams: int | None = None  # unfinished translations that are pursued at a time; 1 is greedy
    length_penalty: float | None = None  # more than 1 favours longer translations
    json: bool = False  # print the scores as JSON


def main(verb: str, arguments: list[str]) -> int:
    asked = parse(Arguments, arguments, program="regard evaluate")
    check_folder(asked.model)
    given = {"beams": asked.beams, "length_penalty": asked.length_penalty}
    search = {name: value for name, value in given.items() if value is not None}
    SearchConfig(**search)  # type: ignore[arg-type] # what is wrong with it is said before anything is loaded
    from regard.api import evaluate
    from regard.tasks.folders import load_translator

    scores = evaluate(
        load_translator(asked.model),
        asked.data,
        columns=asked.columns,
        reverse=asked.reverse,
        skip_bad_rows=asked.skip_bad_rows,
        progress=True,
        **search,
    )
    if asked.json:
        answer_json([{"name": s.name, "value": s.value, "signature": s.signature} for s in scores])
    else:
        for score in scores:
            answer(str(score))
    return 0
