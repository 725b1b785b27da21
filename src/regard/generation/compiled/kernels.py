"""The compiled decoder step: all operations over a few slots, split among threads.

Generating a token is bound by memory bandwidth, so the kernels read the weights once, in order, on all cores, with
little overhead between operations. A step is a program: a table with one row of numbers for each operation (see
`program`), which `run` executes in compiled code. Every thread runs all operations of the program and computes a part
of each. The threads synchronize at a barrier after each operation.

A slot is one new token: the newest token of a text or beam, or one of several draft tokens. Weights are read once
for all slots. The kernels allocate no memory and do not depend on models.

Numba's cache checks only the modification time of this file: after a change in `intrinsics`, save this file again.
"""

from __future__ import annotations

import math

import numpy as np
from numba import carray

from regard.generation.compiled.intrinsics import HAS_AVX2, dot_int4_avx2, dot_int8_avx2, fast, float_of, pointer, sync

# The columns of a program. Addresses point to arrays that the decoder keeps alive; 0 is the null address.
OPERATION, SOURCE, TARGET = range(3)  # SOURCE and TARGET: the first column of `state` to read and to write
WEIGHT, SCALE, BIAS, ROWS, COLUMNS, PRECISION = range(3, 9)  # properties of a matrix
NORM, NORM_WEIGHT, NORM_BIAS, EPS = range(9, 13)  # EPS is an index into `constants`, which holds floats; so is FACTOR
ACTIVATION, ADDED = range(13, 15)  # ADDED is 1: add to the target instead of overwriting it
NUM_HEADS, NUM_KV_HEADS, HEAD_DIM, LAYER = range(15, 19)
ROTARY, CROSS_KEYS, CROSS_VALUES, FACTOR, POSITIONS = range(19, 24)
FIELDS = 24

EMBED, LINEAR, SELF_ATTENTION, CROSS_ATTENTION, NORMALIZE = range(5)
FP32, INT8, INT4 = range(3)
NO_NORM, LAYER_NORM, RMS_NORM = range(3)
IDENTITY, RELU, GELU, GELU_TANH, SILU, RELU2, SWIGLU = range(7)
STORE, ADD, MULTIPLY = range(3)  # how a product is combined with the old value of its target

LINE = 16  # floats per cache line
GROUP = 32  # weights per scale in int4
NULL = np.int64(0)  # null address


# Helpers ------------------------------------------------------------------------------------------------------


@fast
def _exp(x):
    """e^x, accurate to the last digit or two, in operations that vectorize."""
    x = min(max(x, np.float32(-87.0)), np.float32(88.0))
    whole = np.floor(x * np.float32(1.44269504) + np.float32(0.5))
    rest = x - whole * np.float32(0.693359375) + whole * np.float32(2.12194440e-4)
    power = np.float32(1.9875691500e-4)
    power = power * rest + np.float32(1.3981999507e-3)
    power = power * rest + np.float32(8.3334519073e-3)
    power = power * rest + np.float32(4.1665795894e-2)
    power = power * rest + np.float32(1.6666665459e-1)
    power = power * rest + np.float32(5.0000001201e-1)
    power = power * rest * rest + rest + np.float32(1.0)
    return power * float_of((np.int32(whole) + np.int32(127)) << np.int32(23))


@fast
def _copy(x, out):
    """Copy in a loop, because numba takes seconds to compile the error message of a slice assignment."""
    for i in range(len(x)):
        out[i] = x[i]


@fast
def _normalize(x, out, kind, weight, bias, eps):
    n = len(x)
    mean = np.float32(0.0)
    if kind == LAYER_NORM:
        for i in range(n):
            mean += x[i]
        mean /= np.float32(n)
    square = np.float32(0.0)
    for i in range(n):
        square += (x[i] - mean) * (x[i] - mean)
    factor = np.float32(1.0) / np.sqrt(square / np.float32(n) + eps)
    for i in range(n):
        out[i] = (x[i] - mean) * factor
    if weight:
        weights = carray(pointer(weight), n, np.float32)
        for i in range(n):
            out[i] *= weights[i]
    if bias:
        biases = carray(pointer(bias), n, np.float32)
        for i in range(n):
            out[i] += biases[i]


@fast
def _activate(x, kind):
    """Apply an activation to a vector in place. Each kind has its own loop, so that all of them vectorize."""
    zero, half, one = np.float32(0.0), np.float32(0.5), np.float32(1.0)
    if kind == RELU:
        for i in range(len(x)):
            x[i] = max(x[i], zero)
    elif kind == RELU2:
        for i in range(len(x)):
            y = max(x[i], zero)
            x[i] = y * y
    elif kind == GELU_TANH:
        for i in range(len(x)):
            v = x[i]
            inner = np.float32(1.5957691216) * (v + np.float32(0.044715) * v * v * v)  # tanh from e^2x
            x[i] = v - v / (_exp(inner) + one)
    elif kind == GELU:
        for i in range(len(x)):
            x[i] = half * x[i] * (one + np.float32(math.erf(x[i] * np.float32(0.70710678))))
    elif kind == SILU:
        for i in range(len(x)):
            x[i] = x[i] / (one + _exp(-x[i]))


# Matrix products ----------------------------------------------------------------------------------------------


@fast
def _groups(columns):
    """The number of groups of 32 weights, rounded up to an even number, since groups are stored in pairs."""
    return (columns + 2 * GROUP - 1) // (2 * GROUP) * 2


@fast
def _quantize(x, codes, scales, corrections):
    """Quantize to 8 bits in groups of 32: codes, scales, and corrections for the zero point 8 of int4 weights."""
    for group in range(len(scales)):
        start = group * GROUP
        largest = np.float32(1e-20)
        for i in range(GROUP):
            largest = max(largest, abs(x[start + i]))
        factor = np.float32(127.0) / largest
        scales[group] = largest / np.float32(127.0)
        total = np.int32(0)
        for i in range(GROUP):
            code = np.int32(np.rint(x[start + i] * factor))
            codes[start + i] = np.int8(code)
            total += code
        corrections[group] = np.float32(-8 * total) * scales[group]


@fast
def _dot(row, x):
    total = np.float32(0.0)
    for j in range(len(row)):
        total += np.float32(row[j]) * x[j]
    return total


@fast
def _dot4(row, a, b, c, d):
    """Dot products of one row with four vectors: the row is loaded once, and the four sums are independent."""
    w, x, y, z = np.float32(0.0), np.float32(0.0), np.float32(0.0), np.float32(0.0)
    for j in range(len(row)):
        weight = np.float32(row[j])
        w += weight * np.float32(a[j])
        x += weight * np.float32(b[j])
        y += weight * np.float32(c[j])
        z += weight * np.float32(d[j])
    return w, x, y, z


@fast
def _dot_int4_plain(weights, scales, codes, code_scales, corrections):
    """`dot_int4_avx2` without AVX2."""
    total = np.float32(0.0)
    for group in range(len(scales)):
        inner = np.int32(0)
        for i in range(GROUP):
            byte = np.int32(weights[group // 2 * GROUP + i])
            half = byte >> 4 if group % 2 else byte & 15
            inner += half * np.int32(codes[group * GROUP + i])
        scale = float_of(np.int32(scales[group]) << np.int32(16))
        total += scale * (np.float32(inner) * code_scales[group] + corrections[group])
    return total


@fast
def _dot_int4(weights, scales, codes, code_scales, corrections, groups):
    """Take addresses instead of slices, because creating slices would cost more than the dot product."""
    if HAS_AVX2:
        return dot_int4_avx2(weights, scales, codes, code_scales, corrections, groups)
    return _dot_int4_plain(
        carray(pointer(weights), groups * 16, np.uint8),
        carray(pointer(scales), groups, np.uint16),
        carray(pointer(codes), groups * GROUP, np.int8),
        carray(pointer(code_scales), groups, np.float32),
        carray(pointer(corrections), groups, np.float32),
    )


@fast
def _put(state, slot, place, value, mode):
    if mode == STORE:
        state[slot, place] = value
    elif mode == ADD:
        state[slot, place] += value
    else:
        state[slot, place] *= value


@fast
def _dot_slots(row, scale, bias, inputs, state, place, mode):
    """The dot product of one row of a matrix with the input of every slot, four slots at a time."""
    whole = len(state) // 4 * 4
    for slot in range(0, whole, 4):
        a, b, c, d = _dot4(row, inputs[slot], inputs[slot + 1], inputs[slot + 2], inputs[slot + 3])
        _put(state, slot, place, a * scale + bias, mode)
        _put(state, slot + 1, place, b * scale + bias, mode)
        _put(state, slot + 2, place, c * scale + bias, mode)
        _put(state, slot + 3, place, d * scale + bias, mode)
    for slot in range(whole, len(state)):
        _put(state, slot, place, _dot(row, inputs[slot]) * scale + bias, mode)


@fast
def _quantizes_inputs(op):
    """Whether a matrix product quantizes its inputs to 8 bits in addition to its weights."""
    return HAS_AVX2 and op[PRECISION] == INT8 and op[COLUMNS] % GROUP == 0


@fast
def _matmul_rows(op, first, last, offset, mode, state, inputs, codes, code_scales, corrections):
    """Multiply rows `first + offset` to `last + offset` of a matrix with all inputs; outputs start at `first`."""
    target, columns = op[TARGET], op[COLUMNS]
    groups, wide = _groups(columns), code_scales.shape[1]
    codes_at, scales_at, corrections_at = codes.ctypes.data, code_scales.ctypes.data, corrections.ctypes.data
    has_bias, has_scale = op[BIAS] != 0, op[PRECISION] == INT8
    biases = carray(pointer(op[BIAS]), op[ROWS], np.float32)
    scales = carray(pointer(op[SCALE]), op[ROWS], np.float32)
    for place in range(first, last):
        row = place + offset
        bias = biases[row] if has_bias else np.float32(0.0)
        scale = scales[row] if has_scale else np.float32(1.0)
        if op[PRECISION] == INT4:
            weights, scale_row = op[WEIGHT] + row * groups * 16, op[SCALE] + row * groups * 2
            for slot in range(len(state)):
                at_codes, at_scales = slot * wide * GROUP, slot * wide * 4
                dot = _dot_int4(
                    weights, scale_row, codes_at + at_codes, scales_at + at_scales, corrections_at + at_scales, groups
                )
                _put(state, slot, target + place, dot + bias, mode)
        elif _quantizes_inputs(op):
            for slot in range(len(state)):
                at_codes, at_scales = codes_at + slot * wide * GROUP, scales_at + slot * wide * 4
                dot = dot_int8_avx2(op[WEIGHT] + row * columns, at_codes, at_scales, columns // GROUP)
                _put(state, slot, target + place, dot * scale + bias, mode)
        elif op[PRECISION] == INT8:
            bytes_ = carray(pointer(op[WEIGHT] + row * columns), columns, np.int8)
            _dot_slots(bytes_, scale, bias, inputs, state, target + place, mode)
        else:
            floats = carray(pointer(op[WEIGHT] + row * columns * 4), columns, np.float32)
            _dot_slots(floats, scale, bias, inputs, state, target + place, mode)


@fast
def _first_row(rows, rank, size):
    """The first row of a thread, aligned to cache lines, so that loops vectorize alike for any number of threads."""
    return rows if rank == size else rows * rank // size // LINE * LINE


@fast
def _linear(op, rank, size, state, inputs, codes, code_scales, corrections, constants):
    """Norm, matrix product, activation. Each thread normalizes all inputs, which is faster than synchronizing."""
    columns, source, target = op[COLUMNS], op[SOURCE], op[TARGET]
    groups = _groups(columns)
    for slot in range(len(state)):
        x = state[slot, source : source + columns]
        if op[NORM]:
            _normalize(x, inputs[slot, :columns], op[NORM], op[NORM_WEIGHT], op[NORM_BIAS], constants[op[EPS]])
        else:
            _copy(x, inputs[slot])
        if op[PRECISION] == INT4 or _quantizes_inputs(op):
            inputs[slot, columns : groups * GROUP] = np.float32(0.0)
            _quantize(inputs[slot], codes[slot], code_scales[slot, :groups], corrections[slot, :groups])
    gated = op[ACTIVATION] == SWIGLU
    parts = 2 if gated else 1  # SwiGLU: the activated first half times the second half
    rows = op[ROWS] // parts
    first, last = _first_row(rows, rank, size), _first_row(rows, rank + 1, size)
    for part in range(parts):
        mode = MULTIPLY if part else (ADD if op[ADDED] else STORE)
        _matmul_rows(op, first, last, part * rows, mode, state, inputs, codes, code_scales, corrections)
        if op[ACTIVATION] and not part:
            for slot in range(len(state)):
                _activate(state[slot, target + first : target + last], SILU if gated else op[ACTIVATION])


# Attention ----------------------------------------------------------------------------------------------------


@fast
def _prepare(op, x, position, norm_weight, out, constants):
    """Apply QK norm and rotary positions to a query or key of one head, if the model has them."""
    head_dim = op[HEAD_DIM]
    if op[NORM]:
        _normalize(x, out, op[NORM], norm_weight, NULL, constants[op[EPS]])
    else:
        _copy(x, out)
    if op[ROTARY]:
        half = head_dim // 2
        cosine = carray(pointer(op[ROTARY] + position * head_dim * 4), head_dim, np.float32)
        sine = carray(pointer(op[POSITIONS] + position * half * 4), half, np.float32)
        for i in range(half):
            a, b = out[i], out[i + half]
            out[i] = a * cosine[i] - b * sine[i]
            out[i + half] = b * cosine[i] + a * sine[i]


@fast
def _store(x, at, address, scale_address, head_dim):
    """Store a key or value at index `at` of a cache, in fp32, or in int8 if the cache has scales."""
    if scale_address:
        largest = np.float32(1e-20)
        for i in range(head_dim):
            largest = max(largest, abs(x[i]))
        scales = carray(pointer(scale_address + at * 4), 1, np.float32)
        scales[0] = largest / np.float32(127.0)
        factor = np.float32(127.0) / largest
        bytes_ = carray(pointer(address + at * head_dim), head_dim, np.int8)
        for i in range(head_dim):
            bytes_[i] = np.int8(np.rint(x[i] * factor))
    else:
        floats = carray(pointer(address + at * head_dim * 4), head_dim, np.float32)
        for i in range(head_dim):
            floats[i] = x[i]


@fast
def _softmax(scores):
    """Softmax in place."""
    largest = scores[0]
    for t in range(1, len(scores)):
        largest = max(largest, scores[t])
    total = np.float32(0.0)
    for t in range(len(scores)):
        scores[t] = _exp(scores[t] - largest)
        total += scores[t]
    inverse = np.float32(1.0) / total
    for t in range(len(scores)):
        scores[t] *= inverse


@fast
def _cache_index(past, t, stride, base):
    return past[t] * stride + base + t


@fast
def _row(kind, size, address, at, head_dim):
    """The key or value at index `at` of a cache, with elements of `size` bytes."""
    return carray(pointer(address + at * head_dim * size), head_dim, kind)


@fast
def _scale(address, at):
    return carray(pointer(address + at * 4), 1, np.float32)[0]


@fast
def _attention(kind, q, out, scores, past, stride, base, keys, key_scales, values, value_scales):
    """Attention of one query over a cache with elements of type `kind`, four positions at a time.

    Position t is in row `past[t]` of the cache; rows are `stride` positions apart.
    """
    head_dim, length = len(q), len(past)
    size, whole = 1 if key_scales else 4, length // 4 * 4
    for t in range(0, whole, 4):
        scores[t], scores[t + 1], scores[t + 2], scores[t + 3] = _dot4(
            q,
            _row(kind, size, keys, _cache_index(past, t, stride, base), head_dim),
            _row(kind, size, keys, _cache_index(past, t + 1, stride, base), head_dim),
            _row(kind, size, keys, _cache_index(past, t + 2, stride, base), head_dim),
            _row(kind, size, keys, _cache_index(past, t + 3, stride, base), head_dim),
        )
    for t in range(whole, length):
        scores[t] = _dot(_row(kind, size, keys, _cache_index(past, t, stride, base), head_dim), q)
    factor = np.float32(1.0) / np.sqrt(np.float32(head_dim))
    for t in range(length):
        scores[t] *= factor * _scale(key_scales, _cache_index(past, t, stride, base)) if key_scales else factor
    _softmax(scores[:length])
    if value_scales:
        for t in range(length):
            scores[t] *= _scale(value_scales, _cache_index(past, t, stride, base))
    out[:] = np.float32(0.0)
    for t in range(0, whole, 4):
        a = _row(kind, size, values, _cache_index(past, t, stride, base), head_dim)
        b = _row(kind, size, values, _cache_index(past, t + 1, stride, base), head_dim)
        c = _row(kind, size, values, _cache_index(past, t + 2, stride, base), head_dim)
        d = _row(kind, size, values, _cache_index(past, t + 3, stride, base), head_dim)
        w, x, y, z = scores[t], scores[t + 1], scores[t + 2], scores[t + 3]
        for i in range(head_dim):
            out[i] += w * np.float32(a[i]) + x * np.float32(b[i]) + y * np.float32(c[i]) + z * np.float32(d[i])
    for t in range(whole, length):
        a, w = _row(kind, size, values, _cache_index(past, t, stride, base), head_dim), scores[t]
        for i in range(head_dim):
            out[i] += w * np.float32(a[i])


@fast
def _self_attention(op, rank, size, state, buffers, caches, rows, cache_rows, positions, history, constants):
    """Self-attention: append the new keys and values to the cache, then attend over it for each slot."""
    num_heads, num_kv_heads, head_dim = op[NUM_HEADS], op[NUM_KV_HEADS], op[HEAD_DIM]
    queries_per_kv = num_heads // num_kv_heads
    keys, values = caches[op[LAYER], 0], caches[op[LAYER], 1]
    key_scales, value_scales = caches[op[LAYER], 2], caches[op[LAYER], 3]
    prepared, scores = buffers[:head_dim], buffers[head_dim:]
    slots, source = len(state), op[SOURCE]
    key_norm_weight = op[NORM_WEIGHT] + head_dim * 4 if op[NORM_WEIGHT] else 0
    capacity = history.shape[1]
    stride = num_kv_heads * capacity
    for kv_head in range(num_kv_heads * rank // size, num_kv_heads * (rank + 1) // size):
        base = kv_head * capacity
        for slot in range(slots):
            at = cache_rows[slot] * stride + base + positions[slot]
            k = source + (num_heads + kv_head) * head_dim
            v = k + num_kv_heads * head_dim
            _prepare(op, state[slot, k : k + head_dim], positions[slot], key_norm_weight, prepared, constants)
            _store(prepared, at, keys, key_scales, head_dim)
            _store(state[slot, v : v + head_dim], at, values, value_scales, head_dim)
        for slot in range(slots):
            past = history[rows[slot], : positions[slot] + 1]
            for head in range(kv_head * queries_per_kv, (kv_head + 1) * queries_per_kv):
                q = source + head * head_dim
                _prepare(op, state[slot, q : q + head_dim], positions[slot], op[NORM_WEIGHT], prepared, constants)
                out = state[slot, op[TARGET] + head * head_dim : op[TARGET] + (head + 1) * head_dim]
                if key_scales:
                    _attention(
                        np.int8, prepared, out, scores, past, stride, base, keys, key_scales, values, value_scales
                    )
                else:
                    _attention(
                        np.float32, prepared, out, scores, past, stride, base, keys, key_scales, values, value_scales
                    )


@fast
def _cross_attention(op, rank, size, state, buffers, source_of, lengths, history, constants):
    """Cross-attention of each slot over the memory of its source."""
    num_heads, num_kv_heads, head_dim = op[NUM_HEADS], op[NUM_KV_HEADS], op[HEAD_DIM]
    queries_per_kv, longest = num_heads // num_kv_heads, history.shape[1]
    prepared, scores = buffers[:head_dim], buffers[head_dim:]
    units = len(state) * num_heads
    for unit in range(units * rank // size, units * (rank + 1) // size):
        slot, head = unit // num_heads, unit % num_heads
        past = history[source_of[slot], : lengths[source_of[slot]]]
        q = op[SOURCE] + head * head_dim
        _prepare(op, state[slot, q : q + head_dim], NULL, op[NORM_WEIGHT], prepared, constants)
        out = state[slot, op[TARGET] + head * head_dim : op[TARGET] + (head + 1) * head_dim]
        stride, base = num_kv_heads * longest, head // queries_per_kv * longest
        _attention(np.float32, prepared, out, scores, past, stride, base, op[CROSS_KEYS], NULL, op[CROSS_VALUES], NULL)


# Embedding ----------------------------------------------------------------------------------------------------


@fast
def _embed(op, rank, size, state, ids, positions, constants):
    columns, target = op[COLUMNS], op[TARGET]
    for slot in range(rank, len(state), size):
        x, id_ = state[slot, target : target + columns], ids[slot]
        if op[PRECISION] == INT8:
            scale = carray(pointer(op[SCALE]), op[ROWS], np.float32)[id_]
            bytes_ = carray(pointer(op[WEIGHT] + id_ * columns), columns, np.int8)
            for i in range(columns):
                x[i] = np.float32(bytes_[i]) * scale
        elif op[PRECISION] == INT4:
            groups = _groups(columns)
            halves = carray(pointer(op[WEIGHT] + id_ * groups * 16), groups * 16, np.uint8)
            scales = carray(pointer(op[SCALE] + id_ * groups * 2), groups, np.uint16)
            for i in range(columns):
                group = i // GROUP
                byte = np.int32(halves[group // 2 * GROUP + i % GROUP])
                code = byte >> 4 if group % 2 else byte & 15
                x[i] = np.float32(code - 8) * float_of(np.int32(scales[group]) << np.int32(16))
        else:
            floats = carray(pointer(op[WEIGHT] + id_ * columns * 4), columns, np.float32)
            for i in range(columns):
                x[i] = floats[i]
        factor = constants[op[FACTOR]]
        for i in range(columns):
            x[i] *= factor
        if op[POSITIONS]:
            place = carray(pointer(op[POSITIONS] + positions[slot] * columns * 4), columns, np.float32)
            for i in range(columns):
                x[i] += place[i]
        if op[NORM]:
            _normalize(x, x, op[NORM], op[NORM_WEIGHT], op[NORM_BIAS], constants[op[EPS]])


@fast
def run(
    rank,
    size,
    program,
    constants,
    barrier,
    state,
    buffers,
    inputs,
    codes,
    code_scales,
    corrections,
    ids,
    rows,
    positions,
    cache_rows,
    history,
    caches,
    source_of,
    source_lengths,
    source_history,
):
    """Run one step: the part of every operation that thread `rank` of `size` computes."""
    barrier_address = barrier.ctypes.data
    for number in range(len(program)):
        op = program[number]
        if op[OPERATION] == LINEAR:
            _linear(op, rank, size, state, inputs[rank], codes[rank], code_scales[rank], corrections[rank], constants)
        elif op[OPERATION] == SELF_ATTENTION:
            _self_attention(
                op, rank, size, state, buffers[rank], caches, rows, cache_rows, positions, history, constants
            )
        elif op[OPERATION] == CROSS_ATTENTION:
            _cross_attention(op, rank, size, state, buffers[rank], source_of, source_lengths, source_history, constants)
        elif op[OPERATION] == EMBED:
            _embed(op, rank, size, state, ids, positions, constants)
        else:
            for slot in range(rank, len(state), size):
                x = state[slot, op[SOURCE] : op[SOURCE] + op[COLUMNS]]
                _normalize(x, x, op[NORM], op[NORM_WEIGHT], op[NORM_BIAS], constants[op[EPS]])
        sync(barrier_address, size)
