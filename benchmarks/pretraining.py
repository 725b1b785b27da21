"""Pre-train BERT for half an hour on classic books and WikiText-2, and score it on held-out text.

    python benchmarks/pretraining.py [--minutes 30] [--out runs/bert]

The validation text is the beginning of every fortieth book and the validation split of WikiText-2. The scores are the
accuracy on masked words, beside always predicting the most frequent word and the most frequent one after the previous
word, and the accuracy of next-sentence prediction, beside 50 %. At the end the model fills some masks. Without the data
(--data, or the environment variable REGARD_DATA) the built-in stories are used.
"""

from __future__ import annotations

import argparse
import gzip
import re
from pathlib import Path
from typing import Any

from common import data_folder
from regard.api import run_training
from regard.tasks.fill.predictor import MaskFiller
from regard.training.callbacks import default_progress

HELD_OUT = 40  # one book in this many is held out
BEGINNING = 150_000  # characters of a held-out book
MASKED = (
    "Amazon [MASK] amazing.",
    "The capital of France is [MASK].",
    "She opened the [MASK] and looked out of the window.",
    "He was born in [MASK] and died in London.",
    '"I do not know," said the old [MASK].',
    "The film was [MASK] by Steven Spielberg.",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--data", type=Path, help="the folder that holds classic_books and wikitext2")
    parser.add_argument("--out", type=Path, default=Path("runs/bert"))
    parser.add_argument("--size", default=None)
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("settings", nargs="*", help="other settings, such as learning_rate=0.004")
    asked = parser.parse_args()
    settings: dict[str, Any] = {"minutes": asked.minutes, **dict(_setting(text) for text in asked.settings)}
    progress = default_progress()
    train, validation = write_texts(asked.data, asked.out.with_name(f"{asked.out.name}-texts"))
    try:
        run = run_training(
            "fill",
            train,
            out=asked.out,
            validation=validation,
            size=asked.size,
            progress=progress,
            resume=asked.resume,
            force=not asked.resume,
            **settings,
        )
    finally:
        progress.close()
    print(f"{run.state.step:,} steps, {run.state.seconds / 60:.1f} minutes; on {run.scored_on}:")
    for score in run.scores:
        print(f"  {score}")
    for text in MASKED:
        print(filled(run.predictor, text))


def write_texts(asked: Path | None, place: Path) -> tuple[list[Path] | None, list[Path] | None]:
    """Training and validation text, as files; those in `place` are reused, and so are their cached ids."""
    books, articles = (data_folder(asked / name if asked else None, name) for name in ("classic_books", "wikitext2"))
    if books is None or articles is None:
        print("classic_books and wikitext2 were not found: using the built-in synthetic dataset")
        return None, None
    train, validation = place / "books-train.txt", place / "books-held.txt"
    if not (train.exists() and validation.exists()):
        place.mkdir(parents=True, exist_ok=True)
        _part(books, train, validation)
    return [train, articles / "train.raw.gz"], [validation, articles / "valid.raw.gz"]


def _part(books: Path, train: Path, validation: Path) -> None:
    """Write most of the books to one file and the beginnings of the others to another."""
    with gzip.open(books / "corpus.txt.gz", "rt", encoding="utf-8") as file:
        found = [book for book in re.split(r"(?m)^(?=# Title: )", file.read()) if book.strip()]
    validation_set = [book[:BEGINNING].rpartition("\n")[0] for book in found[::HELD_OUT]]
    kept = [book for number, book in enumerate(found) if number % HELD_OUT]
    print(f"{len(kept)} books for training, {len(validation_set)} for validation")
    for path, some in ((train, kept), (validation, validation_set)):
        path.write_text("\n".join(some), encoding="utf-8")


def filled(filler: MaskFiller, text: str) -> str:
    [candidates] = filler(text).masks
    return f"{text}\n    {', '.join(f'{item.token} {item.score:.0%}' for item in candidates)}"


def _setting(text: str) -> tuple[str, Any]:
    name, _, value = text.partition("=")
    try:
        return name, float(value) if "." in value or "e" in value else int(value)
    except ValueError:
        return name, value


if __name__ == "__main__":
    main()
