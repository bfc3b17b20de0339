"""The kernel as machine code: loaded from the cache if this source was compiled on this machine before.

A C compiler links the cached library; without one, or where the cache cannot be written, each process compiles for
itself (about a second).
"""

from __future__ import annotations

import contextlib
import hashlib
import inspect
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import tvm

from ..automaton import codes, stacks
from . import kernels, trie, walkcodes
from .cache import cache_folder, replacing

Kernel = Callable[..., Any]


@cache
def load_walk() -> Kernel:
    """The walking kernel for this machine's processor, see `kernels`."""
    target = {"kind": "llvm", "mcpu": _processor()}
    path = cache_folder("kernels", f"walk-{_fingerprint(target)}.so")
    module = _load(path)
    if module is None:
        executable = tvm.compile(kernels.walk_kernel(), target=target)
        # No compiler, no linker, no space, no permission: the code in memory is as good.
        with contextlib.suppress(Exception), replacing(path) as temporary:
            executable.export_library(str(temporary))
        module = executable
    return module["walk"]  # type: ignore[no-any-return, unused-ignore]


def _load(path: Path) -> Any:
    if not path.exists():
        return None
    try:
        return tvm.runtime.load_module(str(path))
    except Exception:  # a damaged file, or one made for another system: compile anew
        return None


def _processor() -> str:
    return str(tvm.target.codegen.llvm_get_system_cpu())


def _fingerprint(target: dict[str, str]) -> str:
    digest = hashlib.sha256(repr((tvm.__version__, sorted(target.items()))).encode())
    for module in (kernels, codes, stacks, trie, walkcodes):  # whatever shapes the code
        digest.update(inspect.getsource(module).encode())
    return digest.hexdigest()[:32]
