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
from regard.views.view import check_format

if TYPE_CHECKING:
    from regard.api import OnBert
    from regard.tasks.generate import Writer
    from regard.tasks.translate import Translation, Translator
    from regard.views.attention import AttentionMap
    from regard.views.causal import CausalTraining
    from regard.views.ranks import Ranks


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Draw what a model attends to: heat maps and lines, for every layer and head, on one offline page.

    Of a translator it is the attention of one translation, of a language model or a BERT that over a text; of a BERT
    also that over two texts, such as a pair, or a question with its passage.
    """

    model: tyro.conf.Positional[Path]  # a model folder
    text: tyro.conf.Positional[str]  # the sentence to translate, or the text to read
    second: tyro.conf.Positional[str] = ""  # the other text of a pair, or the passage of a question
    out: Path = Path("look.html")  # the page (.html), or a still picture (.svg, .png)
    target: str | None = None  # look at this translation instead of the model's own
    # draw how one attention is computed, in five steps; alone: of the encoder's first, or say which: decoder.0.cross
    steps: tuple[str, ...] | None = None
    targets: bool = False  # of a language model: what each position sees, has to guess, and how well it does
    ranks: bool = False  # the spectra of the value matrices, and the loss of the text or its translation by their rank
    inputs: bool = False  # of a BERT: what enters it, the sum of the vectors of token, segment and position
    force: bool = False  # replace a file that is already there
    json: bool = False  # print the numbers of the page as JSON instead of writing it


def main(verb: str, arguments: list[str]) -> int:
    asked = parse(Arguments, arguments, program="regard look")
    check_folder(asked.model)
    _check(asked)
    from regard.api import load, look
    from regard.tasks.generate import Writer
    from regard.tasks.tag import Tagger
    from regard.tasks.translate import Translator

    model = load(asked.model)
    if asked.inputs:
        return _inputs(model, asked)
    if asked.second and isinstance(model, Translator | Writer | Tagger):
        raise UsageError("this model reads one text at a time: put it in quotes, and give no second one.")
    if not isinstance(model, Translator) and (asked.target is not None or asked.steps is not None):
        raise UsageError("--target and --steps are for translators; a language model reads the text as it stands.")
    target = _target(model, asked) if isinstance(model, Translator) else None
    if asked.targets or asked.ranks:
        if not isinstance(model, Translator | Writer):
            raise UsageError("--targets and --ranks are for models that write, and this is a BERT.")
        return _learning(model, target, asked)
    if asked.json:
        answer_json(_numbers(model, target, asked))
        return 0
    drawn: bool | str = False if asked.steps is None else next(iter(asked.steps), True)
    look(model, _texts(asked), target=target, steps=drawn).save(asked.out)
    answer(str(asked.out))
    return 0


def _check(asked: Arguments) -> None:
    """What is wrong with a command whatever the model is, said before anything is loaded."""
    if not asked.text.strip():
        raise UsageError("there is no text to look at: give a sentence.")
    if not asked.json:
        check_free(asked.out, force=asked.force)
        check_format(asked.out)
    if asked.steps and len(asked.steps) > 1:
        raise UsageError(f"--steps draws one attention, not {len(asked.steps)}: {', '.join(asked.steps)}.")
    if asked.targets + asked.ranks + asked.inputs + (asked.steps is not None) > 1:
        raise UsageError("--steps, --targets, --ranks and --inputs are pages of their own: ask for one at a time.")
    if asked.inputs and asked.target is not None:
        raise UsageError("--inputs are those of a BERT, and --target gives a translator its translation.")
    if asked.targets and asked.target is not None:
        raise UsageError("--targets is for language models, and --target gives a translator its translation.")


def _texts(asked: Arguments) -> str | tuple[str, str]:
    return (asked.text, asked.second) if asked.second else asked.text


def _target(translator: Translator, asked: Arguments) -> str | Translation | None:
    """The translation to look at: the one given or the model's own. The steps of an encoder need none."""
    address = "" if not asked.steps else asked.steps[0]
    encoder_only = asked.steps is not None and not address.startswith("decoder")
    if asked.target is not None or encoder_only or asked.targets:
        return asked.target
    output = translator(asked.text)
    note_if_cut_off(asked.text, output)
    return output


def _learning(model: Translator | Writer, target: str | Translation | None, asked: Arguments) -> int:
    """The triangle of training, or the ranks of the values: as text, and as a page."""
    measured: CausalTraining | Ranks
    if asked.targets:
        from regard.inspection.causal import causal_training
        from regard.views.causal import causal_view

        measured = causal_training(model, asked.text)
        view = causal_view(measured, title=asked.text)
    else:
        from regard.inspection.ranks import value_ranks
        from regard.views.ranks import ranks_view

        measured = value_ranks(model, asked.text, target=target)
        view = ranks_view(measured, title=asked.text)
    if asked.json:
        answer_json({**_looked_at(asked, target), **measured.numbers()})
        return 0
    answer("\n".join(measured.lines()))
    view.save(asked.out)
    answer(str(asked.out))
    return 0


def _inputs(model: Translator | Writer | OnBert, asked: Arguments) -> int:
    """What enters a BERT: as lines, and as a page."""
    from regard.inspection.inputs import input_sums, title_of
    from regard.tasks.generate import Writer
    from regard.tasks.translate import Translator
    from regard.views.inputs import inputs_view

    if isinstance(model, Translator | Writer):
        raise UsageError("--inputs are those of a BERT: the vectors of token, segment and position.")
    found = input_sums(model, _texts(asked))
    if asked.json:
        second = {"second": asked.second} if asked.second else {}
        answer_json({"text": asked.text, **second, **found.numbers()})
        return 0
    answer("\n".join(found.lines()))
    inputs_view(found, title=title_of(_texts(asked))).save(asked.out)
    answer(str(asked.out))
    return 0


def _numbers(
    model: Translator | Writer | OnBert,
    target: str | Translation | None,
    asked: Arguments,
) -> dict[str, Any]:
    """The weights of every attention, or the numbers of the steps of one."""
    from regard.tasks.generate import Writer
    from regard.tasks.tag import Tagger
    from regard.tasks.translate import Translator
    from regard.views.traces import trace_maps

    if not isinstance(model, Translator | Writer | Tagger):
        second = {"second": asked.second} if asked.second else {}
        return {"text": asked.text, **second, "attention": _weights(trace_maps(model.trace(_texts(asked))))}
    if not isinstance(model, Translator):
        return {"text": asked.text, "attention": _weights(trace_maps(model.trace(asked.text)))}
    if asked.steps is not None:
        from regard.inspection.steps import translation_steps

        steps = translation_steps(model, asked.text, target=target, address=next(iter(asked.steps), None))
        return {"source": asked.text, **steps.numbers()}
    maps = trace_maps(model.trace(asked.text, target))
    return {**_looked_at(asked, target), "attention": _weights(maps)}


def _looked_at(asked: Arguments, target: str | Translation | None) -> dict[str, Any]:
    return {"text": asked.text} if target is None else {"source": asked.text, "target": str(target)}


def _weights(maps: Sequence[AttentionMap]) -> list[dict[str, Any]]:
    return [
        {"address": m.address, "rows": list(m.rows), "columns": list(m.columns), "weights": m.weights.tolist()}
        for m in maps
    ]
