"""Classifying texts and pairs: framing, what is cut, what learns, answers, and that it learns at all."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from regard.checkpoint.folder import own_tensors
from regard.data.labelled import label_names
from regard.errors import UsageError
from regard.models.bert import Bert, BertForSequence
from regard.models.bert_settings import BertConfig, HeadConfig
from regard.tasks.classify import (
    Classifier,
    ClassifyTask,
    baseline,
    class_weights,
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
    def learning(what: str) -> set[str]:
        bert = Bert(shape(tokenizer))
        freeze(bert, what)
        return {".".join(name.split(".")[:2]) for name, param in bert.named_parameters() if param.requires_grad}

    layers = {"encoder.0", "encoder.1", "encoder.2"}
    head = {"pooler.weight", "pooler.bias"}
    assert learning("nothing") > layers | head
    assert learning("embeddings") == layers | head
    assert learning("2") == {"encoder.2"} | head
    assert learning("encoder") == set()
    with pytest.raises(UsageError, match="--freeze 4 is more than the 3 layers"):
        freeze(Bert(shape(tokenizer)), "4")


def test_m149_lower_layers_learn_more_slowly(tokenizer: Tokenizer) -> None:
    bert = Bert(shape(tokenizer))
    rates = layer_rates(bert, 0.5)
    assert [rates[block.feed_forward.widen.weight] for block in bert.encoder] == [0.125, 0.25, 0.5]
    assert rates[bert.embedding.weight] == 0.0625
    assert bert.pooler is not None and bert.pooler.weight not in rates
    assert layer_rates(bert, 1.0) == {}


def test_class_weights_make_labels_count_the_same() -> None:
    weights = class_weights([("good",), ("good",), ("good",), ("bad",)], ONE)
    assert weights.tolist() == pytest.approx([2.0, 2 / 3])
    with pytest.raises(UsageError, match="one label each"):
        class_weights([("good",)], HeadConfig(kind="sequence", labels=("good",), answers="several"))


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
    assert names == ["accuracy", "F1", "F1", "Matthews"]
    common = baseline([("bad",), ("good",), ("good",)], gold, ONE)[0]
    assert (common.name, common.value) == ("accuracy of the majority", pytest.approx(200 / 3))
    assert common.signature.startswith("always:good|")
    number = HeadConfig(kind="sequence", labels=("number",), answers="number")
    assert [score.name for score in score_answers([1.0, 2.0], [2.0, 4.0], number)] == ["Pearson", "Spearman"]
    assert baseline([1.0], [1.0], number) == []


def test_a_classifier_says_what_it_cannot_read(tokenizer: Tokenizer) -> None:
    model = make_classifier_model(shape(tokenizer), ONE, seed=0)
    texts, pairs = (Classifier(model, tokenizer, head=ONE, task=task) for task in ("classify", "pair"))
    with pytest.raises(UsageError, match="judges single texts"):
        texts(("a", "b"))
    with pytest.raises(UsageError, match="judges pairs"):
        pairs("a")
    said: list[str] = []
    assert len(texts(["", "a " * 100_000], say=said.append)) == 2
    assert said == [
        "1 of 2 texts reach 23 tokens, and no more is read: 2.",
        "1 of 2 texts have no words: text 1.",
    ]
    said.clear()
    assert len(pairs([("a", "b"), ("", "b"), ("a", " "), ("", "")], say=said.append)) == 4
    assert said == ["3 of 4 pairs have a text without words: pair 2, 3, 4."]
    said.clear()
    texts(["a", "b"], say=said.append)
    pairs([("a", "b")], say=said.append)
    assert said == []


def test_saved_is_loaded(tokenizer: Tokenizer, tmp_path: Path) -> None:
    from regard.checkpoint.folder import write_model

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
