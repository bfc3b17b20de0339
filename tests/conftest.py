"""A server without a model, for every test of what is on the wire: over a real socket, with a script for a model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import openai
import pytest
from fakes import FakeService
from serving import served
from slipcast.engine import AsyncEngine, Engine
from slipcast.engine.api.server import create_app


@pytest.fixture
def service() -> FakeService:
    return FakeService()


@pytest.fixture
def engine(service: FakeService) -> Engine:
    return Engine(service=service)


@pytest.fixture
def app_options() -> dict[str, Any]:
    """What the application is made with; a module that needs other options overrides it."""
    return {}


@pytest.fixture
def address(service: FakeService, app_options: dict[str, Any]) -> Iterator[str]:
    """Of the server, as `http://127.0.0.1:port`."""
    with served(create_app(AsyncEngine(service=service), **app_options)) as address:
        yield address
    assert service.closed


@pytest.fixture
def client(address: str) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0, timeout=10) as client:
        yield client
