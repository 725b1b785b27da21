"""`regard look`: what a model attends to."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import tyro

from regard.cli.flags import parse
from regard.cli.output import answer, answer_json, check_free
from regard.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Draw all attention of one translation: heat maps and lines, for every layer and head, on one offline page."""

    model: tyro.conf.Positional[Path]  # a model folder
    text: tyro.conf.Positional[str]  # the sentence to translate
    out: Path = Path("look.html")  # the page (.html), or a still picture (.svg, .png)
    target: str | None = None  # look at this translation instead of the model's own
    # draw how one attention is computed, in five steps; alone: of the encoder's first, or say which: decoder.0.cross
    steps: tuple[str, ...] | None = None
    force: bool = False  # replace a file that is already there
    json: bool = False  # print the weights (or the numbers of the steps) as JSON instead of writing a page


def main(verb: str, arguments: list[str]) -> int:
    asked = parse(Arguments, arguments, program="regard look")
    from regard.api import load, look

    if not asked.text.strip():
        raise UsageError("there is no text to look at: give a sentence.")
    if not asked.json:
        check_free(asked.out, force=asked.force)
    if asked.steps and len(asked.steps) > 1:
        raise UsageError(f"--steps draws one attention, not {len(asked.steps)}: {', '.join(asked.steps)}.")
    translator = load(asked.model)
    if asked.json and asked.steps is not None:
        from regard.inspection.steps import translation_steps

        steps = translation_steps(translator, asked.text, target=asked.target, address=next(iter(asked.steps), None))
        answer_json({"source": asked.text, **steps.numbers()})
        return 0
    if asked.json:
        from regard.views.traces import trace_maps

        output = translator(asked.text) if asked.target is None else asked.target
        maps = trace_maps(translator.trace(asked.text, output))
        weights = [
            {"address": m.address, "rows": list(m.rows), "columns": list(m.columns), "weights": m.weights.tolist()}
            for m in maps
        ]
        answer_json({"source": asked.text, "target": str(output), "attention": weights})
        return 0
    drawn: bool | str = False if asked.steps is None else next(iter(asked.steps), True)
    look(translator, asked.text, target=asked.target, steps=drawn).save(asked.out)
    answer(str(asked.out))
    return 0
