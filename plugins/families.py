"""Model families: which architectures a plugin can build, and what the runtime calls to build one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class ModelFamily(Protocol):
    """How models of some architectures are planned and compiled. Asked once, when a model is loaded."""

    @property
    def name(self) -> str: ...

    @property
    def architectures(self) -> Sequence[str]:
        """What model files call them: `general.architecture` of a GGUF file ("llama"), and the entries of
        `architectures` in a `config.json` ("LlamaForCausalLM").
        """
        ...

    def plan(self, source: Any, /) -> Any:
        """The model's parameters and dimensions (engine/runtime/plan.py, ModelPlan), read off an open model file.

        Raises ModelFileError or UnsupportedModelError of slipcast.engine. TVM must not be imported here.
        """
        ...

    def build(self, plan: Any, isa: Any, /, *, max_rows: int, max_batch: int) -> tuple[Any, Sequence[str]]:
        """The IRModule with the function `step`, and the names of its parameters in order.

        `isa`: the instruction set (engine/runtime/kernels/isa.py). A step holds at most `max_rows` tokens of at most
        `max_batch` sequences.
        """
        ...

    def shape_key(self, plan: Any, /) -> Mapping[str, Any]:
        """What shapes the compiled library beside the plan, as JSON data: the family's own version at least."""
        ...
