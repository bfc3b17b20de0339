"""What `slipcast deploy` is told is obeyed: every flag of its parser and every setting is read by the part that it is
about, or refused. Needs Ray, no cluster.
"""

from __future__ import annotations

import argparse
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from slipcast.engine.cli import build_parser, main
from slipcast.engine.settings import ServerSettings

pytest.importorskip("ray.serve", reason="replicas need slipcast[ray]")

from fakes import FakeService
from slipcast.engine import AsyncEngine, cli_deploy, cli_serve
from slipcast.engine.api.responses import ResponseStore
from slipcast.engine.errors import ConfigError, EngineError
from slipcast.engine.scale import application as application_module
from slipcast.engine.scale import cluster, front, replica
from slipcast.engine.scale.application import Scale, application
from slipcast.plugins.errors import PluginError

READ: set[str] = set()


class Watched(ServerSettings):
    """Settings that note which of them are read."""

    def __getattribute__(self, name: str) -> Any:
        if name in ServerSettings.model_fields:
            READ.add(name)
        return super().__getattribute__(name)


class Handle:
    """Of no deployment."""

    def options(self, **options: Any) -> Handle:
        return self


def deploy_parser() -> argparse.ArgumentParser:
    (commands,) = (action for action in build_parser()._actions if isinstance(action, argparse._SubParsersAction))
    parser: argparse.ArgumentParser = commands.choices["deploy"]
    return parser


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What `slipcast deploy` would deploy: (settings, scale, keys, template)."""
    calls: list[Any] = []

    @contextmanager
    def deployed(*given: Any) -> Iterator[Any]:
        calls.append(given)
        raise EngineError("that is all")
        yield

    monkeypatch.setattr(cluster, "deployed", deployed)
    return calls


def test_every_flag_is_a_setting_or_says_how_many(told: list[Any]) -> None:
    """A new flag is either a field of ServerSettings, which the next test looks at, or changes the Scale."""
    # Flag: value, and the field of Scale that becomes it.
    scaling = {
        "replicas": ("3", "least"), "max_replicas": ("5", "most"), "target_requests": ("7", "target"),
        "cpus": ("2.5", "cpus"), "drain": ("33", "drain"), "fronts": ("2", "fronts"),
    }  # fmt: skip
    for action in deploy_parser()._actions:
        if action.dest in ("help", "config") or action.dest in ServerSettings.model_fields:
            continue
        text, field = scaling.pop(action.dest)
        assert main(["deploy", action.option_strings[0], text]) == 2
        assert str(getattr(told[-1][1], field)) == text, action.dest
    assert not scaling


def test_every_setting_is_read_by_the_part_that_it_is_about(
    monkeypatch: pytest.MonkeyPatch, told: list[Any], tmp_path: Path
) -> None:
    (tmp_path / "keys").write_text("k2\n")
    (tmp_path / "template").write_text("{{ messages }}")
    READ.clear()
    given = Watched(chat_template=str(tmp_path / "template"), api_key=("k1",), api_key_file=str(tmp_path / "keys"))
    monkeypatch.setattr(cli_serve, "read_settings", lambda *layers: given)
    assert main(["deploy"]) == 2
    settings, scale, keys, template = told[-1]
    assert (keys, template) == (("k1", "k2"), "{{ messages }}")
    for module in (front, replica):
        monkeypatch.setattr(module, "ServerSettings", Watched)
    monkeypatch.setattr(cli_serve, "AsyncEngine", lambda model, **options: AsyncEngine(service=FakeService()))
    monkeypatch.setattr(replica, "SharedResponses", ResponseStore)
    application(settings, scale, keys=keys, template=template)
    cluster.http_options(settings)
    front.Front(Handle(), settings.model_dump(), keys).__serve_build_asgi_app__()
    replica.Replica(settings.model_dump(), template)
    assert set(ServerSettings.model_fields) - READ == set()


OBEYED: tuple[tuple[dict[str, Any], str], ...] = (
    ({"least": 3}, "num_replicas"),
    ({"least": 1, "most": 4}, "autoscaling_config"),
    ({"most": 4, "target": 3}, "autoscaling_config"),
    ({"cpus": 2.0}, "ray_actor_options"),
    ({"drain": 7.0}, "graceful_shutdown_timeout_s"),
    ({"routing": "random"}, "request_router_config"),
    ({"fronts": 2}, "num_replicas"),
)


def test_every_field_of_scale_is_tried() -> None:
    assert {field for changed, _ in OBEYED for field in changed} == set(Scale.__dataclass_fields__)


@pytest.mark.parametrize(("changed", "where"), OBEYED)
def test_every_field_of_scale_is_obeyed(monkeypatch: pytest.MonkeyPatch, changed: dict[str, Any], where: str) -> None:
    seen: list[dict[str, Any]] = []

    class Deployment:
        def bind(self, *arguments: Any) -> None:
            return

    def deployment(**options: Any) -> Any:
        seen.append(options)
        return lambda cls: Deployment()

    monkeypatch.setattr(application_module.serve, "deployment", deployment)
    application(ServerSettings(), Scale())
    application(ServerSettings(), Scale(**changed))
    before, after = seen[:2], seen[2:]
    assert [options.get(where) for options in before] != [options.get(where) for options in after]


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        (["--replicas", "4", "--max-replicas", "2"], ConfigError, "max_replicas is 2, below replicas, 4"),
        (["--cpus", "0"], ConfigError, "cpus is 0"),
        (["--cpus", "nan"], ConfigError, "cpus is nan"),
        (["--replicas", "5000"], ConfigError, "5000 replicas of 1 CPUs are more than the .* of this machine .*--cpus"),
        (["--max-replicas", "5000"], ConfigError, "5000 replicas"),
        (["--cpus", "900"], ConfigError, "1 replicas of 900 CPUs"),
        (["--tls-key", "a"], ConfigError, "tls_certificate and tls_key go together"),
        (["--tls-key", "/nowhere", "--tls-certificate", "/nowhere"], OSError, "No such file"),
        (["--plugins", "no-such"], PluginError, "no-such"),
        (["--speculation", "draft"], ConfigError, "draft_model"),
        (["--chat-template", "/nowhere"], OSError, "nowhere"),
        (["--api-key-file", "/nowhere"], OSError, "nowhere"),
        (["--host", "no.such.host.invalid"], EngineError, "unknown"),
    ],
)
def test_what_cannot_be_obeyed_is_refused_before_anything_starts(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str], error: type[Exception], says: str
) -> None:
    monkeypatch.setattr(cluster.ray, "init", lambda *_, **__: pytest.fail("a cluster was started"))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with pytest.raises(error, match=says):
        cli_deploy.run(build_parser().parse_args(["deploy", "--port", "0", *arguments]))


def test_a_port_in_use_is_told_before_anything_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster.ray, "init", lambda *_, **__: pytest.fail("a cluster was started"))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(EngineError, match=f"port {port} of 127.0.0.1 is in use"):
            cli_deploy.run(build_parser().parse_args(["deploy", "--port", str(port)]))


def test_otel_that_is_not_installed_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster.ray, "init", lambda *_, **__: pytest.fail("a cluster was started"))
    monkeypatch.setitem(__import__("sys").modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(ConfigError, match=r"OpenTelemetry.*slipcast\[otel\]"):
        cli_deploy.run(build_parser().parse_args(["deploy", "--port", "0", "--otel"]))


def test_the_cause_of_a_replicas_failure_is_one_line() -> None:
    report = "The deployment failed to start:\n  File x\nslipcast.engine.errors.ModelFileError: m.gguf: no such file\n"
    assert cluster._cause(["Failed to update", report]) == "m.gguf: no such file"
    assert cluster._cause(["Failed to update"]) == "Failed to update"
    assert cluster._cause(["a\nOSError: [Errno 28] No space left"]) == "OSError: [Errno 28] No space left"


@pytest.mark.parametrize("address", ["127.0.0.1:1", "127.0.0.1:99999", "nonsense"])
@pytest.mark.filterwarnings("ignore")
def test_a_cluster_that_is_not_there_is_told_at_once(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    monkeypatch.setenv("RAY_ADDRESS", address)
    begun = time.monotonic()
    with pytest.raises(EngineError, match=f"no Ray cluster at {address}: .*ray start --head"):
        cli_deploy.run(build_parser().parse_args(["deploy", "--port", "0"]))
    assert time.monotonic() - begun < 30
