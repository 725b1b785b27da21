"""Errors: their fields, and the names that are suggested for unknown ones."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from regard.utils.errors import (
    SYNONYMS,
    DataError,
    DivergenceError,
    FolderError,
    MissingColumnError,
    MissingFolderError,
    RegardError,
    UsageError,
    number_of,
    shorten_list,
    suggest_name,
    unknown,
)

KINDS = [RegardError, UsageError, DataError, MissingColumnError, FolderError, MissingFolderError, DivergenceError]
TRAINING = ["batch_size", "beta1", "epochs", "learning_rate", "max_grad_norm", "pooler", "seed", "warmup_steps"]
MODEL = ["context_length", "d_ff", "d_model", "head_dim", "num_heads", "num_kv_heads", "num_layers", "vocab_size"]


@pytest.mark.parametrize("kind", KINDS)
def test_every_error_carries_fields(kind: type[RegardError]) -> None:
    error = kind("no row", argument="rows", value=[], allowed=iter("ab"), path="a/b.csv", line=3, hint="add one")
    assert str(error) == "no row"
    assert (error.argument, error.value, error.allowed) == ("rows", [], ("a", "b"))
    assert (error.path, error.line, error.hint) == (Path("a/b.csv"), 3, "add one")
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is kind and str(again) == str(error) and vars(again) == vars(error)


@pytest.mark.parametrize("kind", KINDS)
def test_fields_are_none_unless_given(kind: type[RegardError]) -> None:
    error = kind("failed")
    assert {getattr(error, name) for name in ("argument", "value", "allowed", "path", "line", "hint")} == {None}


def test_exit_codes() -> None:
    assert [kind.exit_code for kind in KINDS] == [1, 2, 1, 2, 1, 2, 1]


def test_unknown_fills_the_fields() -> None:
    error = unknown("size", "smal", ("small", "base"))
    assert (error.argument, error.value, error.allowed, error.hint) == ("size", "smal", ("base", "small"), "small")
    assert "'smal'" in str(error) and "'small'" in str(error) and "base, small" in str(error)
    assert unknown("size", "xyz", ("small", "base")).hint is None


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("lr", "learning_rate"), ("LR", "learning_rate"), ("--lr", "learning_rate"), ("bs", "batch_size"),
        ("batch", "batch_size"), ("warmup", "warmup_steps"), ("num-train-epochs", "epochs"), ("clip", "max_grad_norm"),
        ("grad_clip", "max_grad_norm"), ("random_state", "seed"), ("learning-rate", "learning_rate"),
        ("learning_rat", "learning_rate"), ("polar", "pooler"),
    ],
)  # fmt: skip
def test_training_settings_by_their_other_names(given: str, meant: str) -> None:
    assert suggest_name(given, TRAINING) == meant


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("hidden_size", "d_model"), ("width", "d_model"), ("embed_dim", "d_model"), ("num_hidden_layers", "num_layers"),
        ("layers", "num_layers"), ("depth", "num_layers"), ("num_attention_heads", "num_heads"), ("heads", "num_heads"),
        ("intermediate_size", "d_ff"), ("hidden", "d_ff"), ("n_positions", "context_length"), ("pieces", "vocab_size"),
        ("max_position_embeddings", "context_length"), ("num_key_value_heads", "num_kv_heads"),
    ],
)  # fmt: skip
def test_model_settings_by_their_other_names(given: str, meant: str) -> None:
    assert suggest_name(given, MODEL) == meant


def test_the_first_allowed_synonym_is_suggested() -> None:
    assert suggest_name("max_len", ["max_length", "steps"]) == "max_length"
    assert suggest_name("max_len", ["max_length", "max_seq_len"]) == "max_seq_len"
    assert suggest_name("lr", ["pooling", "stride"]) is None  # no learning rate among them: nothing is near


def test_synonyms_are_written_as_they_are_looked_up() -> None:
    assert all(name == name.lower().replace("-", "_") and name not in meant for name, meant in SYNONYMS.items())


def test_flags_are_suggested_as_flags() -> None:
    assert suggest_name("--lr", ["--learning-rate", "--steps"]) == "--learning-rate"


def test_counts_and_lists() -> None:
    assert (number_of(1, "example"), number_of(2000, "example")) == ("1 example", "2,000 examples")
    assert number_of(2, "entry", "entries") == "2 entries"
    assert shorten_list(list("abc")) == "a, b, c"
    assert shorten_list(list("abcdefg"), shown=2) == "a, b and 5 more"
