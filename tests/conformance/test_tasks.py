"""What must hold for every object that answers text, whatever it answers: the models stand behind it, small and random.

A text among others is answered as it is alone, in any order; asked twice, or stored and loaded, it answers the same;
being looked at changes nothing. Texts are of one word up to more than a window, so that padding and windows take part.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import nn

from regard.checkpoint.folder import own_tensors, write_model
from regard.models.bert import BertForPretraining, BertForSequence, BertForSpans, BertForTokens
from regard.models.bert_settings import BertConfig, HeadConfig
from regard.models.gpt import GPT
from regard.models.gpt_settings import GPTConfig
from regard.models.transformer import Transformer
from regard.models.transformer_settings import TransformerConfig
from regard.nn.taps import AttentionTap, addresses_of, edit
from regard.tasks.answer import Answerer
from regard.tasks.choose import Chooser
from regard.tasks.classify import Classifier
from regard.tasks.fill import Filler
from regard.tasks.folders import load_folder
from regard.tasks.generate import Writer
from regard.tasks.settings import SpanConfig
from regard.tasks.tag import Tagger
from regard.tasks.translate import Translator, Vocabularies
from regard.text.tokenizer import Symbols
from regard.text.training import train_tokenizer

Numbers = npt.NDArray[np.float64]
CONTEXT = 40
SENTENCE = "the old cat sleeps in a kitchen while two dogs run through the garden and nobody asks why they run"
WORDS = SENTENCE.split()
TEXTS = ["cat", " ".join(WORDS[:7]), SENTENCE, " ".join(WORDS[::-1] * 3), "a dog, a cat!"]
PAIRS = [("who runs", text) for text in TEXTS]
WORDPIECE = train_tokenizer(
    [SENTENCE] * 5, kind="wordpiece", vocab_size=80, lowercase=True,
    symbols=Symbols(pad="[PAD]", unknown="[UNK]", start="[CLS]", end="[SEP]", mask="[MASK]"),
)  # fmt: skip
BPE = train_tokenizer([SENTENCE] * 5, kind="bpe", vocab_size=300)


@dataclass(frozen=True, kw_only=True)
class Asked:
    """An object that answers, what it is asked, and its answers as numbers, whose words would hide small changes."""

    name: str
    build: Callable[[], Any]
    questions: Sequence[Any]
    numbers: Callable[[Any, Sequence[Any]], list[Numbers]]  # one array for each question


def random_weights(model: nn.Module) -> Any:
    """Weights large enough to prefer some answers to others."""
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(mean=float(parameter.dim() == 1), std=0.3)
    return model


def bert() -> BertConfig:
    return BertConfig(
        vocab_size=WORDPIECE.vocab_size, layers=2, width=24, hidden=36, heads=2, head_width=12, context=CONTEXT
    )


def labels(count: int, **settings: Any) -> HeadConfig:
    return HeadConfig(labels=tuple(f"L{n}" for n in range(count)), **settings)


def classifier(task: str, answers: Any, outputs: int) -> Classifier:
    head = labels(outputs, kind="sequence", answers=answers)
    return Classifier(random_weights(BertForSequence(bert(), outputs)), WORDPIECE, head=head, task=task)


def of_classified(model: Classifier, texts: Sequence[Any]) -> list[Numbers]:
    return [
        np.array([*one.probabilities.values()] if one.number is None else [one.number]) for one in model(list(texts))
    ]


def of_chosen(model: Chooser, asked: Sequence[Any]) -> list[Numbers]:
    return [np.array(one.probabilities) for one in model(list(asked))]


def of_filled(model: Filler, texts: Sequence[str]) -> list[Numbers]:
    return [model.probabilities(text).astype(np.float64) for text in texts]


def of_embedded(model: Any, texts: Sequence[str]) -> list[Numbers]:
    return list(model.embed(list(texts)).astype(np.float64))


def of_tagged(model: Tagger, texts: Sequence[str]) -> list[Numbers]:
    return [
        np.array([[model.head.labels.index(tag) for tag in one.tags], one.probabilities]) for one in model(list(texts))
    ]


def of_answered(model: Answerer, asked: Sequence[tuple[str, str]]) -> list[Numbers]:
    return [
        np.array([[one.start, one.end, one.no_answer], *([s.start, s.end, s.score] for s in one.best)])
        for one in model(list(asked))
    ]


def of_written(model: Writer, prompts: Sequence[str]) -> list[Numbers]:
    return [np.array(one.log_probs) for one in model(list(prompts), temperature=0.0, max_new_tokens=9)]


def of_translated(model: Translator, texts: Sequence[str]) -> list[Numbers]:
    return [np.array([one.score, len(one.tokens)]) for one in model(list(texts), beams=2, max_new_tokens=12)]


def writer() -> Writer:
    shape = dict(layers=2, width=24, hidden=36, heads=2, head_width=12, context=CONTEXT)
    return Writer(random_weights(GPT(GPTConfig(vocab_size=BPE.vocab_size, **shape))), BPE)  # type: ignore[arg-type]


def translator() -> Translator:
    shape = dict(encoder_layers=1, decoder_layers=2, width=24, hidden=36, heads=2, head_width=12)
    config = TransformerConfig(vocab_size=BPE.vocab_size, **shape)  # type: ignore[arg-type]
    return Translator(random_weights(Transformer(config)), Vocabularies(BPE, BPE))


ASKED = [
    Asked(
        name="fill",
        build=lambda: Filler(random_weights(BertForPretraining(bert())), WORDPIECE),
        questions=[f"{text} [MASK] cat" for text in TEXTS],
        numbers=of_filled,
    ),
    Asked(
        name="embed",
        build=lambda: Filler(random_weights(BertForPretraining(bert())), WORDPIECE),
        questions=TEXTS,
        numbers=of_embedded,
    ),
    Asked(name="classify", build=lambda: classifier("classify", "one", 3), questions=TEXTS, numbers=of_classified),
    Asked(name="several", build=lambda: classifier("classify", "several", 4), questions=TEXTS, numbers=of_classified),
    Asked(name="pair", build=lambda: classifier("pair", "one", 2), questions=PAIRS, numbers=of_classified),
    Asked(name="number", build=lambda: classifier("pair", "number", 1), questions=PAIRS, numbers=of_classified),
    Asked(
        name="choose",
        build=lambda: Chooser(random_weights(BertForSequence(bert(), 1)), WORDPIECE, commonest=("1",)),
        questions=[(text, TEXTS[: 2 + n % 3]) for n, text in enumerate(TEXTS)],
        numbers=of_chosen,
    ),
    Asked(
        name="tag",
        build=lambda: Tagger(random_weights(BertForTokens(bert(), 3)), WORDPIECE, head=labels(3, kind="tokens")),
        questions=TEXTS,
        numbers=of_tagged,
    ),
    Asked(
        name="answer",
        build=lambda: Answerer(random_weights(BertForSpans(bert())), WORDPIECE, config=SpanConfig(stride=8, n_best=4)),
        questions=PAIRS,
        numbers=of_answered,
    ),
    Asked(name="generate", build=writer, questions=TEXTS, numbers=of_written),
    Asked(name="translate", build=translator, questions=TEXTS, numbers=of_translated),
]


@pytest.fixture(params=ASKED, ids=lambda one: one.name)
def asked(request: pytest.FixtureRequest) -> Asked:
    return request.param  # type: ignore[no-any-return]


def assert_near(found: Sequence[Numbers], expected: Sequence[Numbers]) -> None:
    for one, other in zip(found, expected, strict=True):
        assert one.shape == other.shape
        assert np.abs(one - other).max() <= 1e-5 * np.abs(other).max()


def test_a_text_among_others_is_answered_as_alone(asked: Asked) -> None:
    model = asked.build()
    together = asked.numbers(model, asked.questions)
    assert not np.array_equal(together[0], together[1]), "another text, another answer"
    assert_near(together, [asked.numbers(model, [one])[0] for one in asked.questions])
    assert_near(asked.numbers(model, asked.questions[::-1])[::-1], together)


def test_asked_twice_it_answers_the_same_bits(asked: Asked) -> None:
    model = asked.build()
    pairs = zip(asked.numbers(model, asked.questions), asked.numbers(model, asked.questions), strict=True)
    assert all(np.array_equal(one, other) for one, other in pairs)


def test_stored_and_loaded_it_answers_the_same_bits(asked: Asked, tmp_path: Path) -> None:
    model = asked.build()
    contents = model.contents()
    write_model(
        tmp_path / "model", config=dict(contents.config), tensors=own_tensors(model.model), texts=contents.texts
    )
    loaded: Any = load_folder(tmp_path / "model")
    assert type(loaded) is type(model)
    assert loaded.contents() == contents
    pairs = zip(asked.numbers(model, asked.questions), asked.numbers(loaded, asked.questions), strict=True)
    assert all(np.array_equal(one, other) for one, other in pairs)


def test_being_looked_at_changes_nothing(asked: Asked) -> None:
    model = asked.build()
    before = asked.numbers(model, asked.questions)
    trace = model.trace(asked.questions[1])
    everywhere = {at for tap, at in addresses_of(model.model).items() if isinstance(tap, AttentionTap)}
    assert {str(at).removeprefix("bert.") for at in everywhere} >= {str(at) for at in trace.recipes} != set()
    after = asked.numbers(model, asked.questions)
    assert all(np.array_equal(one, other) for one, other in zip(before, after, strict=True))


def test_what_is_edited_is_edited_for_every_text(asked: Asked) -> None:
    """However many texts, and whatever threads read them."""
    model, questions = asked.build(), list(asked.questions) * 40
    plain = asked.numbers(model, questions)
    block = "decoder.0" if hasattr(model.model, "decoder") else "encoder.0"
    with edit(model.model, block, torch.zeros_like):
        edited = asked.numbers(model, questions)
    assert not any(np.array_equal(one, other) for one, other in zip(plain, edited, strict=True))
    assert_near(edited, edited[: len(asked.questions)] * 40)


def test_nothing_asked_is_nothing_answered(asked: Asked) -> None:
    assert asked.numbers(asked.build(), []) == []
