"""Joined tensors: of each selection only the chosen side may be computed."""

from __future__ import annotations

import torch

from tests.emulated import apply, cuda_text, graph, planned, run, value

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


def test_joins_within_joins() -> None:
    z = value("z", "n", 2)
    inner = apply("relu", apply("cat", apply("exp", X), z, dim=1))
    result = apply("cat", Y, inner, apply("neg", Y), dim=1)
    x, y, z_values = torch.randn(4, 30), torch.randn(4, 7), torch.randn(4, 2)
    (actual,) = run(graph([X, Y, z], result), [x, y, z_values], check=True)
    expected = torch.cat([y, torch.cat([x.exp(), z_values], 1).relu(), -y], 1)
    torch.testing.assert_close(actual, expected)
