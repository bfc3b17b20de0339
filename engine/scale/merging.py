"""Prometheus texts of several processes as one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

_SAMPLE: Final = re.compile(r"^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (.+)$")


def merge(texts: Mapping[str, str]) -> bytes:
    """Prometheus texts as one, each sample with the label `replica`."""
    families: dict[str, list[str]] = {}
    heads: dict[str, list[str]] = {}
    for replica, text in texts.items():
        family = ""
        for line in text.splitlines():
            if line.startswith("# "):
                family = line.split(" ", 3)[2]
                kept = heads.setdefault(family, [])
                if line not in kept:
                    kept.append(line)
            elif (match := _SAMPLE.match(line)) is not None:
                name, labels, value = match.groups()
                labels = f'replica="{replica}"' + (f",{labels}" if labels else "")
                families.setdefault(family, []).append(f"{name}{{{labels}}} {value}")
    lines = [line for family, samples in families.items() for line in (*heads.get(family, ()), *samples)]
    return "".join(f"{line}\n" for line in lines).encode()
