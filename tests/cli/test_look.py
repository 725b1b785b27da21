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
from regard.checkpoint.probe import task_of
from regard.registry import tasks, views

Run = Callable[..., Any]
TEXT = "seven one four two"
# Small models of every task, which an earlier version wrote.
FOLDERS = sorted(path.parent for path in (Path(__file__).parents[1] / "fixtures" / "format1").glob("*/config.json"))


def test_a_page_is_written_and_not_replaced_without_force(regard: Run, model: Path, tmp_path: Path) -> None:
    page = tmp_path / "deep" / "look.html"
    done = regard("look", model, TEXT, "--out", page)
    assert done == (0, f"{page}\n", "")
    html = page.read_text(encoding="utf-8")
    assert TEXT in html
    assert "decoder.0.cross" in html
    page.write_text("mine", encoding="utf-8")
    refused = regard("look", model, TEXT, "--out", page)
    assert (refused.code, "--force" in refused.err) == (2, True)
    assert page.read_text(encoding="utf-8") == "mine"
    assert regard("look", model, TEXT, "--out", page, "--force").code == 0
    assert page.read_text(encoding="utf-8") == html


@pytest.mark.parametrize(
    ("verb", "name", "options"),
    [
        ("look", "a.html", []), ("look", "a.svg", []), ("look", "a.csv", []), ("look", "a.npy", []),
        ("translate", "a.csv", []), ("translate", "a.html", []), ("tokens", "a.html", []),
        ("tokens", "a.csv", ["--frequency"]),
    ],
)  # fmt: skip
def test_missing_folders_of_out_are_created(
    regard: Run, model: Path, tmp_path: Path, verb: str, name: str, options: list[str]
) -> None:
    (tmp_path / "texts.txt").write_text(TEXT + "\n", encoding="utf-8")
    path = tmp_path / "new" / "folder" / name
    done = regard(verb, model, *options, tmp_path / "texts.txt" if options else TEXT, "--out", path)
    assert done.code == 0, done.err
    assert path.stat().st_size > 0
    blocked = tmp_path / "texts.txt" / name
    refused = regard(verb, model, *options, tmp_path / "texts.txt" if options else TEXT, "--out", blocked)
    assert (refused.code, refused.error.path) == (1, blocked)


def test_a_truncated_output_is_marked(regard: Run, model: Path, tmp_path: Path) -> None:
    brief = shutil.copytree(model, tmp_path / "brief")
    (brief / "regard-manifest.json").unlink()  # the folder is changed on purpose
    config = json.loads((brief / "config.json").read_text(encoding="utf-8"))
    config["inference"] |= {"max_new_tokens": 2, "num_beams": 1}
    (brief / "config.json").write_text(json.dumps(config), encoding="utf-8")
    page = tmp_path / "look.html"
    assert regard("look", brief, TEXT, "--out", page).code == 0
    output = json.loads(regard("look", brief, TEXT, "--json").out)["output"]
    assert output != library.load(brief)(TEXT).text, "a remark follows the truncated output"
    assert page.exists()
    given = regard("look", brief, TEXT, "--json", "--target", "1 2 3 4").out
    assert json.loads(given)["output"] == "1 2 3 4"


def test_a_picture(regard: Run, model: Path, tmp_path: Path) -> None:
    picture = tmp_path / "look.svg"
    assert regard("look", model, TEXT, "--out", picture).code == 0
    assert ElementTree.parse(picture).getroot().tag.endswith("svg")


def test_json_holds_weights_whose_rows_sum_to_one(
    regard: Run, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = json.loads(regard("look", model, TEXT, "--json").out)
    assert list(tmp_path.iterdir()) == [], "numbers were asked for, not a page"
    assert found["output"] == library.load(model)(TEXT).text
    addresses = [hook["address"] for hook in found["attention"]]
    assert addresses == ["encoder.0.self", "decoder.0.self", "decoder.0.cross"]
    for hook in found["attention"]:
        weights = np.array(hook["weights"])
        assert weights.shape == (2, len(hook["rows"]), len(hook["columns"]))
        np.testing.assert_allclose(weights.sum(axis=-1), 1, atol=1e-5)
    causal = np.array(found["attention"][1]["weights"])
    assert not np.triu(causal[0], 1).any()


def test_another_translation(regard: Run, model: Path) -> None:
    found = json.loads(regard("look", model, TEXT, "--target", "9 9", "--json").out)
    assert found["output"] == "9 9"
    assert found["attention"][-1]["rows"][-2:] == ["▁9", "▁9"]


# --- Views --------------------------------------------------------------------------------------------------


def test_views_are_listed(regard: Run, model: Path) -> None:
    listed = json.loads(regard("look", model, "--views", "--json").out)
    assert listed == library.views_of(model)
    assert next(iter(listed)) == "attention"
    assert {"steps", "ranks"} <= set(listed)
    lines = regard("look", model, "--views").out.splitlines()
    assert [line.split()[0] for line in lines] == list(listed)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_every_model_shows_every_view_that_it_offers(folder: Path, regard: Run, tmp_path: Path) -> None:
    """Through a tiny model of every task: steps and attention for all of them."""
    offered = library.views_of(folder)
    assert {"attention", "steps"} <= set(offered) <= set(views)
    task = task_of(folder)
    assert task is not None
    example = [text for value in tasks[task].example for text in (value if isinstance(value, tuple) else (value,))]
    for view in offered:
        page = tmp_path / f"{view}.html"
        done = regard("look", folder, *example, "--view", view, "--out", page)
        assert done.code == 0, (view, done.err)
        assert "<html" in page.read_text(encoding="utf-8")
        numbers = json.loads(regard("look", folder, *example, "--view", view, "--json").out)
        assert numbers["input"]


@pytest.mark.parametrize(
    ("name", "view", "viewer"),
    [
        ("generate-bpe", "targets", "causal"),
        ("generate-bpe", "ranks", "ranks"),
        ("generate-bpe", "steps", "steps"),
        ("classify", "steps", "steps"),
        ("fill", "inputs", "inputs"),
        ("answer", "answer", "spans"),
        ("translate", "ranks", "ranks"),
    ],
)
def test_views_of_single_models(name: str, view: str, viewer: str) -> None:
    folder = next(folder for folder in FOLDERS if folder.name == name)
    predictor = library.load(folder)
    assert view in library.views_of(predictor)
    assert library.look(predictor, *predictor.spec.example, view=view).viewer == viewer


@pytest.mark.parametrize(
    ("address", "shown"),
    [([], "encoder.0.self"), (["encoder.0.self"], "encoder.0.self"), (["decoder.0.cross"], "decoder.0.cross")],
    ids=str,
)
def test_m99_the_steps_of_one_attention(
    regard: Run, model: Path, tmp_path: Path, address: list[str], shown: str
) -> None:
    page = tmp_path / "steps.html"
    flags = ["--view", "steps", *(["--address", *address] if address else [])]
    assert regard("look", model, TEXT, *flags, "--out", page) == (0, f"{page}\n", "")
    html = page.read_text(encoding="utf-8")
    assert TEXT in html
    assert shown in html
    assert regard("look", model, TEXT, "--out", tmp_path / "steps.svg", *flags).code == 0


def test_json_of_the_steps(regard: Run, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    steps = json.loads(regard("look", model, TEXT, "--view", "steps", "--json").out)
    assert list(tmp_path.iterdir()) == []
    assert (steps["input"], steps["address"]) == ([TEXT], "encoder.0.self")
    num_tokens = len(steps["rows"])
    assert np.shape(steps["inputs"]) == np.shape(steps["output"]) == (num_tokens, 32)
    assert np.shape(steps["queries"]) == np.shape(steps["heads"]) == (2, num_tokens, 16)
    np.testing.assert_allclose(np.matmul(steps["weights"], steps["values"]), steps["heads"], atol=1e-5)
    whole = json.loads(regard("look", model, TEXT, "--json").out)["attention"][0]
    np.testing.assert_allclose(steps["weights"], whole["weights"], atol=1e-6)
    flags = ["--target", "9 9", "--view", "steps", "--address", "decoder.0.cross"]
    cross = json.loads(regard("look", model, TEXT, *flags, "--json").out)
    assert (cross["rows"][-2:], cross["columns"]) == (["▁9", "▁9"], steps["rows"])
    assert np.shape(cross["memory"]) == (num_tokens, 32)


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["", "--json"], "INPUTS"),
        ([], "INPUTS"),
        ([TEXT, "--out", "look.pdf"], ".html, .svg, .png"),
        ([TEXT, "--view", "stepps"], "'steps'"),
        ([TEXT, "--view", "targets"], "attention, "),
        ([TEXT, "--view", "steps", "--address", "encoder.7.self"], "decoder.0.cross"),
        ([TEXT, "--view", "steps", "--address", "encoder.0.slef", "--json"], "'encoder.0.self'"),
        ([TEXT, "--view", "attention", "--address", "encoder.7.self"], "encoder.0.self"),
        ([TEXT, "another text"], "source"),
    ],
    ids=lambda value: " ".join(value[1:]) if isinstance(value, list) else "",
)
def test_wrong_requests(
    regard: Run, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], hint: str
) -> None:
    monkeypatch.chdir(tmp_path)
    done = regard("look", model, *arguments)
    assert (done.code, done.out, hint in done.err) == (2, "", True), done.err
    assert list(tmp_path.iterdir()) == []


# --- Tokens -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [TEXT, "seventeen  sevens!", "naïve café 東京 🙂", "x"])
def test_joined_tokens_are_the_text(regard: Run, model: Path, text: str) -> None:
    spans = json.loads(regard("tokens", model, text, "--json").out)["tokens"]
    assert "".join(span["text"] for span in spans) == text
    assert [text[span["start"] : span["end"]] for span in spans] == [span["text"] for span in spans]
    translator: Any = library.load(model)
    assert [span["id"] for span in spans] == translator.tokenizers.source.encode(text)


def test_a_damaged_tokenizer_is_refused(regard: Run, model: Path, tmp_path: Path) -> None:
    altered = shutil.copytree(model, tmp_path / "m")
    file = next(altered.glob("tokenizer*.json"))
    file.write_text(file.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    done = regard("tokens", altered, "one")
    assert (done.code, file.name in done.err) == (1, True)


def test_ids_and_merges(regard: Run, model: Path) -> None:
    done = regard("tokens", model, "seven")
    assert done.code == 0
    lines = done.out.splitlines()
    assert lines[0] == "seven"
    translator: Any = library.load(model)
    tokenizer = translator.tokenizers.source
    ids = tokenizer.encode("seven")
    gap = lines.index("")
    assert [line.split() for line in lines[1:gap]] == [
        [str(i), token] for i, token in zip(ids, tokenizer.tokens(ids), strict=True)
    ]
    steps = [line.split() for line in lines[gap + 1 :]]
    assert steps[0] == ["▁", *"seven"], "merging starts with single characters"
    assert steps[-1] == tokenizer.tokens(ids)
    assert [len(step) for step in steps] == list(range(6, len(ids) - 1, -1)), "one merge per line"


def test_a_page_of_tokens(regard: Run, model: Path, tmp_path: Path) -> None:
    page = tmp_path / "tokens.html"
    assert regard("tokens", model, TEXT, "--out", page).code == 0
    assert "seven" in page.read_text(encoding="utf-8")
    assert regard("tokens", model, TEXT, "--out", page).code == 2
    assert regard("tokens", model, TEXT, "--out", page, "--force").code == 0


def test_separate_vocabularies_have_their_own_tokens(
    regard: Run, pairs_file: Path, small: list[str], tmp_path: Path
) -> None:
    run = tmp_path / "m"
    sides = ["--tokenizer", "word", "--separate-vocabularies"]
    assert regard("train", "translate", pairs_file, "--out", run, *small, "--steps", 1, *sides).code == 0
    source, target = (
        json.loads(regard("tokens", run, "seven 7", "--side", side, "--json").out) for side in ("source", "target")
    )
    assert [span["token"] for span in source["tokens"]] == ["seven", "<unk>"]
    assert [span["token"] for span in target["tokens"]] == ["<unk>", "7"]
    assert source["merges"] is None
    assert regard("tokens", run, "seven").code == 0
