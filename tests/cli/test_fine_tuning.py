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
    done = regard("train", "generate", place / "more.txt", "--out", place / "base", *flags)
    assert done.code == 0, done.err
    return place


def test_adapters_work_in_every_verb(regard: Run, place: Path, tmp_path: Path) -> None:
    model = tmp_path / "m"
    training = ["train", "generate", place / "more.txt", "--from", place / "base", "--lora", "--out", model]
    done = regard(*training, "--batch-tokens", 256, "--steps", 3, "--lora-rank", 2)
    assert done.code == 0, done.err
    # Two layers, each with two matrices of 32 inputs and 96 or 32 outputs, at rank 2: 2 · 2 · (32 + 96 + 32 + 32).
    assert "768" in done.err
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
        done = regard(*command)
        assert done.code == 0, (command, done.err)
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
            done = regard("train", "generate", place / "more.txt", "--from", folder, "--out", tmp_path / "m", *flags)
            assert (done.code, done.out) == (code, ""), done.err
            assert str(folder) in done.err
            assert "Traceback" not in done.err
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize(
    ("flags", "argument"),
    [
        (["--lora"], "lora"),
        (["--from", "base", "--size", "tiny"], "size"),
        (["--from", "base", "--tokenizer", "bpe"], "tokenizer"),
        (["--from", "base", "--num-heads", 4], "num_heads"),
        (["--from", "base", "--lora-rank", 4], "lora_rank"),
        (["--from", "base", "--lora", "--lora-rank", 0], "lora_rank"),
        (["--from", "hf:owner"], "from_"),
    ],
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, list) else "",
)
def test_wrong_flags(
    regard: Run, place: Path, flags: list[object], argument: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    done = regard("train", "generate", "more.txt", "--out", tmp_path / "m", *SHORT, *flags)
    assert (done.code, done.out) == (2, "")
    assert done.error.argument == argument


def test_an_adapter_without_its_base(regard: Run, place: Path, tmp_path: Path) -> None:
    shutil.copytree(place / "base", tmp_path / "base")
    training = ["train", "generate", place / "more.txt", "--from", tmp_path / "base", "--lora"]
    assert regard(*training, "--out", tmp_path / "m", *SHORT).code == 0
    (tmp_path / "base").rename(tmp_path / "elsewhere")
    for command in (["generate", tmp_path / "m", "one"], ["export", tmp_path / "m", "--out", tmp_path / "x"]):
        done = regard(*command)
        assert (done.code, done.out) == (1, "")
        assert str(tmp_path / "m" / "base") in done.err, "where to put the base"
    (tmp_path / "m" / "base").symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    assert regard("generate", tmp_path / "m", "one", "--max-new-tokens", 3).code == 0
