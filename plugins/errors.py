"""Errors of loading plugins.

PluginError        a plugin cannot be used (ValueError); `plugin` names it
"""

from __future__ import annotations


class PluginError(ValueError):
    """A plugin is missing, or does not fit the hooks or protocols. `str(error)` names the plugin and what is wrong."""

    def __init__(self, plugin: str, message: str) -> None:
        self.plugin = plugin
        self.message = message
        super().__init__(f"plugin {plugin!r}: {message}")
