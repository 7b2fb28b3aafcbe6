"""A group of operations that might share a kernel, and what a strategy may know about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fusegen.ir.graph import Node, Operation
from fusegen.plan.buffers import Buffer
from fusegen.plan.cost import Device, SizeHints
from fusegen.plan.evaluate import Domain, Evaluator
from fusegen.plan.expressions import Expressions, PartialStates
from fusegen.plan.precision import Precision
from fusegen.plan.preferences import UNTUNED, Preferences


class NotApplicable(Exception):
    """A strategy cannot do a group; the text says why, as a clause without a full stop."""


@dataclass(frozen=True)
class Group:
    """Operations considered together: `nodes` in topological order, and those of them whose
    values others need (`results`)."""

    nodes: tuple[Node, ...]
    results: tuple[Node, ...]

    def having(self, kind: type[Operation]) -> tuple[Node, ...]:
        """The group's nodes of one kind."""
        return tuple(node for node in self.nodes if isinstance(node.operation, kind))


@dataclass(frozen=True)
class Context:
    """What the planner knows beside the group: where each value would stand in memory, the device
    it plans for, its guesses of symbolic sizes, the precision of float32 products, the values
    that all kernels use `rounded` to their types, as some kernel stores them, and what was tuned.
    """

    buffers: Mapping[Node, Buffer]
    device: Device
    hints: SizeHints
    precision: Precision = Precision.HIGHEST
    rounded: frozenset[Node] = frozenset()
    preferences: Preferences = UNTUNED

    def evaluator(
        self,
        group: Group,
        *,
        domain: Domain | None = None,
        two_pass: bool = True,
        states: Mapping[Node, PartialStates] | None = None,
    ) -> Evaluator:
        """An evaluator that computes the group's own nodes and loads all others."""
        inside = set(group.nodes)
        outside = {node: buffer for node, buffer in self.buffers.items() if node not in inside}
        return Evaluator(
            outside,
            Expressions(),
            domain=domain,
            two_pass=two_pass,
            states=states or {},
            rounded=self.rounded,
        )
