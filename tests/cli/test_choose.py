"""`regard train choose`, `regard choose` and `regard evaluate` on a command line."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]
QUICK = ["--d-model", 32, "--num-heads", 2, "--head-dim", 16, "--d-ff", 48, "--num-layers", 2, "--max-seq-len", 24]
QUICK += ["--vocab-size", 200, "--batch-size", 16, "--learning-rate", 0.01, "--dropout", 0, "--steps", 60]
HEADER = "video-id,sent1,sent2,ending0,ending1,ending2,label"


@pytest.fixture(scope="module")
def place(regard: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a table, and a model that was trained on it: in the right ending, the thing is closed."""
    place = tmp_path_factory.mktemp("choices")
    rows = []
    for thing in ("door", "book", "piano", "box", "window"):
        for turn in range(3):
            deeds = ["eats", "sings"]
            deeds.insert(turn, "closes")
            endings = ",".join(f'"{deed} the {thing}, again."' for deed in deeds)
            rows += [f"v,{who} opens the {thing}.,{who},{endings},{turn}" for who in ("She", "He", "Ann", "Tom")]
    (place / "swag.csv").write_text("\n".join([HEADER, *rows]) + "\n", encoding="utf-8")
    done = regard("train", "choose", place / "swag.csv", "--out", place / "model", *QUICK, "--json")
    assert done.code == 0, done.err
    accuracy, baseline = json.loads(done.out)["scores"][:2]
    assert (accuracy["name"], baseline["name"]) == ("accuracy", "accuracy of the majority")
    assert accuracy["value"] > 60
    return place


def test_m154_a_text_and_its_endings(regard: Run, place: Path, tmp_path: Path) -> None:
    endings = ("She eats the book, again.", "She closes the book, again.")
    done = regard("choose", place / "model", "She opens the book.", *endings)
    assert (done.code, done.out.strip()) == (0, endings[1])
    record = json.loads(regard("choose", place / "model", "She opens the book.", *endings, "--json").out)
    assert list(record) == ["context", "endings", "choice_index", "text", "scores"]
    assert sum(record["scores"]) == pytest.approx(1, abs=1e-5)
    assert record["endings"][record["choice_index"]] == record["text"] == done.out.strip()
    piped = regard("choose", place / "model", stdin="\t".join(["She opens the book.", *endings]).encode() + b"\n")
    assert piped.out == done.out
    uneven = "\t".join(["She opens it.", *endings]) + "\n" + "\t".join(["He opens it.", *endings, "He sings."]) + "\n"
    (tmp_path / "uneven.txt").write_text(uneven, encoding="utf-8")
    done = regard("choose", place / "model", tmp_path / "uneven.txt", "--out", tmp_path / "out.csv")
    assert done.code == 0, done.err
    with (tmp_path / "out.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [len(json.loads(row["scores"])) for row in rows] == [2, 3]
    record = {"context": "She opens the book.", "endings": endings, "label": -1}
    (tmp_path / "asked.jsonl").write_text(json.dumps(record), encoding="utf-8")
    assert regard("choose", place / "model", tmp_path / "asked.jsonl").out.strip() == endings[1]


def test_m154_a_table_and_its_scores(regard: Run, place: Path, tmp_path: Path) -> None:
    done = regard("choose", place / "model", place / "swag.csv", "--out", tmp_path / "chosen.csv")
    assert done.code == 0, done.err
    with (tmp_path / "chosen.csv").open(encoding="utf-8", newline="") as file:
        found = list(csv.DictReader(file))
    assert {"sent1", "label", "predicted_text", "choice_index"} <= set(found[0]), "the table with new columns"
    with (place / "swag.csv").open(encoding="utf-8", newline="") as file:
        gold = [row["label"] for row in csv.DictReader(file)]
    right = sum(row["choice_index"] == label for row, label in zip(found, gold, strict=True))
    done = regard("evaluate", place / "model", place / "swag.csv", "--json")
    assert done.code == 0, done.err
    accuracy, baseline = json.loads(done.out)[:2]
    assert (accuracy["value"], accuracy["signature"]) == (pytest.approx(100 * right / 60), "n:60")
    assert (baseline["name"], baseline["value"]) == ("accuracy of the majority", pytest.approx(100 / 3))


def test_other_verbs(regard: Run, place: Path, tmp_path: Path) -> None:
    done = regard("look", place / "model", "She opens it.", "She closes it.", "--out", tmp_path / "look.html")
    assert done.code == 0, done.err
    assert regard("embed", place / "model", "She opens it.").code == 0
    done = regard("export", place / "model", "--out", tmp_path / "theirs")
    assert (done.code, "BertForMultipleChoice" in done.out + done.err) == (0, True)
    done = regard("choose", tmp_path / "theirs", "She opens it.", "She closes it.", "He sings.")
    assert done.code == 0, done.err


@pytest.mark.parametrize(
    "words",
    [
        ["choose", "model", "one", "two"],
        ["choose", "model", "swag.csv", "--first-column", "a"],
        ["look", "model", "one text", "--json"],
        ["classify", "model", "a text"],
        ["pair", "model", "a text", "another"],
        ["evaluate", "model", "swag.csv", "--label-column", "label"],
        ["evaluate", "model", "swag.csv", "--confusion"],
        ["train", "choose", "swag.csv", "--out", "other", "--class-weights", "balanced"],
        ["train", "pair", "swag.csv", "--out", "other"],
    ],
)
def test_wrong_use(words: list[str], regard: Run, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    done = regard(*words)
    assert (done.code in (1, 2), done.out) == (True, ""), done.err
    assert not (place / "other").exists()


def test_validation_with_other_endings(regard: Run, place: Path, tmp_path: Path) -> None:
    two = tmp_path / "two.csv"
    two.write_text("context,ending0,ending1,label\na,b,c,0\n", encoding="utf-8")
    done = regard("train", "choose", place / "swag.csv", "--validation", two, "--out", tmp_path / "m", *QUICK)
    assert (done.code, "two.csv:2" in done.err) == (1, True), done.err
    done = regard("choose", place / "model", stdin=b"a\tb\n")
    assert (done.code, "<stdin>:1" in done.err) == (1, True), done.err
    (tmp_path / "bad.csv").write_text("context,ending0,ending1\na,,c\n", encoding="utf-8")
    done = regard("choose", place / "model", tmp_path / "bad.csv")
    assert (done.code, "bad.csv:2" in done.err) == (1, True), done.err


def test_a_damaged_folder(regard: Run, place: Path, tmp_path: Path) -> None:
    shutil.copytree(place / "model", tmp_path / "model")
    (config,) = (tmp_path / "model").rglob("config.json")
    (tmp_path / "model" / "regard-manifest.json").unlink()
    settings = json.loads(config.read_text(encoding="utf-8"))
    config.write_text(json.dumps({**settings, "majority_label": ["first"]}), encoding="utf-8")
    done = regard("choose", tmp_path / "model", "a", "b", "c")
    assert (done.code, "majority_label" in done.err) == (1, True), done.err
