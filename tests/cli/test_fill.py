"""`regard train fill`, `fill` and `look` of a BERT made from plain text, and of one that transformers wrote."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import regard as library
from regard.errors import UsageError
from regard.models.bert import DEVIATION
from regard.nn.positions import sinusoids
from regard.tasks.fill import Filler
from regard.text.tokenizer import BERT_SYMBOLS
from regard.text.training import train_tokenizer
from regard.training.recipes import filling_recipe, fine_tuning_recipe

Run = Callable[..., Any]
COLOURS = ("red", "green", "blue", "white")
THINGS = ("house", "door", "wall", "roof", "tree", "car")
STORIES = [" ".join(f"The {thing} is {colour}." for thing in THINGS) for colour in COLOURS] * 10
SMALL = ["--size", "tiny", "--width", 16, "--heads", 2, "--head-width", 8, "--hidden", 24, "--context", 40]
PACE = ["--steps", 12, "--batch-tokens", 600, "--pieces", 80, "--warmup-steps", 2, "--validations", 2]


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("texts")
    (folder / "a.txt").write_text("\n\n".join(STORIES), encoding="utf-8")
    (folder / "b.jsonl").write_text("\n".join(json.dumps({"text": text}) for text in STORIES), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def made(regard: Run, texts: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "bert"
    said = regard("train", "fill", texts, "--out", folder, *SMALL, *PACE, "--whole-words")
    assert said.code == 0, said.err
    for what in ("masked words", "unigram baseline", "bigram baseline", "next sentence", "perplexity"):
        assert f": {what} " in said.out
    assert "words chosen; of these" in said.out, "rates are measured and shown"
    assert "480 sentences of 80 documents" not in said.err  # some are held out
    assert "words, " in said.err and " documents for training" in said.err
    return folder


def test_the_help_tells_what_is_usual_for_one_that_goes_on(regard: Run) -> None:
    shown = " ".join(regard("train", "fill", "--help").out.replace("│", " ").split())
    new, whole = filling_recipe("mini").training, fine_tuning_recipe(lora=False).training
    for name, before in (("learning_rate", "full rate of AdamW"), ("warmup_steps", "updates until the full rate")):
        assert f"{before} (usually {new[name]}; with --from {whole[name]})" in shown


def test_a_training_leaves_a_model_its_card_and_a_report(made: Path) -> None:
    names = {path.name for path in made.iterdir()}
    assert {"config.json", "model.safetensors", "tokenizer.json", "README.md", "report.html"} <= names
    config = json.loads((made / "config.json").read_text(encoding="utf-8"))
    assert config["regard"]["task"] == "fill"
    assert config["head"]["kind"] == "words-follows"
    card = (made / "README.md").read_text(encoding="utf-8")
    assert "regard fill" in card
    assert 'pipeline_tag: "fill-mask"' in card
    report = (made / "report.html").read_text(encoding="utf-8")
    assert "Text with a gap" in report and "words chosen; of these" in report


def test_places_keep_their_waves_while_pieces_learn(made: Path) -> None:
    filler = library.load(made)
    assert isinstance(filler, Filler)
    table = filler.model.bert.embedding.positions.weight.detach()
    assert torch.cosine_similarity(table, sinusoids(*table.shape)).min() > 0.99
    moved = filler.model.bert.embedding.weight.detach().std()
    assert moved > 1.5 * DEVIATION  # what pieces began with


def test_filling(regard: Run, made: Path) -> None:
    said = regard("fill", made, "The house is [MASK].", "--top", 3)
    assert (said.code, said.err) == (0, "")
    *guesses, best = said.out.splitlines()
    assert len(guesses) == 3
    assert all(line.split()[0].endswith("%") for line in guesses)
    assert best.startswith("→ the house is ")
    several = regard("fill", made, "The [MASK] is [MASK].", "--top", 2)
    assert several.out.splitlines()[0] == "[MASK] 1"
    assert several.out.splitlines()[3] == "[MASK] 2"


def test_filling_as_json_and_from_stdin(regard: Run, made: Path) -> None:
    said = regard("fill", made, "-", "--json", stdin=b"The house is [MASK].\n\nThe [MASK] is red.\n")
    rows = [json.loads(line) for line in said.out.splitlines()]
    assert [row["text"] for row in rows] == ["The house is [MASK].", "The [MASK] is red."]
    assert [len(row["masks"][0]) for row in rows] == [5, 5]
    filler = library.load(made)
    assert isinstance(filler, Filler)
    best = filler.fill("The house is [MASK].").masks[0][0]
    assert rows[0]["masks"][0][0] == {"word": best.word, "probability": best.probability}


def test_the_whole_vocabulary_from_a_to_z(regard: Run, made: Path) -> None:
    said = regard("fill", made, "The house is [MASK].", "--all", "--json")
    [words] = json.loads(said.out)["masks"]
    names = [one["word"] for one in words]
    assert names == sorted(names)
    assert len(names) == library.load(made).tokenizer.vocab_size  # type: ignore[union-attr]
    assert sum(one["probability"] for one in words) == pytest.approx(1, abs=1e-5)


def test_a_text_beyond_the_window(regard: Run, made: Path) -> None:
    said = regard("fill", made, "the wall " * 60 + "is [MASK].", "--top", 1)
    assert said.code == 0
    assert "the text is longer than the 40 tokens that the model reads" in said.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["The house is red."], "there is no [MASK] in the text: put it where a word is missing"),
        (["The <mask> is red."], "write [MASK] where it says <mask>"),
        (["The [MASK]", "--top", 0], "--top must be at least 1, not 0"),
    ],
)
def test_wrong_use(regard: Run, made: Path, arguments: list[object], message: str) -> None:
    said = regard("fill", made, *arguments)
    assert (said.code, said.out) == (2, "")
    assert message in said.err


def test_models_that_fill_no_gaps(regard: Run, made: Path, model: Path) -> None:
    translator = regard("fill", model, "a [MASK]")
    assert translator.code == 2 and "holds a translator" in translator.err and "regard train fill" in translator.err
    writing = regard("generate", made, "a")
    assert writing.code == 2 and "regard fill" in writing.err


def test_looking(regard: Run, made: Path, tmp_path: Path) -> None:
    page = tmp_path / "look.html"
    said = regard("look", made, "The house is [MASK].", "--out", page)
    assert said.code == 0, said.err
    assert "[MASK]" in page.read_text(encoding="utf-8")
    found = json.loads(regard("look", made, "The house is [MASK].", "--json").out)
    assert [one["address"] for one in found["attention"]] == ["encoder.0.self", "encoder.1.self"]
    labels = found["attention"][0]["rows"]
    assert labels[0] == "[CLS]" and labels[-1] == "[SEP]" and labels.count("[MASK]") == 1
    for row in found["attention"][1]["weights"][0]:
        assert sum(row) == pytest.approx(1, abs=1e-4)
    pair = json.loads(regard("look", made, "The house is red.", "The dog is here.", "--json").out)
    assert (pair["second"], pair["attention"][0]["rows"].count("[SEP]")) == ("The dog is here.", 2)


def test_m145_what_enters(regard: Run, made: Path, model: Path, tmp_path: Path) -> None:
    page = tmp_path / "inputs.html"
    said = regard("look", made, "The house is red.", "The dog is here.", "--inputs", "--out", page)
    assert said.code == 0, said.err
    assert said.out.splitlines()[0].split() == ["token", "id", "segment", "position"]
    assert said.out.splitlines()[-1] == str(page)
    assert [line.split()[2] for line in said.out.splitlines()[1:-1]].count("B") > 3
    numbers = json.loads(regard("look", made, "The house is red.", "The dog is here.", "--inputs", "--json").out)
    added = sum(np.array(numbers[name]) for name in ("token", "segment", "position"))
    np.testing.assert_allclose(numbers["sum"], added, atol=1e-5)
    view = library.look(library.load(made), ("The house is red.", "The dog is here."), inputs=True)
    assert view.html() == page.read_text(encoding="utf-8")
    said = regard("look", model, "a", "--inputs", "--out", tmp_path / "no.html")
    assert (said.code, "--inputs are those of a BERT" in said.err) == (2, True)
    with pytest.raises(UsageError, match="inputs are those of a BERT"):
        library.look(library.load(model), "a", inputs=True)
    assert "one at a time" in regard("look", made, "a", "--inputs", "--ranks").err


def test_it_embeds_too(made: Path) -> None:
    filler = library.load(made)
    assert isinstance(filler, Filler)
    assert filler.embed(["The house is red.", "a"]).shape == (2, 16)


@pytest.mark.parametrize(
    ("between", "reason"),
    [(" ", "the text is one document"), ("\n\n", "every document is a single sentence")],
    ids=["one document", "single sentences"],
)
def test_text_without_pairs(regard: Run, tmp_path: Path, between: str, reason: str) -> None:
    path = tmp_path / "one.txt"
    path.write_text(" ".join(STORIES).replace(". ", f".{between}"), encoding="utf-8")
    said = regard("train", "fill", path, "--out", tmp_path / "m", *SMALL, *PACE)
    assert said.code == 0, said.err
    assert f"next sentence: not learned ({reason}" in said.err
    assert "next sentence" not in said.out
    config = json.loads((tmp_path / "m" / "config.json").read_text(encoding="utf-8"))
    assert config["head"]["kind"] == "words"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty. Give a file with text in it"),
        ("\n \n", "is empty"),
        ("Only one sentence here", "the text has 1 sentence, too few"),
    ],
)
def test_too_little_text(regard: Run, tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "t.txt"
    path.write_text(text, encoding="utf-8")
    said = regard("train", "fill", path, "--out", tmp_path / "m", *SMALL, *PACE)
    assert (said.code, said.out) == (1, "")
    assert message in said.err


def test_a_validation_file_and_python(texts: Path, tmp_path: Path) -> None:
    held = tmp_path / "held.txt"
    held.write_text("\n\n".join(STORIES[:8]), encoding="utf-8")
    shape = dict(width=16, heads=2, head_width=8, hidden=24, context=40, pieces=80)
    found = library.train(
        "fill", texts / "a.txt", validation=held, out=tmp_path / "m", size="tiny", steps=3, batch_tokens=600, **shape
    )
    assert isinstance(found, Filler)
    assert found.fill("The [MASK] is red.").masks
    assert library.load(tmp_path / "m").fill("The [MASK] is red.").masks  # type: ignore[union-attr]


def test_a_folder_of_transformers(regard: Run, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    tokenizer = train_tokenizer(STORIES, kind="wordpiece", vocab_size=80, symbols=BERT_SYMBOLS, lowercase=True)
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
    assert [one["word"] for one in found["masks"][0]] == tokenizer.tokens(best.indices.tolist())
    assert [one["probability"] for one in found["masks"][0]] == pytest.approx(best.values.tolist(), rel=1e-4)
    transformers.BertModel(config).save_pretrained(tmp_path / "bare")
    tokenizer.save(tmp_path / "bare" / "tokenizer.json")
    bare = regard("fill", tmp_path / "bare", "The [MASK] is red.")
    assert bare.code == 2
    assert "a BERT without a head for masked words" in bare.err
    said = regard("export", tmp_path / "hf", "--out", tmp_path / "back")
    assert said.code == 0, said.err
    again = transformers.AutoTokenizer.from_pretrained(tmp_path / "back")
    assert again.mask_token == "[MASK]"
