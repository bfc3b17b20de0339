"""A thin layer over TVM's IR builder, so that kernels are ordinary Python functions that compose.

Building TIR directly, rather than as text for TVMScript's parser, makes a kernel in a few milliseconds and lets a
helper take and return expressions. A kernel is a value that `emit`s its PrimFunc into `with function(name) as f:`.

Two facts of the compiler shape every kernel here:
- a small `scratch` buffer (default scope) becomes registers; `scope="local"` would call the workspace allocator;
- a dynamic dimension must be a bare buffer dimension, so that the generated code reads it from the argument.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

from tvm import s_tir
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as T

if TYPE_CHECKING:
    from .isa import Isa
    from .threads import Threads

Expr: TypeAlias = Any  # a TIR expression, or a Python int where TVM converts it
Buffer: TypeAlias = Any
PrimFunc: TypeAlias = Any

LANES = 8  # every vector of floats is eight lanes; LLVM splits them on narrower machines


class Function:
    """The PrimFunc under construction; parameters are declared in order."""

    def __init__(self, builder: IRBuilder) -> None:
        self._builder = builder
        self._function: PrimFunc = None

    def tensor(self, name: str, shape: Sequence[Expr], dtype: str, *, offset: bool = False) -> Buffer:
        """A tensor parameter. With `offset` the caller may pass a view that starts inside its allocation."""
        handle = T.arg(name, T.handle())
        return T.match_buffer(handle, tuple(shape), dtype, elem_offset=T.int32() if offset else None)

    def scalar(self, name: str, dtype: str) -> Expr:
        return T.arg(name, getattr(T, dtype)())

    def close(self) -> None:
        # Relax's passes look for an s_tir root block, which only the text parser adds by itself.
        function = self._builder.get()
        root = s_tir.SBlock([], [], [], "root", function.body)
        self._function = function.with_body(s_tir.SBlockRealize([], True, root))

    def result(self) -> PrimFunc:
        return self._function


@contextmanager
def function(name: str) -> Iterator[Function]:
    """Build a PrimFunc called `name`; it is complete when the block ends."""
    builder = IRBuilder()
    made = Function(builder)
    with builder, T.prim_func(s_tir=True):
        T.func_name(name)
        T.func_attr({"tirx.is_scheduled": True, "global_symbol": name, "tirx.noalias": True})
        yield made
    made.close()


class Kernel(ABC):
    """What is compiled into one PrimFunc; equal kernels have equal names."""

    @property
    @abstractmethod
    def name(self) -> str: ...

    @abstractmethod
    def emit(self, isa: Isa, f: Function) -> None:
        """Declare the parameters of `f`, in order, and write its body."""

    def build(self, isa: Isa | Threads) -> PrimFunc:
        with function(self.name) as f:
            isa.emit(self, f)
        return f.result()


def size() -> Expr:
    """A dimension known only at the call."""
    return T.int32()


def let(value: Expr) -> Expr:
    """Evaluate here, once; the result may be used until the enclosing block ends."""
    return T.Bind(value)


def opaque(value: Expr) -> Expr:
    """Like `let` of an int32, but the compiler's analysis of indices does not look through it.

    It looks hard at minima, maxima and choices in the bounds of loops: seconds for each kernel, and nothing found.
    """
    place = scratch(1, "int32")
    store(place, value, 0)
    return T.Bind(place[0])


def scratch(count: int, dtype: str = "float32") -> Buffer:
    return T.alloc_buffer((count,), dtype)


class Registers:
    """Vectors of eight floats that are read and written in place; LLVM keeps them in registers."""

    def __init__(self, initial: Sequence[Expr]) -> None:
        self._buffer = scratch(LANES * len(initial))
        for i, value in enumerate(initial):
            self[i] = value

    def __getitem__(self, i: int) -> Expr:
        return self._buffer[span(LANES * i)]

    def __setitem__(self, i: int, value: Expr) -> None:
        store(self._buffer, value, span(LANES * i))


def store(buffer: Buffer, value: Expr, *indices: Expr) -> None:
    T.buffer_store(buffer, value, list(indices))


def either(condition: Expr, then: Callable[[], None], otherwise: Callable[[], None]) -> None:
    with T.If(condition):
        with T.Then():
            then()
        with T.Else():
            otherwise()


@contextmanager
def when(condition: Expr) -> Iterator[None]:
    with T.If(condition), T.Then():
        yield


def for_each_row(rows: Expr, body: Callable[[Expr], None], *, parallel_from: int) -> None:
    """`body(row)` for every row; a few rows are not worth waking the other threads."""

    def serial() -> None:
        with T.serial(rows) as row:
            body(row)

    def parallel() -> None:
        with T.parallel(rows) as row:
            body(row)

    either(rows < parallel_from, serial, parallel)


def f32(value: float) -> Expr:
    return T.float32(value)


def i32(value: int) -> Expr:
    return T.int32(value)


def span(start: Expr, lanes: int = LANES) -> Expr:
    """The index of `lanes` neighbouring elements."""
    return T.ramp(start, 1, lanes)


def splat(value: Expr, lanes: int = LANES) -> Expr:
    return T.broadcast(value, lanes)


def zeros() -> Expr:
    return splat(f32(0.0))


def prefetch(buffer: Buffer, *indices: Expr) -> None:
    """Ask for the cache line of an element, for reading, to be kept in all levels. The address may lie past the end."""
    address = T.address_of(buffer[indices if len(indices) > 1 else indices[0]])
    T.evaluate(T.call_llvm_intrin("void", "llvm.prefetch", address, i32(0), i32(3), i32(1)))
