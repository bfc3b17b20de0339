"""The standard library of GrammarBNF: modules of rules, themselves written in GrammarBNF (`library/*.grammarbnf`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from importlib import resources
from typing import Final

from .ir import Grammar, Node, Place, Reference
from .source import Source
from .walk import references, renamed

MODULES: Final = ("arithmetic", "dates", "identifiers", "json", "numbers", "python_call", "sql")


class Imports:
    """What a grammar imports. `read` reads a module's text."""

    def __init__(self, read: Callable[[str], Grammar]) -> None:
        self._read = read
        self._modules: set[str] = set()
        self._aliases: dict[str, Reference] = {}

    def want(self, source: Source, name: str, alias: str | None, place: Place) -> None:
        """`%import module` makes its rules known as module.rule, `%import module.rule` as rule (or `as` a name)."""
        module, _, rule = name.partition(".")
        if module not in MODULES:
            raise source.error(f"there is no module {module!r}", place, f"one of {', '.join(MODULES)}")
        if not rule:
            if alias is not None:
                raise source.error("only a rule can be imported under another name", place)
            self._modules.add(module)
            return
        rules = self._rules(module)
        if name not in rules:
            names = ", ".join(sorted(known.partition(".")[2] for known in rules))
            raise source.error(f"the module {module!r} has no rule {rule!r}", place, f"one of {names}")
        self._modules.add(module)
        self._aliases[alias or rule] = Reference(name, place)

    def add_to(self, rules: dict[str, Node]) -> dict[str, Node]:
        """`rules` with those they import; a rule of the text's own goes before an imported one of its name."""
        if not self._modules:
            return rules
        known: dict[str, Node] = {**self._aliases, **rules}
        for module in self._modules:
            known.update(self._rules(module))
        needed = dict(rules)
        waiting = [part.name for rule in rules.values() for part in references(rule)]
        waiting += self._aliases
        while waiting:
            name = waiting.pop()
            if name not in needed and name in known:
                needed[name] = known[name]
                waiting += [part.name for part in references(known[name])]
        return needed

    def _rules(self, module: str) -> Mapping[str, Node]:
        return _module(self._read, module)


@lru_cache(16)
def _module(read: Callable[[str], Grammar], module: str) -> Mapping[str, Node]:
    """The rules of a module, under names that begin with its own."""
    text = (resources.files(__package__) / "library" / f"{module}.grammarbnf").read_text(encoding="utf-8")
    own = read(text).rules
    return {_qualified(module, name): renamed(rule, lambda n: _qualified(module, n)) for name, rule in own.items()}


def _qualified(module: str, name: str) -> str:
    return name if "." in name else f"{module}.{name}"
