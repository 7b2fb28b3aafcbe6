"""Convolutions and poolings by PyTorch's names, which a library's kernels compute.

A convolution's bias is added apart, so that it can be fused with what follows.
"""

from __future__ import annotations

from fusegen.ir.graph import Attributes, Node
from fusegen.ops import build
from fusegen.ops.composite.define import composite
from fusegen.ops.composite.normalizations import group_size
from fusegen.ops.operands import unpack
from fusegen.ops.parameters import BIAS, INPUT, flag, integer, integers, tensor
from fusegen.ops.primitive import convolutions, poolings
from fusegen.ops.record import Composite, Decomposition, LibraryCall, OperationError


def for_each_dim(attributes: Attributes, name: str, rank: int) -> tuple[int, ...]:
    """A number for each spatial dim: those given, or the one given for all."""
    values = attributes.integers(name)
    if len(values) == 1:
        return values * rank
    if len(values) != rank:
        raise OperationError(f"{name} has {len(values)} numbers, and {rank} or one are needed")
    return values


def _require_at_least(name: str, least: int, values: tuple[int, ...]) -> tuple[int, ...]:
    if any(value < least for value in values):
        raise OperationError(f"{name} is {values}, and must be {least} or more")
    return values


def _batched(name: str, x: Node, rank: int) -> Node:
    """The input with a batch dim: it may be left out, as in PyTorch."""
    if x.type.rank == rank + 1:
        return build.reshape(x, (1, *x.shape))
    if x.type.rank != rank + 2:
        raise OperationError(
            f"{name} needs an input of rank {rank + 2}, and got {x.type}",
            f"dim 0 is the batch, dim 1 the channels, then {rank} spatial dims",
        )
    return x


def _unbatched(result: Node, x: Node) -> Node:
    return build.reshape(result, result.shape[1:]) if result.type.rank > x.type.rank else result


def _with_bias(result: Node, bias: Node | None) -> Node:
    if bias is None:
        return result
    if bias.shape != (result.shape[1],) or bias.dtype is not result.dtype:
        raise OperationError(
            f"bias is {bias.type}, and {result.dtype.value}[{result.shape[1]}] is needed"
        )
    return build.add(result, build.per_channel(result, bias))


def _weight(name: str, weight: Node | None, rank: int, groups: int) -> Node:
    assert weight is not None
    if weight.type.rank != rank + 2 or any(k.constant is None for k in weight.shape[2:]):
        raise OperationError(
            f"{name} needs a weight of rank {rank + 2} with a constant kernel size, "
            f"and got {weight.type}"
        )
    group_size(weight.shape[0], groups)
    return weight


def _same_padding(weight: Node, dilation: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """How many zeros PyTorch puts before and after each dim for padding='same'."""
    totals = [d * ((k.constant or 1) - 1) for d, k in zip(dilation, weight.shape[2:], strict=True)]
    return tuple((total // 2, total - total // 2) for total in totals)


def _convolution(rank: int) -> Decomposition:
    name = f"conv{rank}d"

    def decompose(operands: tuple[Node, ...], attributes: Attributes) -> Node:
        x, weight, bias = unpack(operands, attributes, "input", "weight", "bias")
        assert x is not None
        groups = attributes.integer("groups")
        weight = _weight(name, weight, rank, groups)
        stride = _require_at_least("stride", 1, for_each_dim(attributes, "stride", rank))
        dilation = _require_at_least("dilation", 1, for_each_dim(attributes, "dilation", rank))
        cut = (0,) * rank
        if attributes["padding"] == "same":
            if any(step != 1 for step in stride):
                raise OperationError("padding='same' needs a stride of 1")
            pairs = _same_padding(weight, dilation)
            padding = tuple(after for _, after in pairs)
            cut = tuple(after - before for before, after in pairs)
        elif attributes["padding"] == "valid":
            padding = (0,) * rank
        else:
            padding = _require_at_least("padding", 0, for_each_dim(attributes, "padding", rank))
        result = build.call(
            convolutions.CONVOLUTION,
            (_batched(name, x, rank), weight),
            stride=stride,
            padding=padding,
            dilation=dilation,
            transposed=False,
            output_padding=(0,) * rank,
            groups=groups,
        )
        for dim, surplus in enumerate(cut, start=2):
            result = build.take(result, dim, surplus, result.shape[dim])
        return _unbatched(_with_bias(result, bias), x)

    return decompose


def _transposed_convolution(rank: int) -> Decomposition:
    name = f"conv_transpose{rank}d"

    def decompose(operands: tuple[Node, ...], attributes: Attributes) -> Node:
        x, weight, bias = unpack(operands, attributes, "input", "weight", "bias")
        assert x is not None
        groups = attributes.integer("groups")
        weight = _weight(name, weight, rank, groups)
        stride = _require_at_least("stride", 1, for_each_dim(attributes, "stride", rank))
        dilation = _require_at_least("dilation", 1, for_each_dim(attributes, "dilation", rank))
        extra = for_each_dim(attributes, "output_padding", rank)
        if any(e >= max(s, d) for e, s, d in zip(extra, stride, dilation, strict=True)):
            raise OperationError(
                f"output_padding {extra} must be smaller than the stride {stride} or the "
                f"dilation {dilation}"
            )
        result = build.call(
            convolutions.CONVOLUTION,
            (_batched(name, x, rank), weight),
            stride=stride,
            padding=_require_at_least("padding", 0, for_each_dim(attributes, "padding", rank)),
            dilation=dilation,
            transposed=True,
            output_padding=_require_at_least("output_padding", 0, extra),
            groups=groups,
        )
        return _unbatched(_with_bias(result, bias), x)

    return decompose


def _conv(rank: int) -> Composite:
    return composite(
        f"conv{rank}d",
        (
            INPUT,
            tensor("weight"),
            BIAS,
            integers("stride", 1),
            integers("padding", 0, ("same", "valid")),
            integers("dilation", 1),
            integer("groups", 1),
        ),
        _convolution(rank),
        f"F.conv{rank}d({{input}}, {{weight}}, {{bias}}, stride={{stride}}, padding={{padding}}, "
        "dilation={dilation}, groups={groups})",
        f"The convolution over {rank} spatial dim{'s' if rank > 1 else ''}.",
    )


def _conv_transpose(rank: int) -> Composite:
    return composite(
        f"conv_transpose{rank}d",
        (
            INPUT,
            tensor("weight"),
            BIAS,
            integers("stride", 1),
            integers("padding", 0),
            integers("output_padding", 0),
            integer("groups", 1),
            integers("dilation", 1),
        ),
        _transposed_convolution(rank),
        f"F.conv_transpose{rank}d({{input}}, {{weight}}, {{bias}}, stride={{stride}}, "
        "padding={padding}, output_padding={output_padding}, groups={groups}, "
        "dilation={dilation})",
        f"The transposed convolution over {rank} spatial dim{'s' if rank > 1 else ''}.",
    )


def _pool(record: LibraryCall, rank: int) -> Decomposition:
    own = {parameter.name for parameter in record.parameters}

    def decompose(operands: tuple[Node, ...], attributes: Attributes) -> Node:
        (x,) = operands
        kernel = _require_at_least("kernel_size", 1, for_each_dim(attributes, "kernel_size", rank))
        given = attributes["stride"] is not None
        stride = for_each_dim(attributes, "stride", rank) if given else kernel
        windows = {
            "kernel_size": kernel,
            "stride": _require_at_least("stride", 1, stride),
            "padding": _require_at_least("padding", 0, for_each_dim(attributes, "padding", rank)),
        }
        if "dilation" in own:
            dilation = for_each_dim(attributes, "dilation", rank)
            windows["dilation"] = _require_at_least("dilation", 1, dilation)
        rest = {k: v for k, v in attributes.items() if k in own and k not in windows}
        result = build.call(record, (_batched(record.name, x, rank),), **windows, **rest)
        return _unbatched(result, x)

    return decompose


_STRIDE = integers("stride", None)


def _max_pool(rank: int) -> Composite:
    return composite(
        f"max_pool{rank}d",
        (
            INPUT,
            integers("kernel_size"),
            _STRIDE,
            integers("padding", 0),
            integers("dilation", 1),
            flag("ceil_mode"),
        ),
        _pool(poolings.MAX_POOLS[rank], rank),
        f"F.max_pool{rank}d({{input}}, {{kernel_size}}, stride={{stride}}, padding={{padding}}, "
        "dilation={dilation}, ceil_mode={ceil_mode})",
        f"The greatest element of each window of {rank} dim{'s' if rank > 1 else ''}; "
        "the stride is the window's size without one.",
    )


def _avg_pool(rank: int) -> Composite:
    divisor = (integer("divisor_override", None),) if rank > 1 else ()
    return composite(
        f"avg_pool{rank}d",
        (
            INPUT,
            integers("kernel_size"),
            _STRIDE,
            integers("padding", 0),
            flag("ceil_mode"),
            flag("count_include_pad", True),
            *divisor,
        ),
        _pool(poolings.AVG_POOLS[rank], rank),
        f"F.avg_pool{rank}d({{input}}, {{kernel_size}}, stride={{stride}}, padding={{padding}}, "
        "ceil_mode={ceil_mode}, count_include_pad={count_include_pad}"
        + (", divisor_override={divisor_override})" if divisor else ")"),
        f"The mean of each window of {rank} dim{'s' if rank > 1 else ''}; "
        "the stride is the window's size without one.",
    )


CONVOLUTIONS = {rank: _conv(rank) for rank in (1, 2, 3)}
TRANSPOSED_CONVOLUTIONS = {rank: _conv_transpose(rank) for rank in (1, 2, 3)}
MAX_POOLS = {rank: _max_pool(rank) for rank in (1, 2, 3)}
AVG_POOLS = {rank: _avg_pool(rank) for rank in (1, 2, 3)}

RECORDS = (
    *CONVOLUTIONS.values(),
    *TRANSPOSED_CONVOLUTIONS.values(),
    *MAX_POOLS.values(),
    *AVG_POOLS.values(),
)
