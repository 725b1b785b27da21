"""What the benchmarks share: their data."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regard.data.pairs import Pair, read_pairs
from regard.data.world.translation import sentences

# The translator of the Multi30k benchmarks: small, because 29,000 pairs are few.
MULTI30K_SHAPE: dict[str, Any] = dict(
    size="tiny",
    encoder_layers=4,
    decoder_layers=4,
    width=128,
    hidden=256,
    pieces=4000,
    separate_vocabularies=True,
    dropout=0.15,
    batch_tokens=4096,
)


def data_folder(asked: Path | None, name: str) -> Path | None:
    """The folder of a data set: what was asked for, or REGARD_DATA/name, or ../shared/data/name; None if absent."""
    places = [asked] if asked else [Path(os.environ.get("REGARD_DATA", "../shared/data")) / name]
    return next((place for place in places if place.is_dir()), None)


def multi30k_pairs(asked: Path | None, target: str = "de") -> tuple[Sequence[Pair], Sequence[Pair]]:
    """Training and validation pairs of Multi30k, or of the built-in world where it is missing."""
    folder = data_folder(asked, "multi30k")
    if folder is None:
        print("Multi30k was not found: using the built-in world")
        train, validation = ([Pair(s.source, s.target) for s in sentences(split)] for split in ("train", "validation"))
        return train, validation
    train, validation = (
        read_pairs([folder / f"{split}.en.gz", folder / f"{split}.{target}.gz"]).pairs for split in ("train", "val")
    )
    return train, validation
