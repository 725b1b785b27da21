"""`regard plan`: what a model costs, without building it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import tyro

from regard.cli.flags import parse
from regard.cli.output import answer, answer_json
from regard.errors import UsageError, unknown

if TYPE_CHECKING:
    from regard.training.costs import Plan
    from regard.training.writing_costs import WriterPlan


Task = Literal["translate", "generate"]


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Parameters, memory and compute of a translator or a language model of a given size, without building it."""

    # tiny, small, base, large, transformer-base, transformer-big, transformer-big-fr; gpt2, gpt2-medium, gpt2-large,
    # gpt2-xl, gpt3, llama-tiny, llama-7b, llama3-8b
    preset: tyro.conf.Positional[str]
    # translate or generate: which tiny, small, base or large is meant; other names say it themselves
    task: Task | None = None
    vocab_size: int | None = None  # pieces of the vocabulary (8,000 or 4,000 unless the preset brings its own)
    # of a translator, default or paper: norms, positions and biases (as in training: paper for transformer-…)
    recipe: str | None = None
    batch_tokens: int = 4096  # tokens of a batch, for the memory of training
    json: bool = False  # print the plan as JSON


def main(verb: str, arguments: list[str]) -> int:
    asked = parse(Arguments, arguments, program="regard plan")
    found = _plan(asked)
    if asked.json:
        answer_json(found.as_dict())
    else:
        answer(str(found))
    return 0


def _plan(asked: Arguments) -> Plan | WriterPlan:
    from regard.models.gpt_settings import PRESETS as WRITERS
    from regard.models.transformer_settings import PRESETS as TRANSLATORS
    from regard.training.costs import plan
    from regard.training.writing_costs import plan_writer

    if asked.preset not in {**TRANSLATORS, **WRITERS}:
        raise unknown("preset", asked.preset, {**TRANSLATORS, **WRITERS})
    size: dict[str, Any] = {"vocab_size": asked.vocab_size, "batch_tokens": asked.batch_tokens}
    task = asked.task or ("translate" if asked.preset in TRANSLATORS else "generate")
    if task == "generate":
        if asked.recipe is not None:
            raise UsageError("--recipe is for translators: a language model's preset says all of its shape.")
        return plan_writer(asked.preset, **size)
    return plan(asked.preset, recipe=asked.recipe, **size)
