"""The command that goes on with a run: the user's own, ready to be pasted."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from regard.cli.again import command_to_go_on


def test_the_users_own_words_come_back_quoted() -> None:
    given = ["train", "translate", "my pairs.tsv", "--out", "runs/it's mine", "--minutes", "30"]
    command = command_to_go_on(given)
    assert shlex.split(command) == ["regard", *given, "--resume"]
    assert command == "regard train translate 'my pairs.tsv' --out 'runs/it'\"'\"'s mine' --minutes 30 --resume"


def test_a_run_is_not_replaced_when_it_goes_on() -> None:
    given = ["train", "generate", "--force", "book.txt", "--out=m", "--resume"]
    assert command_to_go_on(given) == "regard train generate book.txt --out=m --resume"


@pytest.mark.parametrize("budget", [["--steps", "9"], ["--minutes=1"], ["--minutes", "1"], []])
def test_another_budget_takes_the_place_of_the_first(budget: list[str]) -> None:
    command = command_to_go_on(["train", "translate", *budget, "a.tsv", "--out", "m"], steps=7)
    assert command == "regard train translate a.tsv --out m --steps 7 --resume"


def test_the_program_is_called_as_it_was(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "bin" / "regard"
    program.parent.mkdir()
    program.touch(mode=0o755)
    monkeypatch.setattr(sys, "argv", [str(program)])
    monkeypatch.setenv("PATH", "")
    assert command_to_go_on(["train"]) == f"{shlex.quote(str(program))} train --resume"
    monkeypatch.setenv("PATH", str(program.parent))
    assert command_to_go_on(["train"]) == "regard train --resume"
    monkeypatch.setattr(sys, "argv", ["/anywhere/regard/__main__.py"])
    assert command_to_go_on(["train"]) == f"{shlex.quote(sys.executable)} -m regard train --resume"
