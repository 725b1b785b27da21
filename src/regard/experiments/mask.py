"""The effect of the causal mask: the same small language model, trained with and without the mask.

Without the mask a position sees the character that it has to predict, and the model learns to copy this character. The
training loss falls to almost zero, but generation fails, because the next character does not exist yet.

    python -c "from regard.experiments.mask import compare; print(compare())"
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.data.synthetic.stories import stories
from regard.models.gpt.config import GPTConfig
from regard.models.gpt.model import GPT
from regard.nn import masks
from regard.tokenizers.tokenizer import Tokenizer
from regard.tokenizers.training import train_tokenizer
from regard.utils.errors import DataError, UsageError

CONTEXT_LENGTH = 32
BATCH_SIZE = 16
LAST_STEPS = 20  # steps whose mean is the training loss
LEARNING_RATE = 3e-3
PROMPT = "The "
VALIDATION_WINDOWS = 200  # at the end of the text


@dataclass(frozen=True, kw_only=True)
class TrainedModel:
    """The results of one training run, with or without the mask."""

    masked: bool
    train_loss: float  # mean over the last steps
    generation_loss: float  # at the last position of each validation window, which sees no future
    known_words: float  # share of the generated words that occur in the text
    sample: str


@dataclass(frozen=True)
class Comparison:
    with_mask: TrainedModel
    without_mask: TrainedModel
    steps: int

    def __str__(self) -> str:
        models = (self.with_mask, self.without_mask)
        rows = {
            "training loss": [f"{model.train_loss:.3f}" for model in models],
            "loss in generation": [f"{model.generation_loss:.3f}" for model in models],
            "generated words that are in the text": [f"{model.known_words:.0%}" for model in models],
        }
        return "\n".join(
            [
                f"{self.steps:,} steps of {BATCH_SIZE} × {CONTEXT_LENGTH} characters    with the mask   without it",
                *(f"{name:<38}{values[0]:>15}{values[1]:>15}" for name, values in rows.items()),
                *(f"{'with' if model.masked else 'without'}: {model.sample!r}" for model in models),
            ]
        )


def compare(
    text: str | None = None, *, steps: int = 600, seed: int = 0, num_layers: int = 2, d_model: int = 64
) -> Comparison:
    """Train twice on `text` (default: the built-in synthetic stories); only the mask differs."""
    if steps < LAST_STEPS:
        raise UsageError(f"steps must be at least {LAST_STEPS}, got {steps}.", argument="steps", value=steps)
    text = "\n".join(stories()) if text is None else text
    if len(text) < (VALIDATION_WINDOWS + BATCH_SIZE) * (CONTEXT_LENGTH + 1):
        raise DataError(
            f"the text has {len(text):,} characters, too few for training. Give a longer text.", argument="text"
        )
    tokenizer = train_tokenizer([text], kind="char", vocab_size=1 << 16)
    config = GPTConfig(
        vocab_size=tokenizer.vocab_size,
        context_length=CONTEXT_LENGTH,
        num_layers=num_layers,
        d_model=d_model,
        d_ff=4 * d_model,
        num_heads=4,
        head_dim=d_model // 4,
    )
    with_mask, without = (
        _train_model(text, tokenizer, config, masked=masked, steps=steps, seed=seed) for masked in (True, False)
    )
    return Comparison(with_mask, without, steps)


def _train_model(
    text: str, tokenizer: Tokenizer, config: GPTConfig, *, masked: bool, steps: int, seed: int
) -> TrainedModel:
    ids = torch.from_numpy(tokenizer.encode_array(text).astype("int64"))
    validation = ids[-VALIDATION_WINDOWS * (CONTEXT_LENGTH + 1) :].view(VALIDATION_WINDOWS, CONTEXT_LENGTH + 1)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = GPT(config)
        if not masked:
            model.mask = masks.no_mask()
        losses = _train(model, ids[: -validation.numel()], steps)
        sample = _generate(model.eval(), tokenizer, 6 * CONTEXT_LENGTH)
    with torch.no_grad():
        generation_loss = F.cross_entropy(model(validation[:, :-1])[:, -1], validation[:, -1]).item()
    vocabulary = set(text.split())
    words = sample.split()[1:-1]  # without the prompt and a last word that may be incomplete
    return TrainedModel(
        masked=masked,
        train_loss=sum(losses[-LAST_STEPS:]) / LAST_STEPS,
        generation_loss=generation_loss,
        known_words=sum(word in vocabulary for word in words) / max(1, len(words)),
        sample=sample,
    )


def _train(model: GPT, ids: Tensor, steps: int) -> list[float]:
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, betas=(0.9, 0.95))
    losses = []
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = LEARNING_RATE * min(1.0, (step + 1) / 20, 1.1 - step / steps)
        starts = torch.randint(len(ids) - CONTEXT_LENGTH, (BATCH_SIZE,))
        batch = torch.stack([ids[start : start + CONTEXT_LENGTH + 1] for start in starts])
        loss = F.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        losses.append(loss.item())
    return losses


@torch.no_grad()
def _generate(model: GPT, tokenizer: Tokenizer, count: int) -> str:
    """Sample each character from a full forward pass, which also works without the mask."""
    ids = tokenizer.encode(PROMPT)
    for _ in range(count):
        logits = model(torch.tensor([ids[-CONTEXT_LENGTH:]]))[0, -1]
        ids.append(int(torch.multinomial((logits / 0.7).softmax(dim=-1), 1)))
    return tokenizer.decode(ids)
