"""A package that adds a task, an architecture and a view: all work everywhere, and nothing in regard knows them.

A copy of `tests/plugin` is installed into an environment of its own, so that its entry points are really there.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from typing import Any

import pytest

PLUGIN = Path(__file__).parent / "plugin"
ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter with regard, its dependencies and the plug-in."""
    folder = tmp_path_factory.mktemp("plugin-env")
    venv.create(folder, with_pip=False, symlinks=True)
    site = next((folder / "lib").glob("python*/site-packages"), folder / "Lib" / "site-packages")
    # A copy, because building leaves files behind.
    source = shutil.copytree(PLUGIN, folder / "source", ignore=shutil.ignore_patterns("build", "*.egg-info"))
    # The packages of the environment that runs the tests, and this very source of regard.
    (site / "regard.pth").write_text(f"{sysconfig.get_path('purelib')}\n{ROOT / 'src'}\n", encoding="utf-8")
    subprocess.run(
        [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-deps",
            "--no-build-isolation",
            "--target",
            site,
            source,
        ],
        check=True,
    )
    return folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")


def run(python: Path, *words: str) -> str:
    done = subprocess.run(
        [python, "-m", "regard", *words], capture_output=True, text=True, encoding="utf-8", check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_both_are_listed(python: Path) -> None:
    tasks = {task["name"]: task for task in json.loads(run(python, "tasks", "--json"))}
    assert tasks["reverse"]["package"] == "regard-reverse"
    assert tasks["reverse"]["models"] == ["transformer"]
    assert "bag-of-words" in tasks["classify"]["models"]
    models = {model["name"]: model for model in json.loads(run(python, "models", "--json"))}
    assert models["bag-of-words"]["presets"] == ["tiny", "small"]
    assert "reverse" in run(python, "--help")
    assert "--max-seq-len" in run(python, "train", "reverse", "--help")


def test_the_task_works_in_every_verb(python: Path, tmp_path: Path) -> None:
    texts, out = tmp_path / "texts.txt", tmp_path / "run"
    words = ("abcz", "bca", "cab", "aab", "bba", "abcabc")
    texts.write_text("".join(f"{word}\n" for word in words * 10), encoding="utf-8")
    small = [
        "--max-seq-len",
        "3",
        "--d-model",
        "16",
        "--d-ff",
        "16",
        "--num-heads",
        "2",
        "--head-dim",
        "8",
        "--steps",
        "3",
    ]
    scores = json.loads(run(python, "train", "reverse", str(texts), "--out", str(out), "--json", *small))["scores"]
    assert [score["name"] for score in scores] == ["exact match"]
    tokenizer = (out / "tokenizer.json").read_text(encoding="utf-8")
    assert '"c"' in tokenizer and '"z"' not in tokenizer, "--max-seq-len is used"
    assert json.loads(run(python, "reverse", str(out), "abc", "--json"))["source"] == "abc"
    assert len(run(python, "reverse", str(out), str(texts)).splitlines()) == 60
    assert "exact match" in run(python, "evaluate", str(out), str(texts))
    page = tmp_path / "look.html"
    run(python, "look", str(out), "abc", "--out", str(page))
    assert page.stat().st_size > 1000
    assert "exact match" in (out / "README.md").read_text(encoding="utf-8")
    assert (out / "report.html").is_file()


def test_the_architecture_works_for_the_tasks_it_can_do(python: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    words = ["train", "classify", "--model", "bag-of-words", "--out", str(out), "--steps", "3", "--vocab-size", "200"]
    trained = json.loads(run(python, *words, "--json"))
    assert json.loads((out / "config.json").read_text(encoding="utf-8"))["architecture"] == "bag-of-words"
    assert run(python, "classify", str(out), "A fine film.").strip() in ("positive", "negative")
    data = tmp_path / "test.csv"
    data.write_text("text,label\nA fine film.,positive\nA bad film.,negative\n", encoding="utf-8")
    scores = json.loads(run(python, "evaluate", str(out), str(data), "--json"))
    assert "accuracy" in [score["name"] for score in scores]
    card, report = ((out / name).read_text(encoding="utf-8") for name in ("README.md", "report.html"))
    for score in trained["scores"]:
        assert score["name"] in card and score["name"] in report
    assert "bag-of-words" in card
    # Its view is listed and drawn.
    assert list(json.loads(run(python, "look", str(out), "--views", "--json"))) == ["contributions"]
    page = tmp_path / "look.html"
    run(python, "look", str(out), "A fine film.", "--view", "contributions", "--out", str(page))
    assert "film" in page.read_text(encoding="utf-8")


def test_both_pass_the_conformance_suite_as_documented(python: Path, tmp_path: Path) -> None:
    blocks = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8").split("```python\n")[1:]
    (example,) = (block.partition("```")[0] for block in blocks if "check_task" in block)
    (tmp_path / "test_example.py").write_text(example, encoding="utf-8")
    words = [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_example.py"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stdout


def test_nothing_in_regard_names_them() -> None:
    named: list[Any] = [
        file
        for file in (ROOT / "src").rglob("*.py")
        if any(
            word in file.read_text(encoding="utf-8") for word in ("regard_reverse", "regard-reverse", "bag-of-words")
        )
    ]
    assert named == []
