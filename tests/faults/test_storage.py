"""Storage under attack: killed at every step and at random, full and read-only disks, hostile files.

What must hold: once a first version was written there is always a good one, a torn one is never accepted, no
temporary outlives the next write, and no file of the user's is touched.

Kills are real. A child process is forked for every step and ends itself with SIGKILL's suddenness (`os._exit`
runs no cleaning up) right before the n-th call that changes the disk, or in the middle of it. The forking is
done by a fresh interpreter, because forking the test process with its threads is not safe.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import subprocess
import sys
import textwrap

import pytest
import torch

from regard.checkpoint.folder import read_model, write_model
from regard.checkpoint.output import output_folder
from regard.checkpoint.training_state import last_good_checkpoint, read_checkpoint, write_checkpoint
from regard.utils.atomic_files import is_temporary
from regard.utils.errors import FolderError, RegardError

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")

PREAMBLE = """
import os, shutil, sys
from pathlib import Path
import torch
from regard.utils.atomic_files import is_temporary
from regard.checkpoint.folder import read_model, write_model
from regard.checkpoint.training_state import last_good_checkpoint, write_checkpoint
from regard.utils.errors import FolderError

torch.set_num_threads(1)
os.fsync = lambda handle: None  # slow, and a kill loses nothing that has reached the kernel
CHANGES = ["open", "write", "fsync", "rename", "replace", "mkdir", "rmdir", "unlink"]


def tensors(version):
    return {"a": torch.full((101, 7), float(version)), "b": torch.arange(13) + version}


def is_version(found, version):
    return all(torch.equal(found[name], tensor) for name, tensor in tensors(version).items())


def die_at(step):
    '''Make the step-th call that changes the disk the last one; a write still gets half of its bytes out.'''
    calls = 0

    def wrap(name, real):
        def wrapped(*args, **options):
            nonlocal calls
            calls += 1
            if calls == step:
                if name == "write":
                    real(args[0], args[1][: len(args[1]) // 2])
                os._exit(9)
            return real(*args, **options)
        return wrapped

    for name in CHANGES:
        setattr(os, name, wrap(name, getattr(os, name)))


def killed_at(step, work):
    '''Run `work` in a child that is killed at its step-th change; False when it finished before.'''
    child = os.fork()
    if child == 0:
        try:
            die_at(step)
            work()
        except BaseException:
            import traceback
            traceback.print_exc()
            os._exit(3)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, 9), f"the child failed at step {step}"
    return code == 9


def leftovers(folder):
    return [path.name for path in folder.rglob("*") if is_temporary(path.name)]
"""


SERVER = (
    PREAMBLE
    + """
import json, traceback
for line in sys.stdin:
    body, folder = json.loads(line)
    receive, report = os.pipe()
    child = os.fork()
    if child == 0:
        said = "fine"
        try:
            exec(body, {**globals(), "base": Path(folder)})
        except BaseException:
            said = traceback.format_exc()
        os.write(report, said.encode())
        os._exit(0)
    os.close(report)
    with os.fdopen(receive, encoding="utf-8") as stream:
        print(json.dumps(stream.read()), flush=True)
    os.waitpid(child, 0)
"""
)


@pytest.fixture(scope="module")
def run_script():
    """Run code in a fork of one prepared interpreter, since importing torch each time takes seconds."""
    server = subprocess.Popen(
        [sys.executable, "-c", SERVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )

    def run(body, folder):
        server.stdin.write(json.dumps([textwrap.dedent(body), str(folder)]) + "\n")
        server.stdin.flush()
        said = json.loads(server.stdout.readline() or '"the interpreter ended"')
        assert said == "fine", said

    with server:
        yield run
        server.stdin.close()


@needs_fork
def test_replacing_a_model_is_safe_at_every_step(run_script, tmp_path):
    """The old model or the new one, never neither and never a mixture; the next write repairs everything."""
    run_script(
        """
        step = 0
        seen = []
        while True:
            step += 1
            folder = base / str(step)
            write_model(folder, config={"version": 1}, tensors=tensors(1), texts={"old.txt": "1", "t.json": "1"})
            (folder / "notes.txt").write_text("mine", encoding="utf-8")

            def replace(version, folder=folder):
                config = {"version": version}
                write_model(folder, config=config, tensors=tensors(version), texts={"t.json": "2"}, force=True)

            killed = killed_at(step, lambda: replace(2))
            back = read_model(folder)
            version = back.config["version"]
            assert version in (1, 2) and is_version(back.tensors, version), step
            assert back.text("t.json") == str(version), step
            seen.append(version)
            # The repair is killed at some step too, before it is allowed to finish.
            killed_at(1 + step % 23, lambda: replace(3))
            back = read_model(folder)
            assert is_version(back.tensors, back.config["version"]), step
            assert back.config["version"] >= version, step
            replace(4)
            assert read_model(folder).config == {"version": 4}
            names = {path.name for path in folder.iterdir()}
            expected = {"config.json", "model.safetensors", "t.json", "regard-manifest.json", "notes.txt"}
            assert names == expected, (step, names)
            shutil.rmtree(folder)
            if not killed:
                break
        assert step > 15 and seen == sorted(seen) and seen[0] == 1 and seen[-1] == 2, seen
        """,
        tmp_path,
    )


@needs_fork
def test_writing_a_first_model_is_all_or_nothing_at_every_step(run_script, tmp_path):
    run_script(
        """
        step = 0
        while True:
            step += 1
            folder = base / str(step)
            killed = killed_at(
                step, lambda: write_model(folder, config={}, tensors=tensors(1), texts={"t.json": "{}"})
            )
            try:
                assert is_version(read_model(folder).tensors, 1), step
                complete = True
            except FolderError as error:
                assert "not a model folder" in str(error) or "does not exist" in str(error), error
                complete = False
            write_model(folder, config={}, tensors=tensors(2), texts={}, force=complete)
            assert is_version(read_model(folder).tensors, 2)
            assert leftovers(folder) == []
            if not killed:
                break
        """,
        tmp_path,
    )


@needs_fork
def test_writing_a_checkpoint_is_safe_at_every_step(run_script, tmp_path):
    """With pruning, without, and replacing a good one of the same step: some good one is there at every moment."""
    run_script(
        """
        def attack(second, keep):
            step = 0
            seen = []
            while True:
                step += 1
                run = base / f"{second}-{keep}-{step}"
                write_checkpoint(run, 10, tensors=tensors(10), state={"version": 10}, keep=keep)
                killed = killed_at(
                    step,
                    lambda: write_checkpoint(run, second, tensors=tensors(77), state={"version": 77}, keep=keep),
                )
                back = last_good_checkpoint(run)
                version = back.state["version"]
                assert version in (10, 77) and is_version(back.tensors, version), step
                assert back.skipped == [], (step, back.skipped)
                seen.append(version)
                write_checkpoint(run, 30, tensors=tensors(30), state={"version": 30}, keep=1)
                assert [path.name for path in run.iterdir()] == ["checkpoint-30"], (step, list(run.iterdir()))
                shutil.rmtree(run)
                if not killed:
                    break
            assert step > 10 and seen == sorted(seen) and seen[0] == 10 and seen[-1] == 77, seen

        attack(second=20, keep=1)
        attack(second=20, keep=2)
        attack(second=10, keep=1)
        """,
        tmp_path,
    )


@needs_fork
def test_killed_at_random_moments_in_a_loop_of_writes(run_script, tmp_path):
    """Real SIGKILLs into a process that does nothing but write, each time resumed from what it left."""
    run_script(
        """
        import random, signal
        run, dice = base, random.Random(7)

        def write_for_ever(report):
            last = last_good_checkpoint(run)
            step = last.step if last else 0
            while True:
                step += 1
                noise = torch.full((211, 997), float(step))
                write_checkpoint(run, step, tensors={"a": noise}, state={"step": step})
                os.write(report, b"checkpoint %d " % step)
                if step % 3 == 0:
                    texts = {"t.json": str(step)}
                    write_model(run, config={"step": step}, tensors={"a": noise}, texts=texts, force=True)
                    os.write(report, b"model %d " % step)

        reached = {b"checkpoint": 0, b"model": 0}
        for _ in range(15):
            receive, report = os.pipe()
            child = os.fork()
            if child == 0:
                os.close(receive)
                write_for_ever(report)
            os.close(report)
            received = b""
            for _ in range(dice.randrange(6)):  # the kill comes right after a random number of reports
                received += os.read(receive, 100)
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            with os.fdopen(receive, "rb") as reports:
                words = (received + reports.read()).split()
            reached.update(zip(words[::2], map(int, words[1::2])))
            if reached[b"checkpoint"]:  # what was reported as written must be found again
                back = last_good_checkpoint(run)
                assert back.step >= reached[b"checkpoint"]
                assert back.skipped == []
                assert bool((back.tensors["a"] == back.step).all())
            if reached[b"model"]:
                model = read_model(run)
                assert model.config["step"] >= reached[b"model"]
                assert bool((model.tensors["a"] == model.config["step"]).all())
                assert model.text("t.json") == str(model.config["step"])
        write_checkpoint(run, 10**6, tensors={}, state={})
        assert leftovers(run) == []
        assert reached[b"model"] > 0
        """,
        tmp_path,
    )


# --- Disks ---------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def small_disk(path, size="1m"):
    """A real file system of this size at `path`; skips where mounting is not permitted."""
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


def remount_read_only(path):
    subprocess.run(["mount", "-o", "remount,ro", str(path)], capture_output=True, check=True)


def tensors(version, num=1000):
    return {"a": torch.full((num,), float(version))}


def test_a_full_disk_is_reported_and_the_last_checkpoint_survives(tmp_path):
    with small_disk(tmp_path / "disk") as disk:
        run = disk / "run"
        write_checkpoint(run, 1, tensors=tensors(1), state={})
        with pytest.raises(FolderError) as caught:
            write_checkpoint(run, 2, tensors=tensors(2, 1_000_000), state={})
        assert caught.value.path == run / "checkpoint-2"
        assert isinstance(caught.value.__cause__, OSError)
        assert caught.value.__cause__.errno == errno.ENOSPC
        for fact in ("4.0 MB", str(run / "checkpoint-1"), "--resume"):  # bytes needed, what is intact, what to do
            assert fact in str(caught.value)
        assert [path.name for path in run.iterdir()] == ["checkpoint-1"], "the temporary must be gone"
        assert last_good_checkpoint(run).step == 1
        write_checkpoint(run, 2, tensors=tensors(2), state={})
        assert last_good_checkpoint(run).step == 2


def test_a_full_disk_while_a_model_is_replaced(tmp_path):
    with small_disk(tmp_path / "disk") as disk:
        write_model(disk / "m", config={"v": 1}, tensors=tensors(1), texts={})
        with pytest.raises(FolderError):
            write_model(disk / "m", config={"v": 2}, tensors=tensors(2, 1_000_000), texts={}, force=True)
        assert read_model(disk / "m").config == {"v": 1}
        assert len(list((disk / "m").iterdir())) == 3
        with pytest.raises(FolderError):
            write_model(disk / "new" / "deep", config={}, tensors=tensors(2, 1_000_000), texts={})
        assert not (disk / "new").exists(), "folders made for a model that failed must go again"


def test_a_read_only_disk(tmp_path):
    with small_disk(tmp_path / "disk") as disk:
        write_checkpoint(disk / "run", 1, tensors=tensors(1), state={})
        write_model(disk / "run", config={"v": 1}, tensors=tensors(1), texts={})
        remount_read_only(disk)
        with pytest.raises(FolderError):
            write_checkpoint(disk / "run", 2, tensors=tensors(2), state={})
        with pytest.raises(FolderError):
            write_model(disk / "run", config={}, tensors={}, texts={}, force=True)
        for path in (disk / "new", disk / "run"):
            with (
                pytest.raises(FolderError),
                output_folder(path, resume=path.exists(), force=False),
            ):
                pytest.fail("nothing can be written here")
        assert last_good_checkpoint(disk / "run").step == 1, "reading needs no writing"
        assert read_model(disk / "run").config == {"v": 1}


@needs_fork
def test_an_interrupted_replacement_is_readable_on_a_read_only_disk(run_script, tmp_path):
    with small_disk(tmp_path / "disk") as disk:
        run_script(
            """
            folder = base / "m"
            write_model(folder, config={"v": 1}, tensors=tensors(1), texts={"t.json": "1"})
            def replace():
                write_model(folder, config={"v": 2}, tensors=tensors(2), texts={"t.json": "2"}, force=True)
            step = 1
            while not (folder / ".regard-commit" / "regard-manifest.json").exists():
                assert killed_at(step, replace)
                step += 1
            """,
            disk,
        )
        remount_read_only(disk)
        back = read_model(disk / "m")
        assert back.config == {"v": 2}
        assert back.text("t.json") == "2"


FAULTS = {
    "write": errno.ENOSPC,
    "fsync": errno.ENOSPC,
    "open": errno.EACCES,
    "mkdir": errno.EROFS,
    "rename": errno.EDQUOT,
}


@pytest.mark.parametrize("call", FAULTS)
@pytest.mark.parametrize("first", [1, 2, 3, 4, 5])
def test_any_failing_system_call_raises_a_folder_error_and_loses_nothing(tmp_path, monkeypatch, call, first):
    """Simulated, so that it runs everywhere: the n-th call of a kind and all after it fail."""
    write_checkpoint(tmp_path, 1, tensors=tensors(1), state={})
    write_model(tmp_path, config={"v": 1}, tensors=tensors(1), texts={})
    real = getattr(os, call)
    calls = 0

    def failing(*args, **options):
        nonlocal calls
        if call == "open" and not (args[1] & os.O_CREAT):
            return real(*args, **options)
        calls += 1
        if calls >= first:
            raise OSError(FAULTS[call], os.strerror(FAULTS[call]))
        return real(*args, **options)

    def attempts():
        yield lambda: write_checkpoint(tmp_path, 2, tensors=tensors(2), state={})
        yield lambda: write_model(tmp_path, config={"v": 2}, tensors=tensors(2), texts={}, force=True)

    for attempt in attempts():
        calls = 0
        with monkeypatch.context() as patch:
            patch.setattr(os, call, failing)
            try:
                attempt()
            except RegardError as error:
                assert "cannot write" in str(error)
            else:
                assert calls < first or call == "rename", "a failure must not be hidden"
    back = last_good_checkpoint(tmp_path)
    assert back.step in (1, 2) and bool((back.tensors["a"] == back.step).all())
    assert back.skipped == []
    model = read_model(tmp_path)
    assert bool((model.tensors["a"] == model.config["v"]).all())
    assert [path.name for path in tmp_path.iterdir() if is_temporary(path.name)] == []


# --- Hostile files -------------------------------------------------------------------------------------------


def test_no_file_of_a_model_can_run_code(tmp_path):
    """A pickle that would create a file, in every place where weights are looked for."""
    victim = tmp_path / "owned"
    pickle = f"cos\nmkdir\n(V{victim}\ntR.".encode()
    model, checkpoint = tmp_path / "m", tmp_path / "run"
    model.mkdir()
    (model / "config.json").write_text("{}", encoding="utf-8")
    (model / "model.safetensors").write_bytes(pickle)
    with pytest.raises(FolderError):
        read_model(model)
    (model / "model.safetensors").rename(model / "pytorch_model.bin")
    with pytest.raises(FolderError):
        read_model(model)
    path = write_checkpoint(checkpoint, 1, tensors=tensors(1), state={})
    for name in ("tensors.safetensors", "state.json"):
        (path / name).write_bytes(pickle)
        with pytest.raises(FolderError):
            read_checkpoint(path)
    assert not victim.exists()
