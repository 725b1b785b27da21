"""Language models beside those of `transformers`: with the same weights the same logits and texts, both ways."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

import regard
from regard.cli.main import main
from regard.tokenizers.training import train_tokenizer
from regard.utils.errors import FolderError

transformers = pytest.importorskip("transformers")

TEXT = "To be, or not to be, that is the question: whether it is nobler in the mind to suffer."
TOKENIZER = train_tokenizer([TEXT] * 3, kind="byte-bpe", vocab_size=301)
IDS = torch.tensor([TOKENIZER.encode(TEXT)[:17]])
ROPE = {"rope_type": "default", "rope_theta": 5000.0}
SCALED_ROPE = {
    **ROPE,
    **dict(rope_type="llama3", factor=8.0, low_freq_factor=0.1, high_freq_factor=2.0),
    "original_max_position_embeddings": 16,
}
NAMES = dict(bos_token_id=3, eos_token_id=3, pad_token_id=0)

# What Llama, Qwen3 and NanoChat have in common; widths that are no multiple of each other where that is allowed.
SHAPE: dict[str, Any] = dict(
    vocab_size=301,
    hidden_size=28,
    intermediate_size=31,
    num_hidden_layers=3,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=37,
    rope_parameters=ROPE,
    **NAMES,
)
NANOCHAT = {**SHAPE, "hidden_size": 24}
GPT2 = dict(vocab_size=301, n_positions=37, n_embd=22, n_layer=3, n_head=2, n_inner=31, **NAMES)

MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "gpt2": ("GPT2", GPT2),
    "gpt2-relu": ("GPT2", {**GPT2, "n_head": 1, "n_inner": None, "activation_function": "relu"}),
    "llama": ("Llama", {**SHAPE, "head_dim": 6}),
    "llama-tied": ("Llama", {**SHAPE, "hidden_size": 24, "num_key_value_heads": 4, "tie_word_embeddings": True}),
    # As Llama 3.1 turns: the first of the three waves of a head stays, the second is in between, the third is slowed.
    "llama-scaled": ("Llama", {**SHAPE, "head_dim": 6, "rope_parameters": SCALED_ROPE}),
    "mistral": ("Mistral", {**SHAPE, "head_dim": 6, "sliding_window": None}),
    "qwen3": ("Qwen3", {**SHAPE, "head_dim": 6}),
    "nanochat": ("NanoChat", NANOCHAT),
    "nanochat-uncapped": ("NanoChat", {**NANOCHAT, "num_key_value_heads": 4, "final_logit_softcapping": None}),
}
LIKE_LLAMA = ("llama-scaled", "mistral")  # their matrices are Llama's


def written_as(model: Any) -> type:
    """A Mistral that sees all of its context is a Llama."""
    return transformers.LlamaForCausalLM if isinstance(model, transformers.MistralForCausalLM) else type(model)


def make(name: str) -> Any:
    torch.manual_seed(1)
    family, settings = MODELS[name]
    head = "LMHeadModel" if family == "GPT2" else "ForCausalLM"
    model = getattr(transformers, family + head)(getattr(transformers, f"{family}Config")(**settings)).eval()
    with torch.no_grad():
        for param in model.parameters():
            param.normal_(mean=float(param.dim() == 1), std=0.3)
    return model


@pytest.fixture(scope="module", params=list(MODELS))
def theirs(request: pytest.FixtureRequest) -> Any:
    return make(request.param)


@pytest.fixture
def folder(theirs: Any, tmp_path: Path) -> Path:
    theirs.save_pretrained(tmp_path / "theirs")
    (tmp_path / "theirs" / "tokenizer.json").write_text(TOKENIZER.to_json(), encoding="utf-8")
    return tmp_path / "theirs"


def test_m163_the_same_logits_and_the_same_greedy_text(theirs: Any, folder: Path) -> None:
    text_generator = regard.load(folder)
    with torch.no_grad():
        expected = theirs(IDS).logits
        found = text_generator.model(IDS)
        written = theirs.generate(IDS, max_new_tokens=15, do_sample=False, eos_token_id=None)
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=0)
    ours = text_generator(TOKENIZER.decode(IDS[0].tolist()), temperature=0, max_new_tokens=15)
    ids = written[0, IDS.shape[1] :].tolist()
    reached = ids.index(3) + 1 if 3 in ids else len(ids)
    assert list(ours.tokens) == TOKENIZER.with_special_tokens(text_generator.tokenizer.special_tokens).tokens(
        ids[:reached]
    )


def test_there_and_back_again(theirs: Any, folder: Path, tmp_path: Path) -> None:
    assert main(["import", str(folder), "--out", str(tmp_path / "ours")]) == 0
    assert main(["export", str(tmp_path / "ours"), "--out", str(tmp_path / "back")]) == 0
    back = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "back").eval()
    assert type(back) is written_as(theirs)
    with torch.no_grad():
        assert torch.equal(back(IDS).logits, theirs(IDS).logits)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "back")
    assert tokenizer(TEXT)["input_ids"] == TOKENIZER.encode(TEXT)


@pytest.mark.parametrize("theirs", [name for name in MODELS if name not in LIKE_LLAMA], indirect=True)
def test_adapters_learned_beside_their_weights_are_merged_for_them(theirs: Any, folder: Path, tmp_path: Path) -> None:
    """Fine-tuned here with LoRA, exported, and read there: the logits of W + α/r · BA, whichever matrices they join."""
    more = tmp_path / "more.txt"
    more.write_text(f"{TEXT}\n" * 30, encoding="utf-8")
    flags = [
        "--lora-rank",
        "3",
        "--lora-targets",
        "all",
        "--learning-rate",
        "0.05",
        "--warmup-steps",
        "1",
        "--steps",
        "4",
    ]
    training = ["train", "generate", str(more), "--from", str(folder), "--lora", *flags, "--batch-tokens", "128"]
    assert main([*training, "--window", "13", "--out", str(tmp_path / "adapter")]) == 0
    assert not (tmp_path / "adapter" / "model.safetensors").exists()
    assert main(["export", str(tmp_path / "adapter"), "--out", str(tmp_path / "back")]) == 0
    back = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "back").eval()
    assert type(back) is written_as(theirs)
    text_generator = regard.load(tmp_path / "adapter")
    with torch.no_grad():
        before, found, expected = theirs(IDS).logits, back(IDS).logits, text_generator.model(IDS)
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=0)
    assert (found - before).abs().max() > 0.01, "nothing was learned"
    # By another road: their own value projection of the first layer has moved by the last rows of α/r · BA.
    tensors = safetensors.torch.load_file(tmp_path / "adapter" / "adapter.safetensors")
    name = "decoder.0.self_attention.qkv_proj"
    change = 16 / 3 * tensors[f"{name}.lora_b"] @ tensors[f"{name}.lora_a"]
    if hasattr(back, "transformer"):  # GPT-2 joins the three as we do, and stores its matrices the other way round
        now, then = (model.transformer.h[0].attn.c_attn.weight.T for model in (back, theirs))
    else:
        now, then = (model.model.layers[0].self_attn.v_proj.weight for model in (back, theirs))
    torch.testing.assert_close(now - then, change[-len(now) :], atol=1e-5, rtol=0)
    # The same weights in another format are the same base.
    assert main(["import", str(folder), "--out", str(tmp_path / "adapter" / "base")]) == 0
    shutil.rmtree(folder)
    with torch.no_grad():
        assert torch.equal(regard.load(tmp_path / "adapter").model(IDS), expected)


def test_going_on_whole_from_shards_is_written_as_one_model(tmp_path: Path) -> None:
    theirs = make("llama")
    theirs.save_pretrained(tmp_path / "theirs", max_shard_size="20KB")
    (tmp_path / "theirs" / "tokenizer.json").write_text(TOKENIZER.to_json(), encoding="utf-8")
    more = tmp_path / "more.txt"
    more.write_text(f"{TEXT}\n" * 30, encoding="utf-8")
    settings = dict(window=13, steps=3, batch_tokens=128)
    text_generator = regard.train("generate", more, from_=tmp_path / "theirs", out=tmp_path / "ours", **settings)
    assert main(["export", str(tmp_path / "ours"), "--out", str(tmp_path / "back")]) == 0
    back = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "back").eval()
    with torch.no_grad():
        torch.testing.assert_close(back(IDS).logits, text_generator.model(IDS), atol=1e-4, rtol=0)
        assert (back(IDS).logits - theirs(IDS).logits).abs().max() > 1e-3


def test_rows_without_a_token_are_never_drawn(tmp_path: Path) -> None:
    config = transformers.GPT2Config(vocab_size=400, n_positions=37, n_embd=8, n_layer=1, n_head=1, **NAMES)
    transformers.GPT2LMHeadModel(config).save_pretrained(tmp_path)
    (tmp_path / "tokenizer.json").write_text(TOKENIZER.to_json(), encoding="utf-8")
    written = regard.load(tmp_path)("To be", temperature=9.0, top_k=None, max_new_tokens=300, seed=0)
    assert 1 <= len(written.tokens) <= 300


def test_shards_are_read(tmp_path: Path) -> None:
    theirs = make("llama")
    theirs.save_pretrained(tmp_path, max_shard_size="20KB")
    (tmp_path / "tokenizer.json").write_text(TOKENIZER.to_json(), encoding="utf-8")
    assert len(list(tmp_path.glob("model-*.safetensors"))) > 1
    with torch.no_grad():
        torch.testing.assert_close(regard.load(tmp_path).model(IDS), theirs(IDS).logits, atol=1e-4, rtol=0)


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("gpt2", {"add_cross_attention": True}, "add_cross_attention is True"),
        ("gpt2", {"activation_function": "tanh"}, "activation_function is 'tanh'"),
        ("llama", {"hidden_act": "gelu", "mlp_bias": True}, "hidden_act is 'gelu' .*; mlp_bias is True"),
        ("llama", {"rope_parameters": {"rope_type": "yarn", "rope_theta": 1.0}}, "rope_type is 'yarn'"),
        ("gpt2", {"n_layer": 2}, r"surplus: transformer\.h\.2\."),
        ("gpt2", {"n_layer": 4}, r"missing: transformer\.h\.3\."),
        ("gpt2", {"n_inner": 30}, "of another shape: "),
        ("llama", {"num_hidden_layers": 4}, r"LlamaForCausalLM .*missing: model\.layers\.3\.self_attn\.q_proj"),
        ("llama", {"head_dim": 5}, "head_dim is 5"),
        ("mistral", {"sliding_window": 36}, "sliding_window is 36"),
        ("gpt2", {"model_type": "mamba"}, "'mamba'"),
        ("gpt2", {"vocab_size": 300}, "vocab_size of the model is 300"),
    ],
)
def test_what_does_not_fit_is_named(name: str, changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    make(name).save_pretrained(tmp_path)
    (tmp_path / "tokenizer.json").write_text(TOKENIZER.to_json(), encoding="utf-8")
    settings = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    (tmp_path / "config.json").write_text(json.dumps({**settings, **changes}), encoding="utf-8")
    with pytest.raises(FolderError, match=message):
        regard.load(tmp_path)


def test_a_folder_without_a_tokenizer_is_refused(tmp_path: Path) -> None:
    make("gpt2").save_pretrained(tmp_path)
    with pytest.raises(FolderError, match=r"has no tokenizer.*tokenizer\.json, or vocab\.json and merges"):
        regard.load(tmp_path)
