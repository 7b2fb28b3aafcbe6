"""Dropout: which elements it drops is a function of a seed, and nothing of the mask is stored.

In training, the module draws a seed from PyTorch's generator at each forward and hands it to its
operator like any other tensor: PyTorch's ways to repeat random numbers (`torch.manual_seed`,
activation checkpoints, captured graphs) work on it. A model that drops something has a graph of its
own for training, in which the seed is a placeholder and each dropout a pointwise operation on it
and on the positions of elements (`KEPT`, `POSITIONS`), which therefore fuses as any other. The
backward computes the same mask again from the same seed. In evaluation, a dropout is its input.
"""

from __future__ import annotations

from collections.abc import Callable

from fusegen.ir.graph import Attributes, Node, Shape
from fusegen.ir.integers import ONE
from fusegen.ops import build
from fusegen.ops.composite.define import composite
from fusegen.ops.inference import Accepts, require
from fusegen.ops.parameters import INPUT, floating, integer, tensor
from fusegen.ops.primitive.random_numbers import KEPT, POSITIONS
from fusegen.ops.record import Composite, OperationError, Stochastic

_P = floating("p", 0.5)
_WORDS = 1 << 32


def threshold(p: float) -> int:
    """The 32-bit numbers below this one, of 2^32, drop an element."""
    return min(round(p * _WORDS), _WORDS - 1)


def _mask(x: Node, seed: Node, attributes: Attributes) -> Node:
    """1 for each element that is kept and 0 for others, in x's dtype; with 1 for the last dims,
    along which the choice is the same, where `mask_rank` tells how many dims have one of their
    own."""
    rank = x.type.rank if attributes["mask_rank"] is None else attributes.integer("mask_rank")
    shape: Shape = (*x.shape[:rank], *(ONE for _ in x.shape[rank:]))
    kept = build.call(
        KEPT,
        (seed, build.call(POSITIONS, (), shape=shape)),
        threshold=threshold(attributes.number("p")),
        number=attributes.integer("number"),
    )
    return build.cast(kept, x.dtype)


def _dropped(operands: tuple[Node, ...], attributes: Attributes) -> Node:
    """Products, as in PyTorch: what is dropped is NaN where x is infinite or NaN."""
    x, seed = operands
    p = attributes.number("p")
    if p == 1:
        return build.mul(x, 0.0)
    return build.mul(build.mul(x, _mask(x, seed, attributes)), 1 / (1 - p))


def _stochastic(name: str, summary: str, mask_rank: Callable[[Node], int | None]) -> Stochastic:
    """A dropout; `mask_rank` tells how many dims have choices of their own, None for all, or raises
    OperationError for a shape that is not taken."""
    record = _record(name, summary)

    def draw(x: Node, seed: Node, number: int, attributes: Attributes) -> Node:
        p = attributes.number("p")
        if not 0 <= p <= 1:
            raise OperationError(
                f"p of {name} is {p:g}, but must be a probability", "it lies between 0 and 1"
            )
        require(x.type, Accepts.FLOATS)
        rank = mask_rank(x)
        if p == 0:
            return x
        return build.call(record, (x, seed), p=p, number=number, mask_rank=rank)

    return Stochastic(name, (INPUT, _P), draw, summary)


def _record(name: str, summary: str) -> Composite:
    return composite(
        name,
        (INPUT, tensor("seed"), _P, integer("number"), integer("mask_rank", None)),
        _dropped,
        "_dropout({input}, {seed}, {p}, {number}, mask_rank={mask_rank})",
        summary,
    )


def _of_channels(rank: int, unbatched: bool) -> Stochastic:
    name = f"dropout{rank}d"

    def mask_rank(x: Node) -> int:
        if unbatched and x.type.rank == rank + 1:
            return 1
        if x.type.rank != rank + 2:
            also = f" or {rank + 1}" if unbatched else ""
            raise OperationError(
                f"{name} needs an input of rank {rank + 2}{also}, and got {x.type}"
            )
        return 2

    summary = "In training, whole channels dropped with probability `p`, the others over 1 - p."
    return _stochastic(name, summary, mask_rank)


DROPOUT = _stochastic(
    "dropout",
    "In training, each element 0 with probability `p`, else over 1 - p; in evaluation, itself.",
    lambda x: None,
)
# PyTorch takes (N, C, L) for a batch in dropout2d, with a warning; here it is dropout1d's.
CHANNEL_DROPOUTS = {rank: _of_channels(rank, unbatched=rank != 2) for rank in (1, 2, 3)}

FUNCTIONS = (DROPOUT, *CHANNEL_DROPOUTS.values())
