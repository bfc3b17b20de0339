"""Bodies of requests: bytes within a limit, then a JSON object, exactly as RFC 8259 has it."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable
from decimal import Decimal, InvalidOperation
from typing import Any, NoReturn

from starlette.requests import Request

from ..lines import one_line
from .errors import BodyError, BodyTooLargeError, SlowBodyError
from .tools import MAX_TOOLS

# Python reads integers of up to 4300 digits, and floats of any length.
MAX_DIGITS = 4000
# In the text, and in a string: half of a surrogate pair, or of a whole one as well in the text.
HALF = re.compile(rb"\\u[dD][89a-fA-F]")
HALF_CHARACTER = re.compile("[\ud800-\udfff]")
# Seconds, and bytes a second: whoever sends less than this would keep a connection for nothing.
PATIENCE = 30.0
SLOWEST = 1024
# What is many to check or to throw away is so without a pause for anybody else: as many as take a tenth of a second.
MAX_BRACKETS = 1_000_000
MAX_KEYS = 200_000
MOST = {"tools": MAX_TOOLS, "logit_bias": 100_000}
# Fields that may hold a JSON Schema.
SCHEMA_FIELDS = frozenset({"response_format", "tools", "text", "guided_json", "structured_outputs", "schema"})


async def read_bytes(request: Request, limit: int) -> bytes:
    """The body, or BodyTooLargeError as soon as it is known to exceed `limit` bytes.

    Raises SlowBodyError if it comes more slowly than SLOWEST bytes a second for longer than PATIENCE.
    """
    try:
        async with asyncio.timeout(PATIENCE) as patience:
            begun = asyncio.get_running_loop().time()
            return await _pieces(
                request, limit, lambda length: patience.reschedule(begun + PATIENCE + length / SLOWEST)
            )
    except TimeoutError as error:
        raise SlowBodyError("the body did not come in time", remedy="send it at once") from error


async def _pieces(request: Request, limit: int, came: Callable[[int], None]) -> bytes:
    too_large = BodyTooLargeError(f"the body is larger than {limit} bytes", remedy="send a shorter conversation")
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced) > limit:
        raise too_large
    pieces: list[bytes] = []
    length = 0
    async for piece in request.stream():
        length += len(piece)
        if length > limit:
            raise too_large
        pieces.append(piece)
        came(length)
    return b"".join(pieces)


def parse_body(data: bytes) -> dict[str, Any]:
    """The JSON object of a body. Raises BodyError.

    Numbers inside the fields that hold schemas stay Decimal, so that `multipleOf: 0.1` reaches the grammar compiler as
    written. A key that appears twice in one object is refused: which of the two was meant?
    """
    if data.count(b"[") + data.count(b"{") > MAX_BRACKETS:
        raise BodyError(f"the body has more than {MAX_BRACKETS} brackets")
    try:
        body = json.loads(
            data.decode("utf-8-sig"),
            parse_int=_integer,
            parse_float=_decimal,
            parse_constant=_refuse_constant,
            object_pairs_hook=_object,
        )
        if not isinstance(body, dict):
            raise BodyError("the body is not a JSON object")
        for name, most in MOST.items():
            if isinstance(given := body.get(name), (list, dict)) and len(given) > most:
                raise BodyError(f"{name} has {len(given)} entries, more than {most}", param=name)
        if HALF.search(data) and (found := _half(body)) is not None:
            path, text = found
            raise BodyError(f"{path}: half of a surrogate pair in {text!a:.60} (send whole characters)", param=path)
        return {key: value if key in SCHEMA_FIELDS else with_floats(value) for key, value in body.items()}
    except UnicodeDecodeError as error:
        raise BodyError(f"the body is not UTF-8: {error.reason} at byte {error.start}") from error
    except RecursionError as error:
        raise BodyError("the body is nested too deeply") from error
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise BodyError(f"the body is not JSON: {one_line(error.msg).removesuffix(' at')} at {where}") from error


def _half(value: Any) -> tuple[str, str] | None:
    """Path and text of a string that has no UTF-8: it holds half of a surrogate pair (RFC 7493, section 2.1)."""
    items: Iterable[tuple[object, Any]] = ()
    if isinstance(value, str):
        return ("", value) if HALF_CHARACTER.search(value) else None
    if isinstance(value, list):
        items = enumerate(value)
    elif isinstance(value, dict):
        if (key := next(filter(HALF_CHARACTER.search, value), None)) is not None:
            return "", key
        items = value.items()
    for place, inner in items:
        if (found := _half(inner)) is not None:
            return f"{place}.{found[0]}".removesuffix("."), found[1]
    return None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(pairs) > MAX_KEYS:
        raise BodyError(f"an object of the body has {len(pairs)} keys, more than {MAX_KEYS}")
    body = dict(pairs)
    if len(body) < len(pairs):
        [(twice, _)] = Counter(key for key, _ in pairs).most_common(1)
        raise BodyError(f"the key {twice!r} appears twice in one object of the body")
    return body


def _integer(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise BodyError(f"the body holds an integer of {len(text)} digits, more than {MAX_DIGITS}")
    return int(text)


def _decimal(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation as error:
        raise BodyError(f"the body holds a number out of range, {one_line(text)}") from error


def with_floats(value: Any) -> Any:
    """The value with floats for its Decimals, as it came for all who do not compile it."""
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, list):
        return [with_floats(item) for item in value]
    if isinstance(value, dict):
        return {key: with_floats(item) for key, item in value.items()}
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise BodyError(f"the body is not JSON: {name} is no JSON number")
