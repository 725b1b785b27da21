"""An adapter's base is known by its numbers, wherever it lies and however it is stored."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from regard.checkpoint.adapters import BaseReference, base_tensors, weights_checksum
from regard.errors import FolderError

TENSORS = {"a": torch.arange(6.0).view(2, 3), "b": torch.tensor(7)}
SUM = weights_checksum(TENSORS)


def test_a_checksum_is_of_names_types_shapes_and_numbers() -> None:
    assert weights_checksum(dict(reversed(TENSORS.items()))) == SUM
    assert weights_checksum({**TENSORS, "a": TENSORS["a"].T.contiguous().T}) == SUM
    changed = [
        {**TENSORS, "a": TENSORS["a"].view(3, 2)},
        {**TENSORS, "a": TENSORS["a"] + 1e-6},
        {**TENSORS, "b": torch.tensor(7.0)},
        {"a": TENSORS["a"], "c": TENSORS["b"]},
        {"a": TENSORS["a"]},
    ]
    assert len({SUM, *map(weights_checksum, changed)}) == 6


def test_places_are_tried_in_turn(tmp_path: Path) -> None:
    base, adapter = tmp_path / "models" / "base", tmp_path / "runs" / "adapter"
    for folder in (base, adapter):
        folder.mkdir(parents=True)
    reference = BaseReference.seen_from(adapter, name="base", base=base, checksum=SUM)
    assert reference.relative == "../../models/base"
    tried: list[Path] = []

    def read(place: Path) -> dict[str, torch.Tensor]:
        tried.append(place.resolve())
        return TENSORS if place.resolve() == base else {"a": torch.zeros(2, 3)}

    assert base_tensors(adapter, reference, read) is TENSORS
    assert tried == [base]
    (adapter / "base").mkdir()
    assert base_tensors(adapter, reference, read) is TENSORS, "another model in the first place is passed over"
    assert tried == [base, adapter / "base", base]


def test_a_base_of_the_hub_is_looked_for_on_the_disk_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import regard.checkpoint.adapters as adapters

    monkeypatch.setattr(adapters, "kept_folder", lambda name: tmp_path / "kept")
    reference = BaseReference.seen_from(tmp_path, name="hf:owner/name", base=tmp_path / "kept", checksum=SUM)
    assert (reference.path, reference.relative) == ("", "")
    assert reference.places(tmp_path / "m") == [tmp_path / "m" / "base", tmp_path / "kept"]
    monkeypatch.setattr(adapters, "kept_folder", lambda name: None)
    with pytest.raises(FolderError, match="those of hf:owner/name, are not there"):
        base_tensors(tmp_path / "m", reference, lambda place: TENSORS)
