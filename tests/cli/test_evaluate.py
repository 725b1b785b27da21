"""`regard evaluate`: official scores with their signatures, on any kind of file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sacrebleu

import regard as library
from regard.checkpoint import predictors

Run = Callable[..., Any]
NUM_ROWS = 40


@pytest.fixture(scope="module")
def table(rows: list[tuple[str, str]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("test") / "test.csv"
    path.write_text("de,en\n" + "".join(f"{t},{s}\n" for s, t in rows[:NUM_ROWS]), encoding="utf-8")
    return path


def columns(table: Path) -> list[object]:
    return [table, "--columns", "en", "de"]


def test_scores_are_those_of_sacrebleu(regard: Run, model: Path, table: Path, rows: list[tuple[str, str]]) -> None:
    done = regard("evaluate", model, *columns(table), "--num-beams", 1, "--json")
    scores = {score["name"]: score for score in json.loads(done.out)}
    outputs = [t.text for t in library.load(model)([source for source, _ in rows[:NUM_ROWS]], num_beams=1)]
    references = [[target for _, target in rows[:NUM_ROWS]]]
    assert scores["BLEU"]["value"] == pytest.approx(sacrebleu.corpus_bleu(outputs, references).score)
    assert scores["chrF"]["value"] == pytest.approx(sacrebleu.corpus_chrf(outputs, references).score)
    assert "tok:13a" in scores["BLEU"]["signature"]
    assert "version:" in scores["chrF"]["signature"]


def test_text_output_has_the_signatures(regard: Run, model: Path, table: Path) -> None:
    done = regard("evaluate", model, *columns(table))
    assert (done.code, done.err) == (0, "")
    bleu, chrf = done.out.splitlines()
    assert bleu.startswith("BLEU ") and "nrefs:1|case:mixed" in bleu
    assert chrf.startswith("chrF ") and "nc:6" in chrf


def test_a_model_is_loaded_once(regard: Run, model: Path, table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Path] = []
    open_folder = predictors.open_folder

    def counting(path: Path) -> Any:
        opened.append(path)
        return open_folder(path)

    monkeypatch.setattr(predictors, "open_folder", counting)
    assert regard("evaluate", model, *columns(table)).code == 0
    assert opened == [model]


def test_line_aligned_files(regard: Run, model: Path, table: Path, rows: list[tuple[str, str]], tmp_path: Path) -> None:
    sides = tmp_path / "test.words", tmp_path / "test.digits"
    for place, path in enumerate(sides):
        path.write_text("".join(f"{row[place]}\n" for row in rows[:NUM_ROWS]), encoding="utf-8")
    expected = regard("evaluate", model, *columns(table)).out
    assert regard("evaluate", model, *sides).out == expected
    assert regard("evaluate", model, *reversed(sides), "--reverse").out == expected


def test_bad_rows_are_named_or_skipped_and_listed(regard: Run, model: Path, tmp_path: Path) -> None:
    path = tmp_path / "test.tsv"
    path.write_text("one\t1\n\ntwo three\t3 2\n", encoding="utf-8")
    done = regard("evaluate", model, path)
    assert (done.code, done.out) == (1, "")
    assert f"{path}:2:" in done.err and "--skip-bad-rows" in done.err
    skipping = regard("evaluate", model, path, "--skip-bad-rows")
    assert (skipping.code, f"{path}:2:" in skipping.err) == (0, True)


def test_columns_that_are_not_read_are_named(regard: Run, model: Path, tmp_path: Path) -> None:
    path = tmp_path / "test.tsv"
    path.write_text("one two\t2 1\tme\nthree four\t4 3\tme\n", encoding="utf-8")
    done = regard("evaluate", model, path)
    assert (done.code, done.err.startswith("columns: ")) == (0, True)
    assert regard("evaluate", model, path, "--columns", 1, 2).err == ""


def test_wrong_requests(regard: Run, model: Path, table: Path, tmp_path: Path) -> None:
    for arguments in (
        [model],
        [model, tmp_path / "absent.tsv"],
        [tmp_path / "absent", table],
        [model, table, "--columns", "en", "fr"],
        [model, table, "--task", "classify"],
        [model, table, "--task", "clasify"],
        [model, *columns(table), "--threshold", 0.5],
        [model, *columns(table), "--num-beams", "many"],
        [model, *columns(table), "--confusion"],
    ):
        done = regard("evaluate", *arguments)
        assert (done.code, done.out) == (2, ""), (arguments, done.err)


def test_help_shows_the_options_of_the_task_of_the_model(regard: Run, model: Path) -> None:
    shown = regard("evaluate", model, "--help").out
    assert "--num-beams" in shown and "--reverse" in shown
    assert "--threshold" in regard("evaluate", model, "--task", "classify", "--help").out
    assert "--num-beams" not in regard("evaluate", "--help").out
