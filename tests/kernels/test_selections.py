"""Joined tensors: of each selection only the chosen side may be computed."""

from __future__ import annotations

import pytest
import torch

from fusegen.codegen.conditions import Condition, essential
from fusegen.ir.dtypes import DType
from fusegen.ir.integers import Integer
from fusegen.ops import build
from fusegen.runtime.emulation import emulation
from tests.emulated import apply, cuda_text, graph, planned, run, value
from tests.modules import load
from tests.ops.examples import torch_dtype

X, Y = value("x", "n", 30), value("y", "n", 7)


def test_a_value_that_only_one_side_needs_is_not_kept_for_all_columns() -> None:
    exp = apply("exp", X)
    joined = apply("cat", exp, Y, dim=1)
    scaled = apply("cat", apply("mul", exp, 2.0), Y, dim=1)
    result = apply("sub", scaled, apply("amax", joined, dim=(1,), keepdim=True))
    x, y = torch.randn(5, 30), torch.randn(5, 7)
    (actual,) = run(graph([X, Y], result), [x, y], check=True)
    greatest = torch.cat([x.exp(), y], 1).amax(1, keepdim=True)
    torch.testing.assert_close(actual, torch.cat([x.exp() * 2, y], 1) - greatest)


def test_a_side_is_written_once_however_often_its_values_are_used() -> None:
    """Written out in full, forty doublings would be a text of 2^40 terms."""
    doubled = X
    for _ in range(40):
        doubled = apply("mul", apply("add", doubled, apply("abs", doubled)), 0.5)
    joined = graph([X, Y], apply("cat", doubled, Y, dim=1))
    assert len(cuda_text(planned(joined))) < 20_000
    x, y = torch.rand(3, 30), torch.randn(3, 7)
    assert torch.equal(run(joined, [x, y], check=True)[0], torch.cat([x, y], 1))


def test_halves_that_change_places_in_two_dims() -> None:
    """Indices less a number are split at the dims, though they are a sum with what is added."""
    x = value("x", 3, 3)
    padded = build.concatenate([x, build.zeros((1, 3), DType.FLOAT32)], 0)
    padded = build.concatenate([padded, build.zeros((4, 1), DType.FLOAT32)], 1)
    apart = build.reshape(padded, (2, 2, 2, 2))
    for dim in (1, 3):
        apart = build.concatenate([build.take(apart, dim, 1, 2), build.take(apart, dim, 0, 1)], dim)
    result = apply("exp", build.permute(apart, (1, 3, 0, 2)))
    given = torch.randn(3, 3, generator=torch.Generator().manual_seed(2))
    (found,) = run(graph([x], result), [given], check=True)
    whole = torch.nn.functional.pad(given, (0, 1, 0, 1)).view(2, 2, 2, 2)
    expected = whole.flip(1).flip(3).permute(1, 3, 0, 2).exp()
    torch.testing.assert_close(found, expected)


def test_joins_within_joins() -> None:
    z = value("z", "n", 2)
    inner = apply("relu", apply("cat", apply("exp", X), z, dim=1))
    result = apply("cat", Y, inner, apply("neg", Y), dim=1)
    x, y, z_values = torch.randn(4, 30), torch.randn(4, 7), torch.randn(4, 2)
    (actual,) = run(graph([X, Y, z], result), [x, y, z_values], check=True)
    expected = torch.cat([y, torch.cat([x.exp(), z_values], 1).relu(), -y], 1)
    torch.testing.assert_close(actual, expected)


# Shapes of both sides, along which dim they are joined, and whether vectors of 4 or 8 are of one.
JOINS = {
    "a dim before": ((5, 3, 24), (5, 2, 24), 1, True),
    "whole vectors": ((5, 40), (5, 16), 1, True),
    "within a vector": ((5, 30), (5, 10), 1, False),
}


@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.BFLOAT16])
@pytest.mark.parametrize("join", JOINS)
def test_neighbours_on_one_side_are_loaded_together(join: str, dtype: DType) -> None:
    *shapes, dim, are_together = JOINS[join]
    tensors = [torch.randn(shape).to(torch_dtype(dtype)) for shape in shapes]
    x, y = (value(name, "n", *s[1:], dtype=dtype) for name, s in zip("xy", shapes, strict=True))
    joined = apply("cat", x, y, dim=dim)
    rows = apply("amax", apply("cos", joined), dim=(1,))  # a kernel of rows
    for model, expected in (
        (graph([x, y], joined), torch.cat(tensors, dim)),
        (graph([x, y], rows), torch.cat(tensors, dim).cos().amax(1)),
    ):
        assert ("? load_vector<" in cuda_text(planned(model))) is are_together
        (actual,) = run(model, tensors, check=True)
        torch.testing.assert_close(actual, expected, rtol=2**-7, atol=0)


def test_sides_of_a_run_time_size_are_told_apart_element_by_element() -> None:
    x, y = value("x", "n", "m"), value("y", "n", 8)
    model = graph([x, y], apply("cat", x, y, dim=1))
    assert "? load_vector<" not in cuda_text(planned(model))
    tensors = [torch.randn(3, 21), torch.randn(3, 8)]
    assert torch.equal(run(model, tensors, check=True)[0], torch.cat(tensors, 1))


# Models whose first side is empty: what stands in it is found by dividing by a size that is 0.
EMPTY_SIDE = """\
model M():
    input x: [a, b, 40]
    input z: [k, 40]
    return {joined}
"""
JOINED = "cat((reshape(x, (a * b, 40)), z), dim=0)"
NESTED = "cat((reshape(cat((x, x * 2), dim=1), (2 * a * b, 40)), z), dim=0)"


@pytest.mark.parametrize(
    "joined", [f"softmax({JOINED}, dim=1)", f"relu({NESTED})", f"softmax(exp({NESTED}), dim=1)"]
)
def test_an_empty_side_divides_nothing(joined: str) -> None:
    module = load(EMPTY_SIDE.format(joined=joined))()
    z = torch.randn(5, 40)
    with emulation(check=True), torch.no_grad():
        actual = module(torch.randn(3, 0, 40), z)
    rows = z.exp() if "exp" in joined else z
    expected = torch.relu(z) if "relu" in joined else torch.softmax(rows, 1)
    torch.testing.assert_close(actual, expected)


def test_many_sides_do_not_stand_in_registers_together() -> None:
    """Of eight, three are loaded ahead, the others where they are used."""
    parts = [value(f"p{i}", "n", 64) for i in range(8)]
    rows = apply("amax", apply("cat", *parts, dim=1), dim=(1,))
    text = cuda_text(planned(graph(parts, rows)))
    kernels = text.count("__global__")
    assert sum(text.count(f"p{i}_vector[step] = ") for i in range(8)) <= 3 * kernels
    tensors = [torch.randn(4, 64) for _ in parts]
    (actual,) = run(graph(parts, rows), tensors, check=True)
    assert torch.equal(actual, torch.cat(tensors, 1).amax(1))


def test_a_guard_says_no_more_than_is_needed() -> None:
    x = Integer.symbol("x")
    failed = tuple(Condition(x, Integer.of(n), False) for n in (8, 16, 24))
    last = Condition(x, Integer.of(32))
    assert essential((*failed, last)) == (failed[-1], last)
    y = Condition(Integer.symbol("y"), Integer.of(8), False)
    assert essential((y, *failed)) == (y, failed[-1])
