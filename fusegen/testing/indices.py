"""What the index of an extreme may be: where several elements may be the extreme, any of them."""

from __future__ import annotations

from torch import Tensor

from fusegen.ir.graph import Node
from fusegen.ops.composite.reductions import ARGMAX, ARGMIN


def ranked_by(node: Node) -> Node | None:
    """The values of which `node` gives the index of the greatest or least; None if of none."""
    return node.operands[0] if node.operation in (ARGMAX, ARGMIN) else None


def candidates(node: Node, values: Tensor, slack: Tensor) -> Tensor:
    """Which of the ranked float64 values may be the extreme, each of them being off by `slack`; the
    dim that is searched is the last one."""
    signed = values if node.operation is ARGMAX else -values
    if node.attributes["dim"] is None or not values.dim():
        signed, slack = signed.flatten(), slack.flatten()
    else:
        dim = node.attributes.integer("dim")
        signed, slack = signed.movedim(dim, -1), slack.movedim(dim, -1)
    return signed + slack >= (signed - slack).amax(-1, keepdim=True)


def are_among(indices: Tensor, candidates: Tensor) -> Tensor:
    """Which indices are those of candidates."""
    chosen = indices.reshape(*candidates.shape[:-1], 1)
    inside = (chosen >= 0) & (chosen < candidates.shape[-1])
    found = candidates.gather(-1, chosen.clamp(0, candidates.shape[-1] - 1)) & inside
    return found.reshape(indices.shape)
