"""The common chain in one pass over each row, written in TIR: mask, temperature, top-k, top-p, min-p, and the draw.

Definitions are those of slipcast.samplers.cuts and of the seeded draw. A row is read once for its highest logits by
block, which say where the few tokens are that cuts can leave; and once more, for the sum of its weights, only where no
top-k bounds them. What is left is selected by its bits, not sorted.

What does not fit the room for candidates is left to the caller.
"""

# TVMScript is Python only to a parser: it assigns scalars in place, and `and` looks at both sides.
# ruff: noqa: E702, F823, F841, SIM102, SIM108
# mypy: ignore-errors
from __future__ import annotations

from typing import Any

from tvm.script import tirx as T

BLOCK = 64
ROOM = 4096
FIRST_BLOCKS = 128
"""Blocks in which a nucleus is looked for."""
LEFT = -1
EMPTY = -2


def draw_kernel() -> Any:
    """The kernel as a TIR function; parsing takes a second. Its arguments: samplers/quick.py, and working space."""

    @T.prim_func(s_tir=True)
    def draw(
        logits: T.Buffer(("height", "width"), "float32", align=4),
        masks: T.Buffer(("m_height", "m_words"), "int32", align=4),
        rows: T.Buffer(("n",), "int32", align=4),
        inverse_heats: T.Buffer(("n",), "float32", align=4), tops: T.Buffer(("n",), "int32", align=4),
        shares: T.Buffer(("n",), "float64", align=4), floors: T.Buffer(("n",), "float32", align=4),
        numbers: T.Buffer(("n",), "float64", align=4), tokens: T.Buffer(("n",), "int32", align=4),
        highest: T.Buffer(("n_blocks",), "float32", align=4), sums: T.Buffer(("n_blocks",), "float32", align=4),
        values: T.Buffer((ROOM,), "float32", align=4), weights: T.Buffer((ROOM,), "float32", align=4),
        ids: T.Buffer((ROOM,), "int32", align=4),
        masked: T.int32,
    ):
        height = T.int32(); width = T.int32(); m_height = T.int32(); m_words = T.int32(); n = T.int32()
        n_blocks = T.int32()
        T.func_attr({"tirx.is_scheduled": True, "global_symbol": "draw", "tirx.noalias": True})
        lane = T.alloc_buffer((8,), "float32")
        whole = T.alloc_buffer((8,), "float32")
        rest = T.alloc_buffer((8,), "float32")
        power = T.alloc_buffer((8,), "float32")
        row: T.int32 = 0
        byte: T.int32 = 0
        some: T.int32 = 0
        base: T.int32 = 0
        found: T.int32 = 0
        kept: T.int32 = 0
        count: T.int32 = 0
        need_count: T.int32 = 0
        edge: T.int32 = 0
        trial: T.int32 = 0
        bit: T.int32 = 0
        at: T.int32 = 0
        token: T.int32 = 0
        peak: T.float32 = T.float32(0)
        top: T.float32 = T.float32(0)
        floor: T.float32 = T.float32(0)
        scale: T.float32 = T.float32(0)
        total: T.float64 = T.float64(0)
        mass: T.float64 = T.float64(0)
        need: T.float64 = T.float64(0)

        @T.inline
        def key(value):
            # Integers in the order of the floats.
            at = T.reinterpret("int32", value)
            at = T.bitwise_xor(at, T.shift_right(at, 31) & 0x7FFFFFFF)

        @T.inline
        def lower_bit():
            # The next bit of `edge` to be tried, the sign first: `trial` has it set.
            bit = bit - 1
            if bit == 31:
                trial = 0
            else:
                trial = edge + T.shift_left(1, bit)

        @T.inline
        def select(array, length, wanted, lowest):
            # edge: the highest key that `wanted` of the array's reach, but for its `lowest` bits.
            edge = T.min_value("int32")
            bit = 32
            while bit > lowest:
                lower_bit()
                count = 0
                for c in range(length):
                    key(array[c])
                    if at >= trial:
                        count = count + 1
                if count >= wanted:
                    edge = trial

        @T.inline
        def keep(c):
            # Candidate c goes to the front.
            values[kept] = values[c]
            weights[kept] = weights[c]
            ids[kept] = ids[c]
            kept = kept + 1

        @T.inline
        def weigh():
            # lane: logits; then 2 ** ((lane - peak) * scale), and 2 ** -126 for what is lower.
            for i in T.vectorized(8):
                power[i] = T.max((lane[i] - peak) * scale, T.float32(-126.0))
            for i in T.vectorized(8):
                whole[i] = T.floor(power[i] + T.float32(0.5))
            for i in T.vectorized(8):
                rest[i] = power[i] - whole[i]
            for i in T.vectorized(8):
                power[i] = T.float32(1.5252733804059841e-05) * rest[i] + T.float32(0.00015403530393381609)
            for i in T.vectorized(8):
                power[i] = (power[i] * rest[i] + T.float32(0.0013333558146428443)) * rest[i]
            for i in T.vectorized(8):
                power[i] = (power[i] + T.float32(0.009618129107628477)) * rest[i]
            for i in T.vectorized(8):
                power[i] = (power[i] + T.float32(0.05550410866482158)) * rest[i]
            for i in T.vectorized(8):
                power[i] = (power[i] + T.float32(0.2402265069591007)) * rest[i] + T.float32(0.6931471805599453)
            for i in T.vectorized(8):
                power[i] = power[i] * rest[i] + T.float32(1.0)
            for i in T.vectorized(8):
                lane[i] = power[i] * T.reinterpret("float32", T.shift_left(T.cast(whole[i], "int32") + 127, 23))

        for r in range(n):
            row = rows[r]
            tokens[r] = LEFT
            peak = T.float32(-3e38)
            for block in range(n_blocks):
                for i in T.vectorized(8):
                    lane[i] = T.float32(-3e38)
                some = 1
                if masked != 0:
                    some = masks[row, 2 * block] | masks[row, 2 * block + 1]
                if some != 0:  # else nobody looks into the block
                    for j in range(8):
                        base = block * 64 + j * 8
                        if masked != 0:
                            byte = T.shift_right(masks[row, T.shift_right(base, 5)], base & 31) & 255
                            if byte != 255:
                                for i in T.vectorized(8):
                                    logits[row, base + i] = T.Select(
                                        T.bitwise_and(T.shift_right(byte, i), 1) != 0,
                                        logits[row, base + i], T.float32("-inf"),
                                    )  # fmt: skip
                        for i in T.vectorized(8):
                            lane[i] = T.max(lane[i], logits[row, base + i])
                top = lane[0]
                for i in range(7):
                    top = T.max(top, lane[i + 1])
                highest[block] = top
                peak = T.max(peak, top)
            scale = inverse_heats[r] * T.float32(1.4426950408889634)
            if peak <= T.float32(-3e38):
                tokens[r] = EMPTY
            else:
                # The weights of the whole row, where nothing else bounds them.
                total = T.float64(0)
                if tops[r] == 0:
                    if shares[r] < T.float64(1) or floors[r] < T.float32(-3e38):
                        for block in range(n_blocks):
                            top = T.float32(0)
                            if highest[block] > T.float32(-3e38):
                                for i in T.vectorized(8):
                                    values[i] = T.float32(0)
                                for j in range(8):
                                    for i in T.vectorized(8):
                                        lane[i] = logits[row, block * 64 + j * 8 + i]
                                    weigh()
                                    for i in T.vectorized(8):
                                        values[i] = values[i] + lane[i]
                                for i in range(8):
                                    top = top + values[i]
                            sums[block] = top
                            total = total + T.cast(top, "float64")
                if tops[r] == 0 and shares[r] >= T.float64(1) and floors[r] < T.float32(-3e38):
                    # No cut: the block that holds the number, then the token in it.
                    need = numbers[r] * total
                    mass = T.float64(0)
                    base = 0
                    at = 0
                    token = -1
                    for block in range(n_blocks):
                        if at == 0:
                            if highest[block] > T.float32(-3e38):
                                base = block
                                if mass + T.cast(sums[block], "float64") > need:
                                    at = 1
                                else:
                                    mass = mass + T.cast(sums[block], "float64")
                    if at == 0:
                        mass = mass - T.cast(sums[base], "float64")
                    for j in range(8):
                        for i in T.vectorized(8):
                            lane[i] = logits[row, base * 64 + j * 8 + i]
                        weigh()
                        for i in range(8):
                            if at != 2:
                                if logits[row, base * 64 + j * 8 + i] > T.float32(-3e38):
                                    token = base * 64 + j * 8 + i
                                    mass = mass + T.cast(lane[i], "float64")
                                    if mass > need:
                                        at = 2
                    tokens[r] = token
                else:
                    floor = peak + floors[r]
                    need_count = tops[r]
                    if need_count == 0:
                        if shares[r] < T.float64(1):
                            need_count = FIRST_BLOCKS
                    if need_count > n_blocks:
                        found = ROOM + 1
                    else:
                        if need_count > 0:
                            # At most the need_count-th highest of the blocks' highest: that many tokens are as high.
                            select(highest, n_blocks, need_count, 10)
                            at = T.bitwise_xor(edge, T.shift_right(edge, 31) & 0x7FFFFFFF)
                            floor = T.reinterpret("float32", at)
                            floor = T.max(floor, T.float32(-2.9e38))
                        found = 0
                        for block in range(n_blocks):
                            if highest[block] >= floor:
                                for j in range(64):
                                    if logits[row, block * 64 + j] >= floor:
                                        if found < ROOM:
                                            values[found] = logits[row, block * 64 + j]
                                            ids[found] = block * 64 + j
                                        found = found + 1
                    if found <= ROOM:
                        if tops[r] > 0:
                            if found > tops[r]:
                                select(values, found, tops[r], 0)
                                count = 0
                                for c in range(found):
                                    key(values[c])
                                    if at > edge:
                                        count = count + 1
                                need_count = tops[r] - count
                                kept = 0
                                for c in range(found):
                                    key(values[c])
                                    if at > edge:
                                        keep(c)
                                    else:
                                        if at == edge:
                                            if need_count > 0:
                                                keep(c)
                                                need_count = need_count - 1
                                found = kept
                        at = 0
                        while at < found:
                            for i in T.vectorized(8):
                                lane[i] = values[at + i]
                            weigh()
                            for i in T.vectorized(8):
                                weights[at + i] = lane[i]
                            at = at + 8
                        mass = T.float64(0)
                        for c in range(found):
                            mass = mass + T.cast(weights[c], "float64")
                        if shares[r] < T.float64(1):
                            if tops[r] > 0:
                                total = mass
                            need = shares[r] * total
                            if mass < need and tops[r] == 0:
                                found = -1
                            else:
                                edge = T.min_value("int32")
                                bit = 32
                                while bit > 0:
                                    lower_bit()
                                    mass = T.float64(0)
                                    for c in range(found):
                                        key(values[c])
                                        if at >= trial:
                                            mass = mass + T.cast(weights[c], "float64")
                                    if mass >= need:
                                        edge = trial
                                mass = T.float64(0)
                                for c in range(found):
                                    key(values[c])
                                    if at > edge:
                                        mass = mass + T.cast(weights[c], "float64")
                                kept = 0
                                for c in range(found):
                                    key(values[c])
                                    if at > edge:
                                        keep(c)
                                    else:
                                        if at == edge:
                                            if mass < need:
                                                mass = mass + T.cast(weights[c], "float64")
                                                keep(c)
                                found = kept
                        if found > 0:
                            mass = T.float64(0)
                            floor = peak + floors[r]
                            for c in range(found):
                                if values[c] >= floor:
                                    mass = mass + T.cast(weights[c], "float64")
                            need = numbers[r] * mass
                            mass = T.float64(0)
                            token = -1
                            at = 0
                            for c in range(found):
                                if at == 0:
                                    if values[c] >= floor:
                                        token = ids[c]
                                        mass = mass + T.cast(weights[c], "float64")
                                        if mass > need:
                                            at = 1
                            tokens[r] = token

    return draw
