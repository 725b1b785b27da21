"""What the causal mask is for: the same little language model, trained with it and without it.

Without the mask a position sees the character that it is to guess, and learns to look it up. Its training loss falls
to nothing, and it has learned nothing else: where the next character does not exist yet, as in writing, it fails.

    python -c "from regard.labs.mask import compare; print(compare())"
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.data.world.stories import stories
from regard.errors import DataError, UsageError
from regard.models.gpt import GPT
from regard.models.gpt_settings import GPTConfig
from regard.nn import masks
from regard.text.tokenizer import Tokenizer
from regard.text.training import train_tokenizer

CONTEXT = 32
ROWS = 16  # windows of a batch
LAST = 20  # steps whose mean is the training loss
PROMPT = "The "
HELD_OUT = 200  # windows at the end of the text


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """One training, with the mask or without."""

    masked: bool
    train_loss: float  # of the last steps
    writing_loss: float  # on held-out text, of the last position of each window: there is no future to look at
    known_words: float  # share of the words it writes that are words of the text
    written: str


@dataclass(frozen=True)
class Comparison:
    with_mask: Outcome
    without_mask: Outcome
    steps: int

    def __str__(self) -> str:
        rows = [f"{self.steps:,} steps of {ROWS} × {CONTEXT} characters    with the mask   without it"]
        pair = (self.with_mask, self.without_mask)
        for name, show in _ROWS:
            rows.append(f"{name:<38}" + "".join(f"{show(one):>15}" for one in pair))
        return "\n".join([*rows, *(f"{'with' if one.masked else 'without'}: {one.written!r}" for one in pair)])


_ROWS: tuple[tuple[str, Callable[[Outcome], str]], ...] = (
    ("training loss", lambda one: f"{one.train_loss:.3f}"),
    ("loss where the future is not there", lambda one: f"{one.writing_loss:.3f}"),
    ("words of the text among those written", lambda one: f"{one.known_words:.0%}"),
)


def compare(
    text: str | None = None, *, steps: int = 600, seed: int = 0, layers: int = 2, width: int = 64
) -> Comparison:
    """Train twice on `text`, by default the stories of the built-in world; everything but the mask is the same."""
    if steps < LAST:
        raise UsageError(f"steps must be at least {LAST}, not {steps}: the training loss is the mean of so many.")
    text = "\n".join(stories()) if text is None else text
    if len(text) < (HELD_OUT + ROWS) * (CONTEXT + 1):
        raise DataError(f"the text has {len(text):,} characters, which is too short to learn from. Give a longer one.")
    tokenizer = train_tokenizer([text], kind="char", vocab_size=1 << 16)
    config = GPTConfig(
        vocab_size=tokenizer.vocab_size, context=CONTEXT, layers=layers, width=width, hidden=4 * width, heads=4,
        head_width=width // 4,
    )  # fmt: skip
    with_mask, without = (
        _outcome(text, tokenizer, config, masked=masked, steps=steps, seed=seed) for masked in (True, False)
    )
    return Comparison(with_mask, without, steps)


def _outcome(text: str, tokenizer: Tokenizer, config: GPTConfig, *, masked: bool, steps: int, seed: int) -> Outcome:
    ids = torch.from_numpy(tokenizer.encode_array(text).astype("int64"))
    held = ids[-HELD_OUT * (CONTEXT + 1) :].view(HELD_OUT, CONTEXT + 1)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = GPT(config)
        if not masked:
            model.keep = masks.everything()
        losses = _train(model, ids[: -held.numel()], steps)
        written = _write(model.eval(), tokenizer, config.context * 6)
    with torch.no_grad():
        writing_loss = F.cross_entropy(model(held[:, :-1])[:, -1], held[:, -1]).item()
    known = set(text.split())
    words = written.split()[1:-1]  # the first was given, the last may be cut
    share = sum(word in known for word in words) / max(1, len(words))
    return Outcome(
        masked=masked,
        train_loss=sum(losses[-LAST:]) / LAST,
        writing_loss=writing_loss,
        known_words=share,
        written=written,
    )


def _train(model: GPT, ids: Tensor, steps: int) -> list[float]:
    optimiser = torch.optim.AdamW(model.parameters(), lr=3e-3, betas=(0.9, 0.95))
    losses = []
    for step in range(steps):
        for group in optimiser.param_groups:
            group["lr"] = 3e-3 * min(1.0, (step + 1) / 20, 1.1 - step / steps)
        starts = torch.randint(len(ids) - CONTEXT, (ROWS,))
        rows = torch.stack([ids[start : start + CONTEXT + 1] for start in starts])
        loss = F.cross_entropy(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        losses.append(loss.item())
    return losses


@torch.no_grad()
def _write(model: GPT, tokenizer: Tokenizer, count: int) -> str:
    """Character after character, each from a whole pass over what is there: as it was trained, mask or none."""
    ids = tokenizer.encode(PROMPT)
    for _ in range(count):
        logits = model(torch.tensor([ids[-CONTEXT:]]))[0, -1]
        ids.append(int(torch.multinomial((logits / 0.7).softmax(dim=-1), 1)))
    return tokenizer.decode(ids)
