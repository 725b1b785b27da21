"""The pages of docs/: their Python code runs, and the paths and modules that they name exist."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

import pytest

import regard

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PATH = re.compile(r"`([\w.-]+/[\w./-]+\.(?:py|js|md|sh|toml))`")


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def test_train_in_your_own_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for block in BLOCK.findall((DOCS / "train_in_your_own_loop.md").read_text(encoding="utf-8")):
        exec(compile(block, "train_in_your_own_loop.md", "exec"), names)
    weights = names["weights"]
    assert weights.shape == (2, 16, 16)
    assert bool(((weights.sum(dim=-1) - 1).abs() < 1e-5).all())
    result = names["classifier"]("A fine film.")
    assert regard.load("runs/own-loop")("A fine film.").scores == result.scores


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_paths_exist(page: Path) -> None:
    places = (ROOT, ROOT / "src", ROOT / "src" / "regard", DOCS, page.parent)
    named = PATH.findall(page.read_text(encoding="utf-8"))
    assert not [path for path in named if not any((place / path).exists() for place in places)]


@pytest.mark.parametrize(
    "page", sorted(set((DOCS / "reference").glob("*.md")) - {DOCS / "reference" / "index.md"}), ids=name_of
)
def test_the_reference_names_modules(page: Path) -> None:
    modules = re.findall(r"^::: ([\w.]+)", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert modules
    for module in modules:
        assert importlib.import_module(module).__doc__


def test_every_decision_is_listed() -> None:
    index = (DOCS / "decisions" / "README.md").read_text(encoding="utf-8")
    pages = sorted(path.name for path in (DOCS / "decisions").glob("0*.md"))
    assert re.findall(r"\]\((0\d{3}-[\w-]+\.md)\)", index) == pages
    for page in pages:
        text = (DOCS / "decisions" / page).read_text(encoding="utf-8")
        assert re.findall(r"^## (\w+)$", text, re.MULTILINE) == ["Context", "Decision", "Measurement"]
