"""An opened model file or folder: metadata and tensors, wherever they come from.

Readers (gguf.py, huggingface.py) give this; plans (plan.py) and loading (weights.py) know nothing else. Metadata keys
and tensor names are GGUF's: a reader of another format translates, by the model's family.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import ModelFileError

AGAIN = "download or convert the file again"


@dataclass(frozen=True)
class StoredTensor:
    """A tensor as stored: `data` is uint8 [rows, bytes of a row], as a rule a read-only view of the mapped file.

    `shape` has the slowest dimension first; all but the last are rows (a vector has one). `type` is GGUF's name of the
    format.
    """

    name: str
    type: str
    shape: tuple[int, ...]
    data: npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Checkpoint:
    """`path` names it in errors. `paired_heads`: query and key rows stand in GGUF's order of the family, which for some
    pairs neighbouring columns; False: column i is rotated with column i + half.

    `forget` gives back memory that the system holds for parts of the file read so far.
    """

    path: Path
    metadata: Mapping[str, Any]
    tensors: Mapping[str, StoredTensor]
    paired_heads: bool = True
    forget: Callable[[], None] = field(default=lambda: None, repr=False, compare=False)

    def tensor(self, name: str, shape: tuple[int, ...]) -> StoredTensor:
        """A tensor by name, checked against the shape that the model needs. Raises ModelFileError."""
        tensor = self.tensors.get(name)
        if tensor is None:
            raise ModelFileError(f"{self.path}: the tensor {name!r} is missing", path=self.path, remedy=AGAIN)
        if tensor.shape != shape:
            raise ModelFileError(
                f"{self.path}: the tensor {name!r} has shape {tensor.shape}, not {shape} as its metadata says",
                path=self.path,
                remedy=AGAIN,
            )
        return tensor
