"""Training speed of regard's translation model and MarianMT of `transformers`, with the same shape and batches.

Both run in fp32 with SDPA, fused AdamW, gradient clipping, dropout 0.1, without compilation, with two threads, each in
its own process. Prints target tokens per second without padding for both, and their ratio, in alternating rounds.

    python benchmarks/bench_training_speed.py [--data FOLDER] [--width 256] [--rounds 5]
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
from transformers import MarianConfig, MarianMTModel

from common import multi30k_pairs
from regard.data.batches import BatchPlan
from regard.data.pairs import Pair
from regard.models.transformer.config import TransformerConfig
from regard.models.transformer.model import Transformer
from regard.nn.init import seeded_init
from regard.tasks.base import Splits
from regard.tasks.translate.objective import TranslateObjective, make_batch
from regard.tasks.translate.predictor import TokenizerPair
from regard.tasks.translate.spec import TranslateTraining
from regard.training.data_parallel import DataParallel, choose_num_replicas
from regard.training.environment import keep_freed_memory

Step = Callable[[Sequence[int]], int]


def regard_step(task: TranslateObjective, batch_tokens: int) -> Step:
    keep_freed_memory()  # as `regard train` does
    replicas = DataParallel(task, choose_num_replicas(batch_tokens))
    optimizer = torch.optim.AdamW(task.model.parameters(), lr=1e-4, fused=True)
    task.model.train()

    def step(rows: Sequence[int]) -> int:
        done = replicas.backward([rows], seed=0)
        torch.nn.utils.clip_grad_norm_(task.model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return done.tokens

    return step


def make_objective(
    train: Sequence[Pair], validation: Sequence[Pair], config: TranslateTraining, **shape: Any
) -> TranslateObjective:
    """Pairs with a new translator of this shape."""
    tokenizers = TokenizerPair.train(train, config)
    settings = TransformerConfig(**{**shape, **tokenizers.model_settings()})
    model = seeded_init(lambda: Transformer(settings), seed=config.seed)
    return TranslateObjective(model, tokenizers, Splits(train, validation), config)


def marian_model(config: TransformerConfig) -> MarianMTModel:
    """A new MarianMT of the same shape."""
    return MarianMTModel(
        MarianConfig(
            vocab_size=config.source_vocab_size or config.vocab_size,
            decoder_vocab_size=config.vocab_size,
            share_encoder_decoder_embeddings=config.source_vocab_size is None,
            d_model=config.d_model,
            encoder_layers=config.num_encoder_layers,
            decoder_layers=config.num_decoder_layers,
            encoder_attention_heads=config.num_heads,
            decoder_attention_heads=config.num_heads,
            encoder_ffn_dim=config.d_ff,
            decoder_ffn_dim=config.d_ff,
            activation_function="relu",
            dropout=config.dropout,
            attention_dropout=0.0,
            activation_dropout=0.0,
            scale_embedding=True,
            pad_token_id=0,
            eos_token_id=3,
            forced_eos_token_id=None,
            decoder_start_token_id=2,
            attn_implementation="sdpa",
        )
    )


def marian_step(task: TranslateObjective) -> Step:
    model = marian_model(task.model.config)
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def step(rows: Sequence[int]) -> int:
        sources, targets = [task._sources[i] for i in rows], [task._targets[i] for i in rows]
        batch = make_batch(sources, targets, task.tokenizers)
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
        optimizer.step()
        optimizer.zero_grad()
        return len(batch.next)

    return step


def work(kind: str, asked: argparse.Namespace, pipe: Connection) -> None:
    """A process that trains the batches it receives and reports its speed."""
    torch.set_num_threads(2)
    train, validation = multi30k_pairs(asked.data)
    config = TranslateTraining(vocab_size=asked.vocab_size, label_smoothing=0.0)
    shape = dict(
        num_encoder_layers=asked.layers,
        num_decoder_layers=asked.layers,
        d_model=asked.width,
        d_ff=asked.hidden,
        num_heads=4,
        head_dim=asked.width // 4,
        dropout=0.1,
    )
    task = make_objective(train, validation, config, **shape)
    batches = BatchPlan(max_tokens=asked.batch_tokens).batches(task.lengths(), 0)
    step = regard_step(task, asked.batch_tokens) if kind == "regard" else marian_step(task)
    while (turn := pipe.recv()) is not None:
        first, last = turn
        start = time.perf_counter()
        tokens = sum(step(rows) for rows in batches[first:last])
        pipe.send(tokens / (time.perf_counter() - start))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--data", type=Path, default=None, help="a folder with Multi30k; otherwise the built-in synthetic dataset"
    )
    for flag, usual in (
        ("width", 128),
        ("hidden", 512),
        ("layers", 3),
        ("vocab_size", 6000),
        ("batch-tokens", 8192),
        ("rounds", 5),
        ("batches", 5),
    ):
        parser.add_argument(f"--{flag}", type=int, default=usual)
    asked = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    pipes, workers = {}, []
    for kind in ("regard", "MarianMT"):
        pipes[kind], theirs = context.Pipe()
        workers.append(context.Process(target=work, args=(kind, asked, theirs), daemon=True))
        workers[-1].start()
    rates: dict[str, list[float]] = {kind: [] for kind in pipes}
    for number in range(-1, asked.rounds):  # the first round warms up
        first = (number + 1) * asked.batches
        for kind, pipe in pipes.items():
            pipe.send((first, first + asked.batches))
            rate = pipe.recv()
            if number >= 0:
                rates[kind].append(rate)
        if number >= 0:
            ours, theirs_rate = rates["regard"][-1], rates["MarianMT"][-1]
            print(
                f"round {number + 1}: regard {ours:,.0f}, MarianMT {theirs_rate:,.0f}, ratio {ours / theirs_rate:.2f}"
            )
    for pipe, worker in zip(pipes.values(), workers, strict=True):
        pipe.send(None)
        worker.join()
    best = {kind: max(found) for kind, found in rates.items()}
    median = statistics.median(a / b for a, b in zip(*rates.values(), strict=True))
    print(f"target tokens/s, best: regard {best['regard']:,.0f}, MarianMT {best['MarianMT']:,.0f}")
    print(f"ratio of the best {best['regard'] / best['MarianMT']:.2f}, median of the rounds {median:.2f} (mark 1.30)")


if __name__ == "__main__":
    main()
