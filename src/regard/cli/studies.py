"""`regard senses` and `regard transfer`: what an encoder has learned, measured and drawn."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import tyro

from regard.checkpoint.probe import check_folder
from regard.cli.options import Section, option, parse
from regard.cli.output import check_drawing, print_line, print_result
from regard.utils.errors import UsageError, print_message


@dataclass(frozen=True, kw_only=True)
class SensesArguments:
    """Measure which layer of an encoder separates the senses of a word.

    For each layer, show how often the nearest other sentence uses the word in the same sense, compared with the
    majority baseline and the static (input) embedding of the word. SENTENCES is a table (.tsv, .csv, .jsonl) with the
    columns word, sense and sentence; the default is a built-in set of sentences with bank, spring and run.
    """

    model: tyro.conf.Positional[Path] = option("Folder of an encoder.")
    sentences: tyro.conf.Positional[tuple[Path, ...]] = option("Table with the columns word, sense and sentence.", ())
    out: Path | None = option("Write accuracy by layer and a map of the vectors: .html, .svg or .png.", None)
    near: str | None = option("Show the sentences nearest to this one, which must contain one of the words.", None)
    word: str | None = option("With --near: the word to compare, if the sentence has several of the words.", None)
    layer: str | None = option("With --near: layer to compare, a number or static (default: the last).", None)
    top: int = option("With --near: number of sentences to show.", 5)
    skip_bad_rows: bool = option("Skip unusable rows and list them.", False)
    force: bool = option("Replace an existing file.", False)
    json: bool = option("Print the numbers as JSON.", False)


@dataclass(frozen=True, kw_only=True)
class TransferArguments:
    """Measure the benefit of pretraining: train classifiers from pretrained and from random weights.

    Both classifiers are trained on the same samples of DATA, a table of labelled texts (.tsv, .csv, .jsonl), with the
    same tokenizer and shape. The default of DATA is the built-in set of opinions.
    """

    model: tyro.conf.Positional[Path] = option("Folder of an encoder.")
    data: tyro.conf.Positional[tuple[Path, ...]] = option("Table with texts and labels.", ())
    validation: Path | None = option("File to score on (default: a tenth of DATA is held out).", None)
    text_column: str | None = option("Name or number of the column with the texts.", None)
    label_column: str | None = option("Name or number of the column with the labels.", None)
    skip_bad_rows: bool = option("Skip unusable rows and list them.", False)
    out: Path | None = option("Write both curves: .html, .svg or .png.", None)
    force: bool = option("Replace an existing file.", False)
    json: bool = option("Print the numbers as JSON.", False)


def main(verb: str, words: list[str]) -> None:
    if verb == "senses":
        _measure_senses(parse(SensesArguments, words, program="regard senses")[0])
        return
    from regard.experiments.transfer import TransferConfig

    args, settings = parse(TransferArguments, words, program="regard transfer", sections=[Section(TransferConfig)])
    _measure_transfer(args, settings)


def _measure_senses(args: SensesArguments) -> None:
    _check_arguments(args, args.sentences, "sentences")
    if args.near is None:
        for name, value in (("word", args.word), ("layer", args.layer)):
            if value is not None:
                raise UsageError(f"--{name} needs --near.", argument=name, value=value)
    elif args.out is not None:
        raise UsageError("--near conflicts with --out. Remove one of them.", argument="near")
    if args.top < 1:
        raise UsageError(f"--top must be at least 1, got {args.top}.", argument="top", value=args.top)
    if args.skip_bad_rows and not args.sentences:
        raise UsageError("--skip-bad-rows needs a file of sentences. Add one, or remove it.", argument="skip_bad_rows")
    from regard.data.senses import read_senses, synthetic_senses

    sentences = synthetic_senses()
    for path in args.sentences:
        table = read_senses(path, skip_bad_rows=args.skip_bad_rows)
        sentences = table.examples
        for line in table.notes():
            print_message(line)
    from regard.api import load
    from regard.inspection.senses import nearest_sentences, word_senses
    from regard.views.studies import senses_view

    model = load(args.model)
    if args.near is not None:
        nearest = nearest_sentences(model, args.near, sentences, word=args.word, layer=args.layer, count=args.top)
        record = {"text": args.near, "nearest": [asdict(sentence) for sentence in nearest]}
        print_result(record, [f"{near.cosine:.3f}  {near.sense}  {near.text}" for near in nearest], as_json=args.json)
    else:
        _print_study(args, word_senses(model, sentences), senses_view, "Same word, other meaning")


def _measure_transfer(args: TransferArguments, settings: dict[str, Any]) -> None:
    from regard.experiments.transfer import TransferConfig, transfer_curve
    from regard.views.studies import transfer_view

    config = TransferConfig(**settings)
    _check_arguments(args, args.data, "data")
    columns = {"text": args.text_column, "label": args.label_column}
    curve = transfer_curve(
        args.model,
        args.data[0] if args.data else None,
        validation=args.validation,
        columns={role: name for role, name in columns.items() if name is not None},
        skip_bad_rows=args.skip_bad_rows,
        config=config,
        notify=print_message,
    )
    _print_study(args, curve, transfer_view, "Benefit of pretraining")


def _check_arguments(args: SensesArguments | TransferArguments, files: tuple[Path, ...], argument: str) -> None:
    """Raise for arguments that are wrong for every model."""
    check_folder(args.model)
    if len(files) > 1:
        message = f"{argument.upper()} must be one table, got {len(files)} files."
        raise UsageError(message, argument=argument, value=len(files))
    if args.out is not None:
        check_drawing(args.out, force=args.force)


def _print_study(args: SensesArguments | TransferArguments, study: Any, draw: Any, title: str) -> None:
    print_result(study.numbers(), study.lines(), as_json=args.json)
    if args.out is not None:
        draw(study, title=f"{title}: {args.model.name}").save(args.out)
        if not args.json:
            print_line(str(args.out))
