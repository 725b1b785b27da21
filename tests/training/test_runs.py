"""A whole training, from pairs to a folder: what is held out, what is kept, what is written when scoring fails."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import regard
from regard.checkpoint.atomic import COMMIT
from regard.data.pairs import Pair
from regard.errors import DataError, UsageError
from regard.tasks import translate
from regard.tasks.settings import TranslateConfig
from regard.tasks.translate import TranslateTask, Translation, Vocabularies, make_model
from regard.training.metrics_log import read_metrics
from regard.training.optimisers import load_state_tensors, make_optimisers, state_tensors
from regard.training.translation import train_translation

WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
SMALL: dict[str, Any] = dict(
    size="tiny", width=16, heads=1, head_width=16, hidden=16, encoder_layers=1, decoder_layers=1, pieces=300
)
SMALL_SETTINGS = {name: value for name, value in SMALL.items() if name != "size"} | {"steps": 2}


def rows(count: int) -> list[tuple[str, str]]:
    return [(" ".join(WORDS[int(digit)] for digit in str(n)), " ".join(str(n))) for n in range(100, 100 + count)]


@pytest.fixture
def pairs_file(tmp_path: Path) -> Path:
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"{source}\t{target}\n" for source, target in rows(60)), encoding="utf-8")
    return path


def test_a_source_that_occurs_often_is_not_both_learned_and_held_out(tmp_path: Path) -> None:
    path = tmp_path / "often.tsv"
    path.write_text("".join(f"{s}\t{t}\n" for s, t in rows(40) * 4), encoding="utf-8")
    seen: dict[str, Any] = {}

    def look(self: TranslateTask, **given: Any) -> None:
        seen.update(given)
        raise UsageError("seen enough")

    with pytest.MonkeyPatch.context() as patch, pytest.raises(UsageError, match="seen enough"):
        patch.setattr(TranslateTask, "__init__", look)
        train_translation([path], tmp_path / "m", size="tiny", settings=dict(steps=1, pieces=300))
    assert len(seen["train"]) + len(seen["validation"]) == 160
    assert len(seen["validation"]) == 8
    assert not {pair.source for pair in seen["train"]} & {pair.source for pair in seen["validation"]}


def test_one_source_many_times_is_too_little(tmp_path: Path) -> None:
    path = tmp_path / "one.tsv"
    path.write_text("one\tun\n" * 5, encoding="utf-8")
    with pytest.raises(DataError, match="5 pairs with one and the same source; training needs at least 2"):
        train_translation([path], tmp_path / "m")


def test_a_model_is_there_even_if_it_cannot_be_scored(
    pairs_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: TranslateTask) -> None:
        raise UsageError("no scores today")

    monkeypatch.setattr(TranslateTask, "evaluate", fail)
    with pytest.raises(UsageError, match="no scores today"):
        regard.train("translate", pairs_file, out=tmp_path / "m", steps=2, **SMALL)
    assert regard.load(tmp_path / "m")("one two three").text is not None


def test_validation_pairs_that_are_too_long_are_counted_and_never_scored(tmp_path: Path, pairs_file: Path) -> None:
    held = tmp_path / "held.tsv"
    held.write_text("one two\t1 2\n" + " ".join(["nine"] * 50) + "\t9\n", encoding="utf-8")
    settings = SMALL_SETTINGS | {"max_length": 30}
    run = train_translation([pairs_file], tmp_path / "m", validation=[held], settings=settings)
    assert len(run.samples) == 1
    assert "left out: 1 validation pairs longer than 30 pieces" in (run.folder / "report.html").read_text("utf-8")
    held.write_text(" ".join(["nine"] * 50) + "\t9\n", encoding="utf-8")
    with pytest.raises(DataError, match="every validation pair is longer than 30 pieces"):
        train_translation([pairs_file], tmp_path / "n", validation=[held], settings=settings)


def test_learned_positions_must_reach_as_far_as_the_longest_pair(pairs_file: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="up to 256 pieces do not fit 100 learned positions: give --max-length 100"):
        regard.train(
            "translate", pairs_file, out=tmp_path / "m", steps=1, positions="learned", max_positions=100, **SMALL
        )


def test_a_translation_as_long_as_the_learned_positions_can_be_looked_at(pairs_file: Path, tmp_path: Path) -> None:
    settings = dict(positions="learned", max_positions=29, max_length=29, max_ratio=None, max_extra=100)
    translator = regard.train("translate", pairs_file, out=tmp_path / "m", steps=1, **settings, **SMALL)
    assert translator.search.max_ratio is None, "None is a value like any other"
    assert (tmp_path / "m" / "report.html").exists()
    cut_off = translator("one two three", min_new_tokens=29)
    assert (cut_off.ended, len(cut_off.ids)) == (False, 29)
    assert len(translator.trace("one two three", cut_off).labels("decoder.0.self")[0]) == 29


def test_what_was_written_is_looked_at_piece_by_piece(pairs_file: Path, tmp_path: Path) -> None:
    """Not the pieces into which the vocabulary would cut the text: an unknown word has no text at all."""
    translator = regard.train("translate", pairs_file, out=tmp_path / "m", steps=1, tokenizer="word", **SMALL)
    unknown_id = translator.vocabularies.target.unknown_id
    assert unknown_id is not None
    written = Translation("1", 0.0, (), (), ids=(unknown_id, translator.vocabularies.target.encode("1")[0]))
    assert translator.trace("one", written).labels("decoder.0.self")[0] == ["<s>", "<unk>", "1"]
    assert translator.trace("one", written.text).labels("decoder.0.self")[0] == ["<s>", "1"]


def test_a_decoder_alone_does_not_translate(pairs_file: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="unknown setting 'architecture'"):
        regard.train("translate", pairs_file, out=tmp_path / "m", steps=1, architecture="decoder-only", **SMALL)


def test_the_card_says_what_was_scored_and_in_which_direction(
    pairs_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(translate, "SCORED", 2)
    run = train_translation([pairs_file], tmp_path / "m", reverse=True, settings=SMALL_SETTINGS)
    card = (run.folder / "README.md").read_text(encoding="utf-8")
    assert "validation, the first 2 of 3 pairs" in card
    assert "reverse" in card
    assert "length_penalty" in card


def test_words_of_the_user_in_the_card_are_kept(pairs_file: Path, tmp_path: Path) -> None:
    card = tmp_path / "m" / "README.md"
    regard.train("translate", pairs_file, out=tmp_path / "m", steps=2, **SMALL)
    assert "BLEU" in card.read_text(encoding="utf-8")
    for steps in (3, 4):
        card.write_text("my precious notes", encoding="utf-8")
        regard.train("translate", pairs_file, out=tmp_path / "m", steps=steps, resume=True, **SMALL)
        assert card.read_text(encoding="utf-8") == "my precious notes"
    assert read_metrics(tmp_path / "m")[-1]["step"] == 4


def test_a_model_whose_files_were_not_yet_moved_to_their_places_is_loaded(pairs_file: Path, tmp_path: Path) -> None:
    """As a kill between the commit and the last rename leaves it."""
    folder = tmp_path / "m"
    regard.train("translate", pairs_file, out=folder, steps=2, separate_vocabularies=True, **SMALL)
    expected = regard.load(folder)("one two three")
    (folder / COMMIT).mkdir()
    for name in ("config.json", "tokenizer.source.json", "tokenizer.target.json", "regard-manifest.json"):
        (folder / name).rename(folder / COMMIT / name)
    assert regard.load(folder)("one two three") == expected


def test_training_leaves_the_callers_random_numbers_alone(pairs_file: Path, tmp_path: Path) -> None:
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    regard.train("translate", pairs_file, out=tmp_path / "m", steps=1, **SMALL)
    assert torch.equal(torch.rand(3), expected)


def test_ids_and_optimiser_states_go_where_the_model_is() -> None:
    """No accelerator is needed to see it: on the device `meta` every tensor of a pass must be there already."""
    pairs = [Pair(source, target) for source, target in rows(20)]
    config = TranslateConfig(pieces=300)
    vocabularies = Vocabularies.train(pairs, config)
    shape = {name: value for name, value in SMALL.items() if name not in ("size", "pieces")}
    task = TranslateTask(
        model=make_model(vocabularies, shape, seed=0), vocabularies=vocabularies, train=pairs, validation=pairs,
        config=config,
    )  # fmt: skip
    settings: dict[str, Any] = dict(
        kind="muon", learning_rate=0.1, matrix_learning_rate=0.1, betas=(0.9, 0.98), epsilon=1e-9, weight_decay=0.0
    )
    optimisers = make_optimisers(task.model, **settings)
    task.loss(range(5)).train.backward()
    for optimiser in optimisers:
        optimiser.step()
    states = state_tensors(optimisers, task.model)
    moved = task.model.to("meta")
    there = make_optimisers(moved, **settings)
    load_state_tensors(there, moved, states)
    restored = [value for optimiser in there for state in optimiser.state.values() for value in state.values()]
    assert restored
    assert {value.device.type for value in restored} == {"meta"}
    trace = task.translator().trace("one two", "1 2")
    assert {recipe.q.device.type for recipe in trace.recipes.values()} == {"meta"}
