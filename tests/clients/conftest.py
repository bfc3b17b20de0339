"""One real server for all clients: `slipcast serve` with the default model, in a process of its own."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest
from slipcast.engine import DownloadError

MODEL = "smollm2-135m-instruct"


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """The server's address, as `http://127.0.0.1:port/v1`."""
    from slipcast.engine.runtime import resolve_model

    try:
        resolve_model(MODEL, None)
    except DownloadError as error:
        pytest.skip(f"the default model cannot be had here: {error}")
    program = "import sys; from slipcast.engine.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", program, "serve", "--port", "0", "--log-level", "warning"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            found = re.search(r"http://\S+", line)
            assert found, f"the server said {line!r}"
            yield found.group()
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) == 0
