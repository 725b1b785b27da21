"""Answering: windows that lose nothing, the best span by brute force, no answers, and that it learns at all."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import regard
from regard.data.squad import Question
from regard.metrics.spans import score_answers
from regard.models.bert.config import BertConfig
from regard.models.bert.model import build
from regard.models.heads import HeadConfig
from regard.nn.init import seeded_init
from regard.tasks.answer.objective import NO_ANSWER, AnswerObjective
from regard.tasks.answer.predictor import (
    Answer,
    EncodedQuestion,
    Passage,
    QuestionAnswerer,
    Span,
    answer_scores,
    apply_threshold,
    baselines,
    best_spans,
    best_threshold,
    gold_answers,
    null_score,
    passage_windows,
    span_scores,
    target,
)
from regard.tasks.answer.spec import AnswerConfig
from regard.tasks.base import Splits
from regard.tasks.encoder.objective import EncoderInit
from regard.tokenizers.tokenizer import SpecialTokens
from regard.tokenizers.training import train_tokenizer
from regard.training.run import TrainRequest
from regard.utils.errors import FolderError, UsageError

HEAD = HeadConfig(kind="question_answering")
SPECIAL_TOKENS = SpecialTokens(pad="[PAD]", unknown="[UNK]", start="[CLS]", end="[SEP]")
TOKENIZER = train_tokenizer(
    ["who sleeps in the kitchen where does the cat sleep the dog runs in a garden . ?"] * 5,
    kind="wordpiece", vocab_size=90, special_tokens=SPECIAL_TOKENS, lowercase=True,
)  # fmt: skip
QUESTION, PASSAGE = "Who sleeps?", "  The CAT sleeps in the kitchen.\n\nThe dog runs, in a (big) garden."
CLS, SEP = TOKENIZER.start_id, TOKENIZER.end_id


def network(seed: int = 0, **changes: object) -> Any:
    small = dict(num_layers=2, d_model=12, d_ff=20, num_heads=2, head_dim=6, context_length=61, dropout=0.0)
    config = BertConfig(vocab_size=TOKENIZER.vocab_size, **{**small, **changes})  # type: ignore[arg-type]
    return seeded_init(lambda: build(config, HEAD), seed=seed)


def question_answerer(seed: int = 0, max_seq_len: int | None = None, **config: Any) -> QuestionAnswerer:
    """A random model whose weights are large enough to prefer some answers to others."""
    net = network(seed)
    for parameter in net.parameters():
        parameter.data *= 8 if parameter.dim() > 1 else 1
    return QuestionAnswerer(net, TOKENIZER, head=HEAD, config=AnswerConfig(**config), max_seq_len=max_seq_len)


# --- Windows -----------------------------------------------------------------------------------------------


@given(st.integers(0, 40), st.integers(0, 90), st.integers(4, 30), st.integers(0, 30), st.data())
def test_m158_windows_cover_the_passage(
    asked: int, tokens: int, longest: int, stride: int, data: st.DataObject
) -> None:
    question, passage = list(range(100, 100 + asked)), list(range(1000, 1000 + tokens))
    cut = passage_windows(question, passage, start_id=1, end_id=2, max_seq_len=longest, stride=stride)
    window_length = longest - cut[0].example.first - 1
    shared = min(stride, window_length // 2)
    covered: set[int] = set()
    for number, window in enumerate(cut):
        ids, place = window.example.ids, window.example.first
        assert len(ids) <= longest
        assert [ids[0], ids[place - 1], ids[-1]] == [1, 2, 2]
        assert ids[1 : place - 1] == question[: place - 2]
        assert ids[place:-1] == passage[window.first : window.first + window.num_tokens]
        covered |= set(range(window.first, window.first + window.num_tokens))
        if number:
            assert cut[number - 1].first + cut[number - 1].num_tokens - window.first == shared
    assert covered == set(range(tokens))
    assert cut[0].example.first - 2 == min(asked, (longest - 3) // 2), "a question takes at most half of a window"
    if tokens:
        first = data.draw(st.integers(0, tokens - 1))
        last = data.draw(st.integers(first, min(tokens - 1, first + 2 * window_length)))
        found = [(window, *target(window, (first, last))) for window in cut]
        for window, begin, end in found:
            is_inside = window.first <= first and last < window.first + window.num_tokens
            assert (begin > 0) == is_inside
            if is_inside:
                assert window.example.ids[begin : end + 1] == passage[first : last + 1]
            else:
                assert (begin, end) == (0, 0)
        if last - first <= shared:
            assert any(begin for _, begin, _ in found), "an answer no longer than the overlap is whole in some window"


def test_an_answer_is_found_by_its_characters() -> None:
    (encoded,) = question_answerer().encode([(QUESTION, PASSAGE)], stride=8)
    passage = encoded.passage
    for text in ("The CAT", "CAT", "AT", "kitchen.", "the kitchen.\n\nThe dog", "(big)", " CAT ", "garden."):
        start = PASSAGE.index(text)
        found = passage.tokens_of(start, text)
        assert found is not None
        begin, end = int(passage.starts[found[0]]), int(passage.ends[found[1]])
        assert text.strip() in PASSAGE[begin:end], "whole tokens, so perhaps a little more"
        assert len(PASSAGE[begin:end].split()) == len(text.split())
    assert passage.tokens_of(PASSAGE.index("\n"), "\n") is None


# --- The best span -----------------------------------------------------------------------------------------


@settings(max_examples=60)
@given(st.integers(1, 23), st.integers(6, 15), st.integers(0, 5), st.integers(1, 7), st.integers(0, 1000))
def test_m159_the_best_span_is_that_of_a_double_loop(
    tokens: int, longest: int, stride: int, most: int, seed: int
) -> None:
    random = np.random.default_rng(seed)
    cut = passage_windows([7, 8], list(range(tokens)), start_id=1, end_id=2, max_seq_len=longest, stride=stride)
    outputs = [random.normal(size=(len(window.example.ids), 2)).astype(np.float32) for window in cut]
    shown = random.random(tokens) < 0.8
    shown[random.integers(tokens)] = True
    begins = np.arange(tokens) * 2
    encoded = EncodedQuestion(Passage("", list(range(tokens)), begins, begins + shown), cut)
    wanted: dict[tuple[int, int], float] = {}
    for window, output in zip(cut, outputs, strict=True):
        for i, j in itertools.product(range(window.num_tokens), repeat=2):
            first, last = window.first + i, window.first + j
            if i <= j < i + most and shown[first] and shown[last]:
                value = float(output[window.example.first + i, 0] + output[window.example.first + j, 1])
                wanted[first, last] = max(value, wanted.get((first, last), -np.inf))
    ranked = sorted(wanted.items(), key=lambda item: -item[1])
    found = list(best_spans(span_scores(encoded, outputs, most), 5))
    assert [(first, last) for first, last, _ in found] == [place for place, _ in ranked[:5]]
    assert [value for *_, value in found] == pytest.approx([value for _, value in ranked[:5]], rel=1e-6)
    assert null_score(outputs) == pytest.approx(min(output[0, 0] + output[0, 1] for output in outputs), rel=1e-6)


@pytest.mark.parametrize("max_seq_len", [61, 19, 12])
def test_m158_answers_are_those_of_a_plain_loop(max_seq_len: int) -> None:
    """One window at a time, every pair of tokens, with the tokenizer's own tokens."""
    model = question_answerer(
        seed=3, max_seq_len=max_seq_len, stride=5, max_answer_tokens=4, n_best=3, no_answer_threshold=0.0
    )
    found = model(QUESTION, PASSAGE)
    spans = TOKENIZER.token_spans(PASSAGE)
    question = TOKENIZER.encode(QUESTION)
    question = question[: (max_seq_len - 3) // 2]
    window_length = max_seq_len - len(question) - 3
    step = window_length - min(5, window_length // 2)
    best: dict[tuple[int, int], float] = {}
    null_scores = []
    for begin in range(0, len(spans), step):
        part = [span.id for span in spans[begin : begin + window_length]]
        ids = [CLS, *question, SEP, *part, SEP]
        kinds = [0] * (len(question) + 2) + [1] * (len(part) + 1)
        with torch.no_grad():
            logits = model.model(torch.tensor([ids]), None, torch.tensor([kinds]))[0].double()
        null_scores.append(logits[0].sum().item())
        for i in range(len(part)):
            for j in range(i, min(i + 4, len(part))):
                value = (logits[len(question) + 2 + i, 0] + logits[len(question) + 2 + j, 1]).item()
                best[begin + i, begin + j] = max(value, best.get((begin + i, begin + j), -np.inf))
        if begin + window_length >= len(spans):
            break
    weights = torch.tensor([*best.values(), min(null_scores)]).double()
    ranked = sorted(best, key=lambda place: -best[place])
    assert len(found.best) == 3
    for span, (i, j) in zip(found.best, ranked, strict=False):
        text = PASSAGE[spans[i].start : spans[j].end]
        assert span.text == text.strip() == PASSAGE[span.start : span.end]
        assert span.logit == pytest.approx(best[i, j], rel=1e-5)
        assert span.score == pytest.approx((best[i, j] - weights.logsumexp(0)).exp().item(), rel=1e-4)
    assert found.null_score_diff == pytest.approx(min(null_scores) - best[ranked[0]], rel=1e-4)
    assert found.text == ("" if found.null_score_diff > 0 else found.best[0].text)


def test_questions_alone_and_together() -> None:
    model = question_answerer(seed=1)
    asked = [(QUESTION, PASSAGE), ("Where does the dog run?", PASSAGE), (QUESTION, "The dog sleeps.")]
    together = model(asked)
    for pair, found in zip(asked, together, strict=True):
        alone = model(*pair)
        assert (alone.text, alone.start, alone.end) == (found.text, found.start, found.end)
        assert alone.score == pytest.approx(found.score, rel=1e-4)
    assert model([(QUESTION, PASSAGE, "q7")])[0].id == "q7"
    assert model([]) == []
    assert str(together[0]) == together[0].text == PASSAGE[together[0].start : together[0].end]


def test_m160_no_answer() -> None:
    model = question_answerer(seed=2)
    best = model(QUESTION, PASSAGE)
    assert best.text, "without a threshold there always is an answer"
    empty = model(QUESTION, PASSAGE, no_answer_threshold=best.null_score_diff - 0.01)
    assert (empty.text, empty.start, empty.end) == ("", 0, 0)
    assert empty.best[0].text == best.text
    assert model(QUESTION, PASSAGE, no_answer_threshold=best.null_score_diff + 0.01).text == best.text
    shares = model(QUESTION, PASSAGE, no_answer_threshold=0.0, n_best=10_000)
    none = model(QUESTION, PASSAGE, no_answer_threshold=-1e9).score
    assert sum(span.score for span in shares.best) + none == pytest.approx(1, rel=1e-4)
    assert sum(span.score for span in model(QUESTION, PASSAGE, n_best=10_000).best) == pytest.approx(1, rel=1e-4)


def test_m160_long_passages_and_long_questions() -> None:
    model = question_answerer(max_seq_len=61, stride=4)
    words = "cat " * 3_000 + "kitchen"
    found = model("where " * 500, words)
    assert words[found.start : found.end] == found.text
    assert len(found.text.split()) <= 30


@pytest.mark.parametrize(
    ("inputs", "argument"),
    [
        (("", PASSAGE), "question"),
        ((QUESTION, " \n"), "passage"),
        ((QUESTION, "\u200b"), "passage"),
        ((QUESTION,), "inputs"),
        (([QUESTION],), "inputs"),
        ((QUESTION, None), "inputs"),
    ],
)
def test_wrong_inputs(inputs: Any, argument: str) -> None:
    with pytest.raises(UsageError) as error:
        question_answerer()(*inputs)
    assert error.value.argument == argument


@pytest.mark.parametrize(
    "wrong", [{"stride": -1}, {"n_best": 0}, {"max_answer_tokens": 0}, {"no_answer_threshold": float("nan")}]
)
def test_wrong_options(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError) as error:
        question_answerer()(QUESTION, PASSAGE, **wrong)
    assert error.value.argument == next(iter(wrong))
    with pytest.raises(UsageError) as error:
        question_answerer()(QUESTION, PASSAGE, thresold=1)
    assert (error.value.value, error.value.hint) == ("thresold", "no_answer_threshold")


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


def said(one: Question, text: str, *, null_score_diff: float) -> Answer:
    best = Span(text or "The dog", 0, 7, score=0.5, logit=1.0)
    return Answer(one.question, one.passage, text, 0, len(text), 0.5, null_score_diff, (best,))


def test_scores_beside_baselines() -> None:
    answers = [said(one, one.answers[0][1], null_score_diff=-3.0) for one in ASKED]
    scores = {one.name: one.value for one in answer_scores(ASKED, answers, None)}
    assert scores == {"exact match": 100, "F1": 100}
    assert [one.baseline_of for one in baselines(ASKED)] == ["exact match", "F1"]
    # "cat sleeps in kitchen": one of its four words is the answer "cat": 2 · 1 / (4 + 1).
    assert {one.baseline_of: one.value for one in baselines(ASKED[:1])}["F1"] == pytest.approx(40)
    answers.append(said(NONE, "dog", null_score_diff=1.0))
    both = {one.name: one.value for one in answer_scores([*ASKED, NONE], answers, 2.0)}
    assert both["exact match, questions with an answer"] == 100
    assert both["exact match, questions without one"] == 0
    assert both["F1"] == pytest.approx(80)
    assert both["best F1"] == 100, "a threshold between -3 and 1"
    assert baselines([*ASKED, NONE])[-1].value == 20, "never answering"


def f1_at(threshold: float, asked: list[Question], answers: list[Answer]) -> float:
    given = {one.id: apply_threshold(found, threshold).text for one, found in zip(asked, answers, strict=True)}
    return score_answers(given, gold_answers(asked)).f1.value


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
        said(one, text, null_score_diff=float(number))
        for one, (_, text), number in zip(asked, [*kinds, (False, "cat")], sure, strict=False)
    ]
    chosen = best_threshold(asked, answers)
    candidates = [number + 0.5 for number in range(-11, 11)]
    best = max(f1_at(threshold, asked, answers) for threshold in candidates)
    assert f1_at(chosen, asked, answers) == best
    scores = {one.name: one for one in answer_scores(asked, answers, chosen)}
    assert scores["best F1"].value == pytest.approx(best)
    told = float(scores["best F1"].signature.split("threshold:")[1])
    assert f1_at(told, asked, answers) == best, "the threshold that is told gives what is told"


def test_a_model_without_right_answers_never_answers() -> None:
    asked = [ASKED[0], NONE]
    answers = [said(ASKED[0], "garden", null_score_diff=-2.0), said(NONE, "dog", null_score_diff=-5.0)]
    chosen = best_threshold(asked, answers)
    assert chosen < -5
    assert [apply_threshold(one, chosen).text for one in answers] == ["", ""]
    (best,) = [one for one in answer_scores(asked, answers, chosen) if one.name == "best F1"]
    assert (best.value, best.signature) == (50, "squad:v2|n:2|threshold:-6")


def test_one_token_type_is_not_enough() -> None:
    for build_one in (lambda: QuestionAnswerer(network(type_vocab_size=1), TOKENIZER)(QUESTION, PASSAGE),
                      lambda: objective(ASKED, type_vocab_size=1)):  # fmt: skip
        with pytest.raises(UsageError) as error:
            build_one()
        assert error.value.argument == "type_vocab_size"


def test_another_answer_is_another_example() -> None:
    moved = [question("1", "Who sleeps?", CAT, "cat"), *ASKED[1:]]
    assert objective(ASKED).fingerprint() == objective(list(ASKED)).fingerprint()
    for train, validation in ((moved, ASKED), (ASKED, moved), (ASKED[::-1], ASKED), (ASKED, ASKED[:3])):
        assert objective(train, validation).fingerprint() != objective(ASKED).fingerprint()


def objective(
    train: list[Question],
    validation: list[Question] | None = None,
    *,
    max_seq_len: int = 40,
    options: dict[str, Any] | None = None,
    **changes: object,
) -> AnswerObjective:
    request = TrainRequest.parse("answer", options or {}, out=Path("not-written"))
    init = EncoderInit(network(**changes), TOKENIZER, HEAD, max_seq_len)
    return AnswerObjective(init, request, Splits(train, validation or train))


def test_the_loss_is_that_of_real_tokens() -> None:
    """Padding is no place to begin an answer: rows learn the same alone and together."""
    task = objective([*ASKED, NONE])
    together = task.loss([0, 3, 4])
    alone = [task.loss([index]).train.item() for index in (0, 3, 4)]
    assert together.num_targets == 3
    assert together.train.item() == pytest.approx(sum(alone) / 3, rel=1e-5)
    assert task.validation_loss() == pytest.approx(task.loss(range(5)).train.item(), rel=1e-5)
    row = task.train[4]
    logits = task.model(
        torch.tensor([row.ids]), None, torch.tensor([[0] * row.first + [1] * (len(row.ids) - row.first)])
    )
    wanted = -logits[0].log_softmax(0)[0].mean().item()
    assert alone[2] == pytest.approx(wanted, rel=1e-5), "a question without an answer points to [CLS]"


def test_an_answer_that_no_window_holds_is_counted() -> None:
    long = question("1", "Who?", CAT, "cat sleeps in the kitchen. The dog")
    task = objective([long, ASKED[0]], ASKED, max_seq_len=10, options={"stride": 2})
    assert task.num_unreachable == 1
    assert len(task.notes) == 2


def test_m158_m160_it_learns_answers_and_no_answers() -> None:
    task = objective([*ASKED, NONE], d_model=32, d_ff=64, head_dim=16)
    assert task.predictor().config.no_answer_threshold == 0, "until validation finds a better one"
    task.model.train()
    optimizer = torch.optim.Adam(task.model.parameters(), lr=0.003)
    for _ in range(2000):  # rounding decides whether it takes 300 steps or 600
        optimizer.zero_grad()
        loss = task.loss(range(5)).train
        loss.backward()
        optimizer.step()
        if loss.item() < 0.01:
            break
    scores, samples = task.evaluate()
    assert [one.value for one in scores[:2]] == [100, 100]
    assert samples[0].reference == samples[0].output == "The cat"
    assert (samples[4].reference, samples[4].output) == (NO_ANSWER, NO_ANSWER)
    predictor = task.predictor()
    assert predictor("Who runs?", CAT).text == "The dog"
    assert predictor(NONE.question, NONE.passage).text == ""
    assert predictor.config.no_answer_threshold != 0
    assert f"threshold:{predictor.config.no_answer_threshold:.4g}" in scores[0].signature


def test_a_given_threshold_stays() -> None:
    task = objective([*ASKED, NONE], options={"no_answer_threshold": 1e9})
    task.evaluate()
    assert task.predictor().config.no_answer_threshold == 1e9
    always = objective(ASKED)
    always.evaluate()
    assert always.predictor().config.no_answer_threshold is None, "without unanswerable questions"


def test_saved_is_loaded(tmp_path: Path) -> None:
    model = question_answerer(seed=4, max_seq_len=15, stride=3, no_answer_threshold=1.5)
    model.save(tmp_path / "m")
    found = regard.load(tmp_path / "m")
    assert isinstance(found, QuestionAnswerer)
    assert (found.config, found.max_seq_len) == (model.config, 15)
    assert found(QUESTION, PASSAGE) == model(QUESTION, PASSAGE)
    path = tmp_path / "m" / "config.json"
    settings = json.loads(path.read_text(encoding="utf-8"))
    (tmp_path / "m" / "regard-manifest.json").unlink()
    path.write_text(json.dumps({**settings, "inference": {"stried": 3}}), encoding="utf-8")
    with pytest.raises(FolderError):
        regard.load(tmp_path / "m")


def test_attention_over_both_texts() -> None:
    model = question_answerer()
    trace = model.trace(QUESTION, PASSAGE)
    rows, _ = trace.labels("encoder.0.self")
    assert rows[0] == "[CLS]"
    assert rows.count("[SEP]") == 2
    with pytest.raises(UsageError) as error:
        model.trace(PASSAGE)
    assert error.value.argument == "inputs"


def test_records_and_formats() -> None:
    model = question_answerer(seed=3, n_best=2)
    answers = model([(QUESTION, PASSAGE, "a"), ("Where?", PASSAGE, "b")])
    record = answers[0].record()
    assert list(record) == ["id", "question", "text", "start", "end", "score", "null_score_diff", "best"]
    assert PASSAGE[record["start"] : record["end"]] == record["text"]
    assert len(record["best"]) == 2
    assert json.loads(model.encode_results(answers, ".json")) == {"a": answers[0].text, "b": answers[1].text}
    lines = model("Who?", "cat\nsleeps", max_answer_tokens=9)
    assert "\n" not in str(lines)
