"""`regard fill`: guess missing words."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import tyro

from regard.checkpoint.presence import check_folder
from regard.cli.flags import parse
from regard.cli.input import read_stdin
from regard.cli.output import answer, answer_json, note
from regard.errors import UsageError

if TYPE_CHECKING:
    from regard.tasks.fill import Filled, Filler


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """The likeliest words for every [MASK] of a text, with their probabilities.

    The model is one of `regard train fill`, or a folder of BERT's with a head for masked words.
    """

    model: tyro.conf.Positional[Path]  # a model folder
    text: tyro.conf.Positional[str]  # a text with [MASK] where a word is missing; - reads texts from stdin, one a line
    top: int = 5  # how many words for each gap
    all: bool = False  # every piece of the vocabulary with its probability, in alphabetical order
    json: bool = False  # print a JSON object for each text


def main(verb: str, arguments: list[str]) -> int:
    asked = parse(Arguments, arguments, program="regard fill")
    check_folder(asked.model)
    if asked.top < 1:
        raise UsageError(f"--top must be at least 1, not {asked.top}.")
    from regard.tasks.folders import load_filler

    filler = load_filler(asked.model)
    texts = [line for line in read_stdin().split("\n") if line.strip()] if asked.text == "-" else [asked.text]
    for text in texts:
        filled = filler.fill(text, top=filler.tokenizer.vocab_size if asked.all else asked.top)
        if filled.is_cut:
            room = filler.model.config.context
            note(f"the text is longer than the {room} tokens that the model reads: of it, what is near a gap was read")
        _print(filler, filled, asked)
    return 0


def _print(filler: Filler, filled: Filled, asked: Arguments) -> None:
    masks = [sorted(words, key=lambda one: one.word) if asked.all else words for words in filled.masks]
    if asked.json:
        words = [[{"word": one.word, "probability": one.probability} for one in mask] for mask in masks]
        answer_json({"text": filled.text, "best": filled.best, "masks": words})
        return
    for number, mask in enumerate(masks, start=1):
        if len(masks) > 1:
            answer(f"{filler.mask} {number}")
        for one in mask:
            answer(f"{one.probability:7.2%}  {one.word}")
    answer(f"→ {filled.best}")
