"""`regard generate`: go on with a text."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import tyro

from regard.checkpoint.presence import check_folder
from regard.cli.flags import parse
from regard.cli.input import read_stdin
from regard.cli.output import answer_json, note
from regard.errors import UsageError
from regard.generation.settings import SamplingConfig, SearchConfig

if TYPE_CHECKING:
    from regard.tasks.generate import Text


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Go on with a text. What is new comes to stdout as it is written, and nothing else does.

    What is not given of --temperature, --top-k and the like is taken from the model's folder.
    """

    model: tyro.conf.Positional[Path]  # a model folder
    prompt: tyro.conf.Positional[str] = ""  # the text to go on with; - reads it from stdin
    max_new_tokens: int | None = None  # how many tokens are written at most
    temperature: float | None = None  # below 1 keeps to the likely; 0 is greedy
    top_k: int | None = None  # draw from so many of the likeliest only
    top_p: float | None = None  # draw from the likeliest that together reach this probability
    min_p: float | None = None  # draw from what is at least this share of the likeliest
    repetition_penalty: float | None = None  # above 1, what is already there becomes less likely
    stop: tuple[str, ...] = ()  # texts that end the writing and are not written
    n: int = 1  # write so many texts
    seed: int | None = None  # the same seed gives the same text
    # search for the likeliest text instead of drawing one, with so many unfinished texts at a time; --n prints several
    beams: int | None = None
    length_penalty: float | None = None  # with --beams: more than 1 favours longer texts
    lookup: bool = False  # guess that a text repeats itself: the same text, sooner if it does
    precision: Literal["fp32", "int8", "int4"] = "fp32"  # of the weights: fewer bits are read faster
    json: bool = False  # a JSON object a text, with its tokens and their log-probabilities


DRAWING = ("temperature", "top_k", "top_p", "min_p", "repetition_penalty", "seed")


def main(verb: str, arguments: list[str]) -> int:
    asked = parse(Arguments, arguments, program="regard generate")
    check_folder(asked.model)
    if asked.n < 1:
        raise UsageError(f"--n must be at least 1, not {asked.n}.")
    if asked.lookup and asked.n > 1:
        raise UsageError("--lookup guesses the next words of one text: leave it out, or --n.")
    names = ("max_new_tokens", *DRAWING)
    sampling = {name: getattr(asked, name) for name in names if getattr(asked, name) is not None}
    sampling |= {"stop": asked.stop} if asked.stop else {}
    SamplingConfig(**sampling)  # what is wrong with it is said before anything is loaded
    search = _search(sampling, asked)
    if search is not None:
        SearchConfig(**{name: value for name, value in search.items() if name != "stop"})
    from regard.tasks.folders import load_writer

    writer = load_writer(asked.model, asked.precision)
    # The end of the last line is that of the command which wrote it, not the end of a line of the text.
    prompt = read_stdin().removesuffix("\n") if asked.prompt == "-" else asked.prompt
    length, context = len(writer.prompt_ids(prompt)), writer.model.config.context
    kept = context - min(writer.config(sampling).max_new_tokens, context // 2)
    if length > kept:
        note(
            f"the prompt has {length:,} tokens and the context {context:,}: the model sees the last {kept:,} of them, "
            f"to have room for what it writes."
        )
    if search is not None:
        wanted, room = writer.config(sampling).max_new_tokens, context - min(length, kept)
        if wanted > room:
            note(
                f"a search stays within the context of {context:,} tokens: it writes at most {room:,} here, not "
                f"{wanted:,}. Without --beams a text may be longer."
            )
        _print(writer.search(prompt, **search), asked)
        return 0
    if asked.json or asked.n > 1:
        if asked.n == 1:
            _print([writer(prompt, lookup=asked.lookup, **sampling)], asked)
        else:
            _print(writer([prompt] * asked.n, **sampling), asked)
        return 0
    for piece in writer.stream(prompt, lookup=asked.lookup, **sampling):
        sys.stdout.write(piece)
        sys.stdout.flush()
    sys.stdout.write("\n")
    return 0


def _search(sampling: dict[str, Any], asked: Arguments) -> dict[str, Any] | None:
    """What --beams asks for; None if nothing is to be searched."""
    if asked.beams is None:
        if asked.length_penalty is not None:
            raise UsageError("--length-penalty is for a search: give --beams, for example --beams 5.")
        return None
    search = {name: value for name, value in sampling.items() if name in ("max_new_tokens", "stop")}
    drawing = [name for name in sampling if name not in search] + ["lookup"] * asked.lookup
    if drawing:
        flags = ", ".join("--" + name.replace("_", "-") for name in drawing)
        raise UsageError(f"--beams searches for the likeliest text and draws nothing: leave out {flags}.")
    if asked.n > max(1, asked.beams):
        raise UsageError(f"--n is {asked.n}, but {asked.beams} beams find at most that many: give --beams {asked.n}.")
    if asked.length_penalty is not None:
        search["length_penalty"] = asked.length_penalty
    return {**search, "beams": asked.beams, "n_best": asked.n}


def _print(texts: Iterable[Text], asked: Arguments) -> None:
    for written in texts:
        if not asked.json:
            sys.stdout.write(written.text + "\n")
            continue
        found = {
            "prompt": written.prompt,
            "text": written.text,
            "ended": written.ended,
            "tokens": written.tokens,
            "log_probs": written.log_probs,
        }
        answer_json(found if written.score is None else {**found, "score": written.score})
