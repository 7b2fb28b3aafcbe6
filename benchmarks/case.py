"""What is measured: a chain at a shape, in a precision, forward or as a training step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum

import torch
from torch import Tensor, nn

from fusegen.runtime.tensors import float32_matmul_precision


class Mode(Enum):
    """What a call does: the forward without gradients, or forward and backward to the gradients of
    the input and of all parameters."""

    FORWARD = "forward"
    TRAINING = "training"


@dataclass(frozen=True)
class Precision:
    """The tensors' dtype, and what all candidates may do with float32 products: `setting` is that
    of `torch.set_float32_matmul_precision`; below `highest`, convolutions may take TF32, too."""

    name: str
    dtype: torch.dtype
    setting: str

    @property
    def description(self) -> str:
        """For a table's heading: what holds on both sides."""
        if self.dtype is not torch.float32:
            return f"{self.name} tensors on all sides"
        return f"float32 tensors, products at '{self.setting}' on all sides"

    @contextmanager
    def held(self) -> Iterator[None]:
        """Within the block PyTorch's settings are this precision's."""
        before = torch.backends.cudnn.allow_tf32
        torch.backends.cudnn.allow_tf32 = self.setting != "highest"
        try:
            with float32_matmul_precision(self.setting):
                yield
        finally:
            torch.backends.cudnn.allow_tf32 = before


PRECISIONS = {
    found.name: found
    for found in (
        Precision("float32", torch.float32, "highest"),
        Precision("tf32", torch.float32, "high"),
        Precision("bfloat16", torch.bfloat16, "highest"),
        Precision("float16", torch.float16, "highest"),
    )
}


@dataclass(frozen=True)
class Case:
    """One chain at one shape.

    `plain` makes what a user has before fusegen and `generated` the module in its place, with the
    same state dict. `operations` are those of the matrix products in a forward, two for each
    multiply-add. `beside` is timed with the candidates, as a yardstick: the bare product, or a
    copy. `on_host` asks for the host's time instead of the GPU's.
    """

    suite: str
    name: str
    plain: Callable[[], nn.Module]
    generated: Callable[[], nn.Module]
    shape: tuple[int, ...]
    operations: int = 0
    beside: Mapping[str, Callable[[nn.Module, Tensor], object]] = field(default_factory=dict)
    precisions: tuple[str, ...] = tuple(PRECISIONS)
    modes: tuple[Mode, ...] = (Mode.FORWARD, Mode.TRAINING)
    on_host: bool = False
