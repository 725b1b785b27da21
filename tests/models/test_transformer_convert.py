"""Import and export of Marian folders, compared with `MarianMTModel` and `MarianTokenizer` of transformers."""

from __future__ import annotations

import dataclasses
import io
import json
import random
import re
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import tokenizers
import torch
import transformers
from safetensors.torch import load_file, save_file
from sentencepiece import sentencepiece_model_pb2
from torch import Tensor

from regard.checkpoint.folder import read_model, write_model
from regard.checkpoint.predictors import foreign_format
from regard.models.formats import TOKENIZER, FolderContent, export, tokenizer_of, unsupported_settings
from regard.models.transformer.config import TransformerConfig
from regard.models.transformer.convert import FORMATS, SOURCE_TOKENIZER, TARGET_TOKENIZER, from_hf
from regard.models.transformer.convert_weights import REQUIRED
from regard.models.transformer.model import Transformer
from regard.nn import masks
from regard.nn.state_dict import load_into, unique_tensors
from regard.tokenizers.tokenizer import SpecialTokens, Tokenizer
from regard.tokenizers.training import train_tokenizer
from regard.utils.config import to_dict
from regard.utils.errors import FolderError, UsageError

WORDS = "the cat sees a small house while seven dogs ran over every green hill and then slept"
TEXTS = [" ".join(random.Random(i).choices(WORDS.split(), k=7)) + "." for i in range(200)]
GERMAN = [text.replace("the", "das").replace("a", "ä") for text in TEXTS]
LENGTHS = torch.tensor([11, 7, 3])
SOURCE = torch.randint(4, 40, (3, 11), generator=torch.Generator().manual_seed(0))
TARGET = torch.randint(4, 40, (3, 5), generator=torch.Generator().manual_seed(1))


@dataclasses.dataclass(frozen=True)
class Translation:
    """A translator that was read from a Marian folder."""

    config: TransformerConfig
    tensors: dict[str, Tensor]
    source_tokenizer: Tokenizer
    target_tokenizer: Tokenizer
    generation: dict[str, Any]
    forbidden_ids: list[int]
    start_id: int


def read_marian(path: Path) -> Translation:
    content = from_hf(read_model(path))
    joint = TOKENIZER in content.texts
    source, target = (
        tokenizer_of(content, TOKENIZER if joint else name) for name in (SOURCE_TOKENIZER, TARGET_TOKENIZER)
    )
    config = content.config
    return Translation(
        config=TransformerConfig(**config["model"]),
        tensors=content.tensors,
        source_tokenizer=source,
        target_tokenizer=source if joint else target,
        generation=config["inference"],
        forbidden_ids=config["forbidden_ids"],
        start_id=config["start_id"],
    )


def write_marian(
    path: Path,
    *,
    config: TransformerConfig,
    tensors: dict[str, Tensor],
    source_tokenizer: Tokenizer,
    target_tokenizer: Tokenizer,
    start_id: int | None = None,
    generation: dict[str, Any] | None = None,
    forbidden_ids: list[int] | None = None,
) -> list[str]:
    texts = {SOURCE_TOKENIZER: source_tokenizer.to_json(), TARGET_TOKENIZER: target_tokenizer.to_json()}
    described = {
        "model": config.to_dict(),
        "inference": generation or {},
        "special_tokens": to_dict(target_tokenizer.special_tokens),
        "forbidden_ids": forbidden_ids or [],
        **({} if start_id is None else {"start_id": start_id}),
    }
    exported = export(FORMATS, FolderContent(described, tensors, texts))
    write_model(path, config=exported.config, tensors=exported.tensors, texts=exported.texts)
    return list(exported.notes)


def settings(**changes: Any) -> TransformerConfig:
    plain: dict[str, Any] = dict(
        vocab_size=401,
        num_encoder_layers=2,
        num_decoder_layers=3,
        d_model=22,
        d_ff=31,
        num_heads=2,
        head_dim=11,
        max_positions=61,
        position_layout="halves",
    )
    return TransformerConfig(**{**plain, **changes})


def random_model(config: TransformerConfig, seed: int = 0) -> Transformer:
    """Return a model with random parameters, including norms and biases, so that swapped tensors are found."""
    torch.manual_seed(seed)
    model = Transformer(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            base = 1.0 if name.endswith("norm.weight") else 0.0
            parameter.copy_(base + 0.3 * torch.randn_like(parameter))
    return model


@pytest.fixture(scope="module")
def joint() -> Tokenizer:
    return train_tokenizer(TEXTS + GERMAN, vocab_size=400)


@pytest.fixture(scope="module")
def separate() -> tuple[Tokenizer, Tokenizer]:
    return train_tokenizer(TEXTS, vocab_size=350), train_tokenizer(GERMAN, vocab_size=360)


def tokenizers_for(
    config: TransformerConfig, joint: Tokenizer, separate: tuple[Tokenizer, Tokenizer]
) -> dict[str, Tokenizer]:
    source, target = (joint, joint) if config.source_vocab_size is None else separate
    return {"source_tokenizer": source, "target_tokenizer": target}


def their_logits(folder: Path) -> Tensor:
    model = transformers.MarianMTModel.from_pretrained(folder).eval()
    mask = (torch.arange(SOURCE.shape[1]) < LENGTHS[:, None]).long()
    target = torch.cat((torch.full((3, 1), model.config.decoder_start_token_id), TARGET), dim=1)
    with torch.no_grad():
        logits: Tensor = model(input_ids=SOURCE, attention_mask=mask, decoder_input_ids=target).logits
    return logits


def our_logits(model: Transformer, *, start: int = 2) -> Tensor:
    target = torch.cat((torch.full((3, 1), start), TARGET), dim=1)
    with torch.no_grad():
        out: Tensor = model(SOURCE, target, masks.lengths(LENGTHS))
    return out


def model_of(found: Translation) -> Transformer:
    model = Transformer(found.config).eval()
    load_into(model, found.tensors)
    return model


def same_bits(first: dict[str, Tensor], second: dict[str, Tensor]) -> bool:
    """Equal names, types, shapes and bytes: −0 differs from 0."""
    return first.keys() == second.keys() and all(
        first[name].dtype == second[name].dtype
        and first[name].shape == second[name].shape
        and torch.equal(
            first[name].contiguous().view(-1).view(torch.uint8), second[name].contiguous().view(-1).view(torch.uint8)
        )
        for name in first
    )


VARIANTS: dict[str, dict[str, Any]] = {
    "paper": {"position_layout": "interleaved"},
    "halves": {},
    "no biases": {"bias": False},
    "no biases, interleaved": {"bias": False, "position_layout": "interleaved"},
    "output bias": {"output_bias": True},
    "silu": {"activation": "silu", "scale_embeddings": False},
    "gelu, dropouts": {"activation": "gelu", "dropout": 0.3, "attention_dropout": 0.2, "activation_dropout": 0.1},
    "two vocabularies": {"source_vocab_size": 397, "position_layout": "interleaved"},
    "own output": {"tie_embeddings": False, "output_bias": True},
    "all apart": {"tie_embeddings": False, "source_vocab_size": 397},
}


# --- Ours to theirs and back --------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", VARIANTS)
def test_transformers_computes_our_logits_and_the_import_restores_our_tensors(
    variant: str, joint: Tokenizer, separate: tuple[Tokenizer, Tokenizer], tmp_path: Path
) -> None:
    config = settings(**VARIANTS[variant])
    model = random_model(config)
    both = tokenizers_for(config, joint, separate)
    notes = write_marian(tmp_path / "out", config=config, tensors=unique_tensors(model), **both)
    assert len(notes) == (config.source_vocab_size is not None)  # CTranslate2 needs one vocabulary
    expected = our_logits(model)
    torch.testing.assert_close(their_logits(tmp_path / "out")[..., : config.vocab_size], expected, atol=1e-4, rtol=0)
    assert expected.std() > 0.1  # the logits are not all equal

    found = read_marian(tmp_path / "out")
    assert found.config == config
    assert same_bits(found.tensors, unique_tensors(model))
    assert (found.start_id, found.target_tokenizer.end_id, found.target_tokenizer.pad_id) == (2, 3, 0)
    assert found.source_tokenizer == both["source_tokenizer"]
    assert found.target_tokenizer == both["target_tokenizer"]
    assert (found.source_tokenizer is found.target_tokenizer) == (config.source_vocab_size is None)


@pytest.mark.parametrize("variant", ["halves", "two vocabularies"])
def test_transformers_tokenizers_give_our_ids_and_texts(
    variant: str, joint: Tokenizer, separate: tuple[Tokenizer, Tokenizer], tmp_path: Path
) -> None:
    config = settings(**VARIANTS[variant])
    both = tokenizers_for(config, joint, separate)
    write_marian(tmp_path, config=config, tensors=unique_tensors(random_model(config)), **both)
    theirs = transformers.MarianTokenizer.from_pretrained(tmp_path)
    source, target = both.values()
    for text in [*TEXTS[:40], *GERMAN[:40], "unseen: Ünder 漢 (5)", "two  spaces", ""]:
        assert theirs(text)["input_ids"] == [*source.encode(text), 3]
        assert theirs(text_target=text)["input_ids"] == [*target.encode(text), 3]
        ids = [2, *target.encode(text), 3]
        assert theirs.decode(ids, skip_special_tokens=True) == text.strip()
    assert theirs.pad_token_id == (config.vocab_size if source is target else 0)
    assert type(transformers.AutoTokenizer.from_pretrained(tmp_path)) is transformers.MarianTokenizer
    fast = transformers.PreTrainedTokenizerFast.from_pretrained(tmp_path)
    assert fast(TEXTS[0])["input_ids"] == [*source.encode(TEXTS[0]), 3]


def test_transformers_generates_the_same_greedy_text(joint: Tokenizer, tmp_path: Path) -> None:
    config = settings(vocab_size=joint.vocab_size, position_layout="interleaved")
    model = random_model(config)
    generation = {"num_beams": 1, "max_new_tokens": 9}
    write_marian(
        tmp_path,
        config=config,
        tensors=unique_tensors(model),
        source_tokenizer=joint,
        target_tokenizer=joint,
        generation=generation,
        forbidden_ids=[1],
    )
    ids = [2]
    source = torch.tensor([[*joint.encode(TEXTS[0]), 3]])
    while len(ids) < 9 and ids[-1] != 3:
        with torch.no_grad():
            logits = model(source, torch.tensor([ids]))[0, -1]
        logits[[0, 1, 2]] = float("-inf")
        ids.append(int(logits.argmax()))
    if ids[-1] != 3:
        ids.append(3)  # MarianMTModel forces the end token at the maximum length
    theirs = transformers.MarianMTModel.from_pretrained(tmp_path).generate(source)
    assert theirs[0].tolist()[1:] == ids[1:]
    found = read_marian(tmp_path)
    assert found.generation == {"num_beams": 1, "length_penalty": 1.0, "max_new_tokens": 9}
    assert found.forbidden_ids == [0, 1, 2]


def test_a_tokenizer_that_sentencepiece_does_not_support_is_written_as_json(tmp_path: Path) -> None:
    tokenizer = train_tokenizer(TEXTS, kind="byte-bpe", vocab_size=380)
    config = settings(vocab_size=tokenizer.vocab_size)
    (note,) = write_marian(
        tmp_path,
        config=config,
        tensors=unique_tensors(random_model(config)),
        source_tokenizer=tokenizer,
        target_tokenizer=tokenizer,
    )
    assert "source.spm" in note
    assert not (tmp_path / "source.spm").exists()
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    for text in TEXTS[:20]:
        assert theirs(text)["input_ids"] == [*tokenizer.encode(text), 3]
        assert theirs.decode([2, *tokenizer.encode(text), 3], skip_special_tokens=True) == text
    assert read_marian(tmp_path).source_tokenizer == tokenizer


def test_the_export_record_is_ignored_after_training_in_transformers(joint: Tokenizer, tmp_path: Path) -> None:
    """Biases that were exported as zeros and are no longer zero must not be dropped."""
    config = settings(bias=False, position_layout="interleaved")
    model = random_model(config)
    write_marian(
        tmp_path / "a", config=config, tensors=unique_tensors(model), source_tokenizer=joint, target_tokenizer=joint
    )
    theirs = transformers.MarianMTModel.from_pretrained(tmp_path / "a")
    with torch.no_grad():
        theirs.model.decoder.layers[1].fc1.bias.add_(torch.arange(31) * 0.1)
    theirs.save_pretrained(tmp_path / "b")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / "b" / name).write_bytes((tmp_path / "a" / name).read_bytes())
    found = read_marian(tmp_path / "b")
    assert found.config == config.replace(bias=True, output_bias=True, vocab_size=402)
    logits = our_logits(model_of(found), start=found.start_id)
    torch.testing.assert_close(logits, their_logits(tmp_path / "b"), atol=1e-4, rtol=0)


def test_a_different_start_token_is_kept(joint: Tokenizer, tmp_path: Path) -> None:
    config = settings()
    write_marian(
        tmp_path,
        config=config,
        tensors=unique_tensors(random_model(config)),
        source_tokenizer=joint,
        target_tokenizer=joint,
        start_id=0,
    )
    assert transformers.AutoConfig.from_pretrained(tmp_path).decoder_start_token_id == config.vocab_size
    found = read_marian(tmp_path)
    assert found.start_id == found.target_tokenizer.start_id == 0


# --- Theirs to ours and back --------------------------------------------------------------------------------


def train_spm(texts: list[str], kind: str) -> bytes:
    stream = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts), model_writer=stream, model_type=kind, vocab_size=40, minloglevel=2
    )
    return stream.getvalue()


def opus_folder(folder: Path, *, kind: str = "unigram", dtype: torch.dtype = torch.float32, **changes: Any) -> Path:
    """A folder with the same files as Opus-MT models, with random weights."""
    spms = [train_spm(texts, kind) for texts in (TEXTS, GERMAN)]
    parsed = [sentencepiece_model_pb2.ModelProto.FromString(spm) for spm in spms]
    pieces = sorted({piece.piece for model in parsed for piece in model.pieces if piece.type == 1})
    vocabulary = {token: i for i, token in enumerate(["</s>", "<unk>", *pieces, ">>deu<<", "<pad>"])}
    size = len(vocabulary)
    config = transformers.MarianConfig(
        **{
            "vocab_size": size,
            "d_model": 22,
            "encoder_layers": 2,
            "decoder_layers": 3,
            "encoder_attention_heads": 2,
            "decoder_attention_heads": 2,
            "encoder_ffn_dim": 31,
            "decoder_ffn_dim": 31,
            "activation_function": "swish",
            "scale_embedding": True,
            "max_position_embeddings": 61,
            "pad_token_id": size - 1,
            "decoder_start_token_id": size - 1,
            "eos_token_id": 0,
            "static_position_embeddings": True,
            "normalize_before": False,
            **changes,
        }
    )
    torch.manual_seed(1)
    model = transformers.MarianMTModel(config).to(dtype)
    with torch.no_grad():
        for name, tensor in model.named_parameters():
            if "embed_positions" not in name:
                base = 1.0 if name.endswith("layer_norm.weight") else 0.0
                tensor.copy_(base + 0.3 * torch.randn(tensor.shape))
        model.final_logits_bias.copy_(torch.randn(model.final_logits_bias.shape))
    model.generation_config.num_beams = 6
    model.generation_config.max_length = 512
    model.generation_config.bad_words_ids = [[size - 1]]
    model.save_pretrained(folder)
    (folder / "source.spm").write_bytes(spms[0])
    (folder / "target.spm").write_bytes(spms[1])
    (folder / "vocab.json").write_text(json.dumps(vocabulary), encoding="utf-8")
    (folder / "tokenizer_config.json").write_text('{"source_lang": "eng", "target_lang": "deu"}', encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def opus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return opus_folder(tmp_path_factory.mktemp("opus"))


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"kind": "bpe", "activation_function": "relu"},
        {"share_encoder_decoder_embeddings": False, "decoder_vocab_size": 131},
        {"tie_word_embeddings": False},
        {"share_encoder_decoder_embeddings": False, "decoder_vocab_size": 131, "tie_word_embeddings": False},
        {"dtype": torch.float16},
    ],
    ids=str,
)
def test_import_and_export_restore_the_same_bits(changes: dict[str, Any], tmp_path: Path) -> None:
    folder = opus_folder(tmp_path / "theirs", **changes)
    found = read_marian(folder)
    if "dtype" not in changes:
        logits = our_logits(model_of(found), start=found.start_id)
        torch.testing.assert_close(logits, their_logits(folder), atol=1e-4, rtol=0)
    source, target = found.source_tokenizer, found.target_tokenizer
    oracle = transformers.MarianTokenizer.from_pretrained(folder)
    for text in [*TEXTS[:30], *GERMAN[:30], f">>deu<< {TEXTS[0]}"]:
        assert [*source.encode(text), 0] == oracle(text)["input_ids"]
        assert [*target.encode(text), 0] == oracle(text_target=text)["input_ids"]
    assert found.start_id == target.pad_id == target.start_id == target.vocab_size - 1
    assert target.end_id == 0
    assert found.forbidden_ids == [target.pad_id]
    assert found.generation == {"num_beams": 6, "max_new_tokens": 511}

    if found.config.source_vocab_size is not None and "tie_word_embeddings" not in changes:
        assert found.config.source_vocab_size != found.config.vocab_size
    out = tmp_path / "again"
    notes = write_marian(
        out,
        config=found.config,
        tensors=found.tensors,
        source_tokenizer=source,
        target_tokenizer=target,
        generation=found.generation,
        forbidden_ids=found.forbidden_ids,
    )
    assert len(notes) == ("decoder_vocab_size" in changes)
    assert read_marian(out).generation["max_new_tokens"] == 60  # limited by max_position_embeddings
    before, after = (load_file(path / "model.safetensors") for path in (folder, out))
    if changes == {"tie_word_embeddings": False}:
        del before["model.shared.weight"]  # the class stores it and does not use it
    assert same_bits(before, after)
    torch.testing.assert_close(their_logits(out), their_logits(folder), atol=0, rtol=0)
    again = transformers.MarianTokenizer.from_pretrained(out)
    for text in [*TEXTS[:30], f">>deu<< {TEXTS[0]}"]:
        assert again(text)["input_ids"] == oracle(text)["input_ids"]
        assert again(text_target=text)["input_ids"] == oracle(text_target=text)["input_ids"]


def test_a_shared_embedding_may_be_stored_under_several_names(opus: Path, tmp_path: Path) -> None:
    copy_folder(opus, tmp_path)
    tensors = load_file(opus / "model.safetensors")
    shared = tensors.pop("model.shared.weight")
    expected = read_marian(opus)
    for names in (["lm_head.weight"], ["model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"]):
        save_file({**tensors, **{name: shared.clone() for name in names}}, tmp_path / "model.safetensors")
        assert same_bits(read_marian(tmp_path).tensors, expected.tensors)
    different = {"model.shared.weight": shared, "lm_head.weight": shared + 1}
    save_file({**tensors, **different}, tmp_path / "model.safetensors")
    with pytest.raises(FolderError) as caught:
        read_marian(tmp_path)
    assert (caught.value.argument, caught.value.path) == ("lm_head.weight", tmp_path)


def test_sharded_weights_are_read(opus: Path, tmp_path: Path) -> None:
    model = transformers.MarianMTModel.from_pretrained(opus)
    copy_folder(opus, tmp_path)
    (tmp_path / "model.safetensors").unlink()
    model.save_pretrained(tmp_path, max_shard_size="20KB")
    assert len(list(tmp_path.glob("model-*.safetensors"))) > 1
    assert same_bits(read_marian(tmp_path).tensors, read_marian(opus).tensors)


def test_a_folder_with_only_tokenizer_json_is_read(opus: Path, joint: Tokenizer, tmp_path: Path) -> None:
    copy_folder(opus, tmp_path)
    for name in ("source.spm", "target.spm", "vocab.json"):
        (tmp_path / name).unlink()
    tokenizer = read_marian(opus).source_tokenizer
    tokenizer.save(tmp_path / "tokenizer.json")
    found = read_marian(tmp_path)
    assert found.source_tokenizer is found.target_tokenizer
    assert found.source_tokenizer == tokenizer
    joint.save(tmp_path / "tokenizer.json")
    with pytest.raises(FolderError) as caught:
        read_marian(tmp_path)
    assert caught.value.path == tmp_path
    train_tokenizer(["a"], kind="char", vocab_size=9).save(tmp_path / "tokenizer.json")
    with pytest.raises(FolderError) as caught:
        read_marian(tmp_path)
    start = json.loads((opus / "config.json").read_text(encoding="utf-8"))["decoder_start_token_id"]
    assert (caught.value.argument, caught.value.value) == ("decoder_start_token_id", start)
    assert caught.value.path == tmp_path / "config.json"


def test_equal_source_and_target_give_one_tokenizer(opus: Path, tmp_path: Path) -> None:
    copy_folder(opus, tmp_path)
    (tmp_path / "target.spm").write_bytes((opus / "source.spm").read_bytes())
    found = read_marian(tmp_path)
    assert found.source_tokenizer is found.target_tokenizer


def test_generation_options_are_read_from_config_json_of_older_folders(opus: Path, tmp_path: Path) -> None:
    copy_folder(opus, tmp_path, config={"num_beams": 4, "max_length": 100, "length_penalty": 1.5})
    (tmp_path / "generation_config.json").unlink()
    found = read_marian(tmp_path).generation
    assert (found["num_beams"], found["max_new_tokens"], found["length_penalty"]) == (4, 99, 1.5)


def test_a_stored_position_table_must_hold_sinusoids(opus: Path, tmp_path: Path) -> None:
    copy_folder(opus, tmp_path)
    tensors = load_file(opus / "model.safetensors")
    table = transformers.MarianMTModel.from_pretrained(opus).model.encoder.embed_positions.weight.detach()
    name = "model.encoder.embed_positions.weight"
    save_file({**tensors, name: table.half()}, tmp_path / "model.safetensors")
    assert same_bits(read_marian(tmp_path).tensors, read_marian(opus).tensors)
    save_file({**tensors, name: table + 0.1}, tmp_path / "model.safetensors")
    with pytest.raises(FolderError) as caught:
        read_marian(tmp_path)
    assert (caught.value.argument, caught.value.path) == (name, tmp_path)


# --- Bad input ----------------------------------------------------------------------------------------------


def copy_folder(folder: Path, to: Path, config: dict[str, Any] | None = None) -> Path:
    for path in folder.iterdir():
        (to / path.name).write_bytes(path.read_bytes())
    if config is not None:
        values = {**json.loads((folder / "config.json").read_text(encoding="utf-8")), **config}
        (to / "config.json").write_text(json.dumps(values), encoding="utf-8")
    return to


@pytest.mark.parametrize(
    ("change", "argument", "value"),
    [
        ({"normalize_before": True}, "normalize_before", True),
        ({"normalize_embedding": True}, "normalize_embedding", True),
        ({"static_position_embeddings": False}, "static_position_embeddings", False),
        ({"add_final_layer_norm": True}, "add_final_layer_norm", True),
        ({"is_encoder_decoder": False}, "is_encoder_decoder", False),
        ({"quantization_config": {"bits": 8}}, "quantization_config", {"bits": 8}),
        ({"architectures": ["MarianForCausalLM"]}, "architectures", ["MarianForCausalLM"]),
        ({"activation_function": "gelu_new"}, "activation_function", "gelu_new"),
        ({"decoder_ffn_dim": 37}, "decoder_ffn_dim", 37),
        ({"decoder_attention_heads": 11}, "decoder_attention_heads", 11),
        ({"encoder_attention_heads": 3, "decoder_attention_heads": 3}, "d_model", 22),
        ({"d_model": "22"}, "d_model", "22"),
        ({"encoder_layers": 0}, "encoder_layers", 0),
        ({"dropout": 1.5}, "dropout", 1.5),
        ({"eos_token_id": [0, 1]}, "eos_token_id", [0, 1]),
        ({"decoder_start_token_id": None}, "decoder_start_token_id", None),
        ({"decoder_start_token_id": 5000}, "decoder_start_token_id", 5000),
    ],
)
def test_unsupported_and_invalid_settings(
    opus: Path, tmp_path: Path, change: dict[str, Any], argument: str, value: Any
) -> None:
    copy_folder(opus, tmp_path, change)
    with pytest.raises(FolderError) as caught:
        read_marian(tmp_path)
    assert (caught.value.argument, caught.value.value) == (argument, value)
    assert caught.value.path == tmp_path / "config.json"


@pytest.mark.parametrize(
    ("change", "reason", "name"),
    [
        ({"encoder_layers": 3}, "missing", "model.encoder.layers.2.fc1.weight"),
        ({"encoder_layers": 1}, "surplus", "model.encoder.layers.1.fc1.weight"),
        ({"vocab_size": 43, "decoder_vocab_size": 43}, "of another shape", "source_embedding.weight"),
    ],
)
def test_tensors_that_do_not_fit_the_config(
    opus: Path, tmp_path: Path, change: dict[str, Any], reason: str, name: str
) -> None:
    copy_folder(opus, tmp_path, change)
    with pytest.raises(FolderError) as caught:
        read_marian(tmp_path)
    assert (caught.value.argument, caught.value.path) == ("tensors", tmp_path)
    assert name in caught.value.value[reason]


def test_the_message_lists_all_unsupported_settings(opus: Path, tmp_path: Path) -> None:
    copy_folder(opus, tmp_path, {"normalize_before": True, "activation_function": "tanh"})
    with pytest.raises(FolderError) as caught:
        read_marian(tmp_path)
    assert (caught.value.argument, caught.value.allowed) == ("normalize_before", (False,))
    assert "activation_function" in str(caught.value)


def test_pickled_weights_raise(opus: Path, tmp_path: Path) -> None:
    copy_folder(opus, tmp_path)
    (tmp_path / "model.safetensors").rename(tmp_path / "pytorch_model.bin")
    with pytest.raises(FolderError) as caught:
        read_marian(tmp_path)
    assert (caught.value.path, caught.value.value) == (tmp_path, "pytorch_model.bin")


def test_an_unknown_model_type_raises(opus: Path) -> None:
    assert foreign_format(opus, {"model_type": "marian"}).model_type == "marian"
    with pytest.raises(FolderError) as caught:
        foreign_format(opus, {"model_type": "bart"})
    assert (caught.value.argument, caught.value.value) == ("model_type", "bart")


@pytest.mark.parametrize("name", ["source.spm", "target.spm", "vocab.json"])
def test_a_missing_tokenizer_file_raises(opus: Path, tmp_path: Path, name: str) -> None:
    copy_folder(opus, tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(FolderError) as caught:
        read_marian(tmp_path)
    assert (caught.value.argument, caught.value.path) == ("tokenizer", tmp_path)
    assert caught.value.allowed == ("source.spm", "target.spm", "vocab.json", "tokenizer.json")


@pytest.mark.parametrize(
    ("name", "text", "blamed"),
    [
        ("vocab.json", "{", "vocab.json"),
        ("vocab.json", "[1]", "vocab.json"),
        ("source.spm", "nonsense", "source.spm"),
        ("generation_config.json", "", "generation_config.json"),
        ("tokenizer_config.json", '{"separate_vocabs": true}', "target_vocab.json"),
        ("tokenizer_config.json", '{"unk_token": "[UNK]"}', "source.spm"),
    ],
)
def test_the_error_for_a_damaged_file_has_its_path(
    opus: Path, tmp_path: Path, name: str, text: str, blamed: str
) -> None:
    copy_folder(opus, tmp_path)
    (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(FolderError) as caught:
        read_marian(tmp_path)
    assert caught.value.path == tmp_path / blamed


def test_special_tokens_may_be_json_objects(opus: Path, tmp_path: Path) -> None:
    copy_folder(opus, tmp_path)
    described = {"unk_token": {"content": "<unk>", "lstrip": False}}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(described), encoding="utf-8")
    assert read_marian(tmp_path).source_tokenizer.special_tokens.unknown == "<unk>"


def test_all_settings_that_marian_does_not_support_are_found() -> None:
    modern = TransformerConfig(
        vocab_size=401,
        d_model=20,
        num_heads=2,
        head_dim=8,
        num_heads_by_layer={"decoder.0.cross": 1},
        positions="rotary",
        norm="rms",
        norm_placement="pre",
        final_norm=True,
        qk_norm=True,
        activation="relu2",
        bias=False,
        embedding_norm=True,
    )
    assert list(unsupported_settings(modern, REQUIRED)) == [
        "positions",
        "norm",
        "norm_placement",
        "final_norm",
        "qk_norm",
        "embedding_norm",
        "activation",
        "num_heads_by_layer",
        "head_dim",
    ]
    plain = settings(bias=False, position_layout="interleaved", num_heads_by_layer={"encoder.0.self": 2})
    assert unsupported_settings(plain, REQUIRED) == {}


@pytest.mark.parametrize(
    "change",
    [{"positions": "learned"}, {"activation": "swiglu"}, {"norm_placement": "pre", "final_norm": True}],
    ids=str,
)
def test_export_of_unsupported_settings_raises(joint: Tokenizer, tmp_path: Path, change: dict[str, Any]) -> None:
    config = settings(**change)
    with pytest.raises(UsageError) as caught:
        write_marian(
            tmp_path / "out",
            config=config,
            tensors=unique_tensors(Transformer(config)),
            source_tokenizer=joint,
            target_tokenizer=joint,
        )
    assert (caught.value.argument, caught.value.value) == ("model", {"MarianMTModel": tuple(change)})
    assert not (tmp_path / "out").exists()


def test_export_of_tensors_that_do_not_fit_the_config_raises(joint: Tokenizer, tmp_path: Path) -> None:
    both = {"source_tokenizer": joint, "target_tokenizer": joint}
    tensors = unique_tensors(Transformer(settings()))
    for change, reason, name in (
        ({"output_bias": True}, "missing", "output_bias"),
        ({"num_encoder_layers": 1}, "surplus", "encoder.1.feed_forward.up_proj.weight"),
        ({"d_ff": 37}, "of another shape", "encoder.0.feed_forward.up_proj.weight"),
    ):
        with pytest.raises(FolderError) as caught:
            write_marian(tmp_path, config=settings(**change), tensors=tensors, **both)
        assert caught.value.argument == "tensors"
        assert list(caught.value.value) == [reason]
        assert name in caught.value.value[reason]


def test_export_with_tokenizers_that_do_not_fit_raises(
    joint: Tokenizer, separate: tuple[Tokenizer, Tokenizer], tmp_path: Path
) -> None:
    config = settings()
    tensors = unique_tensors(Transformer(config))
    with pytest.raises(UsageError) as unequal:
        write_marian(
            tmp_path, config=config, tensors=tensors, source_tokenizer=separate[0], target_tokenizer=separate[1]
        )
    assert unequal.value.argument == "source_tokenizer"
    small = settings(vocab_size=30)
    with pytest.raises(FolderError):
        write_marian(
            tmp_path,
            config=small,
            tensors=unique_tensors(Transformer(small)),
            source_tokenizer=joint,
            target_tokenizer=joint,
        )
    swapped = {"<pad>": "</s>", "</s>": "<pad>"}
    text = json.dumps(json.loads(joint.to_json()), ensure_ascii=False)
    other = Tokenizer.from_json(
        "".join(swapped.get(part, part) for part in re.split(r"(<pad>|</s>)", text)), tmp_path / "tokenizer.json"
    )
    apart = settings(source_vocab_size=401)
    with pytest.raises(UsageError) as caught:
        write_marian(
            tmp_path / "out",
            config=apart,
            tensors=unique_tensors(Transformer(apart)),
            source_tokenizer=joint,
            target_tokenizer=other,
        )
    ids = [(side.end_id, side.pad_id, side.unknown_id) for side in (joint, other)]
    assert (caught.value.argument, caught.value.value, caught.value.allowed) == ("special_tokens", ids[0], (ids[1],))


@pytest.mark.parametrize(("start", "end"), [("<s>", "</s>"), ("<lang:en>", "<end:1>"), ("$start", "$A:0")])
def test_a_template_adds_special_tokens_with_any_characters(start: str, end: str) -> None:
    special_tokens = SpecialTokens(pad="<pad>", unknown="<unk>", start=start, end=end)
    tokenizer = train_tokenizer(TEXTS, vocab_size=400, special_tokens=special_tokens)
    single = [(start, 0), ("$A", 0), (end, 0)]
    with_template = tokenizer.with_template(single, [*single, ("$B", 1), (end, 1)])
    backend = tokenizers.Tokenizer.from_str(with_template.to_json())
    first, second = tokenizer.encode(TEXTS[0]), tokenizer.encode(TEXTS[1])
    alone = [tokenizer.start_id, *first, tokenizer.end_id]
    assert backend.encode(TEXTS[0]).ids == alone
    pair = backend.encode(TEXTS[0], TEXTS[1])
    assert pair.ids == [*alone, *second, tokenizer.end_id]
    assert pair.type_ids == [0] * len(alone) + [1] * (len(second) + 1)
    assert transformers.PreTrainedTokenizerFast(tokenizer_object=backend)(TEXTS[0])["input_ids"] == alone
