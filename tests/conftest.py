"""A server without a model, for every test of what is on the wire: over a real socket, with a script for a model."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from fakes import FakeService
from serving import served
from slipcast.engine import AsyncEngine, Engine
from slipcast.engine.api.server import create_app


@pytest.fixture(autouse=True)
def logs_as_they_were() -> Iterator[None]:
    """Programs that a test runs within this process say where logs go, for the whole process."""
    loggers = [logging.getLogger(name) for name in (None, "slipcast.access")]
    levels = [logger.level for logger in loggers]
    yield
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)
        for handler in logger.handlers[:]:
            if type(handler) is logging.StreamHandler:  # pytest's own are of other classes
                logger.removeHandler(handler)


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
