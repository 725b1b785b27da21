"""Questions about a model folder that need no torch."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import regard
from regard.checkpoint.probe import check_folder, d_model_of, task_of
from regard.models.bert.convert import CLASSES
from regard.registry import task_for_model
from regard.tasks.encoder.config import has_mlm_head
from regard.utils.errors import MissingFolderError

FOLDERS = sorted(path.parent for path in (Path(__file__).parents[1] / "fixtures" / "format1").glob("*/config.json"))


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_the_task_of_a_folder_is_that_of_its_predictor(folder: Path) -> None:
    predictor = regard.load(folder)
    assert task_of(folder) == predictor.spec.name
    assert d_model_of(folder) == predictor.model.config.d_model
    if hasattr(predictor, "head"):
        assert has_mlm_head(folder) is (predictor.head.kind in ("mlm", "pretraining"))


@pytest.mark.parametrize("kind", CLASSES)
def test_the_task_of_a_folder_of_transformers(kind: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"architectures": [CLASSES[kind]]}), encoding="utf-8")
    spec = task_for_model("bert", kind)
    assert spec is not None
    assert task_of(tmp_path) == spec.name


@pytest.mark.parametrize(
    "content",
    [None, "", "[]", "{}", '{"regard": 3}', '{"regard": {"format": 2}}', '{"architectures": []}', "{" * 10_000],
)
def test_folders_without_a_task(content: str | None, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "config.json").write_text(content, encoding="utf-8")
    assert (task_of(tmp_path), d_model_of(tmp_path), has_mlm_head(tmp_path)) == (None, None, None)


def test_paths_without_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    check_folder(tmp_path)
    for path in (tmp_path / "absent", tmp_path / "file"):
        with pytest.raises(MissingFolderError) as error:
            check_folder(path)
        assert (error.value.path, error.value.exit_code) == (path, 2)
