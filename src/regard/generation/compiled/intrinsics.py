"""Instructions that numba does not expose: pointers, atomic counters, spin-wait hints and int8 dot products.

Each is a few lines of LLVM IR, inlined where a kernel calls it. `HAS_AVX2` says whether the CPU has the instructions
for the dot products.
"""

from __future__ import annotations

import sys
from typing import Any

from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

_FEATURES = binding.get_host_cpu_features()
HAS_AVX2 = bool(_FEATURES.get("avx2")) and bool(_FEATURES.get("fma"))
IS_X86 = binding.get_process_triple().startswith(("x86_64", "amd64", "i386", "i686"))


@intrinsic
def pointer(typing: Any, address: Any) -> Any:
    """Convert an address to a pointer."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], cgutils.voidptr_t)

    return types.voidptr(types.int64), generate


@intrinsic
def count_up(typing: Any, counter: Any) -> Any:
    """Atomically add 1 to the int64 at an address; returns the old value."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = builder.inttoptr(arguments[0], ir.IntType(64).as_pointer())
        return builder.atomic_rmw("add", pointer, ir.Constant(ir.IntType(64), 1), "seq_cst")

    return types.int64(types.int64), generate


@intrinsic
def look(typing: Any, counter: Any) -> Any:
    """Atomically load the int64 at an address."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = builder.inttoptr(arguments[0], ir.IntType(64).as_pointer())
        return builder.load_atomic(pointer, "acquire", 8)

    return types.int64(types.int64), generate


@intrinsic
def pause(typing: Any) -> Any:
    """Hint to the CPU that this is a spin-wait loop."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        if IS_X86:
            kind = ir.FunctionType(ir.VoidType(), [])
            builder.call(cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.sse2.pause"), [])
        return context.get_dummy_value()

    return types.none(), generate


@intrinsic
def float_of(typing: Any, bits: Any) -> Any:
    """Reinterpret 32 bits as a float."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.FloatType())

    return types.float32(types.int32), generate


yield_core = types.ExternalFunction("SwitchToThread" if sys.platform == "win32" else "sched_yield", types.int32())


@intrinsic
def dot_int4_avx2(
    typing: Any, weights: Any, scales: Any, codes: Any, code_scales: Any, corrections: Any, groups: Any
) -> Any:
    """Σ over groups of scale · (code scale · Σ weight · code + correction), with 4-bit weights and 8-bit codes.

    Weights are stored in pairs of groups, 32 bytes: the low nibbles are the first group, the high nibbles the second.
    Scales are bfloat16 and loaded for eight groups at a time.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        i8, i16, i32, i64, f32 = ir.IntType(8), ir.IntType(16), ir.IntType(32), ir.IntType(64), ir.FloatType()
        v32i8, v16i16, v8i32, v8f32 = (ir.VectorType(*kind) for kind in ((i8, 32), (i16, 16), (i32, 8), (f32, 8)))
        weights, scales, codes, code_scales, corrections, groups = arguments
        low_nibble, four, ones = (
            ir.Constant(v32i8, [15] * 32),
            ir.Constant(v32i8, [4] * 32),
            ir.Constant(v16i16, [1] * 16),
        )
        undefined = ir.Constant(v8f32, ir.Undefined)
        sums = [cgutils.alloca_once_value(builder, ir.Constant(v8f32, [0.0] * 8)) for _ in range(3)]

        def call(name: str, result: Any, *args: Any) -> Any:
            kind = ir.FunctionType(result, [arg.type for arg in args])
            return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), args)

        def load(kind: Any, base: Any, index: Any, size: int) -> Any:
            place = builder.add(base, builder.mul(index, ir.Constant(i64, size)))
            return builder.load(builder.inttoptr(place, kind.as_pointer()), align=1)

        def add(sum_: Any, a: Any, b: Any) -> None:
            builder.store(call("llvm.fma.v8f32", v8f32, a, b, builder.load(sum_)), sum_)

        def add_pair(pair: Any, both_scales: tuple[Any, Any]) -> None:
            """Add one pair of groups; `both_scales` are two vectors with equal lanes."""
            quantized = load(v32i8, weights, pair, 32)
            nibbles = builder.and_(quantized, low_nibble), builder.lshr(quantized, four)
            for member, (nibble, scale) in enumerate(zip(nibbles, both_scales, strict=True)):
                group = builder.add(builder.mul(pair, ir.Constant(i64, 2)), ir.Constant(i64, member))
                twos = call("llvm.x86.avx2.pmadd.ub.sw", v16i16, nibble, load(v32i8, codes, group, 32))
                fours = call("llvm.x86.avx2.pmadd.wd", v8i32, twos, ones)
                add(sums[member], builder.sitofp(fours, v8f32), scale)

        def scales_from(first: Any, count: int) -> Any:
            """The factors of the next groups, one in each lane; also adds their corrections to the sum."""
            bits = load(ir.VectorType(i16, count), scales, first, 2)
            wide = builder.zext(bits, ir.VectorType(i32, count))
            plain = builder.shl(wide, ir.Constant(wide.type, [16] * count))
            plain = builder.bitcast(plain, ir.VectorType(f32, count))
            correction = load(plain.type, corrections, first, 4)
            factor = builder.fmul(plain, load(plain.type, code_scales, first, 4))
            if count < 8:  # fill the other lanes with zeros
                lanes = ir.Constant(v8i32, [*range(count), *[count] * (8 - count)])
                zero = ir.Constant(plain.type, [0.0] * count)
                plain, correction = (builder.shuffle_vector(v, zero, lanes) for v in (plain, correction))
            add(sums[2], plain, correction)
            return factor

        def lane(vector: Any, number: int) -> Any:
            other = ir.Constant(vector.type, ir.Undefined)
            return builder.shuffle_vector(vector, other, ir.Constant(v8i32, [number] * 8))

        blocks = builder.lshr(groups, ir.Constant(i64, 3))
        with cgutils.for_range(builder, blocks) as loop:
            factors = scales_from(builder.mul(loop.index, ir.Constant(i64, 8)), 8)
            for k in range(4):
                pair = builder.add(builder.mul(loop.index, ir.Constant(i64, 4)), ir.Constant(i64, k))
                add_pair(pair, (lane(factors, 2 * k), lane(factors, 2 * k + 1)))
        pairs = builder.lshr(groups, ir.Constant(i64, 1))
        done = builder.mul(blocks, ir.Constant(i64, 4))
        with cgutils.for_range(builder, builder.sub(pairs, done)) as loop:
            pair = builder.add(done, loop.index)
            factors = scales_from(builder.mul(pair, ir.Constant(i64, 2)), 2)
            add_pair(pair, (lane(factors, 0), lane(factors, 1)))
        total = builder.fadd(builder.fadd(builder.load(sums[0]), builder.load(sums[1])), builder.load(sums[2]))
        for distance in (4, 2, 1):  # horizontal sum
            lanes = ir.Constant(v8i32, [(i + distance) % 8 for i in range(8)])
            total = builder.fadd(total, builder.shuffle_vector(total, undefined, lanes))
        return builder.extract_element(total, ir.Constant(i32, 0))

    return types.float32(*[types.int64] * 6), generate


@intrinsic
def dot_int8_avx2(typing: Any, weights: Any, codes: Any, code_scales: Any, groups: Any) -> Any:
    """Σ over groups of 32 of code scale · Σ weight · code, with signed 8-bit weights and codes.

    The instruction multiplies unsigned by signed bytes, so the sign of each code moves to its weight.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        i8, i16, i32, i64, f32 = ir.IntType(8), ir.IntType(16), ir.IntType(32), ir.IntType(64), ir.FloatType()
        v32i8, v16i16, v8i32, v8f32 = (ir.VectorType(*kind) for kind in ((i8, 32), (i16, 16), (i32, 8), (f32, 8)))
        weights, codes, code_scales, groups = arguments
        ones, undefined = ir.Constant(v16i16, [1] * 16), ir.Constant(v8f32, ir.Undefined)
        sums = [cgutils.alloca_once_value(builder, ir.Constant(v8f32, [0.0] * 8)) for _ in range(2)]

        def call(name: str, result: Any, *args: Any) -> Any:
            kind = ir.FunctionType(result, [arg.type for arg in args])
            return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), args)

        def load(kind: Any, base: Any, index: Any, size: int) -> Any:
            place = builder.add(base, builder.mul(index, ir.Constant(i64, size)))
            return builder.load(builder.inttoptr(place, kind.as_pointer()), align=1)

        def add_group(group: Any, sum_: Any) -> None:
            code, weight = load(v32i8, codes, group, 32), load(v32i8, weights, group, 32)
            signed = call("llvm.x86.avx2.psign.b", v32i8, weight, code)
            twos = call("llvm.x86.avx2.pmadd.ub.sw", v16i16, call("llvm.abs.v32i8", v32i8, code, false), signed)
            fours = builder.sitofp(call("llvm.x86.avx2.pmadd.wd", v8i32, twos, ones), v8f32)
            first_lane = builder.insert_element(undefined, load(f32, code_scales, group, 4), ir.Constant(i32, 0))
            scale = builder.shuffle_vector(first_lane, undefined, ir.Constant(v8i32, [0] * 8))
            builder.store(call("llvm.fma.v8f32", v8f32, fours, scale, builder.load(sum_)), sum_)

        false = ir.Constant(ir.IntType(1), 0)
        pairs = builder.lshr(groups, ir.Constant(i64, 1))
        with cgutils.for_range(builder, pairs) as loop:
            first = builder.mul(loop.index, ir.Constant(i64, 2))
            add_group(first, sums[0])
            add_group(builder.add(first, ir.Constant(i64, 1)), sums[1])
        odd = builder.icmp_unsigned("!=", builder.and_(groups, ir.Constant(i64, 1)), ir.Constant(i64, 0))
        with builder.if_then(odd):
            add_group(builder.sub(groups, ir.Constant(i64, 1)), sums[0])
        total = builder.fadd(builder.load(sums[0]), builder.load(sums[1]))
        for distance in (4, 2, 1):  # horizontal sum
            lanes = ir.Constant(v8i32, [(i + distance) % 8 for i in range(8)])
            total = builder.fadd(total, builder.shuffle_vector(total, undefined, lanes))
        return builder.extract_element(total, ir.Constant(i32, 0))

    return types.float32(*[types.int64] * 4), generate
