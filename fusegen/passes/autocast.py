"""What `torch.autocast` does to a float32 model, as casts in its graph.

The graph is the one that the user wrote: operation by operation it gets the dtypes that PyTorch's
operations have under autocast. Casts fuse as any elementwise operation does.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Graph, Node, Placeholder, topological
from fusegen.ops import build
from fusegen.ops.autocast import POLICIES, Device, Policy
from fusegen.ops.construct import as_nodes, is_number
from fusegen.ops.pointwise.arithmetic import DIVIDE
from fusegen.ops.record import Composite, Record
from fusegen.passes.rewrite import with_roots

# What autocast leaves alone are float64, integers and truth values.
CONVERTED = (DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16)


@dataclass(frozen=True)
class Autocast:
    """Autocast to a 16-bit dtype on a kind of device; the inputs at the positions in `low` arrive
    in that dtype, as an earlier layer leaves them, and not in float32."""

    device: Device
    dtype: DType
    low: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """What tells its operators from others: `autocast_bfloat16`, `autocast_bfloat16_in0`."""
        given = f"_in{'_'.join(map(str, self.low))}" if self.low else ""
        return f"autocast_{self.dtype.value}{given}"


def autocast(graph: Graph, context: Autocast) -> Graph:
    """The graph for float32 tensors as it is under autocast, where its results may have other
    dtypes. Raises `OperationError` where an operation does not accept the dtypes it then gets."""
    done: dict[Node, Node] = {}
    for position, node in enumerate(graph.inputs):
        low = replace(node.type, dtype=context.dtype)
        done[node] = replace(node, type=low) if position in context.low else node
    for node in topological((*graph.roots, *graph.tensors)):
        if node not in done:
            done[node] = _converted(node, tuple(done[x] for x in node.operands), context)
    made = with_roots(graph, tuple(done[root] for root in graph.roots))
    return replace(made, inputs=tuple(done[node] for node in graph.inputs))


def _converted(node: Node, operands: tuple[Node, ...], context: Autocast) -> Node:
    """The node over operands with the dtypes that autocast gives them."""
    if isinstance(node.operation, Placeholder):
        return node
    policy = _policy(node, context.device)
    if policy is Policy.LOW:
        operands = tuple(_cast(operand, context.dtype) for operand in operands)
    elif policy is Policy.FLOAT32 and node.attributes.get("dtype") is None:
        operands = tuple(_cast(operand, DType.FLOAT32) for operand in operands)
    elif policy is Policy.LIKE_FIRST and len({x.dtype for x in operands}) > 1:
        wide = _retyped(node, tuple(_cast(operand, DType.FLOAT32) for operand in operands))
        return replace(build.as_result(wide, operands[0].dtype), name=node.name, span=node.span)
    return _retyped(node, operands)


def _policy(node: Node, device: Device) -> Policy:
    # A number divided by a tensor is its reciprocal times the number (Tensor.__rtruediv__).
    divides_number = node.operation is DIVIDE and is_number(node.operands[0])
    name = "reciprocal" if divides_number else node.operation.name
    return POLICIES[device].get(name, Policy.AS_GIVEN)


def _cast(operand: Node, dtype: DType) -> Node:
    if operand.dtype not in CONVERTED or operand.dtype is dtype or is_number(operand):
        return operand
    made = build.cast(operand, dtype)
    if isinstance(operand.operation, Placeholder):
        return replace(made, name=f"{operand.operation.path or operand.name}_{dtype.value}")
    return made


def _retyped(node: Node, operands: tuple[Node, ...]) -> Node:
    if operands == node.operands:
        return node
    assert isinstance(node.operation, Record)
    operands = tuple(as_nodes(operands))  # numbers follow the tensors
    if isinstance(node.operation, Composite):
        type = node.operation.decompose(operands, node.attributes).type
    else:
        type = node.operation.infer(tuple(x.type for x in operands), node.attributes)
    return replace(node, operands=operands, type=type)
