"""`regard train generate --from … [--lora]` as a person types it, and everything that can be wrong with it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import regard as library
from regard.training.recipes import fine_tuning_recipe, writing_recipe

Run = Callable[..., Any]
LINE = "one two three four five six seven eight nine ten.\n"
SHAPE = ["--size", "tiny", "--width", 32, "--heads", 2, "--head-width", 16, "--hidden", 48, "--layers", 2]
SHORT = ["--steps", 3, "--batch-tokens", 256]


@pytest.fixture(scope="module")
def place(regard: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a text and a small language model."""
    place = tmp_path_factory.mktemp("fine-tuning")
    (place / "more.txt").write_text(LINE * 60, encoding="utf-8")
    flags = [*SHAPE, "--context", 24, "--tokens", "char", *SHORT]
    said = regard("train", "generate", place / "more.txt", "--out", place / "base", *flags)
    assert said.code == 0, said.err
    return place


def test_adapters_are_trained_resumed_used_scored_drawn_and_exported(regard: Run, place: Path, tmp_path: Path) -> None:
    training = ["train", "generate", place / "more.txt", "--from", place / "base", "--lora", "--out", tmp_path / "m"]
    said = regard(*training, "--batch-tokens", 256, "--steps", 3, "--lora-rank", 2)
    assert said.code == 0, said.err
    # Of two layers, each with two matrices of 32 inputs and 96 or 32 outputs, at rank 2: 2 · 2 · (32 + 96 + 32 + 32).
    assert "beginning: the weights of base; adapters learn, 768 numbers" in said.err
    assert (tmp_path / "m" / "adapter.safetensors").exists()
    assert not (tmp_path / "m" / "model.safetensors").exists()
    again = regard(*training, "--batch-tokens", 256, "--steps", 5, "--lora-rank", 2, "--resume")
    assert again.code == 0, again.err
    assert "going on from step 3" in again.err
    assert regard("generate", tmp_path / "m", "one", "--max-new-tokens", 5).code == 0
    assert regard("suggest", tmp_path / "m", "one tw").code == 0
    assert regard("score", tmp_path / "m", place / "more.txt").code == 0
    assert regard("tokens", tmp_path / "m", "one").code == 0
    assert regard("look", tmp_path / "m", "one two", "--out", tmp_path / "look.html").code == 0
    exported = regard("export", tmp_path / "m", "--out", tmp_path / "plain")
    assert exported.code == 0, exported.err
    shutil.rmtree(tmp_path / "m")
    plain = library.load(tmp_path / "plain")
    assert torch.isfinite(plain.model(torch.tensor([[5, 6, 7]]))).all()


def test_the_help_names_the_new_flags(regard: Run) -> None:
    said = regard("train", "generate", "--help").out
    assert "--from " in said
    assert "--from-" not in said
    assert "--lora-rank" in said


def test_the_help_tells_what_is_usual_for_a_new_model_and_for_one_that_goes_on(regard: Run) -> None:
    shown = " ".join(regard("train", "generate", "--help").out.replace("│", " ").split())
    new = writing_recipe("small").training
    whole, adapters = (fine_tuning_recipe(lora=lora).training for lora in (False, True))
    rate = "learning_rate"
    assert f"full rate of AdamW (usually {new[rate]}; with --from {whole[rate]}, with --lora {adapters[rate]})" in shown
    assert new["warmup_steps"] == whole["warmup_steps"]
    assert f"updates until the full rate (usually {new['warmup_steps']})" in shown
    assert "(usually muon; with --from adamw)" in shown
    assert f"memory of its square (usually {new['beta2']})" in shown, "what is the same is said once"


def test_a_bare_pickle_a_translator_and_what_is_no_model_are_refused(
    regard: Run, place: Path, model: Path, tmp_path: Path
) -> None:
    pickled, empty = tmp_path / "pickled", tmp_path / "empty"
    for folder in (pickled, empty):
        folder.mkdir()
    (pickled / "config.json").write_text(json.dumps({"model_type": "gpt2"}), encoding="utf-8")
    (pickled / "pytorch_model.bin").write_bytes(b"\x80\x02")
    foreign = tmp_path / "t5"
    shutil.copytree(place / "base", foreign)
    (foreign / "regard-manifest.json").unlink()
    (foreign / "config.json").write_text(json.dumps({"model_type": "t5"}), encoding="utf-8")
    cases = {
        pickled: (1, "loading one can run any code, so regard never does"),
        model: (2, "holds a translator"),
        empty: (1, "is not a model folder"),
        tmp_path / "absent": (2, "the path does not exist"),
        place / "more.txt": (2, "is a file; give the folder of a model"),
        foreign: (1, "'t5'; regard reads its own folders and those of marian, bert, gpt2"),
    }
    for folder, (code, message) in cases.items():
        for flags in ([], ["--lora"]):
            said = regard("train", "generate", place / "more.txt", "--from", folder, "--out", tmp_path / "m", *flags)
            assert (said.code, said.out) == (code, ""), said.err
            assert message in said.err
            assert "Traceback" not in said.err
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--lora"], "name their folder with --from"),
        (["--from", "base", "--size", "tiny"], "--size tiny does not go with --from"),
        (["--from", "base", "--tokens", "bpe"], "--tokens bpe does not go with --from"),
        (["--from", "base", "--heads", 4], "--heads 4 (there: 2)"),
        (["--from", "base", "--lora-rank", 4], "--lora-rank is a setting of adapters"),
        (["--from", "base", "--lora", "--lora-rank", 0], "lora_rank must be at least 1"),
        (["--from", "hf:nobody"], "they are written hf:owner/name"),
    ],
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, list) else "",
)
def test_wrong_use(
    regard: Run, place: Path, flags: list[object], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    said = regard("train", "generate", "more.txt", "--out", tmp_path / "m", *SHORT, *flags)
    assert (said.code, said.out) == (2, "")
    assert message in said.err


def test_an_adapter_whose_base_is_gone_says_what_to_do(regard: Run, place: Path, tmp_path: Path) -> None:
    shutil.copytree(place / "base", tmp_path / "base")
    training = ["train", "generate", place / "more.txt", "--from", tmp_path / "base", "--lora"]
    assert regard(*training, "--out", tmp_path / "m", *SHORT).code == 0
    (tmp_path / "base").rename(tmp_path / "elsewhere")
    for command in (["generate", tmp_path / "m", "one"], ["export", tmp_path / "m", "--out", tmp_path / "x"]):
        said = regard(*command)
        assert (said.code, said.out) == (1, "")
        assert f"or a link to it, at {tmp_path / 'm' / 'base'}" in said.err
    (tmp_path / "m" / "base").symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    assert regard("generate", tmp_path / "m", "one", "--max-new-tokens", 3).code == 0
