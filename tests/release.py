"""What is released, tried as its users get it: wheel and sdist of the last commit, each alone in a new environment.

    python tests/release.py [--keep FOLDER]

Needs git, a package index and the package `build`. The folder is empty but for what is built, so that nothing is found
in the repository by accident. Ends with 1 and the reason if something does not work.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
import urllib.request
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 12}, "age": {"type": "integer", "minimum": 0}},
    "required": ["name", "age"],
    "additionalProperties": False,
}
# Data files that modules read; the folders they lie in are the repository's.
DATA = ("grammar/bnf/library/*.grammarbnf", "grammar/regular/*.npz", "engine/api/page/*.html", "engine/api/page/*.css",
        "engine/api/page/*.js", "*/py.typed")  # fmt: skip


def run(*command: str | Path, cwd: Path, **more: str) -> str:
    """The command's output; its failure ends this program."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run([*map(str, command)], cwd=cwd, env={**environment, **more}, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def step(what: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {what}", flush=True)


def build(folder: Path) -> tuple[Path, Path, Path]:
    """A clean clone of the repository's last commit, and the wheel and the sdist that it gives."""
    step("build the wheel and the sdist from a clean clone")
    clone, dist = folder / "clone", folder / "dist"
    run("git", "clone", "--quiet", "--depth", "1", f"file://{ROOT}", clone, cwd=folder)
    run(sys.executable, "-m", "build", "--outdir", dist, clone, cwd=folder)
    (wheel,), (sdist,) = dist.glob("*.whl"), dist.glob("*.tar.gz")
    return clone, wheel, sdist


def check_contents(clone: Path, wheel: Path, sdist: Path) -> None:
    """Every module and data file of the product is in both."""
    step("compare what they hold with the repository")
    folders = ("engine", "grammar", "plugins", "samplers")
    sources = {path.relative_to(clone) for part in folders for path in (clone / part).rglob("*.py")}
    sources |= {path.relative_to(clone) for pattern in DATA for path in clone.glob(pattern)}
    with zipfile.ZipFile(wheel) as archive:
        missing = {f"slipcast/{path}" for path in sources} - set(archive.namelist())
    with tarfile.open(sdist) as packed:
        members = {name.partition("/")[2] for name in packed.getnames()}
    missing |= {str(path) for path in sources} - members
    if missing:
        sys.exit(f"not shipped: {', '.join(sorted(missing))}")


def environment(folder: Path, name: str, package: Path) -> Path:
    """The folder of programs of a new environment with the package alone."""
    step(f"install {package.name} in a new environment")
    run(sys.executable, "-m", "venv", folder / name, cwd=folder)
    programs = folder / name / "bin"
    run(programs / "python", "-m", "pip", "install", "--quiet", package, cwd=folder)
    return programs


def check_version(programs: Path, empty: Path, version: str) -> None:
    said = run(programs / "slipcast", "--version", cwd=empty).strip()
    if said != f"slipcast {version}":
        sys.exit(f"the version is {version}, and `slipcast --version` says {said!r}")


def check_commands(programs: Path, empty: Path) -> None:
    """The doctor, a constrained conversation, a schema, a grammar of the library."""
    step("slipcast doctor")
    run(programs / "slipcast", "doctor", cwd=empty)
    step("slipcast chat --schema")
    (empty / "person.json").write_text(json.dumps(SCHEMA))
    talk = [programs / "slipcast", "chat", "--schema", "person.json", "--max-tokens", "60", "--seed", "1"]
    said = subprocess.run(
        [*map(str, talk)], input="Invent a person.\n", cwd=empty, capture_output=True, text=True, check=True
    ).stdout
    person = json.loads(said[said.index("{") : said.rindex("}") + 1])
    if set(person) != {"name", "age"}:
        sys.exit(f"the constrained answer is {said!r}")
    step("slipcast schema, slipcast grammar")
    run(programs / "slipcast", "schema", "sample", "person.json", cwd=empty)
    (empty / "day.grammarbnf").write_text("%import dates\nroot ::= dates.date\n")
    run(programs / "slipcast", "grammar", "sample", "day.grammarbnf", cwd=empty)


def check_server(programs: Path, empty: Path, version: str) -> None:
    """The server answers, with the page and the version that it is."""
    step("slipcast serve")
    command = [str(programs / "slipcast"), "serve", "--port", "0"]
    with subprocess.Popen(command, cwd=empty, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            address = server.stdout.readline().split()[-1].removesuffix("/v1")
            with urllib.request.urlopen(f"{address}/openapi.json", timeout=30) as answer:
                described = json.load(answer)
            if described["info"]["version"] != version:
                sys.exit(f"the version is {version}, and the OpenAPI document says {described['info']['version']}")
            for path, kind in (("/", "text/html"), ("/page/app.js", "javascript"), ("/page/style.css", "text/css")):
                with urllib.request.urlopen(address + path, timeout=30) as answer:
                    if kind not in answer.headers["content-type"] or not answer.read():
                        sys.exit(f"{path} is {answer.headers['content-type']}")
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(60)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="work here, and leave what was built")
    options = parser.parse_args()
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    with tempfile.TemporaryDirectory() as temporary:
        folder = (options.keep or Path(temporary)).resolve()
        empty = folder / "empty"
        empty.mkdir(parents=True)
        clone, wheel, sdist = build(folder)
        check_contents(clone, wheel, sdist)
        programs = environment(folder, "from-wheel", wheel)
        check_version(programs, empty, version)
        check_commands(programs, empty)
        check_server(programs, empty, version)
        programs = environment(folder, "from-sdist", sdist)
        check_version(programs, empty, version)
        run(programs / "slipcast", "doctor", "--no-model", cwd=empty)
    print(f"slipcast {version}: the wheel and the sdist work alone")


if __name__ == "__main__":
    main()
