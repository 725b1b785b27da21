"""The cost of `capture`: the time of a forward pass over 2,048 tokens with and without it, and the memory it adds.

The two alternate, so that noise affects both. Prints the median ratio, and the added bytes at 512, 1,024 and 2,048
tokens, which must grow linearly, not quadratically.
"""

from __future__ import annotations

import statistics
import time

import torch

from regard.models.transformer.config import PRESETS, TransformerConfig
from regard.models.transformer.model import Transformer
from regard.nn.attention import NO_MASK
from regard.nn.hooks import capture

TOKENS = 2048
PAIRS = 15


def main() -> None:
    torch.set_num_threads(2)
    torch.manual_seed(0)
    model = Transformer(TransformerConfig(**{**PRESETS["base"], "vocab_size": 8000})).eval()
    ids = torch.randint(8000, (1, TOKENS))

    @torch.no_grad()
    def plain(tokens: int = TOKENS) -> float:
        start = time.perf_counter()
        model.decode(ids[:, :tokens], model.encode(ids[:, :tokens], NO_MASK))
        return time.perf_counter() - start

    @torch.no_grad()
    def captured(tokens: int = TOKENS) -> tuple[float, int]:
        start = time.perf_counter()
        with capture(model) as trace:
            model.decode(ids[:, :tokens], model.encode(ids[:, :tokens], NO_MASK))
        taken = time.perf_counter() - start
        storages = {
            t.untyped_storage().data_ptr(): t.untyped_storage() for r in trace.captured.values() for t in (r.q, r.k)
        }
        return taken, sum(storage.nbytes() for storage in storages.values())

    plain(), captured()
    ratios = []
    for number in range(PAIRS):
        if number % 2:
            without, (with_capture, _) = plain(), captured()
        else:
            (with_capture, _), without = captured(), plain()
        ratios.append(with_capture / without)
    print(
        f"time with capture / without, {TOKENS} tokens, median of {PAIRS}: {statistics.median(ratios):.3f} (mark 1.05)"
    )
    sizes = {tokens: captured(tokens)[1] for tokens in (512, 1024, 2048)}
    print("added memory: " + ", ".join(f"{tokens} tokens {size / 1e6:.1f} MB" for tokens, size in sizes.items()))
    print(f"growth from 512 to 2,048 tokens: × {sizes[2048] / sizes[512]:.2f} (linear is × 4, quadratic × 16)")


if __name__ == "__main__":
    main()
