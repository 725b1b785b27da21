"""`regard export` and `regard import`: to transformers and back, and models that cannot be converted."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import regard as library

Run = Callable[..., Any]
TEXTS = ["seven one four two", "nine nine zero three", "five"]


@pytest.fixture(scope="module")
def marian(regard: Run, paper_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("marian") / "m"
    done = regard("export", paper_model, "--to", "transformers", "--out", folder)
    assert done.code == 0, done.err
    assert str(folder) in done.out
    assert "MarianMTModel" in done.out
    return folder


def test_transformers_gives_the_same_logits_and_texts(marian: Path, paper_model: Path) -> None:
    transformers = pytest.importorskip("transformers")
    theirs = transformers.MarianMTModel.from_pretrained(marian).eval()
    tokenizer = transformers.MarianTokenizer.from_pretrained(marian)
    ours = library.load(paper_model)
    for text in TEXTS:
        mine = ours(text, num_beams=1)
        source = tokenizer(text, return_tensors="pt")
        with torch.no_grad():
            written = theirs.generate(**source, num_beams=1, do_sample=False, max_new_tokens=30)
            logits = theirs(**source, decoder_input_ids=written[:, :-1]).logits
        assert tokenizer.decode(written[0], skip_special_tokens=True) == mine.text
        # The ids may be numbered differently there, so what is compared is the probability of each token.
        log_probs = logits.log_softmax(-1)[0].gather(1, written[0, 1:, None]).flatten()
        torch.testing.assert_close(log_probs, torch.tensor(mine.log_probs), atol=1e-4, rtol=0)


def test_there_and_back_again(regard: Run, marian: Path, paper_model: Path, tmp_path: Path) -> None:
    back = tmp_path / "back"
    done = regard("import", marian, "--out", back, "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["folder"] == str(back)
    ours, again = library.load(paper_model), library.load(back)
    for text in TEXTS:
        before, after = ours(text, num_beams=3), again(text, num_beams=3)
        assert after.text == before.text
        assert after.score == pytest.approx(before.score, abs=1e-5)
    assert library.load(marian)(TEXTS[0]).text == again(TEXTS[0]).text, "a Marian folder is read as it is, too"
    refused = regard("import", marian, "--out", back)
    assert (refused.code, "--force" in refused.err) == (2, True)
    assert regard("import", marian, "--out", back, "--force").code == 0


def test_a_model_without_a_class_of_transformers_is_refused(regard: Run, model: Path, tmp_path: Path) -> None:
    done = regard("export", model, "--to", "transformers", "--out", tmp_path / "m")
    assert done.code != 0
    assert done.out == ""
    for setting in ("positions", "norm_placement", "final_norm", "activation"):
        assert setting in done.err, done.err
    assert not (tmp_path / "m").exists()


def test_only_foreign_folders_are_imported(regard: Run, model: Path, tmp_path: Path) -> None:
    assert regard("import", model, "--out", tmp_path / "m").code == 1
    assert not (tmp_path / "m").exists()
    unknown = regard("export", model, "--to", "tensorflow", "--out", tmp_path / "m")
    assert unknown.code == 2
    assert "transformers" in unknown.err


def test_an_export_into_the_model_itself_is_refused(regard: Run, paper_model: Path) -> None:
    before = (paper_model / "model.safetensors").read_bytes()
    done = regard("export", paper_model, "--out", paper_model, "--force")
    assert (done.code, "--out" in done.err) == (2, True)
    assert (paper_model / "model.safetensors").read_bytes() == before


def test_an_import_into_its_own_source_is_refused(regard: Run, marian: Path) -> None:
    before = {path: path.read_bytes() for path in marian.iterdir()}
    done = regard("import", marian, "--out", marian, "--force")
    assert (done.code, "--out" in done.err) == (2, True)
    assert {path: path.read_bytes() for path in marian.iterdir()} == before


def test_an_import_has_a_card_and_keeps_forbidden_tokens(regard: Run, marian: Path, tmp_path: Path) -> None:
    source = tmp_path / "source"
    shutil.copytree(marian, source)
    (source / "regard-manifest.json").unlink()
    best = library.load(marian)("seven one four two")
    generation = json.loads((source / "generation_config.json").read_text(encoding="utf-8"))
    generation["bad_words_ids"].append([best.ids[0]])
    (source / "generation_config.json").write_text(json.dumps(generation), encoding="utf-8")
    assert regard("import", source, "--out", tmp_path / "ours").code == 0
    assert "source" in (tmp_path / "ours" / "README.md").read_text(encoding="utf-8")
    translator = library.load(tmp_path / "ours")
    assert best.ids[0] not in translator("seven one four two").ids
    assert regard("export", tmp_path / "ours", "--out", tmp_path / "back").code == 0
    back = json.loads((tmp_path / "back" / "generation_config.json").read_text(encoding="utf-8"))
    assert [best.ids[0]] in back["bad_words_ids"]


def test_an_export_keeps_search_settings_and_names_what_it_drops(
    regard: Run, pairs_file: Path, small: list[str], tmp_path: Path
) -> None:
    search = ("--num-beams", 3, "--length-penalty", 0.3)
    made = regard(
        *("train", "translate", pairs_file, "--recipe", "paper", "--tokenizer", "word", *small, "--steps", 2),
        *("--out", tmp_path / "m", *search),
    )
    assert made.code == 0, made.err
    done = regard("export", tmp_path / "m", "--out", tmp_path / "there")
    assert done.code == 0
    generation = json.loads((tmp_path / "there" / "generation_config.json").read_text(encoding="utf-8"))
    assert generation["num_beams"] == 3
    assert generation["length_penalty"] == 0.3
    noted = json.loads(regard("export", tmp_path / "m", "--out", tmp_path / "again", "--json").out)["notes"]
    assert "\n".join(noted) in done.err
