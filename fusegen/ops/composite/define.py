"""A short way to write composites, whose type is that of what they decompose into."""

from __future__ import annotations

from fusegen.ir.graph import Attributes, Node, Placeholder, TensorType
from fusegen.ops.record import Composite, Decomposition, Gradient, Parameter


def composite(
    name: str,
    parameters: tuple[Parameter, ...],
    decompose: Decomposition,
    twin: str,
    summary: str,
    gradient: Gradient | None = None,
) -> Composite:
    """A composite that is checked and typed by decomposing it over stand-ins for its operands.

    Without a gradient of its own it has that of what it decomposes into.
    """

    def infer(types: tuple[TensorType, ...], attributes: Attributes) -> TensorType:
        stand_ins = tuple(Node(Placeholder("operand"), (), Attributes(), t) for t in types)
        return decompose(stand_ins, attributes).type

    return Composite(
        name,
        parameters=parameters,
        infer=infer,
        twin=twin,
        summary=summary,
        decompose=decompose,
        gradient=gradient,
    )
