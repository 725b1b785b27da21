"""`regard tokens`: how a text is split into tokens."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tyro

from regard.checkpoint.probe import check_folder
from regard.cli.options import option, parse
from regard.cli.output import check_free, print_json, print_line

COLORS = ("on bright_cyan", "on bright_yellow", "on bright_green", "on bright_magenta", "on bright_blue")


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Show the tokens of a text in color, with their ids and the merges that formed them."""

    model: tyro.conf.Positional[Path] = option("Model folder.")
    text: tyro.conf.Positional[str] = option("Text to tokenize.")
    side: Literal["source", "target"] = option("Tokenizer to use, if source and target have their own.", "source")
    out: Path | None = option("Also write the colored tokens to a file: .html, .svg or .png.", None)
    force: bool = option("Replace an existing file.", False)
    json: bool = option("Print the tokens as JSON.", False)


def main(verb: str, words: list[str]) -> None:
    args, _ = parse(Arguments, words, program="regard tokens")
    check_folder(args.model)
    from regard.checkpoint.predictors import open_folder
    from regard.tokenizers.tokenizer import KINDS_WITH_MERGES

    folder, own = open_folder(args.model), f"tokenizer.{args.side}.json"
    tokenizer = folder.tokenizer(own if folder.has_text(own) else "tokenizer.json")
    spans = tokenizer.token_spans(args.text)
    merges = tokenizer.derivation(args.text) if tokenizer.kind in KINDS_WITH_MERGES else None
    if args.out is not None:
        from regard.views.tokens import TokenColumn, tokens_view

        check_free(args.out, force=args.force)
        shown = [(span.text, span.token, span.id) for span in spans]
        column = TokenColumn(name=tokenizer.kind, tokens=shown, derivations=merges)
        tokens_view([column], title=args.text).save(args.out)
    if args.json:
        values = [{"token": p.token, "id": p.id, "text": p.text, "start": p.start, "end": p.end} for p in spans]
        print_json({"text": args.text, "kind": tokenizer.kind, "tokens": values, "merges": merges})
        return
    from rich.console import Console
    from rich.text import Text

    colored = Text()
    for number, span in enumerate(spans):
        colored.append(span.text, style=f"black {COLORS[number % len(COLORS)]}")
    console = Console(file=sys.stdout, highlight=False, soft_wrap=True)
    console.print(colored)
    for span in spans:
        print_line(f"{span.id:>7}  {span.token}")
    for word in merges or ():
        print_line("")
        print_line("\n".join(word))
