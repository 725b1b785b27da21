"""Answering: windows that lose nothing, the best stretch by brute force, silence, and that it learns at all."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.checkpoint.folder import own_tensors, write_model
from regard.data.squad import Question
from regard.errors import FolderError, UsageError
from regard.metrics.spans import score_answers
from regard.models.bert_settings import BertConfig
from regard.tasks.answer import (
    HEAD,
    Answer,
    Answerer,
    AnswerTask,
    Passage,
    Reading,
    Span,
    baselines,
    best_spans,
    best_threshold,
    golds_of,
    make_answerer_model,
    score,
    silence_score,
    silenced,
    span_scores,
    target,
    windows,
)
from regard.tasks.folders import load_answerer, load_embedder, load_folder
from regard.tasks.settings import LabelConfig, SpanConfig
from regard.text.tokenizer import Symbols
from regard.text.training import train_tokenizer

SYMBOLS = Symbols(pad="[PAD]", unknown="[UNK]", start="[CLS]", end="[SEP]")
TOKENIZER = train_tokenizer(
    ["who sleeps in the kitchen where does the cat sleep the dog runs in a garden . ?"] * 5,
    kind="wordpiece", vocab_size=90, symbols=SYMBOLS, lowercase=True,
)  # fmt: skip
QUESTION, PASSAGE = "Who sleeps?", "  The CAT sleeps in the kitchen.\n\nThe dog runs, in a (big) garden."
CLS, SEP = TOKENIZER.start_id, TOKENIZER.end_id


def shape(**changes: object) -> BertConfig:
    small = dict(layers=2, width=12, hidden=20, heads=2, head_width=6, context=61, dropout=0.0)
    return BertConfig(vocab_size=TOKENIZER.vocab_size, **{**small, **changes})  # type: ignore[arg-type]


def answerer(seed: int = 0, max_tokens: int | None = None, **config: Any) -> Answerer:
    """A random model whose weights are large enough to prefer some answers to others."""
    net = make_answerer_model(shape(), HEAD, seed=seed)
    for parameter in net.parameters():
        parameter.data *= 8 if parameter.dim() > 1 else 1
    return Answerer(net, TOKENIZER, config=SpanConfig(**config), max_tokens=max_tokens)


# --- Windows -----------------------------------------------------------------------------------------------


@given(st.integers(0, 40), st.integers(0, 90), st.integers(4, 30), st.integers(0, 30), st.data())
def test_m158_windows_cover_the_passage(
    asked: int, tokens: int, longest: int, stride: int, data: st.DataObject
) -> None:
    question, passage = list(range(100, 100 + asked)), list(range(1000, 1000 + tokens))
    cut = windows(question, passage, start_id=1, end_id=2, longest=longest, stride=stride)
    room = longest - cut[0].row.first - 1
    shared = min(stride, room // 2)
    covered: set[int] = set()
    for number, window in enumerate(cut):
        ids, place = window.row.ids, window.row.first
        assert len(ids) <= longest
        assert [ids[0], ids[place - 1], ids[-1]] == [1, 2, 2]
        assert ids[1 : place - 1] == question[: place - 2]
        assert ids[place:-1] == passage[window.first : window.first + window.tokens]
        covered |= set(range(window.first, window.first + window.tokens))
        if number:
            assert cut[number - 1].first + cut[number - 1].tokens - window.first == shared
    assert covered == set(range(tokens))
    assert cut[0].row.first - 2 == min(asked, (longest - 3) // 2), "a question takes half of the room at most"
    if tokens:
        first = data.draw(st.integers(0, tokens - 1))
        last = data.draw(st.integers(first, min(tokens - 1, first + 2 * room)))
        found = [(window, *target(window, (first, last))) for window in cut]
        for window, begin, end in found:
            held = window.first <= first and last < window.first + window.tokens
            assert (begin > 0) == held
            if held:
                assert window.row.ids[begin : end + 1] == passage[first : last + 1]
            else:
                assert (begin, end) == (0, 0)
        if last - first <= shared:
            assert any(begin for _, begin, _ in found), "what is no longer than the overlap stands whole somewhere"


def test_an_answer_is_found_by_its_characters() -> None:
    (reading,) = answerer().readings([(QUESTION, PASSAGE)], stride=8)
    passage = reading.passage
    for text in ("The CAT", "CAT", "AT", "kitchen.", "the kitchen.\n\nThe dog", "(big)", " CAT ", "garden."):
        start = PASSAGE.index(text)
        found = passage.tokens_of(start, text)
        assert found is not None
        begin, end = int(passage.begins[found[0]]), int(passage.ends[found[1]])
        assert text.strip() in PASSAGE[begin:end], "whole tokens, so perhaps a little more"
        assert len(PASSAGE[begin:end].split()) == len(text.split())
    assert passage.tokens_of(PASSAGE.index("\n"), "\n") is None


# --- The best stretch --------------------------------------------------------------------------------------


@settings(max_examples=60)
@given(st.integers(1, 23), st.integers(6, 15), st.integers(0, 5), st.integers(1, 7), st.integers(0, 1000))
def test_m159_the_best_span_is_that_of_a_double_loop(
    tokens: int, longest: int, stride: int, most: int, seed: int
) -> None:
    random = np.random.default_rng(seed)
    cut = windows([7, 8], list(range(tokens)), start_id=1, end_id=2, longest=longest, stride=stride)
    outputs = [random.normal(size=(len(window.row.ids), 2)).astype(np.float32) for window in cut]
    shown = random.random(tokens) < 0.8
    shown[random.integers(tokens)] = True
    begins = np.arange(tokens) * 2
    reading = Reading(Passage("", list(range(tokens)), begins, begins + shown), cut)
    wanted: dict[tuple[int, int], float] = {}
    for window, output in zip(cut, outputs, strict=True):
        for i, j in itertools.product(range(window.tokens), repeat=2):
            first, last = window.first + i, window.first + j
            if i <= j < i + most and shown[first] and shown[last]:
                value = float(output[window.row.first + i, 0] + output[window.row.first + j, 1])
                wanted[first, last] = max(value, wanted.get((first, last), -np.inf))
    ranked = sorted(wanted.items(), key=lambda item: -item[1])
    found = list(best_spans(span_scores(reading, outputs, most), 5))
    assert [(first, last) for first, last, _ in found] == [place for place, _ in ranked[:5]]
    assert [value for *_, value in found] == pytest.approx([value for _, value in ranked[:5]], rel=1e-6)
    assert silence_score(outputs) == pytest.approx(min(output[0, 0] + output[0, 1] for output in outputs), rel=1e-6)


@pytest.mark.parametrize("max_tokens", [61, 19, 12])
def test_m158_answers_are_those_of_a_plain_reading(max_tokens: int) -> None:
    """One window at a time, every pair of tokens, with the tokenizer's own pieces."""
    model = answerer(seed=3, max_tokens=max_tokens, stride=5, max_answer_tokens=4, n_best=3, threshold=0.0)
    found = model(QUESTION, PASSAGE)
    pieces = TOKENIZER.pieces(PASSAGE)
    question = TOKENIZER.encode(QUESTION)
    question = question[: (max_tokens - 3) // 2]
    room = max_tokens - len(question) - 3
    step = room - min(5, room // 2)
    best: dict[tuple[int, int], float] = {}
    silences = []
    for begin in range(0, len(pieces), step):
        part = [piece.id for piece in pieces[begin : begin + room]]
        ids = [CLS, *question, SEP, *part, SEP]
        kinds = [0] * (len(question) + 2) + [1] * (len(part) + 1)
        with torch.no_grad():
            logits = model.model(torch.tensor([ids]), None, torch.tensor([kinds]))[0].double()
        silences.append(logits[0].sum().item())
        for i in range(len(part)):
            for j in range(i, min(i + 4, len(part))):
                value = (logits[len(question) + 2 + i, 0] + logits[len(question) + 2 + j, 1]).item()
                best[begin + i, begin + j] = max(value, best.get((begin + i, begin + j), -np.inf))
        if begin + room >= len(pieces):
            break
    weights = torch.tensor([*best.values(), min(silences)]).double()
    ranked = sorted(best, key=lambda place: -best[place])
    assert len(found.best) == 3
    for span, (i, j) in zip(found.best, ranked, strict=False):
        stretch = PASSAGE[pieces[i].start : pieces[j].end]
        assert span.text == stretch.strip() == PASSAGE[span.start : span.end]
        assert span.score == pytest.approx(best[i, j], rel=1e-5)
        assert span.probability == pytest.approx((best[i, j] - weights.logsumexp(0)).exp().item(), rel=1e-4)
    assert found.no_answer == pytest.approx(min(silences) - best[ranked[0]], rel=1e-4)
    assert found.text == ("" if found.no_answer > 0 else found.best[0].text)


def test_questions_alone_and_together() -> None:
    model = answerer(seed=1)
    asked = [(QUESTION, PASSAGE), ("Where does the dog run?", PASSAGE), (QUESTION, "The dog sleeps.")]
    together = model(asked)
    for pair, found in zip(asked, together, strict=True):
        alone = model(*pair)
        assert (alone.text, alone.start, alone.end) == (found.text, found.start, found.end)
        assert alone.probability == pytest.approx(found.probability, rel=1e-4)
    assert model([one for one, _ in asked], [one for _, one in asked]) == together
    assert model([QUESTION, QUESTION], PASSAGE)[1].text == together[0].text
    assert model([]) == []
    assert str(together[0]) == together[0].text == PASSAGE[together[0].start : together[0].end]


def test_m160_silence() -> None:
    model = answerer(seed=2)
    best = model(QUESTION, PASSAGE)
    assert best.text, "without a threshold there always is an answer"
    silent = model(QUESTION, PASSAGE, threshold=best.no_answer - 0.01)
    assert (silent.text, silent.start, silent.end) == ("", 0, 0)
    assert silent.best[0].text == best.text
    assert model(QUESTION, PASSAGE, threshold=best.no_answer + 0.01).text == best.text
    shares = model(QUESTION, PASSAGE, threshold=0.0, n_best=10_000)
    none = model(QUESTION, PASSAGE, threshold=-1e9).probability
    assert sum(span.probability for span in shares.best) + none == pytest.approx(1, rel=1e-4)
    assert sum(span.probability for span in model(QUESTION, PASSAGE, n_best=10_000).best) == pytest.approx(1, rel=1e-4)


def test_m160_long_passages_and_long_questions() -> None:
    model = answerer(max_tokens=61, stride=4)
    words = "cat " * 3_000 + "kitchen"
    found = model("where " * 500, words)
    assert words[found.start : found.end] == found.text
    assert len(found.text.split()) <= 30


@pytest.mark.parametrize(
    ("question", "passage", "message"),
    [
        ("", PASSAGE, "the question of example 1 is empty"),
        (QUESTION, " \n", "the passage of example 1 is empty"),
        (QUESTION, "\u200b", "a passage has no words"),
        (QUESTION, None, "a question needs a passage"),
        ([QUESTION], None, "questions need passages"),
        ([QUESTION, QUESTION], [PASSAGE], "2 questions and 1 passage do"),
    ],
)
def test_what_cannot_be_asked(question: Any, passage: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        answerer()(question, passage)


@pytest.mark.parametrize(
    "wrong", [{"stride": -1}, {"n_best": 0}, {"max_answer_tokens": 0}, {"threshold": float("nan")}, {"thresold": 1}]
)
def test_settings_that_cannot_be(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=next(iter(wrong))):
        answerer()(QUESTION, PASSAGE, **wrong)


# --- Scores and training -----------------------------------------------------------------------------------


def question(name: str, text: str, passage: str, *answers: str) -> Question:
    found = tuple((passage.index(answer), answer) for answer in answers)
    return Question(name, text, passage, found, impossible=not found)


CAT = "The cat sleeps in the kitchen. The dog runs in a garden."
DOG = "The dog sleeps in a garden. The cat runs in the kitchen."
ASKED = [
    question("1", "Who sleeps?", CAT, "The cat", "cat"),
    question("2", "Who runs?", CAT, "The dog"),
    question("3", "Who sleeps?", DOG, "The dog"),
    question("4", "Where does the cat run?", DOG, "the kitchen"),
]
NONE = question("5", "Where does the cat sleep?", "The dog runs.")


def said(one: Question, text: str, *, no_answer: float) -> Answer:
    best = Span(text or "The dog", 0, 7, 1.0, 0.5)
    return Answer(one.question, one.passage, text, 0, len(text), 0.5, no_answer, (best,))


def test_scores_beside_baselines() -> None:
    answers = [said(one, one.answers[0][1], no_answer=-3.0) for one in ASKED]
    scores = {one.name: one.value for one in score(ASKED, answers, None)}
    assert scores == {"exact match": 100, "F1": 100}
    assert [one.name for one in baselines(ASKED)] == ["exact match of the first sentence", "F1 of the first sentence"]
    # "cat sleeps in kitchen": one of its four words is the answer "cat": 2 · 1 / (4 + 1).
    assert {one.name: one.value for one in baselines(ASKED[:1])}["F1 of the first sentence"] == pytest.approx(40)
    answers.append(said(NONE, "dog", no_answer=1.0))
    both = {one.name: one.value for one in score([*ASKED, NONE], answers, 2.0)}
    assert both["exact match, questions with an answer"] == 100
    assert both["exact match, questions without one"] == 0
    assert both["F1"] == pytest.approx(80)
    assert both["best F1"] == 100, "a threshold between -3 and 1"
    assert {one.name: one.value for one in baselines([*ASKED, NONE])}["F1 of silence"] == 20


def f1_at(threshold: float, asked: list[Question], answers: list[Answer]) -> float:
    given = {one.id: silenced(found, threshold).text for one, found in zip(asked, answers, strict=True)}
    return score_answers(given, golds_of(asked)).f1.value


@settings(max_examples=80)
@given(
    st.lists(st.tuples(st.booleans(), st.sampled_from(["cat", "the dog", "garden"])), min_size=1, max_size=6),
    st.lists(st.integers(-9, 9), min_size=7, max_size=7, unique=True),
)
def test_m160_no_threshold_is_better_than_the_chosen_one(kinds: list[tuple[bool, str]], sure: list[int]) -> None:
    """Brute force: below all questions, above all, and between any two of them, whatever the sign of their numbers."""
    asked = [
        question(str(number), "Who?", CAT, *(["The dog"] if answerable else []))
        for number, (answerable, _) in enumerate(kinds)
    ]
    asked.append(question("none", "Who?", CAT))
    answers = [
        said(one, text, no_answer=float(number))
        for one, (_, text), number in zip(asked, [*kinds, (False, "cat")], sure, strict=False)
    ]
    chosen = best_threshold(asked, answers)
    candidates = [number + 0.5 for number in range(-11, 11)]
    best = max(f1_at(threshold, asked, answers) for threshold in candidates)
    assert f1_at(chosen, asked, answers) == best
    scores = {one.name: one for one in score(asked, answers, chosen)}
    assert scores["best F1"].value == pytest.approx(best)
    told = float(scores["best F1"].signature.split("threshold:")[1])
    assert f1_at(told, asked, answers) == best, "the threshold that is told gives what is told"


def test_where_nothing_beats_silence_nobody_answers() -> None:
    asked = [ASKED[0], NONE]
    answers = [said(ASKED[0], "garden", no_answer=-2.0), said(NONE, "dog", no_answer=-5.0)]
    chosen = best_threshold(asked, answers)
    assert chosen < -5
    assert [silenced(one, chosen).text for one in answers] == ["", ""]
    (best,) = [one for one in score(asked, answers, chosen) if one.name == "best F1"]
    assert (best.value, best.signature) == (50, "squad:v2|n:2|threshold:-6")


def test_one_segment_is_not_enough() -> None:
    net = make_answerer_model(shape(segments=1), HEAD, seed=0)
    with pytest.raises(UsageError, match="has one segment, pairs need two"):
        Answerer(net, TOKENIZER)(QUESTION, PASSAGE)
    with pytest.raises(UsageError, match="has one segment, pairs need two"):
        task(ASKED, segments=1)


def test_another_answer_is_another_example() -> None:
    moved = [question("1", "Who sleeps?", CAT, "cat"), *ASKED[1:]]
    assert task(ASKED).examples() == task(list(ASKED)).examples()
    for train, held in ((moved, ASKED), (ASKED, moved), (ASKED[::-1], ASKED), (ASKED, ASKED[:3])):
        assert both(train, held).examples() != task(ASKED).examples()


def both(train: list[Question], held: list[Question]) -> AnswerTask:
    return AnswerTask(
        model=make_answerer_model(shape(), HEAD, seed=0), tokenizer=TOKENIZER, questions=(train, held),
        config=LabelConfig(max_tokens=40),
    )  # fmt: skip


def task(asked: list[Question], spans: SpanConfig | None = None, **changes: object) -> AnswerTask:
    return AnswerTask(
        model=make_answerer_model(shape(**changes), HEAD, seed=0),
        tokenizer=TOKENIZER,
        questions=(asked, asked),
        config=LabelConfig(max_tokens=40),
        spans=spans,
    )


def test_the_loss_is_that_of_real_tokens() -> None:
    """Padding is no place to begin an answer: rows learn the same alone and together."""
    doing = task([*ASKED, NONE])
    together = doing.loss([0, 3, 4])
    alone = [doing.loss([index]).train.item() for index in (0, 3, 4)]
    assert together.tokens == 3
    assert together.train.item() == pytest.approx(sum(alone) / 3, rel=1e-5)
    assert doing.validation_loss() == pytest.approx(doing.loss(range(5)).train.item(), rel=1e-5)
    row = doing.train[4]
    logits = doing.model(
        torch.tensor([row.ids]), None, torch.tensor([[0] * row.first + [1] * (len(row.ids) - row.first)])
    )
    wanted = -logits[0].log_softmax(0)[0].mean().item()
    assert alone[2] == pytest.approx(wanted, rel=1e-5), "a question without an answer points to [CLS]"


def test_an_answer_that_no_window_holds_is_counted() -> None:
    long = question("1", "Who?", CAT, "cat sleeps in the kitchen. The dog")
    doing = AnswerTask(
        model=make_answerer_model(shape(), HEAD, seed=0), tokenizer=TOKENIZER, questions=([long, ASKED[0]], ASKED),
        config=LabelConfig(max_tokens=10), spans=SpanConfig(stride=2),
    )  # fmt: skip
    assert doing.unreachable == 1


def test_m158_m160_it_learns_answers_and_silence() -> None:
    doing = task([*ASKED, NONE], width=32, hidden=64, head_width=16)
    assert doing.product.config.threshold == 0, "a place to start from"
    doing.model.train()
    optimiser = torch.optim.Adam(doing.model.parameters(), lr=0.003)
    for _ in range(2000):  # when it understands depends on how sums are rounded: after 300 steps, or after 600
        optimiser.zero_grad()
        loss = doing.loss(range(5)).train
        loss.backward()
        optimiser.step()
        if loss.item() < 0.01:
            break
    scores, samples = doing.evaluate()
    assert [one.value for one in scores[:2]] == [100, 100]
    assert samples[0].reference == samples[0].output == "The cat"
    assert (samples[4].reference, samples[4].output) == ("(no answer)",) * 2
    assert doing.result()("Who runs?", CAT).text == "The dog"
    assert doing.result()(NONE.question, NONE.passage).text == ""
    assert doing.contents().config["answering"]["threshold"] == doing.product.config.threshold != 0
    assert f"threshold:{doing.product.config.threshold:.4g}" in scores[0].signature


def test_who_gives_a_threshold_keeps_it() -> None:
    doing = task([*ASKED, NONE], spans=SpanConfig(threshold=1e9))
    doing.evaluate()
    assert doing.product.config.threshold == 1e9
    always = task(ASKED)
    always.evaluate()
    assert always.product.config.threshold is None, "where every question has an answer, one is always given"


def test_saved_is_loaded(tmp_path: Path) -> None:
    model = answerer(seed=4, max_tokens=15, stride=3, threshold=1.5)
    contents = model.contents()
    write_model(tmp_path / "m", config=contents.config, tensors=own_tensors(model.model), texts=contents.texts)
    found = load_folder(tmp_path / "m")
    assert isinstance(found, Answerer)
    assert (found.config, found.max_tokens) == (model.config, 15)
    assert found(QUESTION, PASSAGE) == model(QUESTION, PASSAGE) == load_answerer(tmp_path / "m")(QUESTION, PASSAGE)
    assert load_embedder(tmp_path / "m").embed(["cat"]).shape == (1, 12)
    wrong = {**contents.config, "answering": {"stried": 3}}
    write_model(tmp_path / "w", config=wrong, tensors=own_tensors(model.model), texts=contents.texts)
    with pytest.raises(FolderError, match="stried"):
        load_folder(tmp_path / "w")


def test_attention_over_both_texts() -> None:
    model = answerer()
    trace = model.trace((QUESTION, PASSAGE))
    rows, _ = trace.labels("encoder.0.self")
    assert rows[0] == "[CLS]"
    assert rows.count("[SEP]") == 2
    with pytest.raises(UsageError, match="give two texts"):
        model.trace(PASSAGE)
