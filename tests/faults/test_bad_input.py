"""Bad input on the command line: errors with file, line and remedy, no traceback, and no file of the user lost.

Commands run in this process, where a bug is an exception that fails the test. The full disk is real where mounting
one is permitted, and simulated everywhere.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from regard.checkpoint.training_state import last_good_checkpoint
from regard.cli.main import main
from regard.tasks.translate.objective import TranslateObjective
from regard.training.callbacks import MetricsLog, read_metrics
from regard.training.trainer import Trainer

Regard = Callable[..., tuple[int, str, str]]
ResumedStep = Callable[[str], int | None]

GOOD = "one two\t2 1\nthree four\t4 3\n"


@pytest.fixture
def train(regard: Regard, small: list[str]) -> Callable[..., tuple[int, str, str]]:
    def run(*arguments: object) -> tuple[int, str, str]:
        return regard("train", "translate", *arguments, *small)

    return run


@pytest.fixture(scope="module")
def finished(pairs_file: Path, small: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of six steps with its last two checkpoints, to be copied and damaged."""
    run = tmp_path_factory.mktemp("finished") / "run"
    arguments = ["train", "translate", str(pairs_file), "--out", str(run), *small]
    assert main([*arguments, "--steps", "6", "--save-every", "1e-9"]) == 0
    assert {path.name for path in run.glob("checkpoint-*")} == {"checkpoint-5", "checkpoint-6"}
    return run


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "run"))


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# --- Data -----------------------------------------------------------------------------------------------------

BAD_TABLES = {  # name, content, line that is named
    "an empty line": ("pairs.tsv", GOOD.encode() + b"\nfive\t5\n", 3),
    "an empty side": ("pairs.tsv", GOOD.encode() + b"five\t\n", 3),
    "a short row": ("pairs.tsv", GOOD.encode() + b"five\n", 3),
    "a long row": ("pairs.tsv", GOOD.encode() + b"five\t5\t6\n", 3),
    "invalid UTF-8": ("pairs.tsv", GOOD.encode() + b"f\xffve\t5\n", 3),
    "a NUL byte": ("pairs.tsv", GOOD.encode() + b"fi\0ve\t5\n", 3),
    "a long line": ("pairs.tsv", GOOD.encode() + b"x" * 100_000 + b"\t5\n", 3),
    "broken JSON": ("pairs.jsonl", b'{"source": "a", "target": "b"}\n{"source": "a"\n', 2),
    "one example": ("pairs.tsv", b"one\t1\n", None),
    "nothing": ("pairs.tsv", b"", None),
    "one column": ("pairs.tsv", b"one\ntwo\n", None),
    "another encoding": ("pairs.tsv", "\ufeffone\t1\n".encode("utf-16"), None),
    "half an archive": ("pairs.tsv.gz", b"\x1f\x8b\x08\0\0", None),
}


@pytest.mark.parametrize("case", BAD_TABLES)
def test_a_bad_table(train: Regard, tmp_path: Path, case: str) -> None:
    name, data, line = BAD_TABLES[case]
    file = tmp_path / name
    file.write_bytes(data)
    code, out, err = train(file, "--out", tmp_path / "m", "--steps", 1)
    assert (code, out) == (1, "")
    assert (str(file) if line is None else f"{file}:{line}: ") in err
    assert ("--skip-bad-rows" in err) == (line is not None)
    assert len(err) < 1000, "a message, not the file"
    assert file.read_bytes() == data
    assert not (tmp_path / "m").exists(), "training must not start"


def test_bad_data_keeps_an_earlier_model_even_with_force(train: Regard, run: Path, tmp_path: Path) -> None:
    file = tmp_path / "bad.tsv"
    file.write_text(GOOD + "\nfive\t5\n", encoding="utf-8")
    before = contents(run)
    for flag in ("--force", "--resume"):
        code, _, err = train(file, "--out", run, "--steps", 9, flag)
        assert code == 1
        assert f"{file}:3" in err
        assert contents(run) == before


def test_line_counts_that_differ(train: Regard, tmp_path: Path) -> None:
    source, target = tmp_path / "train.en", tmp_path / "train.de"
    source.write_text("one\ntwo\nthree\n", encoding="utf-8")
    target.write_text("eins\nzwei\n", encoding="utf-8")
    code, out, err = train(source, target, "--out", tmp_path / "m", "--steps", 1)
    assert code == 1
    assert out == ""
    assert f"{source}:3: " in err and str(target) in err
    assert not (tmp_path / "m").exists()


def test_a_missing_column(train: Regard, tmp_path: Path) -> None:
    file = tmp_path / "pairs.csv"
    file.write_text("english,german\none,eins\ntwo,zwei\n", encoding="utf-8")
    code, out, err = train(file, "--out", tmp_path / "m", "--steps", 1, "--columns", "english", "french")
    assert code == 2
    assert out == ""
    assert str(file) in err
    assert "'french'" in err
    assert "german" in err, "the columns that are there help to find the right name"
    assert not (tmp_path / "m").exists()


def test_missing_files(train: Regard, tmp_path: Path) -> None:
    for file in (tmp_path / "absent.tsv", tmp_path, tmp_path / "pairs.xlsx"):
        code, out, err = train(file, "--out", tmp_path / "m", "--steps", 1)
        assert code == 2
        assert out == ""
        assert str(file) in err


def test_bad_rows_are_skipped_counted_and_listed(train: Regard, rows: list[tuple[str, str]], tmp_path: Path) -> None:
    lines = [f"{source}\t{target}" for source, target in rows[:50]]
    lines[4] = ""
    lines[9] = "no second column"
    file, validation = tmp_path / "pairs.tsv", tmp_path / "held.tsv"
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    validation.write_text(GOOD + "\tempty\n", encoding="utf-8")
    code, out, err = train(file, "--validation", validation, "--out", tmp_path / "m", "--steps", 1, "--skip-bad-rows")
    assert code == 0, err
    for place in (f"{file}:5: ", f"{file}:10: ", f"{validation}:3: "):
        assert place in err
    counts = re.search(r"data: (\d+)\D+(\d+)", err)
    assert counts is not None
    assert counts.groups() == ("48", "2"), "pairs for training and for validation"
    assert "model: " in out
    assert "skipped: 2 " in (tmp_path / "m" / "report.html").read_text(encoding="utf-8")


def test_many_bad_rows_are_all_counted_and_some_listed(train: Regard, tmp_path: Path) -> None:
    file = tmp_path / "pairs.tsv"
    file.write_text(GOOD + 30 * "\n" + GOOD, encoding="utf-8")
    code, _, err = train(file, "--out", tmp_path / "m", "--steps", 1, "--skip-bad-rows")
    assert code == 0
    assert "skipped: 30 " in err
    assert "… and 10 more" in err


# --- Names ----------------------------------------------------------------------------------------------------


def test_names_with_a_typo(regard: Regard, train: Regard, pairs_file: Path, tmp_path: Path) -> None:
    cases = [
        (("train", "translte", pairs_file), "'translate'"),
        (("train", "translate", pairs_file, "--out", tmp_path / "m", "--learning-rat", 1), "--learning-rate"),
        (("train", "translate", pairs_file, "--out", tmp_path / "m", "--size", "tny"), "'tiny'"),
    ]
    for arguments, hint in cases:
        code, out, err = regard(*arguments)
        assert code == 2
        assert out == ""
        assert hint in err
    assert not (tmp_path / "m").exists()


# --- Model folders --------------------------------------------------------------------------------------------

COMMANDS = [("translate", "one"), ("look", "one"), ("tokens", "one"), ("evaluate", "pairs.tsv"), ("export", "--out=x")]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_a_folder_that_is_not_a_model(regard: Regard, tmp_path: Path, command: tuple[str, str]) -> None:
    verb, argument = command
    notes = tmp_path / "folder" / "notes.txt"
    notes.parent.mkdir()
    notes.write_text("mine", encoding="utf-8")
    for folder, expected in ((notes.parent, 1), (tmp_path / "absent", 2), (notes, 2)):
        code, out, err = regard(verb, folder, argument)
        assert code == expected
        assert out == ""
        assert str(folder) in err
    assert notes.read_text(encoding="utf-8") == "mine"


def test_a_run_without_a_model_names_the_resume_flag(regard: Regard, run: Path) -> None:
    for name in ("model.safetensors", "config.json", "regard-manifest.json"):
        (run / name).unlink()
    code, _, err = regard("translate", run, "one")
    assert code == 1
    assert "--resume" in err


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json"])
@pytest.mark.parametrize("damage", ["truncated", "altered", "missing"])
def test_a_damaged_model_is_refused(regard: Regard, run: Path, name: str, damage: str) -> None:
    file = run / name
    data = file.read_bytes()
    if damage == "truncated":
        file.write_bytes(data[: len(data) // 2])
    elif damage == "altered":
        file.write_bytes(data[:-40] + bytes([data[-40] ^ 1]) + data[-39:])
    else:
        file.unlink()
    before = contents(run)
    code, out, err = regard("translate", run, "one")
    assert code == 1
    assert out == ""
    assert name in err
    assert str(run) in err
    assert contents(run) == before


def test_a_config_edited_by_hand(regard: Regard, run: Path) -> None:
    """Without a manifest, a folder is read unverified, and errors name the wrong setting."""
    (run / "regard-manifest.json").unlink()
    config = json.loads((run / "config.json").read_text(encoding="utf-8"))

    def with_model(**changes: object) -> dict[str, object]:
        return {**config, "model": {**config["model"], **changes}}

    cases: list[tuple[object, str]] = [
        (with_model(d_modle=24), "'d_model'"),
        (with_model(d_model=0), "d_model"),
        (with_model(d_model="wide"), "d_model"),
        (with_model(d_model=26), "weight"),
        ({name: value for name, value in config.items() if name != "model"}, "model"),
        ({**config, "model": 7}, "config.json"),
        ({**config, "inference": {"beems": 5}}, "'num_beams'"),
        ({"model_type": "t5"}, "'t5'"),
        ([], "JSON object"),
    ]
    for value, hint in cases:
        (run / "config.json").write_text(json.dumps(value), encoding="utf-8")
        code, out, err = regard("translate", run, "one")
        assert (code, out) == (1, ""), value
        assert hint in err and str(run) in err


# --- Checkpoints ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", ["truncated", "altered"])
def test_resume_falls_back_to_the_previous_checkpoint_with_a_message(
    train: Regard, pairs_file: Path, run: Path, finished: Path, resumed_step: ResumedStep, damage: str
) -> None:
    tensors = run / "checkpoint-6" / "tensors.safetensors"
    data = tensors.read_bytes()
    tensors.write_bytes(data[: len(data) // 2] if damage == "truncated" else data[:-9] + b"\0" + data[-8:])
    code, _, err = train(pairs_file, "--out", run, "--steps", 6, "--resume")
    assert code == 0, err
    assert "checkpoint-6" in err and "tensors.safetensors" in err
    assert resumed_step(err) == 5
    assert [row["step"] for row in read_metrics(run)] == [1, 2, 3, 4, 5, 6]
    for name in ("model.safetensors", "checkpoint-6/tensors.safetensors"):
        assert (run / name).read_bytes() == (finished / name).read_bytes()
    assert (run / "checkpoint-6.damaged").is_dir(), "the damaged one is kept under another name"


def test_resume_fails_if_every_checkpoint_is_damaged(train: Regard, pairs_file: Path, run: Path) -> None:
    for checkpoint in run.glob("checkpoint-*"):
        (checkpoint / "state.json").write_text("{}", encoding="utf-8")
    before = contents(run)
    code, _, err = train(pairs_file, "--out", run, "--steps", 9, "--resume")
    assert code == 1
    assert "--force" in err
    assert contents(run) == before


# --- Disks and folders ----------------------------------------------------------------------------------------


@contextlib.contextmanager
def small_disk(path: Path, size: str) -> Iterator[Path]:
    path.mkdir()
    mount = shutil.which("mount")
    done = subprocess.run(
        [mount or "false", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(path)], capture_output=True, check=False
    )
    if done.returncode != 0:
        pytest.skip("mounting a small file system needs an administrator; the same fault is simulated elsewhere")
    try:
        yield path
    finally:
        subprocess.run(["umount", "-l", str(path)], capture_output=True, check=True)


def check_full_disk(run: Path, code: int, out: str, err: str) -> None:
    assert code == 1
    assert out == ""
    assert "disk is full" in err and "--resume" in err
    checkpoint = last_good_checkpoint(run)
    assert checkpoint is not None
    assert checkpoint.skipped == []


def test_a_disk_that_fills_up_during_training(
    train: Regard, pairs_file: Path, finished: Path, resumed_step: ResumedStep, tmp_path: Path
) -> None:
    """The disk holds one and a half checkpoints. With more space, the resumed run ends with the same weights."""
    size = sum(len(data) for data in contents(finished / "checkpoint-6").values())
    with small_disk(tmp_path / "disk", f"{size * 3 // 2 // 1024 + 24}k") as disk:
        arguments = [pairs_file, "--out", disk / "run", "--steps", 6]
        check_full_disk(disk / "run", *train(*arguments, "--save-every", 1e-9))
        subprocess.run(["mount", "-o", "remount,size=4m", str(disk)], capture_output=True, check=True)
        code, _, err = train(*arguments, "--resume")
        assert code == 0, err
        assert resumed_step(err) == 1
        assert (disk / "run" / "model.safetensors").read_bytes() == (finished / "model.safetensors").read_bytes()


def fail_like_a_full_disk(*arguments: object) -> int:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_disk_that_is_full_when_a_checkpoint_is_written(
    train: Regard, pairs_file: Path, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Simulated, so that it runs everywhere. The earlier model also stays loadable."""
    before = (run / "model.safetensors").read_bytes()
    shutil.rmtree(run / "checkpoint-6")
    with monkeypatch.context() as patch:
        real = Trainer.save

        def save(self: Trainer) -> None:
            patch.setattr(os, "write", fail_like_a_full_disk)
            real(self)

        patch.setattr(Trainer, "save", save)
        said = train(pairs_file, "--out", run, "--steps", 6, "--resume")
    check_full_disk(run, *said)
    assert [path.name for path in run.glob("checkpoint-*")] == ["checkpoint-5"]
    assert (run / "model.safetensors").read_bytes() == before
    assert train(pairs_file, "--out", run, "--steps", 6, "--resume")[0] == 0
    assert (run / "model.safetensors").read_bytes() == before, "these are the same six steps"


def test_a_disk_that_is_full_when_the_model_is_written(
    train: Regard, pairs_file: Path, finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "m"
    with monkeypatch.context() as patch:
        real = TranslateObjective.evaluate

        def evaluate(self: TranslateObjective) -> object:
            patch.setattr(os, "write", fail_like_a_full_disk)
            return real(self)

        patch.setattr(TranslateObjective, "evaluate", evaluate)
        said = train(pairs_file, "--out", run, "--steps", 6)
    check_full_disk(run, *said)
    assert train(pairs_file, "--out", run, "--steps", 6, "--resume")[0] == 0
    assert (run / "model.safetensors").read_bytes() == (finished / "model.safetensors").read_bytes()


def test_a_disk_that_is_full_when_a_line_of_metrics_is_written(
    train: Regard, pairs_file: Path, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class FullFile:
        write = staticmethod(fail_like_a_full_disk)

        def close(self) -> None:
            pass

    shutil.rmtree(run / "checkpoint-6")
    with monkeypatch.context() as patch:
        real = MetricsLog.write

        def write(self: MetricsLog, row: dict[str, object]) -> None:
            self._file.close()
            self._file = FullFile()  # type: ignore[assignment]
            real(self, row)

        patch.setattr(MetricsLog, "write", write)
        said = train(pairs_file, "--out", run, "--steps", 6, "--resume")
    check_full_disk(run, *said)
    assert "metrics.jsonl" in said[2]
    assert train(pairs_file, "--out", run, "--steps", 6, "--resume")[0] == 0
    assert [row["step"] for row in read_metrics(run)] == [1, 2, 3, 4, 5, 6]


def test_a_read_only_output_folder(
    train: Regard, pairs_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Simulated for an administrator, whom permissions do not stop."""
    parent = tmp_path / "locked"
    parent.mkdir()
    notes = parent / "notes.txt"
    notes.write_text("mine", encoding="utf-8")
    parent.chmod(0o500)
    if os.access(parent, os.W_OK):
        real = os.mkdir

        def refused(path: object, *args: object, **options: object) -> None:
            if parent in Path(str(path)).parents:
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
            real(path, *args, **options)  # type: ignore[arg-type]

        monkeypatch.setattr(os, "mkdir", refused)
    code, out, err = train(pairs_file, "--out", parent / "m", "--steps", 1)
    parent.chmod(0o700)
    assert code == 1
    assert out == ""
    assert str(parent / "m") in err
    assert [path.name for path in parent.iterdir()] == ["notes.txt"]


def test_a_read_only_disk(train: Regard, regard: Regard, pairs_file: Path, run: Path, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "4m") as disk:
        shutil.copytree(run, disk / "run")
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], capture_output=True, check=True)
        for arguments in (["--out", disk / "new"], ["--out", disk / "run", "--resume"]):
            code, out, err = train(pairs_file, *arguments, "--steps", 9)
            assert code == 1
            assert out == ""
            assert str(disk) in err
        assert regard("translate", disk / "run", "one")[0] == 0, "reading needs no writing"
        code, out, err = regard("look", disk / "run", "one", "--out", disk / "look.html")
        assert code == 1
        assert out == ""
        assert "look.html" in err


def test_an_output_folder_with_other_files(train: Regard, pairs_file: Path, tmp_path: Path) -> None:
    theirs = tmp_path / "thesis"
    theirs.mkdir()
    (theirs / "thesis.tex").write_text("years of work", encoding="utf-8")
    for flags in ([], ["--force"], ["--resume"]):
        code, out, err = train(pairs_file, "--out", theirs, "--steps", 1, *flags)
        assert code == 2
        assert out == ""
        assert str(theirs) in err
    assert contents(theirs) == {"thesis.tex": b"years of work"}
    code, _, err = train(pairs_file, "--out", theirs / "thesis.tex", "--steps", 1)
    assert code == 2
    assert "thesis.tex" in err


# --- Ctrl-C ---------------------------------------------------------------------------------------------------


@pytest.mark.skipif(os.name == "nt", reason="this system sends no POSIX signals")
def test_ctrl_c_in_mid_step_and_while_scoring(
    regard: Regard,
    train: Regard,
    pairs_file: Path,
    finished: Path,
    resumed_step: ResumedStep,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = tmp_path / "m"
    arguments = [pairs_file, "--out", run, "--steps", 6]
    real = TranslateObjective.loss
    calls = itertools.count(1)

    def interrupted(self: TranslateObjective, indices: list[int]) -> object:
        if next(calls) == 2:
            os.kill(os.getpid(), signal.SIGINT)
        return real(self, indices)

    with monkeypatch.context() as patch:
        patch.setattr(TranslateObjective, "loss", interrupted)
        code, out, err = train(*arguments)
    assert code == 130
    assert out == ""
    assert "step 2" in err
    again = shlex.split(err.splitlines()[-1])
    assert again[:6] == ["regard", "train", "translate", str(pairs_file), "--out", str(run)]
    assert again[-1] == "--resume"

    def stopped(self: TranslateObjective) -> object:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(TranslateObjective, "evaluate", stopped)
        code, out, err = regard(*again[1:])
    assert code == 130
    assert resumed_step(err) == 2
    assert shlex.split(err.splitlines()[-1]) == again
    assert train(*arguments, "--resume")[0] == 0
    assert (run / "model.safetensors").read_bytes() == (finished / "model.safetensors").read_bytes()
