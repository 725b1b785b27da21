"""The errors that regard raises on purpose.

A message states the argument, its value, what is allowed and what to do next; programs find the same in the fields. The
command line prints the message without a traceback. Any other exception that escapes is a bug and keeps its traceback.
"""

from __future__ import annotations

import contextlib
import difflib
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

# Names in regard (left of the colon) and their names in other libraries or common abbreviations (right). The latter are
# only used for suggestions, never accepted. Of several names on the left, the first one that is allowed is suggested.
_SYNONYM_TABLE = """
learning_rate: lr rate; batch_size batch_tokens: bs batch train_batch_size per_device_train_batch_size;
batch_size: batch_rows; d_model: hidden_size hidden_dim width dim embed_dim embedding_dim n_embd;
num_layers num_encoder_layers: num_hidden_layers n_layer n_layers layers depth;
num_heads: num_attention_heads n_head n_heads nhead heads; num_kv_heads: num_key_value_heads key_value_heads;
head_dim: head_width head_size; d_ff: intermediate_size ffn_dim dim_feedforward n_inner hidden;
context_length max_positions: n_positions n_ctx block_size max_position_embeddings; context_length: context;
max_seq_len max_new_tokens: max_length max_tokens; max_seq_len max_length max_new_tokens: max_len;
max_seq_len max_length: max_seq_length; max_seq_len context_length: sequence_length;
vocab_size: pieces vocabulary_size n_vocab; num_beams: beams beam beam_size beam_width; n_best n: num_return_sequences;
weight_decay: wd l2; warmup_steps: warmup num_warmup_steps; schedule: scheduler lr_scheduler lr_scheduler_type;
epochs: num_epochs n_epochs num_train_epochs; steps: max_steps num_steps iterations;
max_grad_norm: clip grad_clip clip_grad_norm gradient_clip_val; adam_eps: adam_epsilon epsilon; beta1: adam_beta1;
beta2: adam_beta2; optimizer: optim; label_smoothing: smoothing label_smoothing_factor;
seed: random_state random_seed rng; val_fraction: validation_share validation_split test_size;
weight_averaging ema_decay: ema; patience: early_stopping_patience; log_every: logging_steps; save_every: save_steps;
num_evals: eval_steps; rope_theta: rope_base; stride: doc_stride; no_answer_threshold: null_score_diff_threshold;
out: output_dir output format csv to; lora_rank: r rank
"""
SYNONYMS: dict[str, tuple[str, ...]] = {
    synonym: tuple(names.split())
    for names, synonyms in (row.split(":") for row in _SYNONYM_TABLE.split(";"))
    for synonym in synonyms.split()
}


class RegardError(Exception):
    """A failure that the user can fix (exit code 1). Fields that do not apply are None."""

    exit_code = 1

    def __init__(
        self,
        message: str = "",
        *,
        argument: str | None = None,  # the argument or setting that is wrong, as in Python: `batch_size`
        value: Any = None,  # its value
        allowed: Iterable[Any] | None = None,  # the valid values
        path: Path | str | None = None,  # the file or folder that is wrong
        line: int | None = None,  # line of that file, counted from 1
        hint: str | None = None,  # the likely intended name, or what to do
    ) -> None:
        super().__init__(message)
        self.argument = argument
        self.value = value
        self.allowed = None if allowed is None else tuple(allowed)
        self.path = None if path is None else Path(path)
        self.line = line
        self.hint = hint


class UsageError(RegardError, ValueError):
    """A wrong request: an unknown name, a value out of range, a missing file (exit code 2)."""

    exit_code = 2


class DataError(RegardError):
    """A data file has rows that cannot be used."""


class MissingColumnError(UsageError, DataError):
    """A table has no column with the given name (exit code 2)."""


class FolderError(RegardError):
    """A model folder or checkpoint is incomplete, altered or of another kind."""


class MissingFolderError(UsageError, FolderError):
    """The given path is not a model folder (exit code 2)."""


class DivergenceError(RegardError):
    """The loss diverged or became NaN or infinite; the last good weights are kept."""


def suggest_name(given: str, allowed: Iterable[str]) -> str | None:
    """Return the allowed name that the user probably meant: a known synonym, otherwise the nearest spelling."""
    names = list(allowed)
    key = given.lstrip("-").replace("-", "_").lower()
    by_key = {name.lstrip("-").replace("-", "_").lower(): name for name in names}
    for meant in (key, *SYNONYMS.get(key, ())):
        if meant in by_key:
            return by_key[meant]
    near = difflib.get_close_matches(given, names, n=1, cutoff=0.5)
    return near[0] if near else None


def unknown(what: str, given: str, allowed: Iterable[str]) -> UsageError:
    """Return the error for a name that is not allowed, with a suggestion; `what` is the kind of name: "task"."""
    names = sorted(allowed)
    meant = suggest_name(given, names)
    hint = "" if meant is None else f" Did you mean {meant!r}?"
    message = f"unknown {what} {given!r}.{hint} Known: {', '.join(names)}."
    return UsageError(message, argument=what, value=given, allowed=names, hint=meant)


def flag(setting: str) -> str:
    """Return the command-line flag of a setting: "--max-grad-norm" for "max_grad_norm"."""
    return "--" + setting.strip("_").replace("_", "-")


def print_message(text: str) -> None:
    """Print a line on stderr. If stderr cannot be written, for example because the disk is full, discard its output."""
    try:
        sys.stderr.write(text + "\n")
        sys.stderr.flush()
    except OSError:  # no reason to end a run; the buffer must be writable when the process exits
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def number_of(count: int, noun: str, plural: str = "") -> str:
    """Return a count with its noun: "1 example", "2,000 examples"."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def shorten_list(names: Sequence[str], *, shown: int = 5) -> str:
    """Return the first few names of a list and the number of the remaining ones, for messages."""
    rest = len(names) - shown
    return ", ".join(names[:shown]) + (f" and {rest} more" if rest > 0 else "")


@contextlib.contextmanager
def config_errors(file: Path) -> Iterator[None]:
    """Turn errors about settings into errors about the file that contains the settings."""
    try:
        yield
    except (UsageError, KeyError, TypeError, AttributeError) as error:
        reason = f"a value has the wrong type ({error})."
        if isinstance(error, UsageError | KeyError):
            reason = str(error) if isinstance(error, UsageError) else f"{error} is missing."
        raise FolderError(
            f"{file} cannot be used: {reason} Correct it, or copy the folder again.",
            argument=getattr(error, "argument", None),
            value=getattr(error, "value", None),
            path=file,
        ) from None
