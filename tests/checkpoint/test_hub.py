"""Names of the Hugging Face Hub, without a network: a stand-in for its library records the requests."""

from __future__ import annotations

import fnmatch
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from regard.checkpoint.probe import cached_folder, is_hub_name, model_folder
from regard.utils.errors import FolderError, UsageError

REASON = "Repository Not Found for url."


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[dict[str, Any]]:
    """The requests to the library: owner/kept is in its cache, owner/far needs a download."""
    calls: list[dict[str, Any]] = []

    def snapshot_download(name: str, **options: Any) -> str:
        calls.append({"name": name, **options})
        if name == "owner/kept" or (name == "owner/far" and not options["local_files_only"]):
            return str(tmp_path / name)
        raise OSError(f"{REASON}\nThe second line says more.")

    stand_in = types.SimpleNamespace(snapshot_download=snapshot_download)
    monkeypatch.setitem(sys.modules, "huggingface_hub", stand_in)
    return calls


def test_a_path_is_a_path(asked: list[Any]) -> None:
    assert not is_hub_name("runs/hf")
    assert model_folder("runs/hf") == Path("runs/hf")
    assert asked == []


def test_a_name_is_downloaded_without_pickles(asked: list[Any], tmp_path: Path) -> None:
    assert model_folder("hf:owner/far") == tmp_path / "owner" / "far"
    (call,) = asked
    assert call["name"] == "owner/far"
    patterns = call["allow_patterns"]
    fetched = ("config.json", "model-00001-of-00002.safetensors", "tokenizer.json", "vocab.txt", "merges.txt", "x.spm")
    left = ("pytorch_model.bin", "tf_model.h5", "modeling.py", "README.md", "training.pt")
    for names, wanted in ((fetched, True), (left, False)):
        assert [any(fnmatch.fnmatch(name, pattern) for pattern in patterns) for name in names] == [wanted] * len(names)


def test_a_downloaded_model_is_found_without_the_network(asked: list[Any], tmp_path: Path) -> None:
    assert cached_folder("hf:owner/kept") == tmp_path / "owner" / "kept"
    assert cached_folder("hf:owner/far") is None
    assert all(call["local_files_only"] for call in asked)


def test_a_model_that_the_hub_does_not_have(asked: list[Any]) -> None:
    with pytest.raises(FolderError) as error:
        model_folder("hf:owner/none")
    assert error.value.value == "hf:owner/none"
    assert REASON in str(error.value), "the reason that the Hub gave"


@pytest.mark.parametrize("name", ["hf:", "hf:gpt2", "hf:a/b/c", "hf:a/ b"])
def test_a_malformed_name_is_refused(name: str, asked: list[Any]) -> None:
    with pytest.raises(UsageError) as error:
        model_folder(name)
    assert (error.value.argument, error.value.value) == ("from_", name)
    assert asked == []


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)  # as if it were not installed
    with pytest.raises(UsageError) as error:
        model_folder("hf:owner/name")
    assert error.value.value == "hf:owner/name"
    assert cached_folder("hf:owner/name") is None
