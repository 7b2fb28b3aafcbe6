"""Subscripts, `x[:, 0:4, None, -1]`, and the functions with several results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from fusegen.ir.graph import Attributes, Node
from fusegen.ir.integers import ONE, ZERO, Integer, IntegerLike, is_never_negative
from fusegen.ops import build
from fusegen.ops.inference import dim_to_cut
from fusegen.ops.parameters import INPUT, integer
from fusegen.ops.record import Macro, OperationError, Parameter, ParameterKind


class Marker(Enum):
    """The subscripts that select nothing: `...` and `None`."""

    ELLIPSIS = "..."
    NEW_DIM = "None"


@dataclass(frozen=True)
class Range:
    """The subscript `start:stop:step`; None where a bound was left out."""

    start: IntegerLike | None = None
    stop: IntegerLike | None = None
    step: int = 1


Subscript = int | Integer | Range | Marker


def index(x: Node, items: Sequence[Subscript]) -> Node:
    """`x[items]` as PyTorch has it for integers, ranges, `None` and `...`, without a copy.

    Bounds may be symbolic where they can be proved to lie inside the dim. Raises `OperationError`
    for too many subscripts, for one out of range, and for a step below 1.
    """
    selecting = sum(not isinstance(item, Marker) for item in items)
    if selecting > x.type.rank:
        raise OperationError(f"{selecting} subscripts are too many for {x.type}")
    if list(items).count(Marker.ELLIPSIS) > 1:
        raise OperationError("'...' may stand only once in a subscript")
    result, shape, dim = x, list[Integer](), 0
    for item in items:
        if item is Marker.ELLIPSIS:
            skipped = x.type.rank - selecting
            shape.extend(x.shape[dim : dim + skipped])
            dim += skipped
        elif item is Marker.NEW_DIM:
            shape.append(ONE)
        elif isinstance(item, Range):
            result = _range(result, dim, item)
            shape.append(result.shape[dim])
            dim += 1
        elif isinstance(item, (int, Integer)):
            result = _at(result, dim, Integer.of(item))
            dim += 1
    return build.reshape(result, (*shape, *x.shape[dim:]))


def _at(x: Node, dim: int, position: Integer) -> Node:
    size = x.shape[dim]
    if position.constant is not None and position.constant < 0:
        position = position + size
    if not (is_never_negative(position) and is_never_negative(size - position - 1)):
        verb = "lies" if (size - position).constant is not None else "may lie"
        raise OperationError(f"index {position} {verb} outside dim {dim}, whose size is {size}")
    return build.take(x, dim, position, position + 1)


def _range(x: Node, dim: int, item: Range) -> Node:
    if item.step < 1:
        raise OperationError(f"the step {item.step} of a slice must be 1 or more")
    size = x.shape[dim]
    start = ZERO if item.start is None else _bound(Integer.of(item.start), size)
    stop = size if item.stop is None else _bound(Integer.of(item.stop), size)
    if not is_never_negative(stop - start):
        if (stop - start).constant is None:
            raise OperationError(
                f"the slice from {start} to {stop} may be empty for some sizes",
                "give bounds whose order does not depend on a size",
            )
        stop = start
    return build.take(x, dim, start, stop, item.step)


def _bound(bound: Integer, size: Integer) -> Integer:
    """A slice's bound counted from 0 and held inside the dim."""
    if bound.constant is not None and bound.constant < 0:
        bound = bound + size
    if bound.constant is not None and size.constant is not None:
        return Integer.of(min(max(bound.constant, 0), size.constant))
    if is_never_negative(bound) and is_never_negative(size - bound):
        return bound
    raise OperationError(
        f"the bound {bound} of a slice may lie outside a dim of size {size}",
        "slice dims of constant size, or give a bound in terms of the size",
    )


def _split_at(x: Node, dim: int, lengths: Sequence[int]) -> tuple[Node, ...]:
    parts, start = [], 0
    for length in lengths:
        parts.append(build.take(x, dim, start, start + length))
        start += length
    return tuple(parts)


def _constant_size(x: Node, dim: int, name: str) -> int:
    size = x.shape[dim].constant
    if size is None:
        raise OperationError(
            f"{name} needs a dim of constant size, and dim {dim} of {x.type} is symbolic",
            "make the size an argument of the model, or split another dim",
        )
    return size


def _even_lengths(size: int, length: int) -> list[int]:
    """Parts of `length`, the last one shorter if need be; one empty part of an empty dim."""
    return [min(length, size - start) for start in range(0, max(size, 1), max(length, 1))]


def _chunk(operands: tuple[Node, ...], attributes: Attributes) -> tuple[Node, ...]:
    (x,) = operands
    dim = dim_to_cut("chunk", attributes.integer("dim"), x.type.rank)
    chunks = attributes.integer("chunks")
    if chunks < 1:
        raise OperationError(f"chunks is {chunks}, and must be 1 or more")
    size = _constant_size(x, dim, "chunk")
    if size == 0:
        return (x,) * chunks
    return _split_at(x, dim, _even_lengths(size, -(-size // chunks)))


def _split(operands: tuple[Node, ...], attributes: Attributes) -> tuple[Node, ...]:
    (x,) = operands
    dim = dim_to_cut("split", attributes.integer("dim"), x.type.rank)
    size = _constant_size(x, dim, "split")
    wanted = attributes["split_size_or_sections"]
    if isinstance(wanted, int):
        if wanted < 1:
            raise OperationError(f"the split size is {wanted}, and must be 1 or more")
        return _split_at(x, dim, _even_lengths(size, wanted))
    lengths = attributes.integers("split_size_or_sections")
    if sum(lengths) != size or min(lengths, default=0) < 0:
        raise OperationError(
            f"sections {lengths} add up to {sum(lengths)}, and dim {dim} of {x.type} has {size}"
        )
    return _split_at(x, dim, lengths)


_FIRST_DIM = Parameter("dim", ParameterKind.DIM, 0)

CHUNK = Macro(
    "chunk",
    parameters=(INPUT, integer("chunks"), _FIRST_DIM),
    expand=_chunk,
    summary="A dim cut into at most `chunks` equal parts, the last one shorter if need be.",
)
SPLIT = Macro(
    "split",
    parameters=(INPUT, Parameter("split_size_or_sections", ParameterKind.INTEGERS), _FIRST_DIM),
    expand=_split,
    summary="A dim cut into parts of one size, or of the sizes listed.",
)

MACROS = (CHUNK, SPLIT)
