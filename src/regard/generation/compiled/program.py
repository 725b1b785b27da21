"""A decoder step as a program: a table with one row for each operation, which `kernels.run` executes.

This module turns models into tables and computes nothing. An operation refers to columns of the state, where the
vectors of a slot are stored side by side, and to the addresses of weights, which the program keeps alive.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from torch import Tensor, nn

from regard.generation.compiled import kernels as k
from regard.models.gpt.model import GPT
from regard.models.transformer.model import Transformer
from regard.nn.blocks import Block, Residual
from regard.nn.layers import LayerNorm, RMSNorm
from regard.nn.multihead import MultiHeadAttention
from regard.nn.positions import LearnedPositions, SinusoidalPositions
from regard.nn.quantized import QuantizedWeight

PRECISIONS = {"int8": k.INT8, "int4": k.INT4}
ACTIVATIONS = dict(relu=k.RELU, gelu=k.GELU, silu=k.SILU, relu2=k.RELU2, swiglu=k.SWIGLU) | {"gelu-tanh": k.GELU_TANH}

Matrix = Tensor | QuantizedWeight
Numbers = dict[int, int | str]  # column of an operation → value; parts of the state by name


@dataclass
class Program:
    """The operations of a step and the sizes of the buffers that they need."""

    d_model: int
    capacity: int  # positions in the position tables
    operations: list[Numbers] = field(default_factory=list)
    constants: list[float] = field(default_factory=list)
    kept: list[Tensor] = field(default_factory=list)  # tensors whose addresses are in use
    sizes: dict[str, int] = field(default_factory=dict)  # part of the state → its number of columns
    max_inputs: int = 0  # largest number of inputs of a matrix
    vocab_size: int = 0
    quantized: bool = False
    caches: list[tuple[int, int]] = field(default_factory=list)  # num_kv_heads and head_dim of each self-attention
    cross_attentions: list[int] = field(default_factory=list)  # indices of the cross-attention operations
    weight_bytes: int = 0  # bytes of weights that each step reads

    def table(self) -> npt.NDArray[np.int64]:
        out, offsets = np.zeros((len(self.operations), k.FIELDS), dtype=np.int64), self.offsets
        for row, operation in zip(out, self.operations, strict=True):
            for column, value in operation.items():
                row[column] = offsets[value] if isinstance(value, str) else value
        return out

    @property
    def offsets(self) -> dict[str, int]:
        """The first column of each part of the state."""
        return dict(zip(self.sizes, itertools.accumulate(self.sizes.values(), initial=0), strict=False))

    # Parts -----------------------------------------------------------------------------------------------------

    def reserve(self, name: str, size: int) -> str:
        """Reserve at least `size` columns, rounded up to cache lines, for the part `name` of the state."""
        self.sizes[name] = max(-(-size // k.LINE) * k.LINE, self.sizes.get(name, 0))
        return name

    def address(self, tensor: Tensor | None) -> int:
        if tensor is None:
            return 0
        tensor = tensor.detach().contiguous()
        self.kept.append(tensor)
        return tensor.data_ptr()

    def constant(self, value: float) -> int:
        self.constants.append(value)
        return len(self.constants) - 1

    def matrix(self, weight: Matrix) -> Numbers:
        rows, columns = weight.shape
        self.max_inputs = max(self.max_inputs, columns)
        shape = {k.ROWS: rows, k.COLUMNS: columns}
        if not isinstance(weight, QuantizedWeight):
            return {**shape, k.PRECISION: k.FP32, k.WEIGHT: self.address(weight)}
        codes, scales = self.address(weight.codes), self.address(weight.scales)
        return {**shape, k.PRECISION: PRECISIONS[weight.precision], k.WEIGHT: codes, k.SCALE: scales}

    def norm(self, module: nn.Module) -> Numbers:
        if not isinstance(module, LayerNorm | RMSNorm):
            return {}
        numbers: Numbers = {k.NORM: k.RMS_NORM, k.NORM_WEIGHT: self.address(module.weight)}
        if isinstance(module, LayerNorm):
            numbers |= {k.NORM: k.LAYER_NORM, k.NORM_BIAS: self.address(module.bias)}
        return {**numbers, k.EPS: self.constant(module.eps)}

    # Operations ------------------------------------------------------------------------------------------------

    def embed(self, weight: Matrix, positions: nn.Module, norm: nn.Module, *, factor: float = 1.0) -> None:
        table: Tensor | None = None  # the vectors that the model adds for positions, (positions, D)
        if isinstance(positions, LearnedPositions):
            table = positions.weight
        elif isinstance(positions, SinusoidalPositions):
            table = positions.first(self.capacity)
        self.operations.append(
            {
                k.OPERATION: k.EMBED,
                **self.matrix(weight),
                **self.norm(norm),
                k.TARGET: self.reserve("x", self.d_model),
                k.FACTOR: self.constant(factor),
                k.POSITIONS: self.address(table),
            }
        )

    def linear(
        self,
        weight: Matrix,
        bias: Tensor | None,
        source: str,
        target: str,
        *,
        norm: Numbers | None = None,
        activation: int = k.IDENTITY,
        added: bool = False,
    ) -> None:
        """A linear layer, with an optional norm before and activation after it; with `added` it adds to the target."""
        rows, columns = weight.shape
        self.operations.append(
            {
                k.OPERATION: k.LINEAR,
                **self.matrix(weight),
                **(norm or {}),
                k.BIAS: self.address(bias),
                k.SOURCE: self.reserve(source, columns),
                k.TARGET: self.reserve(target, rows // 2 if activation == k.SWIGLU else rows),
                k.ACTIVATION: activation,
                k.ADDED: int(added),
            }
        )
        self.weight_bytes += weight.nbytes

    def output(self, weight: Matrix, norm: nn.Module, bias: Tensor | None = None) -> None:
        self.linear(weight, bias, "x", "logits", norm=self.norm(norm))
        self.vocab_size, self.quantized = weight.shape[0], isinstance(weight, QuantizedWeight)

    def attention(self, attention: MultiHeadAttention, residual: Residual) -> None:
        first, last = attention.q_proj if attention.cross else attention.qkv_proj, attention.out_proj
        self.linear(first.weight, first.bias, "x", "joint", norm=self.before(residual))
        operation: Numbers = {
            k.NUM_HEADS: attention.num_heads,
            k.NUM_KV_HEADS: attention.num_kv_heads,
            k.HEAD_DIM: attention.head_dim,
            k.SOURCE: "joint",
            k.TARGET: self.reserve("heads", attention.num_heads * attention.head_dim),
        }
        if attention.norm is not None:
            operation |= {k.NORM: k.RMS_NORM, k.EPS: self.constant(attention.norm.eps)}
            operation[k.NORM_WEIGHT] = self.address(attention.qk_scale)
        if attention.rotary is not None:
            cosine, sine = attention.rotary.first(self.capacity)
            operation |= {k.ROTARY: self.address(cosine), k.POSITIONS: self.address(sine)}
        if attention.cross:
            operation[k.OPERATION] = k.CROSS_ATTENTION
            self.cross_attentions.append(len(self.operations))
        else:
            operation |= {k.OPERATION: k.SELF_ATTENTION, k.LAYER: len(self.caches)}
            self.caches.append((attention.num_kv_heads, attention.head_dim))
        self.operations.append(operation)
        self.linear(last.weight, last.bias, "heads", "x", added=True)
        self.after(residual)

    def block(self, block: nn.Module) -> None:
        assert isinstance(block, Block)
        self.attention(block.self_attention, block.self_residual)
        if block.cross_attention is not None and block.cross_residual is not None:
            self.attention(block.cross_attention, block.cross_residual)
        up, down, residual = block.feed_forward.up_proj, block.feed_forward.down_proj, block.feed_forward_residual
        activation = ACTIVATIONS[block.feed_forward.activation]
        self.linear(up.weight, up.bias, "x", "hidden", norm=self.before(residual), activation=activation)
        self.linear(down.weight, down.bias, "hidden", "x", added=True)
        self.after(residual)

    def before(self, residual: Residual) -> Numbers:
        """The pre-norm, fused into the first linear layer of a sublayer: x + f(norm(x))."""
        return self.norm(residual.norm) if residual.placement == "pre" else {}

    def after(self, residual: Residual) -> None:
        """The post-norm: norm(x + f(x))."""
        if residual.placement == "post":
            columns: Numbers = {k.SOURCE: "x", k.COLUMNS: self.d_model}
            self.operations.append({k.OPERATION: k.NORMALIZE, **self.norm(residual.norm), **columns})


def gpt_program(model: GPT) -> Program:
    program, embedding = Program(d_model=model.config.d_model, capacity=model.config.context_length), model.embedding
    program.embed(embedding.weight, embedding.positions, embedding.norm)
    for block in model.decoder:
        program.block(block)
    program.output(model.output_weight, model.norm)
    return program


def translation_program(model: Transformer, capacity: int) -> Program:
    """The decoder of an encoder-decoder, for targets of up to `capacity` tokens."""
    program, embedding = Program(d_model=model.config.d_model, capacity=capacity), model.target_embedding
    program.embed(embedding.weight, embedding.positions, embedding.norm, factor=embedding.factor)
    for block in model.decoder:
        program.block(block)
    program.output(model.output_weight, model.decoder_norm, model.output_bias)
    return program


def head_program(model: GPT) -> Program:
    """A program with only the output matrix, applied to hidden states after the final norm."""
    program = Program(d_model=model.config.d_model, capacity=0)
    program.output(model.output_weight, nn.Identity())
    return program
