"""Multiple choice: by hand from the logits of each ending, the loss, batches, scores, and that it learns."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import regard
from regard.data.batches import BatchPlan
from regard.data.labelled import MultipleChoiceExample
from regard.models.bert.config import BertConfig
from regard.models.bert.model import build
from regard.models.heads import HeadConfig
from regard.nn.init import seeded_init
from regard.tasks.base import Splits
from regard.tasks.choose.objective import ChooseObjective
from regard.tasks.choose.predictor import MultipleChoice, choice_scores, majority_index
from regard.tasks.encoder.objective import EncoderInit
from regard.tasks.encoder.predictor import collate, encode_pairs
from regard.tokenizers.tokenizer import SpecialTokens
from regard.tokenizers.training import train_tokenizer
from regard.training.run import TrainRequest
from regard.utils.errors import FolderError, UsageError

SPECIAL_TOKENS = SpecialTokens(pad="[PAD]", unknown="[UNK]", start="[CLS]", end="[SEP]")
HEAD = HeadConfig(kind="multiple_choice")
TOKENIZER = train_tokenizer(["a b c d e f g h"] * 5, kind="wordpiece", vocab_size=60, special_tokens=SPECIAL_TOKENS)
CHOICES = [
    MultipleChoiceExample("a b", ("c", "d e f", "g"), 1),
    MultipleChoiceExample("c d e f g h", ("a", "b", "b c"), 0),
    MultipleChoiceExample("h", ("a b c", "d", "e f"), 1),
]


def model(seed: int = 3, **changes: object) -> Any:
    small = dict(num_layers=2, d_model=12, d_ff=20, num_heads=2, head_dim=6, context_length=23, dropout=0.0)
    config = BertConfig(vocab_size=TOKENIZER.vocab_size, **{**small, **changes})  # type: ignore[arg-type]
    net = seeded_init(lambda: build(config, HEAD), seed=seed)
    torch.manual_seed(seed)
    torch.nn.init.normal_(net.head.output.weight)
    return net


def objective(
    train: list[MultipleChoiceExample], validation: list[MultipleChoiceExample], net: Any = None
) -> ChooseObjective:
    request = TrainRequest.parse("choose", {"batch_size": 2}, out=Path("not-written"))
    return ChooseObjective(EncoderInit(net or model(), TOKENIZER, HEAD, 23), request, Splits(train, validation))


def logits_of(predictor: MultipleChoice, choice: MultipleChoiceExample) -> list[float]:
    """The logit of each ending alone."""
    examples = encode_pairs(TOKENIZER, [(choice.context, ending) for ending in choice.endings], 23)
    with torch.no_grad():
        return [predictor.model(*collate([example], 0, torch.device("cpu")))[0, 0].item() for example in examples]


def test_m154_the_most_probable_ending() -> None:
    predictor = objective(CHOICES, CHOICES[:2]).predictor()
    found = predictor([(choice.context, choice.endings) for choice in CHOICES])
    for result, choice in zip(found, CHOICES, strict=True):
        powers = np.exp(logits_of(predictor, choice))
        assert result.scores == pytest.approx(powers / powers.sum(), rel=1e-5)
        assert result.choice_index == int(powers.argmax())
        assert result.score == max(result.scores)
        assert str(result) == result.text == choice.endings[result.choice_index]
    for single in (predictor(CHOICES[0].context, list(CHOICES[0].endings)), predictor("a b", "c", "d e f", "g")):
        assert (single.choice_index, single.endings) == (found[0].choice_index, CHOICES[0].endings)
        assert single.scores == pytest.approx(found[0].scores, rel=1e-5)


def test_m154_the_loss_is_that_of_the_right_ending() -> None:
    task = objective(CHOICES, CHOICES[:2])
    predictor = task.predictor()
    wanted = []
    for choice in (CHOICES[2], CHOICES[0]):
        logits = logits_of(predictor, choice)
        assert choice.label is not None
        wanted.append(math.log(sum(map(math.exp, logits))) - logits[choice.label])
    loss = task.loss([2, 0])
    assert loss.train.item() == pytest.approx(sum(wanted) / 2, rel=1e-5)
    assert loss.num_targets == 2
    assert task.validation_loss() == pytest.approx(task.loss([0, 1]).plain.item(), rel=1e-5)


def test_batches_are_of_whole_examples() -> None:
    task = objective(CHOICES, CHOICES[:2])
    assert (len(task.train), task.rows_per_example) == (9, 3)
    batches = task.batches(BatchPlan(max_tokens=100), 0)
    assert sorted(index for batch in batches for index in batch) == [0, 1, 2]
    assert max(map(len, batches)) == 2
    assert [task.size(index)[0] for index in range(3)] == [8, 11, 7]  # with [CLS] and two [SEP]
    assert task.training_settings()["steps"] % 2 == 0, "two batches an epoch"


def test_scores_beside_the_majority_index() -> None:
    assert majority_index([1, 0, 1, 2]) == ("1",)
    assert majority_index([2, 0]) == ("0",)
    ours, constant = choice_scores([0, 1, 2, 2], [0, 1, 1, 1], ("0",))
    assert (ours.name, ours.value) == ("accuracy", 50.0)
    assert (constant.baseline_of, constant.value, constant.signature) == ("accuracy", 25.0, "always:ending0|n:4")
    assert choice_scores([0], [3], None)[1].value == 100, "of the file itself where training is unknown"


def test_it_learns() -> None:
    """The ending that begins with the letter of the context."""
    letters = "abcdefgh"
    choices = [
        MultipleChoiceExample(
            first, tuple(f"{other} {'h' if n else 'g'}" for n, other in enumerate(others)), others.index(first)
        )
        for first in letters
        for others in ([first, letters[letters.index(first) - 1]], [letters[letters.index(first) - 3], first])
    ]
    task = objective(choices, choices, model(0, d_model=32, head_dim=16))
    optimizer = torch.optim.Adam(task.model.parameters(), lr=3e-3)
    task.model.train()
    for _ in range(400):
        optimizer.zero_grad()
        loss = task.loss(range(len(choices))).train
        loss.backward()
        optimizer.step()
        if loss.item() < 0.05:
            break
    assert task.evaluate()[0][0].value == 100


@pytest.mark.parametrize("wrong", [("a", ()), ("a", ("only",)), ("a", "b"), ("a b",), ("a", ("b", 3))])
def test_wrong_inputs(wrong: Any) -> None:
    with pytest.raises(UsageError) as error:
        MultipleChoice(model(), TOKENIZER)(*wrong)
    assert error.value.argument == "endings"


def test_one_token_type_is_not_enough() -> None:
    with pytest.raises(UsageError) as error:
        MultipleChoice(model(type_vocab_size=1), TOKENIZER)("a", ("b", "c"))
    assert error.value.argument == "type_vocab_size"


def test_notes_on_inputs() -> None:
    predictor = MultipleChoice(model(), TOKENIZER)
    notes: list[str] = []
    predictor("a b c d e f g h " * 4, ("a", "b"), notify=notes.append)
    assert len(notes) == 1 and "23 tokens: choice 1" in notes[0]
    notes.clear()
    predictor([("a", ("b", "c", "d")), ("a", ("b", " "))], notify=notes.append)
    assert len(notes) == 1 and notes[0].endswith("choice 2.")


def test_attention_over_the_chosen_ending() -> None:
    predictor = MultipleChoice(model(), TOKENIZER)
    chosen = predictor("a b", ("c", "d e f")).text
    several, single = predictor.trace("a b", ("c", "d e f")), predictor.trace("a b", chosen)
    assert several.labels("encoder.0.self") == single.labels("encoder.0.self")
    assert predictor.trace("a b", (chosen,)).labels("encoder.0.self") == single.labels("encoder.0.self")
    with pytest.raises(UsageError):
        predictor.encode_input("a b")


def test_saved_is_loaded(tmp_path: Path) -> None:
    predictor = objective(CHOICES, CHOICES).predictor()
    predictor.save(tmp_path / "m")
    found = regard.load(tmp_path / "m")
    assert isinstance(found, MultipleChoice)
    assert found.majority_label == ("1",)
    assert found("a", ("b", "c")) == predictor("a", ("b", "c"))
    MultipleChoice(model(), TOKENIZER, head=HEAD, majority_label=("first",)).save(tmp_path / "wrong")
    with pytest.raises(FolderError) as error:
        regard.load(tmp_path / "wrong")
    assert (error.value.argument, error.value.value) == ("majority_label", ["first"])


def test_built_in_choices_are_disjoint_and_repeatable() -> None:
    from regard.data.synthetic.labelled import NUM_ENDINGS, choices

    splits = {name: choices(name, count=100) for name in ("train", "validation", "test")}
    contexts = [example.context for examples in splits.values() for example in examples]
    assert len(set(contexts)) == 300
    assert choices("train", count=100) == splits["train"]
    for example in splits["train"]:
        assert len(set(example.endings)) == NUM_ENDINGS
        assert example.label in range(NUM_ENDINGS)
    assert {example.label for example in splits["train"]} == set(range(NUM_ENDINGS))
