"""The score of a long text: every token sees at least half a context before it, whatever the lengths.

The loss along the way of a training is that of a sample of windows, spread over the validation text.
"""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from regard.models.gpt import GPT
from regard.models.gpt_settings import GPTConfig
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
