# %% [markdown]
"""Build a GPT: from characters to a model that writes text, a few lines at a time.

Run it from top to bottom (`python docs/tutorials/build_a_gpt.py`), or cell by cell in an editor that supports `# %%`.
Each cell prints its results. You need Python and a little PyTorch: what a tensor is, and that `loss.backward()`
computes the gradients. The text is tiny Shakespeare, a megabyte of plays, if the folder REGARD_DATA contains it.
Otherwise the text is the stories of regard's built-in dataset. Training takes a few minutes; the environment variable
TUTORIAL_STEPS sets the number of steps.

Shapes: B batch, T tokens, H heads, D d_model, Dh head_dim, V vocabulary.
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
    plays = Path(os.environ.get("REGARD_DATA", "data")) / "tinyshakespeare"
    for file in sorted(plays.glob("*.gz")):
        return gzip.decompress(file.read_bytes()).decode("utf-8")
    from regard.data.synthetic.stories import stories

    return "\n\n".join(stories())[:500_000]


text = read_text()
print(f"{len(text):,} characters, starting with:\n\n{text[:200]}\n")

# %% 2. Tokens and ids
# A model computes with numbers, so every token gets an id. Here each character is a token, and its id is its index in
# the sorted list of all characters: the vocabulary.

vocabulary = sorted(set(text))
id_of = {token: index for index, token in enumerate(vocabulary)}
vocab_size = len(vocabulary)


def encode(some_text: str) -> list[int]:
    return [id_of[token] for token in some_text]


def decode(ids: list[int]) -> str:
    return "".join(vocabulary[i] for i in ids)


word = text[:5]
print(f"{vocab_size} different characters: {''.join(vocabulary)!r}")
print(f"{word!r} → {encode(word)} → {decode(encode(word))!r}\n")

# %% 3. The training objective: predict the next token at every position
# The first nine tenths of the text are for training. The rest is for validation: only text that the model has never
# seen shows what it has learned.

ids = torch.tensor(encode(text))
train_ids, val_ids = ids[: len(ids) * 9 // 10], ids[len(ids) * 9 // 10 :]
context_length = 64  # how many tokens the model sees at once

window = train_ids[:9].tolist()
for position in range(8):
    seen, target = decode(window[: position + 1]), decode(window[position + 1 : position + 2])
    print(f"position {position}: input {seen!r:<12} target {target!r}")
print("A window of 9 tokens contains 8 predictions, and the model makes all 8 at once.\n")

# %% 4. A batch
# `inputs` are windows from random positions in the text, `targets` the same windows shifted by one token.


def get_batch(source: Tensor, batch_size: int = 16) -> tuple[Tensor, Tensor]:
    starts = torch.randint(len(source) - context_length, (batch_size,))
    inputs = torch.stack([source[start : start + context_length] for start in starts])
    targets = torch.stack([source[start + 1 : start + context_length + 1] for start in starts])
    return inputs, targets  # (B, T) each


inputs, targets = get_batch(train_ids)
print(f"inputs {tuple(inputs.shape)}, targets {tuple(targets.shape)}: {inputs.numel():,} predictions in one batch\n")

# %% 5. The simplest model: bigrams
# A table has a row for each token, with a logit for each token that may come next. Softmax turns logits into
# probabilities. The loss is the cross-entropy: the mean of -log(probability of the actual next token).


class Bigram(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(vocab_size, vocab_size)
        nn.init.zeros_(self.table.weight)  # all tokens are equally probable at first

    def forward(self, ids: Tensor) -> Tensor:
        return self.table(ids)  # (B, T) → (B, T, V)


def compute_loss(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())


bigram = Bigram()
first_loss = compute_loss(bigram, inputs, targets).item()
print(f"untrained: loss {first_loss:.3f}; log({vocab_size}) is {math.log(vocab_size):.3f}")

# %% 6. The training loop
# Compute the loss, compute its gradients, and move every parameter a little against its gradient. Repeat.


def train(model: nn.Module, steps: int, learning_rate: float) -> None:
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate, betas=(0.9, 0.99), weight_decay=0.1)
    warmup = min(100, steps // 5 + 1)  # the learning rate rises first, then falls along a cosine to a tenth
    for step in range(steps):
        progress = max(0.0, (step - warmup) / max(1, steps - warmup))
        factor = min(1.0, (step + 1) / warmup) * (0.55 + 0.45 * math.cos(math.pi * progress))
        for group in optimizer.param_groups:
            group["lr"] = learning_rate * factor
        loss = compute_loss(model, *get_batch(train_ids))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % max(1, steps // 10) == 0:
            print(f"  step {step:>5}: loss {loss.item():.3f}")


@torch.no_grad()
def validation_loss(model: nn.Module) -> float:
    """The loss over the whole validation text, in windows that do not overlap."""
    count = (len(val_ids) - 1) // context_length
    inputs = val_ids[: count * context_length].view(count, context_length)
    targets = val_ids[1 : count * context_length + 1].view(count, context_length)
    parts = [compute_loss(model, i, t) * len(i) for i, t in zip(inputs.split(100), targets.split(100), strict=True)]
    return float(sum(parts) / count)


train(bigram, steps=min(STEPS, 500), learning_rate=0.05)
bigram_loss = validation_loss(bigram)
print(f"validation loss of the bigram model: {bigram_loss:.3f}\n")

# %% 7. Generation
# Take the probabilities of the next token, sample one, append it, and repeat.


@torch.no_grad()
def generate(model: nn.Module, prompt: str, max_new_tokens: int, temperature: float = 1.0) -> str:
    ids = torch.tensor([encode(prompt)])
    for _ in range(max_new_tokens):
        logits = model(ids[:, -context_length:])[:, -1]  # (1, V): of the last position
        sampled = torch.multinomial((logits / temperature).softmax(dim=-1), 1)
        ids = torch.cat([ids, sampled], dim=1)
    return decode(ids[0].tolist())


print(f"The bigram model has learned only which character follows which:\n{generate(bigram, text[:1], 150)}\n")

# %% 8. The causal mask
# A better model looks at earlier tokens. It must not look at later tokens, since it has to predict them. The mask
# says which positions each position may attend to: row t may attend to columns 0 … t.

num_tokens = 6
mask = torch.ones(num_tokens, num_tokens, dtype=torch.bool).tril()
print(f"causal mask:\n{mask.int()}")

# Masked scores are minus infinity, so that softmax gives them the weight 0. With equal scores, each position averages
# over itself and all earlier positions.
equal_weights = torch.zeros(num_tokens, num_tokens).masked_fill(~mask, -math.inf).softmax(dim=-1)
print(f"weights of equal scores:\n{equal_weights.round(decimals=2)}\n")

# %% 9. Attention
# Scores should not be equal: after a "q", a "u" is more interesting than a blank. So each position has three vectors: a
# query (what it looks for), a key (what it offers), and a value (what it passes on). The score of positions t and s is
# query t · key s, divided by √Dh so that scores do not grow with Dh.


def attention(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])  # (…, T, T)
    mask = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).tril()
    weights = scores.masked_fill(~mask, -math.inf).softmax(dim=-1)
    return weights @ v, weights


d_model, head_dim = 32, 8
x = torch.randn(1, num_tokens, d_model)  # six tokens, each a vector of 32 numbers
q_proj, k_proj, v_proj = (nn.Linear(d_model, head_dim, bias=False) for _ in range(3))
output, weights = attention(q_proj(x), k_proj(x), v_proj(x))
print(f"weights: each row sums to 1, later positions have 0\n{weights[0].detach().numpy().round(2)}")

# regard's attention computes the same function with a fused kernel. Both must give the same numbers.
from regard.nn import masks
from regard.nn.attention import attention as regard_attention

q, k, v = (proj(x)[:, None] for proj in (q_proj, k_proj, v_proj))  # (B, H, T, Dh) with one head
difference = float((output - regard_attention(q, k, v, masks.causal())[:, 0]).detach().abs().max())
print(f"largest difference from regard's attention: {difference:.1e}\n")

# %% 10. Several heads
# One head computes one set of weights. Several heads work in parallel, each with its own queries, keys and values, and
# one more matrix combines their outputs. For each head, `values` maps D dimensions to Dh, and `out_proj` maps them
# back. The product of the two is a D × D matrix of rank Dh, with far fewer parameters than D × D.


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.queries, self.keys, self.values = (nn.Linear(d_model, d_model, bias=False) for _ in range(3))
        self.out_proj = nn.Linear(d_model, d_model, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        batch_size, num_tokens, d_model = x.shape

        def split(y: Tensor) -> Tensor:  # (B, T, D) → (B, H, T, Dh)
            return y.view(batch_size, num_tokens, self.num_heads, -1).transpose(1, 2)

        heads, _ = attention(split(self.queries(x)), split(self.keys(x)), split(self.values(x)))
        return self.out_proj(heads.transpose(1, 2).reshape(batch_size, num_tokens, d_model))


multi_head = MultiHeadAttention(d_model, num_heads=4)
num_parameters = sum(p.numel() for p in multi_head.parameters())
print(f"input {tuple(x.shape)}, output {tuple(multi_head(x).shape)}; {num_parameters:,} parameters\n")

# %% 11. A block
# Attention moves information between positions; the feed-forward layer then works on each position alone. Both add to x
# instead of replacing it (residual connections), so that gradients reach the lower layers. The norms keep the numbers
# in range.


class Block(nn.Module):
    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.feed_forward = nn.Sequential(nn.Linear(d_model, 4 * d_model), nn.GELU(), nn.Linear(4 * d_model, d_model))
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.feed_forward(self.norm2(x))


block = Block(d_model, num_heads=4)
changed = x.clone()
changed[0, 3] += 1
affected = ((block(x) - block(changed)).abs().amax(dim=-1)[0] > 0).nonzero().flatten().tolist()
print(f"changing the token at position 3 changes the outputs at positions {affected}, none before it\n")

# %% 12. GPT
# Tokens become vectors, and so do positions, since attention alone does not know the order. Then come the blocks, and
# at the end the logits of the next token.


class GPT(nn.Module):
    def __init__(self, d_model: int = 128, num_heads: int = 4, num_layers: int = 4) -> None:
        super().__init__()
        self.token_embedding = nn.Embedding(vocab_size, d_model)
        self.position_embedding = nn.Embedding(context_length, d_model)
        self.blocks = nn.Sequential(*(Block(d_model, num_heads) for _ in range(num_layers)))
        self.norm = nn.LayerNorm(d_model)
        self.output = nn.Linear(d_model, vocab_size, bias=False)
        for matrix in (p for p in self.parameters() if p.dim() == 2):
            nn.init.normal_(matrix, std=0.02)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.token_embedding(ids) + self.position_embedding(torch.arange(ids.shape[1]))  # (B, T, D)
        return self.output(self.norm(self.blocks(x)))  # (B, T, V)


gpt = GPT()
print(f"a GPT with {sum(p.numel() for p in gpt.parameters()):,} parameters")
print(f"untrained: loss {compute_loss(gpt, inputs, targets).item():.3f}; uniform guessing: {math.log(vocab_size):.3f}")

# %% 13. Train it
# The loop is the same as for the bigram model. The loss falls below the bigram loss once the model uses earlier tokens.

started, cpu_started = time.perf_counter(), time.process_time()
train(gpt, steps=STEPS, learning_rate=1e-3)
seconds, cpu_seconds = time.perf_counter() - started, time.process_time() - cpu_started
gpt_loss = validation_loss(gpt)
print(f"{STEPS:,} steps in {seconds:.0f} s ({cpu_seconds:.0f} s of CPU time)")
print(f"validation loss {gpt_loss:.3f}; the bigram model has {bigram_loss:.3f}\n")

# %% 14. Generate text

print(generate(gpt, text[:1], min(500, 5 * STEPS), temperature=0.8))

# %% 15. Next steps
# This is a GPT. regard adds faster training and generation, and tools to evaluate and inspect the model:
#
#     regard train generate your_text.txt --tokenizer char --out runs/mine --minutes 5
#     regard generate runs/mine "To be, or"
#     regard look runs/mine "To be, or not to be" --out look.html
#
# `src/regard/models/gpt/model.py` is the same model with newer options: rotary positions, other norms and activations,
# grouped-query attention. You know all of its parts now.
