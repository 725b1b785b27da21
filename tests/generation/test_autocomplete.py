"""Suggested words: partial words, small contexts, and the number of scans over the vocabulary."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from regard.generation import autocomplete
from regard.generation.backend import VARIABLE
from regard.generation.decoder import TorchGPTDecoder
from regard.models.gpt.config import GPTConfig
from regard.models.gpt.model import GPT
from regard.tasks.suggest.predictor import Suggester
from regard.tokenizers.training import train_tokenizer

TEXT = "the cat sees the dog and the dog sees the cat in the house "


def make_suggester(kind: str, context: int) -> Suggester:
    tokenizer = train_tokenizer([TEXT * 3], kind=kind, vocab_size=290)
    torch.manual_seed(0)
    shape = dict(num_layers=1, d_model=8, d_ff=8, num_heads=2, head_dim=4, context_length=context)
    model = GPT(GPTConfig(vocab_size=tokenizer.vocab_size, **shape))  # type: ignore[arg-type]
    for param in model.parameters():
        torch.nn.init.normal_(param, std=0.3)
    return Suggester(model, tokenizer)


@pytest.mark.parametrize("context", [1, 2, 5, 16, 17])
@pytest.mark.parametrize("kind", ["char", "byte-bpe"])
def test_suggestions_stay_within_the_context(kind: str, context: int, monkeypatch: pytest.MonkeyPatch) -> None:
    suggester = make_suggester(kind, context)
    for text in (TEXT, TEXT + "th", "t"):
        found = []
        for backend in ("torch", "kernels"):
            monkeypatch.setenv(VARIABLE, backend)
            found.append(list(suggester(text, n=500).scores))
        assert found[0] == found[1], "both backends suggest the same words"
        assert found[0] or context < 3


@pytest.mark.parametrize("kind", ["char", "byte-bpe"])
def test_a_newline_ends_the_last_word(kind: str) -> None:
    suggester = make_suggester(kind, 64)
    prompts: list[str] = []

    def encode(text: str) -> list[int]:
        prompts.append(text)
        return suggester.tokenizer.encode(text)

    decoder, tokens = TorchGPTDecoder(suggester.model), suggester.word_tokens
    for text, context in (("the ho", "the" if kind == "byte-bpe" else "the ho"), ("the ho\n", "the ho\n")):
        words = [one.word for one in autocomplete.suggest(decoder, text, encode=encode, word_tokens=tokens, count=99)]
        assert prompts.pop() == context
        assert words and all(word.startswith("ho") for word in words) == (text == "the ho")


def test_the_vocabulary_is_scanned_once_per_prefix(monkeypatch: pytest.MonkeyPatch) -> None:
    class Texts(list[str]):
        scans = 0

        def __iter__(self) -> Iterator[str]:
            self.scans += 1
            return super().__iter__()

    suggester = make_suggester("byte-bpe", 32)
    first = suggester("the d", n=9)
    texts = suggester.word_tokens.texts = Texts(suggester.word_tokens.texts)
    assert suggester("the d", n=9) == first
    assert texts.scans == 0
    monkeypatch.setattr(autocomplete, "BEAMS", 3)
    suggester("the ho")
    assert texts.scans <= len(" ho"), "one scan for each rest of the partial word"
