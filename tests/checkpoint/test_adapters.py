"""The base of an adapter is identified by a checksum of its weights, independent of location and file format."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import torch

from regard.checkpoint.predictors import BaseReference, base_tensors, weights_checksum
from regard.utils.config import from_dict, to_dict
from regard.utils.errors import FolderError, UsageError

TENSORS = {"a": torch.arange(6.0).view(2, 3), "b": torch.tensor(7)}
SUM = weights_checksum(TENSORS)


def test_a_checksum_depends_on_names_dtypes_shapes_and_values() -> None:
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


def test_locations_are_tried_in_order(tmp_path: Path) -> None:
    base, adapter = tmp_path / "models" / "base", tmp_path / "runs" / "adapter"
    for folder in (base, adapter):
        folder.mkdir(parents=True)
    reference = BaseReference.relative_to(adapter, name="base", base=base, checksum=SUM)
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


@pytest.mark.parametrize("error", [FolderError, UsageError])
def test_locations_that_cannot_be_read_are_skipped(tmp_path: Path, error: type[Exception]) -> None:
    """A location with other content does not stop the search."""
    adapter = tmp_path / "adapter"
    for folder in (tmp_path / "small", adapter / "base"):
        folder.mkdir(parents=True)
    reference = BaseReference.relative_to(adapter, name="small", base=tmp_path / "small", checksum=SUM)

    def read(place: Path) -> dict[str, torch.Tensor]:
        if place == adapter / "base":
            raise error("no model at all")
        return TENSORS

    assert base_tensors(adapter, reference, read) is TENSORS
    (tmp_path / "small").rmdir()
    with pytest.raises(FolderError) as told:
        base_tensors(adapter, reference, read)
    assert str(adapter / "base") in str(told.value)


def places(folder: Path, reference: BaseReference) -> list[str]:
    """The locations that are searched, relative to the folder of the adapter."""
    return [Path(os.path.relpath(place.resolve(), folder)).as_posix() for place in reference.candidates(folder)]


def test_a_reference_has_no_absolute_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    adapter, base = tmp_path / "runs" / "adapter", tmp_path / "models" / "small"
    for folder in (adapter, base):
        folder.mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    for name, kept in ((str(base), "small"), ("models/small", "models/small"), ("../x/small", "../x/small")):
        reference = BaseReference.relative_to(adapter, name=name, base=base, checksum=SUM)
        assert (reference.name, reference.relative, reference.path) == (kept, "../../models/small", "")
        assert str(tmp_path) not in json.dumps(to_dict(reference))
    named = BaseReference.relative_to(adapter, name="models/small", base=base, checksum=SUM)
    assert places(adapter, named) == ["base", "../../models/small", "../../models/small", "../small"]


@pytest.mark.parametrize("place", ["moved together", "within", "as it was called", "beside"])
def test_a_base_is_found_after_a_move(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    (tmp_path / "runs" / "adapter").mkdir(parents=True)
    reference = BaseReference.relative_to(
        tmp_path / "runs" / "adapter", name="models/small", base=tmp_path / "models" / "small", checksum=SUM
    )
    elsewhere = tmp_path / "elsewhere"
    adapter = elsewhere / "runs" / "adapter"
    base = {
        "moved together": elsewhere / "models" / "small",
        "within": adapter / "base",
        "as it was called": tmp_path / "work" / "models" / "small",
        "beside": elsewhere / "runs" / "small",
    }[place]
    for folder in (adapter, base, tmp_path / "work"):
        folder.mkdir(parents=True, exist_ok=True)
    monkeypatch.chdir(tmp_path / "work")
    seen: list[Path] = []

    def read(folder: Path) -> dict[str, torch.Tensor]:
        seen.append(folder.resolve())
        return TENSORS

    assert base_tensors(adapter, reference, read) is TENSORS
    assert seen == [base]


def test_a_folder_of_an_earlier_version_still_finds_its_base(tmp_path: Path) -> None:
    """Such a folder has the absolute path of its base, and a name that may also be a path."""
    base, adapter = tmp_path / "base-of-old", tmp_path / "moved" / "away" / "adapter"
    for folder in (base, adapter):
        folder.mkdir(parents=True)
    old = {"name": str(base), "checksum": SUM, "path": base.as_posix(), "relative": "../gone"}
    assert base_tensors(adapter, from_dict(BaseReference, old), lambda place: TENSORS) is TENSORS


def test_a_hub_base_is_searched_only_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from regard.checkpoint import predictors

    monkeypatch.setattr(predictors, "cached_folder", lambda name: tmp_path / "kept")
    reference = BaseReference.relative_to(tmp_path, name="hf:owner/name", base=tmp_path / "kept", checksum=SUM)
    assert (reference.path, reference.relative) == ("", "")
    assert reference.candidates(tmp_path / "m") == [tmp_path / "m" / "base", tmp_path / "kept"]
    monkeypatch.setattr(predictors, "cached_folder", lambda name: None)
    with pytest.raises(FolderError):
        base_tensors(tmp_path / "m", reference, lambda place: TENSORS)
