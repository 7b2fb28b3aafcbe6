"""The backward where nothing is made of some outputs: what they would add is left out, not 0."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from fusegen.ir.dtypes import DType
from fusegen.passes.differentiation import differentiate, without
from tests.emulated import apply, graph, value
from tests.gradients import autograd_gradients, graph_gradients

USES = [(0,), (1,), (2,), (3,), (0, 2), (1, 3), (0, 1, 2)]


@pytest.mark.parametrize("used", USES, ids=lambda used: "+".join(map(str, used)))
def test_what_is_left_equals_the_gradient_of_the_used_outputs(used: tuple[int, ...]) -> None:
    x = value("x", 3, 4, dtype=DType.FLOAT64)
    a, b = (value(name, 4, dtype=DType.FLOAT64) for name in "ab")
    hidden = apply("relu", apply("mul", x, a))
    left, right = hidden, apply("exp", apply("mul", hidden, b))
    outputs = (
        apply("add", left, 1),
        right,
        apply("sum", apply("sub", left, right), dim=1),
        apply("cat", apply("mul", x, x), right, dim=0),
    )
    model = graph([x, a, b], *outputs)
    found = differentiate(model)
    assert found is not None
    absent = [number for number in range(len(outputs)) if number not in used]
    values = {
        x: torch.linspace(-900, 900, 12, dtype=torch.float64).reshape(3, 4),  # exp overflows
        a: torch.tensor([1.0, 2.0, -1.0, 0.5], dtype=torch.float64),
        b: torch.ones(4, dtype=torch.float64),
    }
    shapes = [(3, 4), (3, 4), (3,), (6, 4)]
    upstream = [torch.linspace(-1, 1, math.prod(s), dtype=torch.float64).view(s) for s in shapes]
    garbage = [g * math.nan if i in absent else g for i, g in enumerate(upstream)]
    actual = graph_gradients(replace(found, backward=without(found, absent)), values, garbage)
    part = graph([x, a, b], *(outputs[i] for i in used))
    expected = autograd_gradients(part, values, [upstream[i] for i in used])
    for argument in (x, a, b):
        wanted = expected.get(argument, torch.zeros(()).expand_as(values[argument]))
        torch.testing.assert_close(actual[argument], wanted.double(), equal_nan=True)
    if used == (0,):
        assert all(gradient.isfinite().all() for gradient in actual.values())
