"""Model folders: exact, verified, compatible with transformers, and clear about every way they can be wrong."""

from __future__ import annotations

import json

import pytest
import safetensors.torch
import torch

from regard.checkpoint import atomic_folders, folder
from regard.checkpoint.atomic_folders import MANIFEST
from regard.checkpoint.folder import is_model_folder, read_config, read_model, write_model
from regard.nn.state_dict import load_into, unique_tensors
from regard.utils.errors import FolderError, UsageError

CONFIG = {"model": "transformer", "width": 7, "heads": [3, 2], "rate": 0.1, "name": "Zoë", "tied": None}
TEXTS = {"tokenizer.json": '{"vocabulary": ["é", "ß"]}', "README.md": "# A model\n"}


def tensors(seed=0):
    generator = torch.Generator().manual_seed(seed)
    return {
        "embedding.weight": torch.randn(13, 7, generator=generator),
        "layer.0.weight": torch.randn(5, 7, generator=generator).bfloat16(),
        "steps": torch.tensor(17),
    }


@pytest.fixture
def model(tmp_path):
    write_model(tmp_path / "m", config=CONFIG, tensors=tensors(), texts=TEXTS)
    return tmp_path / "m"


class Tiny(torch.nn.Module):
    def __init__(self, width=7):
        super().__init__()
        self.embedding = torch.nn.Embedding(13, width)
        self.output = torch.nn.Linear(width, 13, bias=False)
        self.output.weight = self.embedding.weight
        self.norm = torch.nn.BatchNorm1d(width)


def test_saved_is_loaded(model):
    back = read_model(model)
    assert back.config == CONFIG == read_config(model)
    assert back.path == model
    assert {name: tensor.dtype for name, tensor in back.tensors.items()} == {
        name: tensor.dtype for name, tensor in tensors().items()
    }
    assert all(torch.equal(back.tensors[name], tensor) for name, tensor in tensors().items())
    assert back.text("tokenizer.json") == TEXTS["tokenizer.json"]
    assert back.file("README.md") == model / "README.md"
    assert sorted(path.name for path in model.iterdir()) == sorted(
        ["config.json", "model.safetensors", "tokenizer.json", "README.md", MANIFEST]
    )


def test_binary_files_are_saved_and_loaded(tmp_path):
    write_model(tmp_path / "m", config={}, tensors={}, texts={"source.spm": bytes(range(256))})
    assert read_model(tmp_path / "m").file("source.spm").read_bytes() == bytes(range(256))


def test_writing_twice_gives_the_same_bytes(tmp_path, model):
    write_model(tmp_path / "again", config=CONFIG, tensors=tensors(), texts=TEXTS)
    for path in model.iterdir():
        assert path.read_bytes() == (tmp_path / "again" / path.name).read_bytes()


def test_transformers_loads_the_folder(tmp_path):
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(
        vocab_size=31, hidden_size=14, num_hidden_layers=1, num_attention_heads=2, intermediate_size=11
    )
    theirs = transformers.BertModel(config).eval()
    write_model(tmp_path / "bert", config=config.to_dict(), tensors=unique_tensors(theirs), texts={})
    back = transformers.BertModel.from_pretrained(tmp_path / "bert", local_files_only=True).eval()
    ids = torch.tensor([[3, 5, 7]])
    assert torch.equal(theirs(ids).last_hidden_state, back(ids).last_hidden_state)


def test_folders_of_transformers_are_read(tmp_path):
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(vocab_size=31, n_embd=14, n_layer=2, n_head=2, n_positions=11)
    theirs = transformers.GPT2Model(config)
    theirs.save_pretrained(tmp_path / "whole")
    theirs.save_pretrained(tmp_path / "sharded", max_shard_size="4kB")
    assert len(list((tmp_path / "sharded").glob("model-*.safetensors"))) > 1
    for name in ("whole", "sharded"):
        back = read_model(tmp_path / name)
        assert back.config["model_type"] == "gpt2"
        assert {key: tensor.shape for key, tensor in back.tensors.items()} == {
            key: tensor.shape for key, tensor in unique_tensors(theirs).items()
        }
        assert all(torch.equal(back.tensors[key], tensor) for key, tensor in unique_tensors(theirs).items())


# --- Overwriting ---------------------------------------------------------------------------------------------


def test_nothing_is_overwritten_without_force(model):
    with pytest.raises(UsageError):
        write_model(model, config={}, tensors={}, texts={})
    assert read_model(model).config == CONFIG


def test_a_folder_with_one_user_file_is_refused(tmp_path):
    (tmp_path / "README.md").write_text("mine", encoding="utf-8")
    with pytest.raises(UsageError, match=r"README\.md"):
        write_model(tmp_path, config={}, tensors={}, texts=TEXTS)
    assert [path.name for path in tmp_path.iterdir()] == ["README.md"]


def test_force_replaces_the_model_and_keeps_other_files(model):
    (model / "notes.txt").write_text("mine", encoding="utf-8")
    (model / "checkpoint-5").mkdir()
    (model / "checkpoint-5" / "state.json").write_text("{}", encoding="utf-8")
    write_model(model, config={"new": 1}, tensors=tensors(1), texts={"vocab.txt": "a\n"}, force=True)
    back = read_model(model)
    assert back.config == {"new": 1}
    assert torch.equal(back.tensors["embedding.weight"], tensors(1)["embedding.weight"])
    assert (model / "notes.txt").read_text(encoding="utf-8") == "mine"
    assert (model / "checkpoint-5" / "state.json").exists()
    assert not (model / "tokenizer.json").exists(), "files of the replaced model must not mix with the new one"
    assert not (model / atomic_folders.COMMIT).exists()


def test_force_replaces_a_sharded_foreign_model_visibly(tmp_path):
    write_index(tmp_path, {"a": "s1.safetensors"})
    safetensors.torch.save_file({"a": torch.ones(2)}, tmp_path / "s1.safetensors")
    with pytest.raises(UsageError, match=r"index\.json"):
        write_model(tmp_path, config={}, tensors={"b": torch.zeros(3)}, texts={})
    write_model(tmp_path, config={}, tensors={"b": torch.zeros(3)}, texts={}, force=True)
    assert set(read_model(tmp_path).tensors) == {"b"}


def test_a_file_in_the_way(tmp_path):
    (tmp_path / "m").write_text("mine", encoding="utf-8")
    with pytest.raises(UsageError):
        write_model(tmp_path / "m", config={}, tensors={}, texts={}, force=True)
    with pytest.raises(FolderError):
        write_model(tmp_path / "m" / "below", config={}, tensors={}, texts={})
    assert (tmp_path / "m").read_text(encoding="utf-8") == "mine"


@pytest.mark.parametrize("name", ["config.json", "../up", "a/b", ".hidden", "", MANIFEST, "model.safetensors"])
def test_impossible_additional_names(tmp_path, name):
    with pytest.raises(ValueError):
        write_model(tmp_path / "m", config={}, tensors={}, texts={name: ""})
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize("config", [{"x": float("nan")}, {"x": {1, 2}}, {"x": torch.zeros(1)}])
def test_a_config_that_is_not_json_raises_a_value_error(tmp_path, config):
    with pytest.raises(ValueError):
        write_model(tmp_path / "m", config=config, tensors={}, texts={})
    assert not (tmp_path / "m").exists()


# --- Damage --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json", MANIFEST])
def test_a_file_truncated_anywhere_is_detected(model, name):
    raw = (model / name).read_bytes()
    for length in range(0, len(raw), 7):
        (model / name).write_bytes(raw[:length])
        with pytest.raises(FolderError, match=name):
            read_model(model)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json", MANIFEST])
def test_any_flipped_byte_is_detected(model, name):
    raw = (model / name).read_bytes()
    for position in range(0, len(raw), 3):
        altered = bytearray(raw)
        altered[position] ^= 0x11
        (model / name).write_bytes(altered)
        with pytest.raises(FolderError, match=name):
            read_model(model)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
def test_a_missing_file_is_named(model, name):
    (model / name).unlink()
    with pytest.raises(FolderError):
        read_model(model)


def test_damage_errors_name_the_file_and_the_remedy(model):
    raw = bytearray((model / "model.safetensors").read_bytes())
    raw[-1] ^= 1
    (model / "model.safetensors").write_bytes(raw)
    with pytest.raises(FolderError):
        read_model(model)
    assert read_config(model) == CONFIG, "the config alone is still sound"
    (model / MANIFEST).unlink()
    assert set(read_model(model).tensors) == set(tensors())


def test_the_card_may_be_edited_by_hand(model):
    (model / "README.md").write_text("# My own words\n", encoding="utf-8")
    assert read_model(model).text("README.md") == "# My own words\n"
    (model / "README.md").unlink()
    assert read_model(model).config == CONFIG


def test_an_altered_config_is_detected_by_the_cheap_read(model):
    (model / "config.json").write_text(json.dumps({**CONFIG, "width": 11}), encoding="utf-8")
    with pytest.raises(FolderError):
        read_config(model)


# --- Folders that are no models ------------------------------------------------------------------------------


@pytest.mark.parametrize("read", [read_model, read_config])
def test_paths_without_a_model(tmp_path, read):
    (tmp_path / "file").write_text("x", encoding="utf-8")
    (tmp_path / "empty").mkdir()
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "1.jpg").touch()
    for name in ("nowhere", "file", "empty", "photos"):
        with pytest.raises(FolderError) as error:
            read(tmp_path / name)
        assert error.value.path == tmp_path / name
    assert not is_model_folder(tmp_path / "photos")


@pytest.mark.parametrize("name", ["pytorch_model.bin", "pytorch_model.bin.index.json", "model.pt"])
def test_pickles_are_refused(tmp_path, name):
    (tmp_path / "config.json").write_text("{}", encoding="utf-8")
    (tmp_path / name).write_bytes(b"cos\nsystem\n(S'touch owned'\ntR.")
    with pytest.raises(FolderError) as error:
        read_model(tmp_path)
    assert (error.value.path, error.value.value) == (tmp_path, name)


def test_a_pickle_beside_safetensors_does_no_harm(model):
    (model / "pytorch_model.bin").write_bytes(b"x")
    assert read_model(model).config == CONFIG


def test_an_unfinished_run_is_no_model_but_can_be_resumed(tmp_path):
    (tmp_path / "checkpoint-3").mkdir()
    (tmp_path / "checkpoint-3" / MANIFEST).touch()
    with pytest.raises(FolderError) as error:
        read_model(tmp_path)
    assert "--resume" in str(error.value)


@pytest.mark.parametrize("raw", [b"{", b"", b"\xff\xfe{}", b"[" * 100_000, b"[1, 2]", b"null"])
def test_a_config_that_is_not_a_json_object(tmp_path, raw):
    (tmp_path / "config.json").write_bytes(raw)
    safetensors.torch.save_file({"a": torch.ones(2)}, tmp_path / "model.safetensors")
    for read in (read_model, read_config):
        with pytest.raises(FolderError) as error:
            read(tmp_path)
        assert error.value.path == tmp_path / "config.json"


def test_foreign_weights_that_are_truncated(tmp_path):
    (tmp_path / "config.json").write_text("{}", encoding="utf-8")
    safetensors.torch.save_file({"a": torch.ones(200)}, tmp_path / "model.safetensors")
    raw = (tmp_path / "model.safetensors").read_bytes()
    (tmp_path / "model.safetensors").write_bytes(raw[:-3])
    with pytest.raises(FolderError) as error:
        read_model(tmp_path)
    assert error.value.path == tmp_path / "model.safetensors"


def write_index(path, weight_map):
    (path / "config.json").write_text("{}", encoding="utf-8")
    index = path / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": weight_map}), encoding="utf-8")


def test_invalid_shards(tmp_path):
    safetensors.torch.save_file({"a": torch.ones(2), "unlisted": torch.ones(1)}, tmp_path / "s1.safetensors")
    write_index(tmp_path, {"a": "s1.safetensors"})
    assert set(read_model(tmp_path).tensors) == {"a"}
    for weight_map, named in (
        ({"a": "s1.safetensors", "b": "s2.safetensors"}, "s2.safetensors"),
        ({"a": "s1.safetensors", "b": "s1.safetensors"}, "b"),
        ({"a": "../../etc/passwd"}, "../../etc/passwd"),
        (None, "weight_map"),
        ([], "weight_map"),
        ({"a": 3}, "weight_map"),
    ):
        write_index(tmp_path, weight_map)
        with pytest.raises(FolderError) as error:
            read_model(tmp_path)
        assert named in str(error.value)


def test_a_file_that_is_missing_or_not_text(model):
    back = read_model(model)
    with pytest.raises(FolderError) as error:
        back.file("source.spm")
    assert (error.value.path, error.value.value) == (model, "source.spm")
    (model / "latin.txt").write_bytes(b"caf\xe9 !")
    with pytest.raises(FolderError) as error:
        back.text("latin.txt")
    assert error.value.path == model / "latin.txt"


def test_a_model_replaced_during_reading_is_read_again(model, monkeypatch):
    """The model is replaced after its manifest and before its weights are read."""
    real = folder.read_tensors
    calls = []

    def replaced_meanwhile(path):
        calls.append(path)
        if len(calls) == 1:
            write_model(model, config={"new": 1}, tensors={"x": torch.ones(3)}, texts={}, force=True)
            raise FolderError("torn")
        return real(path)

    monkeypatch.setattr(folder, "read_tensors", replaced_meanwhile)
    assert read_model(model).config == {"new": 1}
    assert len(calls) == 2


# --- Into a module -------------------------------------------------------------------------------------------


def test_tied_weights_are_stored_once_and_loaded_tied(tmp_path):
    first, second = Tiny(), Tiny()
    stored = unique_tensors(first)
    assert "embedding.weight" in stored and "output.weight" not in stored
    write_model(tmp_path / "m", config={}, tensors=stored, texts={})
    load_into(second, read_model(tmp_path / "m").tensors)
    assert second.output.weight is second.embedding.weight
    assert all(
        torch.equal(a, b) for a, b in zip(unique_tensors(first).values(), unique_tensors(second).values(), strict=True)
    )


def test_mismatched_weights_are_named_and_nothing_is_loaded():
    module = Tiny()
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    given = unique_tensors(Tiny(width=11))
    del given["norm.running_mean"]
    given["extra.weight"] = torch.zeros(2)
    given["norm.num_batches_tracked"] = torch.tensor(1.5)
    with pytest.raises(FolderError) as caught:
        load_into(module, given)
    for name in ("norm.running_mean", "extra.weight", "embedding.weight", "norm.num_batches_tracked"):
        assert name in str(caught.value)
    assert all(torch.equal(tensor, before[name]) for name, tensor in module.state_dict().items())


def test_long_lists_of_names_are_shortened():
    with pytest.raises(FolderError) as error:
        load_into(torch.nn.Module(), {str(number): torch.zeros(1) for number in range(12)})
    assert "7 more" in str(error.value)


def test_weights_of_another_precision_are_converted():
    module = torch.nn.Linear(3, 2, bias=False)
    load_into(module, {"weight": torch.tensor([[1.5, 2.0, -0.25], [0.0, 1.0, 3.0]], dtype=torch.float16)})
    assert module.weight.dtype == torch.float32
    assert module.weight.tolist() == [[1.5, 2.0, -0.25], [0.0, 1.0, 3.0]]
    assert module.weight.requires_grad
