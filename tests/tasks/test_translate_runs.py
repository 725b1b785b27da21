"""Training a translator from files: validation split, lengths, positions, the card, and the attention of its output."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import regard
from regard import api
from regard.tasks.readers import TranslateReader
from regard.tasks.translate import objective
from regard.tasks.translate.predictor import Translation
from regard.tasks.translate.spec import TranslateTraining
from regard.utils.errors import DataError, UsageError

WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
SMALL: dict[str, Any] = dict(
    size="tiny",
    d_model=16,
    num_heads=1,
    head_dim=16,
    d_ff=16,
    num_encoder_layers=1,
    num_decoder_layers=1,
    vocab_size=300,
)


def rows(count: int) -> list[tuple[str, str]]:
    return [(" ".join(WORDS[int(digit)] for digit in str(n)), " ".join(str(n))) for n in range(100, 100 + count)]


@pytest.fixture
def pairs_file(tmp_path: Path) -> Path:
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"{source}\t{target}\n" for source, target in rows(60)), encoding="utf-8")
    return path


def test_all_pairs_with_a_source_are_in_one_split(tmp_path: Path) -> None:
    path = tmp_path / "often.tsv"
    path.write_text("".join(f"{s}\t{t}\n" for s, t in rows(40) * 4), encoding="utf-8")
    splits = TranslateReader(TranslateTraining()).read([path], None)
    assert len(splits.train) + len(splits.validation) == 160
    assert len(splits.validation) == 8
    assert not {pair.source for pair in splits.train} & {pair.source for pair in splits.validation}


def test_a_single_source_cannot_be_split(tmp_path: Path) -> None:
    path = tmp_path / "one.tsv"
    path.write_text("one\tun\n" * 5, encoding="utf-8")
    with pytest.raises(DataError) as error:
        regard.train("translate", path, out=tmp_path / "m")
    assert error.value.path == path


def test_validation_pairs_that_are_too_long_are_left_out_and_counted(tmp_path: Path, pairs_file: Path) -> None:
    validation = tmp_path / "held.tsv"
    validation.write_text("one two\t1 2\n" + " ".join(["nine"] * 50) + "\t9\n", encoding="utf-8")
    settings = {**SMALL, "steps": 2, "max_seq_len": 30}
    run = api.run_training("translate", pairs_file, out=tmp_path / "m", validation=validation, **settings)
    assert len(run.samples) == 1
    assert "left out: 1 validation pair longer than" in run.report.read_text("utf-8")
    validation.write_text(" ".join(["nine"] * 50) + "\t9\n", encoding="utf-8")
    with pytest.raises(DataError):
        api.run_training("translate", pairs_file, out=tmp_path / "n", validation=validation, **settings)


def test_learned_positions_must_suffice_for_the_longest_pair(pairs_file: Path, tmp_path: Path) -> None:
    settings = dict(steps=1, positions="learned", max_positions=100)
    with pytest.raises(UsageError) as error:
        regard.train("translate", pairs_file, out=tmp_path / "m", **settings, **SMALL)
    assert (error.value.argument, error.value.value) == ("max_seq_len", 256)


def test_attention_of_a_translation_as_long_as_the_learned_positions(pairs_file: Path, tmp_path: Path) -> None:
    settings = dict(positions="learned", max_positions=29, max_seq_len=29, max_len_a=None, max_len_b=100)
    translator = regard.train("translate", pairs_file, out=tmp_path / "m", steps=1, **settings, **SMALL)
    assert translator.config.max_len_a is None, "None is a value like any other"
    assert (tmp_path / "m" / "report.html").exists()
    cut_off = translator("one two three", min_new_tokens=29)
    assert (cut_off.ended, len(cut_off.ids)) == (False, 29)
    assert len(translator.trace("one two three", cut_off).labels("decoder.0.self")[0]) == 29


def test_a_translation_is_traced_by_its_own_tokens(pairs_file: Path, tmp_path: Path) -> None:
    """Not by those into which its text would be tokenized: an unknown word has no text at all."""
    translator = regard.train("translate", pairs_file, out=tmp_path / "m", steps=1, tokenizer="word", **SMALL)
    tokenizer = translator.tokenizers.target
    assert tokenizer.unknown_id is not None
    result = Translation("one", "1", 0.0, ids=(tokenizer.unknown_id, tokenizer.encode("1")[0]))
    assert translator.trace("one", result).labels("decoder.0.self")[0] == ["<s>", "<unk>", "1"]
    assert translator.trace("one", result.text).labels("decoder.0.self")[0] == ["<s>", "1"]


def test_the_card_names_data_direction_and_search(
    pairs_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(objective, "NUM_SCORED", 2)
    settings = dict(reverse=True, steps=2, length_penalty=0.75)
    run = api.run_training("translate", pairs_file, out=tmp_path / "m", **settings, **SMALL)
    assert run.scored_on == "validation, the first 2 of 3 pairs"
    card = (run.folder / "README.md").read_text(encoding="utf-8")
    for words in (run.scored_on, "| reverse | true |", "| length_penalty | 0.75 |", "pairs.tsv", "BLEU"):
        assert words in card
