"""Types of the options of layers. Does not import torch, so that configs are checked before it is loaded."""

from __future__ import annotations

from typing import Literal

Activation = Literal["relu", "gelu", "gelu-tanh", "silu", "relu2", "swiglu"]
Layout = Literal["interleaved", "halves"]  # order of sines and cosines
NormKind = Literal["layer", "rms"]
Placement = Literal["pre", "post"]  # of a norm: before each sublayer, or after it as in 2017
PositionKind = Literal["sinusoidal", "learned", "rotary", "none"]
