"""Every record against PyTorch: types, decompositions, special values."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Graph, Output, topological
from fusegen.ops.composite import dropout
from fusegen.ops.composite.normalizations import RECORDS as NORMALIZATIONS
from fusegen.ops.record import Composite, Record
from fusegen.ops.registry import FUNCTIONS, PRIMITIVES
from fusegen.passes.decompose import decompose
from tests.ops.examples import DIVISIONS, Example, build_node, examples_for, torch_dtype, values_for
from tests.reference import evaluate

pytestmark = pytest.mark.filterwarnings("ignore")

FUNCTION_RECORDS = (f for f in FUNCTIONS.values() if isinstance(f, Record))
RECORDS = tuple(dict.fromkeys((*PRIMITIVES, *FUNCTION_RECORDS, *dropout.RECORDS)))


def by_name(records: Iterable[Record]) -> list[object]:
    """Test parameters named by operation; a composite is told from its primitive."""
    return [pytest.param(r, id=f"{r.name}-{type(r).__name__.lower()}") for r in records]


def decomposed(record: Record, example: Example) -> tuple[Graph, Graph]:
    """A graph of one operation, and what it decomposes into."""
    node, inputs = build_node(record, example)
    graph = Graph("one", inputs, (), (Output("y", node),))
    return graph, decompose(graph)


@pytest.mark.parametrize("record", by_name(RECORDS))
@settings(max_examples=25)
@given(data=st.data(), seed=st.integers(0, 1000))
def test_result_has_the_type_that_pytorch_gives_it(
    record: Record, data: st.DataObject, seed: int
) -> None:
    example = data.draw(examples_for(record))
    node, inputs = build_node(record, example)
    values = values_for(inputs, example.sizes, seed, zeros=record.name not in DIVISIONS)
    (result,) = evaluate((node,), values, example.sizes)
    assert result.dtype is torch_dtype(node.dtype)
    assert list(result.shape) == [size.evaluate(example.sizes) for size in node.shape]


def unit(dtype: DType) -> float:
    """Half the distance from 1 to the next number of the dtype."""
    return torch.finfo(torch_dtype(dtype)).eps / 2


def assert_close(actual: torch.Tensor, expected: torch.Tensor, roundings: float) -> None:
    """Equal, infinities and NaN included, but for `roundings` roundings to the dtype relative to
    the greatest finite element."""
    assert actual.dtype is expected.dtype and actual.shape == expected.shape
    if not expected.dtype.is_floating_point:
        assert torch.equal(actual, expected)
        return
    finite = expected.isfinite()
    assert torch.equal(finite, actual.isfinite())
    assert torch.equal(expected[~finite].nan_to_num(2.0), actual[~finite].nan_to_num(2.0))
    if finite.any():
        scale = expected[finite].abs().max().clamp(min=1.0).item()
        error = (actual[finite].double() - expected[finite].double()).abs().max().item()
        assert error <= roundings * torch.finfo(expected.dtype).eps / 2 * scale


COMPOSITES = by_name(r for r in RECORDS if isinstance(r, Composite))


def evaluated(
    record: Record, example: Example, seed: int, special: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """What an operation gives, and what its decomposition gives."""
    graph, plain = decomposed(record, example)
    assert not any(isinstance(n.operation, Composite) for n in topological(plain.roots))
    assert plain.outputs[0].node.type == graph.outputs[0].node.type
    zeros = record.name not in DIVISIONS
    # PyTorch's norms fold the weight into the deviation and the bias into the mean, which is
    # another value where those are infinite.
    chosen = graph.inputs[:1] if record in NORMALIZATIONS else graph.inputs
    values = values_for(
        graph.inputs, example.sizes, seed, special=chosen if special else (), zeros=zeros
    )
    (expected,) = evaluate(graph.roots, values, example.sizes)
    (actual,) = evaluate(plain.roots, values, example.sizes)
    return actual, expected


# No sum here has more than 5^4 terms, none larger than a few units: PyTorch and the decomposition
# each make at most that many roundings, and a norm's division by a small deviation (never below
# sqrt(eps) = 0.003) amplifies them 300 times.
ROUNDINGS = 2 * 625 * 300


@pytest.mark.parametrize("record", COMPOSITES)
@settings(max_examples=30)
@given(data=st.data(), seed=st.integers(0, 1000))
def test_decomposition_equals_pytorch(record: Record, data: st.DataObject, seed: int) -> None:
    example = data.draw(examples_for(record).filter(in_double))
    actual, expected = evaluated(record, example, seed, special=False)
    assert_close(actual, expected, ROUNDINGS)


def in_double(example: Example) -> bool:
    """Whether no operand is of a narrower floating-point dtype than float64."""
    dtypes = [o.dtype for o in example.operands if hasattr(o, "dtype")]
    return not any(d.is_float and d is not DType.FLOAT64 for d in dtypes)


@pytest.mark.parametrize("record", COMPOSITES)
@settings(max_examples=30)
@given(data=st.data(), seed=st.integers(0, 1000))
def test_decomposition_treats_special_values_as_pytorch(
    record: Record, data: st.DataObject, seed: int
) -> None:
    example = data.draw(examples_for(record).filter(in_double))
    actual, expected = evaluated(record, example, seed, special=True)
    assert_close(actual, expected, ROUNDINGS)
