# %% [markdown]
"""Build a GPT: from characters to a model that writes, a few lines at a time.

Run it from top to bottom (`python docs/tutorials/build_a_gpt.py`), or cell by cell in an editor that knows `# %%`.
Each cell prints what it made. You need Python and a little of torch: what a tensor is, and that `loss.backward()`
finds the gradients. The text is tiny Shakespeare, a megabyte of plays, where REGARD_DATA names a folder that has it;
otherwise the stories of regard's built-in world. TUTORIAL_STEPS shortens the training; all of it takes minutes.
"""

# ruff: noqa: E402

# %% 1. A text
import gzip
import math
import os
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

STEPS = int(os.environ.get("TUTORIAL_STEPS", "2000"))
torch.manual_seed(1337)


def read_text() -> str:
    plays = Path(os.environ.get("REGARD_DATA", "../shared/data")) / "tinyshakespeare"
    for file in sorted(plays.glob("*.gz")):
        return gzip.decompress(file.read_bytes()).decode("utf-8")
    from regard.data.world.stories import stories

    return "\n\n".join(stories())[:500_000]


text = read_text()
print(f"{len(text):,} characters. They begin:\n\n{text[:200]}\n")

# %% 2. Characters become numbers
# A model computes, so every character gets a number: its place in the sorted list of all characters there are.

characters = sorted(set(text))
number_of = {character: number for number, character in enumerate(characters)}


def encode(some_text: str) -> list[int]:
    return [number_of[character] for character in some_text]


def decode(ids: list[int]) -> str:
    return "".join(characters[i] for i in ids)


word = text[:5]
print(f"{len(characters)} different characters: {''.join(characters)!r}")
print(f"{word!r} becomes {encode(word)}, and that becomes {decode(encode(word))!r}\n")

# %% 3. What is learned: at every position, the next character
# The first nine tenths are for learning. The rest is held out: only a text that was never seen tells what was learned.

ids = torch.tensor(encode(text))
learned_from, held_out = ids[: len(ids) * 9 // 10], ids[len(ids) * 9 // 10 :]
context = 64  # how many characters the model sees at once

window = learned_from[:9].tolist()
for place in range(8):
    print(
        f"position {place}: given {decode(window[: place + 1])!r:<12} the target is {decode(window[place + 1 :][:1])!r}"
    )
print("One window of 9 characters holds 8 exercises, and all 8 are done at once.\n")

# %% 4. A batch
# `inputs` are windows from random places, `targets` the same windows one character further.


def batch(source: Tensor, rows: int = 16) -> tuple[Tensor, Tensor]:
    starts = torch.randint(len(source) - context, (rows,))
    inputs = torch.stack([source[start : start + context] for start in starts])
    targets = torch.stack([source[start + 1 : start + context + 1] for start in starts])
    return inputs, targets


inputs, targets = batch(learned_from)
print(f"inputs {tuple(inputs.shape)}, targets {tuple(targets.shape)}: {inputs.numel():,} exercises in one batch\n")

# %% 5. The simplest model: which character follows which
# A table has a row for each character, with a score for each character that may come next. Scores are called logits;
# softmax makes probabilities of them. The loss is the mean of -log(probability of what really came): the surprise.


class Bigram(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(len(characters), len(characters))
        nn.init.zeros_(self.table.weight)  # all equally likely at first

    def forward(self, ids: Tensor) -> Tensor:
        return self.table(ids)  # (rows, places) → (rows, places, characters)


def loss_of(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())


bigram = Bigram()
first_loss = loss_of(bigram, inputs, targets).item()
print(f"a model that knows nothing: loss {first_loss:.3f}; log({len(characters)}) is {math.log(len(characters)):.3f}")

# %% 6. Learning
# Compute the loss, find how each number of the table changes it, and move each a little against it. Again and again.


def train(model: nn.Module, steps: int, rate: float) -> None:
    optimiser = torch.optim.AdamW(model.parameters(), lr=rate, betas=(0.9, 0.99), weight_decay=0.1)
    warmup = min(100, steps // 5 + 1)  # small steps at first; then they shrink along a cosine to a tenth
    for step in range(steps):
        part = max(0.0, (step - warmup) / max(1, steps - warmup))
        factor = min(1.0, (step + 1) / warmup) * (0.55 + 0.45 * math.cos(math.pi * part))
        for group in optimiser.param_groups:
            group["lr"] = rate * factor
        loss = loss_of(model, *batch(learned_from))
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        if step % max(1, steps // 10) == 0:
            print(f"  step {step:>5}: loss {loss.item():.3f}")


@torch.no_grad()
def held_out_loss(model: nn.Module) -> float:
    """The loss over the whole held-out text, in windows that do not overlap."""
    count = (len(held_out) - 1) // context
    inputs = held_out[: count * context].view(count, context)
    targets = held_out[1 : count * context + 1].view(count, context)
    parts = [loss_of(model, i, t) * len(i) for i, t in zip(inputs.split(100), targets.split(100), strict=True)]
    return float(sum(parts) / count)


train(bigram, steps=min(STEPS, 500), rate=0.05)
bigram_loss = held_out_loss(bigram)
print(f"the bigram model on the held-out text: {bigram_loss:.3f}\n")

# %% 7. Writing
# Take the probabilities of the next character, draw one, append it, and ask again.


@torch.no_grad()
def write(model: nn.Module, start: str, count: int, temperature: float = 1.0) -> str:
    ids = torch.tensor([encode(start)])
    for _ in range(count):
        logits = model(ids[:, -context:])[:, -1]
        drawn = torch.multinomial((logits / temperature).softmax(dim=-1), 1)
        ids = torch.cat([ids, drawn], dim=1)
    return decode(ids[0].tolist())


print(f"It knows pairs of characters and nothing else:\n{write(bigram, text[:1], 150)}\n")

# %% 8. Looking back: a triangle
# To do better, a position must know what came before it. The future must stay hidden: it is what is to be guessed.
# A triangle of ones says who may look at whom. Row t is position t; it sees the columns up to t.

places = 6
may_look = torch.ones(places, places, dtype=torch.bool).tril()
print(f"who may look at whom:\n{may_look.int()}")

# Scores where looking is allowed, minus infinity where it is not: softmax makes shares of each row. Scores that are
# all equal give plain averages of what came before.
shares = torch.zeros(places, places).masked_fill(~may_look, -math.inf).softmax(dim=-1)
print(f"equal scores, as shares:\n{shares.round(decimals=2)}\n")

# %% 9. Attention by hand
# Scores should not be equal: an "u" may want to know whether there was a "q". So each position makes three vectors of
# what it is: a query (what am I looking for?), a key (what do I have?), a value (what do I pass on?). The score of t
# for s is query t · key s, over √width so that it stays moderate.


def attend(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    hidden = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).triu(1)
    weights = scores.masked_fill(hidden, -math.inf).softmax(dim=-1)
    return weights @ v, weights


width, head_width = 32, 8
x = torch.randn(1, places, width)  # six characters, each a vector of 32 numbers
to_query, to_key, to_value = (nn.Linear(width, head_width, bias=False) for _ in range(3))
out, weights = attend(to_query(x), to_key(x), to_value(x))
print(f"weights: each row adds up to 1, the future has 0\n{weights[0].detach().numpy().round(2)}")

# regard has the same function, on a faster kernel. Both must say the same.
from regard.nn import masks
from regard.nn.attention import attend as regards_attend

q, k, v = (make(x)[:, None] for make in (to_query, to_key, to_value))  # regard's has an axis for heads
theirs = regards_attend(q, k, v, masks.causal())[:, 0]
print(f"regard's attend differs by {(out - theirs).abs().max():.1e}\n")

# %% 10. Several heads
# One head looks for one thing. Several look side by side, each with its own queries, keys and values, and one more
# matrix joins what they found. Values pass through a narrow waist there: down from width to head width in `values`,
# up again in `join`. The product of the two is a width × width matrix, for which it takes far fewer numbers.


class MultiHead(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.queries, self.keys, self.values = (nn.Linear(width, width, bias=False) for _ in range(3))
        self.join = nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        rows, places, width = x.shape

        def split(y: Tensor) -> Tensor:  # (rows, places, width) → (rows, heads, places, head width)
            return y.view(rows, places, self.heads, -1).transpose(1, 2)

        found, _ = attend(split(self.queries(x)), split(self.keys(x)), split(self.values(x)))
        return self.join(found.transpose(1, 2).reshape(rows, places, width))


heads = MultiHead(width, heads=4)
numbers = sum(p.numel() for p in heads.parameters())
print(f"{tuple(x.shape)} goes in, {tuple(heads(x).shape)} comes out; {numbers:,} parameters\n")

# %% 11. A block
# Attention gathers, then a small network thinks about what was gathered, each position for itself. Both add to x
# instead of replacing it, so that gradients find a straight way down; the norms keep the numbers in range.


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention = MultiHead(width, heads)
        self.think = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.think(self.norm2(x))


block = Block(width, heads=4)
changed = x.clone()
changed[0, 3] += 1
moved = (block(x) - block(changed)).abs().amax(dim=-1)[0] > 0
print(f"another character at position 3 changes the output at {moved.nonzero().flatten().tolist()}, never before it\n")

# %% 12. GPT
# Characters become vectors, and so do positions, since attention alone does not know any order. Then blocks, and at
# the end the logits of the next character.


class GPT(nn.Module):
    def __init__(self, width: int = 128, heads: int = 4, layers: int = 4) -> None:
        super().__init__()
        self.character = nn.Embedding(len(characters), width)
        self.position = nn.Embedding(context, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.output = nn.Linear(width, len(characters), bias=False)
        for matrix in (p for p in self.parameters() if p.dim() == 2):
            nn.init.normal_(matrix, std=0.02)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.character(ids) + self.position(torch.arange(ids.shape[1]))
        return self.output(self.norm(self.blocks(x)))


gpt = GPT()
print(f"a GPT with {sum(p.numel() for p in gpt.parameters()):,} parameters")
print(f"untrained: loss {loss_of(gpt, inputs, targets).item():.3f}, as if guessing: {math.log(len(characters)):.3f}")

# %% 13. Train it
# The same loop as for the bigrams. The loss falls below theirs as soon as the model has learned to look back.

began, cpu = time.perf_counter(), time.process_time()
train(gpt, steps=STEPS, rate=1e-3)
seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
gpt_loss = held_out_loss(gpt)
print(f"{STEPS:,} steps in {seconds:.0f} s ({cpu:.0f} s of CPU time)")
print(f"held-out loss {gpt_loss:.3f}; the bigram model had {bigram_loss:.3f}\n")

# %% 14. And it writes

print(write(gpt, text[:1], min(500, 5 * STEPS), temperature=0.8))

# %% 15. From here
# That was a GPT. What regard adds are the details that make it learn faster and write faster, and the tools around it:
#
#     regard train generate your_text.txt --tokens char --out runs/mine --minutes 5
#     regard generate runs/mine "To be, or"
#     regard look runs/mine "To be, or not to be" --out look.html
#
# `src/regard/models/gpt.py` is the same model with the choices that have been made since: rotary positions, other
# norms and activations, shared keys and values. You know all of its parts now.
