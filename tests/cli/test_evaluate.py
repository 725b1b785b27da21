"""`regard evaluate`: official scores with their signatures, on any kind of file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sacrebleu

import regard as library

Run = Callable[..., Any]
HELD = 40


@pytest.fixture(scope="module")
def table(rows: list[tuple[str, str]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("test") / "test.csv"
    path.write_text("de,en\n" + "".join(f"{t},{s}\n" for s, t in rows[:HELD]), encoding="utf-8")
    return path


def columns(table: Path) -> list[object]:
    return [table, "--columns", "en", "de"]


def test_scores_are_sacrebleus_own(regard: Run, model: Path, table: Path, rows: list[tuple[str, str]]) -> None:
    said = regard("evaluate", model, *columns(table), "--beams", 1, "--json")
    answers = {answer["name"]: answer for answer in json.loads(said.out)}
    outputs = [t.text for t in library.load(model)([source for source, _ in rows[:HELD]], beams=1)]
    references = [[target for _, target in rows[:HELD]]]
    assert answers["BLEU"]["value"] == pytest.approx(sacrebleu.corpus_bleu(outputs, references).score)
    assert answers["chrF"]["value"] == pytest.approx(sacrebleu.corpus_chrf(outputs, references).score)
    assert "tok:13a" in answers["BLEU"]["signature"]
    assert "version:" in answers["chrF"]["signature"]


def test_text_has_the_signatures_too(regard: Run, model: Path, table: Path) -> None:
    said = regard("evaluate", model, *columns(table))
    assert said.code == 0
    assert said.err == ""
    bleu, chrf = said.out.splitlines()
    assert bleu.startswith("BLEU ")
    assert "nrefs:1|case:mixed" in bleu
    assert chrf.startswith("chrF ")
    assert "nc:6" in chrf


def test_line_aligned_files(regard: Run, model: Path, table: Path, rows: list[tuple[str, str]], tmp_path: Path) -> None:
    sides = tmp_path / "test.words", tmp_path / "test.digits"
    for place, path in enumerate(sides):
        path.write_text("".join(f"{row[place]}\n" for row in rows[:HELD]), encoding="utf-8")
    assert regard("evaluate", model, *sides).out == regard("evaluate", model, *columns(table)).out
    turned = regard("evaluate", model, *reversed(sides), "--reverse")
    assert turned.out == regard("evaluate", model, *sides).out


def test_bad_rows_are_named_or_left_out_and_listed(regard: Run, model: Path, tmp_path: Path) -> None:
    path = tmp_path / "test.tsv"
    path.write_text("one\t1\n\ntwo three\t3 2\n", encoding="utf-8")
    said = regard("evaluate", model, path)
    assert said.code == 1
    assert f"{path}:2: empty line" in said.err
    assert "--skip-bad-rows" in said.err
    skipping = regard("evaluate", model, path, "--skip-bad-rows")
    assert skipping.code == 0
    assert "skipped: 1 bad row\n" in skipping.err
    assert f"{path}:2: empty line" in skipping.err


def test_columns_that_are_not_read_are_named(regard: Run, model: Path, tmp_path: Path) -> None:
    path = tmp_path / "test.tsv"
    path.write_text("one two\t2 1\tsomebody\nthree four\t4 3\tsomebody\n", encoding="utf-8")
    said = regard("evaluate", model, path)
    assert said.code == 0
    assert "columns: the first two of 3 in test.tsv are source and target" in said.err
    assert regard("evaluate", model, path, "--columns", 1, 2).err == ""


def test_a_file_is_needed(regard: Run, model: Path, tmp_path: Path) -> None:
    said = regard("evaluate", model)
    assert said.code == 2
    absent = regard("evaluate", model, tmp_path / "absent.tsv")
    assert absent.code == 2
    assert "does not exist" in absent.err
