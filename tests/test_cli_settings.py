"""What `slipcast serve` can be told, and which place goes before which."""

from __future__ import annotations

from pathlib import Path

import pytest
from slipcast.engine import ConfigError
from slipcast.engine.cli_arguments import build_parser
from slipcast.engine.cli_serve import check_tls
from slipcast.engine.settings import ServerSettings, read_settings


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "serve.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_flags_go_before_the_environment_and_that_before_the_file(tmp_path: Path) -> None:
    path = write(tmp_path, 'port = 1\nhost = "file"\nmode = "server"\nmodel = ["a", "b"]\n')
    environment = {"SLIPCAST_SERVE_PORT": "2", "SLIPCAST_SERVE_HOST": "environment", "PATH": "x"}
    settings = read_settings({"port": 3}, environment, path)
    assert (settings.port, settings.host, settings.mode, settings.model) == (3, "environment", "server", ("a", "b"))
    assert settings.log_level == ServerSettings().log_level


def test_lists_in_the_environment_are_separated_by_commas(tmp_path: Path) -> None:
    assert read_settings({}, {"SLIPCAST_SERVE_API_KEY": "a, b"}).api_key == ("a", "b")
    assert read_settings({}, {}, write(tmp_path, 'model = "one"')).model == ("one",)


@pytest.mark.parametrize(
    ("flags", "environment", "file", "says"),
    [
        ({}, {}, "prot = 1", r"unknown key 'prot' in .*serve.toml.*did you mean port"),
        ({}, {"SLIPCAST_SERVE_POTR": "1"}, "", r"SLIPCAST_SERVE_POTR.*did you mean port"),
        ({}, {}, "port = 70000", r"port in .*serve.toml"),
        ({}, {"SLIPCAST_SERVE_PORT": "x"}, "", r"port in the environment.*integer"),
        ({"mode": "fast"}, {}, "", r"mode in the command line"),
        ({}, {}, "port = ", r"not TOML"),
        ({}, {}, "model = []", r"model in .*serve.toml"),
    ],
)
def test_wrong_settings_are_named_with_their_place(
    tmp_path: Path, flags: dict[str, object], environment: dict[str, str], file: str, says: str
) -> None:
    with pytest.raises(ConfigError, match=says):
        read_settings(flags, environment, write(tmp_path, file))


def test_every_flag_is_a_setting() -> None:
    options = vars(build_parser().parse_args(["serve", "--model", "a", "--model", "x=b", "--port", "0", "--otel"]))
    assert options["model"] == ["a", "x=b"]
    assert set(options) - {"run", "traceback", "json"} == {"model", "port", "otel"}
    assert set(options) - {"run", "traceback", "json"} <= set(ServerSettings.model_fields)


def test_the_engine_is_configured_from_the_settings() -> None:
    settings = read_settings({"scheduler": "priority", "max_batch": 4})
    config = settings.engine_config("m")
    assert (config.model, config.scheduler, config.max_batch, config.kv_manager) == ("m", "priority", 4, "prefix")


def test_certificates_are_tried_before_a_model_is_loaded(tmp_path: Path) -> None:
    file = write(tmp_path, "no certificate")
    nowhere = tmp_path / "nowhere"
    check_tls(ServerSettings())
    with pytest.raises(ConfigError, match=r"serve\.toml and .*serve\.toml are no certificate and its key.*PEM"):
        check_tls(ServerSettings(tls_certificate=str(file), tls_key=str(file)))
    with pytest.raises(FileNotFoundError, match="nowhere"):
        check_tls(ServerSettings(tls_certificate=str(file), tls_key=str(nowhere)))
