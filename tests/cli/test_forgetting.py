"""`--forgetting` measures, logs and reports the loss of masked words; fill models are evaluated and fine-tuned."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import regard as library
from regard.data.corpus import Corpus
from regard.data.documents import read_documents
from regard.data.pretraining import longest_sentence
from regard.tasks.encoder.mlm_eval import MLMEvaluator
from regard.tasks.fill.predictor import MaskFiller
from regard.training.callbacks import read_metrics
from regard.utils.errors import DataError, RegardError, UsageError

Run = Callable[..., Any]
COLORS = ("red", "green", "blue", "white")
THINGS = ("house", "door", "wall", "roof", "tree", "car")
STORIES = [" ".join(f"The {thing} is {color}." for thing in THINGS) for color in COLORS] * 10
SMALL = ["--size", "tiny", "--d-model", 16, "--num-heads", 2, "--head-dim", 8, "--d-ff", 24, "--context-length", 40]
PACE = ["--steps", 60, "--batch-tokens", 600, "--vocab-size", 80, "--warmup-steps", 2, "--num-evals", 2]
QUICK = ["--max-seq-len", 16, "--epochs", 2, "--batch-size", 8, "--learning-rate", 0.02, "--num-evals", 2]


@pytest.fixture(scope="module")
def place(regard: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with general text, labels, and a BERT that knows the text a little."""
    place = tmp_path_factory.mktemp("forgetting")
    (place / "texts.txt").write_text("\n\n".join(STORIES), encoding="utf-8")
    rows = [f"the {t} is {c}\t{'warm' if c == 'red' else 'cold'}" for t in THINGS for c in COLORS]
    (place / "labels.tsv").write_text("text\tlabel\n" + "\n".join(rows) + "\n", encoding="utf-8")
    done = regard("train", "fill", place / "texts.txt", "--out", place / "bert", *SMALL, *PACE)
    assert done.code == 0, done.err
    return place


def tune(regard: Run, place: Path, out: Path, *more: object) -> Any:
    texts = place / "texts.txt"
    begun = ["--from", place / "bert", "--forgetting", texts]
    return regard("train", "classify", place / "labels.tsv", "--out", out, *begun, *QUICK, *more)


def scores_of(done: Any) -> dict[str, Any]:
    assert done.code == 0, done.err
    return {score["name"]: score for score in json.loads(done.out)["scores"]}


def test_m149_loss_and_accuracy_before_and_after(regard: Run, place: Path, tmp_path: Path) -> None:
    done = tune(regard, place, tmp_path / "m", "--json")
    scores = scores_of(done)
    names = [f"{what} {when}" for what in ("masked words", "loss of masked words") for when in ("before", "after")]
    assert {scores[name]["on"] for name in names} == {"texts.txt"}
    assert scores["loss of masked words after"]["value"] > scores["loss of masked words before"]["value"]
    assert "perplexity" not in done.err, "the loss of a classifier has none"
    # By another road: the encoder that came out, put back below the head of the one that was begun with.
    filler, tuned = library.load(place / "bert"), library.load(tmp_path / "m")
    assert isinstance(filler, MaskFiller)
    documents = read_documents(Corpus.find([place / "texts.txt"]), filler.tokenizer, longest=longest_sentence(40))
    evaluator = MLMEvaluator(documents, filler.tokenizer, window=40, pairs=False)
    for when, bert in (("before", filler.model.bert), ("after", tuned.model.bert)):  # type: ignore[union-attr]
        total, right, count = 0.0, 0, 0
        for table, masked, _ in evaluator.batches(filler.model):
            put = [torch.from_numpy(part) for part in (masked.ids, table.lengths, table.type_ids, table.ids)]
            hidden = torch.from_numpy(masked.masked)
            with torch.no_grad():
                words = filler.model.mlm(bert(*put[:3]), bert.embedding.weight)[hidden]  # type: ignore[misc]
            total += F.cross_entropy(words.double(), put[3][hidden], reduction="sum").item()
            right += int((words.argmax(dim=-1) == put[3][hidden]).sum())
            count += int(hidden.sum())
        assert scores[f"loss of masked words {when}"]["value"] == pytest.approx(total / count, rel=1e-4)
        assert scores[f"masked words {when}"]["value"] == pytest.approx(100 * right / count, abs=1e-6)


def test_m149_forgetting_is_logged_and_in_report_and_card(regard: Run, place: Path, tmp_path: Path) -> None:
    done = tune(regard, place, tmp_path / "m")
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert sum(line.startswith("texts.txt: ") for line in lines) == 4
    assert any(line.startswith("validation, 2 examples: accuracy") for line in lines)
    logged = [row for row in read_metrics(tmp_path / "m") if "masked_word_loss" in row]
    assert [row["step"] for row in logged] == [0, 3, 6]
    names = {f"{what} {when}" for what in ("masked words", "loss of masked words") for when in ("before", "after")}
    card = (tmp_path / "m" / "README.md").read_text(encoding="utf-8")
    rows = [[cell.strip() for cell in line.split("|")] for line in card.splitlines() if line.startswith("|")]
    assert names <= {row[1] for row in rows if "texts.txt" in row}
    report = (tmp_path / "m" / "report.html").read_text(encoding="utf-8")
    assert all(name in report for name in names)


@pytest.mark.parametrize("way", [["--freeze", "encoder"], ["--lora", "--learning-rate", "1e-9"]], ids=" ".join)
def test_m149_unchanged_weights_forget_nothing(regard: Run, place: Path, tmp_path: Path, way: list[str]) -> None:
    scores = scores_of(tune(regard, place, tmp_path / "m", "--json", *way))
    for what in ("masked words", "loss of masked words"):
        before, after = (scores[f"{what} {when}"]["value"] for when in ("before", "after"))
        assert after == pytest.approx(before, rel=1e-6)
    logged = [row["masked_word_loss"] for row in read_metrics(tmp_path / "m") if "masked_word_loss" in row]
    assert len(logged) == 3
    assert logged == pytest.approx([scores["loss of masked words before"]["value"]] * 3, rel=1e-5), "of the same words"


def test_forgetting_needs_pretrained_weights_an_mlm_head_and_a_text(regard: Run, place: Path, tmp_path: Path) -> None:
    data, texts, bert = place / "labels.tsv", place / "texts.txt", place / "bert"

    def refused(**settings: Any) -> UsageError:
        with pytest.raises(UsageError) as error:
            library.train("classify", data, out=tmp_path / "a", **settings)
        return error.value

    assert refused(forgetting=texts).argument == "forgetting"
    missing = refused(from_=bert, forgetting="none.txt")
    assert (missing.argument, missing.value) == ("forgetting", "none.txt")
    short = tmp_path / "short.txt"
    short.write_text("ж\n", encoding="utf-8")  # nothing that can be masked
    first = ["--from", bert, *QUICK, "--out", tmp_path / "plain"]
    assert regard("train", "classify", data, *first).code == 0
    assert refused(from_=tmp_path / "plain", forgetting=texts).argument == "forgetting"
    assert regard("train", "fill", texts, "--out", tmp_path / "a", "--forgetting", texts).code == 2
    assert not (tmp_path / "a").exists(), "refused before anything is written"
    assert refused(from_=bert, forgetting=short, max_seq_len=16, epochs=1).argument == "forgetting"


def test_a_fill_folder_is_scored_on_a_text(regard: Run, place: Path, tmp_path: Path) -> None:
    done = regard("evaluate", place / "bert", place / "texts.txt", "--json")
    assert done.code == 0, done.err
    scores = {score["name"]: score["value"] for score in json.loads(done.out)}
    assert list(scores) == ["masked words", "unigram baseline", "bigram baseline", "perplexity", "next sentence"]
    assert all(0 <= scores[name] <= 100 for name in scores if name != "perplexity")
    assert 1 < scores["perplexity"] < 80
    model = library.load(place / "bert")
    found = library.evaluate(model, place / "texts.txt")
    assert {score.name: score.value for score in found} == pytest.approx(scores)
    (tmp_path / "one.txt").write_text("The house is red.\n", encoding="utf-8")
    done = regard("evaluate", place / "bert", tmp_path / "one.txt")
    assert (done.code, type(done.error)) == (1, DataError)


def test_pre_training_continues_from_pretrained_weights(regard: Run, place: Path, tmp_path: Path) -> None:
    more = tmp_path / "more.txt"
    more.write_text("\n\n".join(story.replace("The", "A") for story in STORIES), encoding="utf-8")
    pace = ["--steps", 4, "--batch-tokens", 600, "--num-evals", 1]
    begun = ["--from", place / "bert", "--forgetting", place / "texts.txt"]
    done = regard("train", "fill", more, *begun, "--out", tmp_path / "m", *pace, "--json")
    assert {"masked words before", "masked words after"} <= scores_of(done).keys()
    before, after = library.load(place / "bert"), library.load(tmp_path / "m")
    assert isinstance(before, MaskFiller) and isinstance(after, MaskFiller)
    assert after.tokenizer.to_json() == before.tokenizer.to_json()
    assert after.model.config == before.model.config
    assert after.model.nsp is not None
    for name, tensor in after.model.state_dict().items():
        assert (tensor - before.model.state_dict()[name]).abs().max() < 0.5, "small steps from the pretrained weights"
    card = (tmp_path / "m" / "README.md").read_text(encoding="utf-8")
    assert "bert" in card and "more.txt" in card
    first = next(row["validation_loss"] for row in read_metrics(tmp_path / "m") if "validation_loss" in row)
    assert first < math.log(before.tokenizer.vocab_size) - 0.3, "better than chance"
    given: dict[str, Any]
    for given, argument in (
        (dict(size="tiny"), "size"),
        (dict(vocab_size=90), "vocab_size"),
        (dict(lowercase=False), "lowercase"),
        (dict(d_model=20), "d_model"),
        (dict(window=99), "window"),
        (dict(from_=tmp_path / "none"), "model"),
    ):
        with pytest.raises(RegardError) as error:
            library.train("fill", more, out=tmp_path / "x", steps=1, **{"from_": place / "bert", **given})
        assert error.value.argument == argument


def test_training_starts_from_a_model_of_transformers(regard: Run, place: Path, tmp_path: Path) -> None:
    assert regard("export", place / "bert", "--out", tmp_path / "foreign").code == 0
    more = ["--from", tmp_path / "foreign", "--steps", 2, "--batch-tokens", 600, "--num-evals", 1]
    done = regard("train", "fill", place / "texts.txt", *more, "--out", tmp_path / "m")
    assert done.code == 0, done.err
    assert isinstance(library.load(tmp_path / "m"), MaskFiller)


def test_pre_training_from_a_classifier_is_refused(regard: Run, place: Path, tmp_path: Path) -> None:
    first = ["--from", place / "bert", *QUICK, "--out", tmp_path / "plain"]
    assert regard("train", "classify", place / "labels.tsv", *first).code == 0
    with pytest.raises(UsageError) as error:
        library.train("fill", place / "texts.txt", from_=tmp_path / "plain", out=tmp_path / "y", steps=1)
    assert (error.value.argument, error.value.value) == ("task", "fill")
