"""The command that resumes a run: the user's command line, ready to paste."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from regard.cli.train import resume_command


def test_arguments_are_quoted() -> None:
    given = ["train", "translate", "my pairs.tsv", "--out", "runs/it's mine", "--minutes", "30"]
    command = resume_command(given)
    assert shlex.split(command) == ["regard", *given, "--resume"]
    assert command == "regard train translate 'my pairs.tsv' --out 'runs/it'\"'\"'s mine' --minutes 30 --resume"


def test_force_is_removed() -> None:
    given = ["train", "generate", "--force", "book.txt", "--out=m", "--resume"]
    assert resume_command(given) == "regard train generate book.txt --out=m --resume"


@pytest.mark.parametrize("budget", [["--steps", "9"], ["--minutes=1"], ["--minutes", "1"], []])
def test_a_new_budget_replaces_the_old_one(budget: list[str]) -> None:
    command = resume_command(["train", "translate", *budget, "a.tsv", "--out", "m"], steps=7)
    assert command == "regard train translate a.tsv --out m --steps 7 --resume"


def test_the_program_has_the_name_by_which_it_was_called(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "bin" / "regard"
    program.parent.mkdir()
    program.touch(mode=0o755)
    monkeypatch.setattr(sys, "argv", [str(program)])
    monkeypatch.setenv("PATH", "")
    assert resume_command(["train"]) == f"{shlex.quote(str(program))} train --resume"
    monkeypatch.setenv("PATH", str(program.parent))
    assert resume_command(["train"]) == "regard train --resume"
    monkeypatch.setattr(sys, "argv", ["/anywhere/regard/__main__.py"])
    assert resume_command(["train"]) == f"{shlex.quote(sys.executable)} -m regard train --resume"


def test_options_go_before_the_double_dash() -> None:
    given = ["train", "generate", "--steps", "3", "--out", "m", "--", "--steps", "book.txt"]
    assert resume_command(given, steps=7) == "regard train generate --out m --steps 7 --resume -- --steps book.txt"
