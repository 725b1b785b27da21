"""`regard train fill`, `fill` and `look` with a BERT trained on plain text, and with one that transformers wrote."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import regard as library
from regard.models.bert.model import STD
from regard.nn.positions import sinusoids
from regard.registry import tasks
from regard.tasks.fill.predictor import MaskFiller
from regard.tokenizers.tokenizer import BERT_SPECIAL_TOKENS
from regard.tokenizers.training import train_tokenizer
from regard.utils.errors import UsageError

Run = Callable[..., Any]
COLORS = ("red", "green", "blue", "white")
THINGS = ("house", "door", "wall", "roof", "tree", "car")
STORIES = [" ".join(f"The {thing} is {color}." for thing in THINGS) for color in COLORS] * 10
SMALL = ["--size", "tiny", "--d-model", 16, "--num-heads", 2, "--head-dim", 8, "--d-ff", 24, "--context-length", 40]
PACE = ["--steps", 12, "--batch-tokens", 600, "--vocab-size", 80, "--warmup-steps", 2, "--num-evals", 2]


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("texts")
    (folder / "a.txt").write_text("\n\n".join(STORIES), encoding="utf-8")
    (folder / "b.jsonl").write_text("\n".join(json.dumps({"text": text}) for text in STORIES), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def made(regard: Run, texts: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "bert"
    done = regard("train", "fill", texts, "--out", folder, *SMALL, *PACE, "--whole-words")
    assert done.code == 0, done.err
    for what in ("masked words", "unigram baseline", "bigram baseline", "next sentence", "perplexity"):
        assert f": {what} " in done.out
    assert ": masked tokens chosen " in done.out, "the masking rates are measured"
    return folder


def test_the_help_shows_the_defaults_with_and_without_pretrained_weights(regard: Run) -> None:
    shown = " ".join(regard("train", "fill", "--help").out.replace("│", " ").split())
    defaults = tasks["fill"].default_help
    assert {"learning_rate", "warmup_steps"} <= set(defaults)
    assert all(f"(default: {default})" in shown for default in defaults.values())


def test_a_training_leaves_a_model_its_card_and_a_report(made: Path) -> None:
    names = {path.name for path in made.iterdir()}
    assert {"config.json", "model.safetensors", "tokenizer.json", "README.md", "report.html"} <= names
    config = json.loads((made / "config.json").read_text(encoding="utf-8"))
    assert config["regard"]["task"] == "fill"
    assert config["head"]["kind"] == "pretraining"
    card = (made / "README.md").read_text(encoding="utf-8")
    assert "regard fill" in card
    assert 'pipeline_tag: "fill-mask"' in card
    assert "a.txt" in card
    report = (made / "report.html").read_text(encoding="utf-8")
    assert "masked tokens chosen" in report


def test_positions_stay_sinusoids_while_tokens_learn(made: Path) -> None:
    filler = library.load(made)
    assert isinstance(filler, MaskFiller)
    table = filler.model.bert.embedding.positions.weight.detach()
    assert torch.cosine_similarity(table, sinusoids(*table.shape)).min() > 0.99
    assert filler.model.bert.embedding.weight.detach().std() > 1.5 * STD


def test_filling(regard: Run, made: Path, tmp_path: Path) -> None:
    done = regard("fill", made, "The house is [MASK].", "--top", 3)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("the house is ") and done.out.count("%") == 3
    several = regard("fill", made, "The [MASK] is [MASK].", "a [MASK]", "--top", 2)
    assert [line.count("%") for line in several.out.splitlines()] == [4, 2]
    assert regard("fill", made, "The [MASK] is [MASK].", "--top", 2, "--out", tmp_path / "f.csv").code == 0
    with (tmp_path / "f.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["input"], row["mask"]) for row in rows] == [("1", "1"), ("1", "1"), ("1", "2"), ("1", "2")]


def test_filling_as_json_and_from_stdin(regard: Run, made: Path) -> None:
    done = regard("fill", made, "-", "--json", stdin=b"The house is [MASK].\nThe [MASK] is red.\n")
    rows = [json.loads(line) for line in done.out.splitlines()]
    assert [row["text"] for row in rows] == ["The house is [MASK].", "The [MASK] is red."]
    assert [len(row["masks"][0]) for row in rows] == [5, 5]
    filler = library.load(made)
    assert isinstance(filler, MaskFiller)
    assert rows[0] == filler("The house is [MASK].").record()


def test_the_whole_vocabulary_from_a_to_z(regard: Run, made: Path) -> None:
    done = regard("fill", made, "The house is [MASK].", "--all", "--json")
    [candidates] = json.loads(done.out)["masks"]
    names = [item["token"] for item in candidates]
    assert names == sorted(names)
    filler = library.load(made)
    assert isinstance(filler, MaskFiller) and len(names) == filler.tokenizer.vocab_size
    assert sum(item["score"] for item in candidates) == pytest.approx(1, abs=1e-5)


def test_a_text_beyond_the_context(regard: Run, made: Path) -> None:
    done = regard("fill", made, "the wall " * 60 + "is [MASK].", "--top", 1)
    assert done.code == 0
    assert "40" in done.err


@pytest.mark.parametrize("arguments", [["The house is red."], ["The <mask> is red."], ["The [MASK]", "--top", 0]])
def test_wrong_use(regard: Run, made: Path, arguments: list[object]) -> None:
    done = regard("fill", made, *arguments)
    assert (done.code, done.out) == (2, "")
    assert done.error.argument == ("top" if "--top" in arguments else "inputs")


def test_models_of_other_tasks(regard: Run, made: Path, model: Path) -> None:
    translator = regard("fill", model, "a [MASK]")
    assert (translator.code, translator.error.argument, translator.error.value) == (2, "task", "fill")
    generating = regard("generate", made, "a")
    assert (generating.code, generating.error.argument, generating.error.path) == (2, "task", made)


def test_looking(regard: Run, made: Path, tmp_path: Path) -> None:
    page = tmp_path / "look.html"
    done = regard("look", made, "The house is [MASK].", "--out", page)
    assert done.code == 0, done.err
    assert "[MASK]" in page.read_text(encoding="utf-8")
    found = json.loads(regard("look", made, "The house is [MASK].", "--json").out)
    assert [item["address"] for item in found["attention"]] == ["encoder.0.self", "encoder.1.self"]
    labels = found["attention"][0]["rows"]
    assert labels[0] == "[CLS]" and labels[-1] == "[SEP]" and labels.count("[MASK]") == 1
    for row in found["attention"][1]["weights"][0]:
        assert sum(row) == pytest.approx(1, abs=1e-4)
    pair = json.loads(regard("look", made, "The house is red.", "The dog is here.", "--json").out)
    assert (pair["input"][1], pair["attention"][0]["rows"].count("[SEP]")) == ("The dog is here.", 2)


def test_m145_inputs_view(regard: Run, made: Path, model: Path, tmp_path: Path) -> None:
    page = tmp_path / "inputs.html"
    texts = ("The house is red.", "The dog is here.")
    done = regard("look", made, *texts, "--view", "inputs", "--out", page)
    assert done.code == 0, done.err
    assert done.out.splitlines()[-1] == str(page)
    assert [line.split()[2] for line in done.out.splitlines()[1:-1]].count("B") > 3
    numbers = json.loads(regard("look", made, *texts, "--view", "inputs", "--json").out)
    added = sum(np.array(numbers[name]) for name in ("token", "segment", "position"))
    np.testing.assert_allclose(numbers["sum"], added, atol=1e-5)
    assert library.look(made, *texts, view="inputs").html() == page.read_text(encoding="utf-8")
    assert regard("look", model, "a", "--view", "inputs", "--out", tmp_path / "no.html").code == 2
    with pytest.raises(UsageError) as error:
        library.look(model, "a", view="inputs")
    assert error.value.argument == "view"


def test_a_fill_model_embeds(regard: Run, made: Path) -> None:
    filler = library.load(made)
    assert isinstance(filler, MaskFiller)
    vectors = filler.embed(["The house is red.", "a"])
    assert vectors.shape == (2, 16)
    found = json.loads(regard("embed", made, "The house is red.").out)["vector"]
    np.testing.assert_allclose(found, vectors[0], atol=1e-5)


@pytest.mark.parametrize(
    "between",
    [" ", "\n\n"],
    ids=["one document", "single sentences"],
)
def test_text_without_pairs(regard: Run, tmp_path: Path, between: str) -> None:
    path = tmp_path / "one.txt"
    path.write_text(" ".join(STORIES).replace(". ", f".{between}"), encoding="utf-8")
    done = regard("train", "fill", path, "--out", tmp_path / "m", *SMALL, *PACE)
    assert done.code == 0, done.err
    assert "next sentence" not in done.out
    config = json.loads((tmp_path / "m" / "config.json").read_text(encoding="utf-8"))
    assert config["head"]["kind"] == "mlm"


@pytest.mark.parametrize("text", ["", "\n \n", "Only one sentence here"])
def test_too_little_text(regard: Run, tmp_path: Path, text: str) -> None:
    path = tmp_path / "t.txt"
    path.write_text(text, encoding="utf-8")
    done = regard("train", "fill", path, "--out", tmp_path / "m", *SMALL, *PACE)
    assert (done.code, done.out) == (1, "")
    assert not (tmp_path / "m" / "config.json").exists()


def test_a_validation_file_and_python(texts: Path, tmp_path: Path) -> None:
    validation = tmp_path / "held.txt"
    validation.write_text("\n\n".join(STORIES[:8]), encoding="utf-8")
    shape = dict(d_model=16, num_heads=2, head_dim=8, d_ff=24, context_length=40, vocab_size=80)
    found = library.train(
        "fill",
        texts / "a.txt",
        validation=validation,
        out=tmp_path / "m",
        size="tiny",
        steps=3,
        batch_tokens=600,
        **shape,
    )
    assert isinstance(found, MaskFiller)
    assert found("The [MASK] is red.") == library.load(tmp_path / "m")("The [MASK] is red.")


def test_a_folder_of_transformers(regard: Run, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    tokenizer = train_tokenizer(
        STORIES, kind="wordpiece", vocab_size=80, special_tokens=BERT_SPECIAL_TOKENS, lowercase=True
    )
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=tokenizer.vocab_size,
        hidden_size=22,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=26,
        max_position_embeddings=31,
    )
    theirs = transformers.BertForMaskedLM(config).eval()
    for param in theirs.parameters():
        torch.nn.init.normal_(param, std=0.3)
    theirs.save_pretrained(tmp_path / "hf")
    tokenizer.save(tmp_path / "hf" / "tokenizer.json")
    ids = [2, *tokenizer.encode("The"), 4, *tokenizer.encode("is red."), 3]
    with torch.no_grad():
        expected = theirs(torch.tensor([ids])).logits[0, ids.index(4)].softmax(-1)
    found = json.loads(regard("fill", tmp_path / "hf", "The [MASK] is red.", "--json").out)
    best = expected.topk(5)
    assert [item["token"] for item in found["masks"][0]] == tokenizer.tokens(best.indices.tolist())
    assert [item["score"] for item in found["masks"][0]] == pytest.approx(best.values.tolist(), rel=1e-4)
    transformers.BertModel(config).save_pretrained(tmp_path / "bare")
    tokenizer.save(tmp_path / "bare" / "tokenizer.json")
    bare = regard("fill", tmp_path / "bare", "The [MASK] is red.")
    assert (bare.code, bare.error.argument, bare.error.value) == (2, "task", "fill")
    done = regard("export", tmp_path / "hf", "--out", tmp_path / "back")
    assert done.code == 0, done.err
    again = transformers.AutoTokenizer.from_pretrained(tmp_path / "back")
    assert again.mask_token == "[MASK]"
