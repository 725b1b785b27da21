"""The errors that regard raises on purpose.

A message names what was given, what is allowed and what to do next; fields carry the same for programs. The command
line prints the message without a traceback. Any other exception that escapes is a bug and keeps its traceback.
"""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

# Names from other libraries and common abbreviations, with the names that regard uses. They serve for suggestions only
# and are never accepted. Of several names the first one that is allowed is suggested.
SYNONYMS: dict[str, tuple[str, ...]] = {
    "lr": ("learning_rate",),
    "rate": ("learning_rate",),
    "bs": ("batch_size", "batch_tokens"),
    "batch": ("batch_size", "batch_tokens"),
    "batch_rows": ("batch_size",),
    "train_batch_size": ("batch_size", "batch_tokens"),
    "per_device_train_batch_size": ("batch_size", "batch_tokens"),
    "hidden_size": ("d_model",),
    "hidden_dim": ("d_model",),
    "width": ("d_model",),
    "dim": ("d_model",),
    "embed_dim": ("d_model",),
    "embedding_dim": ("d_model",),
    "n_embd": ("d_model",),
    "num_hidden_layers": ("num_layers", "num_encoder_layers"),
    "n_layer": ("num_layers", "num_encoder_layers"),
    "n_layers": ("num_layers", "num_encoder_layers"),
    "layers": ("num_layers", "num_encoder_layers"),
    "depth": ("num_layers", "num_encoder_layers"),
    "num_attention_heads": ("num_heads",),
    "n_head": ("num_heads",),
    "n_heads": ("num_heads",),
    "nhead": ("num_heads",),
    "heads": ("num_heads",),
    "num_key_value_heads": ("num_kv_heads",),
    "key_value_heads": ("num_kv_heads",),
    "head_width": ("head_dim",),
    "head_size": ("head_dim",),
    "intermediate_size": ("d_ff",),
    "ffn_dim": ("d_ff",),
    "dim_feedforward": ("d_ff",),
    "n_inner": ("d_ff",),
    "hidden": ("d_ff",),
    "n_positions": ("context_length", "max_positions"),
    "n_ctx": ("context_length", "max_positions"),
    "block_size": ("context_length", "max_positions"),
    "max_position_embeddings": ("context_length", "max_positions"),
    "context": ("context_length",),
    "max_length": ("max_seq_len", "max_new_tokens"),
    "max_len": ("max_seq_len", "max_length", "max_new_tokens"),
    "max_seq_length": ("max_seq_len", "max_length"),
    "max_tokens": ("max_seq_len", "max_new_tokens"),
    "sequence_length": ("max_seq_len", "context_length"),
    "pieces": ("vocab_size",),
    "vocabulary_size": ("vocab_size",),
    "n_vocab": ("vocab_size",),
    "beams": ("num_beams",),
    "beam": ("num_beams",),
    "beam_size": ("num_beams",),
    "beam_width": ("num_beams",),
    "num_return_sequences": ("n_best", "n"),
    "wd": ("weight_decay",),
    "l2": ("weight_decay",),
    "warmup": ("warmup_steps",),
    "num_warmup_steps": ("warmup_steps",),
    "scheduler": ("schedule",),
    "lr_scheduler": ("schedule",),
    "lr_scheduler_type": ("schedule",),
    "num_epochs": ("epochs",),
    "n_epochs": ("epochs",),
    "num_train_epochs": ("epochs",),
    "max_steps": ("steps",),
    "num_steps": ("steps",),
    "iterations": ("steps",),
    "clip": ("max_grad_norm",),
    "grad_clip": ("max_grad_norm",),
    "clip_grad_norm": ("max_grad_norm",),
    "gradient_clip_val": ("max_grad_norm",),
    "adam_epsilon": ("adam_eps",),
    "epsilon": ("adam_eps",),
    "adam_beta1": ("beta1",),
    "adam_beta2": ("beta2",),
    "optim": ("optimizer",),
    "smoothing": ("label_smoothing",),
    "label_smoothing_factor": ("label_smoothing",),
    "random_state": ("seed",),
    "random_seed": ("seed",),
    "rng": ("seed",),
    "validation_share": ("val_fraction",),
    "validation_split": ("val_fraction",),
    "test_size": ("val_fraction",),
    "ema": ("weight_averaging", "ema_decay"),
    "early_stopping_patience": ("patience",),
    "logging_steps": ("log_every",),
    "save_steps": ("save_every",),
    "eval_steps": ("num_evals",),
    "rope_base": ("rope_theta",),
    "doc_stride": ("stride",),
    "null_score_diff_threshold": ("no_answer_threshold",),
    "output_dir": ("out",),
    "output": ("out",),
    "r": ("lora_rank",),
    "rank": ("lora_rank",),
}


class RegardError(Exception):
    """Something failed that the user can do something about (exit code 1).

    The message is for people; the fields say the same for programs, each None where it does not apply.
    """

    exit_code = 1

    def __init__(
        self,
        message: str = "",
        *,
        argument: str | None = None,  # the argument, setting or flag that is at fault, as Python spells it
        value: Any = None,  # what was given for it
        allowed: Iterable[Any] | None = None,  # what may be given
        path: Path | str | None = None,  # the file or folder at fault
        line: int | None = None,  # of that file, counted from 1
        hint: str | None = None,  # what to do about it, such as the name that was probably meant
    ) -> None:
        super().__init__(message)
        self.argument = argument
        self.value = value
        self.allowed = None if allowed is None else tuple(allowed)
        self.path = None if path is None else Path(path)
        self.line = line
        self.hint = hint


class UsageError(RegardError, ValueError):
    """The request itself is wrong: an unknown name, a value out of range, a missing file (exit code 2)."""

    exit_code = 2


class DataError(RegardError):
    """A data file has rows that cannot be used."""


class MissingColumnError(UsageError, DataError):
    """A column was asked for that a table does not have: its name was given wrongly (exit code 2)."""


class FolderError(RegardError):
    """A model folder or checkpoint is torn, altered or of another kind."""


class MissingFolderError(UsageError, FolderError):
    """Where a model folder should be there is none: the path was given wrongly (exit code 2)."""


class DivergenceError(RegardError):
    """The loss became NaN, infinite or ran away; the last good weights are kept."""


def suggest_name(given: str, allowed: Iterable[str]) -> str | None:
    """The name of `allowed` that was probably meant: a known synonym first, else the nearest spelling."""
    names = list(allowed)
    key = given.lstrip("-").replace("-", "_").lower()
    by_key = {name.lstrip("-").replace("-", "_").lower(): name for name in names}
    for meant in (key, *SYNONYMS.get(key, ())):
        if meant in by_key:
            return by_key[meant]
    near = difflib.get_close_matches(given, names, n=1, cutoff=0.5)
    return near[0] if near else None


def unknown(what: str, given: str, allowed: Iterable[str]) -> UsageError:
    """The error for a name that is not one of `allowed`, with the one that was probably meant."""
    names = sorted(allowed)
    meant = suggest_name(given, names)
    hint = "" if meant is None else f" Did you mean {meant!r}?"
    message = f"unknown {what} {given!r}.{hint} Known: {', '.join(names)}."
    return UsageError(message, argument=what, value=given, allowed=names, hint=meant)


def number_of(count: int, noun: str, plural: str = "") -> str:
    """A count with its noun: "1 example", "2,000 examples"."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def shorten_list(names: Sequence[str], *, shown: int = 5) -> str:
    """The first few names of a list for a message, and how many more there are."""
    rest = len(names) - shown
    return ", ".join(names[:shown]) + (f" and {rest} more" if rest > 0 else "")


@contextlib.contextmanager
def config_errors(file: Path) -> Iterator[None]:
    """Turn errors about settings into errors about the file that holds them."""
    try:
        yield
    except UsageError as error:
        raise _unusable(file, str(error)) from None
    except KeyError as error:
        raise _unusable(file, f"{error} is missing.") from None
    except (TypeError, AttributeError) as error:
        raise _unusable(file, f"a value is of the wrong type ({error}).") from None


def _unusable(file: Path, what: str) -> FolderError:
    return FolderError(f"{file} cannot be used: {what} Correct it, or copy the folder again.", path=str(file))
