"""Pre-training: the loss by another road, exact resume, shares of a batch, masking rates, and predictions."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import regard
from regard.data.batches import BatchPlan
from regard.data.documents import documents_of
from regard.data.pretraining import row_keys
from regard.models.bert.config import BertConfig
from regard.models.bert.model import BertForPretraining, build
from regard.models.heads import HeadConfig
from regard.nn.init import seeded_init
from regard.tasks.embed.predictor import Embedder
from regard.tasks.fill.objective import FillObjective, initialize, row_index, split_index
from regard.tasks.fill.predictor import MaskFiller
from regard.tasks.fill.spec import FillTraining
from regard.tokenizers.tokenizer import BERT_SPECIAL_TOKENS
from regard.tokenizers.training import train_tokenizer
from regard.training.data_parallel import DataParallel
from regard.training.trainer import InterruptedRunError, Trainer
from regard.utils.errors import UsageError

COLOURS = ("red", "green", "blue", "white", "black")
TEXTS = [
    " ".join(f"The {colour} {thing} is very {colour}." for thing in ("house", "door", "wall", "roof", "tree", "car"))
    for colour in COLOURS
] * 12
TOKENIZER = train_tokenizer(TEXTS, kind="wordpiece", vocab_size=90, special_tokens=BERT_SPECIAL_TOKENS, lowercase=True)
SHAPE = dict(num_layers=2, d_model=24, d_ff=44, num_heads=2, head_dim=12, context_length=37, dropout=0.1)


def new_bert(seed: int = 0, pairs: bool = True, ids: Any = None, **shape: Any) -> BertForPretraining:
    config = BertConfig(**{**SHAPE, **shape, "vocab_size": TOKENIZER.vocab_size})
    head = HeadConfig(kind="pretraining" if pairs else "mlm")
    model: Any = seeded_init(lambda: build(config, head), seed=seed)
    initialize(model, ids)
    return model  # type: ignore[no-any-return]


def filler_of(model: BertForPretraining) -> MaskFiller:
    return MaskFiller(model, TOKENIZER, head=HeadConfig(kind="mlm" if model.nsp is None else "pretraining"))


def task(*, seed: int = 0, pairs: bool = True, shape: dict[str, Any] | None = None, **config: Any) -> FillObjective:
    documents = documents_of(TEXTS, TOKENIZER, longest=17)
    train, validation = documents.split(fraction=0.2, max_tokens=10_000)
    filler = filler_of(new_bert(seed, pairs, **(shape or {})))
    return FillObjective(filler, FillTraining(next_sentence=pairs, **config), train, validation, window=37)


def test_the_loss_is_that_of_the_whole_model_at_the_chosen_words() -> None:
    learner = task(shape={"dropout": 0.0})
    batches = learner.batches(BatchPlan(max_tokens=200, seed=3), epoch=2)
    rows = batches[0]
    found = learner.loss(rows)
    numbers = np.array([split_index(index)[2] for index in rows])
    plan = learner._plan(3, 2)[numbers]
    table, masked = learner.masked.rows(plan, row_keys(numbers, seed=3, epoch=2))
    ids, segments, lengths = (torch.from_numpy(x) for x in (masked.ids, table.type_ids, table.lengths))
    words, follows = learner.model(ids, lengths, segments)
    assert words is not None and follows is not None
    chosen = torch.from_numpy(masked.chosen)
    expected = F.cross_entropy(words[chosen].double(), torch.from_numpy(table.ids)[chosen])
    asked = torch.from_numpy(table.nsp_labels) >= 0
    # Class 0 says that the second text follows, as BERT has it.
    sentences = F.cross_entropy(follows[asked].double(), 1 - torch.from_numpy(table.nsp_labels)[asked])
    assert found.plain.item() == pytest.approx(expected.item(), rel=1e-5)
    assert found.train.item() == pytest.approx((expected + sentences).item(), rel=1e-5)
    assert found.num_targets == int(chosen.sum())


def test_validation_targets_are_about_those_of_the_loss() -> None:
    learner = task()
    counted = sum(int(masked.chosen.sum()) for _, masked, _ in learner.evaluator.batches(learner.model))
    assert learner.num_validation_targets == pytest.approx(counted, rel=0.3)


def test_the_loss_depends_on_its_indices_alone() -> None:
    """Not on the epoch whose batches were asked for last."""
    learner = task(shape={"dropout": 0.0})
    first, second = (learner.batches(BatchPlan(max_tokens=200, seed=3), epoch)[0] for epoch in (0, 1))
    before = learner.loss(first).train.item()
    learner.batches(BatchPlan(max_tokens=300, seed=4), epoch=7)
    assert learner.loss(first).train.item() == before
    assert task(shape={"dropout": 0.0}).loss(first).train.item() == before, "nor on batches at all"
    assert learner.size(first[0]) == task().size(first[0])
    both, one, other = (learner.loss(indices) for indices in ([*first, *second], first, second))
    expected = one.plain.item() * one.num_targets + other.plain.item() * other.num_targets
    assert both.num_targets == one.num_targets + other.num_targets
    assert both.plain.item() * both.num_targets == pytest.approx(expected, rel=1e-5), "rows of two epochs"
    assert split_index(row_index(2**31, 12, 345)) == (2**31, 12, 345)


@pytest.mark.parametrize("whole_words", [False, True])
def test_rates_are_measured_while_it_trains(whole_words: bool) -> None:
    learner = task(whole_words=whole_words)
    for epoch in range(12):
        for rows in learner.batches(BatchPlan(max_tokens=400), epoch):
            learner.loss(rows)
    rates = learner.stats
    assert rates.tokens > 15_000
    assert rates.chosen / rates.tokens == pytest.approx(0.15, abs=0.012)
    assert rates.masked / rates.chosen == pytest.approx(0.8, abs=0.04)
    assert rates.kept / rates.chosen == pytest.approx(0.1, abs=0.03)
    assert rates.following / rates.pairs == pytest.approx(0.5, abs=0.01)


def test_shares_of_a_batch_add_up(tmp_path: Path) -> None:
    learner = task(shape={"dropout": 0.0})
    rows = learner.batches(BatchPlan(max_tokens=600), epoch=0)[0]
    gradients = []
    for count in (1, 3):
        replicas = DataParallel(learner, count)
        replicas.backward([rows], seed=0)
        replicas.close()
        gradients.append([p.grad.clone() for p in learner.model.mlm.parameters()])  # type: ignore[union-attr]
    # The hidden words of a row are the same wherever it stands, so the words' part of the gradient is, too.
    for whole, parts in zip(*gradients, strict=True):
        assert torch.allclose(whole, parts, atol=1e-4, rtol=1e-3)


def weights(learner: FillObjective) -> list[torch.Tensor]:
    return [param.detach().clone() for param in learner.model.parameters()]


def test_resumed_equals_uninterrupted_bit_for_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = FillTraining(steps=30, batch_tokens=300, warmup_steps=2, learning_rate=0.003, num_evals=2)
    straight = task()
    Trainer(straight, config, tmp_path / "a").fit()
    assert max(epoch for _, epoch in straight._plans) >= 2, "the masks and pairs of several epochs"
    broken = task()
    trainer = Trainer(broken, config, tmp_path / "b")
    loss, calls = broken.loss, []

    def stopping(indices: Any) -> Any:
        calls.append(indices)
        trainer.interrupted = len(calls) == 13
        return loss(indices)

    monkeypatch.setattr(broken, "loss", stopping)
    with pytest.raises(InterruptedRunError):
        trainer.fit()
    resumed = task(seed=1)  # other weights, which the checkpoint replaces
    Trainer(resumed, config, tmp_path / "b").fit(resume=True)
    for one, other in zip(weights(straight), weights(resumed), strict=True):
        assert torch.equal(one, other)


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> FillObjective:
    learner = task(shape={"dropout": 0.0})
    config = FillTraining(
        steps=250,
        batch_tokens=1500,
        learning_rate=0.01,
        muon_learning_rate=0.03,
        warmup_steps=10,
        weight_averaging="none",
    )
    Trainer(learner, config, tmp_path_factory.mktemp("run")).fit()
    return learner


def test_it_learns_words_that_stand_elsewhere_in_the_text(learned: FillObjective) -> None:
    scores, samples = learned.evaluate()
    by_name = {score.name: score.value for score in scores}
    assert by_name["masked words"] > by_name["bigram baseline"] + 5 > by_name["unigram baseline"]
    assert by_name["masked words"] > 60
    assert by_name["next sentence"] > 60  # another document has another colour
    assert 1 <= by_name["perplexity"] < 5
    assert by_name["masked tokens chosen"] == pytest.approx(15, abs=1)
    assert all("[MASK]" in sample.source and "%" in sample.output for sample in samples)
    filler = learned.predictor()
    assert filler("the red door is very [MASK].").best == "the red door is very red."
    assert filler("The [MASK] house is very blue.").masks[0][0].token == "blue"


def test_a_filler_gives_probabilities(learned: FillObjective) -> None:
    filler = learned.predictor()
    text = "The [MASK] door is very green. The green [MASK] is very green."
    found = filler(text, top=4)
    assert [len(mask) for mask in found.masks] == [4, 4]
    for mask in found.masks:
        assert [item.score for item in mask] == sorted((item.score for item in mask), reverse=True)
    every = filler.probabilities(text)
    assert every.shape == (2, TOKENIZER.vocab_size)
    assert every.sum(axis=1) == pytest.approx([1, 1], abs=1e-5)
    assert every[0].max() == pytest.approx(found.masks[0][0].score)
    whole = filler(text, all=True)
    assert math.fsum(item.score for item in whole.masks[1]) == pytest.approx(1, abs=1e-5)
    assert [item.token for item in whole.masks[1]] == sorted(TOKENIZER.vocabulary())
    assert filler([text, text]) == [filler(text)] * 2
    assert found.record()["masks"][0][0] == dataclasses.asdict(found.masks[0][0])
    assert [row["mask"] for row in found.rows()] == [1] * 4 + [2] * 4
    assert found.best in str(found) and "\n" not in str(found)


def test_the_first_candidate_is_that_of_the_model(learned: FillObjective) -> None:
    ids = [2, *TOKENIZER.encode("The red"), 4, *TOKENIZER.encode("is very red."), 3]
    with torch.no_grad():
        logits = learned.model(torch.tensor([ids])).mlm
    assert logits is not None
    expected = logits[0, ids.index(4)].double().softmax(-1)
    [mask] = learned.predictor()("The red [MASK] is very red.", top=3).masks
    assert [TOKENIZER.vocabulary().index(item.token) for item in mask] == expected.topk(3).indices.tolist()
    assert [item.score for item in mask] == pytest.approx(expected.topk(3).values.tolist(), abs=1e-5)


def test_a_long_text_is_read_around_its_masks(learned: FillObjective) -> None:
    filler = learned.predictor()
    around = "The blue [MASK] is very blue."
    long = "the wall " * 40 + around + " the wall" * 40 + around
    notes: list[str] = []
    found, short = filler([long, around], notify=notes.append)
    assert found.is_truncated and not short.is_truncated
    assert len(notes) == 1 and "text 1" in notes[0]
    assert len(found.masks) == 2
    assert found.best.count("the wall") >= 80, "the rest of the text is still there"
    for window, places in filler._windows(*filler._join(filler._parts(long))):
        assert len(window) == 37
        assert [window[place] for place in places] == [4]
    assert len(filler.trace(long).tokens["encoder"][0]) == 37
    exact = "the " * 34 + "[MASK]"
    assert len(TOKENIZER.encode("the " * 34)) == 34
    assert not filler(exact).is_truncated


@pytest.mark.parametrize("text", ["The cat sat.", "", "The <mask> sat.", "The [mask] sat.", "The ___ sat.", 3])
def test_a_text_without_a_mask(learned: FillObjective, text: Any) -> None:
    with pytest.raises(UsageError) as error:
        learned.predictor()(text)
    assert (error.value.argument, error.value.value) == ("inputs", text)


def test_wrong_use(learned: FillObjective) -> None:
    filler = learned.predictor()
    with pytest.raises(UsageError) as error:
        filler("a [MASK]", top=0)
    assert (error.value.argument, error.value.value) == ("top", 0)
    assert filler("[MASK]").masks, "a text without other tokens"
    with pytest.raises(UsageError) as error:
        filler_of(new_bert(pairs=False)).next_sentence_probability("a", "b")
    assert error.value.argument == "head"


def test_models_without_an_mlm_head_are_refused(tmp_path: Path) -> None:
    config = BertConfig(**SHAPE, vocab_size=TOKENIZER.vocab_size)
    for kind in ("none", "nsp"):
        head = HeadConfig(kind=kind)
        embedder = Embedder(build(config, head), TOKENIZER, head=head)
        assert MaskFiller.adapt(embedder) is None
        with pytest.raises(UsageError) as error:
            MaskFiller(embedder.model, TOKENIZER, head=head)
        assert error.value.argument == "head"
        embedder.save(tmp_path / kind)
        with pytest.raises(UsageError) as error:
            regard.load(tmp_path / kind, task="fill")
        assert (error.value.argument, error.value.value) == ("task", "fill")


def test_which_text_follows(learned: FillObjective) -> None:
    filler = learned.predictor()
    first = "The red house is very red."
    assert filler.next_sentence_probability(first, "The red door is very red.") > filler.next_sentence_probability(
        first, "The blue wall is very blue."
    )
    assert 0 < filler.next_sentence_probability("the wall " * 100, "the wall " * 100) < 1


def test_a_bert_with_one_token_type_is_not_scored_on_pairs(tmp_path: Path) -> None:
    (tmp_path / "texts.txt").write_text("\n\n".join(TEXTS), encoding="utf-8")
    names = []
    for count in (1, 2):
        filler = filler_of(new_bert(type_vocab_size=count))
        scores = regard.evaluate(filler, tmp_path / "texts.txt")
        names.append([score.name for score in scores])
        assert filler.evaluate(TEXTS) == scores, "texts are documents"
    assert names[1] == [*names[0], "next sentence"]


def test_without_pairs_there_is_no_such_question() -> None:
    learner = task(pairs=False)
    for rows in learner.batches(BatchPlan(max_tokens=300), 0):
        loss = learner.loss(rows)
        assert loss.train.item() == loss.plain.item()
    scores, _ = learner.evaluate()
    assert "next sentence" not in {score.name for score in scores}
    assert learner.stats.pairs == 0


def test_a_batch_in_which_nothing_was_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    learner = task(pairs=False)
    rows = learner.batches(BatchPlan(max_tokens=300), 0)[0]
    monkeypatch.setattr("regard.data.pretraining.CHOSEN", 0.0)
    loss = learner.loss(rows)
    assert loss.train.item() == 0
    loss.train.backward()  # type: ignore[no-untyped-call]


def test_a_window_beyond_the_context(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as error:
        regard.train("fill", out=tmp_path / "m", size="tiny", context_length=37, window=99, steps=1)
    assert (error.value.argument, error.value.value) == ("window", 99)


def test_a_new_model_knows_how_frequent_words_are() -> None:
    ids = documents_of(TEXTS, TOKENIZER, longest=17).ids
    model = new_bert(ids=ids).eval()
    with torch.no_grad():
        words = model(torch.tensor([[2, 4, 3]])).mlm
    assert words is not None
    counts = np.bincount(ids, minlength=TOKENIZER.vocab_size)
    assert np.corrcoef(words[0, 1].numpy(), np.log(counts + 1))[0, 1] > 0.95
    again = new_bert(ids=ids)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), again.parameters(), strict=True))
    odd = new_bert(pairs=False, d_model=23)
    assert odd.bert.embedding.positions.weight.shape == (37, 23)
