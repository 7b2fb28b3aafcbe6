"""Example arguments of views and joins."""

from __future__ import annotations

import math
from collections.abc import Mapping

from hypothesis import strategies as st

from fusegen.ir.dtypes import DType
from fusegen.ir.integers import Integer
from fusegen.ops.composite import views
from fusegen.ops.primitive import views as primitive_views
from fusegen.ops.record import Record
from tests.ops.examples import (
    Example,
    Examples,
    broadcastable,
    fixed,
    shapes,
    some_dims,
    typed,
)

any_dtype = st.sampled_from(list(DType))


@st.composite
def reshape(draw: st.DrawFn, *, infer: bool) -> Example:
    shape = draw(shapes(min_size=1))
    count = math.prod(shape)
    factor = draw(st.sampled_from([d for d in range(1, count + 1) if count % d == 0]))
    wanted = draw(st.sampled_from([(count,), (factor, count // factor), (1, count)]))
    if infer and draw(st.booleans()):
        wanted = (-1, *wanted[1:])
    return Example((fixed(shape, draw(any_dtype)),), {"shape": wanted})


@st.composite
def flatten(draw: st.DrawFn) -> Example:
    x, sizes = draw(typed(draw(shapes(min_rank=1)), draw(any_dtype)))
    start = draw(st.integers(0, x.rank - 1))
    end = draw(st.integers(start, x.rank - 1)) - draw(st.sampled_from([0, x.rank]))
    return Example((x,), {"start_dim": start, "end_dim": end}, sizes)


@st.composite
def unflatten(draw: st.DrawFn) -> Example:
    lead = draw(shapes(max_rank=2))
    return Example(
        (fixed((*lead, 6, 3), draw(any_dtype)),),
        {"dim": len(lead) - draw(st.sampled_from([0, len(lead) + 2])), "sizes": (2, -1)},
    )


@st.composite
def squeeze(draw: st.DrawFn) -> Example:
    shape = draw(shapes(max_size=2))
    dims = [st.none(), some_dims(len(shape))] if shape else [st.none()]
    return Example((fixed(shape, draw(any_dtype)),), {"dim": draw(st.one_of(dims))})


@st.composite
def unsqueeze(draw: st.DrawFn) -> Example:
    x, sizes = draw(typed(draw(shapes()), draw(any_dtype)))
    return Example((x,), {"dim": draw(st.integers(-x.rank - 1, x.rank))}, sizes)


@st.composite
def transpose(draw: st.DrawFn) -> Example:
    x, sizes = draw(typed(draw(shapes(min_rank=1)), draw(any_dtype)))
    dim = st.integers(-x.rank, x.rank - 1)
    return Example((x,), {"dim0": draw(dim), "dim1": draw(dim)}, sizes)


@st.composite
def permute(draw: st.DrawFn, *, negative: bool) -> Example:
    x, sizes = draw(typed(draw(shapes(min_rank=1)), draw(any_dtype)))
    order = draw(st.permutations(range(x.rank)))
    if negative and draw(st.booleans()):
        order = [dim - x.rank for dim in order]
    return Example((x,), {"dims": tuple(order)}, sizes)


@st.composite
def expand(draw: st.DrawFn, name: str) -> Example:
    wanted = draw(shapes(max_size=3))
    return Example((fixed(draw(broadcastable(wanted)), draw(any_dtype)),), {name: wanted})


@st.composite
def narrow(draw: st.DrawFn) -> Example:
    shape = draw(shapes(min_rank=1, min_size=1))
    dim = draw(st.integers(0, len(shape) - 1))
    start = draw(st.integers(0, shape[dim] - 1))
    length = draw(st.integers(0, shape[dim] - start))
    return Example((fixed(shape, draw(any_dtype)),), {"dim": dim, "start": start, "length": length})


@st.composite
def slices(draw: st.DrawFn) -> Example:
    example = draw(narrow())
    start, length = example.attributes["start"], example.attributes["length"]
    assert isinstance(start, int) and isinstance(length, int)
    return Example(
        example.operands,
        {
            "dim": example.attributes["dim"],
            "start": Integer.of(start),
            "stop": Integer.of(start + length),
            "step": draw(st.integers(1, 3)),
        },
    )


@st.composite
def joined(draw: st.DrawFn, *, mixed: bool, negative: bool, new_dim: bool = False) -> Example:
    shape = draw(shapes(min_rank=0 if new_dim else 1))
    rank = len(shape) + new_dim
    dim = draw(st.integers(0, rank - 1))
    dtypes = [draw(any_dtype)] * 3
    if mixed and draw(st.booleans()):
        dtypes = [draw(any_dtype) for _ in range(3)]
    sizes = [draw(st.integers(1, 3)) for _ in range(draw(st.integers(1, 3)))]
    operands = [
        fixed(shape if new_dim else (*shape[:dim], size, *shape[dim + 1 :]), dtype)
        for size, dtype in zip(sizes, dtypes, strict=False)
    ]
    signed = dim - rank if negative and draw(st.booleans()) else dim
    return Example(tuple(operands), {"dim": signed})


VIEWS: Mapping[Record, Examples] = {
    views.RESHAPE: lambda: reshape(infer=True),
    views.FLATTEN: flatten,
    views.UNFLATTEN: unflatten,
    views.SQUEEZE: squeeze,
    views.UNSQUEEZE: unsqueeze,
    views.TRANSPOSE: transpose,
    views.PERMUTE: lambda: permute(negative=True),
    views.EXPAND: lambda: expand("size"),
    views.NARROW: narrow,
    views.CAT: lambda: joined(mixed=True, negative=True),
    views.STACK: lambda: joined(mixed=True, negative=True, new_dim=True),
    primitive_views.PERMUTE: lambda: permute(negative=False),
    primitive_views.EXPAND: lambda: expand("shape"),
    primitive_views.SLICE: slices,
    primitive_views.RESHAPE: lambda: reshape(infer=False),
    primitive_views.CONCATENATION: lambda: joined(mixed=False, negative=False),
}
