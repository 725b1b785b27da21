"""Pre-training: the loss by another road, exact resume, shares of a batch, rates, and what a filler answers."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from regard.data.batches import BatchPlan
from regard.data.documents import documents_of
from regard.errors import UsageError
from regard.tasks.fill import Filler, FillTask, fresh_bert
from regard.tasks.settings import FillConfig
from regard.text.tokenizer import BERT_SYMBOLS
from regard.text.training import train_tokenizer
from regard.training.filling import score_text
from regard.training.loop import InterruptedRunError, Trainer
from regard.training.replicas import Replicas
from regard.training.settings import TrainingConfig

COLOURS = ("red", "green", "blue", "white", "black")
TEXTS = [
    " ".join(f"The {colour} {thing} is very {colour}." for thing in ("house", "door", "wall", "roof", "tree", "car"))
    for colour in COLOURS
] * 12
TOKENIZER = train_tokenizer(TEXTS, kind="wordpiece", vocab_size=90, symbols=BERT_SYMBOLS, lowercase=True)
SHAPE = dict(layers=2, width=24, hidden=44, heads=2, head_width=12, context=37, dropout=0.1)


def task(*, seed: int = 0, pairs: bool = True, shape: dict[str, Any] | None = None, **config: Any) -> FillTask:
    documents = documents_of(TEXTS, TOKENIZER, longest=17)
    train, held = documents.split(share=0.2, most=10_000)
    return FillTask(
        model=fresh_bert(TOKENIZER, {**SHAPE, **(shape or {})}, next_sentence=pairs, seed=seed),
        tokenizer=TOKENIZER,
        train=train,
        validation=held,
        config=FillConfig(next_sentence=pairs, **config),
    )


def test_the_loss_is_that_of_the_whole_model_at_the_chosen_words() -> None:
    learner = task(shape={"dropout": 0.0})
    batches = learner.batches(BatchPlan(max_tokens=200, seed=3), epoch=2)
    rows = batches[0]
    found = learner.loss(rows)
    table, masked = learner.gaps.rows(learner.rows, np.array(rows), seed=3, epoch=2)
    ids, segments, lengths = (torch.from_numpy(x) for x in (masked.ids, table.segments, table.lengths))
    words, follows = learner.model(ids, lengths, segments)
    assert words is not None and follows is not None
    chosen = torch.from_numpy(masked.chosen)
    expected = F.cross_entropy(words[chosen].double(), torch.from_numpy(table.ids)[chosen])
    asked = torch.from_numpy(table.follows) >= 0
    # Class 0 says that the second text follows, as BERT has it.
    sentences = F.cross_entropy(follows[asked].double(), 1 - torch.from_numpy(table.follows)[asked])
    assert found.plain.item() == pytest.approx(expected.item(), rel=1e-5)
    assert found.train.item() == pytest.approx((expected + sentences).item(), rel=1e-5)
    assert found.tokens == int(chosen.sum())


@pytest.mark.parametrize("whole_words", [False, True])
def test_rates_are_measured_while_it_trains(whole_words: bool) -> None:
    learner = task(whole_words=whole_words)
    for epoch in range(12):
        for rows in learner.batches(BatchPlan(max_tokens=400), epoch):
            learner.loss(rows)
    rates = learner.rates
    assert rates.tokens > 15_000
    assert rates.chosen / rates.tokens == pytest.approx(0.15, abs=0.012)
    assert rates.hidden / rates.chosen == pytest.approx(0.8, abs=0.04)
    assert rates.kept / rates.chosen == pytest.approx(0.1, abs=0.03)
    assert rates.following / rates.pairs == pytest.approx(0.5, abs=0.01)


def test_shares_of_a_batch_add_up(tmp_path: Path) -> None:
    learner = task(shape={"dropout": 0.0})
    rows = learner.batches(BatchPlan(max_tokens=600), epoch=0)[0]
    gradients = []
    for count in (1, 3):
        replicas = Replicas(learner, count)
        replicas.backward(rows, seed=0)
        replicas.close()
        gradients.append([p.grad.clone() for p in learner.model.words.parameters()])  # type: ignore[union-attr]
    # The hidden words of a row are the same wherever it stands, so the words' part of the gradient is, too.
    for whole, parts in zip(*gradients, strict=True):
        assert torch.allclose(whole, parts, atol=1e-4, rtol=1e-3)


def weights(learner: FillTask) -> list[torch.Tensor]:
    return [param.detach().clone() for param in learner.model.parameters()]


def test_resumed_equals_uninterrupted_bit_for_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = TrainingConfig(steps=30, batch_tokens=300, warmup_steps=2, learning_rate=0.003, validations=2)
    straight = task()
    Trainer(straight, config, tmp_path / "a").run()
    assert straight.epoch >= 2, "the masks and pairs of several epochs"
    broken = task()
    trainer = Trainer(broken, config, tmp_path / "b")
    loss, calls = broken.loss, []

    def stopping(indices: Any) -> Any:
        calls.append(indices)
        trainer._stop_asked = len(calls) == 13
        return loss(indices)

    monkeypatch.setattr(broken, "loss", stopping)
    with pytest.raises(InterruptedRunError):
        trainer.run()
    resumed = task(seed=1)  # other weights, which the checkpoint replaces
    Trainer(resumed, config, tmp_path / "b").run(resume=True)
    for one, other in zip(weights(straight), weights(resumed), strict=True):
        assert torch.equal(one, other)


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> FillTask:
    learner = task(shape={"dropout": 0.0})
    config = TrainingConfig(
        steps=250, batch_tokens=1500, learning_rate=0.01, matrix_learning_rate=0.03, warmup_steps=10, averaging="none"
    )
    Trainer(learner, config, tmp_path_factory.mktemp("run")).run()
    return learner


def test_it_learns_words_that_stand_elsewhere_in_the_text(learned: FillTask) -> None:
    scores, samples = learned.evaluate()
    by_name = {score.name: score.value for score in scores}
    assert by_name["masked words"] > by_name["bigram baseline"] + 5 > by_name["unigram baseline"]
    assert by_name["masked words"] > 60
    assert by_name["next sentence"] > 60  # another document has another colour
    assert 1 <= by_name["perplexity"] < 5
    assert by_name["chosen words"] == pytest.approx(15, abs=1)
    assert all("[MASK]" in sample.source and "%" in sample.output for sample in samples)
    assert learned.filler().fill("the red door is very [MASK].").best == "the red door is very red."
    assert learned.filler().fill("The [MASK] house is very blue.").masks[0][0].word == "blue"


def test_a_filler_gives_probabilities(learned: FillTask) -> None:
    filler = learned.filler()
    text = "The [MASK] door is very green. The green [MASK] is very green."
    found = filler.fill(text, top=4)
    assert [len(mask) for mask in found.masks] == [4, 4]
    for mask in found.masks:
        assert [one.probability for one in mask] == sorted((one.probability for one in mask), reverse=True)
    every = filler.probabilities(text)
    assert every.shape == (2, TOKENIZER.vocab_size)
    assert every.sum(axis=1) == pytest.approx([1, 1], abs=1e-5)
    assert every[0].max() == pytest.approx(found.masks[0][0].probability)
    whole = filler.fill(text, top=10**6)
    assert math.fsum(one.probability for one in whole.masks[1]) == pytest.approx(1, abs=1e-5)
    assert filler(text) == filler.fill(text)
    assert str(found) == found.best


def test_the_first_guess_is_what_the_model_says(learned: FillTask) -> None:
    ids = [2, *TOKENIZER.encode("The red"), 4, *TOKENIZER.encode("is very red."), 3]
    with torch.no_grad():
        logits = learned.model(torch.tensor([ids])).words
    assert logits is not None
    expected = logits[0, ids.index(4)].double().softmax(-1)
    [mask] = learned.filler().fill("The red [MASK] is very red.", top=3).masks
    assert [TOKENIZER.vocabulary().index(one.word) for one in mask] == expected.topk(3).indices.tolist()
    assert [one.probability for one in mask] == pytest.approx(expected.topk(3).values.tolist(), abs=1e-5)


def test_a_long_text_is_read_around_its_gaps(learned: FillTask) -> None:
    filler = learned.filler()
    around = "The blue [MASK] is very blue."
    long = "the wall " * 40 + around + " the wall" * 40 + around
    found = filler.fill(long)
    assert found.is_cut and not filler.fill(around).is_cut
    assert len(found.masks) == 2
    assert found.best.count("the wall") >= 80, "what was not read is still there"
    window = filler.model.config.context - 2
    ids, gaps = filler._row(filler._parts(long))
    for row, places in filler._stretches(ids, gaps, window):
        assert len(row) == window + 2
        assert [row[place] for place in places] == [4]
    assert len(filler.trace(long).tokens["encoder"][0]) == window + 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("The cat sat.", r"there is no \[MASK\] in the text: put it where a word is missing"),
        ("", r"there is no \[MASK\] in the text"),
        ("The <mask> sat.", r"write \[MASK\] where it says <mask>"),
        ("The [mask] sat.", r"write \[MASK\] where it says \[mask\]"),
        ("The ___ sat.", r"write \[MASK\] where it says ___"),
    ],
)
def test_a_text_without_a_gap(learned: FillTask, text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        learned.filler().fill(text)


def test_wrong_use(learned: FillTask) -> None:
    filler = learned.filler()
    with pytest.raises(UsageError, match="at least 1, not 0"):
        filler.fill("a [MASK]", top=0)
    with pytest.raises(UsageError, match="must be a str, not int"):
        filler.fill(3)  # type: ignore[arg-type]
    assert filler.fill("[MASK]").masks, "nothing else is there, and still it can be asked"
    words = Filler(task(pairs=False).model, TOKENIZER)
    with pytest.raises(UsageError, match="never learned which text follows"):
        words.follows("a", "b")


def test_which_text_follows(learned: FillTask) -> None:
    filler = learned.filler()
    first = "The red house is very red."
    assert filler.follows(first, "The red door is very red.") > filler.follows(first, "The blue wall is very blue.")
    assert 0 < filler.follows("the wall " * 100, "the wall " * 100) < 1


def test_a_bert_with_one_segment_is_not_asked_about_pairs(tmp_path: Path) -> None:
    (tmp_path / "texts.txt").write_text("\n\n".join(TEXTS), encoding="utf-8")
    names = []
    for segments in (1, 2):
        net = fresh_bert(TOKENIZER, {**SHAPE, "segments": segments}, next_sentence=True, seed=0)
        scores, _ = score_text(Filler(net.eval(), TOKENIZER), [tmp_path / "texts.txt"])
        names.append([score.name for score in scores])
    assert names[1] == [*names[0], "next sentence"]


def test_without_pairs_there_is_no_such_question() -> None:
    learner = task(pairs=False)
    for rows in learner.batches(BatchPlan(max_tokens=300), 0):
        loss = learner.loss(rows)
        assert loss.train.item() == loss.plain.item()
    scores, _ = learner.evaluate()
    assert "next sentence" not in {score.name for score in scores}
    assert learner.rates.pairs == 0


def test_a_batch_in_which_nothing_was_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    learner = task(pairs=False)
    rows = learner.batches(BatchPlan(max_tokens=300), 0)[0]
    monkeypatch.setattr("regard.data.masking.CHOSEN", 0.0)
    loss = learner.loss(rows)
    assert loss.train.item() == 0
    loss.train.backward()  # type: ignore[no-untyped-call]


def test_a_window_beyond_the_context() -> None:
    with pytest.raises(UsageError, match="window 99 is more than the model sees at once: 37"):
        task(window=99)


def test_a_fresh_model_knows_how_frequent_words_are() -> None:
    ids = documents_of(TEXTS, TOKENIZER, longest=17).ids
    model = fresh_bert(TOKENIZER, SHAPE, next_sentence=True, seed=0, ids=ids).eval()
    with torch.no_grad():
        words = model(torch.tensor([[2, 4, 3]])).words
    assert words is not None
    counts = np.bincount(ids, minlength=TOKENIZER.vocab_size)
    assert np.corrcoef(words[0, 1].numpy(), np.log(counts + 1))[0, 1] > 0.95
    again = fresh_bert(TOKENIZER, SHAPE, next_sentence=True, seed=0, ids=ids)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), again.parameters(), strict=True))
    odd = fresh_bert(TOKENIZER, {**SHAPE, "width": 23}, next_sentence=False, seed=0)
    assert odd.bert.embedding.positions.weight.shape == (37, 23)
