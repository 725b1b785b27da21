"""`regard train classify|pair`, `regard classify|pair` and `regard evaluate` as a person types them."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import regard as library
from regard.checkpoint.folder import own_tensors

Run = Callable[..., Any]
SHAPE = ["--size", "tiny", "--width", 32, "--heads", 2, "--head-width", 16, "--hidden", 48, "--layers", 2]
QUICK = ["--max-tokens", 16, "--pieces", 200, "--batch-rows", 16, "--learning-rate", 0.01, "--dropout", 0]


@pytest.fixture(scope="module")
def place(regard: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with data, a classifier and a judge of pairs."""
    place = tmp_path_factory.mktemp("labels")
    words = [
        f"{a} {b}" for a in ("red", "blue", "green", "dark", "old") for b in ("house", "car", "dog", "tree", "cat")
    ]
    rows = [f"the {w} is {v}\t{x}" for w in words for v, x in (("fine", "good"), ("awful", "bad"))]
    (place / "train.tsv").write_text("text\tlabel\n" + "\n".join(rows) + "\n", encoding="utf-8")
    pairs = [f"the {w} is fine\tthe {w} is {v}\t{x}" for w in words for v, x in (("fine", "5"), ("awful", "1.5"))]
    (place / "pairs.tsv").write_text("sentence1\tsentence2\tscore\n" + "\n".join(pairs) + "\n", encoding="utf-8")
    said = regard("train", "classify", place / "train.tsv", "--out", place / "model", *SHAPE, *QUICK, "--epochs", 25)
    assert said.code == 0, said.err
    assert "validation, 5 examples: accuracy 100.00" in said.out
    assert "accuracy of the majority" in said.out
    assert "budget: 75 steps, 25 epochs of 3 (--epochs)" in said.err
    said = regard("train", "pair", place / "pairs.tsv", "--out", place / "judge", *SHAPE, *QUICK, "--epochs", 2)
    assert said.code == 0, said.err
    assert "Pearson" in said.out
    return place


def test_texts_a_file_and_stdin(regard: Run, place: Path, tmp_path: Path) -> None:
    said = regard("classify", place / "model", "the red car is fine", "the old cat is awful")
    assert (said.code, said.out) == (0, "good\nbad\n")
    (tmp_path / "texts.txt").write_text("the red car is fine\n", encoding="utf-8")
    assert regard("classify", place / "model", tmp_path / "texts.txt").out == "good\n"
    assert regard("classify", place / "model", stdin=b"the red car is awful\n").out == "bad\n"
    (tmp_path / "opinions.csv").write_text("who;what\nI;the red car is fine\nyou;the dog is awful\n", encoding="utf-8")
    assert regard("classify", place / "model", tmp_path / "opinions.csv", "--text-column", "What").out == "good\nbad\n"
    said = regard("classify", place / "model", tmp_path / "opinions.csv", "--text-column", "wat")
    assert (said.code, "its columns are: who, what. Did you mean 'what'?" in said.err) == (2, True)
    said = regard("classify", place / "model", "a text", "--text-column", "what")
    assert (said.code, "--text-column what is for a table" in said.err) == (2, True)
    record = json.loads(regard("classify", place / "model", "the red car is fine", "--json").out)
    assert record["labels"] == ["good"]
    assert set(record["probabilities"]) == {"bad", "good"}
    table = tmp_path / "reviews.csv"
    table.write_text('label,text\ngood,"a fine, fine film"\nbad,poor\n', encoding="utf-8")
    said = regard("classify", place / "model", table, "--json")
    assert [json.loads(line)["text"] for line in said.out.splitlines()] == ["a fine, fine film", "poor"]
    out = tmp_path / "found.csv"
    assert regard("classify", place / "model", "the red car is fine", "--out", out).code == 0
    [row] = csv.DictReader(out.read_text(encoding="utf-8").splitlines())
    assert row["label"] == "good"
    assert regard("classify", place / "model", "x", "--out", out).code == 2, "it is there already"


def test_pairs(regard: Run, place: Path) -> None:
    said = regard("pair", place / "judge", "the red car is fine", "the red car is fine")
    assert said.code == 0, said.err
    float(said.out)
    assert regard("pair", place / "judge", stdin=b"a\tb\nc\td\n").out.count("\n") == 2
    said = regard("pair", place / "judge", stdin=b"a b\n")
    assert (said.code, "<stdin>:1: 1 column, 2 needed" in said.err) == (1, True)
    said = regard("pair", place / "judge", "a")
    assert (said.code, "1 text was given; a pair has two" in said.err) == (2, True)
    said = regard("pair", place / "judge", "a", "b", "c")
    assert (said.code, "3 texts were given; a pair has two" in said.err) == (2, True)
    said = regard("classify", place / "judge", "a")
    assert (said.code, "was trained for `regard pair`" in said.err) == (2, True)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("bare.tsv", "the red car\tthe dog\nthe cat\tis fine\n"),
        ("named.tsv", "id\tsentence1\tsentence2\n1\tthe red car\tthe dog\n2\tthe cat\tis fine\n"),
        ("named.csv", 'premise,hypothesis\n"the red car","the dog"\n"the cat","is fine"\n'),
        ("named.jsonl", '{"text1": "the red car", "text2": "the dog"}\n{"text1": "the cat", "text2": "is fine"}\n'),
        ("lines.txt", "the red car\tthe dog\nthe cat\tis fine\n"),
    ],
)
def test_files_of_pairs(name: str, content: str, regard: Run, place: Path, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    said = regard("pair", place / "judge", tmp_path / name, "--json")
    assert said.code == 0, said.err
    found = [json.loads(line) for line in said.out.splitlines()]
    assert [(one["first"], one["second"]) for one in found] == [("the red car", "the dog"), ("the cat", "is fine")]


def test_columns_of_pairs_by_name(regard: Run, place: Path, tmp_path: Path) -> None:
    table = tmp_path / "said.csv"
    table.write_text("who,claim,reply\nI,the red car,the dog\n", encoding="utf-8")
    said = regard("pair", place / "judge", table, "--first-column", "claim", "--second-column", "Reply", "--json")
    assert said.code == 0, said.err
    assert (found := json.loads(said.out))["first"] == "the red car" and found["second"] == "the dog"
    for flags, reason in (
        (["--first-column", "claim", "--second-column", "answer"], "no column 'answer'; its columns are: who, claim"),
        (["--first-column", "claim"], "give both --first-column and --second-column"),
        ([], "Name them, or their numbers, with --first-column and --second-column"),
        (["--first-column", "claim", "--second-column", "claim"], "are both claim"),
    ):
        said = regard("pair", place / "judge", table, *flags)
        assert said.code == (2 if flags else 1)
        assert reason in said.err
    said = regard("pair", place / "judge", "a", "b", "--first-column", "x", "--second-column", "y")
    assert (said.code, "are for a table" in said.err) == (2, True)


def test_files_that_hold_other_than_pairs(regard: Run, place: Path, tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("a\tb\nalone\n", encoding="utf-8")
    said = regard("pair", place / "judge", tmp_path / "a.tsv")
    assert said.code == 1
    assert f"{tmp_path / 'a.tsv'}:2: 1 column, 2 needed" in said.err
    assert "--skip-bad-rows" not in said.err
    assert regard("pair", place / "judge", tmp_path / "no.tsv").code == 2
    (tmp_path / "b.txt").write_text("a\nb\n", encoding="utf-8")
    for verb, model in (("pair", "judge"), ("classify", "model"), ("embed", "model")):
        said = regard(verb, place / model, tmp_path / "b.txt", tmp_path / "b.txt")
        assert (said.code, "is a file among 2 texts" in said.err, said.out) == (2, True, ""), verb


def test_packed_lines_are_read(regard: Run, place: Path, tmp_path: Path) -> None:
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(b"the red car is fine\nthe dog\n"))
    said = regard("classify", place / "model", tmp_path / "a.txt.gz", "--json")
    assert [json.loads(line)["text"] for line in said.out.splitlines()] == ["the red car is fine", "the dog"]


@pytest.mark.parametrize(
    ("model", "flags", "kind"),
    [
        ("model", ["--tag-column", "2"], "--tag-column is not for a classifier of texts"),
        ("model", ["--first-column", "a"], "there are --text-column, --label-column, --separator"),
        ("judge", ["--text-column", "a"], "--text-column is not for a judge of pairs"),
        ("judge", ["--beams", "2"], "--beams is not for a judge of pairs"),
        ("judge", ["--beams", "2", "--reverse"], "--reverse, --beams are not for a judge of pairs"),
    ],
)
def test_flags_that_say_nothing_to_a_model(regard: Run, place: Path, model: str, flags: list[str], kind: str) -> None:
    said = regard("evaluate", place / model, place / "train.tsv", *flags)
    assert (said.code, kind in said.err) == (2, True), said.err


@pytest.mark.parametrize(
    "flags", [["--label-column", "stars"], ["--separator", ";"], ["--skip-bad-rows"]], ids=" ".join
)
def test_flags_of_a_file_that_was_not_given(regard: Run, tmp_path: Path, flags: list[str]) -> None:
    said = regard("train", "classify", "--out", tmp_path / "m", *flags)
    assert (said.code, f"{flags[0]} needs a training file beside it" in said.err) == (2, True)


def test_empty_texts_are_named(regard: Run, place: Path) -> None:
    said = regard("classify", place / "model", stdin=b"the red car is fine\n\n \n")
    assert (said.code, said.out.count("\n")) == (0, 3)
    assert "2 of 3 texts without words: text 2, 3." in said.err
    said = regard("pair", place / "judge", "the red car is fine", "")
    assert said.code == 0
    assert "1 of 1 pair with a text without words: pair 1." in said.err


def test_evaluating(regard: Run, place: Path, tmp_path: Path) -> None:
    said = regard("evaluate", place / "model", place / "train.tsv")
    assert said.code == 0, said.err
    assert said.out.splitlines()[0].startswith("accuracy 100.00 (n:50)")
    assert "accuracy of the majority 50.00" in said.out
    assert "macro F1 100.00" in said.out and "F1 of good 100.00" in said.out
    held = "text\tlabel\nthe red car is fine\tgood\nthe old cat is awful\tgood\nthe dog is fine\tgood\n"
    (tmp_path / "held.tsv").write_text(held, encoding="utf-8")
    scores = json.loads(regard("evaluate", place / "model", tmp_path / "held.tsv", "--json").out)
    commonest = json.loads((place / "model" / "config.json").read_text(encoding="utf-8"))["commonest"]
    values = {score["name"]: score["value"] for score in scores}
    assert values["accuracy"] == pytest.approx(200 / 3)
    assert values["accuracy of the majority"] == (100 if commonest == ["good"] else 0)
    assert "Spearman" in regard("evaluate", place / "judge", place / "pairs.tsv").out
    (tmp_path / "test.tsv").write_text("text\tlabel\na\tgood\nb\tso-so\n", encoding="utf-8")
    said = regard("evaluate", place / "model", tmp_path / "test.tsv")
    assert said.code == 1
    assert "test.tsv:3: label 'so-so' was not in training (bad, good)" in said.err
    said = regard("evaluate", place / "model", tmp_path / "test.tsv", "--skip-bad-rows")
    assert said.code == 0
    assert "skipped: 1 bad row\n" in said.err


def test_m152_labels_that_were_taken_for_others(regard: Run, place: Path, tmp_path: Path) -> None:
    held = "text\tlabel\nthe red car is fine\tgood\nthe old cat is awful\tgood\nthe dog is awful\tbad\n"
    (tmp_path / "held.tsv").write_text(held, encoding="utf-8")
    said = regard("evaluate", place / "model", tmp_path / "held.tsv", "--confusion")
    assert said.code == 0, said.err
    assert said.out.splitlines()[-4:] == [
        "rows: the label of the file, columns: what the model said",
        "       bad  good",
        " bad     1     0",
        "good     1     1",
    ]
    found = json.loads(regard("evaluate", place / "model", tmp_path / "held.tsv", "--confusion", "--json").out)
    assert found["confusion"] == {"labels": ["bad", "good"], "counts": [[1, 0], [1, 1]]}
    assert found["scores"][0]["name"] == "accuracy"
    said = regard("evaluate", place / "judge", place / "pairs.tsv", "--confusion")
    assert (said.code, "one label each" in said.err) == (2, True)


def tensors(folder: Path) -> dict[str, torch.Tensor]:
    return own_tensors(library.load(folder).model)


def moved(before: Path, after: Path) -> dict[str, float]:
    """How far the parts of an encoder went from where they began: the farthest of their numbers."""
    one, other = tensors(before), tensors(after)
    parts: dict[str, float] = {}
    for name in (name for name in one if name.startswith("bert.")):
        part = ".".join(name.split(".")[1:3]) if "encoder" in name else name.split(".")[1]
        parts[part] = max(parts.get(part, 0.0), (one[name] - other[name]).abs().max().item())
    return parts


@pytest.mark.parametrize(
    "how", [["--lora", "--lora-rank", 2], ["--freeze", "1"], ["--layer-decay", 0.01], ["--keep", "best"]]
)
def test_going_on_from_an_encoder(how: list[Any], regard: Run, place: Path, tmp_path: Path) -> None:
    flags = ["--from", place / "model", "--out", tmp_path / "m", "--epochs", 1, *how]
    said = regard("train", "classify", place / "train.tsv", *flags)
    assert said.code == 0, said.err
    assert "beginning: the weights of" in said.err
    assert ("adapters learn" in said.err) == ("--lora" in how)
    assert ("the others stay" in said.err) == ("--freeze" in how)
    assert regard("classify", tmp_path / "m", "the red car is fine").code == 0
    found = moved(place / "model", tmp_path / "m")
    if "--lora" in how:
        assert found["embedding"] == found["pooler"] == 0 < found["encoder.0"]
    elif "--freeze" in how:
        assert found["embedding"] == found["encoder.0"] == 0 < found["encoder.1"]
    elif "--layer-decay" in how:  # a hundredth from layer to layer, and so on below
        assert found["embedding"] < found["encoder.0"] / 10 < found["encoder.1"] / 100 < found["pooler"] / 1000
    else:
        assert min(found.values()) > max(found.values()) / 10, "all learn at the same rate"


def test_rare_labels_count_more_where_that_is_asked_for(regard: Run, place: Path, tmp_path: Path) -> None:
    """Texts that say nothing of their label, one in nine bad: that is learned, or one in two if both count the same."""
    rows = [f"the {color} car\t{'bad' if n % 9 == 0 else 'good'}" for color in ("red", "blue") for n in range(18)]
    table = tmp_path / "rare.tsv"
    table.write_text("text\tlabel\n" + "\n".join(rows) + "\n", encoding="utf-8")
    frozen = ["--from", place / "model", "--validation", table, "--freeze", "encoder", "--dropout", 0]
    for way, share in (("none", 1 / 9), ("balanced", 1 / 2)):
        flags = ["--out", tmp_path / way, "--steps", 60, "--learning-rate", 0.05, "--batch-rows", 36]
        said = regard("train", "classify", table, *frozen, *flags, "--class-weights", way)
        assert said.code == 0, said.err
        found: Any = library.load(tmp_path / way)
        assert found("the red car").probabilities["bad"] == pytest.approx(share, abs=0.1)


def test_stopped_and_resumed_is_the_same(regard: Run, place: Path, tmp_path: Path) -> None:
    def train(out: str, *flags: Any) -> None:
        said = regard("train", "classify", place / "train.tsv", "--out", tmp_path / out, *SHAPE, *QUICK, *flags)
        assert said.code == 0, said.err

    common = ["--schedule", "constant", "--warmup-steps", 1]
    train("whole", *common, "--steps", 6)
    train("parts", *common, "--steps", 3)
    train("parts", *common, "--steps", 6, "--resume")
    one, other = (tensors(tmp_path / name) for name in ("whole", "parts"))
    assert one.keys() == other.keys()
    assert [name for name in one if not one[name].equal(other[name])] == []


def test_a_resumed_run_keeps_what_followed_from_its_budget(regard: Run, place: Path, tmp_path: Path) -> None:
    command = ["train", "classify", place / "train.tsv", "--out", tmp_path / "run", *SHAPE, *QUICK]
    assert regard(*command, "--steps", 6).code == 0
    alone = regard(*command, "--resume")
    assert alone.code == 0, alone.err
    assert "120 steps" not in alone.err
    longer = regard(*command, "--resume", "--steps", 25)
    assert longer.code == 0, longer.err


@pytest.mark.parametrize("changed", ["train.tsv", "held.tsv"])
def test_a_resumed_run_must_have_the_same_labels(changed: str, regard: Run, place: Path, tmp_path: Path) -> None:
    rows = (place / "train.tsv").read_text(encoding="utf-8").splitlines()
    (tmp_path / "train.tsv").write_text("\n".join(rows), encoding="utf-8")
    (tmp_path / "held.tsv").write_text("\n".join(rows[:9]), encoding="utf-8")
    flags = ["--validation", tmp_path / "held.tsv", "--out", tmp_path / "m", *SHAPE, *QUICK]
    assert regard("train", "classify", tmp_path / "train.tsv", *flags, "--steps", 2).code == 0
    lines = (tmp_path / changed).read_text(encoding="utf-8").splitlines()
    lines[1] = lines[1].replace("\tgood", "\tbad")
    (tmp_path / changed).write_text("\n".join(lines), encoding="utf-8")
    said = regard("train", "classify", tmp_path / "train.tsv", *flags, "--steps", 3, "--resume")
    assert said.code == 2
    assert "examples was" in said.err
    (tmp_path / changed).write_text("\n".join(rows[: len(lines)]), encoding="utf-8")
    assert regard("train", "classify", tmp_path / "train.tsv", *flags, "--steps", 3, "--resume").code == 0


def test_the_help_tells_what_is_usual_for_a_new_model_and_for_one_that_goes_on(regard: Run) -> None:
    shown = " ".join(regard("train", "classify", "--help").out.replace("│", " ").split())
    rate = "(usually 0.0005; with --from 5e-05 (more if it is narrow), with --lora 0.001)"
    assert f"full rate of AdamW {rate}" in shown
    assert "(usually best; with --from last)" in shown
    assert "--minutes X how long to train; the schedule fits itself to it --" in shown, "epochs settle it"


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        (["--freeze", "embeddings"], "--freeze is for weights that know something already"),
        (["--layer-decay", 0.5], "--layer-decay is for weights"),
        (["--lora"], "name their folder with --from"),
        (["--freeze", "some"], "unknown freeze 'some'"),
        (["--label-column", "mood"], "no column 'mood'; its columns are: text, label"),
        (["--size", "tinny"], "unknown size 'tinny'"),
        (["--epochs", 0], "epochs must be more than 0"),
    ],
)
def test_wrong_requests(flags: list[Any], reason: str, regard: Run, place: Path, tmp_path: Path) -> None:
    said = regard("train", "classify", place / "train.tsv", "--out", tmp_path / "m", *flags)
    assert said.code in (1, 2)
    assert reason in said.err
    assert not (tmp_path / "m").exists()


def test_one_class_only(regard: Run, tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("text\tlabel\na\tham\nb\tham\n", encoding="utf-8")
    said = regard("train", "classify", tmp_path / "a.tsv", "--out", tmp_path / "m")
    assert said.code == 1
    assert "all 2 examples have the label 'ham'" in said.err


def test_without_a_file_the_world_is_used(regard: Run, tmp_path: Path) -> None:
    for task, data in (("classify", "opinions"), ("pair", "inferences")):
        said = regard("train", task, "--out", tmp_path / task, *SHAPE, "--max-tokens", 32, "--steps", 2)
        assert said.code == 0, said.err
        assert f"data: the built-in world's {data} (no file was given)" in said.err
