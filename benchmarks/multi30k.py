"""Multi30k, English to German: train for a given time, translate the test set, and score it as in the literature.

    python benchmarks/multi30k.py train --minutes 60 --out runs/multi30k        # regard's default recipe
    python benchmarks/multi30k.py marian --minutes 60 --out runs/multi30k-marian  # a MarianMT of the same size
    python benchmarks/multi30k.py score runs/multi30k                           # score a model folder

Scores: BLEU with tokenize=none on lower-cased Moses tokens, which is what papers on Multi30k report, and cased
sacreBLEU on plain text. Choose a recipe with `--split val`; use the test split only for the final score.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from sacremoses import MosesTokenizer

import regard
from bench_training_speed import make_objective, marian_model
from common import MULTI30K_SHAPE, data_folder, multi30k_pairs
from regard.data.batches import BatchPlan
from regard.data.pairs import Pair, read_pairs
from regard.metrics.translation import bleu, chrf
from regard.nn.masks import pad
from regard.tasks.translate.objective import make_batch
from regard.tasks.translate.spec import TranslateTraining, paper_learning_rate
from regard.training.optimizers import lr_factor


def moses(lines: Sequence[str]) -> list[str]:
    tokenizer = MosesTokenizer("de")
    return [tokenizer.tokenize(line.lower(), return_str=True, escape=False) for line in lines]


def report(outputs: Sequence[str], references: Sequence[str]) -> dict[str, Any]:
    """The scores of the literature and of sacreBLEU, printed and returned."""
    scores = {
        "lower-cased Moses tokens": bleu(moses(outputs), moses(references), tokenize="none"),
        "cased": bleu(outputs, references),
        "chrF": chrf(outputs, references),
    }
    for name, score in scores.items():
        print(f"{name}: {score}", flush=True)
    return {name: {"value": score.value, "signature": score.signature} for name, score in scores.items()}


def pairs_of(data: Path | None, split: str) -> list[Pair]:
    folder = data_folder(data, "multi30k")
    if folder is None:
        raise SystemExit("Multi30k was not found: give --data FOLDER with train.en.gz, train.de.gz …")
    return list(read_pairs([folder / f"{split}.en.gz", folder / f"{split}.de.gz"]).examples)


def train(asked: argparse.Namespace) -> None:
    folder = data_folder(asked.data, "multi30k")
    if folder is None:
        raise SystemExit("Multi30k was not found: give --data FOLDER with train.en.gz, train.de.gz …")
    settings = dict(item.split("=", 1) for item in asked.set)
    values = {name: json.loads(value) if value[:1] in "0123456789-tfn[" else value for name, value in settings.items()}
    regard.train(
        "translate",
        [folder / "train.en.gz", folder / "train.de.gz"],
        validation=[folder / "val.en.gz", folder / "val.de.gz"],
        out=asked.out,
        minutes=asked.minutes,
        seed=asked.seed,
        progress=True,
        force=asked.force,
        **{**MULTI30K, **values},
    )
    score(asked)


# What differs from the defaults of `regard train translate`: more regularisation for few data, and the rates for it.
MULTI30K: dict[str, Any] = dict(
    **MULTI30K_SHAPE,
    bpe_dropout=0.1,
    word_dropout=0.1,
    learning_rate=0.003,
    muon_learning_rate=0.012,
    warmup_steps=100,
    dropout_warmup_epochs=0,
)


def score(asked: argparse.Namespace) -> None:
    translator = regard.load(asked.out)
    pairs = pairs_of(asked.data, asked.split)
    start = time.perf_counter()
    outputs = [t.text for t in translator([pair.source for pair in pairs], num_beams=5, **asked_search(asked))]
    print(f"{asked.split}: {len(pairs)} sentences in {time.perf_counter() - start:.1f} s, beam 5")
    found = report(outputs, [pair.target for pair in pairs])
    (asked.out / f"{asked.split}.json").write_text(json.dumps(found, indent=2), encoding="utf-8")


def asked_search(asked: argparse.Namespace) -> dict[str, Any]:
    return {} if asked.length_penalty is None else {"length_penalty": asked.length_penalty}


def marian(asked: argparse.Namespace) -> None:
    """The peer: same size, same vocabulary and batches, the recipe of 2017, its own generate with beam 5."""
    torch.set_num_threads(2)
    torch.manual_seed(asked.seed)
    training, validation = multi30k_pairs(asked.data)
    separate = MULTI30K["separate_vocabularies"]
    config = TranslateTraining(vocab_size=asked.vocab_size, separate_vocabularies=separate, seed=asked.seed)
    shape = dict(
        num_encoder_layers=asked.layers,
        num_decoder_layers=asked.layers,
        d_model=asked.width,
        d_ff=asked.hidden,
        num_heads=asked.heads,
        head_dim=asked.width // asked.heads,
        dropout=asked.dropout,
    )
    task = make_objective(training, validation, config, **shape)
    tokenizers = task.tokenizers
    model = marian_model(task.model.config)
    print(f"MarianMT, {sum(p.numel() for p in model.parameters()) / 1e6:.2f} M parameters")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1.0, betas=(0.9, 0.98), eps=1e-9, weight_decay=0.0, fused=True)
    criterion = torch.nn.CrossEntropyLoss(ignore_index=-100, label_smoothing=0.1)
    peak = paper_learning_rate(asked.width, asked.warmup)
    snapshots: list[dict[str, torch.Tensor]] = []
    model.train()
    start, step, epoch, tokens = time.perf_counter(), 0, 0, 0
    budget = 60 * asked.minutes
    while time.perf_counter() - start < budget:
        for rows in BatchPlan(max_tokens=asked.batch_tokens, seed=asked.seed).batches(task.lengths(), epoch):
            spent = time.perf_counter() - start
            if spent >= budget:
                break
            factor = lr_factor("inverse-square-root", step=step, progress=0.0, warmup_steps=asked.warmup)
            optimizer.param_groups[0]["lr"] = peak * factor
            batch = make_batch([task._sources[i] for i in rows], [task._targets[i] for i in rows], tokenizers)
            mask = (torch.arange(batch.source.shape[1]) < batch.source_lengths[:, None]).long()
            labels = torch.full_like(batch.target, -100).flatten()
            labels[batch.real] = batch.next
            logits = model(
                input_ids=batch.source, attention_mask=mask, decoder_input_ids=batch.target, use_cache=False
            ).logits
            criterion(logits.flatten(0, 1), labels).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            step, tokens = step + 1, tokens + len(batch.next)
            # The mean of five snapshots over the last fifth of the time, as regard's paper recipe takes it.
            if len(snapshots) < 5 and spent / budget >= 0.8 + 0.05 * len(snapshots):
                snapshots.append({name: value.clone() for name, value in model.state_dict().items()})
        epoch += 1
    seconds = time.perf_counter() - start
    print(f"{step} steps, {epoch} epochs, {tokens / seconds:,.0f} target tokens/s in {seconds / 60:.1f} minutes")
    mean = {n: sum(s[n] for s in snapshots) / len(snapshots) for n in snapshots[0]} if snapshots else model.state_dict()
    model.load_state_dict(mean)
    model.eval()
    for split in ("val", "test_2016_flickr"):
        pairs = pairs_of(asked.data, split)
        outputs = []
        for begin in range(0, len(pairs), 50):
            ids = [[*tokenizers.source.encode(p.source), tokenizers.source.end_id] for p in pairs[begin : begin + 50]]
            source, lengths = pad(ids, tokenizers.source.pad_id)
            mask = (torch.arange(source.shape[1]) < lengths[:, None]).long()
            with torch.no_grad():
                written = model.generate(input_ids=source, attention_mask=mask, num_beams=5, max_new_tokens=128)
            outputs += [tokenizers.target.decode(row.tolist()) for row in written]
        print(split)
        found = report(outputs, [pair.target for pair in pairs])
        asked.out.mkdir(parents=True, exist_ok=True)
        (asked.out / f"{split}.json").write_text(json.dumps(found, indent=2), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    for name, run in (("train", train), ("marian", marian), ("score", score)):
        command = commands.add_parser(name)
        command.set_defaults(run=run)
        command.add_argument("--data", type=Path, default=None)
        command.add_argument("--seed", type=int, default=0)
        command.add_argument("--split", default="test_2016_flickr")
        command.add_argument("--length-penalty", type=float, default=None)
        if name == "score":
            command.add_argument("out", type=Path)
            continue
        command.add_argument("--minutes", type=float, default=60.0)
        command.add_argument("--out", type=Path, required=True)
        if name == "train":
            command.add_argument("--force", action="store_true", help="replace an earlier run in --out")
            command.add_argument("--set", nargs="*", default=[], help="other settings, as name=value")
            continue
        for flag, usual in (("width", 128), ("hidden", 256), ("heads", 4), ("layers", 4), ("vocab_size", 4000)):
            command.add_argument(f"--{flag}", type=int, default=usual)
        command.add_argument("--dropout", type=float, default=0.3)
        command.add_argument("--warmup", type=int, default=1000)
        command.add_argument("--batch-tokens", type=int, default=4096)
    asked = parser.parse_args()
    asked.run(asked)


if __name__ == "__main__":
    main()
