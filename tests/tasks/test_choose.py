"""Choosing among endings: by hand from the numbers of a pair's head, the loss, batches, scores, and that it learns."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from regard.data.batches import BatchPlan
from regard.data.endings import Choice
from regard.errors import UsageError
from regard.models.bert_settings import BertConfig
from regard.tasks.choose import HEAD, Chooser, ChooseTask, commonest_place, make_chooser_model, score_choices
from regard.tasks.labelling import as_inputs, frame_pairs
from regard.tasks.settings import LabelConfig
from regard.text.tokenizer import Symbols, Tokenizer
from regard.text.training import train_tokenizer

SYMBOLS = Symbols(pad="[PAD]", unknown="[UNK]", start="[CLS]", end="[SEP]")
CHOICES = [
    Choice("a b", ("c", "d e f", "g"), 1),
    Choice("c d e f g h", ("a", "b", "b c"), 0),
    Choice("h", ("a b c", "d", "e f"), 1),
]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train_tokenizer(["a b c d e f g h"] * 5, kind="wordpiece", vocab_size=60, symbols=SYMBOLS)


def settings(tokenizer: Tokenizer, **changes: object) -> BertConfig:
    small = dict(layers=2, width=12, hidden=20, heads=2, head_width=6, context=23, dropout=0.0)
    return BertConfig(vocab_size=tokenizer.vocab_size, **{**small, **changes})  # type: ignore[arg-type]


def task(tokenizer: Tokenizer) -> ChooseTask:
    model = make_chooser_model(settings(tokenizer), HEAD, seed=3)
    torch.nn.init.normal_(model.head.output.weight)
    return ChooseTask(
        model=model,
        tokenizer=tokenizer,
        choices=(CHOICES, CHOICES[:2]),
        config=LabelConfig(batch_rows=2, max_tokens=23),
    )


def fits(chooser: Chooser, choice: Choice) -> list[float]:
    """What the head says to each ending alone."""
    rows = frame_pairs(chooser.tokenizer, [(choice.first, ending) for ending in choice.endings], 23)
    with torch.no_grad():
        return [chooser.model(*as_inputs([row], 0, torch.device("cpu")))[0, 0].item() for row in rows]


def test_m154_the_likeliest_ending(tokenizer: Tokenizer) -> None:
    chooser = task(tokenizer).result()
    found = chooser([(one.first, one.endings) for one in CHOICES])
    for one, choice in zip(found, CHOICES, strict=True):
        numbers = np.exp(fits(chooser, choice))
        assert one.probabilities == pytest.approx(numbers / numbers.sum(), rel=1e-5)
        assert one.place == int(numbers.argmax())
        assert str(one) == one.text == choice.endings[one.place]
    alone = chooser(CHOICES[0].first, CHOICES[0].endings)
    assert (alone.place, alone.endings) == (found[0].place, CHOICES[0].endings)
    assert alone.probabilities == pytest.approx(found[0].probabilities, rel=1e-5)


def test_m154_the_loss_is_that_of_the_right_ending(tokenizer: Tokenizer) -> None:
    doing = task(tokenizer)
    chooser = doing.result()
    due = []
    for choice in (CHOICES[2], CHOICES[0]):
        numbers = fits(chooser, choice)
        assert choice.right is not None
        due.append(math.log(sum(map(math.exp, numbers))) - numbers[choice.right])
    found = doing.loss([2, 0])
    assert found.train.item() == pytest.approx(sum(due) / 2, rel=1e-5)
    assert found.tokens == 2
    assert doing.validation_loss() == pytest.approx(doing.loss([0, 1]).plain.item(), rel=1e-5)


def test_batches_are_of_whole_examples(tokenizer: Tokenizer) -> None:
    doing = task(tokenizer)
    assert (len(doing.train), doing.rows_each) == (9, 3)
    batches = doing.batches(BatchPlan(max_tokens=100), 0)
    assert sorted(index for batch in batches for index in batch) == [0, 1, 2]
    assert max(map(len, batches)) == 2
    assert [doing.size(index)[0] for index in range(3)] == [8, 11, 7]  # with [CLS] and two [SEP]
    assert "3 training and 2 validation examples" in doing.describe()


def test_scores_beside_the_commonest_place() -> None:
    assert commonest_place([1, 0, 1, 2]) == ("1",)
    assert commonest_place([2, 0]) == ("0",)
    ours, always = score_choices([0, 1, 2, 2], [0, 1, 1, 1], ("0",))
    assert (ours.name, ours.value) == ("accuracy", 50.0)
    assert (always.name, always.value, always.signature) == ("accuracy of the majority", 25.0, "always:ending0|n:4")
    assert score_choices([0], [3], None)[1].name == "accuracy of this file's own majority"


def test_it_learns(tokenizer: Tokenizer) -> None:
    """The ending that begins with the letter of the beginning."""
    letters = "abcdefgh"
    choices = [
        Choice(first, tuple(f"{other} {'h' if n else 'g'}" for n, other in enumerate(others)), others.index(first))
        for first in letters
        for others in ([first, letters[letters.index(first) - 1]], [letters[letters.index(first) - 3], first])
    ]
    model = make_chooser_model(settings(tokenizer, width=32, head_width=16), HEAD, seed=0)
    doing = ChooseTask(model=model, tokenizer=tokenizer, choices=(choices, choices), config=LabelConfig(max_tokens=23))
    optimiser = torch.optim.Adam(model.parameters(), lr=3e-3)
    model.train()
    for _ in range(400):
        optimiser.zero_grad()
        loss = doing.loss(range(len(choices))).train
        loss.backward()
        optimiser.step()
        if loss.item() < 0.05:
            break
    assert doing.evaluate()[0][0].value == 100


def test_what_cannot_be_chosen_from(tokenizer: Tokenizer) -> None:
    chooser = task(tokenizer).result()
    for endings in ((), ("alone",), "a b"):
        with pytest.raises(UsageError, match="two endings or more"):
            chooser("a", endings)
    with pytest.raises(UsageError, match="endings go with one beginning"):
        chooser([("a", ("b", "c"))], ["d", "e"])  # type: ignore[call-overload]
    with pytest.raises(UsageError, match="two endings or more"):
        chooser(["a b"])  # type: ignore[list-item]
    with pytest.raises(UsageError, match="a beginning and one of its endings"):
        chooser.trace("a")
    one_segment = Chooser(make_chooser_model(settings(tokenizer, segments=1), HEAD, seed=0), tokenizer)
    with pytest.raises(UsageError, match="one segment"):
        one_segment("a", ("b", "c"))


def test_what_is_cut_off_is_told(tokenizer: Tokenizer) -> None:
    told: list[str] = []
    task(tokenizer).result()("a b c d e f g h " * 4, ("a", "b"), say=told.append)
    assert told == ["1 of 1 choice cut off after 23 tokens: choice 1."]
    told.clear()
    task(tokenizer).result()([("a", ("b", "c", "d")), ("a", ("b", " "))], say=told.append)
    assert told == ["1 of 2 choices with a text without words: choice 2."]
