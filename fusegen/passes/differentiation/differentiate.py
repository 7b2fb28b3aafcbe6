"""The forward and the backward of a graph, and how their tensors belong together.

The operator for `Differentiated.forward` takes the model's arguments (`inputs`, then `tensors`) and
returns what stands in `Graph.roots`: the outputs, the batch statistics, the saved values. The one
for `Differentiated.backward` takes a tensor for each of `sources`, in order, and returns a gradient
for each of `targets`; `absent.without` gives the one for calls of which some outputs are not used.
The gradient of a saved value that is also an output of the model needs no second tensor: its source
is the output.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

from fusegen.ir.graph import (
    Attributes,
    AttributeValue,
    Graph,
    Node,
    Output,
    Placeholder,
    Role,
    shown_name,
    topological,
)
from fusegen.ir.integers import Integer, Symbol
from fusegen.ops import build
from fusegen.ops.primitive.views import PERMUTE
from fusegen.ops.record import Reshape
from fusegen.passes.common_values import share_common_values
from fusegen.passes.compared_values import hold_compared_values
from fusegen.passes.decompose import decompose
from fusegen.passes.differentiation.attention import (
    StoresNoScores,
    attentions,
    made_again,
)
from fusegen.passes.differentiation.reverse import NotDifferentiable, Reversed, reverse
from fusegen.passes.differentiation.saving import values_to_save
from fusegen.passes.legality import check
from fusegen.passes.simplify import simplify


class Origin(Enum):
    """What kind of tensor a backward takes."""

    OUTPUT_GRADIENT = "gradient of an output"
    ARGUMENT = "argument of the forward"
    OUTPUT = "output of the forward"
    SAVED = "saved value"


@dataclass(frozen=True)
class Source:
    """Where the caller finds a tensor that the backward takes.

    `index` counts the forward graph's `outputs` (also for their gradients), its arguments
    (`inputs`, then `tensors`), or its `saved` values.
    """

    origin: Origin
    index: int


@dataclass(frozen=True)
class Differentiated:
    """A graph and its backward.

    `sources` are those of `backward.inputs`, which are all the backward's arguments: output
    gradients first, then arguments, outputs and saved values. `targets` tell, for each of
    `backward.outputs`, to which argument of the forward the gradient belongs; it has the argument's
    shape and dtype. Arguments to which no gradient flows are not among them.
    """

    forward: Graph
    backward: Graph
    sources: tuple[Source, ...]
    targets: tuple[int, ...]


def differentiate(
    graph: Graph, stores_no_scores: StoresNoScores = lambda scored, summed: False
) -> Differentiated | None:
    """The forward and backward of an elaborated graph, composites in; None where an operation on
    the way has no gradient here, or no gradient flows at all. The backward computes the scores of
    attention again that `stores_no_scores` says to be one kernel."""
    try:
        found = reverse(graph)
    except NotDifferentiable:
        return None
    if not found.gradients:
        return None
    joint = _joined(found)
    count = len(graph.outputs)
    forward = replace(joint, outputs=joint.outputs[:count])
    remade = attentions(forward, found.gradients, stores_no_scores)
    gradients = made_again(forward, joint.outputs[count:], remade)
    saved = values_to_save(
        forward, frozenset(found.upstream.values()), tuple(g.node for g in gradients), remade
    )
    backward, sources, kept = _backward(forward, found, gradients, saved)
    arguments = graph.placeholders
    targets = tuple(arguments.index(argument) for argument in found.gradients)
    return Differentiated(replace(forward, saved=kept), backward, sources, targets)


def why_not_differentiable(graph: Graph) -> str:
    """Why `differentiate` gives nothing for a graph, in the user's terms."""
    try:
        found = reverse(graph)
    except NotDifferentiable as operation:
        return f"'{operation}' has no gradient here"
    return "it has too many tensors" if found.gradients else "no gradient flows through it"


def _joined(found: Reversed) -> Graph:
    """Outputs and gradients as one graph of primitive operations, each value in it once."""
    gradients = tuple(
        Output(f"gradient_of_{shown_name(argument)}", gradient)
        for argument, gradient in found.gradients.items()
    )
    both = replace(found.graph, outputs=(*found.graph.outputs, *gradients))
    steps = (decompose, share_common_values, simplify, share_common_values, hold_compared_values)
    for step in steps:
        after = step(both)
        check(both, after, f"{step.__name__} of a gradient")
        both = after
    return both


def _backward(
    forward: Graph, found: Reversed, gradients: tuple[Output, ...], saved: tuple[Node, ...]
) -> tuple[Graph, tuple[Source, ...], tuple[Output, ...]]:
    """The backward over placeholders, their sources, and the values that the forward returns for
    it."""
    arguments = forward.placeholders
    numbered = reversed([*enumerate(forward.outputs)])
    outputs = {_seen_in(output.node, output.node)[0]: i for i, output in numbered}
    known: dict[Node, Source] = {}
    for i, gradient in found.upstream.items():
        known[gradient] = Source(Origin.OUTPUT_GRADIENT, i)
    for i, argument in enumerate(arguments):
        known[argument] = Source(Origin.ARGUMENT, i)
    taken = {shown_name(argument) for argument in arguments}
    taken |= {output.name for output in forward.outputs}
    kept: list[Output] = []
    stands: dict[Node, Node] = {}
    for node in saved:
        if node in outputs:
            root = forward.outputs[outputs[node]]
            handed = _placeholder(root.node, root.name)
            known[handed] = Source(Origin.OUTPUT, outputs[node])
            stands[node] = _seen_in(root.node, handed)[1]
        else:
            kept.append(Output(_distinct(node, taken), node))
            handed = _placeholder(node, kept[-1].name)
            known[handed] = Source(Origin.SAVED, len(kept) - 1)
            stands[node] = build.reshape(handed, node.shape)
    for node in topological(tuple(gradient.node for gradient in gradients)):
        if node not in stands:
            operands = tuple(stands[operand] for operand in node.operands)
            same = operands == node.operands
            stands[node] = node if same else replace(node, operands=operands)
    results = named([replace(gradient, node=stands[gradient.node]) for gradient in gradients])
    body = topological(tuple(result.node for result in results))
    used = {node for node in body if isinstance(node.operation, Placeholder)}
    used |= set(_that_give_sizes(body, used, arguments))
    used = used or {next(iter(found.gradients))}  # a tensor tells an operator its device
    order = [*Origin]
    inputs = tuple(
        sorted((x for x in known if x in used), key=lambda x: order.index(known[x].origin))
    )
    graph = Graph(
        f"{forward.name}_backward",
        inputs,
        (),
        results,
        arguments=forward.arguments,
        description=forward.description,
    )
    return graph, tuple(known[node] for node in inputs), tuple(kept)


def named(results: Sequence[Output]) -> tuple[Output, ...]:
    """The gradients' nodes under their names, by which kernels are called, unless something else
    is made from them."""
    body = topological(tuple(result.node for result in results))
    used = {operand for node in body for operand in node.operands}
    once = Counter(result.node for result in results)
    return tuple(
        result
        if result.node in used or once[result.node] > 1 or not result.node.operands
        else replace(result, node=replace(result.node, name=result.name))
        for result in results
    )


def _seen_in(result: Node, handed: Node) -> tuple[Node, Node]:
    """The value whose elements a result has, in whatever order of rows, and that value as it is
    seen in the tensor `handed` that holds the result."""
    while isinstance(result.operation, Reshape) or _keeps_rows(result):
        (operand,) = result.operands
        if result.operation is PERMUTE:
            order = result.attributes.integers("dims")
            handed = build.permute(handed, [order.index(dim) for dim in range(len(order))])
        else:
            handed = build.reshape(handed, operand.shape)
        result = operand
    return result, handed


def _keeps_rows(node: Node) -> bool:
    """Whether it exchanges other dims than the last one, whose elements stay neighbours."""
    if node.operation is not PERMUTE:
        return False
    order = node.attributes.integers("dims")
    return order[-1:] == (len(order) - 1,)


def _placeholder(node: Node, name: str) -> Node:
    operation = Placeholder("saved", Role.INPUT, name)
    return Node(operation, (), Attributes(), node.type, name, node.span)


def _distinct(node: Node, taken: set[str]) -> str:
    """A name for a saved value, after what it is."""
    stem = node.name or node.written_as
    name, number = stem, 2
    while name in taken:
        name, number = f"{stem}_{number}", number + 1
    taken.add(name)
    return name


def _that_give_sizes(
    body: tuple[Node, ...], used: set[Node], arguments: tuple[Node, ...]
) -> list[Node]:
    """Arguments to take for their sizes only: those that no tensor the backward needs has."""
    needed: set[Symbol] = set()
    for node in body:
        for value in (*node.shape, *(v for _, v in node.attributes.items_)):
            needed |= _symbols(value)
    bound = {symbol for node in used for symbol in _own_sizes(node)}
    found = []
    for argument in arguments:
        if argument not in used and (needed - bound) & _own_sizes(argument):
            found.append(argument)
            bound |= _own_sizes(argument)
    return found


def _own_sizes(node: Node) -> set[Symbol]:
    """The sizes that can be read off a tensor."""
    return {s for size in node.shape for s in size.symbols() if size == Integer.of_atom(s)}


def _symbols(value: AttributeValue) -> set[Symbol]:
    if isinstance(value, Integer):
        return set(value.symbols())
    if isinstance(value, tuple):
        return {symbol for item in value for symbol in _symbols(item)}
    return set()
