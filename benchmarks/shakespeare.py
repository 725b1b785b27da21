"""Tiny Shakespeare by characters: regard's GPT against nanoGPT's CPU recipe, in time to the same loss and in loss.

    python benchmarks/shakespeare.py [--rounds 5] [--steps 225]          # the time to a loss of 1.88
    python benchmarks/shakespeare.py --best [--seconds 115]              # the lowest loss in nanoGPT's time

The baseline is a plain GPT with nanoGPT's settings for a CPU: 4 layers, 4 heads, d_model 128, context 64, 2,000 steps
of 12 × 64 characters, AdamW at 1e-3 with warmup and cosine decay. Both train on the first 90 % of the text. The loss is
the mean over the whole validation text in windows of 64 characters that do not overlap. Time is the wall time of the
training steps, without evaluation; neither model is compiled. Runs alternate, and each round has another seed.
"""

from __future__ import annotations

import argparse
import gzip
import math
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import regard
from common import data_folder
from regard.training.callbacks import read_metrics

CONTEXT = 64
GOAL = 1.88

# Changes to the defaults of `regard train generate --size tiny`: the context, and smaller batches.
FAST: dict[str, Any] = dict(size="tiny", tokenizer="char", context_length=CONTEXT, batch_tokens=1024)
BEST: dict[str, Any] = dict(size="tiny", tokenizer="char", context_length=128, batch_tokens=4096)


class PlainGPT(nn.Module):
    """A GPT of torch's own modules, as in nanoGPT: learned positions, pre-norm, GELU, no biases."""

    def __init__(self, vocab_size: int, *, num_layers: int = 4, num_heads: int = 4, d_model: int = 128) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.tokens, self.positions = nn.Embedding(vocab_size, d_model), nn.Embedding(CONTEXT, d_model)
        self.blocks = nn.ModuleList(
            nn.ModuleDict(
                {
                    "norm1": nn.LayerNorm(d_model, bias=False),
                    "qkv": nn.Linear(d_model, 3 * d_model, bias=False),
                    "out": nn.Linear(d_model, d_model, bias=False),
                    "norm2": nn.LayerNorm(d_model, bias=False),
                    "up": nn.Linear(d_model, 4 * d_model, bias=False),
                    "down": nn.Linear(4 * d_model, d_model, bias=False),
                }
            )
            for _ in range(num_layers)
        )
        self.norm = nn.LayerNorm(d_model, bias=False)
        for name, param in self.named_parameters():
            if param.dim() == 2:
                last = name.endswith(("out.weight", "down.weight"))
                nn.init.normal_(param, std=0.02 / math.sqrt(2 * num_layers) if last else 0.02)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.tokens(ids) + self.positions.weight[: ids.shape[1]]
        for block in self.blocks:
            q, k, v = block["qkv"](block["norm1"](x)).unflatten(-1, (3, self.num_heads, -1)).permute(2, 0, 3, 1, 4)
            heads = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + block["out"](heads.transpose(1, 2).flatten(2))
            x = x + block["down"](F.gelu(block["up"](block["norm2"](x))))
        return F.linear(self.norm(x), self.tokens.weight)


def nano(train: Tensor, *, seed: int = 0, steps: int = 2000) -> tuple[PlainGPT, float]:
    """Train with nanoGPT's recipe; returns the model and the seconds of its training steps."""
    torch.manual_seed(seed)
    model = PlainGPT(int(train.max()) + 1)
    matrices = [param for param in model.parameters() if param.dim() >= 2]
    vectors = [param for param in model.parameters() if param.dim() < 2]
    groups = [dict(params=matrices, weight_decay=0.1), dict(params=vectors, weight_decay=0.0)]
    optimizer = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.99), fused=True)
    start = time.perf_counter()
    for step in range(steps):
        warmup, cosine = min(1.0, (step + 1) / 100), 0.5 * (1 + math.cos(math.pi * step / steps))
        for group in optimizer.param_groups:
            group["lr"] = warmup * (1e-4 + 9e-4 * cosine)
        places = torch.randint(len(train) - CONTEXT - 1, (12,))
        rows = torch.stack([train[place : place + CONTEXT + 1] for place in places])
        loss = F.cross_entropy(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return model, time.perf_counter() - start


def ours(folder: Path, **settings: Any) -> tuple[nn.Module, float, list[str]]:
    """Train with regard's recipe; returns the model, the seconds of its training steps and its characters."""
    with tempfile.TemporaryDirectory() as out:
        generator = regard.train(
            "generate",
            folder / "train.txt",
            validation=folder / "validation.txt",
            out=Path(out) / "run",
            num_evals=0,
            save_every=1e6,
            **settings,
        )
        seconds = float(read_metrics(Path(out) / "run")[-1]["seconds"])
    tokenizer = generator.tokenizer
    return generator.model, seconds, [tokenizer.decode([i]) for i in range(tokenizer.vocab_size)]


@torch.no_grad()
def loss_of(model: nn.Module, ids: Tensor, context: int = CONTEXT) -> float:
    """Mean cross-entropy over windows that do not overlap."""
    count = (len(ids) - 1) // context
    x = ids[: count * context].view(count, context)
    y = ids[1 : count * context + 1].view(count, context)
    total = sum(
        F.cross_entropy(model(x[i : i + 256]).flatten(0, 1), y[i : i + 256].flatten(), reduction="sum").item()
        for i in range(0, count, 256)
    )
    return total / (count * context)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=None)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=225, help="training steps of regard's recipe")
    parser.add_argument("--best", action="store_true", help="the lowest loss in the time of nanoGPT's recipe")
    parser.add_argument("--seconds", type=float, default=None, help="that time, if known")
    args = parser.parse_args()
    place = data_folder(args.data, "tinyshakespeare")
    if place is None:
        raise SystemExit("tiny Shakespeare was not found: give --data FOLDER with input.txt.gz")
    text = gzip.decompress((place / "input.txt.gz").read_bytes()).decode("utf-8")
    split = int(len(text) * 0.9)
    letters = sorted(set(text))
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "train.txt").write_text(text[:split], encoding="utf-8")
        (folder / "validation.txt").write_text(text[split:], encoding="utf-8")
        if args.best:
            seconds = args.seconds or nano(numbers(text[:split], letters))[1]
            model, spent, characters = ours(folder, minutes=seconds / 60, **BEST)
            context = int(BEST["context_length"])
            loss = loss_of(model, numbers(text[split:], characters), context)
            print(f"regard: {loss:.4f} in {spent:.1f} s, context {context} (nanoGPT's recipe takes {seconds:.1f} s)")
            return
        shares, losses = [], []
        for seed in range(args.rounds):
            peer, peer_seconds = nano(numbers(text[:split], letters), seed=seed)
            peer_loss = loss_of(peer, numbers(text[split:], letters))
            model, own_seconds, characters = ours(folder, steps=args.steps, seed=seed, **FAST)
            own_loss = loss_of(model, numbers(text[split:], characters))
            shares.append(own_seconds / peer_seconds)
            losses.append(own_loss)
            print(
                f"nanoGPT's recipe: {peer_loss:.4f} in {peer_seconds:.1f} s; regard: {own_loss:.4f} in "
                f"{own_seconds:.1f} s, {shares[-1]:.3f} of the time",
                flush=True,
            )
        print(
            f"medians: {statistics.median(shares):.3f} of the time, loss {statistics.median(losses):.4f} "
            f"(goal: 0.2 of the time at a loss of at most {GOAL})"
        )


def numbers(text: str, characters: list[str]) -> Tensor:
    known = {character: number for number, character in enumerate(characters)}
    return torch.tensor([known[character] for character in text])


if __name__ == "__main__":
    main()
