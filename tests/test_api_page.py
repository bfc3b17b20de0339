"""The page in a real browser: what a person sees and does. Skipped where no Chromium with its driver is installed."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from fakes import FakeService, logprob
from serving import served
from slipcast.engine import AsyncEngine
from slipcast.engine.api.access import AccessRules
from slipcast.engine.api.page import FILES
from slipcast.engine.api.server import create_app
from slipcast.engine.request import Event, Finished, GenerationRequest, TextDelta, TokenNote, Usage

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
ANSWER = ('{"', "a", '": ', "1", "}")


def told(request: GenerationRequest) -> Iterator[Event]:
    """An answer token by token, with its probabilities and what the grammar did."""
    for position, text in enumerate(ANSWER):
        forced = position == 2
        note = TokenNote(position, text, text.encode(), forced, 1 if forced else 42, 0.25, "/properties/a")
        yield TextDelta(0, text, tokens=(logprob(text),), token_ids=(position,), notes=(note,))
    yield Finished(0, "stop", Usage(3, len(ANSWER)))


@pytest.fixture
def service() -> FakeService:
    return FakeService(told)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if BROWSER is None or DRIVER is None:
        pytest.skip("no Chromium with chromedriver on this machine")
    webdriver = pytest.importorskip("selenium.webdriver")
    from selenium.webdriver.chrome.service import Service as DriverService

    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for argument in ("headless=new", "no-sandbox", "disable-gpu", "disable-dev-shm-usage", "window-size=1200,800"):
        options.add_argument(f"--{argument}")
    driver = webdriver.Chrome(options=options, service=DriverService(DRIVER))
    yield driver
    driver.quit()


def until(condition: Callable[[], Any], seconds: float = 10.0) -> Any:
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.05)
    return found


def element(browser: Any, name: str) -> Any:
    return browser.find_element("id", name)


def test_files_come_from_the_package_and_allow_no_other_source(address: str) -> None:
    for path in FILES:
        response = httpx.get(address + path)
        assert response.status_code == 200
        assert "default-src 'self'" in response.headers["content-security-policy"]
        assert "http://" not in response.text and "https://" not in response.text
    with served(create_app(AsyncEngine(service=FakeService()), page=False)) as bare:
        assert httpx.get(bare + "/").status_code == 404


def test_a_conversation_shows_tokens_and_what_the_grammar_did(browser: Any, service: FakeService, address: str) -> None:
    browser.get(address)
    until(lambda: element(browser, "model").text == "fake")
    element(browser, "prompt").send_keys("a number, please")
    element(browser, "send").click()
    tokens = until(lambda: len(found := browser.find_elements("css selector", ".t")) == len(ANSWER) and found)
    assert "".join(token.get_property("textContent") for token in tokens) == "".join(ANSWER)
    assert "forced" in tokens[2].get_attribute("class")
    assert "forced" not in tokens[1].get_attribute("class")
    browser.execute_script("arguments[0].focus()", tokens[1])
    shown = element(browser, "token").text
    assert "60.7%" in shown  # exp(-0.5)
    assert "42 tokens were allowed" in shown
    assert "25.0%" in shown
    assert "/properties/a" in shown
    until(lambda: "5 tokens" in element(browser, "status").text and "1 forced" in element(browser, "status").text)
    request = service.requests[-1]
    assert request.explain
    assert request.grammar is not None
    assert service.compiled[-1][0] == "json_schema"
    assert not [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]


def test_a_wrong_schema_is_told_before_anything_is_sent(browser: Any, service: FakeService, address: str) -> None:
    browser.get(address)
    until(lambda: element(browser, "model").text == "fake")
    source = element(browser, "source")
    source.clear()
    source.send_keys("{")
    until(lambda: "JSON" in element(browser, "report").text)
    element(browser, "prompt").send_keys("hello")
    element(browser, "send").click()
    until(lambda: "the schema is not JSON" in element(browser, "report").text)
    assert not service.requests


def test_an_error_stands_where_the_answer_would(browser: Any, service: FakeService, address: str) -> None:
    from slipcast.engine import BusyError

    service.refusal = BusyError("all busy", remedy="later")
    browser.get(address)
    until(lambda: element(browser, "model").text == "fake")
    element(browser, "prompt").send_keys("hello")
    element(browser, "send").click()
    until(lambda: "all busy" in element(browser, "messages").text)
    assert element(browser, "send").is_enabled()


def test_a_key_is_asked_for_and_kept(browser: Any, service: FakeService) -> None:
    with served(create_app(AsyncEngine(service=service), access=AccessRules(keys=("sk-1",)))) as address:
        browser.get(address)
        until(lambda: "API key" in element(browser, "status").text)
        element(browser, "key").send_keys("sk-1\t")
        until(lambda: element(browser, "model").text == "fake")
