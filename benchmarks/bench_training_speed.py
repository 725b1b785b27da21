"""Training speed: regard's translator beside a MarianMT of `transformers`, same shape, same batches.

Both in fp32 with SDPA, fused AdamW, gradient clipping, dropout 0.1, eager, two threads. Printed: real (not padding)
target tokens per second of both and their ratio, in alternating rounds, best and median.

    python benchmarks/bench_training_speed.py [--data FOLDER] [--width 256] [--rounds 5]
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from common import multi30k_pairs
from transformers import MarianConfig, MarianMTModel

from regard.data.batches import token_batches
from regard.tasks.translate import TranslateConfig, TranslateTask, Vocabularies, make_batch, make_model


def regard_step(task: TranslateTask) -> Callable[[Sequence[int]], int]:
    optimiser = torch.optim.AdamW(task.model.parameters(), lr=1e-4, fused=True)
    task.model.train()

    def step(rows: Sequence[int]) -> int:
        loss = task.loss(rows)
        loss.train.backward()
        torch.nn.utils.clip_grad_norm_(task.model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad()
        return loss.tokens

    return step


def marian_step(task: TranslateTask) -> Callable[[Sequence[int]], int]:
    config = task.model.config
    model = MarianMTModel(
        MarianConfig(
            vocab_size=config.vocab_size,
            d_model=config.width,
            encoder_layers=config.encoder_layers,
            decoder_layers=config.decoder_layers,
            encoder_attention_heads=config.heads,
            decoder_attention_heads=config.heads,
            encoder_ffn_dim=config.hidden,
            decoder_ffn_dim=config.hidden,
            activation_function="relu",
            dropout=config.dropout,
            attention_dropout=0.0,
            activation_dropout=0.0,
            scale_embedding=True,
            pad_token_id=0,
            eos_token_id=3,
            decoder_start_token_id=2,
            attn_implementation="sdpa",
        )
    )
    model.train()
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def step(rows: Sequence[int]) -> int:
        sources, targets = [task._sources[i] for i in rows], [task._targets[i] for i in rows]
        batch = make_batch(sources, targets, task.vocabularies)
        mask = torch.arange(batch.source.shape[1]) < batch.source_lengths[:, None]
        labels = torch.full_like(batch.target, -100).flatten()
        labels[batch.real] = batch.next
        out = model(
            input_ids=batch.source,
            attention_mask=mask.long(),
            decoder_input_ids=batch.target,
            labels=labels.view_as(batch.target),
            use_cache=False,
        )
        out.loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad()
        return len(batch.next)

    return step


def speed(step: Callable[[Sequence[int]], int], batches: Sequence[Sequence[int]]) -> float:
    start = time.perf_counter()
    tokens = sum(step(rows) for rows in batches)
    return tokens / (time.perf_counter() - start)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=None, help="a folder with Multi30k; otherwise the built-in world")
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--batch-tokens", type=int, default=4096)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batches", type=int, default=8)
    asked = parser.parse_args()
    torch.set_num_threads(2)
    train, validation = multi30k_pairs(asked.data)
    config = TranslateConfig(pieces=8000)
    vocabularies = Vocabularies.train(train, config)
    shape = dict(
        encoder_layers=asked.layers,
        decoder_layers=asked.layers,
        width=asked.width,
        hidden=2 * asked.width,
        heads=4,
        head_width=asked.width // 4,
        dropout=0.1,
    )
    task = TranslateTask(
        model=make_model(vocabularies, shape, seed=0),
        vocabularies=vocabularies,
        train=train,
        validation=validation,
        config=config,
        label_smoothing=0.0,
    )
    batches = token_batches(task.lengths(), max_tokens=asked.batch_tokens, seed=0, epoch=0)
    ours, theirs = regard_step(task), marian_step(task)
    for step in (ours, theirs):
        speed(step, batches[:2])
    ratios, best = [], {"regard": 0.0, "MarianMT": 0.0}
    for number in range(asked.rounds):
        chosen = batches[2 + number * asked.batches : 2 + (number + 1) * asked.batches]
        a, b = speed(ours, chosen), speed(theirs, chosen)
        best = {"regard": max(best["regard"], a), "MarianMT": max(best["MarianMT"], b)}
        ratios.append(a / b)
        print(f"round {number + 1}: regard {a:,.0f}, MarianMT {b:,.0f} target tokens/s, ratio {a / b:.2f}", flush=True)
    print(
        f"best: regard {best['regard']:,.0f}, MarianMT {best['MarianMT']:,.0f}, ratio {best['regard'] / best['MarianMT']:.2f}; "
        f"median ratio {statistics.median(ratios):.2f}"
    )


if __name__ == "__main__":
    main()
