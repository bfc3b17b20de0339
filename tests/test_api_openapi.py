"""The OpenAPI document, and requests that schemathesis makes from it: whatever comes, the server does not fail."""

from __future__ import annotations

from typing import Any

import pytest
from fakes import FakeService
from hypothesis import HealthCheck, settings
from jsonschema import Draft202012Validator
from slipcast.engine import AsyncEngine
from slipcast.engine.api.server import create_app

schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is not installed")

SERVICE = FakeService()
SERVICE.close = lambda: None  # type: ignore[method-assign]  # each case starts the application and ends it
app = create_app(AsyncEngine(service=SERVICE), max_body_bytes=1 << 20)
api = schemathesis.openapi.from_asgi("/openapi.json", app)
# That every request of the right types is accepted is not promised: options have ranges, and schemas must be schemas.
CHECKS = [
    getattr(checks, name)
    for checks, name in (
        (schemathesis.checks, "not_a_server_error"),
        (schemathesis.specs.openapi.checks, "status_code_conformance"),
        (schemathesis.specs.openapi.checks, "content_type_conformance"),
        (schemathesis.specs.openapi.checks, "response_schema_conformance"),
    )
]


@api.parametrize()
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
def test_no_request_is_a_fault_of_the_server(case: Any) -> None:
    """Valid and invalid requests alike are answered, by the types and statuses that the document names."""
    case.call_and_validate(checks=CHECKS)


def test_the_schemas_are_schemas() -> None:
    for schema in api.raw_schema["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)
