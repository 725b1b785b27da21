"""`regard train classify|pair`, `regard classify|pair` and `regard evaluate` with such models."""

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
from regard.nn.state_dict import unique_tensors

Run = Callable[..., Any]
SHAPE = ["--size", "tiny", "--d-model", 32, "--num-heads", 2, "--head-dim", 16, "--d-ff", 48, "--num-layers", 2]
QUICK = ["--max-seq-len", 16, "--vocab-size", 200, "--batch-size", 16, "--learning-rate", 0.01, "--dropout", 0]
WORDS = [f"{a} {b}" for a in ("red", "blue", "green", "dark", "old") for b in ("house", "car", "dog", "tree", "cat")]


@pytest.fixture(scope="module")
def place(regard: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with data, a text classifier (model) and a regression on pairs (judge)."""
    place = tmp_path_factory.mktemp("labels")
    rows = [f"the {w} is {v}\t{x}" for w in WORDS for v, x in (("fine", "good"), ("awful", "bad"))]
    (place / "train.tsv").write_text("text\tlabel\n" + "\n".join(rows) + "\n", encoding="utf-8")
    pairs = [f"the {w} is fine\tthe {w} is {v}\t{x}" for w in WORDS for v, x in (("fine", "5"), ("awful", "1.5"))]
    (place / "pairs.tsv").write_text("sentence1\tsentence2\tscore\n" + "\n".join(pairs) + "\n", encoding="utf-8")
    flags = [*SHAPE, *QUICK, "--json"]
    done = regard("train", "classify", place / "train.tsv", "--out", place / "model", *flags, "--epochs", 25)
    assert done.code == 0, done.err
    result = json.loads(done.out)
    assert result["step"] == 75, "25 epochs of 3 batches"
    assert result["scored_on"] == "validation, 5 examples"
    scores = {score["name"]: score["value"] for score in result["scores"]}
    assert scores["accuracy"] == 100 > scores["accuracy of the majority"]
    flags += ["--regression", "--epochs", 2]
    done = regard("train", "pair", place / "pairs.tsv", "--out", place / "judge", *flags)
    assert done.code == 0, done.err
    assert [score["name"] for score in json.loads(done.out)["scores"]][:2] == ["Pearson", "Spearman"]
    return place


# --- Inputs and outputs -------------------------------------------------------------------------------------


def records(done: Any) -> list[dict[str, Any]]:
    assert done.code == 0, done.err
    return [json.loads(line) for line in done.out.splitlines()]


def test_texts_a_file_and_stdin(regard: Run, place: Path, tmp_path: Path) -> None:
    done = regard("classify", place / "model", "the red car is fine", "the old cat is awful")
    assert (done.code, done.out) == (0, "good\nbad\n")
    (tmp_path / "texts.txt").write_text("the red car is fine\n", encoding="utf-8")
    assert regard("classify", place / "model", tmp_path / "texts.txt").out == "good\n"
    assert regard("classify", place / "model", stdin=b"the red car is awful\n").out == "bad\n"
    assert regard("classify", place / "model", "-", stdin=b"the red car is awful\n").out == "bad\n"
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(b"the red car is fine\nthe dog\n"))
    found = records(regard("classify", place / "model", tmp_path / "a.txt.gz", "--json"))
    assert [record["text"] for record in found] == ["the red car is fine", "the dog"]


def test_columns_of_tables(regard: Run, place: Path, tmp_path: Path) -> None:
    opinions = tmp_path / "opinions.csv"
    opinions.write_text("who;what\nI;the red car is fine\nyou;the dog is awful\n", encoding="utf-8")
    assert regard("classify", place / "model", opinions, "--text-column", "What").out == "good\nbad\n"
    assert regard("classify", place / "model", opinions, "--text-column", "wat").code == 2
    table = tmp_path / "reviews.csv"
    table.write_text('label,text\ngood,"a fine, fine film"\nbad,poor\n', encoding="utf-8")
    found = records(regard("classify", place / "model", table, "--json"))
    assert [record["text"] for record in found] == ["a fine, fine film", "poor"]
    done = regard("classify", place / "model", "a text", "--text-column", "what")
    assert (done.code, done.out) == (2, ""), "the option needs a table"


def test_results_are_added_to_a_table(regard: Run, place: Path, tmp_path: Path) -> None:
    table, out = tmp_path / "reviews.csv", tmp_path / "out.csv"
    content = "\ufeffid;text;label\r\n1;the red car is fine;?\r\n2; ;ü\r\n3;the dog is awful;\r\n"
    table.write_bytes(content.encode())
    done = regard("classify", place / "model", table, "--out", out)
    assert (done.code, done.out) == (0, f"{out}\n"), done.err
    assert "line 3" in done.err, "the row without text"
    written = out.read_bytes().decode()
    lines = [line.split(";") for line in written.splitlines()]
    assert [";".join(cells[:3]) for cells in lines] == content.splitlines()
    assert lines[0][3:] == ["predicted_label", "score", "scores.bad", "scores.good"]
    assert [cells[3] for cells in lines[1:]] == ["good", "", "bad"]
    assert lines[2][3:] == [""] * 4
    again = regard("classify", place / "model", out, "--out", tmp_path / "twice.csv")
    assert (again.code, (tmp_path / "twice.csv").exists()) == (2, False), "the columns exist"
    again = regard("classify", place / "model", out, "--out", tmp_path / "twice.jsonl", "--prefix", "second_")
    assert again.code == 0, again.err
    found = [json.loads(line) for line in (tmp_path / "twice.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [record["second_label"] for record in found] == ["good", None, "bad"]
    assert [record["predicted_label"] for record in found] == ["good", "", "bad"]
    assert regard("classify", place / "model", "a text", "--prefix", "x").code == 2, "it needs a table"


def test_blank_lines_have_no_label(regard: Run, place: Path, tmp_path: Path) -> None:
    lines = b"the red car is fine\n \nthe dog is awful\n"
    assert regard("classify", place / "model", stdin=lines).out == "good\n\nbad\n"
    found = records(regard("classify", place / "model", "--json", stdin=lines))
    assert [(record["text"], record["label"], record["score"] is None) for record in found] == [
        ("the red car is fine", "good", False),
        (" ", None, True),
        ("the dog is awful", "bad", False),
    ]


def test_numbers_of_pairs_are_added_to_a_table(regard: Run, place: Path, tmp_path: Path) -> None:
    table = tmp_path / "pairs.jsonl"
    table.write_text('{"sentence1": "a", "n": 1.50, "sentence2": "b"}\n', encoding="utf-8")
    done = regard("pair", place / "judge", table, "--out", tmp_path / "out.jsonl")
    assert done.code == 0, done.err
    written = (tmp_path / "out.jsonl").read_text(encoding="utf-8")
    assert written.startswith('{"sentence1": "a", "n": 1.50, "sentence2": "b", "predicted_number": ')


def test_formats_of_results(regard: Run, place: Path, tmp_path: Path) -> None:
    text = "the red car is fine"
    (record,) = records(regard("classify", place / "model", text, "--json"))
    assert (record["label"], record["labels"]) == ("good", ["good"])
    assert set(record["scores"]) == {"bad", "good"}
    assert record["score"] == record["scores"]["good"]
    out = tmp_path / "found.csv"
    done = regard("classify", place / "model", text, "--out", out)
    assert (done.code, done.out) == (0, f"{out}\n")
    [row] = csv.DictReader(out.read_text(encoding="utf-8").splitlines())
    assert row["label"] == "good"
    assert float(row["scores.good"]) == record["score"]
    assert regard("classify", place / "model", "x", "--out", out).code == 2, "it exists"
    assert regard("classify", place / "model", "x", "--out", out, "--force").code == 0
    for suffix, content in ((".txt", "good\n"), (".jsonl", json.dumps(record, ensure_ascii=False) + "\n")):
        assert regard("classify", place / "model", text, "--out", tmp_path / f"a{suffix}").code == 0
        assert (tmp_path / f"a{suffix}").read_text(encoding="utf-8") == content
    page = tmp_path / "look.html"
    assert regard("classify", place / "model", text, "--out", page).code == 0
    assert "<html" in page.read_text(encoding="utf-8")
    assert regard("classify", place / "model", text, "another", "--out", tmp_path / "two.html").code == 2
    assert regard("classify", place / "model", text, "--out", tmp_path / "a.pdf").code == 2


def test_pairs(regard: Run, place: Path) -> None:
    done = regard("pair", place / "judge", "the red car is fine", "the red car is fine")
    assert done.code == 0, done.err
    assert float(done.out) > 0
    assert regard("pair", place / "judge", stdin=b"a\tb\nc\td\n").out.count("\n") == 2
    done = regard("pair", place / "judge", stdin=b"a b\n")
    assert (done.code, "<stdin>" in done.err) == (1, True)
    for words in (["a"], ["a", "b", "c"]):
        assert regard("pair", place / "judge", *words).code == 2
    done = regard("classify", place / "judge", "a")
    assert (done.code, done.error.argument, done.error.value) == (2, "task", "classify")


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
    found = records(regard("pair", place / "judge", tmp_path / name, "--json"))
    pairs = [(record["first"], record["second"]) for record in found]
    assert pairs == [("the red car", "the dog"), ("the cat", "is fine")]


def test_columns_of_pairs_by_name(regard: Run, place: Path, tmp_path: Path) -> None:
    table = tmp_path / "done.csv"
    table.write_text("who,claim,reply\nI,the red car,the dog\n", encoding="utf-8")
    columns = ["--first-column", "claim", "--second-column", "Reply"]
    (found,) = records(regard("pair", place / "judge", table, *columns, "--json"))
    assert (found["first"], found["second"]) == ("the red car", "the dog")
    for flags in (
        ["--first-column", "claim", "--second-column", "answer"],
        ["--first-column", "claim", "--second-column", "claim"],
    ):
        assert regard("pair", place / "judge", table, *flags).code == 2, flags
    done = regard("pair", place / "judge", table)
    assert (done.code, "--first-column" in done.err) == (1, True)
    assert regard("pair", place / "judge", "a", "b", *columns).code == 2, "the options need a table"


def test_files_without_pairs(regard: Run, place: Path, tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("a\tb\nalone\n", encoding="utf-8")
    done = regard("pair", place / "judge", tmp_path / "a.tsv")
    assert (done.code, f"{tmp_path / 'a.tsv'}:2:" in done.err) == (1, True)
    assert regard("pair", place / "judge", tmp_path / "no.tsv").code == 2
    (tmp_path / "b.txt").write_text("a\nb\n", encoding="utf-8")
    for verb, model in (("pair", "judge"), ("classify", "model"), ("embed", "model")):
        done = regard(verb, place / model, tmp_path / "b.txt", tmp_path / "b.txt")
        assert (done.code, done.out) == (2, ""), verb


def test_inputs_without_words_are_named(regard: Run, place: Path) -> None:
    done = regard("classify", place / "model", stdin=b"the red car is fine\n\n \n")
    assert (done.code, done.out.count("\n")) == (0, 3)
    assert "2, 3" in done.err
    done = regard("pair", place / "judge", "the red car is fine", "")
    assert (done.code, "1" in done.err) == (0, True)


# --- Evaluation ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "flags"),
    [
        ("model", ["--tag-column", "2"]),
        ("model", ["--first-column", "a"]),
        ("judge", ["--text-column", "a"]),
        ("judge", ["--num-beams", "2"]),
    ],
)
def test_options_of_other_tasks_are_refused(regard: Run, place: Path, model: str, flags: list[str]) -> None:
    done = regard("evaluate", place / model, place / "train.tsv", *flags)
    assert (done.code, done.out, flags[0] in done.err) == (2, "", True)


def test_evaluate(regard: Run, place: Path, tmp_path: Path) -> None:
    def scores(*arguments: Any) -> dict[str, float]:
        done = regard("evaluate", *arguments, "--json")
        assert done.code == 0, done.err
        return {score["name"]: score["value"] for score in json.loads(done.out)}

    found = scores(place / "model", place / "train.tsv")
    assert found["accuracy"] == found["macro F1"] == found["F1 of good"] == 100
    assert found["accuracy of the majority"] == 50
    done = regard("evaluate", place / "model", place / "train.tsv")
    assert done.out.splitlines()[0].startswith("accuracy 100.00 (n:50)")
    test = "text\tlabel\nthe red car is fine\tgood\nthe old cat is awful\tgood\nthe dog is fine\tgood\n"
    (tmp_path / "test.tsv").write_text(test, encoding="utf-8")
    found = scores(place / "model", tmp_path / "test.tsv")
    majority_label = json.loads((place / "model" / "config.json").read_text(encoding="utf-8"))["majority_label"]
    assert found["accuracy"] == pytest.approx(200 / 3)
    assert found["accuracy of the majority"] == (100 if majority_label == ["good"] else 0)
    assert "Spearman" in scores(place / "judge", place / "pairs.tsv")


def test_labels_that_the_model_does_not_know(regard: Run, place: Path, tmp_path: Path) -> None:
    (tmp_path / "test.tsv").write_text("text\tlabel\na\tgood\nb\tso-so\n", encoding="utf-8")
    done = regard("evaluate", place / "model", tmp_path / "test.tsv")
    assert (done.code, "test.tsv:3:" in done.err) == (1, True)
    done = regard("evaluate", place / "model", tmp_path / "test.tsv", "--skip-bad-rows", "--json")
    assert (done.code, "test.tsv:3:" in done.err) == (0, True)
    assert json.loads(done.out)[0]["signature"] == "n:1"


def test_m152_confusion_matrix(regard: Run, place: Path, tmp_path: Path) -> None:
    test = "text\tlabel\nthe red car is fine\tgood\nthe old cat is awful\tgood\nthe dog is awful\tbad\n"
    (tmp_path / "test.tsv").write_text(test, encoding="utf-8")
    done = regard("evaluate", place / "model", tmp_path / "test.tsv", "--confusion")
    assert done.code == 0, done.err
    assert done.out.splitlines()[-3:] == ["       bad  good", " bad     1     0", "good     1     1"]
    found = json.loads(regard("evaluate", place / "model", tmp_path / "test.tsv", "--confusion", "--json").out)
    assert found["confusion"] == {"labels": ["bad", "good"], "counts": [[1, 0], [1, 1]]}
    assert found["scores"][0]["name"] == "accuracy"
    done = regard("evaluate", place / "judge", place / "pairs.tsv", "--confusion")
    assert (done.code, done.out) == (2, "")


# --- Training -----------------------------------------------------------------------------------------------


def tensors(folder: Path) -> dict[str, torch.Tensor]:
    return unique_tensors(library.load(folder).model)


def largest_changes(before: Path, after: Path) -> dict[str, float]:
    """The largest change of a weight in each part of an encoder."""
    first, second = tensors(before), tensors(after)
    parts: dict[str, float] = {}
    for name in (name for name in first if name.startswith("bert.")):
        part = ".".join(name.split(".")[1:3]) if "encoder" in name else name.split(".")[1]
        parts[part] = max(parts.get(part, 0.0), (first[name] - second[name]).abs().max().item())
    return parts


@pytest.mark.parametrize(
    "options",
    [["--lora", "--lora-rank", 2], ["--freeze", "1"], ["--layer-decay", 0.01], ["--keep-weights", "best"]],
    ids=lambda options: options[0],
)
def test_fine_tuning(options: list[Any], regard: Run, place: Path, tmp_path: Path) -> None:
    flags = ["--from", place / "model", "--out", tmp_path / "m", "--epochs", 1, *options]
    done = regard("train", "classify", place / "train.tsv", *flags)
    assert done.code == 0, done.err
    assert regard("classify", tmp_path / "m", "the red car is fine").code == 0
    found = largest_changes(place / "model", tmp_path / "m")
    if "--lora" in options:
        assert found["embedding"] == found["pooler"] == 0 < found["encoder.0"]
    elif "--freeze" in options:
        assert found["embedding"] == found["encoder.0"] == 0 < found["encoder.1"]
    elif "--layer-decay" in options:  # a hundredth from layer to layer, and so on below
        assert found["embedding"] < found["encoder.0"] / 10 < found["encoder.1"] / 100 < found["pooler"] / 1000
    else:
        assert min(found.values()) > max(found.values()) / 10, "all parts have the same learning rate"
    config = json.loads((tmp_path / "m" / "config.json").read_text(encoding="utf-8"))
    assert config["training"]["from"] == "model"


def test_balanced_class_weights(regard: Run, place: Path, tmp_path: Path) -> None:
    """Texts that do not predict their label, one in nine bad: the model learns 1/9, or 1/2 with balanced weights."""
    rows = [f"the {color} car\t{'bad' if n % 9 == 0 else 'good'}" for color in ("red", "blue") for n in range(18)]
    table = tmp_path / "rare.tsv"
    table.write_text("text\tlabel\n" + "\n".join(rows) + "\n", encoding="utf-8")
    frozen = ["--from", place / "model", "--validation", table, "--freeze", "encoder", "--dropout", 0]
    for way, share in (("none", 1 / 9), ("balanced", 1 / 2)):
        flags = ["--out", tmp_path / way, "--steps", 60, "--learning-rate", 0.05, "--batch-size", 36]
        done = regard("train", "classify", table, *frozen, *flags, "--class-weights", way)
        assert done.code == 0, done.err
        model: Any = library.load(tmp_path / way)
        assert model("the red car").scores["bad"] == pytest.approx(share, abs=0.1)


def test_resumed_equals_uninterrupted(regard: Run, place: Path, tmp_path: Path) -> None:
    def train(out: str, *flags: Any) -> None:
        done = regard("train", "classify", place / "train.tsv", "--out", tmp_path / out, *SHAPE, *QUICK, *flags)
        assert done.code == 0, done.err

    common = ["--schedule", "constant", "--warmup-steps", 1]
    train("whole", *common, "--steps", 6)
    train("parts", *common, "--steps", 3)
    train("parts", *common, "--steps", 6, "--resume")
    first, second = (tensors(tmp_path / name) for name in ("whole", "parts"))
    assert first.keys() == second.keys()
    assert [name for name in first if not first[name].equal(second[name])] == []


def test_a_resumed_run_keeps_its_budget(regard: Run, place: Path, tmp_path: Path) -> None:
    command = ["train", "classify", place / "train.tsv", "--out", tmp_path / "run", *SHAPE, *QUICK, "--json"]
    assert regard(*command, "--steps", 6).code == 0
    for flags, steps in (([], 6), (["--steps", 25], 25)):
        done = regard(*command, "--resume", *flags)
        assert done.code == 0, done.err
        assert json.loads(done.out)["step"] == steps


def test_a_resumed_run_keeps_its_budget_in_minutes(regard: Run, place: Path, tmp_path: Path) -> None:
    command = ["train", "classify", place / "train.tsv", "--out", tmp_path / "run", *SHAPE, *QUICK, "--json"]
    assert regard(*command, "--minutes", 0.001).code == 0
    assert regard(*command, "--resume").code == 0
    training = json.loads((tmp_path / "run" / "config.json").read_text(encoding="utf-8"))["training"]
    assert (training["steps"], training["minutes"]) == (None, 0.001)


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
    resume = [*flags, "--steps", 3, "--resume"]
    assert regard("train", "classify", tmp_path / "train.tsv", *resume).code == 2
    (tmp_path / changed).write_text("\n".join(rows[: len(lines)]), encoding="utf-8")
    assert regard("train", "classify", tmp_path / "train.tsv", *resume).code == 0


@pytest.mark.parametrize(
    ("flags", "code"),
    [
        (["--freeze", "embeddings"], 2),
        (["--layer-decay", 0.5], 2),
        (["--lora"], 2),
        (["--freeze", "some"], 2),
        (["--label-column", "mood"], 2),
        (["--size", "tinny"], 2),
        (["--epochs", 0], 2),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_wrong_requests(flags: list[Any], code: int, regard: Run, place: Path, tmp_path: Path) -> None:
    done = regard("train", "classify", place / "train.tsv", "--out", tmp_path / "m", *flags)
    assert (done.code, done.out) == (code, "")
    assert str(flags[-1]) in done.err or flags[0] in done.err
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize("flags", [["--label-column", "stars"], ["--label-separator", ";"], ["--skip-bad-rows"]])
def test_reading_options_need_a_file(regard: Run, tmp_path: Path, flags: list[str]) -> None:
    done = regard("train", "classify", "--out", tmp_path / "m", *flags)
    assert (done.code, flags[0] in done.err) == (2, True)


def test_one_class_only(regard: Run, tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("text\tlabel\na\tham\nb\tham\n", encoding="utf-8")
    done = regard("train", "classify", tmp_path / "a.tsv", "--out", tmp_path / "m")
    assert (done.code, "a.tsv" in done.err) == (1, True)


@pytest.mark.parametrize("task", ["classify", "pair"])
def test_the_built_in_dataset(task: str, regard: Run, tmp_path: Path) -> None:
    done = regard("train", task, "--out", tmp_path / task, *SHAPE, "--max-seq-len", 32, "--steps", 2)
    assert done.code == 0, done.err
    assert "built-in" in (tmp_path / task / "README.md").read_text(encoding="utf-8")
