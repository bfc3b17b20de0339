"""Loading: from a plan's tensors in the mapped file to its parameters, packed into one arena."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import ModelFileError
from .arena import Arena, as_tensor
from .blocks import decode
from .gguf import GgufFile, GgufTensor
from .kernels.formats import FORMATS
from .packing import BLOCK, GROUP, NotFiniteError, interleaved_heads, pack
from .plan import Matrix, ModelPlan, Vector
from .progress import Progress

Bytes = npt.NDArray[np.uint8]

_STAGE = "load weights"


def load_weights(file: GgufFile, plan: ModelPlan, names: Sequence[str], progress: Progress) -> list[Any]:
    """The named parameters, in that order, as TVM tensors. Raises ModelError for too little memory or wrong values."""
    parameters = plan.parameters()
    sizes = [_size(parameters[name]) for name in names]
    arena = Arena(sizes, "the weights")
    tensors = []
    for done, (name, size) in enumerate(zip(names, sizes, strict=True)):
        progress(_STAGE, done / len(names))
        memory = arena.take(size)
        parameter = parameters[name]
        if isinstance(parameter, Vector):
            tensor = file.tensors[parameter.tensor]
            vector = memory.view(np.float32)
            vector[:] = decode(tensor.data, tensor.type)[0]
            tensors.append(as_tensor(vector))
        else:
            _pack_matrix(file, plan, parameter, memory)
            tensors.append(as_tensor(memory))
    progress(_STAGE, 1.0)
    return tensors


def _size(parameter: Matrix | Vector) -> int:
    if isinstance(parameter, Vector):
        return 4 * parameter.size
    return FORMATS[parameter.format].packed_bytes(parameter.rows, parameter.columns)


def _pack_matrix(file: GgufFile, plan: ModelPlan, matrix: Matrix, memory: Bytes) -> None:
    groups = memory.reshape(matrix.rows // GROUP, matrix.columns // BLOCK, -1)
    tensors = [file.tensors[name] for name in matrix.tensors]
    if matrix.arrangement == "turns":
        turns = groups.reshape(-1, len(tensors), BLOCK // GROUP, *groups.shape[1:])
        for i, tensor in enumerate(tensors):
            _pack_tensor(file, tensor, tensor.data, matrix, turns[:, i])
        return
    start = 0
    for i, tensor in enumerate(tensors):
        rotated = matrix.arrangement == "heads" and i < 2  # queries and keys, not values
        data = _heads_in_halves(tensor, plan.config.head_dim) if rotated else tensor.data
        end = start + -(-len(data) // GROUP)
        _pack_tensor(file, tensor, data, matrix, groups[start:end])
        start = end


def _pack_tensor(file: GgufFile, tensor: GgufTensor, data: Bytes, matrix: Matrix, out: Bytes) -> None:
    try:
        pack(data, tensor.type, matrix.format, out)
    except NotFiniteError as error:
        raise ModelFileError(
            f"{file.path}: the tensor {tensor.name!r} has values that are no numbers",
            path=file.path,
            remedy="download or convert the file again",
        ) from error


def _heads_in_halves(tensor: GgufTensor, head_dim: int) -> Bytes:
    """Query or key rows, ordered for rotating column i with i + head_dim / 2."""
    return tensor.data[interleaved_heads(tensor.shape[0] // head_dim, head_dim)]
