"""Suggested words: within the smallest contexts, and without walking through a vocabulary again and again."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from regard.generation import suggesting
from regard.generation.backend import VARIABLE
from regard.models.gpt import GPT
from regard.models.gpt_settings import GPTConfig
from regard.tasks.generate import Writer
from regard.text.training import train_tokenizer

TEXT = "the cat sees the dog and the dog sees the cat in the house "


def make_writer(kind: str, context: int) -> Writer:
    tokenizer = train_tokenizer([TEXT * 3], kind=kind, vocab_size=290)
    torch.manual_seed(0)
    shape = dict(layers=1, width=8, hidden=8, heads=2, head_width=4, context=context)
    model = GPT(GPTConfig(vocab_size=tokenizer.vocab_size, **shape))  # type: ignore[arg-type]
    for param in model.parameters():
        torch.nn.init.normal_(param, std=0.3)
    return Writer(model, tokenizer)


@pytest.mark.parametrize("context", [1, 2, 5, 16, 17])
@pytest.mark.parametrize("kind", ["char", "byte-bpe"])
def test_suggestions_stay_within_the_context(kind: str, context: int, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = make_writer(kind, context)
    for text in (TEXT, TEXT + "th", "t"):
        found = []
        for backend in ("torch", "kernels"):
            monkeypatch.setenv(VARIABLE, backend)
            found.append([one.word for one in writer.suggest(text, 500)])
        assert found[0] == found[1], "torch goes no further than the kernels"
        assert found[0] or context < 3


def test_a_vocabulary_is_walked_through_once_for_each_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    class Texts(list[str]):
        walks = 0

        def __iter__(self) -> Iterator[str]:
            self.walks += 1
            return super().__iter__()

    writer = make_writer("byte-bpe", 32)
    first = writer.suggest("the d", 9)
    assert writer._pieces is not None
    texts = writer._pieces.texts = Texts(writer._pieces.texts)
    assert writer.suggest("the d", 9) == first
    assert texts.walks == 0
    monkeypatch.setattr(suggesting, "BEAMS", 3)
    writer.suggest("the ho")
    assert texts.walks <= len(" ho"), "once for each rest that is still to be spelled"
