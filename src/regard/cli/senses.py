"""`regard senses`: same word, other meaning."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

import tyro

from regard.checkpoint.presence import check_folder
from regard.cli.flags import parse
from regard.cli.output import answer, answer_json, check_free, note
from regard.errors import UsageError
from regard.views.view import check_format


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Same word, other meaning: does a layer's vector of a word tell in which sense it is meant?

    For every layer of a BERT of any kind: how often the nearest other sentence has the same sense, beside the majority
    and the word's static vector. SENTENCES is a table (.tsv, .csv, .jsonl) with the columns word, sense and sentence,
    with a header or without; without it the built-in world's sentences with bank, spring and run are used.
    """

    model: tyro.conf.Positional[Path]  # a model folder
    sentences: tyro.conf.Positional[tuple[Path, ...]] = ()  # a table: word, sense, sentence
    out: Path | None = None  # a page with accuracy by layer and a map of the vectors (.html), or a picture (.svg, .png)
    near: str | None = None  # a sentence of yours with one of the words: the sentences that are nearest to it
    word: str | None = None  # with --near: which word, if the sentence has several
    layer: str | None = None  # with --near: at which layer, a number or static; otherwise after the last block
    top: int = 5  # with --near: how many
    skip_bad_rows: bool = False  # leave out rows that cannot be used, and list them
    force: bool = False  # replace a file that is already there
    json: bool = False  # print the numbers as JSON


def main(verb: str, arguments: list[str]) -> int:
    asked = parse(Arguments, arguments, program="regard senses")
    check_folder(asked.model)
    _check(asked)
    from regard.data.files import skipped_rows
    from regard.data.senses import read_senses, world_senses

    sentences = world_senses()
    for path in asked.sentences:
        reading = read_senses(path, skip_bad_rows=asked.skip_bad_rows)
        sentences = reading.examples
        for line in [*reading.remarks, *skipped_rows(reading.bad)]:
            note(line)
    from regard.inspection.senses import nearest_sentences, word_senses
    from regard.tasks.folders import load_embedder

    embedder = load_embedder(asked.model)
    if asked.near is not None:
        found = nearest_sentences(embedder, asked.near, sentences, word=asked.word, layer=asked.layer, count=asked.top)
        if asked.json:
            answer_json({"text": asked.near, "nearest": [asdict(one) for one in found]})
        else:
            answer("\n".join(f"{one.cosine:.3f}  {one.sense}  {one.text}" for one in found))
        return 0
    senses = word_senses(embedder, sentences)
    if asked.json:
        answer_json(senses.numbers())
    else:
        answer("\n".join(senses.lines()))
    if asked.out is not None:
        from regard.views.senses import senses_view

        senses_view(senses, title=f"Same word, other meaning: {asked.model.name}").save(asked.out)
        if not asked.json:
            answer(str(asked.out))
    return 0


def _check(asked: Arguments) -> None:
    """What is wrong with a command whatever the model is, said before anything is loaded."""
    if asked.near is None:
        for flag, given in (("--word", asked.word), ("--layer", asked.layer)):
            if given is not None:
                raise UsageError(f"{flag} goes with --near, which finds the sentences nearest to one of yours.")
    elif asked.out is not None:
        raise UsageError("--near prints sentences, and --out draws all of them: ask for one at a time.")
    if asked.top < 1:
        raise UsageError(f"--top must be at least 1, not {asked.top}.")
    if len(asked.sentences) > 1:
        raise UsageError(f"{len(asked.sentences)} files were given; sentences are read from one table.")
    if asked.skip_bad_rows and not asked.sentences:
        raise UsageError("--skip-bad-rows needs a file of sentences; without one the built-in world is used.")
    if asked.out is not None:
        check_free(asked.out, force=asked.force)
        check_format(asked.out)
