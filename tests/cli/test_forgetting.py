"""What fine-tuning forgets, measured: said, logged, drawn and kept; and a fill folder that is scored and goes on."""

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
from regard.data.sentence_pairs import longest_sentence
from regard.tasks.fill import Filler
from regard.tasks.gaps import HeldOut
from regard.training.metrics_log import read_metrics

Run = Callable[..., Any]
COLOURS = ("red", "green", "blue", "white")
THINGS = ("house", "door", "wall", "roof", "tree", "car")
STORIES = [" ".join(f"The {thing} is {colour}." for thing in THINGS) for colour in COLOURS] * 10
SMALL = ["--size", "tiny", "--width", 16, "--heads", 2, "--head-width", 8, "--hidden", 24, "--context", 40]
PACE = ["--steps", 60, "--batch-tokens", 600, "--pieces", 80, "--warmup-steps", 2, "--validations", 2]
QUICK = ["--max-tokens", 16, "--epochs", 2, "--batch-rows", 8, "--learning-rate", 0.02, "--validations", 2]


@pytest.fixture(scope="module")
def place(regard: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with general text, labels, and a BERT that knows the text a little."""
    place = tmp_path_factory.mktemp("forgetting")
    (place / "texts.txt").write_text("\n\n".join(STORIES), encoding="utf-8")
    rows = [f"the {t} is {c}\t{'warm' if c == 'red' else 'cold'}" for t in THINGS for c in COLOURS]
    (place / "labels.tsv").write_text("text\tlabel\n" + "\n".join(rows) + "\n", encoding="utf-8")
    said = regard("train", "fill", place / "texts.txt", "--out", place / "bert", *SMALL, *PACE)
    assert said.code == 0, said.err
    return place


def tune(regard: Run, place: Path, out: Path, *more: object) -> Any:
    texts = place / "texts.txt"
    begun = ["--from", place / "bert", "--forgetting", texts]
    return regard("train", "classify", place / "labels.tsv", "--out", out, *begun, *QUICK, *more)


def scores_of(said: Any) -> dict[str, Any]:
    assert said.code == 0, said.err
    return {score["name"]: score for score in json.loads(said.out)["scores"]}


def test_m149_loss_and_accuracy_before_and_after(regard: Run, place: Path, tmp_path: Path) -> None:
    said = tune(regard, place, tmp_path / "m", "--json")
    scores = scores_of(said)
    names = [f"{what} {when}" for what in ("masked words", "loss of masked words") for when in ("before", "after")]
    assert {scores[name]["on"] for name in names} == {"texts.txt"}
    assert scores["loss of masked words after"]["value"] > scores["loss of masked words before"]["value"]
    assert "forgetting: of " in said.err and "--layer-decay, --freeze or --lora keep more" in said.err
    assert ", perplexity" not in said.err, "a loss of labels has none"
    # By another road: the encoder that came out, put back below the head of the one that was begun with.
    filler, tuned = library.load(place / "bert"), library.load(tmp_path / "m")
    assert isinstance(filler, Filler)
    documents = read_documents(Corpus.find([place / "texts.txt"]), filler.tokenizer, longest=longest_sentence(40))
    held = HeldOut(documents, filler.tokenizer, window=40, pairs=False)
    for when, bert in (("before", filler.model.bert), ("after", tuned.model.bert)):  # type: ignore[union-attr]
        total, right, count = 0.0, 0, 0
        for table, masked, _ in held.read(filler.model):
            put = [torch.from_numpy(part) for part in (masked.ids, table.lengths, table.segments, table.ids)]
            hidden = torch.from_numpy(masked.hidden)
            with torch.no_grad():
                words = filler.model.words(bert(*put[:3]), bert.embedding.weight)[hidden]  # type: ignore[misc]
            total += F.cross_entropy(words.double(), put[3][hidden], reduction="sum").item()
            right += int((words.argmax(dim=-1) == put[3][hidden]).sum())
            count += int(hidden.sum())
        assert scores[f"loss of masked words {when}"]["value"] == pytest.approx(total / count, rel=1e-4)
        assert scores[f"masked words {when}"]["value"] == pytest.approx(100 * right / count, abs=1e-6)


def test_m149_it_is_logged_and_stands_in_report_and_card(regard: Run, place: Path, tmp_path: Path) -> None:
    said = tune(regard, place, tmp_path / "m")
    assert said.code == 0, said.err
    lines = said.out.splitlines()
    assert sum(line.startswith("texts.txt: ") for line in lines) == 4
    assert any(line.startswith("validation, 2 examples: accuracy") for line in lines)
    logged = [row for row in read_metrics(tmp_path / "m") if "masked_word_loss" in row]
    assert [row["step"] for row in logged] == [0, 3, 6]
    report = (tmp_path / "m" / "report.html").read_text(encoding="utf-8")
    assert "loss of masked words (forgetting)" in report and "forgetting: of " in report
    card = (tmp_path / "m" / "README.md").read_text(encoding="utf-8")
    assert "masked words after" in card and "texts.txt" in card


@pytest.mark.parametrize("way", [["--freeze", "encoder"], ["--lora", "--learning-rate", "1e-9"]], ids=" ".join)
def test_m149_what_does_not_learn_does_not_forget(regard: Run, place: Path, tmp_path: Path, way: list[str]) -> None:
    scores = scores_of(tune(regard, place, tmp_path / "m", "--json", *way))
    for what in ("masked words", "loss of masked words"):
        before, after = (scores[f"{what} {when}"]["value"] for when in ("before", "after"))
        assert after == pytest.approx(before, rel=1e-6)
    logged = [row["masked_word_loss"] for row in read_metrics(tmp_path / "m") if "masked_word_loss" in row]
    assert len(logged) == 3
    assert logged == pytest.approx([scores["loss of masked words before"]["value"]] * 3, rel=1e-5), "of the same words"


def test_forgetting_needs_a_beginning_a_head_and_a_text(regard: Run, place: Path, tmp_path: Path) -> None:
    data, texts = place / "labels.tsv", place / "texts.txt"
    said = regard("train", "classify", data, "--out", tmp_path / "a", "--forgetting", texts)
    assert (said.code, "name their folder with --from" in said.err) == (2, True)
    said = regard(
        "train", "classify", data, "--out", tmp_path / "a", "--from", place / "bert", "--forgetting", "none.txt"
    )
    assert (said.code, "--forgetting none.txt does not exist" in said.err) == (2, True)
    (tmp_path / "short.txt").write_text("ж\n", encoding="utf-8")  # nothing that can be hidden
    said = tune(regard, place, tmp_path / "a", "--forgetting", tmp_path / "short.txt")
    assert (said.code, "is too short: none of its words is hidden" in said.err) == (2, True)
    first = ["--from", place / "bert", *QUICK, "--out", tmp_path / "plain"]
    assert regard("train", "classify", data, *first).code == 0
    again = ["--from", tmp_path / "plain", *QUICK, "--forgetting", texts, "--out", tmp_path / "b"]
    said = regard("train", "classify", data, *again)
    assert (said.code, "needs a head for masked words beside the encoder" in said.err) == (2, True)
    assert not (tmp_path / "b").exists(), "it is known before anything begins"


def test_a_fill_folder_is_scored_on_a_text(regard: Run, place: Path, tmp_path: Path) -> None:
    said = regard("evaluate", place / "bert", place / "texts.txt", "--json")
    assert said.code == 0, said.err
    scores = {score["name"]: score["value"] for score in json.loads(said.out)}
    assert list(scores) == ["masked words", "unigram baseline", "bigram baseline", "perplexity", "next sentence"]
    assert all(0 <= scores[name] <= 100 for name in scores if name != "perplexity")
    assert 1 < scores["perplexity"] < 80
    model = library.load(place / "bert")
    found = library.evaluate(model, place / "texts.txt")  # type: ignore[arg-type]
    assert {score.name: score.value for score in found} == pytest.approx(scores)
    assert "in the other half of the text" in found[1].signature
    (tmp_path / "one.txt").write_text("The house is red.\n", encoding="utf-8")
    said = regard("evaluate", place / "bert", tmp_path / "one.txt")
    assert (said.code, "1 sentence" in said.err) == (1, True)


def test_a_bert_goes_on_from_its_weights(regard: Run, place: Path, tmp_path: Path) -> None:
    more = tmp_path / "more.txt"
    more.write_text("\n\n".join(story.replace("The", "A") for story in STORIES), encoding="utf-8")
    pace = ["--steps", 4, "--batch-tokens", 600, "--validations", 1]
    said = regard("train", "fill", more, "--from", place / "bert", "--out", tmp_path / "m", *pace)
    assert said.code == 0, said.err
    assert "beginning: the weights of " in said.err and "all weights learn" in said.err
    begun, gone_on = library.load(place / "bert"), library.load(tmp_path / "m")
    assert isinstance(gone_on, Filler)
    assert gone_on.tokenizer.to_json() == begun.tokenizer.to_json()  # type: ignore[union-attr]
    assert gone_on.model.config == begun.model.config
    assert gone_on.model.follows is not None
    for name, tensor in gone_on.model.state_dict().items():
        assert (tensor - begun.model.state_dict()[name]).abs().max() < 0.5, "small steps from what was known"
    card = (tmp_path / "m" / "README.md").read_text(encoding="utf-8")
    assert "It went on from the weights of" in card
    # What the training loss begins with is what the folder knows, not what a new model does.
    first = next(row["validation_loss"] for row in read_metrics(tmp_path / "m") if "validation_loss" in row)
    assert first < math.log(begun.tokenizer.vocab_size) - 0.3, "better than chance"  # type: ignore[union-attr]
    for flags, reason in (
        (["--size", "tiny"], "--size tiny does not go with --from"),
        (["--pieces", 90], "--pieces 90 does not go with --from"),
        (["--width", 20], "--width 20 (there: 16)"),
        (["--from", tmp_path / "none"], "none"),
    ):
        said = regard("train", "fill", more, "--from", place / "bert", "--out", tmp_path / "x", *pace, *flags)
        assert (said.code, reason in said.err) == (2, True), said.err


def test_a_bert_of_transformers_goes_on(regard: Run, place: Path, tmp_path: Path) -> None:
    assert regard("export", place / "bert", "--out", tmp_path / "foreign").code == 0
    more = ["--from", tmp_path / "foreign", "--steps", 2, "--batch-tokens", 600, "--validations", 1]
    said = regard("train", "fill", place / "texts.txt", *more, "--out", tmp_path / "m")
    assert said.code == 0, said.err
    assert isinstance(library.load(tmp_path / "m"), Filler)
    first = ["--from", place / "bert", *QUICK, "--out", tmp_path / "plain"]
    assert regard("train", "classify", place / "labels.tsv", *first).code == 0
    said = regard("train", "fill", place / "texts.txt", *more, "--from", tmp_path / "plain", "--out", tmp_path / "y")
    assert (said.code, "classifier" in said.err) == (2, True)
