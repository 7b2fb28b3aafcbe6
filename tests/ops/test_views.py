"""The coordinate maps of views, element by element."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fusegen.ir.integers import Integer
from fusegen.ops.primitive.views import EXPAND, PERMUTE, SLICE
from fusegen.ops.record import View
from tests.ops.examples import build_node, examples_for, torch_dtype
from tests.reference import evaluate


@pytest.mark.parametrize("record", [PERMUTE, EXPAND, SLICE], ids=lambda record: record.name)
@settings(max_examples=60)
@given(data=st.data())
def test_source_names_the_element_that_pytorch_takes(record: View, data: st.DataObject) -> None:
    example = data.draw(examples_for(record))
    node, (x,) = build_node(record, example)
    shape = [size.evaluate(example.sizes) for size in x.shape]
    value = torch.arange(torch.Size(shape).numel()).reshape(shape)
    fitting = value.to(torch_dtype(x.dtype))
    (result,) = evaluate((node,), {x: fitting}, example.sizes)
    for at in itertools.product(*(range(size) for size in result.shape)):
        coordinates = tuple(Integer.of(i) for i in at)
        source = record.source(node.attributes, x.shape, coordinates)
        place = tuple(i.evaluate(example.sizes) for i in source)
        assert result[at].item() == fitting[place].item()
