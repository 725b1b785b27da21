"""`regard tokens`: show the tokens of a text or of the words of a file, and save the merges of a tokenizer."""

from __future__ import annotations

import csv
import io
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import tyro

from regard.checkpoint.probe import check_folder
from regard.cli.options import option, parse
from regard.cli.output import check_drawing, check_free, print_json, print_line, print_result
from regard.utils.errors import UsageError

if TYPE_CHECKING:
    from regard.tokenizers.tokenizer import Tokenizer

COLORS = ("on bright_cyan", "on bright_yellow", "on bright_green", "on bright_magenta", "on bright_blue")
NUM_SHOWN = 10  # words in each list of --frequency


@dataclass(frozen=True, kw_only=True)
class TokensArguments:
    """Show the tokens of a text in color, with their ids and the merges that formed them.

    With --frequency instead of TEXT, show whether rare words have more tokens. The output lists the most frequent words
    of a file, the words with the most tokens, and the Spearman correlation of word count and number of tokens (null in
    JSON if it is undefined because all words have the same number of tokens). With --save-merges, write the vocabulary
    and merges of a BPE tokenizer.
    """

    model: tyro.conf.Positional[Path] = option("Model folder.")
    text: tyro.conf.Positional[tuple[str, ...]] = option("Text to tokenize, in quotes.", ())
    side: Literal["source", "target"] = option("Which tokenizer of a translator to use.", "source")
    frequency: Path | None = option("Count the words of this text file or table.", None)
    text_column: str | None = option("With --frequency: name or number of the column with the texts.", None)
    save_merges: Path | None = option("Folder in which to save vocab.json and merges.txt (the format of GPT-2).", None)
    out: Path | None = option("Also write a file: colored tokens as .html, .svg or .png; --frequency as .csv.", None)
    force: bool = option("Replace existing files.", False)
    json: bool = option("Print JSON; with --frequency, it includes all words.", False)


def main(verb: str, words: list[str]) -> None:
    args, _ = parse(TokensArguments, words, program="regard tokens")
    check_folder(args.model)
    _check(args)
    from regard.checkpoint.predictors import open_folder

    folder, own = open_folder(args.model), f"tokenizer.{args.side}.json"
    tokenizer = folder.tokenizer(own if folder.has_text(own) else "tokenizer.json")
    if args.frequency is not None:
        _show_frequency(args, args.frequency, tokenizer)
    elif args.save_merges is not None:
        vocab, merges = map(str, tokenizer.save_merges(args.save_merges))
        print_result({"vocab": vocab, "merges": merges}, [vocab, merges], as_json=args.json)
    else:
        _show_tokens(args, tokenizer)


def _check(args: TokensArguments) -> None:
    """Raise for wrong arguments before the tokenizer is loaded."""
    given = {"text": args.text, "frequency": args.frequency, "save_merges": args.save_merges}
    used = [name for name, value in given.items() if value not in ((), None)]
    if len(used) != 1 or len(args.text) > 1:
        message = "give either one TEXT in quotes, --frequency FILE or --save-merges FOLDER."
        raise UsageError(message, argument="text", value=args.text, allowed=given)
    if args.text_column is not None and args.frequency is None:
        raise UsageError("--text-column needs --frequency.", argument="text_column", value=args.text_column)
    if args.save_merges is not None:
        from regard.tokenizers.tokenizer import MERGES_FILES

        if args.out is not None:
            message = f"--out conflicts with --save-merges, which writes {' and '.join(MERGES_FILES)}. Remove --out."
            raise UsageError(message, argument="out", value=str(args.out))
        for file in (args.save_merges / name for name in MERGES_FILES):
            if file.exists() and not args.force:
                message = f"{file} exists. Choose another folder, or replace it with --force."
                raise UsageError(message, argument="save_merges", value=str(args.save_merges), path=file)
    elif args.out is not None and args.frequency is None:
        check_drawing(args.out, force=args.force)
    elif args.out is not None:
        check_free(args.out, force=args.force)
        if args.out.suffix != ".csv":
            message = f"--out {args.out} must end in .csv with --frequency."
            raise UsageError(message, argument="out", value=args.out.suffix, allowed=[".csv"], path=args.out)


def _show_tokens(args: TokensArguments, tokenizer: Tokenizer) -> None:
    from regard.tokenizers.tokenizer import KINDS_WITH_MERGES

    (text,) = args.text
    spans = tokenizer.token_spans(text)
    merges = tokenizer.derivation(text) if tokenizer.kind in KINDS_WITH_MERGES else None
    if args.out is not None:
        from regard.views.tokens import TokenColumn, tokens_view

        shown = [(span.text, span.token, span.id) for span in spans]
        column = TokenColumn(name=tokenizer.kind, tokens=shown, derivations=merges)
        tokens_view([column], title=text).save(args.out)
    if args.json:
        values = [{"token": p.token, "id": p.id, "text": p.text, "start": p.start, "end": p.end} for p in spans]
        print_json({"text": text, "kind": tokenizer.kind, "tokens": values, "merges": merges})
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


def _show_frequency(args: TokensArguments, file: Path, tokenizer: Tokenizer) -> None:
    from regard.data.inputs import read_texts
    from regard.metrics.labels import spearman
    from regard.tokenizers.frequency import frequency_table
    from regard.utils.atomic_files import write_file

    table = frequency_table(tokenizer, read_texts(file, text_column=args.text_column), file)
    counts, lengths = [row.count for row in table], [row.num_tokens for row in table]
    is_defined = len(set(counts)) > 1 and len(set(lengths)) > 1
    correlation = spearman(counts, lengths).value / 100 if is_defined else None
    shown_correlation = "undefined, one of them is constant" if correlation is None else f"{correlation:.3f}"
    if args.out is not None:
        content = io.StringIO(newline="")
        rows = ((row.word, row.count, row.num_tokens) for row in table)
        csv.writer(content).writerows([("word", "count", "tokens"), *rows])
        write_file(args.out, content.getvalue(), parents=True)
    most_split = sorted(table, key=lambda row: -row.num_tokens)
    lines = [
        f"{sum(row.count for row in table):,} words, {len(table):,} of them different; {tokenizer.kind} tokenizer",
        f"Spearman correlation of count and number of tokens: {shown_correlation}",
    ]
    for title, shown in (("most frequent", table), ("most split", most_split)):
        lines += ["", f"{'count':>9}  tokens  {title} words"]
        lines += [f"{row.count:>9,}  {row.num_tokens:>6}  {row.word}" for row in shown[:NUM_SHOWN]]
    values = [{"word": row.word, "count": row.count, "tokens": row.num_tokens} for row in table]
    record = {"kind": tokenizer.kind, "spearman": correlation, "words": values}
    print_result(record, lines, as_json=args.json)
