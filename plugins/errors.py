"""Errors of plugins.

PluginError          a plugin cannot be used (ValueError); `plugin` names it
PluginOptionError    a request's parameters for a plugin are wrong (ValueError); `param` is their path
"""

from __future__ import annotations


class PluginError(ValueError):
    """A plugin is missing, or does not fit the hooks or protocols. `str(error)` names the plugin and what is wrong."""

    def __init__(self, plugin: str, message: str) -> None:
        self.plugin = plugin
        self.message = message
        super().__init__(f"plugin {plugin!r}: {message}")


class PluginOptionError(ValueError):
    """What a request gives a plugin is wrong; `param` is the path, as "plugins.mine.strength"."""

    def __init__(self, param: str, message: str) -> None:
        self.param = param
        self.message = message
        super().__init__(f"{param}: {' '.join(message.split())}")
