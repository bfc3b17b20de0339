"""The version of what plugins are written against: hooks, protocols, and what the engine promises of both."""

from __future__ import annotations

from typing import Any

from .errors import PluginError

API_VERSION = (1, 0)
"""Major and minor. A major version may break plugins; a minor one adds hooks, arguments and members with defaults."""

ATTRIBUTE = "slipcast_api"


def check_version(name: str, plugin: Any, *, required: bool) -> str | None:
    """The version that the plugin says it was written against, as `slipcast_api = "1.0"`; None if it says none.

    Raises PluginError for another major version, a later minor one, anything that is no version, and for none where one
    is `required`.
    """
    ours = f"{API_VERSION[0]}.{API_VERSION[1]}"
    declared = getattr(plugin, ATTRIBUTE, None)
    if declared is None:
        if required:
            raise PluginError(
                name, f'it does not say which version of the hooks it was made for: add {ATTRIBUTE} = "{ours}"'
            )
        return None
    major, dot, minor = declared.partition(".") if isinstance(declared, str) else ("", "", "")
    if not (major.isascii() and major.isdecimal() and (not dot or (minor.isascii() and minor.isdecimal()))):
        raise PluginError(name, f'{ATTRIBUTE} is {declared!r}, not a version as "{ours}"')
    if int(major) != API_VERSION[0]:
        raise PluginError(
            name, f"it was made for version {declared} of the hooks, and this is {ours}: get another release of it"
        )
    if minor and int(minor) > API_VERSION[1]:
        raise PluginError(
            name, f"it was made for version {declared} of the hooks, and this is {ours}: get a later slipcast"
        )
    return str(declared)
