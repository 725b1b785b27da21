"""Atomic files: temporaries of dead processes are removed, and system errors become readable."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time

import pytest

from regard.utils import atomic_files
from regard.utils.atomic_files import (
    content_of,
    is_temporary,
    readable_size,
    storage_errors,
    sweep,
    temporary_name,
    write_file,
    write_synced,
)
from regard.utils.errors import FolderError


def dead_pid():
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def temporary(folder, *, machine=None, pid=None, word="0123abcd", age=0.0):
    machine = machine or temporary_name().split("-")[2]
    path = folder / f".regard-tmp-{machine}-{pid or os.getpid()}-{word}-0"
    path.mkdir()
    (path / "half").write_bytes(b"x")
    for entry in (path / "half", path):
        os.utime(entry, (time.time() - age,) * 2)
    return path


def test_a_file_is_written_and_replaced(tmp_path):
    write_file(tmp_path / "a", "première")
    assert (tmp_path / "a").read_bytes() == "première".encode()
    write_file(tmp_path / "a", b"second")
    assert (tmp_path / "a").read_bytes() == b"second"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_folders_are_created_only_on_request(tmp_path):
    path = tmp_path / "new" / "folder" / "a"
    with pytest.raises(FolderError) as caught:
        write_file(path, "x")
    assert caught.value.path == path
    assert list(tmp_path.iterdir()) == []
    write_file(path, "x", parents=True)
    assert path.read_text(encoding="utf-8") == "x"


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    write_file(tmp_path / "a", "first")

    def full(handle, data):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(FolderError):
        write_file(tmp_path / "a", "second")
    assert (tmp_path / "a").read_text(encoding="utf-8") == "first"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_short_writes_are_continued(tmp_path, monkeypatch):
    real = os.write
    monkeypatch.setattr(os, "write", lambda handle, data: real(handle, data[:3]))
    record = write_synced(tmp_path / "a", content_of("seventeen letters"))
    assert (tmp_path / "a").read_text(encoding="utf-8") == "seventeen letters"
    assert record.num_bytes == 17


def test_an_existing_file_is_never_written_into(tmp_path):
    (tmp_path / "a").write_text("mine", encoding="utf-8")
    with pytest.raises(FileExistsError):
        write_synced(tmp_path / "a", content_of("x"))
    assert (tmp_path / "a").read_text(encoding="utf-8") == "mine"


# --- Temporaries ---------------------------------------------------------------------------------------------


def test_temporary_names_are_unique_and_recognized():
    names = {temporary_name() for _ in range(100)}
    assert len(names) == 100
    assert all(map(is_temporary, names))
    assert not is_temporary(".regard-tmp-notes")
    assert not is_temporary("checkpoint-3")


def test_leftovers_of_dead_processes_are_swept(tmp_path):
    leftover = temporary(tmp_path, pid=dead_pid())
    assert sweep(tmp_path) == [leftover]
    assert list(tmp_path.iterdir()) == []


def test_leftovers_of_an_earlier_process_with_our_number_are_swept(tmp_path):
    """In a container, a training often has the same process id every time."""
    assert sweep(tmp_path) == []
    leftover = temporary(tmp_path, pid=os.getpid())
    assert sweep(tmp_path) == [leftover]


def test_temporaries_of_living_processes_stay(tmp_path):
    (tmp_path / temporary_name()).mkdir()
    temporary(tmp_path, pid=os.getppid())
    assert sweep(tmp_path) == []
    assert len(list(tmp_path.iterdir())) == 2


def test_age_decides_for_other_machines_and_reused_process_ids(tmp_path):
    young = temporary(tmp_path, machine="00000000", pid=1, age=3600)
    old = temporary(tmp_path, machine="11111111", pid=1, age=atomic_files.STALE_SECONDS + 60)
    reused = temporary(tmp_path, pid=os.getppid(), age=atomic_files.STALE_SECONDS + 60)
    assert set(sweep(tmp_path)) == {old, reused}
    assert young.exists()


def test_an_old_folder_with_a_fresh_file_is_in_use(tmp_path):
    busy = temporary(tmp_path, machine="00000000", pid=1, age=atomic_files.STALE_SECONDS + 60)
    os.utime(busy / "half")
    assert sweep(tmp_path) == []


def test_names_that_only_resemble_temporaries_are_never_swept(tmp_path):
    for name in (".regard-tmp-", ".regard-tmp-notes.txt", ".regard-tmp-zzzzzzzz-1-01234567-0"):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (0, 0))
    assert sweep(tmp_path) == []
    assert sweep(tmp_path / "nowhere") == []


def test_a_link_is_removed_and_not_followed(tmp_path):
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").touch()
    machine = temporary_name().split("-")[2]
    link = tmp_path / f".regard-tmp-{machine}-{dead_pid()}-01234567-0"
    link.symlink_to(tmp_path / "precious")
    assert sweep(tmp_path) == [link]
    assert (tmp_path / "precious" / "file").exists()


# --- Words ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO])
def test_errors_of_the_system_name_the_path_and_keep_the_reassurance(tmp_path, number):
    path = tmp_path / "not" / "there"
    with pytest.raises(FolderError) as caught, storage_errors(path, 36_300_000, "All is well."):
        raise OSError(number, os.strerror(number))
    assert caught.value.path == path
    if number in (errno.ENOSPC, errno.EDQUOT):
        assert "36.3 MB" in str(caught.value), "the space that was needed"
    assert str(caught.value).endswith("All is well.")


@pytest.mark.parametrize(
    ("num_bytes", "words"),
    [
        (0, "0 bytes"),
        (999, "999 bytes"),
        (1000, "1.0 kB"),
        (36_312_345, "36.3 MB"),
        (2.5e9, "2.5 GB"),
        (7e15, "7,000.0 TB"),
    ],
)
def test_sizes_in_words(num_bytes, words):
    assert readable_size(num_bytes) == words
