"""Where what a graph computes may have become anything, as a sum on the way may overflow.

A float is NaN there. Truth values and integers have none: which of them are made of such floats is
kept beside them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce

import torch
from torch import Tensor

from fusegen.ir.graph import Node
from fusegen.ops.record import Concatenation, Pointwise, Reduction, Reshape, View

# What an operation of the graph makes of operands, as that which moves or selects elements does.
Twin = Callable[[Node, Sequence[Tensor]], Tensor]


class Losses:
    """The elements of each node that are lost, of those that have any."""

    def __init__(self, twin: Twin, given: Mapping[Node, Tensor]) -> None:
        self._twin = twin
        self._of = {node: lost for node, lost in given.items() if lost.any()}

    def of(self, node: Node, value: Tensor) -> Tensor:
        """Which elements of a node's value are lost."""
        return self._of.get(node, torch.zeros_like(value, dtype=torch.bool))

    def stands_for(self, node: Node, body: Node) -> None:
        """A node is what it is composed of."""
        if body in self._of:
            self._of[node] = self._of[body]

    def through(
        self, node: Node, value: Tensor, operands: Sequence[Tensor], own: Tensor | None
    ) -> Tensor:
        """A node's value, NaN where it is made of lost values that are no floats; `own` are the
        elements that are lost in the node itself, and NaN already."""
        lost = self._spread(node, value, operands, of_floats=False)
        if lost is not None and node.dtype.is_float:
            value = torch.where(lost, torch.nan, value)
        for further in (own, self._spread(node, value, operands, of_floats=True)):
            if further is not None:
                lost = further if lost is None else lost | further
        if lost is not None:
            self._of[node] = lost & value.isnan() if node.dtype.is_float else lost
        return value

    def _spread(
        self, node: Node, value: Tensor, operands: Sequence[Tensor], *, of_floats: bool
    ) -> Tensor | None:
        """The elements that are made of lost ones of its operands."""
        pairs = list(zip(node.operands, operands, strict=True))
        if not any(o in self._of and o.dtype.is_float is of_floats for o, _ in pairs):
            return None
        masks = [
            self.of(operand, tensor)
            if operand.dtype.is_float is of_floats
            else torch.zeros_like(tensor, dtype=torch.bool)
            for operand, tensor in pairs
        ]
        if isinstance(node.operation, Pointwise):
            return reduce(torch.logical_or, masks).broadcast_to(value.shape)
        if isinstance(node.operation, Reduction):
            dims, keep = node.attributes.integers("dims"), node.attributes.flag("keepdim")
            return masks[0].double().sum(dims, keepdim=keep) > 0
        if isinstance(node.operation, (View, Reshape, Concatenation)):
            return self._twin(node, masks)
        return torch.full_like(value, any(bool(m.any()) for m in masks), dtype=torch.bool)
