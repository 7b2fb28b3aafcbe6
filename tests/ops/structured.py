"""Example arguments of the operations whose operands' shapes depend on each other."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from hypothesis import strategies as st

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import AttributeValue
from fusegen.ops.composite import arithmetic, library, normalizations, products, reductions
from fusegen.ops.composite.softmax import LOG_SOFTMAX, SOFTMAX
from fusegen.ops.primitive import convolutions, poolings
from fusegen.ops.primitive import products as primitive_products
from fusegen.ops.record import Record
from tests.ops.examples import (
    FLOATS,
    Example,
    Examples,
    broadcastable,
    fixed,
    shapes,
    some_dims,
    typed,
)
from tests.ops.structured_random import RANDOM
from tests.ops.structured_views import VIEWS

NUMBERS = tuple(dtype for dtype in DType if dtype is not DType.BOOL)
float_dtypes = st.sampled_from(FLOATS)
any_dtype = st.sampled_from(list(DType))
number_dtypes = st.sampled_from(NUMBERS)


@st.composite
def two_operands(draw: st.DrawFn, record: Record, attributes: Mapping[str, object]) -> Example:
    """Two tensors that broadcast, or a tensor and a number."""
    dtype = draw(float_dtypes if draw(st.booleans()) else st.just(DType.INT32))
    shape = draw(shapes())
    second = draw(st.sampled_from([None, 2, 0.5, -1, 3]))
    drawn: dict[str, AttributeValue] = {}
    for name, strategy in attributes.items():
        assert isinstance(strategy, st.SearchStrategy)
        drawn[name] = draw(strategy)
    if record is arithmetic.POW and dtype is DType.INT32 and second == -1:
        second = 2
    other = fixed(draw(broadcastable(shape)), dtype) if second is None else second
    return Example((fixed(shape, dtype), other), drawn)


@st.composite
def clamp(draw: st.DrawFn) -> Example:
    shape = draw(shapes(min_rank=1))
    dtype = draw(number_dtypes)
    if draw(st.booleans()):
        least, greatest = draw(st.sampled_from([(0, 1), (None, 1), (0, None), (2, 1), (1.5, 2.5)]))
        return Example((fixed(shape, dtype), least, greatest))
    bound = fixed(shape, dtype)
    return Example((bound, bound, draw(st.sampled_from([bound, None]))))


@st.composite
def rounding(draw: st.DrawFn) -> Example:
    dtype = draw(st.sampled_from([DType.FLOAT32, DType.FLOAT64]))
    return Example((fixed(draw(shapes()), dtype),), {"decimals": draw(st.integers(-1, 2))})


@st.composite
def reduced(
    draw: st.DrawFn,
    dtypes: st.SearchStrategy[DType],
    *,
    several: bool = True,
    all_dims: bool = True,
    **others: st.SearchStrategy[AttributeValue],
) -> Example:
    """One tensor with elements; a dim, several or none given; negative ones too."""
    shape = draw(shapes(min_size=1))
    operand, sizes = draw(typed(shape, draw(dtypes)))
    rank = len(shape)
    choices: list[st.SearchStrategy[AttributeValue]] = [
        st.integers(-max(rank, 1), max(rank, 1) - 1)
    ]
    if several and rank:
        choices.append(some_dims(rank))
    if all_dims:
        choices.append(st.none())
    attributes = {"dim": draw(st.one_of(choices)), "keepdim": draw(st.booleans())}
    attributes |= {name: draw(strategy) for name, strategy in others.items()}
    return Example((operand,), attributes, sizes)


@st.composite
def spread(draw: st.DrawFn) -> Example:
    unbiased, correction = draw(
        st.sampled_from([(True, None), (False, None), (True, 0), (True, 2.5)])
    )
    example = draw(reduced(float_dtypes))
    attributes = {**example.attributes, "unbiased": unbiased, "correction": correction}
    return Example(example.operands, attributes, example.sizes)


@st.composite
def softmax(draw: st.DrawFn) -> Example:
    example = draw(reduced(float_dtypes, several=False, all_dims=False))
    dtype = draw(st.sampled_from([None, None, DType.FLOAT64]))
    return Example(
        example.operands, {"dim": example.attributes["dim"], "dtype": dtype}, example.sizes
    )


@st.composite
def last_dims_norm(draw: st.DrawFn, *, bias: bool) -> Example:
    lead, normal = draw(shapes(max_rank=2)), draw(shapes(min_rank=1, max_rank=2, min_size=1))
    dtype = draw(float_dtypes)
    vector = fixed(normal, dtype)
    affine = [draw(st.sampled_from([vector, None])) for _ in range(1 + bias)]
    return Example(
        (fixed((*lead, *normal), dtype), *affine),
        {"normalized_shape": normal, "eps": draw(st.sampled_from([1e-5, 1e-2]))},
    )


@st.composite
def channel_norm(draw: st.DrawFn, record: Record) -> Example:
    groups = draw(st.sampled_from([1, 2, 3]))
    channels = groups * draw(st.integers(1, 2))
    batch = draw(st.integers(0 if record is normalizations.GROUP_NORM else 2, 3))
    spatial = draw(shapes(min_rank=1, max_rank=2, min_size=2))
    dtype = draw(float_dtypes)
    x, vector = fixed((batch, channels, *spatial), dtype), fixed((channels,), dtype)
    weight, bias = (draw(st.sampled_from([vector, None])) for _ in range(2))
    eps = {"eps": draw(st.sampled_from([1e-5, 1e-2]))}
    if record is normalizations.GROUP_NORM:
        return Example((x, weight, bias), {"num_groups": groups, **eps})
    if record is normalizations.BATCH_NORM and draw(st.booleans()):
        return Example((x, vector, vector, weight, bias), eps)
    training = {"training": True} if record is normalizations.BATCH_NORM else {}
    return Example((x, None, None, weight, bias), {**training, **eps})


@st.composite
def matmul(draw: st.DrawFn) -> Example:
    dtype = draw(number_dtypes)
    size = st.integers(0, 4)
    rows, inner, columns = draw(size), draw(size), draw(size)
    batch = draw(shapes(max_rank=2, max_size=3))
    left = (*draw(broadcastable(batch)), rows, inner) if draw(st.booleans()) else (inner,)
    right = (*draw(broadcastable(batch)), inner, columns) if draw(st.booleans()) else (inner,)
    return Example((fixed(left, dtype), fixed(right, dtype)))


@st.composite
def plain_product(draw: st.DrawFn, *, batched: bool | None) -> Example:
    dtype = draw(number_dtypes)
    size = st.integers(1, 4)
    rows, inner, columns, batch = (draw(size) for _ in range(4))
    with_batch = draw(st.booleans()) if batched is None else batched
    lead = (batch,) if with_batch else ()
    return Example((fixed((*lead, rows, inner), dtype), fixed((*lead, inner, columns), dtype)))


@st.composite
def plus_product(draw: st.DrawFn, *, batched: bool) -> Example:
    product = draw(plain_product(batched=batched))
    left, right = product.operands
    assert not isinstance(left, (bool, int, float)) and left is not None
    assert not isinstance(right, (bool, int, float)) and right is not None
    sizes = [size.evaluate({}) for size in (*left.shape[:-1], right.shape[-1])]
    own = draw(broadcastable(tuple(sizes)))
    factors = st.sampled_from([0, 1, 2] + ([0.5] if left.dtype.is_float else []))
    return Example(
        (fixed(own, left.dtype), left, right), {"beta": draw(factors), "alpha": draw(factors)}
    )


@st.composite
def linear(draw: st.DrawFn) -> Example:
    dtype = draw(float_dtypes)
    inputs, outputs = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    lead = draw(shapes(max_rank=3, max_size=3))
    bias = draw(st.sampled_from([fixed((outputs,), dtype), None]))
    return Example((fixed((*lead, inputs), dtype), fixed((outputs, inputs), dtype), bias))


@st.composite
def convolution(draw: st.DrawFn, rank: int, *, transposed: bool) -> Example:
    dtype = draw(st.sampled_from([DType.FLOAT32, DType.FLOAT64]))
    groups = draw(st.sampled_from([1, 2]))
    inputs, outputs = groups * draw(st.integers(1, 2)), groups * draw(st.integers(1, 2))
    kernel = [draw(st.integers(1, 3)) for _ in range(rank)]
    sizes = [draw(st.integers(5, 6)) for _ in range(rank)]
    stride, dilation = draw(st.sampled_from([1, 2])), draw(st.sampled_from([1, 2]))
    x = fixed((*draw(st.sampled_from([(), (2,)])), inputs, *sizes), dtype)
    channels = (inputs, outputs // groups) if transposed else (outputs, inputs // groups)
    bias = draw(st.sampled_from([fixed((outputs,), dtype), None]))
    attributes: dict[str, AttributeValue] = {
        "stride": (stride,) * rank,
        "dilation": dilation,
        "groups": groups,
        "padding": draw(st.sampled_from([0, 1])),
    }
    if transposed:
        attributes["output_padding"] = draw(st.integers(0, max(stride, dilation) - 1))
    elif draw(st.booleans()):
        attributes["padding"] = "valid" if stride > 1 else "same"
    return Example((x, fixed((*channels, *kernel), dtype), bias), attributes)


@st.composite
def primitive_convolution(draw: st.DrawFn) -> Example:
    rank, transposed = draw(st.integers(1, 3)), draw(st.booleans())
    example = draw(convolution(rank, transposed=transposed))
    x, weight, bias = example.operands
    assert not isinstance(x, (bool, int, float)) and x is not None
    x = x if x.rank == rank + 2 else fixed((1, *(s.evaluate({}) for s in x.shape)), x.dtype)
    stride = example.attributes["stride"]
    padding = example.attributes["padding"]
    return Example(
        (x, weight, bias),
        {
            "stride": stride,
            "padding": ((0 if isinstance(padding, str) else padding),) * rank,
            "dilation": (example.attributes["dilation"],) * rank,
            "transposed": transposed,
            "output_padding": (example.attributes.get("output_padding", 0),) * rank,
            "groups": example.attributes["groups"],
        },
    )


@st.composite
def pooling(draw: st.DrawFn, rank: int, *, maximum: bool, complete: bool = False) -> Example:
    dtype = draw(st.sampled_from([DType.FLOAT32, DType.FLOAT64]))
    kernel = draw(st.integers(1, 3))
    sizes = [draw(st.integers(3, 6)) for _ in range(rank)]
    lead = (2, 2) if complete else draw(st.sampled_from([(2,), (1, 2)]))
    stride = draw(st.sampled_from([1, 2, 3] + ([] if complete else [None])))
    attributes: dict[str, AttributeValue] = {
        "kernel_size": kernel,
        "stride": stride,
        "padding": draw(st.integers(0, kernel // 2)),
        "ceil_mode": draw(st.booleans()),
    }
    if maximum:
        attributes["dilation"] = 1
    else:
        attributes["count_include_pad"] = draw(st.booleans())
        if rank > 1:
            attributes["divisor_override"] = draw(st.sampled_from([None, 3]))
    if complete:
        windows = {"kernel_size", "stride", "padding", "dilation"} & attributes.keys()
        attributes |= {name: (attributes[name],) * rank for name in windows}
    return Example((fixed((*lead, *sizes), dtype),), attributes)


ALPHA = {"alpha": st.sampled_from([1, 2])}
ROUNDING = {"rounding_mode": st.sampled_from([None, "floor", "trunc"])}
SUM_DTYPE = st.sampled_from([None, None, DType.FLOAT64])

STRUCTURED: Mapping[Record, Examples] = {
    arithmetic.ADD: lambda: two_operands(arithmetic.ADD, ALPHA),
    arithmetic.SUB: lambda: two_operands(arithmetic.SUB, ALPHA),
    arithmetic.DIV: lambda: two_operands(arithmetic.DIV, ROUNDING),
    arithmetic.POW: lambda: two_operands(arithmetic.POW, {}),
    arithmetic.CLAMP: clamp,
    arithmetic.ROUND: rounding,
    reductions.SUM: lambda: reduced(any_dtype, dtype=SUM_DTYPE),
    reductions.MEAN: lambda: reduced(float_dtypes, dtype=SUM_DTYPE),
    reductions.AMAX: partial(reduced, any_dtype, all_dims=False),
    reductions.AMIN: partial(reduced, any_dtype, all_dims=False),
    reductions.PROD: lambda: reduced(any_dtype, several=False, dtype=SUM_DTYPE).filter(
        lambda e: e.attributes["dim"] is not None or not e.attributes["keepdim"]
    ),
    reductions.ARGMAX: partial(reduced, number_dtypes, several=False),
    reductions.ARGMIN: partial(reduced, number_dtypes, several=False),
    reductions.ANY: partial(reduced, any_dtype),
    reductions.ALL: partial(reduced, any_dtype),
    reductions.VAR: spread,
    reductions.STD: spread,
    reductions.NORM: lambda: reduced(
        float_dtypes, p=st.sampled_from([0, 1, 2, 3, float("inf"), -float("inf")])
    ),
    reductions.LOGSUMEXP: lambda: reduced(any_dtype, all_dims=False),
    SOFTMAX: softmax,
    LOG_SOFTMAX: softmax,
    normalizations.LAYER_NORM: lambda: last_dims_norm(bias=True),
    normalizations.RMS_NORM: lambda: last_dims_norm(bias=False),
    normalizations.GROUP_NORM: lambda: channel_norm(normalizations.GROUP_NORM),
    normalizations.BATCH_NORM: lambda: channel_norm(normalizations.BATCH_NORM),
    normalizations.INSTANCE_NORM: lambda: channel_norm(normalizations.INSTANCE_NORM),
    products.MATMUL: matmul,
    products.BMM: lambda: plain_product(batched=True),
    products.ADDMM: lambda: plus_product(batched=False),
    products.BADDBMM: lambda: plus_product(batched=True),
    products.LINEAR: linear,
    primitive_products.MATRIX_PRODUCT: lambda: plain_product(batched=None),
    **VIEWS,
    **RANDOM,
    convolutions.CONVOLUTION: primitive_convolution,
    **{r: partial(convolution, n, transposed=False) for n, r in library.CONVOLUTIONS.items()},
    **{
        r: partial(convolution, n, transposed=True)
        for n, r in library.TRANSPOSED_CONVOLUTIONS.items()
    },
    **{r: partial(pooling, n, maximum=True) for n, r in library.MAX_POOLS.items()},
    **{r: partial(pooling, n, maximum=False) for n, r in library.AVG_POOLS.items()},
    **{r: partial(pooling, n, maximum=True, complete=True) for n, r in poolings.MAX_POOLS.items()},
    **{r: partial(pooling, n, maximum=False, complete=True) for n, r in poolings.AVG_POOLS.items()},
}
