"""Classifying texts and pairs: framing, what is cut, what learns, answers, and that it learns at all."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch

import regard
from regard.checkpoint.folder import own_tensors, write_model
from regard.errors import FolderError, UsageError
from regard.metrics.labels import label_names
from regard.models.bert import Bert, BertForSequence
from regard.models.bert_settings import BertConfig, HeadConfig
from regard.tasks.classify import (
    Classifier,
    ClassifyTask,
    baseline,
    class_weights,
    commonest_labels,
    make_classifier_model,
    score_answers,
)
from regard.tasks.folders import load_classifier, load_embedder, load_folder
from regard.tasks.labelling import as_inputs, fit_pair, frame_pairs, frame_texts, freeze, layer_rates, read_rows
from regard.tasks.settings import LabelConfig
from regard.text.tokenizer import Symbols, Tokenizer
from regard.text.training import train_tokenizer

SYMBOLS = Symbols(pad="[PAD]", unknown="[UNK]", start="[CLS]", end="[SEP]")
ONE = HeadConfig(kind="sequence", labels=("bad", "good"))


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    texts = ["a b c d e f g h", "good bad film long"] * 5
    return train_tokenizer(texts, kind="wordpiece", vocab_size=60, symbols=SYMBOLS, lowercase=True)


def shape(tokenizer: Tokenizer, **changes: object) -> BertConfig:
    small = dict(layers=3, width=12, hidden=20, heads=2, head_width=6, context=23, dropout=0.0)
    return BertConfig(vocab_size=tokenizer.vocab_size, **{**small, **changes})  # type: ignore[arg-type]


def test_m155_frames_of_texts_and_pairs(tokenizer: Tokenizer) -> None:
    (text,) = frame_texts(tokenizer, ["a b c d"], 5)
    assert tokenizer.tokens(text.ids) == ["[CLS]", "a", "b", "c", "[SEP]"]
    (pair,) = frame_pairs(tokenizer, [("a b", "c")], 20)
    assert tokenizer.tokens(pair.ids) == ["[CLS]", "a", "b", "[SEP]", "c", "[SEP]"]
    ids, lengths, segments = as_inputs([pair, text], tokenizer.pad_id, torch.device("cpu"))
    assert ids.shape == (2, 6)
    assert lengths is not None and lengths.tolist() == [6, 5]
    assert segments is not None and segments.tolist() == [[0, 0, 0, 0, 1, 1], [0] * 6]
    assert as_inputs([text], tokenizer.pad_id, torch.device("cpu"))[1:] == (None, None)


def test_m155_the_longer_side_is_cut_first() -> None:
    for first in range(9):
        for second in range(9):
            for room in range(1, 12):
                left, right = first, second  # token by token, as the definition says
                while left + right > room:
                    left, right = (left - 1, right) if left > right else (left, right - 1)
                assert fit_pair(first, second, room) == (left, right), (first, second, room)


def test_rows_alone_and_together(tokenizer: Tokenizer) -> None:
    model = make_classifier_model(shape(tokenizer), ONE, seed=0).double().eval()
    rows = frame_pairs(tokenizer, [("a b", "c"), ("a b c d e f", "g h"), ("h", "a b c")], 23)
    together = read_rows(model, rows, tokenizer.pad_id)
    for row, found in zip(rows, together, strict=True):
        alone = model(*as_inputs([row], tokenizer.pad_id, torch.device("cpu")))[0]
        torch.testing.assert_close(found, alone.float(), atol=1e-6, rtol=0)


def test_m149_what_is_frozen(tokenizer: Tokenizer) -> None:
    def learning(what: str, *, fresh_pooler: bool = False) -> set[str]:
        bert = Bert(shape(tokenizer))
        assert bert.pooler is not None
        freeze(bert, what, learning=[bert.pooler] if fresh_pooler else [])
        return {".".join(name.split(".")[:2]) for name, param in bert.named_parameters() if param.requires_grad}

    layers = {"encoder.0", "encoder.1", "encoder.2"}
    head = {"pooler.weight", "pooler.bias"}
    assert learning("nothing") > layers | head
    assert learning("embeddings") == layers | head
    assert learning("2") == {"encoder.2"} | head
    assert learning("encoder") == set()
    assert learning("encoder", fresh_pooler=True) == head, "what is random has to learn"
    with pytest.raises(UsageError, match="--freeze 4 is more than the 3 layers"):
        freeze(Bert(shape(tokenizer)), "4")


def test_m149_lower_layers_learn_more_slowly(tokenizer: Tokenizer) -> None:
    bert = Bert(shape(tokenizer))
    rates = layer_rates(bert, 0.5)
    assert [rates[block.feed_forward.widen.weight] for block in bert.encoder] == [0.125, 0.25, 0.5]
    assert rates[bert.embedding.weight] == 0.0625
    assert bert.pooler is not None and bert.pooler.weight not in rates
    assert layer_rates(bert, 1.0) == {}
    bert.embedding.weight.data.mul_(12)  # of 0.02, which is usual
    size = bert.embedding.weight.detach().square().mean().sqrt().item()
    assert layer_rates(bert, 1.0)[bert.embedding.weight] == pytest.approx(size / 0.06)
    assert layer_rates(bert, 0.5)[bert.embedding.weight] == pytest.approx(size / 0.06 * rates[bert.embedding.weight])
    assert layer_rates(bert, 0.5)[bert.embedding.norm.scale] == rates[bert.embedding.norm.scale]


def test_class_weights_make_labels_count_the_same() -> None:
    weights = class_weights([("good",), ("good",), ("good",), ("bad",)], ONE)
    assert weights.tolist() == pytest.approx([2.0, 2 / 3])
    with pytest.raises(UsageError, match="one label each"):
        class_weights([("good",)], HeadConfig(kind="sequence", labels=("good",), answers="several"))


def test_balanced_labels_weigh_in_the_loss(tokenizer: Tokenizer) -> None:
    texts, gold = ["a", "b c", "d e f", "g"], [("good",), ("good",), ("good",), ("bad",)]
    model = make_classifier_model(shape(tokenizer), ONE, seed=1).eval()
    task = ClassifyTask(
        task="classify", model=model, tokenizer=tokenizer, head=ONE, texts=(texts, texts), gold=(gold, gold),
        config=LabelConfig(max_tokens=16, class_weights="balanced"),
    )  # fmt: skip
    found = Classifier(model, tokenizer, head=ONE)(texts)
    surprise = [-math.log(one.probabilities[label]) for one, (label,) in zip(found, gold, strict=True)]
    weighted = (sum(surprise[:3]) * 2 / 3 + surprise[3] * 2) / 4
    assert task.loss(range(4)).train.item() == pytest.approx(weighted, rel=1e-4)
    assert task.validation_loss() == pytest.approx(weighted, rel=1e-4), "the weights that are kept are best at that"


@pytest.mark.parametrize("answers", ["one", "several", "number"])
def test_the_loss_is_the_mean_over_rows(answers: str, tokenizer: Tokenizer) -> None:
    labels = ("number",) if answers == "number" else ("bad", "good")
    head = HeadConfig(kind="sequence", labels=labels, answers=answers)  # type: ignore[arg-type]
    gold = {
        "one": [("bad",), ("good",), ("good",)],
        "several": [(), ("bad", "good"), ("good",)],
        "number": [0.5, 2.0, 1.0],
    }
    texts = ["a b", "c", "d e f g"]
    model = make_classifier_model(shape(tokenizer), head, seed=1).eval()
    task = ClassifyTask(
        task="classify", model=model, tokenizer=tokenizer, head=head, texts=(texts, texts),
        gold=(gold[answers], gold[answers]), config=LabelConfig(max_tokens=16),
    )  # fmt: skip
    each = [task.loss([index]).train.item() for index in range(3)]
    assert task.loss([0, 1, 2]).train.item() == pytest.approx(sum(each) / 3, rel=1e-5)
    assert task.validation_loss() == pytest.approx(sum(each) / 3, rel=1e-5)
    found = Classifier(model, tokenizer, head=head)(texts)
    if answers == "number":
        assert each[1] == pytest.approx((found[1].number - 2.0) ** 2, rel=1e-4)  # type: ignore[operator]
    elif answers == "one":
        assert each[1] == pytest.approx(-torch.tensor(found[1].probabilities["good"]).log().item(), rel=1e-4)
        assert sum(found[0].probabilities.values()) == pytest.approx(1)
    else:
        assert found[0].labels == tuple(label for label, chance in found[0].probabilities.items() if chance >= 0.5)


def test_m153_scores_beside_the_majority() -> None:
    gold = [("good",), ("good",), ("bad",)]
    scores = {score.name: score.value for score in score_answers([("good",), ("bad",), ("bad",)], gold, ONE)[:2]}
    assert scores["accuracy"] == pytest.approx(200 / 3)
    names = [score.name for score in score_answers(gold, gold, ONE)]
    assert names == ["accuracy", "macro F1", "F1 of good", "Matthews"]
    several = HeadConfig(kind="sequence", labels=("bad", "good"), answers="several")
    assert [score.name for score in score_answers(gold, gold, several)] == ["accuracy", "macro F1", "micro F1"]
    common, mean = baseline(commonest_labels([("bad",), ("good",), ("good",)]), ["a"] * 3, gold, ONE)
    assert (common.name, common.value) == ("accuracy of the majority", pytest.approx(200 / 3))
    assert (mean.name, mean.value) == ("macro F1 of the majority", pytest.approx(100 * (2 * 2 / 5) / 2))
    assert common.signature.startswith("always:good|")
    number = HeadConfig(kind="sequence", labels=("number",), answers="number")
    assert [score.name for score in score_answers([1.0, 2.0], [2.0, 4.0], number)] == ["Pearson", "Spearman"]
    assert commonest_labels([1.0]) is None
    assert baseline(None, ["a text"], [1.0], number) == [], "one text shares no words with another"
    pairs = [("a b", "a b"), ("a b", "c d"), ("a b", "a c")]  # they share all words, none, a third
    found = {score.name: score.value for score in baseline(None, pairs, [3.0, 1.0, 2.0], number)}
    assert found["Spearman of word overlap"] == pytest.approx(100)
    overlaps, golds = np.array([1, 0, 1 / 3]), np.array([3.0, 1.0, 2.0])
    assert found["Pearson of word overlap"] == pytest.approx(100 * np.corrcoef(overlaps, golds)[0, 1])


def test_m153_the_majority_is_that_of_training_and_not_of_the_test(tokenizer: Tokenizer, tmp_path: Path) -> None:
    """In training good is common, in the test bad is: who always says good is right once in four times."""
    (tmp_path / "test.tsv").write_text("text\tlabel\na\tbad\nb\tbad\nc\tbad\nd\tgood\n", encoding="utf-8")
    texts, gold = ["a b", "c d", "e f"], [("good",), ("good",), ("bad",)]
    model = make_classifier_model(shape(tokenizer), ONE, seed=0)
    task = ClassifyTask(
        task="classify", model=model, tokenizer=tokenizer, head=ONE, texts=(texts, texts), gold=(gold, gold),
        config=LabelConfig(max_tokens=16),
    )  # fmt: skip
    contents = task.contents()
    write_model(tmp_path / "m", config=contents.config, tensors=own_tensors(model), texts=contents.texts)
    loaded = load_folder(tmp_path / "m")
    assert isinstance(loaded, Classifier)
    for classifier in (task.result(), loaded):
        scores = {score.name: score.value for score in regard.evaluate(classifier, tmp_path / "test.tsv")}
        assert scores["accuracy of the majority"] == 25
        assert scores["macro F1 of the majority"] == pytest.approx(100 * (2 / 5) / 2)
    old = Classifier(model, tokenizer, head=ONE)  # as from a folder that tells nothing of its training
    scores = {score.name: score.value for score in regard.evaluate(old, tmp_path / "test.tsv")}
    assert scores["accuracy of this file's own majority"] == 75
    assert "accuracy of the majority" not in scores
    wrong = {**contents.config, "commonest": ["so-so"]}
    write_model(tmp_path / "w", config=wrong, tensors=own_tensors(model), texts=contents.texts)
    with pytest.raises(FolderError, match="so-so"):
        load_folder(tmp_path / "w")


def test_other_labels_are_other_examples(tokenizer: Tokenizer) -> None:
    texts, gold = ["a b", "c", "d e f"], [("good",), ("good",), ("bad",)]

    def examples(
        train: list[tuple[str, ...]] = gold, held: list[tuple[str, ...]] = gold, head: HeadConfig = ONE, last: str = "d"
    ) -> str:
        model = make_classifier_model(shape(tokenizer), head, seed=0)
        task = ClassifyTask(
            task="classify", model=model, tokenizer=tokenizer, head=head, texts=(texts, [*texts[:2], last]),
            gold=(train, held), config=LabelConfig(max_tokens=16),
        )  # fmt: skip
        return task.examples()

    other = [("good",), ("bad",), ("bad",)]
    renamed = HeadConfig(kind="sequence", labels=("worse", "good"))
    relabelled = [("good",), ("good",), ("worse",)]
    assert examples() == examples()
    found = [
        examples(), examples(train=other), examples(held=other), examples(relabelled, relabelled, renamed),
        examples(last="e"),
    ]  # fmt: skip
    assert len(set(found)) == len(found)


def test_one_segment_is_enough_for_texts_alone(tokenizer: Tokenizer) -> None:
    model = make_classifier_model(shape(tokenizer, segments=1), ONE, seed=0)
    assert Classifier(model, tokenizer, head=ONE)("a b").label in ONE.labels
    with pytest.raises(UsageError, match="has one segment, pairs need two"):
        Classifier(model, tokenizer, head=ONE, task="pair")(("a", "b"))
    with pytest.raises(UsageError, match="has one segment, pairs need two"):
        ClassifyTask(
            task="pair", model=model, tokenizer=tokenizer, head=ONE, texts=([("a", "b")], [("a", "b")]),
            gold=([("good",)], [("good",)]), config=LabelConfig(max_tokens=16),
        )  # fmt: skip


def test_a_classifier_says_what_it_cannot_read(tokenizer: Tokenizer) -> None:
    model = make_classifier_model(shape(tokenizer), ONE, seed=0)
    texts, pairs = (Classifier(model, tokenizer, head=ONE, task=task) for task in ("classify", "pair"))
    with pytest.raises(UsageError, match="judges single texts"):
        texts(("a", "b"))
    with pytest.raises(UsageError, match="judges pairs"):
        pairs("a")
    assert pairs("a", "b") == pairs(("a", "b")) == pairs([("a", "b")])[0]
    with pytest.raises(UsageError, match="judges single texts"):
        texts("a", "b")
    with pytest.raises(UsageError, match="give many pairs as a list of tuples"):
        pairs(["a"], "b")  # type: ignore[call-overload]
    said: list[str] = []
    assert len(texts(["", "a " * 100_000], say=said.append)) == 2
    assert said == [
        "1 of 2 texts cut off after 23 tokens: text 2.",
        "1 of 2 texts without words: text 1.",
    ]
    said.clear()
    assert len(pairs([("a", "b"), ("", "b"), ("a", " "), ("", "")], say=said.append)) == 4
    assert said == ["3 of 4 pairs with a text without words: pair 2, 3, 4."]
    said.clear()
    texts(["a", "b"], say=said.append)
    pairs([("a", "b")], say=said.append)
    assert said == []


def test_saved_is_loaded(tokenizer: Tokenizer, tmp_path: Path) -> None:
    model = make_classifier_model(shape(tokenizer), ONE, seed=3)
    for task in ("classify", "pair"):
        whole = Classifier(model, tokenizer, head=ONE, task=task, max_tokens=11)
        contents = whole.contents()
        write_model(tmp_path / task, config=contents.config, tensors=own_tensors(model), texts=contents.texts)
        found = load_folder(tmp_path / task)
        assert isinstance(found, Classifier)
        assert (found.task, found.head, found.max_tokens) == (task, ONE, 11)
        text = ("a b", "c") if task == "pair" else "a b c"
        assert found(text) == whole(text)
        assert load_embedder(tmp_path / task).embed(["a b"]).shape == (1, 12)
    with pytest.raises(UsageError, match="was trained for `regard pair`"):
        load_classifier(tmp_path / "pair", "classify")


def test_m152_it_learns(tokenizer: Tokenizer) -> None:
    texts = [f"{word} {other}" for word in ("good", "bad") for other in "abcdefgh"]
    gold = [(text.split()[0],) for text in texts]
    assert label_names(label for labels in gold for label in labels) == ("bad", "good")
    model = make_classifier_model(shape(tokenizer), ONE, seed=0)
    task = ClassifyTask(
        task="classify", model=model, tokenizer=tokenizer, head=ONE, texts=(texts, texts), gold=(gold, gold),
        config=LabelConfig(),
    )  # fmt: skip
    model.train()
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(30):
        optimiser.zero_grad()
        task.loss(range(len(texts))).train.backward()
        optimiser.step()
    model.eval()
    scores, samples = task.evaluate()
    assert scores[0].value == 100
    assert samples[0].reference == samples[0].output
    assert isinstance(task.result().model, BertForSequence)
