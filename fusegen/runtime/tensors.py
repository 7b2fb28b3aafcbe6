"""Tensors and settings of PyTorch for the runs of a graph."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Node, Placeholder


def torch_dtype(dtype: DType) -> torch.dtype:
    """PyTorch's dtype of that name."""
    found = getattr(torch, dtype.value)
    assert isinstance(found, torch.dtype)
    return found


def random_tensor(node: Node, sizes: Mapping[str, int], device: str) -> Tensor:
    """A random value for an input: normal, small integers, or truth values by its dtype."""
    shape = [size.evaluate(sizes) for size in node.shape]
    if node.dtype.is_float:
        return torch.randn(shape).to(device, torch_dtype(node.dtype))
    highest = 2 if node.dtype is DType.BOOL else 10
    return torch.randint(0, highest, shape).to(device, torch_dtype(node.dtype))


def held_tensor(module: torch.nn.Module, node: Node) -> Tensor:
    """The module's parameter or buffer that a placeholder stands for."""
    assert isinstance(node.operation, Placeholder)
    value: Any = module
    for name in node.operation.path.split("."):
        value = getattr(value, name)
    assert isinstance(value, Tensor)
    return value


def as_tuple(results: Tensor | Sequence[Tensor]) -> tuple[Tensor, ...]:
    """One result or several, as several."""
    return (results,) if isinstance(results, Tensor) else tuple(results)


@contextmanager
def float32_matmul_precision(precision: str) -> Iterator[None]:
    """Within the block, `torch.set_float32_matmul_precision` holds."""
    try:
        before = torch.get_float32_matmul_precision()
    except RuntimeError:  # set in the newer way, for a back end, which hides it
        before = "highest"
    # The newer switches, which it sets as well, and to other values than were there at first.
    backends: Any = torch.backends
    switches = backends.cuda.matmul, backends.mkldnn.matmul
    kept = [switch.fp32_precision for switch in switches]
    torch.set_float32_matmul_precision(precision)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
        for switch, value in zip(switches, kept, strict=True):
            switch.fp32_precision = value
