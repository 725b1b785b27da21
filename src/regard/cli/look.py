"""`regard look`: what a model attends to."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import tyro

from regard.cli.flags import parse
from regard.cli.output import answer, answer_json
from regard.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Draw all attention of one translation: heat maps and lines, for every layer and head, on one offline page."""

    model: tyro.conf.Positional[Path]  # a model folder
    text: tyro.conf.Positional[str]  # the sentence to translate
    out: Path = Path("look.html")  # the page (.html), or a still picture (.svg, .png)
    target: str | None = None  # look at this translation instead of the model's own
    force: bool = False  # replace a file that is already there
    json: bool = False  # print the weights as JSON instead of writing a page


def main(verb: str, arguments: list[str]) -> int:
    asked = parse(Arguments, arguments, program="regard look")
    from regard.api import load, look

    if not asked.text.strip():
        raise UsageError("there is no text to look at: give a sentence.")
    if not asked.json and asked.out.exists() and not asked.force:
        raise UsageError(f"{asked.out} exists already: choose another --out, or replace it with --force.")
    translator = load(asked.model)
    if asked.json:
        from regard.views.traces import trace_maps

        output = translator(asked.text).text if asked.target is None else asked.target
        maps = trace_maps(translator.trace(asked.text, output))
        weights = [
            {"address": m.address, "rows": list(m.rows), "columns": list(m.columns), "weights": m.weights.tolist()}
            for m in maps
        ]
        answer_json({"source": asked.text, "target": output, "attention": weights})
        return 0
    look(translator, asked.text, target=asked.target).save(asked.out)
    answer(str(asked.out))
    return 0
