"""Loading: from a plan's tensors in the mapped file to its parameters, packed into one arena."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import ModelFileError
from .arena import Arena, as_tensor
from .blocks import decode
from .checkpoint import AGAIN, Checkpoint
from .kernels.formats import FORMATS
from .packing import BLOCK, GROUP, NotFiniteError, block_columns, head_order, pack, pieces
from .plan import Matrix, ModelPlan, Parameter, Part, Vector
from .progress import Progress

Bytes = npt.NDArray[np.uint8]

_STAGE = "load weights"


def load_weights(checkpoint: Checkpoint, plan: ModelPlan, names: Sequence[str], progress: Progress) -> list[Any]:
    """The named parameters, in that order, as TVM tensors. Raises ModelError for too little memory or wrong values."""
    parameters = plan.parameters()
    sizes = [parameter_bytes(parameters[name]) for name in names]
    arena = Arena(sizes, "the weights", huge=True)
    tensors = []
    for done, (name, size) in enumerate(zip(names, sizes, strict=True)):
        progress(_STAGE, done / len(names))
        memory = arena.take(size)
        parameter = parameters[name]
        if isinstance(parameter, Vector):
            vector = memory.view(np.float32)
            _fill_vector(checkpoint, parameter, vector)
            tensors.append(as_tensor(vector))
        else:
            _pack_matrix(checkpoint, parameter, memory)
            tensors.append(as_tensor(memory))
        checkpoint.forget()
    progress(_STAGE, 1.0)
    return tensors


def parameter_bytes(parameter: Parameter) -> int:
    if isinstance(parameter, Vector):
        return 4 * parameter.size
    return FORMATS[parameter.format].packed_bytes(parameter.rows, parameter.columns)


def _fill_vector(checkpoint: Checkpoint, vector: Vector, out: npt.NDArray[np.float32]) -> None:
    start = 0
    for part in vector.parts:
        tensor = checkpoint.tensors[part.tensor]
        values = decode(tensor.data, tensor.type)[0, part.first : part.first + part.rows]
        if not np.isfinite(values).all():
            raise _not_finite(checkpoint, part)
        out[start : start + part.rows] = values if part.order is None else values[_order(part, 0, part.rows)]
        start += part.rows


def _pack_matrix(checkpoint: Checkpoint, matrix: Matrix, memory: Bytes) -> None:
    groups = memory.reshape(matrix.rows // GROUP, matrix.columns // block_columns(matrix.format), -1)
    start = 0
    for block in matrix.blocks:
        count = sum(-(-part.rows // GROUP) for part in block)
        own = groups[start : start + count]
        # Parts take turns of 32 rows; a part alone is one run.
        turn = BLOCK // GROUP if len(block) > 1 else 1
        turns = own.reshape(-1, len(block), turn, *own.shape[1:])
        for i, part in enumerate(block):
            _pack_part(checkpoint, part, matrix.format, turns[:, i])
        start += count


def _pack_part(checkpoint: Checkpoint, part: Part, form: str, out: Bytes) -> None:
    """Piece by piece: `out` is [turns, groups of a turn, blocks, bytes]."""
    tensor = checkpoint.tensors[part.tensor]
    step = (part.order.head_dim if part.order else 1) * out.shape[1] * GROUP
    for start, end in pieces(part.rows, tensor.data.shape[1], step):
        if part.order is None:
            data = tensor.data[part.first + start : part.first + end]
        else:
            data = tensor.data[part.first + _order(part, start, end)]
        per_turn = out.shape[1] * GROUP
        try:
            pack(data, tensor.type, form, out[start // per_turn : -(-end // per_turn)])
        except NotFiniteError as error:
            raise _not_finite(checkpoint, part) from error


def _order(part: Part, start: int, end: int) -> npt.NDArray[np.intp]:
    """The rows of the part from `start` to `end`, both whole heads, in the kernels' order."""
    assert part.order is not None
    order = part.order
    return start + head_order(end - start, order.head_dim, order.rotated, paired=order.paired)


def _not_finite(checkpoint: Checkpoint, part: Part) -> ModelFileError:
    return ModelFileError(
        f"{checkpoint.path}: the tensor {part.tensor!r} has values that are no numbers",
        path=checkpoint.path,
        remedy=AGAIN,
    )
