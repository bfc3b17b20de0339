"""Parameters of one request for plugins: checked by the model that each plugin gives for them, before anything runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from .errors import PluginError, PluginOptionError
from .loading import told

Models = Mapping[str, type[BaseModel]]


def closed(name: str, model: object) -> type[BaseModel]:
    """The model, refusing keys that it does not know, unless it says itself what becomes of them.

    Raises PluginError if it is no pydantic model.
    """
    if not isinstance(model, type) or not issubclass(model, BaseModel):
        raise PluginError(name, f"slipcast_request_parameters returned {model!r}, not a class of pydantic.BaseModel")
    if "extra" in model.model_config:
        return model
    return type(model.__name__, (model,), {"model_config": {"extra": "forbid"}, "__module__": model.__module__})


def check(given: object, models: Models, active: tuple[str, ...], installed: Mapping[str, object]) -> dict[str, Any]:
    """The parameters of a request, by plugin, as instances of their models. Raises PluginOptionError.

    `given`: what the request has as `plugins`, None for nothing. A plugin without a model takes an empty object only.
    """
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise PluginOptionError("plugins", "give an object of plugins' names and their parameters")
    return {str(name): _one(name, value, models, active, installed) for name, value in given.items()}


def _one(name: object, value: object, models: Models, active: tuple[str, ...], installed: Mapping[str, object]) -> Any:
    where = f"plugins.{name}"
    if not isinstance(name, str) or name not in active:
        known = ", ".join(active) or "none"
        hint = "it is installed and not active" if name in installed else "there is no such plugin"
        raise PluginOptionError(where, f"{hint}; active: {known}")
    model = models.get(name)
    if model is None:
        if value in (None, {}):
            return {}
        raise PluginOptionError(where, "this plugin takes no parameters: give {}")
    if isinstance(value, BaseModel):
        value = value.model_dump(exclude_unset=True)
    try:
        return model.model_validate({} if value is None else value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        path = ".".join((where, *map(str, first["loc"])))
        raise PluginOptionError(path, str(first["msg"])) from error
    except Exception as error:
        raise PluginError(name, f"checking its parameters raised {told(error)}") from error
