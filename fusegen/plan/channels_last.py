"""Convolutions that PyTorch computes do so with their channels last.

cuDNN's kernels for 16 bits take images so, and copy those that are not, before and after. Here the
operands are copied by a kernel of the module, and what follows reads the result where it stands.
"""

from __future__ import annotations

from dataclasses import replace

from fusegen.ir.graph import Graph, Node, topological
from fusegen.ops import build
from fusegen.ops.construct import call
from fusegen.ops.pointwise.functions import CLONE
from fusegen.ops.primitive.convolutions import CONVOLUTION, CONVOLUTION_CHANNELS_LAST
from fusegen.passes.rewrite import with_roots
from fusegen.plan.cost import Device, SizeHints
from fusegen.plan.group import NotApplicable
from fusegen.plan.last_readers import reads_well, stored, users_of
from fusegen.plan.pixel_tiles import pixel_tile
from fusegen.plan.plain_convolution import plain_convolution
from fusegen.plan.tensor_cores import TENSOR_DTYPES

# Channels that a 16-byte access takes: the kernels for channels last need multiples of them.
WHOLE_CHANNELS = 8
# Copies of operands that the library would not need a launch of ours for.
COPIES = 2
# A weight is copied in short lines, of which each element moves half a sector of 32 bytes.
WEIGHT_COPY_BYTES = 16


def put_channels_last(graph: Graph, device: Device, hints: SizeHints) -> Graph:
    """The graph in which convolutions of 16 bits that have no kernel of their own have their
    channels last, where what reads the results does so as well and the copies pay."""
    order = topological(graph.roots)
    users = users_of(order)
    done: dict[Node, Node] = {}
    copies: dict[Node, Node] = {}
    for node in order:
        operands = tuple(done[operand] for operand in node.operands)
        moved = node if operands == node.operands else replace(node, operands=operands)
        suits = _is_for_the_library(node, device) and _pays(node, device, hints)
        is_moved = suits and reads_well(node, users)
        done[node] = _with_channels_last(moved, copies) if is_moved else moved
    roots = {root: stored(done[root]) for root in dict.fromkeys(graph.roots)}
    return with_roots(graph, tuple(roots[root] for root in graph.roots))


def _with_channels_last(node: Node, copies: dict[Node, Node]) -> Node:
    """The convolution, whose operands are copied once for all that read them."""
    rank = node.type.rank
    for operand in node.operands:
        if operand not in copies:
            last = build.permute(operand, (0, *range(2, rank), 1))
            copies[operand] = call(CLONE, (last,))
    data, weight = (copies[operand] for operand in node.operands)
    attributes = {name: value for name, value in node.attributes.items() if name != "bias"}
    made = call(CONVOLUTION_CHANNELS_LAST, (data, weight, None), **attributes)
    made = replace(made, name=node.name, span=node.span, origin=node.written_as)
    return build.permute(made, (0, rank - 1, *range(1, rank - 1)))


def _pays(node: Node, device: Device, hints: SizeHints) -> bool:
    """Whether the copy of the result that is saved takes longer than those of operands: cuDNN
    makes that of the input, too."""
    bytes_saved = 2 * hints.value(node.type.count) * node.dtype.itemsize
    weight = hints.value(node.operands[1].type.count) * WEIGHT_COPY_BYTES
    return bytes_saved / device.bandwidth > COPIES * device.launch + weight / device.bandwidth


def _is_for_the_library(node: Node, device: Device) -> bool:
    """Whether it is a convolution that only PyTorch computes, with whole vectors of channels."""
    if node.operation is not CONVOLUTION or node.dtype not in TENSOR_DTYPES:
        return False
    if node.type.rank not in (4, 5) or len(node.operands) != 2:
        return False
    if node.attributes.integer("groups") != 1:
        return False
    channels = node.shape[1].constant, node.operands[0].shape[1].constant
    if any(count is None or count % WHOLE_CHANNELS for count in channels):
        return False
    try:
        pixel_tile(plain_convolution(node), device)
    except NotApplicable:
        return True
    return False
