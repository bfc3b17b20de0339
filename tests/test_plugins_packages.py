"""The example packages, installed from their folders into an environment of their own, as a user would."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import sysconfig
import tomllib
import types
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import httpx
import openai
import pytest
from slipcast.engine.cli_plugin_template import files
from slipcast.plugins.testing import check_plugin, check_scheduler

ROOT = Path(__file__).parents[1]
EXAMPLES = {"steering": ROOT / "examples/plugin_sampler", "deadlines": ROOT / "examples/plugin_scheduler"}
CLI = ("-c", "from slipcast.engine.cli import main; raise SystemExit(main())")
STEER = {"steering": {"words": ["sun"], "strength": 20}}

PROGRAM = """
import json
from slipcast.engine import Engine, RequestError
messages = [{"role": "user", "content": "How is the weather?"}]
options = dict(messages=messages, max_tokens=5, temperature=0)
steer = {"steering": {"words": ["sun"], "strength": 20}}
with Engine(plugins=["steering", "deadlines"], scheduler="edf", sampler="gumbel") as engine:
    free = engine.chat.completions.create(**options).choices[0].message.content
    steered = engine.chat.completions.create(**options, plugins={**steer, "deadlines": {"within": 1}})
    try:
        engine.chat.completions.create(**options, plugins={"steering": {"words": [], "strength": 1}})
        wrong = None
    except RequestError as error:
        wrong = error.param
print(json.dumps([free, steered.choices[0].message.content, wrong]))
"""


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment that has this one's packages, and the examples. Its Python."""
    folder = tmp_path_factory.mktemp("fresh")
    venv.create(folder, with_pip=False, symlinks=True)
    python = folder / "bin" / "python"
    [site] = (folder / "lib").glob("python*/site-packages")
    paths = dict.fromkeys((sysconfig.get_path("purelib"), sysconfig.get_path("platlib")))
    (site / "inherited.pth").write_text("".join(f"import site; site.addsitedir({path!r})\n" for path in paths))
    sources = [copy(example, folder / "sources" / name) for name, example in EXAMPLES.items()]
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "--python", str(python)]
    # With what builds packages at hand nothing needs to be fetched for it.
    offline = ["--no-index", "--no-build-isolation"] if int(version("setuptools").split(".")[0]) >= 77 else []
    subprocess.run([*pip, "install", "--no-deps", *offline, *sources], check=True, timeout=240)
    return python


def copy(source: Path, target: Path) -> str:
    """Without what building leaves behind, and where building leaves nothing in the repository."""
    for path in source.rglob("*"):
        if path.is_file() and not {"build", "__pycache__"} & set(path.parts) and ".egg-info" not in str(path):
            place = target / path.relative_to(source)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(path.read_bytes())
    return str(target)


def run(python: Path, *command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(python), *command], cwd=cwd, capture_output=True, text=True, timeout=300)


@pytest.mark.slow
def test_installed_is_not_active(fresh: Path, tmp_path: Path) -> None:
    listed = run(fresh, *CLI, "plugins", "--json", cwd=tmp_path)
    assert listed.returncode == 0, listed.stderr
    found = {one["name"]: one for one in json.loads(listed.stdout)["data"]}
    for name in EXAMPLES:
        assert not found[name]["active"] and found[name]["version"] == "0.1.0" and found[name]["api"] == "1.0"
        assert "slipcast_request_parameters" in found[name]["hooks"]
    listed = run(fresh, *CLI, "plugins", "--json", "--activate", "deadlines", cwd=tmp_path)
    found = {one["name"]: one["active"] for one in json.loads(listed.stdout)["data"]}
    assert found["deadlines"] and not found["steering"]


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_their_own_tests_pass(fresh: Path, name: str) -> None:
    folder = fresh.parents[1] / "sources" / name
    result = run(fresh, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "pyproject.toml", "tests", cwd=folder)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.slow
@pytest.mark.skipif(find_spec("mypy") is None, reason="mypy is not installed")
@pytest.mark.parametrize("name", EXAMPLES)
def test_mypy_is_content_with_them(fresh: Path, name: str) -> None:
    """Strictly, against the installed slipcast, as its author would run it."""
    folder = fresh.parents[1] / "sources" / name
    environment = {**os.environ, "MYPYPATH": "src"}
    if (ROOT / "slipcast.egg-info").exists() and "site-packages" not in str(find_spec("slipcast.plugins")):
        # An editable install maps names to folders in a way that mypy does not follow.
        links = fresh.parents[1] / "links" / "slipcast"
        if not links.exists():
            links.mkdir(parents=True)
            for part in ("engine", "grammar", "plugins", "samplers"):
                (links / part).symlink_to(ROOT / part)
        environment["MYPYPATH"] = f"src:{links.parent}"
    command = [sys.executable, "-m", "mypy", "--strict", "--namespace-packages", "--explicit-package-bases"]
    packages = [str(path) for path in (folder / "src").iterdir() if path.is_dir() and path.suffix != ".egg-info"]
    result = subprocess.run(
        [*command, "--follow-imports=silent", "--cache-dir", str(folder.parent / "mypy"), *packages, "tests"],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.slow
@pytest.mark.model
def test_in_python(fresh: Path, tmp_path: Path) -> None:
    result = run(fresh, "-c", PROGRAM, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    free, steered, wrong = json.loads(result.stdout.splitlines()[-1])
    assert nothing_but_sun(steered) and not nothing_but_sun(free) and wrong == "plugins.steering.words"


def nothing_but_sun(text: str) -> bool:
    return bool(re.fullmatch(r"(\s*sun\s*)+", text.lower()))


@contextmanager
def serving(python: Path, *options: str, cwd: Path) -> Iterator[str]:
    command = [str(python), *CLI, "serve", "--port", "0", "--log-level", "warning", *options]
    with subprocess.Popen(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None and server.stderr is not None
            found = re.search(r"http://[\w.:\[\]]+", server.stdout.readline())
            assert found, server.stderr.read()
            yield found.group()
        finally:
            server.terminate()
            server.communicate(timeout=30)


@pytest.mark.slow
@pytest.mark.model
def test_over_rest(fresh: Path, tmp_path: Path) -> None:
    options = ["--plugins", "steering", "--plugins", "deadlines", "--scheduler", "edf", "--sampler", "gumbel"]
    with serving(fresh, *options, cwd=tmp_path) as address:
        client = openai.OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0)

        def ask(plugins: object) -> str:
            answer = client.chat.completions.create(
                model="", messages=[{"role": "user", "content": "How is the weather?"}], max_tokens=5, temperature=0,
                extra_body={"plugins": plugins},
            )  # fmt: skip
            return answer.choices[0].message.content or ""

        free, steered = ask({}), ask({**STEER, "deadlines": {"within": 2.5}})
        assert nothing_but_sun(steered) and not nothing_but_sun(free)
        mistakes = ({"steering": {"words": ["sun"]}}, {"deadlines": {"within": -1}}, {"unknown": {}}, {"steering": {}})
        for wrong in mistakes:
            with pytest.raises(openai.BadRequestError) as caught:
                ask(wrong)
            assert str(caught.value.body["param"]).startswith(f"plugins.{next(iter(wrong))}")  # type: ignore[index]
        listed = {one["name"]: one for one in httpx.get(f"{address}/v1/plugins").json()["data"]}
        assert listed["steering"]["active"] and listed["steering"]["seconds"] > 0
        shown = run(fresh, *CLI, "plugins", "--url", address, cwd=tmp_path)
        assert shown.returncode == 0 and re.search(r"^steering +0\.1\.0 +1\.0 +active", shown.stdout, re.M)


@pytest.mark.slow
def test_a_plugin_begun_from_the_template(tmp_path: Path) -> None:
    """It passes its own tests as it is made."""
    made = run(Path(sys.executable), *CLI, "plugins", "new", "my-plugin", cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    folder = tmp_path / "my-plugin"
    environment = {**os.environ, "PYTHONPATH": str(folder / "src")}
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "pyproject.toml", "tests"],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert result.returncode == 0, result.stdout + result.stderr
    again = run(Path(sys.executable), *CLI, "plugins", "new", "my-plugin", cwd=tmp_path)
    assert again.returncode == 2 and "exists" in again.stderr
    for wrong in ("My", "a--b", "a/b", "1a", "..", ""):
        refused = run(Path(sys.executable), *CLI, "plugins", "new", wrong, cwd=tmp_path)
        assert refused.returncode == 2 and len(refused.stderr.splitlines()) == 1


def test_examples_and_template_in_the_fake_engine() -> None:
    """What the slow tests do in earnest, in this process."""
    made = files("my-plugin")
    sources = {
        "steering": (EXAMPLES["steering"] / "src/slipcast_steering/__init__.py").read_text("utf-8"),
        "deadlines": (EXAMPLES["deadlines"] / "src/slipcast_deadlines/__init__.py").read_text("utf-8"),
        "my-plugin": made["src/slipcast_my_plugin/__init__.py"],
    }
    for name, source in sources.items():
        module = types.ModuleType(f"example_{name}")
        sys.modules[module.__name__] = module
        exec(compile(source, name, "exec"), vars(module))
        plugin = getattr(module, "SteeringPlugin", None) or getattr(module, "Plugin", module)
        parameters = {"steering": STEER["steering"], "deadlines": {"within": 1}, "my-plugin": {"penalty": 1}}[name]
        check_plugin(plugin, parameters=parameters)
    check_scheduler(sys.modules["example_deadlines"], "edf")
    assert tomllib.loads(made["pyproject.toml"])["project"]["entry-points"]["slipcast.plugins"] == {
        "my-plugin": "slipcast_my_plugin:Plugin"
    }
