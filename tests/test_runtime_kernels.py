"""Each kernel alone against numpy, in each instruction set; the portable one is compiled for x86 without AVX2.

VNNI's one instruction is computed in others, since few machines have it: all the rest is what runs there.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import tvm
from runtime_models import encode
from slipcast.engine.runtime.arena import aligned_copy, as_tensor
from slipcast.engine.runtime.blocks import decode
from slipcast.engine.runtime.cpu import instruction_set
from slipcast.engine.runtime.kernels.activations import Convert, Embed, Norm
from slipcast.engine.runtime.kernels.builder import function, i32, size, span, splat, store
from slipcast.engine.runtime.kernels.formats import FORMATS
from slipcast.engine.runtime.kernels.isa import INSTRUCTION_SETS, Isa, Vnni
from slipcast.engine.runtime.kernels.linear import GatedUnit, Linear
from slipcast.engine.runtime.kernels.rows import FLOAT32, INT8
from slipcast.engine.runtime.library import Target, host_target
from slipcast.engine.runtime.packing import NATIVE, NotFiniteError, block_columns, head_order, pack, packed_format
from tvm.tirx.script import builder as T

Floats = npt.NDArray[np.float32]
GGUF_TYPE = {form: kind for kind, form in NATIVE.items() if kind != "Q5_0"}
N, K = 64, 96  # weight rows, columns
BLOCKS = {"Q5_0": (22, 0, 2), "Q5_1": (24, 0, 4), "Q4_K": (144, 0, 4), "Q5_K": (176, 0, 4), "Q6_K": (210, 208, 210)}

needs_avx2 = pytest.mark.skipif(instruction_set() == "portable", reason="no AVX2")


class EmulatedVnni(Vnni):
    """VPDPBUSD byte by byte, after Intel's manual, in generic vectors."""

    def add_products(self, total: Any, unsigned: Any, signed: Any) -> Any:
        u, s = T.reinterpret("int32x8", unsigned), T.reinterpret("int32x8", signed)
        for byte in range(4):
            weight = T.shift_right(u, splat(i32(8 * byte))) & splat(i32(255))
            total = total + weight * T.shift_right(T.shift_left(s, splat(i32(24 - 8 * byte))), splat(i32(24)))
        return total


EMULATED = EmulatedVnni("avx2")
ISAS = {"avx2": INSTRUCTION_SETS["avx2"], "vnni": EMULATED, "portable": INSTRUCTION_SETS["portable"]}


@pytest.fixture(
    scope="module",
    params=[pytest.param("avx2", marks=needs_avx2), pytest.param("vnni", marks=needs_avx2), "portable"],
)
def isa(request: pytest.FixtureRequest) -> Isa:
    return ISAS[request.param]


def compiled(kernel: Any, isa: Isa) -> Any:
    return compile_function(kernel.build(isa), isa)[kernel.name]


def compile_function(primitive: Any, isa: Isa) -> Any:
    return tvm.compile(primitive, target=tvm.target.Target(host_target(isa.name).description()))


def tensor(array: npt.NDArray[Any]) -> Any:
    return as_tensor(aligned_copy(array))


def output(*shape: int, dtype: str = "float32") -> tuple[npt.NDArray[Any], Any]:
    array = aligned_copy(np.zeros(shape, dtype))
    return array, as_tensor(array)


def weights(form: str, rows: int, columns: int, seed: int = 0) -> tuple[Any, Floats]:
    """A packed matrix and its meaning."""
    kind = GGUF_TYPE[form]
    if kind in BLOCKS:
        raw = random_blocks(kind, rows, columns, seed)
        meaning = decode(raw, kind)
    else:
        values = np.random.default_rng(seed).standard_normal((rows, columns)).astype(np.float32)
        data, meaning = encode(values, kind)
        raw = np.frombuffer(data, np.uint8).reshape(rows, -1)
    packed = np.zeros((rows // 8, columns // block_columns(form), FORMATS[form].block_bytes), np.uint8)
    pack(raw, kind, form, packed)
    return tensor(packed.reshape(-1)), meaning.astype(np.float32)


def random_blocks(kind: str, rows: int, columns: int, seed: int = 0) -> npt.NDArray[np.uint8]:
    """Rows of random bits, but for the float16 factors, which make the values about as large as 1."""
    rng = np.random.default_rng(seed)
    size, first, last = BLOCKS[kind]
    block = rng.integers(0, 256, (rows, columns // block_columns(NATIVE[kind]), size), dtype=np.uint8)
    factors = rng.uniform(-0.001, 0.002, (*block.shape[:2], (last - first) // 2)).astype(np.float16)
    block[:, :, first:last] = (factors * (1 if kind.endswith("K") else 50)).view(np.uint8)
    return block.reshape(rows, -1)


def quantised(x: Floats) -> tuple[npt.NDArray[np.uint8], Floats]:
    """Activation rows as kernels read them, and what they mean."""
    blocks = x.reshape(len(x), -1, 32)
    scale = np.abs(blocks).max(-1, keepdims=True) / np.float32(127)
    q = np.rint(np.divide(blocks, scale, out=np.zeros_like(blocks), where=scale > 0))
    sums = (q.sum(-1, keepdims=True) * scale).astype(np.float32)
    parts = [q.astype(np.int8).view(np.uint8), scale.astype(np.float32).view(np.uint8), sums.view(np.uint8)]
    return np.concatenate([part.reshape(len(x), -1) for part in parts], axis=1), (q * scale).reshape(x.shape)


def unquantised(rows: npt.NDArray[np.uint8], columns: int) -> Floats:
    q = np.ascontiguousarray(rows[:, :columns]).view(np.int8).reshape(len(rows), -1, 32)
    scale = np.ascontiguousarray(rows[:, columns : columns + columns // 8]).view(np.float32)
    sums = np.ascontiguousarray(rows[:, columns + columns // 8 :]).view(np.float32)
    values: Floats = q * scale[..., None]
    np.testing.assert_allclose(sums, values.sum(-1), rtol=1e-4, atol=1e-5)
    return values.reshape(len(rows), columns)


def activations(form: str, rows: int, columns: int) -> tuple[Any, Floats]:
    x = np.random.default_rng(7).standard_normal((rows, columns)).astype(np.float32)
    x[0, :32] = 0  # a block without a scale
    if FORMATS[form].activation is FLOAT32:
        return tensor(x), x
    packed, meaning = quantised(x)
    return tensor(packed), meaning


@pytest.mark.parametrize("form", sorted(FORMATS))
def test_linear(form: str, isa: Isa) -> None:
    """Every way to share rows out in groups; and each row bit for bit as it is alone."""
    columns = max(K, 2 * block_columns(form) if form.endswith("_k") else K)
    run = compiled(Linear(FORMATS[form], N, columns, residual=True), isa)
    packed, w = weights(form, N, columns)
    alone = None
    for rows in (9, 1, 2, 3, 4, 6):
        x, meaning = activations(form, rows, columns)
        residual = np.random.default_rng(5).standard_normal((rows, N)).astype(np.float32)
        y, target = output(rows, N)
        run(packed, x, tensor(residual), target)
        np.testing.assert_allclose(y, residual + meaning @ w.T, rtol=1e-4, atol=1e-4)
        alone = y.copy() if alone is None else alone
        np.testing.assert_array_equal(y, alone[:rows])


@needs_avx2
@pytest.mark.parametrize("form", [name for name in sorted(FORMATS) if FORMATS[name].activation is INT8])
def test_vnni_and_avx2_give_the_same_bits(form: str) -> None:
    columns = 2 * max(32, block_columns(form))
    (packed, _), (x, _) = weights(form, N, columns), activations(form, 5, columns)
    found = []
    for isa in (INSTRUCTION_SETS["avx2"], EMULATED):
        y, target = output(5, N)
        compiled(Linear(FORMATS[form], N, columns), isa)(packed, x, target)
        found.append(y)
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("name", ["avx512vnni", "avxvnni"])
@pytest.mark.parametrize("form", ["q4_1", "q8_0"])
def test_vnni_is_used_where_it_is(name: str, form: str) -> None:
    kernel = Linear(FORMATS[form], N, K).build(INSTRUCTION_SETS[name])
    target = Target(name, None).description() | {"mtriple": "x86_64-unknown-linux-gnu"}
    assembly = tvm.compile(kernel, target=tvm.target.Target(target)).mod.inspect_source("asm")
    assert "vpdpbusd" in assembly
    assert "vpmaddubsw" not in assembly
    assert "zmm" not in assembly


@needs_avx2
@pytest.mark.parametrize("form", ["q4_0", "q4_1"])
@pytest.mark.parametrize("columns", [K, 19 * 32, 48 * 32])  # unpacked at once, in parts of unequal and of equal size
def test_rows_in_tiles_have_the_bits_of_each_alone(form: str, columns: int) -> None:
    isa = INSTRUCTION_SETS["avx2"]
    linear = compiled(Linear(FORMATS[form], N, columns, residual=True), isa)
    gated = compiled(GatedUnit(FORMATS[form], N, columns, INT8), isa)
    packed, w = weights(form, 2 * N, columns)
    half = tensor(np.from_dlpack(packed)[: FORMATS[form].packed_bytes(N, columns)])
    x, meaning = activations(form, 139, columns)
    x = np.from_dlpack(x)
    residual = np.random.default_rng(5).standard_normal((139, N)).astype(np.float32)

    def run(first: int, end: int) -> list[Any]:
        y, target = output(end - first, N)
        linear(half, tensor(x[first:end]), tensor(residual[first:end]), target)
        z, other = output(end - first, INT8.row_width(N), dtype="uint8")
        gated(packed, tensor(x[first:end]), other)
        return [y, z]

    alone = [np.concatenate(parts) for parts in zip(*(run(i, i + 1) for i in range(139)), strict=True)]
    np.testing.assert_allclose(alone[0], residual + meaning @ w[:N].T, rtol=1e-4, atol=1e-4)
    for rows in (5, 8, 11, 16, 64, 66, 139):  # below tiles, tiles and what is left, panels of tiles
        for found, expected in zip(run(0, rows), alone, strict=True):
            np.testing.assert_array_equal(found, expected[:rows])


def test_linear_into_heads(isa: Isa) -> None:
    run = compiled(Linear(FORMATS["q8_0"], N, K, head_dim=16), isa)
    packed, w = weights("q8_0", N, K)
    x, meaning = activations("q8_0", 5, K)
    y, target = output(5, N // 16, 16, dtype=isa.page_dtype)
    run(packed, x, target)
    np.testing.assert_allclose(y.reshape(5, N), meaning @ w.T, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize(("form", "kind"), [("q4_1", INT8), ("f16", FLOAT32), ("q4_0", FLOAT32)])
def test_gated_unit(form: str, kind: Any, isa: Isa) -> None:
    run = compiled(GatedUnit(FORMATS[form], N, K, kind), isa)
    packed, w = weights(form, 2 * N, K)
    turns = w.reshape(N // 32, 2, 32, K)
    gate, up = turns[:, 0].reshape(N, K), turns[:, 1].reshape(N, K)
    for rows in (1, 6):
        x, meaning = activations(form, rows, K)
        gated = meaning @ gate.T
        expected = gated / (1 + np.exp(-gated)) * (meaning @ up.T)
        y, target = output(rows, kind.row_width(N), dtype=kind.dtype)
        run(packed, x, target)
        found = unquantised(y, N) if kind is INT8 else y
        step = 0.51 / 127 if kind is INT8 else 1e-5
        tolerance = np.abs(expected).reshape(rows, -1, 32).max(-1).repeat(32, -1) * step
        assert (np.abs(found - expected) <= tolerance + 1e-4).all()


@pytest.mark.parametrize("form", sorted(FORMATS))
def test_embedding_is_exact(form: str, isa: Isa) -> None:
    columns = 512 if form.endswith("_k") else K
    table, meaning = weights(form, N, columns)
    ids = np.array([0, 63, 17, 8, 17], np.int32)
    y, target = output(len(ids), columns)
    compiled(Embed(FORMATS[form], N, columns), isa)(table, tensor(ids), target)
    np.testing.assert_allclose(y, meaning[ids], rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("kind", [INT8, FLOAT32], ids=lambda kind: kind.name)
def test_norm_of_selected_rows(kind: Any, isa: Isa) -> None:
    rng = np.random.default_rng(4)
    x, gain = rng.standard_normal((12, K)).astype(np.float32), rng.standard_normal(K).astype(np.float32)
    x[2] = 0
    index = np.array([11, 2, 0], np.int32)
    y, target = output(3, kind.row_width(K), dtype=kind.dtype)
    compiled(Norm(K, 1e-5, kind, select=True), isa)(tensor(x), tensor(gain), tensor(index), target)
    chosen = x[index]
    expected = chosen / np.sqrt((chosen * chosen).mean(-1, keepdims=True) + 1e-5) * gain
    found = unquantised(y, K) if kind is INT8 else y
    np.testing.assert_allclose(found, expected, atol=np.abs(expected).max() * 0.51 / 127 if kind is INT8 else 1e-5)


def test_convert_to_int8(isa: Isa) -> None:
    x = np.random.default_rng(4).standard_normal((9, 2, 48)).astype(isa.page_dtype)
    y, target = output(9, INT8.row_width(96), dtype="uint8")
    compiled(Convert(2, 48, INT8), isa)(tensor(x), target)
    expected = quantised(x.reshape(9, 96).astype(np.float32))[1]
    # Two ways to divide may round a value at a tie differently, by one step.
    assert (np.abs(unquantised(y, 96) - expected) < np.abs(expected).max() / 126).all()
    assert (np.abs(unquantised(y, 96) - expected) > 1e-5).mean() < 0.01


def test_exponential_and_activations(isa: Isa) -> None:
    def build(name: str, body: Any) -> Any:
        with function(name) as f:
            count = size()
            x, y = f.tensor("x", (count,), "float32"), f.tensor("y", (count,), "float32")
            with T.serial(count // 8) as i:
                store(y, body(x[span(i * 8)]), span(i * 8))
        return compile_function(f.result(), isa)[name]

    x = np.linspace(-140, 120, 8 * 4001, dtype=np.float32)
    y, target = output(len(x))
    build("powers", isa.exp2)(tensor(x), target)
    np.testing.assert_allclose(y, np.exp2(np.maximum(x.astype(np.float64), -126)), rtol=4e-7)
    x = np.linspace(-120, 120, 8 * 4001, dtype=np.float32)
    build("silu", partial(isa.activated, "silu"))(tensor(x), target)
    wide = x.astype(np.float64)
    np.testing.assert_allclose(y, wide / (1 + np.exp(-wide)), rtol=1e-5, atol=1e-35)
    build("gelu", partial(isa.activated, "gelu"))(tensor(x), target)
    inner = np.sqrt(2 / np.pi) * (wide + 0.044715 * wide**3)
    np.testing.assert_allclose(y, wide / 2 * (1 + np.tanh(inner)), rtol=1e-5, atol=1e-6)
    build("capped", partial(isa.capped, cap=30.0))(tensor(x), target)
    np.testing.assert_allclose(y, 30 * np.tanh(wide / 30), rtol=1e-6, atol=1e-5)


def test_extreme_weights_and_activations_stay_exact(isa: Isa) -> None:
    """All at the ends of their ranges: the narrow sums inside the kernels must not overflow."""
    sign = np.where(np.arange(N)[:, None] % 2, 1, -1) * np.ones((N, K), np.float32)
    fifteens = np.concatenate([np.array([1, 0], np.float16).view(np.uint8), np.full(16, 255, np.uint8)])
    cases = {
        "q8_0": encode(127 * sign, "Q8_0"),
        "q4_1": (np.tile(fifteens, N * K // 32).tobytes(), np.full((N, K), 15.0)),  # scale 1, minimum 0
    }
    rows, x = quantised(np.concatenate([np.full((2, K), 127.0), np.full((2, K), -127.0)]).astype(np.float32))
    for form, (raw, meaning) in cases.items():
        packed = np.zeros((N // 8, K // 32, FORMATS[form].block_bytes), np.uint8)
        pack(np.frombuffer(raw, np.uint8).reshape(N, -1), GGUF_TYPE[form], form, packed)
        y, target = output(4, N)
        compiled(Linear(FORMATS[form], N, K), isa)(tensor(packed.reshape(-1)), tensor(rows), target)
        np.testing.assert_allclose(y, x @ meaning.T, rtol=1e-6)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("cap", [0.0, 3.0])
def test_linear_with_bias_and_cap(bias: bool, cap: float, isa: Isa) -> None:
    run = compiled(Linear(FORMATS["f32"], N, K, bias=bias, cap=cap), isa)
    packed, w = weights("f32", N, K)
    x, meaning = activations("f32", 5, K)
    added = np.random.default_rng(3).standard_normal(N).astype(np.float32)
    y, target = output(5, N)
    run(packed, x, *([tensor(added)] if bias else []), target)
    expected = meaning @ w.T + (added if bias else 0)
    assert np.abs(expected).max() > 10
    np.testing.assert_allclose(y, cap * np.tanh(expected / cap) if cap else expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", sorted(BLOCKS))
def test_repacking_loses_nothing(kind: str) -> None:
    """What the packed matrix says, element by element, is what the file's blocks say."""
    raw, form = random_blocks(kind, 16, 512), NATIVE[kind]
    assert packed_format({kind}) == form
    packed = np.zeros((2, 512 // block_columns(form), FORMATS[form].block_bytes), np.uint8)
    pack(raw, kind, form, packed)
    y, target = output(16, 512)
    table, ids = tensor(packed.reshape(-1)), tensor(np.arange(16, dtype=np.int32))
    compiled(Embed(FORMATS[form], 16, 512), INSTRUCTION_SETS["portable"])(table, ids, target)
    expected = decode(raw, kind)
    assert len(np.unique(expected)) > 200
    np.testing.assert_allclose(y, expected, rtol=2e-7, atol=1e-7)


def test_packed_sizes_are_those_of_the_formats() -> None:
    """Bits per weight: 4-bit integers stay 4 bits in memory."""
    bits = {form: 8 * FORMATS[form].packed_bytes(8, 256) / 2048 for form in FORMATS}
    assert bits == {
        "q4_0": 4.5, "q4_1": 5.0, "q8_0": 8.5, "q8_1": 9.0, "q4_k": 4.625, "q5_k": 8.625, "q6_k": 8.5625,
        "f16": 16.0, "bf16": 16.0, "f32": 32.0,
    }  # fmt: skip


@pytest.mark.parametrize("kind", ["F32", "F16", "BF16", "Q4_0", "Q4_1", "Q8_0"])
@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_values_that_are_no_numbers_are_refused(kind: str, value: float) -> None:
    values = np.tile(np.arange(32, dtype=np.float32), (8, 1))
    raw = bytearray(encode(values, kind)[0])
    width = 4 if kind == "F32" else 2
    as_kind = np.float32(value).view(np.uint32) >> 16 if kind == "BF16" else np.array(value, f"f{width}")
    raw[:width] = as_kind.astype("<u2").tobytes() if kind == "BF16" else as_kind.tobytes()
    form = NATIVE[kind]
    packed = np.zeros((1, 1, FORMATS[form].block_bytes), np.uint8)
    with pytest.raises(NotFiniteError):
        pack(np.frombuffer(bytes(raw), np.uint8).reshape(8, -1), kind, form, packed)


def test_padding_rows_are_zero() -> None:
    values = np.random.default_rng(0).standard_normal((11, 32)).astype(np.float32)
    raw, meaning = encode(values, "F32")
    packed = np.full((2, 1, FORMATS["f32"].block_bytes), 9, np.uint8)
    pack(np.frombuffer(raw, np.uint8).reshape(11, -1), "F32", "f32", packed)
    rows = packed.view(np.float32).reshape(2, 32, 8).transpose(0, 2, 1).reshape(16, 32)
    np.testing.assert_array_equal(rows[:11], meaning)
    assert not rows[11:].any()


def test_heads_order_pairs_columns_half_a_head_apart() -> None:
    order = head_order(16, 8, 8, paired=True).tolist()
    assert order == [0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15]
    assert head_order(8, 8, 4, paired=False).tolist() == [0, 1, 4, 5, 2, 3, 6, 7]
    assert head_order(8, 8, 4, paired=True).tolist() == [0, 2, 4, 5, 1, 3, 6, 7]
