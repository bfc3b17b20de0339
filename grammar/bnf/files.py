"""Schemas in files: `json_schema("name.json")` in a GrammarBNF text."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Final

from .source import Source

SCHEMA: Final = r"\bjson_schema\s*+\(\s*+"
PASSED_OVER: Final = (
    r'"(?:\\.|[^"\\\n])*+"?|\[\^?(?:\\.|[^\]\\])*+\]?|#[^\n]*|/(?:\\.|\[(?:\\.|[^\]\\\n])*+\]|[^/\\\n\[])++/?'
)
"""Where no schema begins: texts, classes, comments and regular expressions. What is not closed is passed over, once."""
_NAMED: Final = re.compile(rf'{SCHEMA}(?P<name>"(?:\\.|[^"\\\n])*+")|{PASSED_OVER}')


def with_schemas(text: str, syntax: str, folder: Path) -> str:
    """The text with each schema that it names by a file of `folder` written where it is named, in one line. Texts of
    other syntaxes than GrammarBNF name none.

    Raises GrammarTextError, with line and column, for what cannot be read or lies elsewhere.
    """
    if syntax != "grammarbnf":
        return text
    source = Source(text, "grammarbnf")

    def schema(match: re.Match[str]) -> str:
        written = match["name"]
        if written is None:
            return match[0]
        at = match.start("name")
        try:
            path = (folder / json.loads(written)).resolve()
            inside = path.is_relative_to(folder.resolve())
            found = json.loads(path.read_text(encoding="utf-8")) if inside else None
        except (OSError, ValueError, RecursionError) as error:
            raise source.error(f"the schema {written} cannot be read: {error}", at) from None
        if not inside:
            raise source.error(f"the file {written} lies outside the grammar's folder", at)
        return match[0][: at - match.start()] + json.dumps(found, ensure_ascii=False)

    return _NAMED.sub(schema, text)
