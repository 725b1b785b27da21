"""`regard look` and `regard tokens`: pages, pictures and numbers."""

from __future__ import annotations

import json
import shutil
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import regard as library

Run = Callable[..., Any]
TEXT = "seven one four two"


def test_a_page_is_written_and_not_overwritten_without_force(regard: Run, model: Path, tmp_path: Path) -> None:
    page = tmp_path / "deep" / "look.html"
    said = regard("look", model, TEXT, "--out", page)
    assert said == (0, f"{page}\n", "")
    html = page.read_text(encoding="utf-8")
    assert TEXT in html
    assert "decoder.0.cross" in html
    page.write_text("mine", encoding="utf-8")
    refused = regard("look", model, TEXT, "--out", page)
    assert refused.code == 2
    assert "--force" in refused.err
    assert page.read_text(encoding="utf-8") == "mine"
    assert regard("look", model, TEXT, "--out", page, "--force").code == 0
    assert page.read_text(encoding="utf-8") == html


def test_an_output_that_was_cut_off_is_told(regard: Run, model: Path, tmp_path: Path) -> None:
    brief = shutil.copytree(model, tmp_path / "brief")
    (brief / "regard-manifest.json").unlink()  # the folder is changed on purpose
    config = json.loads((brief / "config.json").read_text(encoding="utf-8"))
    config["search"] |= {"max_new_tokens": 2, "beams": 1}
    (brief / "config.json").write_text(json.dumps(config), encoding="utf-8")
    page = tmp_path / "look.html"
    warning = f"cut off after 2 pieces: {TEXT!r}"
    said = regard("look", brief, TEXT, "--out", page)
    assert said.code == 0
    assert warning in said.err
    assert "(cut off after 2 pieces)" in page.read_text(encoding="utf-8")
    assert warning in regard("look", brief, TEXT, "--json").err
    assert warning in regard("look", brief, TEXT, "--json", "--steps", "decoder.0.cross").err
    assert regard("look", brief, TEXT, "--json", "--steps").err == "", "an encoder reads before anything is written"
    assert regard("look", brief, TEXT, "--json", "--target", "1 2 3 4").err == ""


def test_a_picture(regard: Run, model: Path, tmp_path: Path) -> None:
    picture = tmp_path / "look.svg"
    assert regard("look", model, TEXT, "--out", picture).code == 0
    assert ElementTree.parse(picture).getroot().tag.endswith("svg")


def test_json_holds_weights_whose_rows_sum_to_one(
    regard: Run, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    answer = json.loads(regard("look", model, TEXT, "--json").out)
    assert list(tmp_path.iterdir()) == [], "numbers were asked for, not a page"
    assert answer["target"] == library.load(model)(TEXT).text
    addresses = [one["address"] for one in answer["attention"]]
    assert addresses == ["encoder.0.self", "decoder.0.self", "decoder.0.cross"]
    for one in answer["attention"]:
        assert len(one["weights"]) == 2, "one matrix a head"
        for head in one["weights"]:
            assert len(head) == len(one["rows"])
            for row in head:
                assert len(row) == len(one["columns"])
                assert sum(row) == pytest.approx(1, abs=1e-5)
    causal = answer["attention"][1]["weights"][0]
    assert all(value == 0 for i, row in enumerate(causal) for value in row[i + 1 :])


def test_another_translation_can_be_looked_at(regard: Run, model: Path, tmp_path: Path) -> None:
    answer = json.loads(regard("look", model, TEXT, "--target", "9 9", "--json").out)
    assert answer["target"] == "9 9"
    assert answer["attention"][-1]["rows"][-2:] == ["▁9", "▁9"]


@pytest.mark.parametrize(
    ("address", "shown"),
    [([], "encoder.0.self"), (["encoder.0.self"], "encoder.0.self"), (["decoder.0.cross"], "decoder.0.cross")],
)
def test_m99_the_five_steps_of_one_attention(
    regard: Run, model: Path, tmp_path: Path, address: list[str], shown: str
) -> None:
    page = tmp_path / "steps.html"
    said = regard("look", model, TEXT, "--steps", *address, "--out", page)
    assert said == (0, f"{page}\n", "")
    html = page.read_text(encoding="utf-8")
    assert TEXT in html
    assert shown in html
    refused = regard("look", model, TEXT, "--out", page, "--steps", *address)
    assert refused.code == 2
    assert "--force" in refused.err
    assert regard("look", model, TEXT, "--out", tmp_path / "steps.svg", "--steps", *address).code == 0


def test_json_of_the_steps_holds_their_numbers(
    regard: Run, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    answer = json.loads(regard("look", model, TEXT, "--steps", "--json").out)
    assert list(tmp_path.iterdir()) == []
    assert (answer["source"], answer["address"]) == (TEXT, "encoder.0.self")
    tokens = len(answer["rows"])
    assert np.shape(answer["inputs"]) == np.shape(answer["output"]) == (tokens, 32)
    assert np.shape(answer["queries"]) == np.shape(answer["heads"]) == (2, tokens, 16)
    np.testing.assert_allclose(np.matmul(answer["weights"], answer["values"]), answer["heads"], atol=1e-5)
    whole = json.loads(regard("look", model, TEXT, "--json").out)["attention"][0]
    np.testing.assert_allclose(answer["weights"], whole["weights"], atol=1e-6)
    cross = json.loads(regard("look", model, TEXT, "--target", "9 9", "--steps", "decoder.0.cross", "--json").out)
    assert (cross["rows"][-2:], cross["columns"]) == (["▁9", "▁9"], answer["rows"])
    assert np.shape(cross["memory"]) == (tokens, 32)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["", "--json"], "no text to look at"),
        ([TEXT, "--out", "look.pdf"], ".html, .svg, .png"),
        ([TEXT, "--steps", "encoder.7.self"], "Known: decoder.0.cross, decoder.0.self, encoder.0.self"),
        ([TEXT, "--steps", "encoder.0.slef", "--json"], "Did you mean 'encoder.0.self'"),
        ([TEXT, "--steps", "encoder.0.self", "decoder.0.self"], "one attention, not 2"),
    ],
)
def test_wrong_use(
    regard: Run,
    model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    said = regard("look", model, *arguments)
    assert said.code == 2
    assert message in said.err
    assert said.out == ""


# --- tokens ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [TEXT, "seventeen  sevens!", "naïve café 東京 🙂", "x"])
def test_pieces_put_together_are_the_text(regard: Run, model: Path, text: str) -> None:
    answer = json.loads(regard("tokens", model, text, "--json").out)
    pieces = answer["pieces"]
    assert "".join(piece["text"] for piece in pieces) == text
    assert [text[piece["start"] : piece["end"]] for piece in pieces] == [piece["text"] for piece in pieces]
    tokenizer = library.load(model).vocabularies.source
    assert [piece["id"] for piece in pieces] == tokenizer.encode(text)


def test_pieces_of_an_altered_vocabulary_are_not_shown(regard: Run, model: Path, tmp_path: Path) -> None:
    altered = tmp_path / "m"
    shutil.copytree(model, altered)
    file = next(altered.glob("tokenizer*.json"))
    file.write_text(file.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    said = regard("tokens", altered, "one")
    assert said.code == 1
    assert "is damaged" in said.err


def test_ids_and_merges_are_shown(regard: Run, model: Path) -> None:
    said = regard("tokens", model, "seven")
    assert said.code == 0
    lines = said.out.splitlines()
    assert lines[0] == "seven"
    tokenizer = library.load(model).vocabularies.source
    ids = tokenizer.encode("seven")
    gap = lines.index("")
    assert [line.split() for line in lines[1:gap]] == [
        [str(i), token] for i, token in zip(ids, tokenizer.tokens(ids), strict=True)
    ]
    steps = [line.split() for line in lines[gap + 1 :]]
    assert steps[0] == ["▁", *"seven"], "merging begins with single characters"
    assert steps[-1] == tokenizer.tokens(ids)
    assert [len(step) for step in steps] == list(range(6, len(ids) - 1, -1)), "one merge a line"


def test_a_page_of_tokens(regard: Run, model: Path, tmp_path: Path) -> None:
    page = tmp_path / "tokens.html"
    assert regard("tokens", model, TEXT, "--out", page).code == 0
    assert "seven" in page.read_text(encoding="utf-8")
    refused = regard("tokens", model, TEXT, "--out", page)
    assert refused.code == 2
    assert "--force" in refused.err
    assert regard("tokens", model, TEXT, "--out", page, "--force").code == 0


def test_the_two_sides_have_their_own_pieces_where_vocabularies_are_separate(
    regard: Run, pairs_file: Path, small: list[str], tmp_path: Path
) -> None:
    run = tmp_path / "m"
    sides = ["--tokenizer", "word", "--separate-vocabularies", "True"]
    assert regard("train", "translate", pairs_file, "--out", run, *small, "--steps", 1, *sides).code == 0
    source, target = (
        json.loads(regard("tokens", run, "seven 7", "--side", side, "--json").out) for side in ("source", "target")
    )
    assert [piece["token"] for piece in source["pieces"]] == ["seven", "<unk>"]
    assert [piece["token"] for piece in target["pieces"]] == ["<unk>", "7"]
    assert source["merges"] is None
    assert regard("tokens", run, "seven").code == 0
