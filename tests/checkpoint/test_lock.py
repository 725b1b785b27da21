"""Only one process may write to a folder: a second one is refused while the first one runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from regard.checkpoint.output import LOCK, lock_folder, output_folder
from regard.utils.errors import UsageError

HOLDER = """
import sys
from pathlib import Path
from regard.checkpoint.output import lock_folder
with lock_folder(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def other(tmp_path: Path) -> subprocess.Popen[str]:
    """Another process that has locked the folder."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8"
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_a_second_writer_is_refused_until_the_first_is_killed(other: subprocess.Popen[str], tmp_path: Path) -> None:
    with (
        pytest.raises(UsageError),
        lock_folder(tmp_path),
    ):
        pytest.fail("two writers")
    other.kill()
    other.communicate()
    with lock_folder(tmp_path):
        assert (tmp_path / LOCK).exists()


@pytest.mark.parametrize("how", [dict(resume=True, force=False), dict(resume=False, force=True)])
def test_resume_and_force_refuse_a_locked_folder(
    how: dict[str, bool], other: subprocess.Popen[str], tmp_path: Path
) -> None:
    (tmp_path / ".regard-run").write_text("ours", encoding="utf-8")
    (tmp_path / "metrics.jsonl").write_text("{}\n", encoding="utf-8")
    with pytest.raises(UsageError), output_folder(tmp_path, **how):
        pytest.fail("two writers")
    assert (tmp_path / "metrics.jsonl").read_text(encoding="utf-8") == "{}\n"
    other.communicate("")
    with output_folder(tmp_path, **how):
        pass


def test_a_leftover_lock_file_locks_nothing_and_the_folder_counts_as_empty(tmp_path: Path) -> None:
    with output_folder(tmp_path, resume=False, force=False):
        pass
    assert (tmp_path / LOCK).exists(), "nothing was left behind"
    with output_folder(tmp_path, resume=False, force=False):  # a folder with a run in it would be refused
        assert sorted(entry.name for entry in tmp_path.iterdir()) == [LOCK, ".regard-run"]


def test_a_missing_folder_is_not_locked(tmp_path: Path) -> None:
    with lock_folder(tmp_path / "missing"):
        assert not (tmp_path / "missing").exists()
