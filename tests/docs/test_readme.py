"""The README cannot drift: what it tells a reader to type is typed here.

Run: every `regard` command of the fenced blocks and of the table of commands, and every Python block, in the order of
the page. They run where the reader would be: in a folder with pairs.tsv, test.tsv, reviews.csv, squad.json, book.txt,
more.txt, file.txt, texts.txt and texts, trained models in runs, and somebody's model in folder. Two things are changed,
and only these: a training gets two steps of a tiny model instead of minutes (so do those of a transfer curve, which has
one seed), and the translator that is already there was trained with `--recipe paper`, as `export` needs.

Not run: the `make` commands and `regard demo` (a run of the demo is in tests/cli; that the targets exist is checked
here), and `source`, which belongs to the reader's shell.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import regard
from regard.api import TASKS
from regard.cli.main import VERBS, main
from regard.data.pairs import Pair, write_pairs_tsv
from regard.data.world.stories import stories
from regard.data.world.translation import sentences

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")

SMALL = {"size": "tiny", "width": 16, "heads": 2, "head_width": 8, "hidden": 16, "pieces": 400, "steps": 2}
OPINIONS = (("fine", "good"), ("dull", "bad"))
WHO = {"question": "Who sleeps?", "answers": [{"text": "cat", "answer_start": 4}]}
SQUAD = {
    "data": [{"paragraphs": [{"context": f"The cat sleeps, {n}.", "qas": [{**WHO, "id": n}]} for n in range(20)]}],
}
NOT_RUN = ("make ", "source ")

BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ROW = re.compile(r"^\| `(regard [^`]*)` \|", re.MULTILINE)
SPAN = re.compile(r"`([^`\n]+)`")


def shell_lines() -> list[str]:
    lines = [line for language, body in BLOCK.findall(README) if language != "python" for line in body.splitlines()]
    return [line for line in lines if line.strip()]


def python_blocks() -> list[str]:
    return [body for language, body in BLOCK.findall(README) if language == "python"]


def commands() -> list[list[str]]:
    """The words of every `regard` command, without the comment behind it."""
    typed = [shlex.split(line, comments=True) for line in (*shell_lines(), *ROW.findall(README))]
    return [words[1:] for words in typed if words[0] == "regard"]


def flags(settings: dict[str, Any]) -> list[str]:
    return [word for name, value in settings.items() for word in (f"--{name.replace('_', '-')}", str(value))]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a reader has: data, a model, and somebody's Marian folder."""
    place = tmp_path_factory.mktemp("reader")
    for name, split in (("pairs.tsv", "train"), ("test.tsv", "test")):
        write_pairs_tsv(place / name, [Pair(s.source, s.target) for s in sentences(split, count=60)])
    mine = place / "runs" / "mine"
    training = ["train", "translate", str(place / "pairs.tsv"), "--out", str(mine), "--recipe", "paper"]
    assert main([*training, *flags(SMALL)]) == 0
    assert main(["export", str(mine), "--out", str(place / "folder")]) == 0
    text = "".join(f"{s.source}\n" for s in sentences("train", count=900))
    for name in ("book.txt", "more.txt", "file.txt", "texts.txt"):
        (place / name).write_text(text, encoding="utf-8")
    book = ["train", "generate", str(place / "book.txt"), "--out", str(place / "runs" / "book")]
    assert main([*book, *flags(SMALL), "--context", "32"]) == 0
    (place / "texts").mkdir()
    (place / "texts" / "stories.txt").write_text("\n\n".join(stories()[:200]), encoding="utf-8")
    bert = ["train", "fill", str(place / "texts"), "--out", str(place / "runs" / "bert")]
    assert main([*bert, *flags(SMALL)]) == 0
    rows = [f'"A {word} film, {number}.",{label}' for number in range(20) for word, label in OPINIONS]
    (place / "reviews.csv").write_text("\n".join(["text,label", *rows]) + "\n", encoding="utf-8")
    begun = ["--from", str(place / "runs" / "bert"), "--steps", "2"]
    reviews = ["train", "classify", str(place / "reviews.csv"), "--out", str(place / "runs" / "reviews")]
    assert main([*reviews, *begun]) == 0
    (place / "squad.json").write_text(json.dumps(SQUAD), encoding="utf-8")
    answers = ["train", "answer", str(place / "squad.json"), "--out", str(place / "runs" / "answers")]
    assert main([*answers, *begun]) == 0
    for task, name in (("pair", "twos"), ("tag", "names")):  # on the built-in world
        assert main(["train", task, "--out", str(place / "runs" / name), *begun]) == 0
    return place


@pytest.fixture
def at_the_readers(prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    place = Path(shutil.copytree(prepared, tmp_path / "reader"))
    monkeypatch.chdir(place)
    yield place


def test_every_line_is_run_or_known_not_to_be() -> None:
    lines = shell_lines()
    assert any(line.startswith("regard ") for line in lines)
    unknown = [line for line in lines if not line.startswith(("regard ", *NOT_RUN))]
    assert not unknown, "say in this file how these are tested"
    targets = {line.split()[1] for line in lines if line.startswith("make ")}
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert {"demo", "test"} <= targets
    assert all(f"\n{target}: " in makefile for target in targets)


def test_the_table_names_every_command() -> None:
    assert {words[0] for words in commands()} == set(VERBS)


@pytest.mark.parametrize("words", [w for w in commands() if w[0] != "demo"], ids=lambda words: " ".join(words)[:40])
def test_a_command(words: list[str], at_the_readers: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if words[0] == "train":
        shutil.rmtree(at_the_readers / words[words.index("--out") + 1], ignore_errors=True)
        budgets = [place for place, word in enumerate(words) if word in ("--minutes", "--steps")]
        words = [word for place, word in enumerate(words) if place not in budgets and place - 1 not in budgets]
        # A model that goes on from another has its shape already.
        shape = {"steps": 2} if "--from" in words else SMALL | ({"context": 32} if words[1] == "generate" else {})
        words += flags(shape)
    if words[0] == "transfer":
        words += ["--seeds", "1", "--least-steps", "2"]
    if words[0] == "export":
        shutil.rmtree(at_the_readers / "folder")
    assert main(words) == 0, capsys.readouterr().err
    assert capsys.readouterr().out.endswith("\n"), "a command that answers says something"
    if "--out" in words:
        assert (at_the_readers / words[words.index("--out") + 1]).exists()


def test_the_python_blocks_one_after_the_other(at_the_readers: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    small = ", ".join(f"{name}={value!r}" for name, value in SMALL.items())
    assert python_blocks()
    for block in python_blocks():
        for out in re.findall(r'\bout="([^"]+)"', block):
            shutil.rmtree(at_the_readers / out)
        block, shrunk = re.subn(r"\b(minutes|steps)=\d+", small, block)
        assert shrunk == block.count("regard.train("), "every training states its budget"
        exec(compile(block, "README.md", "exec"), names)
    assert capsys.readouterr().out.count("\n") >= sum(block.count("print(") for block in python_blocks())
    assert (at_the_readers / "look.html").exists()
    assert (at_the_readers / "runs" / "mine" / "model.safetensors").exists()


def test_what_is_named_in_passing_exists(capsys: pytest.CaptureFixture[str]) -> None:
    """Commands, flags and Python names in running text."""
    spans = SPAN.findall(BLOCK.sub("", README))
    verbs = {words[1] for span in spans if (words := span.split())[0] == "regard" and len(words) > 1}
    assert verbs <= set(VERBS)
    for verb in VERBS:
        for task in TASKS if verb == "train" else ("",):
            main([verb, *([task] if task else []), "--help"])
    known = set(re.findall(r"--[a-z][a-z-]*", capsys.readouterr().out))
    mentioned = {flag for span in spans for flag in re.findall(r"--[a-z][a-z-]*", span)}
    assert mentioned <= known
    for name in re.findall(r"`regard\.(\w+)`", README):
        assert hasattr(regard, name)
