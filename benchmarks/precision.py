"""The cost of quantization: perplexity of the validation text of WikiText-2 in the compiled decoder.

    python benchmarks/precision.py [--minutes 15] [--out runs/wikitext2]

Trains a GPT with more than ten million parameters on WikiText-2 (an existing `--out` is reused), then scores the
validation text in windows that do not overlap, a few tokens at a time with the decoder used for generation. So the
quantization of keys, values and inputs to 8 bits counts as well as that of the weights.
"""

from __future__ import annotations

import argparse
import gzip
import math
from pathlib import Path
from typing import Any

import torch

import regard
from common import data_folder
from regard.checkpoint.folder import is_model_folder
from regard.generation.backend import gpt_decoder
from regard.nn.quantized import PRECISIONS, count_weights

SHAPE: dict[str, Any] = dict(
    size="small", num_layers=6, d_model=320, d_ff=1280, num_heads=5, vocab_size=8000, context_length=256
)
TOGETHER = 16  # tokens of a window that go through the decoder at once
WINDOWS = 8  # windows at once


@torch.no_grad()
def perplexity(model: Any, ids: torch.Tensor) -> float:
    context = model.config.context_length
    rows = ids[: len(ids) // context * context].view(-1, context)
    decoder, total, count = gpt_decoder(model, backend="kernels"), 0.0, 0
    for first in range(0, len(rows), WINDOWS):
        windows = rows[first : first + WINDOWS]
        logits = [decoder.prefill(windows[:, :1], torch.ones(len(windows), dtype=torch.long))[:, None]]
        logits += [decoder.extend(chunk) for chunk in windows[:, 1:-1].split(TOGETHER, dim=1)]
        found = torch.cat(logits, dim=1).log_softmax(dim=-1).gather(2, windows[:, 1:, None])
        total, count = total - found.double().sum().item(), count + found.numel()
    return math.exp(total / count)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=None)
    parser.add_argument("--minutes", type=float, default=15.0)
    parser.add_argument("--out", type=Path, default=Path("runs/wikitext2"))
    parser.add_argument("--tokens", type=int, default=None, help="read only so many of the validation text")
    asked = parser.parse_args()
    folder = data_folder(asked.data, "wikitext2")
    if folder is None:
        raise SystemExit("WikiText-2 was not found: give --data FOLDER with train.raw.gz and valid.raw.gz")
    train, validation = folder / "train.raw.gz", folder / "valid.raw.gz"
    if not is_model_folder(asked.out):
        regard.train(
            "generate", train, validation=validation, out=asked.out, minutes=asked.minutes, progress=True, **SHAPE
        )
    plain = None
    for precision in PRECISIONS:
        text_generator = regard.load(asked.out, precision=precision)
        text = gzip.decompress(validation.read_bytes()).decode("utf-8")
        ids = torch.from_numpy(text_generator.tokenizer.encode_array(text)[: asked.tokens].astype("int64"))
        found = perplexity(text_generator.model, ids)
        plain = plain or found
        print(
            f"{precision}: perplexity {found:.3f}, {100 * (found / plain - 1):+.2f} % "
            f"({count_weights(text_generator.model) / 1e6:.1f} M weights, {len(ids):,} tokens)",
            flush=True,
        )


if __name__ == "__main__":
    main()
