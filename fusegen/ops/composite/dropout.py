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


def _record(name: str) -> Composite:
    """What a dropout is in training, with the seed and its number as further arguments."""
    return composite(
        name,
        (INPUT, tensor("seed"), _P, integer("number"), integer("mask_rank", None)),
        _dropped,
        "_dropout({input}, {seed}, {p}, {number}, mask_rank={mask_rank})",
        "The elements that dropout `number` of a model keeps, over 1 - p, and 0 for others.",
    )


def _stochastic(
    record: Composite, summary: str, mask_rank: Callable[[Node], int | None]
) -> Stochastic:
    """The language's function; `mask_rank` tells how many dims have choices of their own, None for
    all, or raises OperationError for a shape that is not taken."""

    def draw(x: Node, seed: Node, number: int, attributes: Attributes) -> Node:
        p = attributes.number("p")
        if not 0 <= p <= 1:
            raise OperationError(
                f"p of {record.name} is {p:g}, but must be a probability", "it is from 0 to 1"
            )
        require(x.type, Accepts.FLOATS)
        rank = mask_rank(x)
        if p == 0:
            return x
        return build.call(record, (x, seed), p=p, number=number, mask_rank=rank)

    return Stochastic(record.name, (INPUT, _P), draw, summary)


def _of_channels(rank: int, record: Composite) -> Stochastic:
    # PyTorch takes (N, C, L) for a batch in dropout2d, with a warning; that is dropout1d's.
    ranks = (rank + 2,) if rank == 2 else (rank + 2, rank + 1)

    def mask_rank(x: Node) -> int:
        if x.type.rank not in ranks:
            wanted = " or ".join(map(str, ranks))
            raise OperationError(f"{record.name} needs an input of rank {wanted}, and got {x.type}")
        return x.type.rank - rank

    summary = "In training, whole channels 0 with probability `p`, others over 1 - p."
    return _stochastic(record, summary, mask_rank)


DROPPED = _record("dropout")
CHANNELS_DROPPED = {rank: _record(f"dropout{rank}d") for rank in (1, 2, 3)}
RECORDS = (DROPPED, *CHANNELS_DROPPED.values())

DROPOUT = _stochastic(
    DROPPED,
    "In training, each element 0 with probability `p`, else over 1 - p; in evaluation, itself.",
    lambda x: None,
)
CHANNEL_DROPOUTS = {rank: _of_channels(rank, r) for rank, r in CHANNELS_DROPPED.items()}

FUNCTIONS = (DROPOUT, *CHANNEL_DROPOUTS.values())
