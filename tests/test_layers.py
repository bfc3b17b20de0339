"""The architecture, held by reading every product module's imports: one direction, one home for tvm, one for
hooks, small files.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PARTS = ("engine", "plugins", "samplers", "grammar")
MAX_LINES = 500

# What a part may import besides itself.
PART_MAY_IMPORT = {
    "engine": {"plugins", "samplers", "grammar"},
    "plugins": {"samplers", "grammar"},
    "samplers": set(),
    "grammar": set(),
}

# Stages of the grammar compiler, in order: a stage sees the toolbox and the stages before it.
GRAMMAR_STAGES = (
    "errors",
    "frozen",
    "pause",
    "courtesy",
    "cache",
    "regular",
    "schema",
    "algebra",
    "automaton",
    "bnf",
    "tokens",
    "sampling",
    "pipeline",
    "compiler",
    "",
)

TVM_HOMES = ("engine/runtime/", "grammar/tokens/")
TVM_MODULES = {"tvm", "tvm_ffi"}


def product_files() -> list[Path]:
    return sorted(path for part in PARTS for path in (ROOT / part).rglob("*.py"))


def module_name(path: Path) -> tuple[str, ...]:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return parts[:-1] if parts[-1] == "__init__" else parts


def imports(path: Path) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Line and absolute name, in parts, of everything that a file imports, inside functions and type-checking
    blocks too.
    """
    package = path.relative_to(ROOT).parts[:-1]
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, tuple(alias.name.split("."))
        elif isinstance(node, ast.ImportFrom):
            base: tuple[str, ...] = tuple(node.module.split(".")) if node.module else ()
            if node.level:
                base = ("slipcast", *package[: len(package) - node.level + 1], *base)
            for alias in node.names:
                yield node.lineno, (*base, alias.name)


def own_imports(path: Path) -> Iterator[tuple[int, tuple[str, ...]]]:
    """The imports of the product's own modules, without the leading `slipcast`."""
    for line, name in imports(path):
        if name[0] == "slipcast" and len(name) > 1:
            yield line, name[1:]


def where(path: Path, line: int) -> str:
    return f"{path.relative_to(ROOT)}:{line}"


def test_there_is_a_product_to_check() -> None:
    assert {path.relative_to(ROOT).parts[0] for path in product_files()} == set(PARTS)


def test_parts_import_one_way() -> None:
    wrong = [
        f"{where(path, line)} imports {'.'.join(name)}"
        for path in product_files()
        for line, name in own_imports(path)
        if name[0] != (part := module_name(path)[0]) and name[0] not in PART_MAY_IMPORT[part]
    ]
    assert not wrong


def test_grammar_stages_import_one_way() -> None:
    wrong = []
    for path in product_files():
        if module_name(path)[0] != "grammar":
            continue
        stage = stage_of(module_name(path))
        for line, name in own_imports(path):
            if name[0] == "grammar" and GRAMMAR_STAGES.index(stage_of(name)) > GRAMMAR_STAGES.index(stage):
                wrong.append(f"{where(path, line)} ({stage}) imports {'.'.join(name)}")
    assert not wrong


def stage_of(name: tuple[str, ...]) -> str:
    """The stage of a grammar module; the package itself, and what is imported from it, is the last one."""
    return name[1] if len(name) > 1 and name[1] in GRAMMAR_STAGES else ""


def test_only_the_runtime_and_the_token_kernels_import_tvm() -> None:
    wrong = [
        where(path, line)
        for path in product_files()
        if not str(path.relative_to(ROOT)).startswith(TVM_HOMES)
        for line, name in imports(path)
        if name[0] in TVM_MODULES
    ]
    assert not wrong


def test_product_imports_are_relative() -> None:
    wrong = [
        where(path, node.lineno)
        for path in product_files()
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if (
            isinstance(node, ast.ImportFrom)
            and not node.level
            and (node.module or "").split(".")[0] in {"slipcast", *PARTS}
        )
        or (
            isinstance(node, ast.Import)
            and any(alias.name.split(".")[0] in {"slipcast", *PARTS} for alias in node.names)
        )
    ]
    assert not wrong


def test_hooks_are_declared_in_one_file() -> None:
    """`hookspec` marks specifications; nothing else may be marked, and only hookspecs.py uses the mark."""
    homes = {
        str(path.relative_to(ROOT))
        for path in product_files()
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef) and any("hookspec" in ast.unparse(mark) for mark in node.decorator_list)
    }
    assert homes == {"plugins/hookspecs.py"}


def test_the_hook_file_holds_nothing_but_hooks() -> None:
    path = ROOT / "plugins" / "hookspecs.py"
    functions = [node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.FunctionDef)]
    assert functions
    assert all(any("hookspec" in ast.unparse(mark) for mark in function.decorator_list) for function in functions)
    assert all(ast.get_docstring(function) for function in functions)


@pytest.mark.parametrize("path", product_files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_can_be_read_in_one_sitting(path: Path) -> None:
    assert len(path.read_text("utf-8").splitlines()) <= MAX_LINES


def test_every_module_says_what_it_is() -> None:
    assert not [
        str(path.relative_to(ROOT))
        for path in product_files()
        if not ast.get_docstring(ast.parse(path.read_text("utf-8")))
    ]


def test_library_code_does_not_print() -> None:
    wrong = [
        where(path, node.lineno)
        for path in product_files()
        if not path.name.startswith("cli")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    ]
    assert not wrong
