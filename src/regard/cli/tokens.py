"""`regard tokens`: how a text is cut into pieces."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tyro

from regard.checkpoint.presence import check_folder
from regard.cli.flags import parse
from regard.cli.output import answer, answer_json, check_free

COLOURS = ("on bright_cyan", "on bright_yellow", "on bright_green", "on bright_magenta", "on bright_blue")


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Show the pieces of a text in colour, with their ids and the merges that made them."""

    model: tyro.conf.Positional[Path]  # a model folder
    text: tyro.conf.Positional[str]  # the text to cut
    side: Literal["source", "target"] = "source"  # whose vocabulary, where the two languages have their own
    out: Path | None = None  # write the coloured view as a page (.html) or picture (.svg, .png) too
    force: bool = False  # replace a file that is already there
    json: bool = False  # print the pieces as JSON


def main(verb: str, arguments: list[str]) -> int:
    asked = parse(Arguments, arguments, program="regard tokens")
    check_folder(asked.model)
    from regard.checkpoint.folder import read_config
    from regard.tasks.folders import read_tokenizers
    from regard.text.tokenizer import KINDS_WITH_MERGES

    vocabularies = read_tokenizers(asked.model, read_config(asked.model))
    tokenizer = vocabularies.source if asked.side == "source" else vocabularies.target
    pieces = tokenizer.pieces(asked.text)
    merges = tokenizer.derivation(asked.text) if tokenizer.kind in KINDS_WITH_MERGES else None
    if asked.out is not None:
        from regard.views.tokens import TokenColumn, tokens_view

        check_free(asked.out, force=asked.force)
        shown = [(piece.text, piece.token, piece.id) for piece in pieces]
        column = TokenColumn(name=tokenizer.kind, pieces=shown, derivations=merges)
        tokens_view([column], title=asked.text).save(asked.out)
    if asked.json:
        values = [{"token": p.token, "id": p.id, "text": p.text, "start": p.start, "end": p.end} for p in pieces]
        answer_json({"text": asked.text, "kind": tokenizer.kind, "pieces": values, "merges": merges})
        return 0
    from rich.console import Console
    from rich.text import Text

    coloured = Text()
    for number, piece in enumerate(pieces):
        coloured.append(piece.text, style=f"black {COLOURS[number % len(COLOURS)]}")
    console = Console(file=sys.stdout, highlight=False, soft_wrap=True)
    console.print(coloured)
    for piece in pieces:
        answer(f"{piece.id:>7}  {piece.token}")
    for word in merges or ():
        answer("")
        answer("\n".join(word))
    return 0
