"""Mistakes are answered before anything heavy is loaded, and what needs no torch does without it.

Torch is not hidden from a clock but from the process: whoever imports it fails.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

WITHOUT_TORCH = """
import contextlib, io, json, sys
class Refusing:
    def find_spec(name, path=None, target=None):
        if name == "torch":
            raise RuntimeError("torch was imported")
sys.meta_path.insert(0, Refusing)
from regard.cli.main import main
said = []
for arguments in json.loads(sys.stdin.read()):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(arguments)
    said.append([code, out.getvalue(), err.getvalue()])
print(json.dumps(said))
"""


def without_torch(*commands: list[str]) -> list[tuple[int, str, str]]:
    """Each command's exit code, stdout and stderr, in one process that has no torch."""
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH],
        input=json.dumps(commands),
        capture_output=True,
        encoding="utf-8",
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return [(code, out, err) for code, out, err in json.loads(done.stdout)]


@pytest.fixture
def pairs(tmp_path: Path) -> str:
    path = tmp_path / "pairs.tsv"
    path.write_text("one\t1\ntwo\t2\nthree\t3\n", encoding="utf-8")
    return str(path)


def test_mistakes_in_a_training(pairs: str, tmp_path: Path) -> None:
    out = str(tmp_path / "m")
    taken = tmp_path / "taken"
    taken.mkdir()
    (taken / "thesis.txt").touch()
    bad = tmp_path / "bad.tsv"
    bad.write_text("one\t1\n\ntwo\t2\n", encoding="utf-8")
    numbers, several = tmp_path / "numbers.tsv", tmp_path / "several.tsv"
    numbers.write_text("first\tsecond\tscore\n" + "a\tb\t1.5\nc\td\t2\n" * 3, encoding="utf-8")
    several.write_text("text\tlabels\n" + "a\tx,y\nb\ty\n" * 3, encoding="utf-8")
    balanced = ["--out", out, "--class-weights", "balanced"]
    translate = ["train", "translate", pairs, "--out"]
    mistakes: list[tuple[list[str], int, str]] = [
        (["train", "transalte"], 2, "Did you mean 'translate'"),
        ([*translate, out, "--nonsense", "3"], 2, "--nonsense"),
        ([*translate, out, "--steps", "many"], 2, "--steps"),
        ([*translate, out, "--size", "hugge"], 2, "unknown size 'hugge'"),
        ([*translate, out, "--recipe", "papyrus"], 2, "Did you mean 'paper'"),
        ([*translate, out, "--heads", "0"], 2, "heads must be at least 1"),
        ([*translate, out, "--steps", "0"], 2, "steps must be at least 1"),
        ([*translate, out, "--beams", "0"], 2, "beams must be at least 1"),
        ([*translate, out, "--device", "gpu"], 2, "unknown device 'gpu'"),
        ([*translate, str(taken)], 2, "was not written by regard"),
        ([*translate, str(taken / "thesis.txt")], 2, "is a file"),
        ([*translate, out, "--resume", "--force"], 2, "give one of the two"),
        (["train", "translate", str(tmp_path / "absent.tsv"), "--out", out], 2, "does not exist"),
        (["train", "translate", str(bad), "--out", out], 1, "bad.tsv:2: empty line"),
        (["train", "generate", str(tmp_path / "absent.txt"), "--out", out], 2, "does not exist"),
        (["train", "generate", pairs, "--out", out, "--size", "hugge"], 2, "unknown size"),
        (["train", "generate", pairs, "--out", out, "--context", "0"], 2, "context must be at least 1"),
        (["train", "generate", pairs, "--out", out, "--temperature", "-1"], 2, "temperature must be 0"),
        (["train", "fill", str(tmp_path / "absent.txt"), "--out", out], 2, "does not exist"),
        (["train", "fill", pairs, "--out", out, "--size", "minni"], 2, "Did you mean 'mini'"),
        (["train", "fill", pairs, "--out", out, "--context", "5"], 2, "a window of 5 is too short"),
        (["train", "fill", pairs, "--out", out, "--window", "3"], 2, "window must be at least 8"),
        (["train", "fill", pairs, "--out", out, "--validation-share", "2"], 2, "must lie between 0 and 1"),
        (["train", "fill", "--out", out, "--validation", pairs], 2, "needs training files beside it"),
        (["train", "pair", str(numbers), *balanced], 2, "for texts with one label each"),
        (["train", "classify", str(several), "--separator", ",", *balanced], 2, "for texts with one label each"),
        (["train", "answer", str(tmp_path / "absent.json"), "--out", out], 2, "does not exist"),
        (["train", "answer", pairs, "--out", out], 1, "not valid JSON"),
        (
            ["train", "answer", "--out", out, "--max-tokens", "64", "--stride", "64"],
            2,
            "must be less than --max-tokens",
        ),
    ]
    for (arguments, code, message), said in zip(
        mistakes, without_torch(*(arguments for arguments, _, _ in mistakes)), strict=True
    ):
        assert (said[0], said[1]) == (code, ""), (arguments, said)
        assert message in said[2], (arguments, said)
    assert not Path(out).exists(), "what cannot begin leaves no folder"


FOLDER_VERBS = [
    ["translate", "one"],
    ["evaluate", "pairs.tsv"],
    ["look", "one"],
    ["tokens", "one"],
    ["generate", "one"],
    ["suggest", "one"],
    ["fill", "one [MASK]"],
    ["answer", "one?", "one two"],
    ["score", "book.txt"],
    ["export", "--out", "x"],
    ["import", "--out", "x"],
]


def test_a_model_folder_that_is_not_there(pairs: str, tmp_path: Path) -> None:
    """A path where no folder is was given wrongly: exit code 2. A folder that holds no model is a failure, 1."""
    for folder, message in ((str(tmp_path / "absent"), "does not exist"), (pairs, "is a file")):
        commands = [[verb, folder, *rest] for verb, *rest in FOLDER_VERBS]
        for command, (code, out, err) in zip(commands, without_torch(*commands), strict=True):
            assert (code, out) == (2, ""), command
            assert folder in err and message in err, command


def test_mistakes_in_what_is_asked_of_a_model(pairs: str, tmp_path: Path) -> None:
    """Whatever the model in the folder is, these cannot be answered: the folder is not even read."""
    model = tmp_path / "model"
    model.mkdir()
    empty, taken = tmp_path / "empty.txt", tmp_path / "taken.html"
    empty.touch()
    taken.touch()
    mistakes: list[tuple[str, list[str], int, str]] = [
        ("look", ["  "], 2, "no text to look at"),
        ("look", ["one", "--out", str(taken)], 2, "--force"),
        ("look", ["one", "--out", str(tmp_path / "look.pdf")], 2, ".html, .svg, .png"),
        ("look", ["one", "--steps", "encoder.0.self", "decoder.0.self"], 2, "one attention, not 2"),
        ("look", ["one", "--steps", "--ranks"], 2, "one at a time"),
        ("look", ["one", "--targets", "--ranks"], 2, "one at a time"),
        ("look", ["one", "--inputs", "--steps"], 2, "one at a time"),
        ("look", ["one", "--inputs", "--target", "1"], 2, "--inputs are those of a BERT"),
        ("look", ["one", "--targets", "--target", "1"], 2, "--targets is for language models"),
        ("translate", ["one", "--beams", "0"], 2, "beams must be at least 1"),
        ("translate", ["one", "--n-best", "0"], 2, "n_best must be at least 1"),
        ("translate", ["one", "--n-best", "3", "--beams", "2"], 2, "set beams to 3"),
        ("translate", ["one", "--max-new-tokens", "0"], 2, "max_new_tokens must be at least 1"),
        ("translate", ["one", "--length-penalty", "99"], 2, "length_penalty must be between"),
        ("translate", ["one", "--stream", "--json"], 2, "--stream writes one greedy translation"),
        ("translate", ["one", "--stream", "--max-new-tokens", "-1"], 2, "max_new_tokens must be at least 1"),
        ("translate", ["a" * 100_001], 1, "100,001 characters"),
        ("evaluate", [pairs, "--beams", "0"], 2, "beams must be at least 1"),
        ("suggest", ["one", "--n", "0"], 2, "--n must be at least 1"),
        ("suggest", ["one", "--precision", "int3"], 2, "--precision"),
        ("score", [str(tmp_path / "absent.txt")], 2, "does not exist"),
        ("score", [str(empty)], 1, "empty"),
        ("generate", ["one", "--temperature", "-1"], 2, "temperature must be 0"),
        ("generate", ["one", "--top-p", "1.5"], 2, "top_p must be above 0"),
        ("generate", ["one", "--stop", ""], 2, "a stop text is empty"),
        ("generate", ["one", "--beams", "0"], 2, "beams must be at least 1"),
        ("generate", ["one", "--beams", "2", "--length-penalty", "99"], 2, "length_penalty must be between"),
    ]
    commands = [[verb, str(model), *rest] for verb, rest, _, _ in mistakes]
    for command, (_, _, code, message), said in zip(commands, mistakes, without_torch(*commands), strict=True):
        assert (said[0], said[1]) == (code, ""), (command[:4], said)
        assert message in said[2], (command[:4], said)


def test_a_plan_and_the_help_need_no_torch() -> None:
    commands = [
        ["plan", "transformer-base"],
        ["train", "translate", "--help"],
        ["train", "generate", "--help"],
        ["train", "fill", "--help"],
        ["train", "classify", "--help"],
    ]
    for code, out, err in without_torch(*commands):
        assert (code, err) == (0, "")
        assert out
