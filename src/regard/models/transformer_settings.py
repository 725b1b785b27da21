"""The settings of the Transformer, and its shapes by name.

They stand beside the architecture without torch, so that a command is understood, and refused where it is wrong,
before anything heavy is loaded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from regard.errors import UsageError, unknown
from regard.nn.kinds import Activation, Layout, NormKind, Placement, PositionKind

Architecture = Literal["encoder-decoder", "encoder-only", "decoder-only"]

# Settings that count something, and settings that are one of a few words.
_COUNTS = (
    "vocab_size",
    "source_vocab_size",
    "encoder_layers",
    "decoder_layers",
    "width",
    "hidden",
    "heads",
    "head_width",
    "max_positions",
)
_CHOICES = {
    "architecture": Architecture,
    "positions": PositionKind,
    "position_layout": Layout,
    "norm": NormKind,
    "norm_placement": Placement,
    "activation": Activation,
}


@dataclass(frozen=True, kw_only=True)
class TransformerConfig:
    vocab_size: int  # how many pieces the (target) vocabulary has
    source_vocab_size: int | None = None  # set if the source has a vocabulary of its own
    architecture: Architecture = "encoder-decoder"  # or an encoder alone, or a decoder alone
    encoder_layers: int = 6  # blocks of the encoder
    decoder_layers: int = 6  # blocks of the decoder
    width: int = 512  # length of the vector of each token
    hidden: int = 2048  # inner width of the feed-forward networks
    heads: int = 8  # attention heads in each attention
    head_width: int = 64  # length of a head's queries, keys and values
    heads_at: Mapping[str, int] = field(default_factory=dict)  # other head counts, by address: {"decoder.2.cross": 3}
    positions: PositionKind = "sinusoidal"  # how order is told
    position_layout: Layout = "interleaved"  # order of sines and cosines
    max_positions: int = 512  # longest text, for learned positions
    norm: NormKind = "layer"  # LayerNorm or RMSNorm
    norm_placement: Placement = "post"  # before each sublayer, or after it as in 2017
    final_norm: bool = False  # one more norm after each stack, which pre-norm needs
    normalise_queries_and_keys: bool = False  # RMS-normalise them before scoring
    activation: Activation = "relu"  # of the feed-forward networks
    bias: bool = True  # biases in linear layers and norms
    output_bias: bool = False  # a bias on the logits
    tie_embeddings: bool = True  # one matrix for the target's input and output embedding
    scale_embeddings: bool = True  # multiply embeddings by √width
    embedding_norm: bool = False  # a norm right after the embeddings
    dropout: float = 0.1  # share of each sublayer's output set to zero in training
    attention_dropout: float = 0.0  # share of attention weights set to zero in training
    hidden_dropout: float = 0.0  # share of the feed-forward's inner values set to zero in training

    def __post_init__(self) -> None:
        for name in _COUNTS:
            count = getattr(self, name)
            if count is not None and count < 1:
                raise UsageError(f"{name} must be at least 1, not {count}.")
        for name in ("dropout", "attention_dropout", "hidden_dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise UsageError(f"{name} must be at least 0 and below 1, not {getattr(self, name)}.")
        for name, kind in _CHOICES.items():
            if getattr(self, name) not in get_args(kind):
                raise unknown(name, str(getattr(self, name)), get_args(kind))
        for address, heads in self.heads_at.items():
            if address not in self.attentions:
                raise unknown("address in heads_at", address, self.attentions)
            if heads < 1:
                raise UsageError(f"heads_at must leave at least 1 head at {address}, not {heads}.")

    @property
    def has_encoder(self) -> bool:
        return self.architecture != "decoder-only"

    @property
    def has_decoder(self) -> bool:
        return self.architecture != "encoder-only"

    @property
    def attentions(self) -> tuple[str, ...]:
        """The address of every attention, in the order in which they run."""
        encoder = [f"encoder.{i}.self" for i in range(self.encoder_layers)] if self.has_encoder else []
        kinds = ("self", "cross") if self.has_encoder else ("self",)
        decoder = [f"decoder.{i}.{kind}" for i in range(self.decoder_layers) for kind in kinds]
        return (*encoder, *(decoder if self.has_decoder else []))


MODERN = {
    "positions": "rotary",
    "norm_placement": "pre",
    "final_norm": True,
    "activation": "relu2",
    "bias": False,
    "scale_embeddings": False,
    "embedding_norm": True,
}

# Shapes by name. `vocab_size` comes from the tokenizer; the published shapes bring the paper's own 37,000.
PRESETS: dict[str, dict[str, object]] = {
    "tiny": dict(encoder_layers=2, decoder_layers=2, width=128, hidden=256, heads=4, head_width=32),
    "small": dict(encoder_layers=3, decoder_layers=3, width=256, hidden=512, heads=4, head_width=64),
    "base": dict(encoder_layers=6, decoder_layers=6, width=512, hidden=2048, heads=8, head_width=64),
    "large": dict(encoder_layers=6, decoder_layers=6, width=1024, hidden=4096, heads=16, head_width=64),
    "transformer-base": dict(
        vocab_size=37_000, encoder_layers=6, decoder_layers=6, width=512, hidden=2048, heads=8, head_width=64
    ),
    "transformer-big": dict(
        vocab_size=37_000,
        encoder_layers=6,
        decoder_layers=6,
        width=1024,
        hidden=4096,
        heads=16,
        head_width=64,
        dropout=0.3,
    ),
    "transformer-big-fr": dict(  # the paper's English–French model: fewer pieces, more data and so less dropout
        vocab_size=32_000,
        encoder_layers=6,
        decoder_layers=6,
        width=1024,
        hidden=4096,
        heads=16,
        head_width=64,
        dropout=0.1,
    ),
}
