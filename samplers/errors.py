"""Errors of sampling.

SamplingError        an option is outside its range (ValueError); `option`, `value` and `allowed` are data
"""

from __future__ import annotations


class SamplingError(ValueError):
    """One sampling option cannot be used. `str(error)` names the option, the value given and what is allowed."""

    def __init__(self, option: str, value: object, allowed: str) -> None:
        self.option = option
        self.value = value
        self.allowed = allowed
        super().__init__(f"{option} is {value!r}; allowed: {allowed}")
