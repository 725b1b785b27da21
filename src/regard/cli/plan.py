"""`regard plan`: what a model costs, without building it."""

from __future__ import annotations

from dataclasses import dataclass

import tyro

from regard.cli.options import option, parse
from regard.cli.output import print_json, print_line


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Count parameters, memory and compute of a model of a given size, without building it."""

    preset: tyro.conf.Positional[str] = option("Size of the model: a preset that `regard models` lists.")
    model: str | None = option("Architecture, for presets that several have (default: the first that has it).", None)
    vocab_size: int | None = option("Tokens in the vocabulary (default: that of the preset or of the task).", None)
    recipe: str | None = option("Recipe of the task, for tasks that have several.", None)
    batch_tokens: int = option("Tokens of a batch, for the memory of training.", 4096)
    json: bool = option("Print the plan as JSON.", False)


def main(verb: str, arguments: list[str]) -> int:
    asked, _ = parse(Arguments, arguments, program="regard plan")
    from regard.training.plan import plan

    found = plan(
        asked.preset,
        model=asked.model,
        vocab_size=asked.vocab_size,
        recipe=asked.recipe,
        batch_tokens=asked.batch_tokens,
    )
    if asked.json:
        print_json(found.as_dict())
    else:
        print_line(str(found))
    return 0
