"""Attention, whose scores the backward computes again instead of reading them.

A forward that makes attention in one kernel never has its scores in memory. Then nor should it
store them for the backward: from queries, keys, each row's greatest score and the total of its
powers, which are few, the backward's kernels make them anew where they multiply them.

What the softmax's gradient needs of a row, the sum of its weights times their gradients over the
keys, is the sum of the results times their gradients over the columns (Dao et al.,
"FlashAttention", 2022, appendix B): that needs neither, and any kernel can have it. It has to be as
exact as the gradients that it is taken from: what it errs by is the same for all keys of a row, and
does not average out where keys have a mean. So what results lose when stored is saved, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from fusegen.ir.graph import Graph, Node, Output, topological
from fusegen.ops import build
from fusegen.ops.pointwise.arithmetic import DIVIDE, MUL, SUB
from fusegen.ops.pointwise.casting import CAST, NARROW, WIDEN
from fusegen.ops.pointwise.functions import EXP
from fusegen.ops.primitive.views import PERMUTE
from fusegen.ops.record import Monoid, Pointwise, Product, Reduction, Reshape, View

StoresNoScores = Callable[[Node, Node], bool]
"""Whether one kernel does a product of scores, their softmax, and the product that sums values."""


@dataclass(frozen=True)
class Attention:
    """The product that makes scores, the softmax's weights before they are rounded, and the product
    that sums values; and what only a backward needs: the reciprocal of the weights' total, and what
    a result loses when it is stored."""

    scored: Node
    weights: Node
    summed: Node
    reciprocal: Node
    rest: Node


def attentions(
    forward: Graph, differentiable: Collection[Node], stores_no_scores: StoresNoScores
) -> tuple[Attention, ...]:
    """Those of a decomposed forward that one kernel does each, without storing anything as large as
    the scores, and of which nothing but the product itself has a gradient: that of a bias, say, is
    summed from scores' gradients in memory."""
    order = topological(forward.roots)
    users: dict[Node, set[Node]] = {node: set() for node in order}
    for node in order:
        for operand in node.operands:
            users[operand].add(node)
    found = []
    for summed in order:
        if isinstance(summed.operation, Product):
            one = _attention(summed)
            if one is None or not stores_no_scores(one.scored, summed):
                continue
            between = _between(one)
            leaves = {o for node in between for o in node.operands} - {*between, one.scored}
            is_kept = any(users[n] - {*between, summed} for n in (one.scored, *between))
            is_output = any(output.node in (one.scored, *between) for output in forward.outputs)
            below = topological(tuple(leaves))
            if not is_kept and not is_output and not any(n in differentiable for n in below):
                found.append(one)
    return tuple(found)


def _attention(summed: Node) -> Attention | None:
    """The attention that a product is the end of, if it is one."""
    weights = _base(summed.operands[0])
    if weights.operation is not DIVIDE:
        return None
    power, total = weights.operands
    if power.operation is not EXP or power.operands[0].operation is not SUB:
        return None
    score, greatest = power.operands[0].operands
    if not (_reduces(total, Monoid.SUM, power) and _reduces(greatest, Monoid.MAXIMUM, score)):
        return None
    products = [n for n in _made_of(score) if isinstance(n.operation, Product)]
    if len(products) != 1:
        return None
    reciprocal = _marked(weights, build.reciprocal(total))
    return Attention(products[0], weights, summed, reciprocal, _rest(weights, summed))


def _rest(like: Node, summed: Node) -> Node:
    """What a result loses when it is stored; nothing of one that is too great for its type."""

    def marked(made: Node) -> Node:
        return _marked(like, made)

    stored = _widened(like, marked(build.as_stored(summed)))
    lost = marked(build.sub(_widened(like, summed), stored))
    is_finite = marked(build.lt(marked(build.absolute(stored)), math.inf))
    return marked(build.as_result(marked(build.where(is_finite, lost, 0.0)), summed.dtype))


def _base(node: Node) -> Node:
    """A value as it was before it was converted and reshaped."""
    while isinstance(node.operation, Reshape) or node.operation in (NARROW, CAST, WIDEN):
        (node,) = node.operands
    return node


def _reduces(node: Node, monoid: Monoid, operand: Node) -> bool:
    """Whether a node is that reduction of the operand's last dim."""
    return (
        isinstance(node.operation, Reduction)
        and node.operation.monoid is monoid
        and node.operands[0] is operand
        and node.attributes.integers("dims") == (operand.type.rank - 1,)
    )


def _made_of(score: Node) -> list[Node]:
    """What a score is made of element by element, and the products that it is made of."""
    found: dict[Node, None] = {}
    stack = [score]
    while stack:
        node = stack.pop()
        if node in found:
            continue
        if isinstance(node.operation, Product):
            found[node] = None
        elif isinstance(node.operation, (Pointwise, Reshape, View)):
            found[node] = None
            stack += node.operands
    return [*found]


def _between(attention: Attention) -> set[Node]:
    """All that depends on the scores' product and leads to the product that sums values."""
    after = {attention.scored}
    for node in topological((attention.summed.operands[0],)):
        if any(operand in after for operand in node.operands):
            after.add(node)
    return after - {attention.scored}


def made_again(
    forward: Graph, gradients: tuple[Output, ...], found: Collection[Attention]
) -> tuple[Output, ...]:
    """The gradients of a model with the weights of these attentions made anew for them, from the
    saved statistics of their rows, and the sums over keys that the softmaxes' gradients have
    replaced by those over the results' columns."""
    if not found:
        return gradients
    stays = {*topological(forward.roots)} - {node for one in found for node in _between(one)}
    weights = {one.weights: _weights_again(one) for one in found}
    by_weights = {weights[one.weights]: one for one in found}
    done: dict[Node, Node] = {}
    for node in topological(tuple(gradient.node for gradient in gradients)):
        if node in weights:
            done[node] = weights[node]
        elif node in stays:
            done[node] = node
        else:
            operands = tuple(done[operand] for operand in node.operands)
            made = node if operands == node.operands else replace(node, operands=operands)
            done[node] = _sum_of_results(made, by_weights)
    return tuple(replace(gradient, node=done[gradient.node]) for gradient in gradients)


def _weights_again(attention: Attention) -> Node:
    """The weights by the reciprocal of their total, which is at least 1: a division for each of
    them takes longer than anything else that is done with it."""
    power = attention.weights.operands[0]
    return _marked(attention.weights, build.mul(power, attention.reciprocal))


def _widened(like: Node, x: Node) -> Node:
    made = build.to_compute(x)
    return x if made is x else _marked(like, made)


def _marked(like: Node, made: Node) -> Node:
    """A new node, for the reader of plans one of those that it stands for."""
    return replace(made, span=like.span, origin=like.origin)


def _sum_of_results(node: Node, by_weights: Mapping[Node, Attention]) -> Node:
    """What stands for a sum over keys of weights times their gradients; another node itself."""
    if not node.operands or not _reduces(node, Monoid.SUM, node.operands[0]):
        return node
    if node.operands[0].operation is not MUL:
        return node

    factors = [_base(factor) for factor in node.operands[0].operands]
    for weights, gradient in (factors, reversed(factors)):
        one = by_weights.get(weights)
        if one and isinstance(gradient.operation, Product):
            incoming, values = gradient.operands
            if _are_transposed(values, one.summed.operands[1]):
                results = [_widened(node, x) for x in (one.summed, one.rest)]
                whole = _marked(node, build.add(*results))
                terms = _marked(node, build.mul(_widened(node, incoming), whole))
                total = build.total(terms, (terms.type.rank - 1,), keepdim=True)
                return build.reshape(_marked(node, total), node.shape)
    return node


def _are_transposed(x: Node, y: Node) -> bool:
    """Whether one of two batches of matrices is the other with rows and columns exchanged."""
    return any(
        a.operation is PERMUTE
        and a.operands[0] is b
        and a.attributes.integers("dims")
        == (*range(b.type.rank - 2), b.type.rank - 1, b.type.rank - 2)
        for a, b in ((x, y), (y, x))
    )
