"""`regard look`: what a model attends to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tyro

from regard.checkpoint.presence import check_folder
from regard.cli.flags import parse
from regard.cli.output import answer, answer_json, check_free, note_if_cut_off
from regard.errors import UsageError

if TYPE_CHECKING:
    from regard.tasks.classify import Classifier
    from regard.tasks.embed import Embedder
    from regard.tasks.generate import Writer
    from regard.tasks.tag import Tagger
    from regard.tasks.translate import Translation, Translator
    from regard.views.attention import AttentionMap
    from regard.views.ranks import Ranks
    from regard.views.view import View


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Draw what a model attends to: heat maps and lines, for every layer and head, on one offline page.

    Of a translator it is the attention of one translation, of a language model or a BERT that over a text.
    """

    model: tyro.conf.Positional[Path]  # a model folder
    text: tyro.conf.Positional[str]  # the sentence to translate, or the text to read
    out: Path = Path("look.html")  # the page (.html), or a still picture (.svg, .png)
    target: str | None = None  # look at this translation instead of the model's own
    # draw how one attention is computed, in five steps; alone: of the encoder's first, or say which: decoder.0.cross
    steps: tuple[str, ...] | None = None
    targets: bool = False  # of a language model: what each position sees, has to guess, and how well it does
    ranks: bool = False  # of a language model: the spectra of its value matrices, and the text's loss by their rank
    force: bool = False  # replace a file that is already there
    json: bool = False  # print the weights (or the numbers of the steps) as JSON instead of writing a page


def main(verb: str, arguments: list[str]) -> int:
    asked = parse(Arguments, arguments, program="regard look")
    check_folder(asked.model)
    from regard.api import load, look
    from regard.tasks.translate import Translator

    if not asked.text.strip():
        raise UsageError("there is no text to look at: give a sentence.")
    if not asked.json:
        check_free(asked.out, force=asked.force)
    if asked.steps and len(asked.steps) > 1:
        raise UsageError(f"--steps draws one attention, not {len(asked.steps)}: {', '.join(asked.steps)}.")
    translator = load(asked.model)
    if asked.targets + asked.ranks + (asked.steps is not None) > 1:
        raise UsageError("--steps, --targets and --ranks are pages of their own: ask for one at a time.")
    if not isinstance(translator, Translator):
        return _look_at_reading(translator, asked)
    if asked.targets or asked.ranks:
        raise UsageError("--targets and --ranks are for language models: `regard train generate` makes one.")
    target = _target(translator, asked)
    if asked.json and asked.steps is not None:
        from regard.inspection.steps import translation_steps

        steps = translation_steps(translator, asked.text, target=target, address=next(iter(asked.steps), None))
        answer_json({"source": asked.text, **steps.numbers()})
        return 0
    if asked.json:
        from regard.views.traces import trace_maps

        maps = trace_maps(translator.trace(asked.text, target))
        answer_json({"source": asked.text, "target": str(target), "attention": _weights(maps)})
        return 0
    drawn: bool | str = False if asked.steps is None else next(iter(asked.steps), True)
    look(translator, asked.text, target=target, steps=drawn).save(asked.out)
    answer(str(asked.out))
    return 0


def _target(translator: Translator, asked: Arguments) -> str | Translation | None:
    """The translation to look at: the one given or the model's own. The steps of an encoder need none."""
    address = "" if not asked.steps else asked.steps[0]
    if asked.target is not None or (asked.steps is not None and not address.startswith("decoder")):
        return asked.target
    output = translator(asked.text)
    note_if_cut_off(asked.text, output)
    return output


def _look_at_reading(model: Writer | Embedder | Classifier | Tagger, asked: Arguments) -> int:
    """What a language model or a BERT attends to while it reads."""
    from regard.api import look
    from regard.tasks.generate import Writer
    from regard.views.traces import trace_maps

    if asked.target is not None or asked.steps is not None:
        raise UsageError("--target and --steps are for translators; a language model reads the text as it stands.")
    if asked.targets or asked.ranks:
        if not isinstance(model, Writer):
            raise UsageError("--targets and --ranks are for language models, and this is a BERT.")
        return _learning(model, asked)
    if asked.json:
        answer_json({"text": asked.text, "attention": _weights(trace_maps(model.trace(asked.text)))})
    else:
        look(model, asked.text).save(asked.out)
        answer(str(asked.out))
    return 0


def _learning(writer: Writer, asked: Arguments) -> int:
    """The triangle of training, or the ranks of the values."""
    view: View
    if asked.targets:
        from regard.inspection.causal import causal_training
        from regard.views.causal import causal_view

        training = causal_training(writer, asked.text)
        numbers, view = training.numbers(), causal_view(training, title=asked.text)
    else:
        from regard.inspection.ranks import value_ranks
        from regard.views.ranks import ranks_view

        ranks = value_ranks(writer, asked.text)
        numbers, view = ranks.numbers(), ranks_view(ranks, title=asked.text)
    if asked.json:
        answer_json({"text": asked.text, **numbers})
    else:
        answer("\n".join(training.lines()) if asked.targets else _by_rank(ranks))
        view.save(asked.out)
        answer(str(asked.out))
    return 0


def _by_rank(ranks: Ranks) -> str:
    return "\n".join(f"rank {rank:>4}  loss {loss:.4f}" for rank, loss in ranks.losses.items())


def _weights(maps: Sequence[AttentionMap]) -> list[dict[str, Any]]:
    return [
        {"address": m.address, "rows": list(m.rows), "columns": list(m.columns), "weights": m.weights.tolist()}
        for m in maps
    ]
