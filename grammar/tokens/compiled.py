"""The kernel as machine code: loaded from the cache if this source was compiled on this machine before.

A C compiler links the cached library; without one, or where the cache cannot be written, each process compiles for
itself (about a second). TVM itself, 150 MB of it, is loaded only to compile: what runs needs only its small runtime.
"""

from __future__ import annotations

import contextlib
import hashlib
import platform
from collections.abc import Callable, Sequence
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import tvm_ffi
from tvm_ffi.libinfo import load_lib_ctypes

from ..automaton import codes, stacks
from ..cache import cache_folder, replacing
from . import trie, walkcodes

_KERNELS: Final = str(Path(__file__).with_name("kernels.py"))
_SOURCES: Final = (_KERNELS, codes.__file__, stacks.__file__, trie.__file__, walkcodes.__file__)
"""Whatever shapes the code."""

Kernel = Callable[..., Any]


@cache
def load_walk() -> Kernel:
    """The walking kernel for this machine's processor, see `kernels`."""

    def make() -> Any:
        from .kernels import walk_kernel

        return walk_kernel()

    return load_kernel("walk", make, _SOURCES)


def load_kernel(name: str, make: Callable[[], Any], sources: Sequence[str]) -> Kernel:
    """The function `name` of the TIR that `make` gives, as machine code. `sources`: the files that shape it."""
    path = cache_folder("kernels", f"{name}-{_fingerprint(sources)}.so")
    module = _load(path)
    if module is None:
        import tvm

        target = {"kind": "llvm", "mcpu": str(tvm.target.codegen.llvm_get_system_cpu())}
        executable = tvm.compile(make(), target=target)
        # No compiler, no linker, no space, no permission: the code in memory is as good.
        with contextlib.suppress(Exception), replacing(path) as temporary:
            executable.export_library(str(temporary))
        module = executable
    return module[name]  # type: ignore[no-any-return, unused-ignore]


def _load(path: Path) -> Any:
    if not path.exists():
        return None
    try:
        _load_runtime()
        return tvm_ffi.load_module(str(path))
    except Exception:  # a damaged file, or one made for another system: compile anew
        return None


def _load_runtime() -> None:
    """TVM's runtime library, which compiled code calls; `import tvm` would load the compiler too."""
    spec = find_spec("tvm")
    if spec is None or spec.origin is None:
        raise ImportError("there is no TVM")
    load_lib_ctypes("tvm", "tvm_runtime", "RTLD_GLOBAL", extra_lib_paths=[Path(spec.origin).parent / "lib"])


def _processor() -> str:
    """What tells processors apart that run different code."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").split("\n\n", 1)[0].splitlines()
    except OSError:
        lines = []
    known = [line for line in lines if line.startswith(("model name", "flags", "Features", "CPU part"))]
    return "\n".join([platform.machine(), platform.processor(), *known])


def _fingerprint(sources: Sequence[str]) -> str:
    digest = hashlib.sha256(repr((version("apache-tvm"), version("apache-tvm-ffi"), _processor())).encode())
    for source in sources:
        digest.update(Path(source).read_bytes())
    return digest.hexdigest()[:32]
