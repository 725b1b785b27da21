"""`regard score`: how surprising a text is to a model."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tyro

from regard.checkpoint.presence import check_folder
from regard.cli.flags import parse
from regard.cli.output import answer, answer_json, progress_bar


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Perplexity and bits per byte of a text: the lower, the better the model foresaw it.

    The first token is read only, since nothing comes before it: it counts neither as a token nor with its bytes.
    Bits per byte compare models whose tokens are of different length.
    """

    model: tyro.conf.Positional[Path]  # a model folder
    file: tyro.conf.Positional[Path]  # a text file, plain or .gz
    per_token: bool = False  # print every token with its surprise in bits
    # of the weights: says what rounding them costs. All else is computed in fp32 here; with int8 and int4 `generate`
    # rounds what it multiplies them with, too
    precision: Literal["fp32", "int8", "int4"] = "fp32"
    json: bool = False  # print the scores as JSON


def main(verb: str, arguments: list[str]) -> int:
    asked = parse(Arguments, arguments, program="regard score")
    check_folder(asked.model)
    from regard.data.corpus import Corpus

    text = "".join(stretch.text for stretch in Corpus.find([asked.file]).stretches())
    from regard.tasks.folders import load_writer

    writer = load_writer(asked.model, asked.precision)
    with progress_bar("scoring") as progress:
        score = writer.score(text, progress=progress)
    surprise = [-value / math.log(2) for value in score.log_probs]
    if asked.json:
        found = {"perplexity": score.perplexity, "bits_per_byte": score.bits_per_byte, "loss": score.loss}
        found |= {"tokens": len(score.log_probs), "bytes": score.num_bytes}
        listed = [{"token": t, "bits": b} for t, b in zip(score.tokens[1:], surprise, strict=True)]
        answer_json({**found, "per_token": listed} if asked.per_token else found)
        return 0
    if asked.per_token:
        for token, bits in zip(score.tokens[1:], surprise, strict=True):
            answer(f"{bits:8.3f}  {token!r}")
    answer(f"perplexity     {score.perplexity:.3f} per token ({len(score.log_probs):,} tokens: all but the first)")
    answer(f"bits per byte  {score.bits_per_byte:.4f} ({score.num_bytes:,} bytes: these tokens as UTF-8)")
    return 0
