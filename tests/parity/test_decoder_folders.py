"""Folders of language models from `transformers`: tokenizers, end tokens, sampling options and invalid content.

Some tokenizers add a start token to every text or drop the space before its first word.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import tokenizers
import torch
from tokenizers import decoders, models, normalizers, processors, trainers

import regard
from regard.cli.main import main
from regard.models.gpt.config import GPTConfig
from regard.models.gpt.model import GPT
from regard.tasks.generate.predictor import TextGenerator
from regard.tasks.score.predictor import TextScorer
from regard.tokenizers.tokenizer import Tokenizer
from regard.tokenizers.training import train_tokenizer
from regard.utils.errors import FolderError, UsageError

transformers = pytest.importorskip("transformers")

TEXT = "the cat sat on the mat and the dog sat on the cat while the naïve rat ran"
PROMPT = "the cat"
SHAPE: dict[str, Any] = dict(
    vocab_size=301,
    hidden_size=24,
    intermediate_size=31,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=37,
    head_dim=6,
    bos_token_id=2,
    eos_token_id=3,
    pad_token_id=0,
)
CLASSES = {
    "gpt2": ("GPT2LMHeadModel", "GPT2Config"),
    "llama": ("LlamaForCausalLM", "LlamaConfig"),
    "qwen3": ("Qwen3ForCausalLM", "Qwen3Config"),
    "mistral": ("MistralForCausalLM", "MistralConfig"),
    "nanochat": ("NanoChatForCausalLM", "NanoChatConfig"),
}
GPT2 = dict(vocab_size=301, n_positions=37, n_embd=24, n_layer=2, n_head=4, n_inner=31, bos_token_id=3, eos_token_id=3)


def make(name: str, **changes: Any) -> Any:
    model_class, config_class = CLASSES[name]
    torch.manual_seed(1)
    settings = GPT2 if name == "gpt2" else SHAPE
    model = getattr(transformers, model_class)(getattr(transformers, config_class)(**{**settings, **changes})).eval()
    with torch.no_grad():
        for param in model.parameters():
            param.normal_(mean=float(param.dim() == 1), std=0.4)
    return model


def byte_tokenizer() -> tokenizers.Tokenizer:
    """Byte-level tokens with pad 0, unknown 1, start 2 and end 3, and the usual `<s> $A`."""
    backend = tokenizers.Tokenizer.from_str(train_tokenizer([TEXT] * 3, kind="byte-bpe", vocab_size=301).to_json())
    backend.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 2)])
    return backend


def sentencepiece_tokenizer() -> tokenizers.Tokenizer:
    """The tokenizer of the first Llama: ▁ for a space, byte fallback, no space before the first word."""
    backend = tokenizers.Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    backend.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    backend.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    in_bytes = [f"<0x{byte:02X}>" for byte in "ï".encode()]
    words = [word for word in TEXT.split() if word.isascii()]
    trainer = trainers.BpeTrainer(special_tokens=["<pad>", "<unk>", "<s>", "</s>"], vocab_size=40, show_progress=False)
    backend.train_from_iterator(words, trainer)
    described = json.loads(backend.to_str())
    vocabulary = described["model"]["vocab"]
    for token in in_bytes:
        vocabulary[token] = len(vocabulary)
    backend = tokenizers.Tokenizer.from_str(json.dumps(described))
    backend.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 2)])
    return backend


BACKENDS = {"bytes": byte_tokenizer, "sentencepiece": sentencepiece_tokenizer}


@pytest.fixture(scope="module", params=list(BACKENDS))
def theirs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any, Path]:
    """A Llama, its tokenizer in transformers, and the folder of both."""
    folder = tmp_path_factory.mktemp(request.param) / "theirs"
    tokenizer = BACKENDS[request.param]()
    model = make("llama", vocab_size=tokenizer.get_vocab_size())
    write_folder(model, folder, tokenizer)
    return model, transformers.AutoTokenizer.from_pretrained(folder), folder


def stream(generator: Any, prompt: str, **options: Any) -> Iterator[str]:
    return generator.stream(prompt, generator.config.replace(temperature=0.0, **options))  # type: ignore[no-any-return]


def write_folder(model: Any, folder: Path, tokenizer: tokenizers.Tokenizer | None = None, **settings: Any) -> None:
    model.save_pretrained(folder)
    (folder / "tokenizer.json").write_text((tokenizer or byte_tokenizer()).to_str(), encoding="utf-8")
    names = dict(bos_token="<s>", eos_token="</s>", pad_token="<pad>", tokenizer_class="PreTrainedTokenizerFast")
    (folder / "tokenizer_config.json").write_text(json.dumps({**names, **settings}), encoding="utf-8")


def test_a_prompt_begins_with_the_start_token_of_the_tokenizer(theirs: tuple[Any, Any, Path]) -> None:
    model, tokenizer, folder = theirs
    text_generator = regard.load(folder)
    ids = tokenizer(PROMPT, return_tensors="pt")["input_ids"]
    assert text_generator.prompt_ids(PROMPT) == ids[0].tolist()
    assert text_generator.prompt_ids(PROMPT)[0] == 2
    with torch.no_grad():
        whole = model.generate(ids, max_new_tokens=20, do_sample=False, eos_token_id=None)[0]
    new = whole[ids.shape[1] :].tolist()
    new = new[: new.index(3) + 1] if 3 in new else new
    ours = text_generator(PROMPT, temperature=0, max_new_tokens=20)
    assert list(ours.tokens) == tokenizer.convert_ids_to_tokens(new)
    # The space before the first new word is part of the new text.
    read = tokenizer.decode([*ids[0].tolist(), *new], skip_special_tokens=True)
    assert PROMPT + ours.text == read
    assert PROMPT + "".join(stream(text_generator, PROMPT, max_new_tokens=20)) == read
    found = text_generator(PROMPT, num_beams=1, max_new_tokens=20)
    assert PROMPT + found.text == read
    assert found.tokens == ours.tokens
    # An empty prompt consists of the start token.
    assert text_generator.prompt_ids("") == tokenizer("")["input_ids"] == [2]


def test_the_new_text_includes_the_space_before_its_first_word(theirs: tuple[Any, Any, Path]) -> None:
    _, tokenizer, folder = theirs
    text_generator, words = regard.load(folder), TEXT.split()
    starts_word = []
    for count in range(1, len(words)):
        prompt = " ".join(words[:count])
        written = text_generator(prompt, temperature=0, max_new_tokens=2)
        before, new = tokenizer(prompt)["input_ids"], tokenizer.convert_tokens_to_ids(written.tokens)
        known, whole = (tokenizer.decode(ids, skip_special_tokens=True) for ids in (before, [*before, *new]))
        assert known + written.text == whole
        assert "".join(stream(text_generator, prompt, max_new_tokens=2)) == written.text
        assert text_generator(prompt, num_beams=1, max_new_tokens=2).text == written.text
        starts_word.append(written.tokens[0][0] in "▁Ġ")
    assert any(starts_word)


def test_a_text_is_scored_after_the_start_token(theirs: tuple[Any, Any, Path]) -> None:
    model, tokenizer, folder = theirs
    ids = tokenizer(PROMPT, return_tensors="pt")["input_ids"]
    with torch.no_grad():
        expected = model(ids).logits.log_softmax(-1)[0, :-1].gather(-1, ids[0, 1:, None])[:, 0]
    found = regard.load(folder, task="score")(PROMPT)
    assert list(found.log_probs) == pytest.approx(expected.tolist(), abs=1e-4)
    assert found.num_bytes == len(PROMPT)
    assert list(found.tokens) == tokenizer.convert_ids_to_tokens(ids[0, 1:])
    with pytest.raises(UsageError):
        regard.load(folder, task="score")("")


def test_every_window_begins_with_the_start_token(theirs: tuple[Any, Any, Path]) -> None:
    """Compare with windows of 36 tokens after the start token, each 18 tokens after the one before."""
    model, tokenizer, folder = theirs
    text_generator, text = regard.load(folder), " ".join([TEXT] * 3)
    ids = tokenizer(text)["input_ids"][1:]
    found: list[float] = []
    start = 0
    while len(found) < len(ids):
        window = torch.tensor([[2, *ids[start : start + 37]]])
        with torch.no_grad():
            log_probs = model(window[:, :-1]).logits.log_softmax(-1).gather(-1, window[:, 1:, None])[0, :, 0]
        found += log_probs.tolist()[len(found) - start :]
        start += 18
    assert list(regard.load(folder, task="score")(text).log_probs) == pytest.approx(found, abs=1e-4)
    assert text_generator.trace(text).tokens["decoder"][0][0] == "<s>"
    # Of a text longer than the context, the last tokens are used, again after the start token.
    read = text_generator.prompt_ids(text)
    with torch.no_grad():
        best = model(torch.tensor([[2, *read[-35:]]])).logits[0, -1].argmax().item()
    assert text_generator(text, temperature=0, max_new_tokens=1).tokens == tuple(
        tokenizer.convert_ids_to_tokens([best])
    )


def test_suggestions_complete_the_last_word(theirs: tuple[Any, Any, Path]) -> None:
    """The incomplete last word is encoded again, with the space before it."""
    found = regard.load(theirs[2], task="suggest")(PROMPT).scores
    assert found
    assert all(word.startswith("cat") for word in found)


def test_import_and_export_keep_the_start_token(theirs: tuple[Any, Any, Path], tmp_path: Path) -> None:
    _, tokenizer, folder = theirs
    assert main(["import", str(folder), "--out", str(tmp_path / "ours")]) == 0
    assert regard.load(tmp_path / "ours").prompt_ids(PROMPT) == tokenizer(PROMPT)["input_ids"]
    assert main(["export", str(tmp_path / "ours"), "--out", str(tmp_path / "back")]) == 0
    back = transformers.AutoTokenizer.from_pretrained(tmp_path / "back")
    assert back(PROMPT)["input_ids"] == tokenizer(PROMPT)["input_ids"]
    assert (back.bos_token, back.eos_token) == ("<s>", "</s>")
    read = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "back")
    assert read.generation_config.bos_token_id == read.config.bos_token_id == 2


@pytest.mark.parametrize(("add_bos_token", "prefix"), [(True, [2]), (False, [])])
def test_vocab_and_merges_files_with_add_bos_token(add_bos_token: bool, prefix: list[int], tmp_path: Path) -> None:
    write_folder(make("gpt2"), tmp_path, add_bos_token=add_bos_token)
    Tokenizer(byte_tokenizer()).save_merges(tmp_path)
    (tmp_path / "tokenizer.json").unlink()
    text_generator = regard.load(tmp_path)
    assert text_generator.prompt_ids(PROMPT) == [*prefix, *text_generator.tokenizer.encode(PROMPT)]
    assert main(["export", str(tmp_path), "--out", str(tmp_path / "back")]) == 0
    assert transformers.AutoTokenizer.from_pretrained(tmp_path / "back")(PROMPT)[
        "input_ids"
    ] == text_generator.prompt_ids(PROMPT)


def change(folder: Path, name: str, **changes: Any) -> None:
    file = folder / name
    known = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    file.write_text(json.dumps({**known, **changes}), encoding="utf-8")


def test_each_of_several_end_tokens_ends_a_text(tmp_path: Path) -> None:
    write_folder(make("llama"), tmp_path / "theirs")
    endless = regard.load(tmp_path / "theirs")(PROMPT, temperature=0, max_new_tokens=9)
    assert not endless.ended
    tokenizer = Tokenizer(byte_tokenizer())
    last = tokenizer.vocabulary().index(endless.tokens[4])
    first = endless.tokens.index(endless.tokens[4])
    change(tmp_path / "theirs", "generation_config.json", eos_token_id=[3, last])
    for folder in (tmp_path / "theirs", tmp_path / "ours"):
        text_generator = regard.load(folder)
        for text in (text_generator(PROMPT, temperature=0), text_generator(PROMPT, num_beams=1)):
            assert text.ended
            assert text.tokens == endless.tokens[: first + 1]
        assert "".join(stream(text_generator, PROMPT)) == text.text
        if folder.name == "theirs":
            assert main(["import", str(folder), "--out", str(tmp_path / "ours")]) == 0
    assert main(["export", str(tmp_path / "ours"), "--out", str(tmp_path / "back")]) == 0
    for name in ("config.json", "generation_config.json"):
        assert json.loads((tmp_path / "back" / name).read_text(encoding="utf-8"))["eos_token_id"] == [3, last]


def test_sampling_options_are_imported_and_exported(tmp_path: Path) -> None:
    model = make("llama")
    sampling = dict(temperature=0.7, top_k=0, top_p=0.9, min_p=0.05, repetition_penalty=1.2)
    model.generation_config = transformers.GenerationConfig(do_sample=True, **sampling)
    write_folder(model, tmp_path / "theirs")
    change(tmp_path / "theirs", "generation_config.json", top_k=0)
    text_generator = regard.load(tmp_path / "theirs")
    assert text_generator.config.top_k is None
    kept = {name: value for name, value in sampling.items() if name != "top_k"}
    assert {name: getattr(text_generator.config, name) for name in kept} == kept
    assert main(["import", str(tmp_path / "theirs"), "--out", str(tmp_path / "ours")]) == 0
    assert main(["export", str(tmp_path / "ours"), "--out", str(tmp_path / "back")]) == 0
    back = transformers.GenerationConfig.from_pretrained(tmp_path / "back")
    assert {name: getattr(back, name) for name in sampling} == sampling
    assert back.do_sample
    # Greedy decoding ignores sampling options but not the repetition penalty.
    change(tmp_path / "theirs", "generation_config.json", do_sample=False)
    greedy = regard.load(tmp_path / "theirs").config
    assert (greedy.temperature, greedy.repetition_penalty, greedy.top_p) == (0.0, 1.2, None)


@pytest.mark.parametrize("name", list(CLASSES))
@pytest.mark.parametrize("wrong", ["missing", "surplus", "longer", "one axis", "integers"])
def test_errors_list_tensors_under_the_names_of_transformers(name: str, wrong: str, tmp_path: Path) -> None:
    write_folder(make(name, **({"sliding_window": None} if name == "mistral" else {})), tmp_path)
    whole = safetensors.torch.load_file(tmp_path / "model.safetensors")
    keys = [key for key in whole if ".1." not in key]  # one layer has one of each kind
    for key in keys if wrong in ("missing", "longer") else keys[1:2]:
        tensor, tensors = whole[key], dict(whole)
        rows = tensor.shape[0]
        expected = {"of another shape": (key,)}
        if wrong == "missing":
            del tensors[key]
            expected = {"missing": (key,)}
        elif wrong == "surplus":
            tensors[f"{key}.more"] = tensor.clone()
            expected = {"surplus": (f"{key}.more",)}
        elif wrong == "longer":
            tensors[key] = torch.ones(rows + 1, *tensor.shape[1:])
        elif wrong == "one axis":
            tensors[key] = torch.ones(tensor.numel() + 1)
        else:
            tensors[key] = torch.ones_like(tensor, dtype=torch.int32)
            expected = {"of another type": (key,)}
        safetensors.torch.save_file(tensors, tmp_path / "model.safetensors", metadata={"format": "pt"})
        with pytest.raises(FolderError) as caught:
            regard.load(tmp_path)
        assert (caught.value.argument, caught.value.value) == ("tensors", expected)
        assert caught.value.path == tmp_path


def test_a_sliding_window_as_long_as_the_context_is_supported(tmp_path: Path) -> None:
    model = make("mistral", sliding_window=37)
    write_folder(model, tmp_path)
    ids = torch.arange(4, 41)[None]
    with torch.no_grad():
        torch.testing.assert_close(regard.load(tmp_path).model(ids), model(ids).logits, atol=1e-4, rtol=0)


def test_tensor_names_without_their_prefix_are_read(tmp_path: Path) -> None:
    model = make("llama", tie_word_embeddings=True)
    write_folder(model, tmp_path)
    tensors = safetensors.torch.load_file(tmp_path / "model.safetensors")
    bare = {name.removeprefix("model."): tensor for name, tensor in tensors.items() if name != "lm_head.weight"}
    bare["layers.0.self_attn.rotary_emb.inv_freq"] = torch.ones(3)  # as old versions stored it
    safetensors.torch.save_file(bare, tmp_path / "model.safetensors")
    ids = torch.tensor([[2, 5, 7]])
    with torch.no_grad():
        torch.testing.assert_close(regard.load(tmp_path).model(ids), model(ids).logits, atol=1e-4, rtol=0)
    del bare["layers.1.self_attn.k_proj.weight"]
    safetensors.torch.save_file(bare, tmp_path / "model.safetensors")
    with pytest.raises(FolderError) as caught:
        regard.load(tmp_path)
    assert caught.value.value == {"missing": ("layers.1.self_attn.k_proj.weight",)}


NOT_NUMBERS: list[Any] = ["two", 1.5, True, [1], 0, -1]


@pytest.mark.parametrize(
    ("file", "name", "settings"),
    [
        ("config.json", "llama", {"num_hidden_layers": NOT_NUMBERS, "hidden_size": ["x", None], "vocab_size": [None]}),
        ("config.json", "llama", {"rms_norm_eps": ["a", [1], 0], "rope_scaling": [3, "x"], "head_dim": ["x", -2]}),
        ("config.json", "llama", {"rope_parameters": [4, {"rope_theta": "x"}, {"rope_theta": 0}]}),
        ("config.json", "llama", {"rope_parameters": [{"rope_type": "llama3"}], "layer_types": [3]}),
        ("config.json", "llama", {"num_attention_heads": [0, None, 5], "tie_word_embeddings": ["x", 1]}),
        ("config.json", "mistral", {"sliding_window": ["x"]}),
        ("config.json", "gpt2", {"n_layer": NOT_NUMBERS, "n_head": [0, "x"], "n_inner": ["x"], "vocab_size": [None]}),
        ("config.json", "gpt2", {"layer_norm_epsilon": ["x"], "resid_pdrop": ["x", 1], "n_positions": [[]]}),
        ("config.json", "nanochat", {"final_logit_softcapping": ["x", 0, -1.0], "intermediate_size": ["x"]}),
        ("generation_config.json", "gpt2", {"top_k": ["x", -1, 1.5], "temperature": ["x", -1], "top_p": [0, 2, [1]]}),
        ("generation_config.json", "gpt2", {"min_p": ["x", 2], "repetition_penalty": [0, "x", {}]}),
    ],
)
def test_settings_of_wrong_type_or_range(file: str, name: str, settings: dict[str, list[Any]], tmp_path: Path) -> None:
    write_folder(make(name, **({"sliding_window": None} if name == "mistral" else {})), tmp_path)
    known = (tmp_path / file).read_text(encoding="utf-8")
    for setting, values in settings.items():
        for value in values:
            (tmp_path / file).write_text(known, encoding="utf-8")
            change(tmp_path, file, **{setting: value})
            with pytest.raises(FolderError) as caught:
                regard.load(tmp_path)
            assert caught.value.path == tmp_path / file, (setting, value)


def test_export_without_dropout_prints_a_note(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tokenizer = train_tokenizer([TEXT], kind="char", vocab_size=60)
    shape: dict[str, Any] = dict(num_layers=1, d_model=16, d_ff=16, num_heads=2, head_dim=8, context_length=8)
    ours = TextGenerator(GPT(GPTConfig(vocab_size=tokenizer.vocab_size, dropout=0.1, **shape)), tokenizer)
    ours.save(tmp_path / "ours")
    assert main(["export", str(tmp_path / "ours"), "--out", str(tmp_path / "theirs")]) == 0
    assert "dropout" in capsys.readouterr().err
    ids = torch.tensor([[5, 6, 7]])
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "theirs").eval()
    with torch.no_grad():
        torch.testing.assert_close(theirs(ids).logits, ours.model(ids), atol=1e-4, rtol=0)


def test_a_model_of_regard_needs_no_start_token() -> None:
    tokenizer = train_tokenizer([TEXT], kind="char", vocab_size=60)
    shape = dict(num_layers=1, d_model=8, d_ff=8, num_heads=1, head_dim=8, context_length=9)
    text_generator = TextGenerator(GPT(GPTConfig(vocab_size=tokenizer.vocab_size, **shape)), tokenizer)  # type: ignore[arg-type]
    assert text_generator.prompt_ids(PROMPT) == tokenizer.encode(PROMPT)
    scorer = TextScorer(text_generator.model, tokenizer)
    assert math.isfinite(scorer(PROMPT).loss)
