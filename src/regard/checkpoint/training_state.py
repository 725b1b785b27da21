"""Checkpoints of a training run: `checkpoint-<step>/` with everything that exact resuming needs.

Each is a folder with `tensors.safetensors` (weights, optimizer), `state.json` (counters, data position,
settings) and a manifest, and appears whole or not at all. Older ones are pruned only after the new one is in
place. Damaged ones are passed over with a message and left for the user to look at. What the tensors and the
state mean is the training loop's business.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from regard.checkpoint.atomic_folders import SUCCESSOR, current_folder, put_folder, settle_folder, staged_folder
from regard.checkpoint.manifest import MANIFEST, problems, read_manifest
from regard.checkpoint.tensors import read_tensors, tensors_content
from regard.utils.atomic_files import content_of, remove, storage_errors, temporary_name
from regard.utils.errors import FolderError

TENSORS = "tensors.safetensors"
STATE = "state.json"

_NAME = re.compile(r"checkpoint-(\d+)(?:" + re.escape(SUCCESSOR) + ")?")
_SCANS = 5  # how often the search starts again because another process pruned what it was reading


@dataclass(frozen=True)
class Checkpoint:
    """A verified checkpoint; `skipped` says which newer ones were damaged, one message each."""

    step: int
    tensors: dict[str, torch.Tensor]
    state: dict[str, Any]
    path: Path
    skipped: list[str] = field(default_factory=list)


def write_checkpoint(
    run: Path, step: int, *, tensors: Mapping[str, torch.Tensor], state: Mapping[str, Any], keep: int = 2
) -> Path:
    """Write `checkpoint-<step>` into the run folder atomically, then prune all but the newest `keep`.

    `state` must consist of what JSON returns unchanged: dictionaries with text keys, lists, text, numbers,
    booleans and None. A checkpoint of the same step is replaced; if it was damaged it is kept under another name.
    Those of later steps are never touched.
    """
    if step < 0 or keep < 1:
        raise ValueError(f"step must be at least 0 and keep at least 1; got step={step}, keep={keep}")
    run = Path(run)
    target = run / f"checkpoint-{step}"
    contents = {
        STATE: content_of(_state_text(step, state)),
        TENSORS: tensors_content(tensors),
    }
    num_bytes = sum(content.num_bytes for content in contents.values())
    with storage_errors(target, num_bytes, _what_is_intact(run)):
        run.mkdir(parents=True, exist_ok=True)
        for unsettled in run.glob(f"checkpoint-*{SUCCESSOR}"):
            settle_folder(unsettled.with_name(unsettled.name.removesuffix(SUCCESSOR)))
        with staged_folder(run, contents) as staged:
            _set_aside_if_damaged(target)
            put_folder(staged, target)
    with contextlib.suppress(OSError):  # the new one is safe; an old one too many does no harm
        _prune(run, step, keep)
    return target


def last_good_checkpoint(run: Path) -> Checkpoint | None:
    """The newest checkpoint that verifies, or None if the run has none yet.

    When there are checkpoints and every one of them is damaged, that is an error: starting again from nothing
    must be the user's decision.
    """
    run = Path(run)
    for _ in range(_SCANS):
        skipped: list[str] = []
        vanished = False
        for _step, path in _existing(run):
            try:
                return replace(read_checkpoint(path), skipped=skipped)
            except FolderError as error:
                vanished = vanished or not path.exists()
                skipped.append(str(error))
        if not vanished:
            break
    if skipped:
        raise FolderError(
            f"every checkpoint in {run} is damaged. {' '.join(skipped)} Restore one of them from a copy, or start "
            "again with --force.",
            path=run,
        )
    return None


def read_checkpoint(path: Path) -> Checkpoint:
    """Read and verify one checkpoint folder."""
    path = Path(path)
    if found := _problems(path, thorough=True):
        raise FolderError(f"{path} is damaged and cannot be used: {'; '.join(found)}.", path=path)
    try:
        record = json.loads((path / STATE).read_text(encoding="ascii"))
        step, state = int(record["step"]), dict(record["state"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise FolderError(
            f"{path} is damaged and cannot be used: {STATE} is not readable ({error}).", path=path
        ) from error
    return Checkpoint(step=step, tensors=read_tensors(path / TENSORS), state=state, path=path)


def _existing(run: Path) -> Iterator[tuple[int, Path]]:
    """Steps and folders of all checkpoints, newest first; of a half-replaced one the valid folder."""
    try:
        names = [entry.name for entry in run.iterdir()]
    except (FileNotFoundError, NotADirectoryError):
        return
    steps = {int(match[1]): run / f"checkpoint-{match[1]}" for match in map(_NAME.fullmatch, names) if match}
    for step in sorted(steps, reverse=True):
        folder = current_folder(steps[step])
        if folder.is_dir():
            yield step, folder


def _problems(path: Path, *, thorough: bool) -> list[str]:
    if not path.is_dir():
        return ["there is no such folder"]
    try:
        manifest = read_manifest(path / MANIFEST)
    except FileNotFoundError:
        return [f"{MANIFEST} is missing"]
    except (OSError, FolderError) as error:
        return [str(error)]
    if absent := {TENSORS, STATE} - set(manifest.files):
        return [f"{MANIFEST} lists no {' and no '.join(sorted(absent))}"]
    return problems(manifest, lambda name: path / name, manifest.files, thorough=thorough)


def _set_aside_if_damaged(target: Path) -> None:
    if not target.exists() or not _problems(target, thorough=True):
        return
    aside = target.with_name(f"{target.name}.damaged")
    number = 1
    while aside.exists():
        number += 1
        aside = target.with_name(f"{target.name}.damaged-{number}")
    target.rename(aside)


def _prune(run: Path, step: int, keep: int) -> None:
    """Remove good checkpoints older than `step` until `keep` are left; damaged ones neither count nor go."""
    older = [path for other, path in _existing(run) if other < step and not _problems(path, thorough=False)]
    for path in older[keep - 1 :]:
        # Renamed first, so that a kill in the middle of removing leaves a temporary and no torn checkpoint.
        discarded = run / temporary_name()
        path.rename(discarded)
        remove(discarded)


def _what_is_intact(run: Path) -> str:
    for _step, path in _existing(run):
        if not _problems(path, thorough=False):
            return f"The last good checkpoint, {path}, is intact: go on from it with --resume."
    return "No earlier checkpoint exists in this run."


def _state_text(step: int, state: Mapping[str, Any]) -> str:
    _check_json(dict(state), "state")
    return json.dumps({"step": step, "state": dict(state)}) + "\n"


def _check_json(value: object, where: str) -> None:
    """Refuse what JSON would change silently: tuples become lists, number keys become text."""
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise TypeError(f"{where} has the key {key!r}: only text comes back from JSON as it went")
            _check_json(item, f"{where}[{key!r}]")
    elif isinstance(value, list):
        for number, item in enumerate(value):
            _check_json(item, f"{where}[{number}]")
    elif not (value is None or isinstance(value, str | int | float)):
        raise TypeError(f"{where} is a {type(value).__name__}, which does not come back from JSON as it went")
