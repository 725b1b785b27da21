"""Wrong requests are refused before torch is imported, and help and listings work without it.

The commands run in a process in which importing torch raises.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from regard.cli.main import VERBS
from regard.registry import tasks

WITHOUT_TORCH = """
import contextlib, io, json, sys
class Refusing:
    def find_spec(name, path=None, target=None):
        if name == "torch":
            raise RuntimeError("torch was imported")
sys.meta_path.insert(0, Refusing)
from regard.cli.main import main
results = []
for arguments in json.loads(sys.stdin.read()):
    out, err = io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(arguments)
    except Exception as error:
        code = repr(error)
    results.append([code, out.getvalue(), err.getvalue()])
print(json.dumps(results))
"""


def without_torch(*commands: list[str]) -> list[tuple[int, str, str]]:
    """Each command's exit code, stdout and stderr, in one process without torch."""
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH],
        input=json.dumps(commands),
        capture_output=True,
        encoding="utf-8",
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    return [(code, out, err) for code, out, err in json.loads(done.stdout)]


@pytest.fixture
def pairs(tmp_path: Path) -> str:
    path = tmp_path / "pairs.tsv"
    path.write_text("one\t1\ntwo\t2\nthree\t3\n", encoding="utf-8")
    return str(path)


def test_training(pairs: str, tmp_path: Path) -> None:
    out = str(tmp_path / "m")
    taken = tmp_path / "taken"
    taken.mkdir()
    (taken / "thesis.txt").touch()
    bad = tmp_path / "bad.tsv"
    bad.write_text("one\t1\n\ntwo\t2\n", encoding="utf-8")
    translate = ["train", "translate", pairs, "--out"]
    generate, fill = ["train", "generate", pairs, "--out", out], ["train", "fill", pairs, "--out", out]
    answer, classify = ["train", "answer", "--out", out], ["train", "classify", "--out", out]
    mistakes: list[tuple[list[str], int, str]] = [
        (["train", "transalte"], 2, "'translate'"),
        ([*translate, out, "--nonsense", "3"], 2, "--nonsense"),
        ([*translate, out, "--steps", "many"], 2, "steps"),
        ([*translate, out, "--size", "hugge"], 2, "'hugge'"),
        ([*translate, out, "--recipe", "papyrus"], 2, "'paper'"),
        ([*translate, out, "--num-heads", "0"], 2, "num_heads"),
        ([*translate, out, "--steps", "0"], 2, "steps"),
        ([*translate, out, "--num-beams", "0"], 2, "num_beams"),
        ([*translate, out, "--device", "gpu"], 2, "'gpu'"),
        ([*translate, out, "--model", "gpt"], 2, "transformer"),
        ([*translate, str(taken)], 2, "taken"),
        ([*translate, str(taken / "thesis.txt")], 2, "thesis.txt"),
        ([*translate, out, "--resume", "--force"], 2, "--force"),
        (["train", "translate", str(tmp_path / "absent.tsv"), "--out", out], 2, "absent.tsv"),
        (["train", "translate", str(bad), "--out", out], 1, "bad.tsv:2:"),
        (["train", "generate", str(tmp_path / "absent.txt"), "--out", out], 2, "absent.txt"),
        ([*generate, "--size", "hugge"], 2, "'hugge'"),
        ([*generate, "--context-length", "0"], 2, "context_length"),
        ([*generate, "--temperature", "-1"], 2, "temperature"),
        ([*generate, "--lora"], 2, "--from"),
        (["train", "fill", str(tmp_path / "absent.txt"), "--out", out], 2, "absent.txt"),
        ([*fill, "--size", "minni"], 2, "'mini'"),
        ([*fill, "--context-length", "5"], 2, "5"),
        ([*fill, "--window", "3"], 2, "window"),
        ([*fill, "--val-fraction", "2"], 2, "val_fraction"),
        (["train", "fill", "--out", out, "--validation", pairs], 2, "--validation"),
        ([*classify, "--freeze", "some"], 2, "--freeze"),
        ([*classify, "--freeze", "encoder"], 2, "--from"),
        ([*classify, "--from", str(tmp_path / "absent")], 2, "absent"),
        ([*answer, str(tmp_path / "absent.json")], 2, "absent.json"),
        ([*answer, pairs], 1, "pairs.tsv"),
        ([*answer, "--max-seq-len", "64", "--stride", "64"], 2, "stride"),
    ]
    results = without_torch(*(arguments for arguments, _, _ in mistakes))
    for (arguments, code, hint), done in zip(mistakes, results, strict=True):
        assert (done[0], done[1]) == (code, ""), (arguments, done)
        assert hint in done[2], (arguments, done)
    assert not Path(out).exists(), "a refused request leaves no folder"


FOLDER_VERBS = [
    *([task, "one"] for task in tasks if len(tasks[task].inputs) == 1),
    *([task, "one", "two", "three"] for task in tasks if len(tasks[task].inputs) > 1),
    ["evaluate", "pairs.tsv"],
    ["look", "one"],
    ["tokens", "one"],
    ["senses"],
    ["transfer"],
    ["export", "--out", "x"],
    ["import", "--out", "x"],
]


def test_paths_without_a_model_folder(pairs: str, tmp_path: Path) -> None:
    """A path without a folder has exit code 2, a folder without a model has exit code 1."""
    for folder in (str(tmp_path / "absent"), pairs):
        commands = [[verb, folder, *rest] for verb, *rest in FOLDER_VERBS]
        for command, (code, out, err) in zip(commands, without_torch(*commands), strict=True):
            assert (code, out) == (2, ""), (command, err)
            assert folder in err, command


def test_requests_that_no_model_can_serve(pairs: str, tmp_path: Path) -> None:
    """These requests are wrong for every model: the folder is not read."""
    model = tmp_path / "model"
    model.mkdir()
    empty, taken = tmp_path / "empty.txt", tmp_path / "taken.html"
    empty.touch()
    taken.touch()
    mistakes: list[tuple[str, list[str], int, str]] = [
        ("look", ["  "], 2, "INPUTS"),
        ("look", ["one", "--out", str(taken)], 2, "--force"),
        ("look", ["one", "--out", str(tmp_path / "look.pdf")], 2, ".html"),
        ("look", ["one", "--view", "stepps"], 2, "'steps'"),
        ("translate", ["one", "--num-beams", "0"], 2, "num_beams"),
        ("translate", ["one", "--n-best", "0"], 2, "n_best"),
        ("translate", ["one", "--n-best", "3", "--num-beams", "2"], 2, "num_beams"),
        ("translate", ["one", "--max-new-tokens", "0"], 2, "max_new_tokens"),
        ("translate", ["one", "--length-penalty", "99"], 2, "length_penalty"),
        ("translate", ["one", "--stream", "--json"], 2, "--stream"),
        ("translate", ["one", "--stream", "--max-new-tokens", "-1"], 2, "max_new_tokens"),
        ("translate", ["one", "--out", str(tmp_path / "x.pdf")], 2, ".csv"),
        ("translate", [str(tmp_path / "absent.txt")], 2, "absent.txt"),
        ("translate", [str(empty)], 1, "empty.txt"),
        ("suggest", ["one", "--precision", "int3"], 2, "--precision"),
        ("score", [str(tmp_path / "absent.txt")], 2, "absent.txt"),
        ("score", [str(empty)], 1, "empty.txt"),
        ("generate", ["one", "--temperature", "-1"], 2, "temperature"),
        ("generate", ["one", "--top-p", "1.5"], 2, "top_p"),
        ("generate", ["one", "--stop", ""], 2, "stop"),
        ("generate", ["one", "--num-beams", "-1"], 2, "num_beams"),
        ("generate", ["one", "--num-beams", "2", "--length-penalty", "99"], 2, "length_penalty"),
        ("classify", ["one", "--threshold", "2"], 2, "threshold"),
        ("classify", ["one", "--text-column", "a"], 2, "--text-column"),
        ("pair", ["one"], 2, "second"),
        ("evaluate", [], 2, "DATA"),
    ]
    commands = [[verb, str(model), *rest] for verb, rest, _, _ in mistakes]
    for command, (_, _, code, hint), done in zip(commands, mistakes, without_torch(*commands), strict=True):
        assert (done[0], done[1]) == (code, ""), (command[:4], done)
        assert hint in done[2], (command[:4], done)


def test_help_and_listings_need_no_torch() -> None:
    commands = [
        ["--help"],
        ["tasks", "--json"],
        ["models", "--json"],
        ["plan", "transformer-base"],
        *([verb, "--help"] for verb in (*VERBS, *tasks)),
        *(["train", task, "--help"] for task in tasks if tasks[task].trainable),
    ]
    for command, (code, out, err) in zip(commands, without_torch(*commands), strict=True):
        assert (code, err) == (0, ""), command
        assert out
