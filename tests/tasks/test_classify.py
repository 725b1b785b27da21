"""Classifying texts and pairs: encoding, truncation, frozen parts, losses, scores, predictions, learning."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import regard
from regard.checkpoint.folder import read_model, write_model
from regard.metrics.labels import label_names
from regard.models.bert.config import BertConfig
from regard.models.bert.model import Bert, BertForSequenceClassification
from regard.models.heads import HeadConfig
from regard.nn.init import seeded_init
from regard.nn.state_dict import unique_tensors
from regard.registry import architectures
from regard.tasks.base import Gold, LabelledExample, Splits, Text
from regard.tasks.classify.predictor import Classifier
from regard.tasks.encoder.objective import (
    SPECIAL_TOKENS,
    EncoderInit,
    SequenceObjective,
    class_weights,
    freeze,
    lr_multipliers,
)
from regard.tasks.encoder.predictor import (
    baseline,
    collate,
    encode_pairs,
    encode_texts,
    most_common_labels,
    predict_logits,
    sequence_scores,
    truncate_pair,
)
from regard.tasks.pair.predictor import PairClassifier
from regard.tokenizers.tokenizer import Tokenizer
from regard.tokenizers.training import train_tokenizer
from regard.training.run import TrainRequest
from regard.utils.errors import FolderError, UsageError

LABELS = ("bad", "good")
SINGLE = HeadConfig(kind="sequence_classification", labels=LABELS)
SEVERAL = HeadConfig(kind="sequence_classification", labels=LABELS, problem_type="multi_label_classification")
NUMBER = HeadConfig(kind="sequence_classification", labels=("number",), problem_type="regression")


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    texts = ["a b c d e f g h", "good bad film long"] * 5
    return train_tokenizer(texts, kind="wordpiece", vocab_size=60, special_tokens=SPECIAL_TOKENS, lowercase=True)


def shape(tokenizer: Tokenizer, **changes: Any) -> BertConfig:
    small = dict(num_layers=3, d_model=12, d_ff=20, num_heads=2, head_dim=6, context_length=23, dropout=0.0)
    return BertConfig(vocab_size=tokenizer.vocab_size, **{**small, **changes})


def build(tokenizer: Tokenizer, head: HeadConfig, *, seed: int = 0, **changes: Any) -> Any:
    return seeded_init(lambda: architectures["bert"].build(shape(tokenizer, **changes), head), seed=seed)


def examples(texts: list[Any], gold: list[Any]) -> list[LabelledExample]:
    return [LabelledExample(text, value) for text, value in zip(texts, gold, strict=True)]


def objective(
    model: Any,
    tokenizer: Tokenizer,
    head: HeadConfig,
    texts: list[Any],
    gold: list[Any],
    *,
    validation: list[LabelledExample] | None = None,
    task: str = "classify",
    **settings: Any,
) -> Any:
    train = examples(texts, gold)
    request = TrainRequest.parse(task, {"steps": 1, **settings}, out=Path("absent"))
    splits = Splits(train, train if validation is None else validation, head=head)
    return SequenceObjective(EncoderInit(model, tokenizer, head, 16), request, splits)


# --- Encoding -----------------------------------------------------------------------------------------------


def test_m155_texts_and_pairs_have_special_tokens(tokenizer: Tokenizer) -> None:
    (text,) = encode_texts(tokenizer, ["a b c d"], 5)
    assert tokenizer.tokens(text.ids) == ["[CLS]", "a", "b", "c", "[SEP]"]
    assert text.dropped == 1
    (pair,) = encode_pairs(tokenizer, [("a b", "c")], 20)
    assert tokenizer.tokens(pair.ids) == ["[CLS]", "a", "b", "[SEP]", "c", "[SEP]"]
    ids, lengths, type_ids = collate([pair, text], tokenizer.pad_id, torch.device("cpu"))
    assert ids.shape == (2, 6)
    assert lengths is not None and lengths.tolist() == [6, 5]
    assert type_ids is not None and type_ids.tolist() == [[0, 0, 0, 0, 1, 1], [0] * 6]
    assert collate([text], tokenizer.pad_id, torch.device("cpu"))[1:] == (None, None)


def test_m155_the_longer_text_of_a_pair_is_truncated_first() -> None:
    for first in range(9):
        for second in range(9):
            for max_len in range(1, 12):
                left, right = first, second  # token by token, as the definition says
                while left + right > max_len:
                    left, right = (left - 1, right) if left > right else (left, right - 1)
                assert truncate_pair(first, second, max_len) == (left, right), (first, second, max_len)


@pytest.mark.parametrize(("words", "truncated"), [(14, 0), (15, 1)])
def test_texts_that_fit_exactly_are_not_reported_as_truncated(words: int, truncated: int, tokenizer: Tokenizer) -> None:
    """Fourteen words, [CLS] and [SEP] are sixteen tokens."""
    text = " ".join(["a"] * words)
    task = objective(build(tokenizer, SINGLE), tokenizer, SINGLE, [text, "b"], [("good",), ("bad",)])
    assert len([note for note in task.notes if note.startswith("length:")]) == truncated
    notes: list[str] = []
    Classifier(task.model, tokenizer, head=SINGLE, max_seq_len=16).predict([text], notify=notes.append)
    assert len(notes) == truncated


def test_batched_equals_single(tokenizer: Tokenizer) -> None:
    model = build(tokenizer, SINGLE).double().eval()
    rows = encode_pairs(tokenizer, [("a b", "c"), ("a b c d e f", "g h"), ("h", "a b c")], 23)
    together = predict_logits(model, rows, tokenizer.pad_id)
    for row, found in zip(rows, together, strict=True):
        alone = model(*collate([row], tokenizer.pad_id, torch.device("cpu")))[0]
        torch.testing.assert_close(found, alone.float(), atol=1e-6, rtol=0)


# --- Parts of a pretrained encoder --------------------------------------------------------------------------


def test_m149_frozen_parts(tokenizer: Tokenizer) -> None:
    def trained(part: str, *, new_pooler: bool = False) -> set[str]:
        bert = Bert(shape(tokenizer))
        assert bert.pooler is not None
        freeze(bert, part, trainable=[bert.pooler] if new_pooler else [])
        return {".".join(name.split(".")[:2]) for name, param in bert.named_parameters() if param.requires_grad}

    layers = {"encoder.0", "encoder.1", "encoder.2"}
    head = {"pooler.weight", "pooler.bias"}
    assert trained("nothing") > layers | head
    assert trained("embeddings") == layers | head
    assert trained("2") == {"encoder.2"} | head
    assert trained("encoder") == set()
    assert trained("encoder", new_pooler=True) == head, "random weights have to be trained"
    with pytest.raises(UsageError) as error:
        freeze(Bert(shape(tokenizer)), "4")
    assert (error.value.argument, error.value.value) == ("freeze", 4)


def test_m149_lower_layers_have_a_lower_learning_rate(tokenizer: Tokenizer) -> None:
    bert = Bert(shape(tokenizer))
    factors = lr_multipliers(bert, 0.5)
    assert [factors[block.feed_forward.up_proj.weight] for block in bert.encoder] == [0.125, 0.25, 0.5]
    assert factors[bert.embedding.weight] == 0.0625
    assert bert.pooler is not None and bert.pooler.weight not in factors
    assert lr_multipliers(bert, 1.0) == {}
    bert.embedding.weight.data.mul_(12)  # of 0.02, which is usual
    rms = bert.embedding.weight.detach().square().mean().sqrt().item()
    scaled = factors[bert.embedding.weight] * rms / 0.06
    assert lr_multipliers(bert, 1.0)[bert.embedding.weight] == pytest.approx(rms / 0.06)
    assert lr_multipliers(bert, 0.5)[bert.embedding.weight] == pytest.approx(scaled)
    assert lr_multipliers(bert, 0.5)[bert.embedding.norm.weight] == factors[bert.embedding.norm.weight]


# --- Losses -------------------------------------------------------------------------------------------------


def test_class_weights_make_labels_count_the_same(tokenizer: Tokenizer) -> None:
    weights = class_weights([1, 1, 1, 0], 2)
    assert weights.tolist() == pytest.approx([2.0, 2 / 3])
    splits = Splits(examples(["a"], [("good",)]), examples(["b"], [("bad",)]), head=SEVERAL)
    request = TrainRequest.parse("classify", {"class_weights": "balanced"}, out=Path("absent"))
    with pytest.raises(UsageError) as error:
        SequenceObjective.prepare(splits, request)
    assert error.value.argument == "class_weights"


def test_balanced_labels_weigh_in_both_losses(tokenizer: Tokenizer) -> None:
    texts, gold = ["a", "b c", "d e f", "g"], [("good",), ("good",), ("good",), ("bad",)]
    model = build(tokenizer, SINGLE, seed=1).eval()
    task = objective(model, tokenizer, SINGLE, texts, gold, class_weights="balanced")
    results = Classifier(model, tokenizer, head=SINGLE)(texts)
    surprise = [-math.log(result.scores[label]) for result, (label,) in zip(results, gold, strict=True)]
    weighted = (sum(surprise[:3]) * 2 / 3 + surprise[3] * 2) / 4
    assert task.loss(range(4)).train.item() == pytest.approx(weighted, rel=1e-4)
    assert task.validation_loss() == pytest.approx(weighted, rel=1e-4), "the weights that are kept are best at that"


@pytest.mark.parametrize(
    ("head", "gold"),
    [
        (SINGLE, [("bad",), ("good",), ("good",)]),
        (SEVERAL, [(), ("bad", "good"), ("good",)]),
        (NUMBER, [0.5, 2.0, 1.0]),
    ],
    ids=["single", "several", "number"],
)
def test_the_loss_is_the_mean_over_examples(head: HeadConfig, gold: list[Gold], tokenizer: Tokenizer) -> None:
    texts = ["a b", "c", "d e f g"]
    model = build(tokenizer, head, seed=1).eval()
    task = objective(model, tokenizer, head, texts, gold)
    each = [task.loss([index]).train.item() for index in range(3)]
    assert task.loss([0, 1, 2]).train.item() == pytest.approx(sum(each) / 3, rel=1e-5)
    assert task.validation_loss() == pytest.approx(sum(each) / 3, rel=1e-5)
    results = Classifier(model, tokenizer, head=head)(texts)
    if head is NUMBER:
        assert each[1] == pytest.approx((results[1].number - 2.0) ** 2, rel=1e-4)
        assert results[1].score == results[1].number
    elif head is SINGLE:
        assert each[1] == pytest.approx(-math.log(results[1].scores["good"]), rel=1e-4)
        assert sum(results[0].scores.values()) == pytest.approx(1)
        assert results[0].score == results[0].scores[results[0].label]
    else:
        assert results[0].labels == tuple(label for label, score in results[0].scores.items() if score >= 0.5)
        low, high = (Classifier(model, tokenizer, head=head)("a b", threshold=value) for value in (0.0, 1.0))
        assert (low.labels, high.labels) == (LABELS, ())


def test_other_labels_give_another_fingerprint(tokenizer: Tokenizer) -> None:
    texts, gold = ["a b", "c", "d e f"], [("good",), ("good",), ("bad",)]

    def fingerprint(train: Any = gold, validation: Any = gold, head: HeadConfig = SINGLE, last: Text = "d") -> str:
        other = examples([*texts[:2], last], validation)
        task = objective(build(tokenizer, head), tokenizer, head, texts, train, validation=other)
        return str(task.fingerprint())

    changed = [("good",), ("bad",), ("bad",)]
    renamed = HeadConfig(kind="sequence_classification", labels=("worse", "good"))
    relabelled = [("good",), ("good",), ("worse",)]
    assert fingerprint() == fingerprint()
    found = [
        fingerprint(),
        fingerprint(train=changed),
        fingerprint(validation=changed),
        fingerprint(relabelled, relabelled, renamed),
        fingerprint(last="e"),
    ]
    assert len(set(found)) == len(found)


# --- Scores -------------------------------------------------------------------------------------------------


def test_m153_scores_beside_the_majority() -> None:
    gold: list[Gold] = [("good",), ("good",), ("bad",)]
    scores = {score.name: score.value for score in sequence_scores([("good",), ("bad",), ("bad",)], gold, SINGLE)}
    assert scores["accuracy"] == pytest.approx(200 / 3)
    assert list(scores) == ["accuracy", "macro F1", "F1 of good", "Matthews"]
    assert [score.name for score in sequence_scores(gold, gold, SEVERAL)] == ["accuracy", "macro F1", "micro F1"]
    common, mean = baseline(most_common_labels([("bad",), ("good",), ("good",)]), ["a"] * 3, gold, SINGLE)
    assert (common.name, common.value) == ("accuracy of the majority", pytest.approx(200 / 3))
    assert (mean.name, mean.value) == ("macro F1 of the majority", pytest.approx(100 * (2 * 2 / 5) / 2))
    assert common.signature.startswith("always:good|")
    assert [score.name for score in sequence_scores([1.0, 2.0], [2.0, 4.0], NUMBER)] == ["Pearson", "Spearman"]
    assert most_common_labels([1.0]) is None
    assert baseline(None, ["a text"], [1.0], NUMBER) == [], "one text shares no words with another"
    pairs: list[Text] = [("a b", "a b"), ("a b", "c d"), ("a b", "a c")]  # they share all words, none, a third
    found = {score.name: score.value for score in baseline(None, pairs, [3.0, 1.0, 2.0], NUMBER)}
    assert found["Spearman of word overlap"] == pytest.approx(100)
    overlaps, golds = np.array([1, 0, 1 / 3]), np.array([3.0, 1.0, 2.0])
    assert found["Pearson of word overlap"] == pytest.approx(100 * np.corrcoef(overlaps, golds)[0, 1])


def test_m153_the_majority_is_that_of_training_and_not_of_the_test(tokenizer: Tokenizer, tmp_path: Path) -> None:
    """In training good is common, in the test bad is: always predicting good is right once in four times."""
    (tmp_path / "test.tsv").write_text("text\tlabel\na\tbad\nb\tbad\nc\tbad\nd\tgood\n", encoding="utf-8")
    model = build(tokenizer, SINGLE)
    task = objective(model, tokenizer, SINGLE, ["a b", "c d", "e f"], [("good",), ("good",), ("bad",)])
    task.predictor().save(tmp_path / "m")
    for classifier in (task.predictor(), regard.load(tmp_path / "m")):
        scores = {score.name: score.value for score in regard.evaluate(classifier, tmp_path / "test.tsv")}
        assert scores["accuracy of the majority"] == 25
        assert scores["macro F1 of the majority"] == pytest.approx(100 * (2 / 5) / 2)
    old = Classifier(model, tokenizer, head=SINGLE)  # as from a folder that does not name it
    scores = {score.name: score.value for score in regard.evaluate(old, tmp_path / "test.tsv")}
    assert scores["accuracy of this file's own majority"] == 75
    assert "accuracy of the majority" not in scores
    folder = read_model(tmp_path / "m")
    texts = {"tokenizer.json": tokenizer.to_json()}
    wrong = {**folder.config, "majority_label": ["so-so"]}
    write_model(tmp_path / "w", config=wrong, tensors=unique_tensors(model), texts=texts)
    with pytest.raises(FolderError) as error:
        regard.load(tmp_path / "w")
    assert (error.value.argument, error.value.value) == ("majority_label", ["so-so"])


# --- Predictors ---------------------------------------------------------------------------------------------


def test_one_token_type_is_enough_for_single_texts(tokenizer: Tokenizer) -> None:
    model = build(tokenizer, SINGLE, type_vocab_size=1)
    assert Classifier(model, tokenizer, head=SINGLE)("a b").label in LABELS
    with pytest.raises(UsageError) as error:
        PairClassifier(model, tokenizer, head=SINGLE)("a", "b")
    assert (error.value.argument, error.value.value) == ("type_vocab_size", 1)
    with pytest.raises(UsageError) as error:
        objective(model, tokenizer, SINGLE, [("a", "b")], [("good",)], task="pair")
    assert error.value.argument == "type_vocab_size"


def test_inputs_must_be_texts_or_pairs(tokenizer: Tokenizer) -> None:
    model = build(tokenizer, SINGLE)
    texts, pairs = Classifier(model, tokenizer, head=SINGLE), PairClassifier(model, tokenizer, head=SINGLE)
    assert pairs("a", "b") == pairs(("a", "b")) == pairs([("a", "b")])[0]
    for call in (
        lambda: texts(("a", "b")),
        lambda: texts("a", "b"),
        lambda: texts(["a", 2]),
        lambda: pairs("a"),
        lambda: pairs(["a"], "b"),
        lambda: pairs([("a", "b", "c")]),
    ):
        with pytest.raises(UsageError) as error:
            call()
        assert error.value.argument == "inputs"


def test_remarks_on_inputs(tokenizer: Tokenizer) -> None:
    model = build(tokenizer, SINGLE)
    texts, pairs = Classifier(model, tokenizer, head=SINGLE), PairClassifier(model, tokenizer, head=SINGLE)
    notes: list[str] = []
    assert len(texts(["", "a " * 100_000], notify=notes.append)) == 2
    assert [note.endswith(": text 2.") for note in notes] == [True, False]
    assert [note.endswith(": text 1.") for note in notes] == [False, True]
    notes.clear()
    assert len(pairs([("a", "b"), ("", "b"), ("a", " "), ("", "")], notify=notes.append)) == 4
    (note,) = notes
    assert note.endswith(": pair 2, 3, 4.")
    notes.clear()
    texts(["a", "b"], notify=notes.append)
    pairs([("a", "b")], notify=notes.append)
    assert notes == []


def test_results_have_fields_and_a_short_repr(tokenizer: Tokenizer) -> None:
    classifier = Classifier(build(tokenizer, SINGLE), tokenizer, head=SINGLE)
    result = classifier("a b")
    assert str(result) == result.label
    assert result.record() == {
        "text": "a b",
        "label": result.label,
        "labels": [result.label],
        "score": round(result.score, 6),
        "scores": {label: round(score, 6) for label, score in result.scores.items()},
    }
    assert repr(result) == f"Classification(label={result.label!r}, score={result.score:.4g})"
    num_parameters = sum(parameter.numel() for parameter in classifier.model.parameters())
    assert repr(classifier) == f"Classifier({num_parameters:,} parameters, bad, good)"
    number = PairClassifier(build(tokenizer, NUMBER), tokenizer, head=NUMBER)("a", "b")
    assert number.record() == {"first": "a", "second": "b", "number": round(number.score, 6)}
    assert repr(number) == f"Classification(number={number.score:.4g})"


@pytest.mark.parametrize("kind", [Classifier, PairClassifier])
def test_saved_equals_loaded(kind: Any, tokenizer: Tokenizer, tmp_path: Path) -> None:
    model = build(tokenizer, SINGLE, seed=3)
    before = kind(model, tokenizer, head=SINGLE, max_seq_len=11)
    before.save(tmp_path / "m")
    after = regard.load(tmp_path / "m")
    assert type(after) is kind
    assert (after.head, after.max_seq_len) == (SINGLE, 11)
    text = "a b c" if kind is Classifier else ("a b", "c")
    assert after(text) == before(text)
    assert after.embed(["a b"]).shape == (1, 12)
    assert regard.load(tmp_path / "m", task="embed")("a b").vector.shape == (12,)
    other = "pair" if kind is Classifier else "classify"
    with pytest.raises(UsageError) as error:
        regard.load(tmp_path / "m", task=other)
    assert (error.value.argument, error.value.value) == ("task", other)


def test_m152_it_learns(tokenizer: Tokenizer) -> None:
    texts = [f"{word} {other}" for word in ("good", "bad") for other in "abcdefgh"]
    gold = [(text.split()[0],) for text in texts]
    assert label_names(label for labels in gold for label in labels) == LABELS
    model = build(tokenizer, SINGLE)
    task = objective(model, tokenizer, SINGLE, texts, gold)
    model.train()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(30):
        optimizer.zero_grad()
        task.loss(range(len(texts))).train.backward()
        optimizer.step()
    scores, samples = task.evaluate()
    assert scores[0].value == 100
    assert samples[0].reference == samples[0].output
    assert isinstance(task.predictor().model, BertForSequenceClassification)
