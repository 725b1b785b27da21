"""The score of a long text: every token sees at least half a context before it, whatever the lengths.

The loss along the way of a training is that of a sample of windows, spread over the validation text.
"""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

from regard.generation.decoder import TorchGPTDecoder
from regard.models.gpt import GPT
from regard.models.gpt_settings import GPTConfig
from regard.tasks import generate as module
from regard.tasks.generate import GenerateTask, Writer
from regard.tasks.settings import GenerateConfig
from regard.text.training import train_tokenizer

TEXT = "abcdefgh ijklm " * 40
TOKENIZER = train_tokenizer([TEXT], kind="char", vocab_size=100)


def one_window_after_the_other(model: GPT, ids: list[int]) -> list[float]:
    context, start = model.config.context, 0
    found: list[float] = []
    while len(found) < len(ids) - 1:
        window = torch.tensor([ids[start : start + context + 1]])
        with torch.no_grad():
            log_probs = model(window[:, :-1]).log_softmax(-1).gather(-1, window[:, 1:, None])[0, :, 0]
        found += log_probs.tolist()[len(found) - start :]
        start += max(1, context // 2)
    return found


@pytest.mark.parametrize("context", [1, 2, 7, 8, 50])
def test_a_score_is_that_of_windows_one_after_the_other(context: int) -> None:
    torch.manual_seed(0)
    shape = dict(layers=2, width=16, hidden=32, heads=2, head_width=8, context=context)
    model = GPT(GPTConfig(vocab_size=TOKENIZER.vocab_size, **shape))  # type: ignore[arg-type]
    for param in model.parameters():
        torch.nn.init.normal_(param, std=0.3)
    writer = Writer(model, TOKENIZER)
    for length in (2, 3, context + 1, context + 2, 2 * context + 1, 101, 600):
        found = writer.score(TEXT[:length])
        assert list(found.log_probs) == pytest.approx(
            one_window_after_the_other(model, TOKENIZER.encode(TEXT[:length])), abs=1e-5
        )


def make_writer(context: int = 16) -> Writer:
    torch.manual_seed(0)
    shape = dict(layers=1, width=8, hidden=8, heads=2, head_width=4, context=context)
    model = GPT(GPTConfig(vocab_size=TOKENIZER.vocab_size, **shape))  # type: ignore[arg-type]
    for param in model.parameters():
        torch.nn.init.normal_(param, std=0.1)
    return Writer(model, TOKENIZER)


def test_a_text_that_reached_a_stop_costs_nothing_more(monkeypatch: pytest.MonkeyPatch) -> None:
    writer, prompts = make_writer(), ["abc", "jkl", "m a"]
    settings = dict(temperature=1.0, seed=4, max_new_tokens=30)
    plain = [text.text for text in writer(prompts, **settings)]
    stop = plain[0][2]
    rows: list[int] = []
    step = TorchGPTDecoder.step
    monkeypatch.setenv("REGARD_BACKEND", "torch")
    monkeypatch.setattr(TorchGPTDecoder, "step", lambda self, ids: rows.append(len(ids)) or step(self, ids))
    found = writer(prompts, stop=stop, **settings)
    assert [text.text for text in found] == [text.partition(stop)[0] for text in plain]
    assert found[0].tokens[-1] == stop, "what a stop text was found in is among the tokens"
    lengths = [len(text.tokens) for text in found]
    assert len(set(lengths)) == 3, "some go on after others have stopped"
    assert rows == [sum(length > count for length in lengths) for count in range(1, max(lengths))]


def test_bytes_are_counted_a_stretch_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "äbcdefgh ijklm " * 40
    tokenizer = train_tokenizer([text], kind="char", vocab_size=100)
    config = GPTConfig(vocab_size=tokenizer.vocab_size, layers=1, width=8, hidden=8, heads=2, head_width=4, context=9)
    ids = tokenizer.encode_array(text)
    task = GenerateTask(model=GPT(config), tokenizer=tokenizer, train=ids, validation=ids, config=GenerateConfig())
    monkeypatch.setattr(module, "BYTES_COUNTED", 64)
    longest, decode = 0, tokenizer.decode

    def watched(ids: list[int]) -> str:
        nonlocal longest
        longest = max(longest, len(ids))
        return decode(ids)

    monkeypatch.setattr(tokenizer, "decode", watched)
    perplexity, bits = task.evaluate()[0]
    assert longest <= 64
    expected = math.log2(perplexity.value) * len(ids) / len(text.encode())
    assert bits.value == pytest.approx(expected)


@pytest.mark.parametrize(
    ("most", "apart"), [(None, 1), (10**6, 1), (84, 1), (83, 2), (42, 2), (41, 3), (7, 12), (1, 84)]
)
def test_the_loss_of_a_sample_is_that_of_windows_at_even_distances(most: int | None, apart: int) -> None:
    torch.manual_seed(0)
    model = GPT(
        GPTConfig(vocab_size=TOKENIZER.vocab_size, layers=1, width=8, hidden=8, heads=2, head_width=4, context=7)
    )
    torch.nn.init.normal_(model.output_weight, std=0.3)
    ids = TOKENIZER.encode_array(TEXT)
    task = GenerateTask(model=model, tokenizer=TOKENIZER, train=ids, validation=ids, config=GenerateConfig())
    windows = torch.from_numpy(ids[: 12 * 7].astype("int64")).view(12, 7)[::apart]
    following = torch.from_numpy(ids[1 : 12 * 7 + 1].astype("int64")).view(12, 7)[::apart]
    expected = F.cross_entropy(model(windows).flatten(0, 1), following.flatten())
    assert task.text_loss(ids[: 12 * 7 + 1], most=most) == pytest.approx(expected.item(), abs=1e-5)
