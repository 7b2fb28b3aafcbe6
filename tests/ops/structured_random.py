"""Example arguments of operations that are random, given a seed."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from hypothesis import strategies as st

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import AttributeValue
from fusegen.ops.composite import dropout
from fusegen.ops.primitive import random_numbers
from fusegen.ops.record import Record
from tests.ops.examples import FLOATS, Example, Examples, fixed, shapes, typed

SEED = fixed((), DType.INT64)


@st.composite
def dropped(draw: st.DrawFn, record: Record) -> Example:
    rank = {"dropout1d": 3, "dropout2d": 4, "dropout3d": 5}.get(record.name)
    shape = draw(shapes() if rank is None else shapes(min_rank=rank, max_rank=rank))
    x, sizes = draw(typed(shape, draw(st.sampled_from(FLOATS))))
    attributes: dict[str, AttributeValue] = {
        "p": draw(st.sampled_from([0.5, 0.1, 0.9, 1.0])),
        "number": draw(st.sampled_from([0, 3])),
        "mask_rank": rank and 2,
    }
    return Example((x, SEED), attributes, sizes)


@st.composite
def kept(draw: st.DrawFn) -> Example:
    position, sizes = draw(typed(draw(shapes()), DType.INT64))
    attributes: dict[str, AttributeValue] = {
        "threshold": draw(st.sampled_from([1 << 31, 1, (1 << 32) - 1])),
        "number": draw(st.sampled_from([0, 3])),
    }
    return Example((SEED, position), attributes, sizes)


RANDOM: Mapping[Record, Examples] = {
    random_numbers.POSITIONS: lambda: shapes().map(lambda shape: Example((), {"shape": shape})),
    random_numbers.KEPT: kept,
    **{record: partial(dropped, record) for record in dropout.RECORDS},
}
