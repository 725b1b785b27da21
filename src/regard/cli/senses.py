"""`regard senses`: which layer of an encoder separates the senses of a word."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

import tyro

from regard.checkpoint.probe import check_folder
from regard.cli.options import option, parse
from regard.cli.output import check_free, note, print_json, print_line
from regard.utils.errors import UsageError
from regard.views.view import check_format


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Measure which layer of an encoder separates the senses of a word.

    For each layer: how often the nearest other sentence uses the word in the same sense, beside the majority and the
    word's static vector. SENTENCES is a table (.tsv, .csv, .jsonl) with the columns word, sense and sentence; without
    it, built-in sentences with bank, spring and run are used.
    """

    model: tyro.conf.Positional[Path] = option("Folder of an encoder.")
    sentences: tyro.conf.Positional[tuple[Path, ...]] = option("Table with the columns word, sense and sentence.", ())
    out: Path | None = option(
        "Page with accuracy by layer and a map of the vectors (.html), or a picture (.svg, .png).", None
    )
    near: str | None = option("Sentence with one of the words: show the sentences nearest to it.", None)
    word: str | None = option("With --near: the word, if the sentence has several.", None)
    layer: str | None = option("With --near: the layer, a number or static (default: the last).", None)
    top: int = option("With --near: number of sentences.", 5)
    skip_bad_rows: bool = option("Skip unusable rows and list them.", False)
    force: bool = option("Replace an existing file.", False)
    json: bool = option("Print the numbers as JSON.", False)


def main(verb: str, arguments: list[str]) -> int:
    asked, _ = parse(Arguments, arguments, program="regard senses")
    check_folder(asked.model)
    _check(asked)
    from regard.data.senses import read_senses, synthetic_senses

    sentences = synthetic_senses()
    for path in asked.sentences:
        reading = read_senses(path, skip_bad_rows=asked.skip_bad_rows)
        sentences = reading.examples
        for line in reading.notes():
            note(line)
    from regard.api import load
    from regard.inspection.senses import nearest_sentences, word_senses

    model = load(asked.model)
    if asked.near is not None:
        found = nearest_sentences(model, asked.near, sentences, word=asked.word, layer=asked.layer, count=asked.top)
        if asked.json:
            print_json({"text": asked.near, "nearest": [asdict(sentence) for sentence in found]})
        else:
            print_line("\n".join(f"{near.cosine:.3f}  {near.sense}  {near.text}" for near in found))
        return 0
    senses = word_senses(model, sentences)
    if asked.json:
        print_json(senses.numbers())
    else:
        print_line("\n".join(senses.lines()))
    if asked.out is not None:
        from regard.views.senses import senses_view

        senses_view(senses, title=f"Same word, other meaning: {asked.model.name}").save(asked.out)
        if not asked.json:
            print_line(str(asked.out))
    return 0


def _check(asked: Arguments) -> None:
    """Refuse requests that are wrong for every model."""
    if asked.near is None:
        for name, given in (("word", asked.word), ("layer", asked.layer)):
            if given is not None:
                raise UsageError(f"--{name} needs --near.", argument=name, value=given)
    elif asked.out is not None:
        raise UsageError("--out shows all sentences and --near a few: give one of them.", argument="near")
    if asked.top < 1:
        raise UsageError(f"--top must be at least 1, not {asked.top}.", argument="top", value=asked.top)
    if len(asked.sentences) > 1:
        count = len(asked.sentences)
        raise UsageError(f"{count} files were given; give one table.", argument="sentences", value=count)
    if asked.skip_bad_rows and not asked.sentences:
        raise UsageError("--skip-bad-rows needs a file of sentences.", argument="skip_bad_rows")
    if asked.out is not None:
        check_free(asked.out, force=asked.force)
        check_format(asked.out)
