"""Instructions that numba does not expose: pointers, atomic counters, spin waits and int8 dot products.

Each function is a few lines of LLVM IR that are inlined where a kernel calls it. `HAS_AVX2` says whether the CPU has
the instructions for the dot products. `sync` synchronizes threads in a spin loop, since a step has hundreds of short
waits.
"""

from __future__ import annotations

import sys
from functools import reduce
from typing import Any

from llvmlite import binding, ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

_FEATURES = binding.get_host_cpu_features()
HAS_AVX2 = bool(_FEATURES.get("avx2")) and bool(_FEATURES.get("fma"))
fast = njit(fastmath=True, nogil=True, cache=True, error_model="numpy", boundscheck=False)
SPINS = 2_000  # polls before a thread at the barrier yields its core
ABANDONED = 1 << 62  # a count that releases all threads at the barrier
IS_X86 = binding.get_process_triple().startswith(("x86_64", "amd64", "i386", "i686"))

I8, I16, I32, I64, F32 = ir.IntType(8), ir.IntType(16), ir.IntType(32), ir.IntType(64), ir.FloatType()
V32I8, V16I16, V8I32, V8F32 = (ir.VectorType(*kind) for kind in ((I8, 32), (I16, 16), (I32, 8), (F32, 8)))


def _call(builder: Any, name: str, result: Any, *args: Any) -> Any:
    """Call an LLVM function with the return type `result`."""
    kind = ir.FunctionType(result, [arg.type for arg in args])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), args)


@intrinsic
def pointer(typing: Any, address: Any) -> Any:
    """Convert an address to a pointer."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], cgutils.voidptr_t)

    return types.voidptr(types.int64), generate


@intrinsic
def atomic_increment(typing: Any, counter: Any) -> Any:
    """Atomically add 1 to the int64 at an address; returns the old value."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = builder.inttoptr(arguments[0], I64.as_pointer())
        return builder.atomic_rmw("add", pointer, ir.Constant(I64, 1), "seq_cst")

    return types.int64(types.int64), generate


@intrinsic
def atomic_load(typing: Any, counter: Any) -> Any:
    """Atomically load the int64 at an address."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = builder.inttoptr(arguments[0], I64.as_pointer())
        return builder.load_atomic(pointer, "acquire", 8)

    return types.int64(types.int64), generate


@intrinsic
def pause(typing: Any) -> Any:
    """Hint to the CPU that this is a spin-wait loop."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        if IS_X86:
            _call(builder, "llvm.x86.sse2.pause", ir.VoidType())
        return context.get_dummy_value()

    return types.none(), generate


@intrinsic
def float_of(typing: Any, bits: Any) -> Any:
    """Reinterpret 32 bits as a float."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], F32)

    return types.float32(types.int32), generate


yield_core = types.ExternalFunction("SwitchToThread" if sys.platform == "win32" else "sched_yield", types.int32())


@fast
def sync(barrier: Any, size: Any) -> None:
    """Wait until all `size` threads have reached the barrier."""
    if size > 1:
        ticket = atomic_increment(barrier)
        goal = min((ticket // size + 1) * size, ABANDONED)
        spins = 0
        while atomic_load(barrier) < goal:
            pause()
            spins += 1
            if spins > SPINS:
                yield_core()


@fast
def wait_for(counter: Any, seen: Any, spins: Any) -> Any:
    """Poll the number at an address until it differs from `seen`, at most `spins` times; returns the number."""
    for _ in range(spins):
        now = atomic_load(counter)
        if now != seen:
            return now
        pause()
    return seen


# Dot products -------------------------------------------------------------------------------------------------


class _Vectors:
    """Writes the LLVM instructions that both dot products use."""

    def __init__(self, builder: Any, sums: int) -> None:
        self.builder = builder
        self.sums = [cgutils.alloca_once_value(builder, V8F32([0.0] * 8)) for _ in range(sums)]

    def load(self, kind: Any, base: Any, index: Any, size: int) -> Any:
        """Load a value of type `kind` from the address `base` + `index` · `size`, which need not be aligned."""
        place = self.builder.add(base, self.builder.mul(index, I64(size)))
        return self.builder.load(self.builder.inttoptr(place, kind.as_pointer()), align=1)

    def lanes(self, vector: Any, lanes: list[int]) -> Any:
        return self.builder.shuffle_vector(vector, ir.Constant(vector.type, ir.Undefined), V8I32(lanes))

    def add(self, number: int, a: Any, b: Any) -> None:
        """Add a · b to the accumulator `number`."""
        total = self.sums[number]
        self.builder.store(_call(self.builder, "llvm.fma.v8f32", V8F32, a, b, self.builder.load(total)), total)

    def add_bytes(self, number: int, unsigned: Any, signed: Any, factor: Any) -> None:
        """Add the products of 32 pairs of bytes, times a factor, to the accumulator `number`."""
        twos = _call(self.builder, "llvm.x86.avx2.pmadd.ub.sw", V16I16, unsigned, signed)
        fours = _call(self.builder, "llvm.x86.avx2.pmadd.wd", V8I32, twos, V16I16([1] * 16))
        self.add(number, self.builder.sitofp(fours, V8F32), factor)

    def total(self) -> Any:
        """Return the sum over all lanes of all accumulators."""
        total = reduce(self.builder.fadd, map(self.builder.load, self.sums))
        for distance in (4, 2, 1):
            total = self.builder.fadd(total, self.lanes(total, [(i + distance) % 8 for i in range(8)]))
        return self.builder.extract_element(total, I32(0))


@intrinsic
def dot_int4_avx2(
    typing: Any, weights: Any, scales: Any, codes: Any, code_scales: Any, corrections: Any, groups: Any
) -> Any:
    """Σ over groups of scale · (code scale · Σ weight · code + correction), with 4-bit weights and 8-bit codes.

    Weights are stored in pairs of groups, 32 bytes: the low nibbles are the first group, the high nibbles the second.
    Scales are bfloat16 and loaded for eight groups at a time.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        weights, scales, codes, code_scales, corrections, groups = arguments
        vectors = _Vectors(builder, sums=3)

        def add_pair(pair: Any, factors: Any, lane: int) -> None:
            """Add one pair of groups, with their factors in two lanes of a vector."""
            quantized = vectors.load(V32I8, weights, pair, 32)
            nibbles = builder.and_(quantized, V32I8([15] * 32)), builder.lshr(quantized, V32I8([4] * 32))
            for member, nibble in enumerate(nibbles):
                group = builder.add(builder.mul(pair, I64(2)), I64(member))
                code, factor = vectors.load(V32I8, codes, group, 32), vectors.lanes(factors, [lane + member] * 8)
                vectors.add_bytes(member, nibble, code, factor)

        def factors_from(first: Any, count: int) -> Any:
            """Return the factors of the next groups, one in each lane, and add their corrections to the sum."""
            bits = vectors.load(ir.VectorType(I16, count), scales, first, 2)
            wide = builder.zext(bits, ir.VectorType(I32, count))
            plain = builder.bitcast(builder.shl(wide, wide.type([16] * count)), ir.VectorType(F32, count))
            correction = vectors.load(plain.type, corrections, first, 4)
            factor = builder.fmul(plain, vectors.load(plain.type, code_scales, first, 4))
            if count < 8:  # fill the other lanes with zeros
                lanes = V8I32([*range(count), *[count] * (8 - count)])
                zero = plain.type([0.0] * count)
                plain, correction = (builder.shuffle_vector(v, zero, lanes) for v in (plain, correction))
            vectors.add(2, plain, correction)
            return factor

        blocks = builder.lshr(groups, I64(3))
        with cgutils.for_range(builder, blocks) as loop:
            factors = factors_from(builder.mul(loop.index, I64(8)), 8)
            for k in range(4):
                add_pair(builder.add(builder.mul(loop.index, I64(4)), I64(k)), factors, 2 * k)
        pairs, done = builder.lshr(groups, I64(1)), builder.mul(blocks, I64(4))
        with cgutils.for_range(builder, builder.sub(pairs, done)) as loop:
            pair = builder.add(done, loop.index)
            add_pair(pair, factors_from(builder.mul(pair, I64(2)), 2), 0)
        return vectors.total()

    return types.float32(*[types.int64] * 6), generate


@intrinsic
def dot_int8_avx2(typing: Any, weights: Any, codes: Any, code_scales: Any, groups: Any) -> Any:
    """Σ over groups of 32 of code scale · Σ weight · code, with signed 8-bit weights and codes.

    The instruction multiplies unsigned by signed bytes, so the sign of each code moves to its weight.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        weights, codes, code_scales, groups = arguments
        vectors = _Vectors(builder, sums=2)

        def add_group(group: Any, number: int) -> None:
            code, weight = (vectors.load(V32I8, base, group, 32) for base in (codes, weights))
            signed = _call(builder, "llvm.x86.avx2.psign.b", V32I8, weight, code)
            unsigned = _call(builder, "llvm.abs.v32i8", V32I8, code, ir.IntType(1)(0))
            scale = builder.insert_element(
                ir.Constant(V8F32, ir.Undefined), vectors.load(F32, code_scales, group, 4), I32(0)
            )
            vectors.add_bytes(number, unsigned, signed, vectors.lanes(scale, [0] * 8))

        with cgutils.for_range(builder, builder.lshr(groups, I64(1))) as loop:
            first = builder.mul(loop.index, I64(2))
            add_group(first, 0)
            add_group(builder.add(first, I64(1)), 1)
        odd = builder.icmp_unsigned("!=", builder.and_(groups, I64(1)), I64(0))
        with builder.if_then(odd):
            add_group(builder.sub(groups, I64(1)), 0)
        return vectors.total()

    return types.float32(*[types.int64] * 4), generate
