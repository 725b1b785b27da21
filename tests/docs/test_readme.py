"""The commands and the Python code of the README work.

Every `regard` command of the shell blocks and every Python block runs, in the order of the page, in a folder with the
data files and models that the README names. Trainings get two steps of a tiny model instead of minutes; nothing else is
changed. Not run: `make`, `source` (shell), and blocks marked `text`, which show output or a synopsis.
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
from regard.cli.main import VERBS, main
from regard.data.synthetic.stories import stories
from regard.data.synthetic.translation import sentences
from regard.registry import tasks

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")

SHAPE = {"size": "tiny", "d_model": 16, "num_heads": 2, "head_dim": 8, "d_ff": 16, "vocab_size": 400}
OPINIONS = (("fine", "good"), ("dull", "bad"))
NOT_RUN = ("make ", "source ")

BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`([^`\n]+)`")


def shell_lines() -> list[str]:
    lines = [line for language, body in BLOCK.findall(README) if not language for line in body.splitlines()]
    return [line for line in lines if line.strip()]


def python_blocks() -> list[str]:
    return [body for language, body in BLOCK.findall(README) if language == "python"]


def commands() -> list[list[str]]:
    """The words of every `regard` command."""
    typed = [shlex.split(line, comments=True) for line in shell_lines()]
    return [words[1:] for words in typed if words[0] == "regard"]


def training_settings(task: str, *, pretrained: bool) -> dict[str, Any]:
    """Shorten a training to a second; with pretrained weights, the shape is fixed."""
    shape = {} if pretrained else {**SHAPE, **({"context_length": 32} if task == "generate" else {})}
    return {"steps": 2, **shape}


def flags(settings: dict[str, Any]) -> list[str]:
    return [word for name, value in settings.items() for word in (f"--{name.replace('_', '-')}", str(value))]


def without_budget(words: list[str]) -> list[str]:
    budgets = [place for place, word in enumerate(words) if word in ("--minutes", "--steps")]
    return [word for place, word in enumerate(words) if place not in budgets and place - 1 not in budgets]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that the README names, the models of its trainings, and a folder of another tool."""
    place = tmp_path_factory.mktemp("reader")
    for name, split in (("pairs.tsv", "train"), ("test.tsv", "test")):
        rows = "".join(f"{s.source}\t{s.target}\n" for s in sentences(split, count=60))
        (place / name).write_text(f"source\ttarget\n{rows}", encoding="utf-8")
    text = "".join(f"{s.source}\n" for s in sentences("train", count=900))
    for name in ("book.txt", "more.txt", "file.txt"):
        (place / name).write_text(text, encoding="utf-8")
    (place / "texts").mkdir()
    (place / "texts" / "stories.txt").write_text("\n\n".join(stories()[:200]), encoding="utf-8")
    rows = [(f"A {word} film, {number}.", label) for number in range(20) for word, label in OPINIONS]
    for name in ("reviews.csv", "test.csv"):
        lines = ["text,label", *(f'"{text}",{label}' for text, label in rows)]
        (place / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    lines = ["text", *(f'"{text}"' for text, _ in rows)]
    (place / "new_reviews.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    trained = {
        "mine": ("translate", "pairs.tsv", None),
        "book": ("generate", "book.txt", None),
        "bert": ("fill", "texts", None),
        "reviews": ("classify", "reviews.csv", "runs/bert"),
    }
    for name, (task, data, start) in trained.items():
        settings = training_settings(task, pretrained=start is not None)
        regard.train(
            task, place / data, out=place / "runs" / name, from_=None if start is None else place / start, **settings
        )
    assert main(["export", str(place / "runs" / "bert"), "--out", str(place / "folder")]) == 0
    return place


@pytest.fixture
def reader_folder(prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    place = Path(shutil.copytree(prepared, tmp_path / "reader"))
    monkeypatch.chdir(place)
    yield place


def test_every_line_is_run_or_listed_as_not_run() -> None:
    lines = shell_lines()
    assert any(line.startswith("regard ") for line in lines)
    unknown = [line for line in lines if not line.startswith(("regard ", *NOT_RUN))]
    assert not unknown, "these lines are neither run nor listed in NOT_RUN"
    targets = {line.split()[1] for line in lines if line.startswith("make ")}
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert {"demo", "test"} <= targets
    assert all(f"\n{target}: " in makefile for target in targets)


@pytest.mark.parametrize("words", commands(), ids=lambda words: " ".join(words)[:40])
def test_a_command(words: list[str], reader_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if words[0] == "train":
        shutil.rmtree(reader_folder / words[words.index("--out") + 1], ignore_errors=True)
        words = without_budget(words) + flags(training_settings(words[1], pretrained="--from" in words))
    if words[0] == "export":
        shutil.rmtree(reader_folder / "folder")
    assert main(words) == 0, capsys.readouterr().err
    assert capsys.readouterr().out.endswith("\n")
    if "--out" in words:
        assert (reader_folder / words[words.index("--out") + 1]).exists()


def test_the_python_blocks_one_after_the_other(reader_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    small = ", ".join(f"{name}={value!r}" for name, value in training_settings("translate", pretrained=False).items())
    assert python_blocks()
    for block in python_blocks():
        for out in re.findall(r'\bout="([^"]+)"', block):
            shutil.rmtree(reader_folder / out)
        block, shrunk = re.subn(r"\b(minutes|steps)=\d+", small, block)
        assert shrunk == block.count("regard.train("), "every training states its budget"
        exec(compile(block, "README.md", "exec"), names)
    assert capsys.readouterr().out.count("\n") >= sum(block.count("print(") for block in python_blocks())
    assert (reader_folder / "look.html").exists()
    assert (reader_folder / "runs" / "mine" / "model.safetensors").exists()
    json.dumps(regard.tasks()["classify"].schema())


def test_mypy_accepts_the_python_blocks(tmp_path: Path) -> None:
    """Also: every task has an overload of `load`, so that its predictor has a type."""
    api = pytest.importorskip("mypy.api")
    code = ["import regard", *python_blocks()]
    for task, spec in tasks.items():
        module, _, name = spec.predictor.partition(":")
        code.append(f"from {module} import {name}\n{task}: {name} = regard.load('x', task={task!r})")
    file = tmp_path / "readme.py"
    file.write_text("\n".join(code), encoding="utf-8")
    out, err, status = api.run(["--config-file", str(ROOT / "pyproject.toml"), "--follow-imports=silent", str(file)])
    assert status == 0, out + err


def test_commands_flags_and_names_in_the_text_exist(capsys: pytest.CaptureFixture[str]) -> None:
    spans = SPAN.findall(BLOCK.sub("", README))
    verbs = {words[1] for span in spans if (words := span.split())[0] == "regard" and len(words) > 1}
    assert verbs - {"COMMAND"} <= {*VERBS, *tasks}
    for verb in (*VERBS, *tasks):
        trainable = [name for name in tasks if tasks[name].trainable]
        for task in trainable if verb == "train" else [""]:
            main([verb, *([task] if task else []), "--help"])
    known = set(re.findall(r"--[a-z][a-z-]*", capsys.readouterr().out))
    mentioned = {flag for span in spans for flag in re.findall(r"--[a-z][a-z-]*", span)}
    assert mentioned <= known
    for name in re.findall(r"`regard\.(\w+)`", README):
        assert hasattr(regard, name)
