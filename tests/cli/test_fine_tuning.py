"""`regard train generate --from … [--lora]`: adapters in every verb, and what is refused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import regard as library

Run = Callable[..., Any]
LINE = "one two three four five six seven eight nine ten.\n"
SHAPE = ["--size", "tiny", "--d-model", 32, "--num-heads", 2, "--head-dim", 16, "--d-ff", 48, "--num-layers", 2]
SHORT = ["--steps", 3, "--batch-tokens", 256]


@pytest.fixture(scope="module")
def place(regard: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a text and a small language model."""
    place = tmp_path_factory.mktemp("fine-tuning")
    (place / "more.txt").write_text(LINE * 60, encoding="utf-8")
    flags = [*SHAPE, "--context-length", 24, "--tokenizer", "char", *SHORT]
    said = regard("train", "generate", place / "more.txt", "--out", place / "base", *flags)
    assert said.code == 0, said.err
    return place


def test_adapters_work_in_every_verb(regard: Run, place: Path, tmp_path: Path) -> None:
    model = tmp_path / "m"
    training = ["train", "generate", place / "more.txt", "--from", place / "base", "--lora", "--out", model]
    said = regard(*training, "--batch-tokens", 256, "--steps", 3, "--lora-rank", 2)
    assert said.code == 0, said.err
    # Two layers, each with two matrices of 32 inputs and 96 or 32 outputs, at rank 2: 2 · 2 · (32 + 96 + 32 + 32).
    assert "768 parameters" in said.err
    assert (model / "adapter.safetensors").exists()
    assert not (model / "model.safetensors").exists()
    again = regard(*training, "--batch-tokens", 256, "--steps", 5, "--lora-rank", 2, "--resume", "--json")
    assert again.code == 0, again.err
    assert json.loads(again.out)["step"] == 5
    for command in (
        ["generate", model, "one", "--max-new-tokens", 5],
        ["suggest", model, "one tw"],
        ["score", model, place / "more.txt"],
        ["evaluate", model, place / "more.txt"],
        ["tokens", model, "one"],
        ["look", model, "one two", "--out", tmp_path / "look.html"],
    ):
        said = regard(*command)
        assert said.code == 0, (command, said.err)
    exported = regard("export", model, "--out", tmp_path / "plain")
    assert exported.code == 0, exported.err
    shutil.rmtree(model)
    plain = library.load(tmp_path / "plain")
    assert torch.isfinite(plain.model(torch.tensor([[5, 6, 7]]))).all()


def test_flags_of_pretrained_weights(regard: Run) -> None:
    shown = regard("train", "generate", "--help").out
    assert "--from " in shown
    assert "--from-" not in shown
    assert "--lora-rank" in shown
    assert "--lora-rank" not in regard("train", "translate", "--help").out


def test_folders_that_are_refused(regard: Run, place: Path, model: Path, tmp_path: Path) -> None:
    pickled, empty = tmp_path / "pickled", tmp_path / "empty"
    for folder in (pickled, empty):
        folder.mkdir()
    (pickled / "config.json").write_text(json.dumps({"model_type": "gpt2"}), encoding="utf-8")
    (pickled / "pytorch_model.bin").write_bytes(b"\x80\x02")
    foreign = tmp_path / "t5"
    shutil.copytree(place / "base", foreign)
    (foreign / "regard-manifest.json").unlink()
    (foreign / "config.json").write_text(json.dumps({"model_type": "t5"}), encoding="utf-8")
    codes = {pickled: 1, model: 2, empty: 1, tmp_path / "absent": 2, place / "more.txt": 2, foreign: 1}
    for folder, code in codes.items():
        for flags in ([], ["--lora"]):
            said = regard("train", "generate", place / "more.txt", "--from", folder, "--out", tmp_path / "m", *flags)
            assert (said.code, said.out) == (code, ""), said.err
            assert str(folder) in said.err
            assert "Traceback" not in said.err
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize(
    "flags",
    [
        ["--lora"],
        ["--from", "base", "--size", "tiny"],
        ["--from", "base", "--tokenizer", "bpe"],
        ["--from", "base", "--num-heads", 4],
        ["--from", "base", "--lora-rank", 4],
        ["--from", "base", "--lora", "--lora-rank", 0],
        ["--from", "hf:owner"],
    ],
    ids=lambda flags: " ".join(map(str, flags)),
)
def test_wrong_flags(
    regard: Run, place: Path, flags: list[object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    said = regard("train", "generate", "more.txt", "--out", tmp_path / "m", *SHORT, *flags)
    assert (said.code, said.out) == (2, "")
    assert str(flags[-2 if len(flags) > 1 else 0]).lstrip("-").replace("-", "_") in said.err.replace("-", "_")


def test_an_adapter_without_its_base(regard: Run, place: Path, tmp_path: Path) -> None:
    shutil.copytree(place / "base", tmp_path / "base")
    training = ["train", "generate", place / "more.txt", "--from", tmp_path / "base", "--lora"]
    assert regard(*training, "--out", tmp_path / "m", *SHORT).code == 0
    (tmp_path / "base").rename(tmp_path / "elsewhere")
    for command in (["generate", tmp_path / "m", "one"], ["export", tmp_path / "m", "--out", tmp_path / "x"]):
        said = regard(*command)
        assert (said.code, said.out) == (1, "")
        assert str(tmp_path / "m" / "base") in said.err, "where to put the base"
    (tmp_path / "m" / "base").symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    assert regard("generate", tmp_path / "m", "one", "--max-new-tokens", 3).code == 0
