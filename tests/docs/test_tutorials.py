"""The tutorials run from top to bottom, with a short training instead of a long one."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TUTORIAL = ROOT / "docs" / "tutorials" / "build_a_gpt.py"


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TUTORIAL_STEPS", "12")
    monkeypatch.setenv("REGARD_DATA", str(tmp_path))  # empty: the tutorial uses the built-in stories


@pytest.mark.usefixtures("short")
def test_m164_from_characters_to_a_model_that_writes() -> None:
    made = runpy.run_path(str(TUTORIAL))
    assert made["gpt_loss"] < made["bigram_loss"] < made["first_loss"]
    assert made["difference"] < 1e-5
    assert made["affected"] == [3, 4, 5]
    assert len(made["generate"](made["gpt"], "The", 7)) == 10


def test_m164_the_tutorial_is_short_and_has_cells() -> None:
    lines = TUTORIAL.read_text(encoding="utf-8").splitlines()
    assert len(lines) < 400
    assert sum(line.startswith("# %%") for line in lines) >= 12
