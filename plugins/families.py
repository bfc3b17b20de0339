"""Model families: which architectures a plugin can build, and what the runtime calls to build one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class ModelFamily(Protocol):
    """How models of some architectures are read, planned and compiled. Asked once, when a model is loaded.

    `slipcast.engine.runtime.families.Family` is a base class that does all of it for decoders of the common kind.
    """

    @property
    def name(self) -> str: ...

    @property
    def architectures(self) -> Sequence[str]:
        """What model files call them: `general.architecture` of a GGUF file ("llama"), and the entries of
        `architectures` ("LlamaForCausalLM") or the `model_type` of a `config.json`.
        """
        ...

    def translate(self, source: Any, /) -> Any:
        """An opened model (engine/runtime/checkpoint.py, Checkpoint) in the terms that `plan` reads.

        `source.metadata` is GGUF's, or what `config.json` says, and tensors have the names of the file.
        """
        ...

    def plan(self, source: Any, /) -> Any:
        """The model's parameters and dimensions (engine/runtime/plan.py, ModelPlan), read off a translated model.

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
