"""Rules for shapes and dtypes that operations share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from functools import reduce

from fusegen.ir.dtypes import DType, Kind, promote
from fusegen.ir.graph import Attributes, AttributeValue, Shape, TensorType
from fusegen.ir.integers import ONE, Integer, divide_exactly, product
from fusegen.ops.record import Inference, OperationError


class Accepts(Enum):
    """Which dtypes an operation takes; the value says it in an error message."""

    ANY = "tensors of any dtype"
    NUMBERS = "numbers, not truth values"
    FLOATS = "floating-point tensors"
    DISCRETE = "integers or truth values"
    SUMMANDS = "floating-point or int64 tensors"
    TRUTH = "truth values"

    def admits(self, dtype: DType) -> bool:
        """Whether `dtype` is among them."""
        if self is Accepts.ANY:
            return True
        if self in (Accepts.NUMBERS, Accepts.TRUTH):
            return (dtype.kind is Kind.BOOL) is (self is Accepts.TRUTH)
        if self is Accepts.SUMMANDS:
            return dtype.is_float or dtype is DType.INT64
        return dtype.is_float is (self is Accepts.FLOATS)


def require(operand: TensorType, accepts: Accepts) -> None:
    """Raise `OperationError` unless the operand's dtype is one the operation takes."""
    if accepts.admits(operand.dtype):
        return
    wanted = {Accepts.FLOATS: "float32", Accepts.NUMBERS: "int64"}.get(accepts, "bool")
    raise OperationError(
        f"this operation takes {accepts.value}, and got {operand}",
        f"convert it first: to(x, {wanted})"
        + ("; a power is written x ** y" if accepts is Accepts.DISCRETE else ""),
    )


def show(shape: Iterable[Integer]) -> str:
    """A shape as the user would write it: `[batch, 64]`."""
    return f"[{', '.join(str(size) for size in shape)}]"


def shape_of(sizes: Iterable[Integer | int]) -> Shape:
    """A shape from symbolic sizes and ints."""
    return tuple(Integer.of(size) for size in sizes)


def broadcast(shapes: Sequence[Shape]) -> Shape:
    """The shape that all `shapes` broadcast to by NumPy's rule: aligned at the last dim, where
    sizes are equal or 1. A symbolic size matches only itself and 1."""
    result: list[Integer] = []
    for position in range(1, max((len(shape) for shape in shapes), default=0) + 1):
        size = ONE
        for shape in shapes:
            if position > len(shape) or shape[-position] == ONE:
                continue
            if size == ONE:
                size = shape[-position]
            elif size != shape[-position]:
                first, *others = dict.fromkeys(show(s) for s in shapes if len(s) >= position)
                raise OperationError(
                    f"shapes {first} and {' and '.join(others)} do not broadcast: "
                    f"{size} against {shape[-position]} at dim -{position}",
                    "sizes must be equal, or one of them 1",
                )
        result.append(size)
    return tuple(reversed(result))


def result_dtype(types: Sequence[TensorType]) -> DType:
    """PyTorch's `result_type`: a scalar (rank 0) counts only where its kind is the higher."""
    tensors = [t.dtype for t in types if t.rank]
    scalars = [t.dtype for t in types if not t.rank]
    if not tensors or not scalars:
        return reduce(promote, tensors or scalars)
    tensor, scalar = reduce(promote, tensors), reduce(promote, scalars)
    return promote(tensor, scalar) if scalar.kind.value > tensor.kind.value else tensor


def elementwise(accepts: Accepts = Accepts.ANY, result: DType | None = None) -> Inference:
    """The inference of an elementwise operation whose operands broadcast and whose result has the
    promoted dtype, or the one given."""

    def infer(types: tuple[TensorType, ...], _: Attributes) -> TensorType:
        promoted = TensorType(broadcast([t.shape for t in types]), result_dtype(types))
        require(promoted, accepts)
        return TensorType(promoted.shape, result or promoted.dtype)

    return infer


def normal_dim(dim: int, rank: int) -> int:
    """The dim counted from 0; a negative one counts from the end."""
    limit = max(rank, 1)
    if not -limit <= dim < limit:
        raise OperationError(
            f"dim {dim} is out of range for a tensor of rank {rank}",
            f"it must be from {-limit} to {limit - 1}",
        )
    return dim % limit


def dim_to_cut(name: str, dim: int, rank: int) -> int:
    """The dim that `name` takes a part of, counted from 0: a scalar has none."""
    if not rank:
        raise OperationError(f"{name} takes a part of a dim, and a scalar has none")
    return normal_dim(dim, rank)


def normal_dims(dims: AttributeValue, rank: int) -> tuple[int, ...]:
    """The reduced dims, sorted and counted from 0; None and the empty tuple stand for all."""
    if dims is None or dims == ():
        return tuple(range(rank))
    items = dims if isinstance(dims, tuple) else (dims,)
    found = [normal_dim(dim, rank) for dim in items if isinstance(dim, int)]
    if len(set(found)) < len(found):
        raise OperationError(f"a dim stands twice in {items}")
    return tuple(sorted(found)) if rank else ()


def reduced_shape(shape: Shape, dims: tuple[int, ...], keepdim: bool) -> Shape:
    """The shape after reducing `dims`, which stay as 1s with `keepdim`."""
    if keepdim:
        return tuple(ONE if i in dims else size for i, size in enumerate(shape))
    return tuple(size for i, size in enumerate(shape) if i not in dims)


def complete_shape(shape: Shape, wanted: tuple[Integer, ...]) -> Shape:
    """The shape to reshape `shape` to, with a -1 in `wanted` worked out from the element count."""
    free = [i for i, size in enumerate(wanted) if size == Integer.of(-1)]
    count = product(shape)
    if len(free) > 1:
        raise OperationError(f"only one size may be -1 in {show(wanted)}")
    if free:
        rest = product(size for i, size in enumerate(wanted) if i != free[0])
        size = divide_exactly(count, rest) if rest.terms else None
        if size is not None:
            return (*wanted[: free[0]], size, *wanted[free[0] + 1 :])
    elif product(wanted) == count:
        return wanted
    raise OperationError(
        f"{show(shape)} cannot be reshaped to {show(wanted)}: the number of elements differs",
        f"{show(shape)} has {count} elements",
    )


def require_window(size: Integer, input: TensorType) -> Integer:
    """The number of windows along a dim, which must not be known to be below 1."""
    if size.constant is not None and size.constant < 1:
        raise OperationError(
            f"the window is larger than the padded input {show(input.shape)}",
            "use a smaller kernel or more padding",
        )
    return size


def like_operand(operand: int) -> Inference:
    """The inference of a result that has the type of one operand, as a gradient has."""

    def infer(types: tuple[TensorType, ...], _: Attributes) -> TensorType:
        return types[operand]

    return infer
