"""`regard plan`: what a model costs, without building it."""

from __future__ import annotations

from dataclasses import dataclass

import tyro

from regard.cli.flags import parse
from regard.cli.output import answer, answer_json


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Parameters, memory and compute of a translator of a given size, without building it."""

    preset: tyro.conf.Positional[str]  # tiny, small, base, large, transformer-base, transformer-big, transformer-big-fr
    vocab_size: int | None = None  # pieces of the vocabulary (8,000, or the paper's own number for transformer-…)
    recipe: str | None = None  # default or paper: norms, positions and biases (as in training: paper for transformer-…)
    batch_tokens: int = 4096  # tokens of a batch, for the memory of training
    json: bool = False  # print the plan as JSON


def main(verb: str, arguments: list[str]) -> int:
    asked = parse(Arguments, arguments, program="regard plan")
    from regard.training.costs import plan

    found = plan(asked.preset, vocab_size=asked.vocab_size, recipe=asked.recipe, batch_tokens=asked.batch_tokens)
    if asked.json:
        answer_json(found.as_dict())
    else:
        answer(str(found))
    return 0
