"""The package that `slipcast plugins new NAME` makes: small, whole, and it passes its own tests and mypy."""

from __future__ import annotations

from collections.abc import Mapping

from ..plugins import API_VERSION

_PROJECT = """\
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "slipcast-{name}"
version = "0.1.0"
description = "A plugin for Slipcast."
requires-python = ">=3.11"
dependencies = ["slipcast", "numpy>=2.0", "pydantic>=2.7"]

# The name on the left is what users activate and what requests name.
[project.entry-points."slipcast.plugins"]
{name} = "{module}:Plugin"

[tool.setuptools]
package-dir = {{ "" = "src" }}
packages = ["{module}"]
package-data = {{ "*" = ["py.typed"] }}

[tool.mypy]
strict = true
"""

_MODULE = '''\
"""A plugin for Slipcast.

    slipcast serve --plugins {name}
    client.chat.completions.create(..., extra_body={{"plugins": {{"{name}": {{"penalty": 2}}}}}})
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from pydantic import BaseModel, Field
from slipcast.plugins import BaseProcessor, ChoiceView, Logits, hookimpl

__version__ = "0.1.0"


class Options(BaseModel):
    """What a request may say; anything else is answered with 400."""

    penalty: float = Field(default=2.0, ge=0, le=100)


class NoStutter(BaseProcessor):
    """Makes the last token less likely to come again."""

    name = "{name}"

    def wants(self, row: ChoiceView, /) -> bool:
        """Only rows of requests that name the plugin; others cost nothing."""
        return row.options(Options) is not None

    def apply(self, logits: Logits, rows: Sequence[ChoiceView], /) -> None:
        """`logits`, float32 [rows, vocabulary], is changed in place."""
        for x, row in zip(logits, rows, strict=True):
            options = row.options(Options)
            if options is not None and row.output:
                x[row.output[-1]] -= np.float32(options.penalty)


class Plugin:
    """Hooks are asked when an engine starts, never per token."""

    slipcast_api = "{api}"

    @hookimpl
    def slipcast_request_parameters(self) -> type[BaseModel]:
        """See Options."""
        return Options

    @hookimpl
    def slipcast_logits_processors(self) -> Sequence[NoStutter]:
        """See NoStutter."""
        return [NoStutter()]
'''

_TEST = '''\
"""The plugin in the fake engine: no model is needed."""

from __future__ import annotations

import pytest
from slipcast.plugins import PluginOptionError
from slipcast.plugins.testing import FakeEngine, FakeRequest, check_plugin
from slipcast.samplers import SamplingParams
from {module} import Plugin


def test_it_keeps_what_the_protocol_promises() -> None:
    check_plugin(Plugin(), parameters={{"penalty": 3}})


def test_nothing_comes_twice_in_a_row() -> None:
    engine = FakeEngine(("{name}", Plugin()))
    params = SamplingParams(max_tokens=30, temperature=0)
    [answer] = engine.generate([FakeRequest(params=params, plugins={{"{name}": {{"penalty": 100}}}})])
    assert answer.error is None
    assert all(one != two for one, two in zip(answer.tokens[0], answer.tokens[0][1:], strict=False))


def test_wrong_parameters_are_refused() -> None:
    with pytest.raises(PluginOptionError, match="penalty"):
        FakeEngine(("{name}", Plugin())).generate([FakeRequest(plugins={{"{name}": {{"penalty": -1}}}})])
'''

_README = """\
# slipcast-{name}

A plugin for [Slipcast](https://pypi.org/project/slipcast/).

    pip install -e . pytest && pytest
    slipcast plugins                    # installed, not active
    slipcast serve --plugins {name}     # active
"""


def files(name: str) -> Mapping[str, str]:
    """Texts by path."""
    words = {"name": name, "module": f"slipcast_{name.replace('-', '_')}", "api": f"{API_VERSION[0]}.{API_VERSION[1]}"}
    return {
        "pyproject.toml": _PROJECT.format(**words),
        "README.md": _README.format(**words),
        f"src/{words['module']}/__init__.py": _MODULE.format(**words),
        f"src/{words['module']}/py.typed": "",
        f"tests/test_{words['module']}.py": _TEST.format(**words),
    }
