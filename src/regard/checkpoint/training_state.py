"""Checkpoints of a training run: `checkpoint-<step>/` with everything that is needed to resume exactly.

A checkpoint is a folder with `tensors.safetensors` (weights, optimizer), `state.json` (counters, data position,
settings) and a manifest, written atomically. Old checkpoints are removed after the new one is in place.
Damaged checkpoints are skipped with a message, but not deleted. The training loop defines the tensors and the state.

Older versions of regard replaced a checkpoint by way of `checkpoint-<step>.new`: if they were killed in between, this
folder is complete and newer than `checkpoint-<step>`.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from regard.checkpoint.atomic_folders import (
    MANIFEST,
    discard_folder,
    find_damage,
    locate,
    put_folder,
    read_consistent,
    read_manifest,
    staged_folder,
)
from regard.checkpoint.folder import read_tensors, tensors_content
from regard.utils.atomic_files import content_of, storage_errors
from regard.utils.errors import FolderError

TENSORS = "tensors.safetensors"
STATE = "state.json"

_SUCCESSOR = ".new"
_NAME = re.compile(rf"checkpoint-(\d+)(?:{re.escape(_SUCCESSOR)})?")
_ATTEMPTS = 5  # maximum number of searches, if another process removes checkpoints during each search


@dataclass(frozen=True)
class Checkpoint:
    """A verified checkpoint; `skipped` has one message for each newer checkpoint that is damaged."""

    step: int
    tensors: dict[str, torch.Tensor]
    state: dict[str, Any]
    path: Path
    skipped: list[str] = field(default_factory=list)


def write_checkpoint(
    run: Path, step: int, *, tensors: Mapping[str, torch.Tensor], state: Mapping[str, Any], keep: int = 2
) -> Path:
    """Write `checkpoint-<step>` into the run folder atomically, then remove all but the newest `keep`.

    `state` must be plain JSON: dictionaries with string keys, lists, strings, numbers, booleans and None. An existing
    checkpoint of this step is replaced, or renamed if it is damaged. Checkpoints of later steps stay unchanged.
    """
    if step < 0 or keep < 1:
        raise ValueError(f"step must be at least 0 and keep at least 1; got step={step}, keep={keep}")
    _check_json(dict(state), "state")
    run = Path(run)
    target = run / f"checkpoint-{step}"
    state_text = json.dumps({"step": step, "state": dict(state)}) + "\n"
    contents = {STATE: content_of(state_text), TENSORS: tensors_content(tensors)}
    num_bytes = sum(content.num_bytes for content in contents.values())
    with storage_errors(target, num_bytes, _reassurance(run)):
        run.mkdir(parents=True, exist_ok=True)
        with staged_folder(run, contents) as staged:
            successor = run / (target.name + _SUCCESSOR)
            for existing in (target, successor):
                _set_aside_if_damaged(existing)
            put_folder(staged, target)
            if successor.is_dir():
                discard_folder(successor)
    with contextlib.suppress(OSError):  # the new checkpoint is safe; an extra old one does no harm
        _prune(run, step, keep)
    return target


def last_good_checkpoint(run: Path) -> Checkpoint | None:
    """Return the newest checkpoint that passes verification, or None if the run has no checkpoint yet.

    Raise if all checkpoints are damaged, so that the user decides whether to start again.
    """
    run = Path(run)
    for _ in range(_ATTEMPTS):
        skipped: list[str] = []
        is_pruned = False
        for _step, path in _checkpoints(run):
            try:
                return replace(read_checkpoint(path), skipped=skipped)
            except FolderError as error:
                is_pruned = is_pruned or not path.exists()
                skipped.append(str(error))
        if not is_pruned:
            break
    if skipped:
        advice = "Restore one of them from a copy, or start again with --force."
        raise FolderError(f"every checkpoint in {run} is damaged. {' '.join(skipped)} {advice}", path=run)
    return None


def read_checkpoint(path: Path) -> Checkpoint:
    """Read and verify one checkpoint folder."""
    return read_consistent(Path(path), _read_checkpoint)


def _read_checkpoint(path: Path) -> Checkpoint:
    if damage := _find_damage(path):
        raise FolderError(f"{path} is damaged: {'; '.join(damage)}.", path=path)
    file = locate(path, STATE)
    try:
        record = json.loads(file.read_text(encoding="ascii"))
        step, state = int(record["step"]), dict(record["state"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise FolderError(f"{file} cannot be read ({error}).", path=file) from error
    return Checkpoint(step=step, tensors=read_tensors(locate(path, TENSORS)), state=state, path=path)


def _checkpoints(run: Path) -> Iterator[tuple[int, Path]]:
    """Yield the steps and folders of all checkpoints, newest first."""
    names = [entry.name for entry in run.iterdir()] if run.is_dir() else []
    for step in sorted({int(match[1]) for match in map(_NAME.fullmatch, names) if match}, reverse=True):
        for suffix in (_SUCCESSOR, ""):
            folder = run / f"checkpoint-{step}{suffix}"
            if folder.is_dir():
                yield step, folder


def _find_damage(path: Path, *, sizes_only: bool = False) -> list[str]:
    if not path.is_dir():
        return ["there is no such folder"]
    try:
        manifest = read_manifest(locate(path, MANIFEST))
    except FileNotFoundError:
        return [f"{MANIFEST} is missing"]
    except (OSError, FolderError) as error:
        return [str(error)]
    if missing := {TENSORS, STATE} - set(manifest):
        return [f"{MANIFEST} does not list {' and '.join(sorted(missing))}"]
    return find_damage(path, manifest, sizes_only=sizes_only)


def _set_aside_if_damaged(target: Path) -> None:
    if target.exists() and _find_damage(target):
        suffixes = itertools.chain([""], (f"-{number}" for number in itertools.count(2)))
        names = (target.with_name(f"{target.name}.damaged{suffix}") for suffix in suffixes)
        target.rename(next(name for name in names if not name.exists()))


def _prune(run: Path, step: int, keep: int) -> None:
    """Remove good checkpoints older than `step` until `keep` are left; damaged ones are neither counted nor removed."""
    older = [path for other, path in _checkpoints(run) if other < step and not _find_damage(path, sizes_only=True)]
    for path in older[keep - 1 :]:
        discard_folder(path)


def _reassurance(run: Path) -> str:
    for _step, path in _checkpoints(run):
        if not _find_damage(path, sizes_only=True):
            return f"The last good checkpoint, {path}, is intact: resume from it with --resume."
    return "This run has no earlier checkpoint."


def _check_json(value: object, name: str) -> None:
    """Raise for values that JSON would silently change: tuples become lists, and numeric keys become strings."""
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise TypeError(f"the keys of {name} must be strings, got {key!r}")
            _check_json(item, f"{name}[{key!r}]")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _check_json(item, f"{name}[{index}]")
    elif not (value is None or isinstance(value, str | int | float)):
        raise TypeError(f"{name} must be a JSON value, got a {type(value).__name__}")
