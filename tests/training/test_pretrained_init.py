"""Training from pretrained weights, with all parameters or with LoRA: results, folders and errors."""

from __future__ import annotations

import json
import os
import shutil
import sys
import types
from pathlib import Path
from typing import Any

import pytest
import torch

import regard
from regard.checkpoint.folder import read_model
from regard.checkpoint.training_state import last_good_checkpoint
from regard.nn.state_dict import unique_tensors
from regard.tasks.generate.predictor import TextGenerator
from regard.utils.errors import FolderError, UsageError

COUNTING = "one two three four five six seven eight nine ten.\n" * 120
BACKWARDS = "ten nine eight seven six five four three two one.\n" * 120
SHAPE: dict[str, Any] = dict(
    size="tiny",
    num_layers=2,
    d_model=32,
    d_ff=48,
    num_heads=2,
    head_dim=16,
    context_length=24,
    tokenizer="char",
    num_evals=1,
)
SHORT: dict[str, Any] = dict(steps=2, batch_tokens=240, num_evals=1)


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    place = tmp_path_factory.mktemp("texts")
    return write(place / "counting.txt", COUNTING), write(place / "backwards.txt", BACKWARDS)


@pytest.fixture(scope="module")
def base(texts: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that was trained on counting."""
    folder = tmp_path_factory.mktemp("base") / "base"
    regard.train("generate", texts[0], out=folder, steps=120, batch_tokens=480, warmup_steps=5, **SHAPE)
    return folder


def load(folder: Path) -> TextGenerator:
    found = regard.load(folder)
    assert isinstance(found, TextGenerator)
    return found


@pytest.mark.parametrize("lora", [False, True], ids=["whole", "lora"])
def test_new_text_is_learned_and_the_old_is_not_forgotten(lora: bool, base: Path, texts: Any, tmp_path: Path) -> None:
    """With default settings, the loss on new text falls; on old text it stays far below that of an untrained model."""
    before = load(base)
    after = regard.train("generate", texts[1], from_=base, lora=lora, out=tmp_path / "m", steps=60, batch_tokens=480)
    assert isinstance(after, TextGenerator)
    new, old = BACKWARDS[:400], COUNTING[:400]
    assert after.loss(new) < before.loss(new) - 0.3
    untrained = float(torch.tensor(before.tokenizer.vocab_size).log())
    assert after.loss(old) < 0.7 * untrained


@pytest.mark.parametrize("lora", [False, True], ids=["whole", "lora"])
def test_saved_equals_loaded(lora: bool, base: Path, texts: Any, tmp_path: Path) -> None:
    made = regard.train("generate", texts[1], from_=base, lora=lora, out=tmp_path / "m", **SHORT)
    loaded = load(tmp_path / "m")
    mine, theirs = made.model.state_dict(), loaded.model.state_dict()
    assert list(mine) == list(theirs) == list(load(base).model.state_dict())
    assert all(torch.equal(mine[name], theirs[name]) for name in mine)
    assert not all(torch.equal(mine[name], tensor) for name, tensor in load(base).model.state_dict().items())
    assert loaded.tokenizer.to_json() == load(base).tokenizer.to_json()
    assert all(param.requires_grad for param in loaded.model.parameters())
    assert loaded("one", seed=1).text == made("one", seed=1).text
    card = (tmp_path / "m" / "README.md").read_text(encoding="utf-8")
    assert base.name in card
    assert regard.look(loaded, "one two").data


def test_an_adapter_is_saved_without_its_base(base: Path, texts: Any, tmp_path: Path) -> None:
    before = (base / "model.safetensors").read_bytes()
    settings = dict(lora_rank=3, lora_alpha=5.0, lora_targets="all")
    made = regard.train("generate", texts[1], from_=base, lora=True, out=tmp_path / "m", **SHORT, **settings)
    assert (base / "model.safetensors").read_bytes() == before
    assert not (tmp_path / "m" / "model.safetensors").exists()
    folder = read_model(tmp_path / "m")
    assert folder.is_adapter
    assert folder.config["lora"] == settings
    plain = load(base).model.state_dict()
    layer = "decoder.1.feed_forward.up_proj"
    a, b = folder.tensors[f"{layer}.lora_a"], folder.tensors[f"{layer}.lora_b"]
    assert a.shape == (3, 32)
    expected = plain[f"{layer}.weight"].double() + 5 / 3 * torch.einsum("or,ri->oi", b.double(), a.double())
    torch.testing.assert_close(made.model.state_dict()[f"{layer}.weight"], expected.float(), atol=1e-6, rtol=0)
    assert torch.equal(made.model.embedding.weight, plain["embedding.weight"])
    state = last_good_checkpoint(tmp_path / "m")
    assert state is not None
    assert {name.split("/")[0] for name in state.tensors} == {"model", "optimizer", "average"}
    assert all(".lora_" in name for name in state.tensors), "a checkpoint holds trained weights only"


def test_m162_one_base_several_adapters_saved_separately(base: Path, tmp_path: Path) -> None:
    """Four texts, four small folders, one set of weights; each has a lower loss on its own text than the base."""
    words = ("one two three", "four five six", "seven eight nine", "ten nine eight")
    before, size = load(base), (base / "model.safetensors").stat().st_size
    own: list[float] = []
    for number, text in enumerate(words):
        data, out = write(tmp_path / f"{number}.txt", f"{text}.\n" * 80), tmp_path / f"adapter-{number}"
        regard.train("generate", data, from_=base, lora=True, lora_rank=2, out=out, steps=12, batch_tokens=240)
        assert (out / "adapter.safetensors").stat().st_size < size / 4
        own.append(load(out).loss(f"{text}.\n" * 3))
        assert own[-1] < before.loss(f"{text}.\n" * 3)
    adapters = [read_model(tmp_path / f"adapter-{number}") for number in range(4)]
    assert len({folder.config["base"]["checksum"] for folder in adapters}) == 1
    assert not any(torch.equal(a, b) for a, b in zip(*(one.tensors.values() for one in adapters[:2]), strict=True))


def test_an_adapter_finds_its_base_after_a_move_and_inside_its_folder(base: Path, texts: Any, tmp_path: Path) -> None:
    first = tmp_path / "first"
    shutil.copytree(base, first / "base")
    made = regard.train("generate", texts[1], from_=first / "base", lora=True, out=first / "m", **SHORT)
    for file in (file for file in (first / "m").rglob("*") if file.is_file()):
        assert os.fsencode(tmp_path) not in file.read_bytes(), f"{file.name} has an absolute path"
    second = first.rename(tmp_path / "second")
    assert load(second / "m").loss("ten nine") == made.loss("ten nine")
    (second / "base").rename(second / "m" / "base")
    assert load(second / "m").loss("ten nine") == made.loss("ten nine")
    shutil.rmtree(second / "m" / "base")
    with pytest.raises(FolderError) as error:
        regard.load(second / "m")
    assert (error.value.path, error.value.argument) == (second / "m", "base")


def test_a_model_of_the_hub(base: Path, texts: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Downloaded for training; loading the adapter afterwards needs no network."""
    asked: list[bool] = []

    def snapshot_download(name: str, *, local_files_only: bool, **_: Any) -> str:
        assert name == "owner/counts"
        asked.append(local_files_only)
        return str(base)

    monkeypatch.setitem(sys.modules, "huggingface_hub", types.SimpleNamespace(snapshot_download=snapshot_download))
    made = regard.train("generate", texts[1], from_="hf:owner/counts", lora=True, out=tmp_path / "m", **SHORT)
    assert asked == [False]
    assert load(tmp_path / "m").loss("ten nine") == made.loss("ten nine")
    assert asked == [False, True]
    assert str(base) not in (tmp_path / "m" / "config.json").read_text(encoding="utf-8")
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(UsageError):
        regard.train("generate", texts[1], from_="hf:owner/counts", out=tmp_path / "n", **SHORT)


def test_a_base_that_changed_is_refused(base: Path, texts: Any, tmp_path: Path) -> None:
    shutil.copytree(base, tmp_path / "base")
    regard.train("generate", texts[1], from_=tmp_path / "base", lora=True, out=tmp_path / "m", **SHORT)
    regard.train("generate", texts[0], out=tmp_path / "base", force=True, steps=1, **SHAPE)
    with pytest.raises(FolderError) as error:
        regard.load(tmp_path / "m")
    assert (error.value.path, error.value.argument) == (tmp_path / "m", "base")


def test_an_adapter_for_an_adapter_is_refused(base: Path, texts: Any, tmp_path: Path) -> None:
    first = tmp_path / "first"
    regard.train("generate", texts[1], from_=base, lora=True, out=first, **SHORT)
    with pytest.raises(UsageError) as error:
        regard.train("generate", texts[0], from_=first, lora=True, out=tmp_path / "second", **SHORT)
    assert (error.value.argument, error.value.path) == ("lora", first)
    whole = regard.train("generate", texts[0], from_=first, out=tmp_path / "third", **SHORT)
    assert (tmp_path / "third" / "model.safetensors").exists()
    assert torch.equal(load(tmp_path / "third").model.embedding.weight, whole.model.embedding.weight)
    before = load(first).model.embedding.weight
    (first / "base").symlink_to(first, target_is_directory=True)  # no whole model: the base is found where it was
    assert torch.equal(load(first).model.embedding.weight, before)


def test_settings_come_from_the_model_or_the_training(base: Path, texts: Any, tmp_path: Path) -> None:
    made = regard.train(
        "generate", texts[1], from_=base, out=tmp_path / "m", d_model=32, window=7, dropout=0.1, **SHORT
    )
    assert (made.model.config.context_length, made.model.config.dropout) == (24, 0.1)
    config = json.loads((tmp_path / "m" / "config.json").read_text(encoding="utf-8"))
    assert config["training"]["optimizer"] == "adamw"
    assert config["training"]["from"] == base.name
    assert "size" not in config["training"]
    card = (tmp_path / "m" / "README.md").read_text(encoding="utf-8")
    assert "| window | 7 |" in card


@pytest.mark.parametrize(
    ("settings", "argument", "value"),
    [
        (dict(size="tiny"), "size", "tiny"),
        (dict(tokenizer="char"), "tokenizer", "char"),
        (dict(vocab_size=300), "vocab_size", 300),
        (dict(d_model=64, num_layers=3), "d_model", 64),
        (dict(context_length=8), "context_length", 8),
        (dict(window=25), "window", 25),
        (dict(window=0), "window", 0),
        (dict(lora_rank=4), "lora_rank", 4),
        (dict(lora=True, lora_rank=40), "lora_rank", 40),
        (dict(lora=True, lora_targets="attentoin"), "lora_targets", "attentoin"),
    ],
    ids=str,
)
def test_settings_that_contradict_the_pretrained_model(
    settings: dict[str, Any], argument: str, value: Any, base: Path, texts: Any, tmp_path: Path
) -> None:
    with pytest.raises(UsageError) as error:
        regard.train("generate", texts[1], from_=base, out=tmp_path / "m", **SHORT, **settings)
    assert (error.value.argument, error.value.value) == (argument, value)


def test_lora_needs_pretrained_weights(texts: Any, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as error:
        regard.train("generate", texts[1], lora=True, out=tmp_path / "m", **SHORT)
    assert error.value.argument == "lora"
    assert not (tmp_path / "m").exists()


def test_a_folder_is_never_trained_into_itself(base: Path, texts: Any) -> None:
    with pytest.raises(UsageError) as error:
        regard.train("generate", texts[1], from_=base, out=base, force=True, **SHORT)
    assert error.value.argument == "out"
    assert load(base)


def test_a_resumed_run_must_have_the_same_pretrained_weights(base: Path, texts: Any, tmp_path: Path) -> None:
    out, other = tmp_path / "m", tmp_path / "other"
    regard.train("generate", texts[1], from_=base, lora=True, out=out, **SHORT)
    regard.train("generate", texts[0], out=other, steps=1, **SHAPE)
    again: dict[str, Any] = dict(out=out, resume=True, **SHORT)
    for settings in (
        SHAPE,
        {"from_": base},
        {"from_": base, "lora": True, "lora_rank": 4},
        {"from_": other, "lora": True},
    ):
        with pytest.raises(UsageError) as error:
            regard.train("generate", texts[1], **{**settings, **again})
        assert error.value.path == out
    moved = shutil.copytree(base, tmp_path / "moved")
    same = regard.train("generate", texts[1], from_=moved, lora=True, **again)
    assert all(
        torch.equal(a, b)
        for a, b in zip(unique_tensors(same.model).values(), unique_tensors(load(out).model).values(), strict=True)
    )
