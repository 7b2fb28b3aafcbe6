"""The lists of autocast against PyTorch: the dtype of every operation's result on both devices.

PyTorch imitates a GPU's operations without one (FakeTensorMode), its autocast among them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from torch._subclasses.fake_tensor import FakeTensorMode

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Graph, Node, Output, TensorType
from fusegen.ops.autocast import POLICIES, Device
from fusegen.ops.composite import dropout
from fusegen.ops.construct import call
from fusegen.ops.pointwise.arithmetic import DIVIDE
from fusegen.ops.record import OperationError, Record
from fusegen.ops.registry import FUNCTIONS
from fusegen.passes.autocast import Autocast, autocast
from tests.ops.examples import Example, build_node, examples_for, fixed, placeholder, torch_dtype
from tests.reference import evaluate

pytestmark = pytest.mark.filterwarnings("ignore")
RECORDS = [
    *(
        record
        for name, record in FUNCTIONS.items()
        if isinstance(record, Record) and not name.startswith("bitwise_")  # of integers only
    ),
    *dropout.RECORDS,
]
each_device = pytest.mark.parametrize("device", Device, ids=lambda device: device.value)


@contextmanager
def autocasting(device: Device, dtype: DType) -> Iterator[None]:
    """Autocast on a device that need not be there."""
    before = torch.get_autocast_dtype(device.value)
    torch.set_autocast_enabled(device.value, True)
    torch.set_autocast_dtype(device.value, torch_dtype(dtype))
    try:
        yield
    finally:
        torch.set_autocast_enabled(device.value, False)
        torch.set_autocast_dtype(device.value, before)


def dtype_in_pytorch(
    node: Node, dtypes: Mapping[Node, DType], sizes: Mapping[str, int], context: Autocast
) -> torch.dtype:
    """The dtype that PyTorch's operation has, given inputs of these dtypes."""
    with FakeTensorMode(), autocasting(context.device, context.dtype):
        values = {
            x: torch.empty(
                [size.evaluate(sizes) for size in x.shape],
                dtype=torch_dtype(dtype),
                device=context.device.value,
            )
            for x, dtype in dtypes.items()
        }
        (result,) = evaluate((node,), values, sizes)
        return result.dtype


def compare(
    node: Node, inputs: tuple[Node, ...], sizes: Mapping[str, int], context: Autocast
) -> None:
    graph = autocast(Graph("one", inputs, (), (Output("y", node),)), context)
    dtypes = {x: y.dtype for x, y in zip(inputs, graph.inputs, strict=True)}
    found = graph.outputs[0].node.dtype
    assert dtype_in_pytorch(node, dtypes, sizes, context) is torch_dtype(found)


def in_float32(example: Example) -> Example:
    """All floating-point operands in float32."""
    operands = tuple(
        replace(x, dtype=DType.FLOAT32) if isinstance(x, TensorType) and x.dtype.is_float else x
        for x in example.operands
    )
    return replace(example, operands=operands)


@each_device
@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.name)
@settings(max_examples=8, suppress_health_check=[HealthCheck.filter_too_much])
@given(data=st.data(), dtype=st.sampled_from([DType.BFLOAT16, DType.FLOAT16]))
def test_result_has_the_dtype_that_pytorch_gives_it(
    device: Device, record: Record, data: st.DataObject, dtype: DType
) -> None:
    example = data.draw(examples_for(record).map(in_float32))
    node, inputs = build_node(record, example)
    floats = [i for i, x in enumerate(inputs) if x.dtype.is_float]
    # Where PyTorch's function takes no number, the twin hands it one as a float32 scalar, which
    # counts beside other scalars.
    assume(floats and (record.name not in ("maximum", "minimum") or inputs[floats[0]].shape))
    low = data.draw(st.sampled_from([(), tuple(floats), tuple(floats[:1])]))
    try:
        compare(node, inputs, example.sizes, Autocast(device, dtype, low))
    except OperationError:
        # What the language refuses is left to PyTorch, which may convert it.
        assert 0 < len(low) < len(floats)


@each_device
@pytest.mark.parametrize("low", [(), (0,)])
def test_number_divided_by_a_tensor(device: Device, low: tuple[int, ...]) -> None:
    x = placeholder(fixed((4,), DType.FLOAT32))
    compare(call(DIVIDE, (2.0, x)), (x,), {}, Autocast(device, DType.BFLOAT16, low))


def test_lists_name_functions_of_the_language() -> None:
    for policies in POLICIES.values():
        assert policies.keys() <= FUNCTIONS.keys()
