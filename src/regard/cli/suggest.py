"""`regard suggest`: the likeliest next words."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import tyro

from regard.checkpoint.presence import check_folder
from regard.cli.flags import parse
from regard.cli.output import answer, answer_json, note
from regard.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """The likeliest next words of a text, or the likeliest ends of a word that has begun, with their probabilities."""

    model: tyro.conf.Positional[Path]  # a model folder
    text: tyro.conf.Positional[str]  # the text so far
    n: int = 5  # how many words
    precision: Literal["fp32", "int8", "int4"] = "fp32"  # of the weights: fewer bits are read faster
    json: bool = False  # print the words as JSON


def main(verb: str, arguments: list[str]) -> int:
    asked = parse(Arguments, arguments, program="regard suggest")
    check_folder(asked.model)
    if asked.n < 1:
        raise UsageError(f"--n must be at least 1, not {asked.n}.")
    from regard.tasks.folders import load_writer

    found = load_writer(asked.model, asked.precision).suggest(asked.text, asked.n)
    if not found:
        note("no word of this model begins so. Suggestions follow a space, or the beginning of a word that it knows.")
    if asked.json:
        answer_json([asdict(one) for one in found])
    else:
        for one in found:
            answer(f"{one.probability:7.2%}  {one.word}")
    return 0
