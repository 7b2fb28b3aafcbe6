"""The kernels of every operation record against its PyTorch twin in float64."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
import torch
from hypothesis import Phase, given, settings
from hypothesis.strategies import SearchStrategy

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Graph, Node, Output, TensorType
from fusegen.ops.primitive import reductions
from fusegen.ops.record import Record
from fusegen.plan.kernels.convolution import ConvolutionPlan
from fusegen.plan.kernels.library import LibraryPlan
from fusegen.plan.kernels.product import ProductPlan
from fusegen.testing.layouts import Layout, laid_out
from tests.accuracy import VARIED_LAYOUTS, Measured, assert_within, measure
from tests.emulated import Kernels, build
from tests.ops.examples import DIVISIONS, Example, build_node, examples_for, torch_dtype, values_for
from tests.ops.test_records import NORMALIZATIONS, RECORDS, by_name
from tests.reference import evaluate

pytestmark = pytest.mark.filterwarnings("ignore")

EXAMPLES = 10


def drawn(strategy: SearchStrategy[Example], count: int) -> list[Example]:
    """The first examples of a strategy: the same ones in every run."""
    found: list[Example] = []

    @settings(max_examples=count, database=None, phases=[Phase.generate], derandomize=True)
    @given(strategy)
    def collect(example: Example) -> None:
        found.append(example)

    collect()
    return found


def one_operation(record: Record, example: Example) -> Graph:
    node, inputs = build_node(record, example)
    return Graph("one", inputs, (), (Output("y", node),))


def eager_in(
    dtype: DType, record: Record, example: Example, values: Mapping[Node, torch.Tensor]
) -> torch.Tensor:
    """What PyTorch makes of the example with all floating-point tensors in another dtype."""

    def converted(operand: object) -> object:
        floating = isinstance(operand, TensorType) and operand.dtype.is_float
        return replace(operand, dtype=dtype) if floating else operand  # type: ignore[type-var]

    operands = tuple(converted(operand) for operand in example.operands)
    attributes = {
        name: dtype if isinstance(given, DType) and given.is_float else given
        for name, given in example.attributes.items()
    }
    node, inputs = build_node(record, replace(example, operands=operands, attributes=attributes))  # type: ignore[arg-type]
    tensors = [v.to(torch_dtype(i.dtype)) for i, v in zip(inputs, values.values(), strict=True)]
    (result,) = evaluate((node,), dict(zip(inputs, tensors, strict=True)), example.sizes)
    return result


def check_example(
    record: Record, example: Example, graph: Graph, kernels: Kernels
) -> list[Measured]:
    """Run one example's kernels on tensors of every layout, special values in every other."""
    (node,) = graph.roots
    # What a library makes of special values and layouts is PyTorch's own concern, and varies.
    is_library = any(isinstance(step, LibraryPlan) for step in kernels.plan.steps)
    layouts = [Layout.CONTIGUOUS] if is_library else VARIED_LAYOUTS
    special = graph.inputs[:1] if record in NORMALIZATIONS else graph.inputs
    if record is reductions.MEAN:
        special = ()  # NaN where an element is infinite, as from Welford's recurrence
    measured = []
    for turn in range(len(layouts)):
        values = values_for(
            graph.inputs,
            example.sizes,
            seed=turn,
            special=special if turn % 2 else (),
            zeros=record.name not in DIVISIONS,
        )
        for position, operand in enumerate(graph.inputs):
            if operand.dtype is DType.FLOAT64:  # so that float32 has the same inputs
                values[operand] = values[operand].float().double()
            layout = layouts[(turn + position) % len(layouts)]
            values[operand] = laid_out(values[operand], layout)
        (actual,) = kernels(*values.values(), seed=turn, check=True)
        (eager,) = evaluate((node,), values, example.sizes)
        exact, single = (
            eager_in(dtype, record, example, values) for dtype in (DType.FLOAT64, DType.FLOAT32)
        )
        terms = None
        if any(isinstance(s, (ConvolutionPlan, ProductPlan)) for s in kernels.plan.steps):
            unsigned = {operand: tensor.abs() for operand, tensor in values.items()}
            terms = eager_in(DType.FLOAT64, record, example, unsigned)
        if record is reductions.MEAN:
            # A mean of numbers of both signs cancels: its error is one of the terms, which are
            # smaller than 4, by a rounding of each of the four steps that make it.
            allowed = 4 * 4 * torch.finfo(actual.dtype).eps
            torch.testing.assert_close(actual, exact.to(actual.dtype), rtol=0, atol=allowed)
        else:
            measured.append(measure(actual, eager, exact, single, terms=terms))
    return measured


@pytest.mark.parametrize("record", by_name(RECORDS))
def test_kernels_of_every_record(record: Record) -> None:
    examples = drawn(examples_for(record), EXAMPLES)
    graphs = [one_operation(record, example) for example in examples]
    measured: list[Measured] = []
    for example, graph, kernels in zip(examples, graphs, build(graphs, check=True), strict=True):
        measured += check_example(record, example, graph, kernels)
    assert_within(measured)
