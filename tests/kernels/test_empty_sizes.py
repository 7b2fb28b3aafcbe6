"""Symbolic sizes that are 0 at run time: the kernels were planned for at least 1."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
import torch

from fusegen.ir.graph import Node
from tests.emulated import apply, build, graph, value

X, Y = value("x", "n", "m"), value("y", "k", "m")
W = value("w", 5, "m")

CASES: dict[str, tuple[Node, Callable[..., torch.Tensor]]] = {
    "elementwise": (apply("exp", X), lambda x, y, w: x.exp()),
    "sum": (apply("sum", X, dim=(1,)), lambda x, y, w: x.sum(1)),
    "sum of columns": (apply("sum", X, dim=(0,)), lambda x, y, w: x.sum(0)),
    "mean": (apply("mean", X, dim=(1,)), lambda x, y, w: x.mean(1)),
    "var": (apply("var", X, dim=(1,)), lambda x, y, w: x.var(1)),
    "population var": (
        apply("var", X, dim=(0,), unbiased=False),
        lambda x, y, w: x.var(0, unbiased=False),
    ),
    "std of all": (apply("std", X), lambda x, y, w: x.std()),
    "logsumexp": (apply("logsumexp", X, dim=(1,)), lambda x, y, w: x.logsumexp(1)),
    "softmax": (apply("softmax", X, dim=1), lambda x, y, w: x.softmax(1)),
    "softmax of columns": (apply("softmax", X, dim=0), lambda x, y, w: x.softmax(0)),
    "cat": (apply("cat", X, apply("neg", Y), dim=0), lambda x, y, w: torch.cat([x, -y])),
    "cat, reduced": (
        apply("sum", apply("cat", X, Y, dim=0), dim=(1,)),
        lambda x, y, w: torch.cat([x, y]).sum(1),
    ),
    "product": (
        apply("matmul", X, apply("transpose", Y, dim0=0, dim1=1)),
        lambda x, y, w: x @ y.t(),
    ),
    "linear, softmax": (
        apply("softmax", apply("linear", X, W), dim=1),
        lambda x, y, w: torch.softmax(x @ w.t(), 1),
    ),
    "product, sum": (
        apply("sum", apply("matmul", X, apply("transpose", Y, dim0=0, dim1=1)), dim=(1,)),
        lambda x, y, w: (x @ y.t()).sum(1),
    ),
    "flattened": (apply("relu", apply("flatten", X)), lambda x, y, w: x.flatten().relu()),
    "expanded": (
        apply("mul", apply("unsqueeze", X, dim=1), apply("unsqueeze", Y, dim=0)),
        lambda x, y, w: x[:, None] * y[None],
    ),
}


@pytest.mark.filterwarnings("ignore:(var|std)")
def test_sizes_of_zero() -> None:
    kernels = build([graph([X, Y, W], node) for node, _ in CASES.values()], check=True)
    for n, m, k in itertools.product((0, 3), (0, 2), (0, 4)):
        tensors = torch.randn(n, m), torch.randn(k, m), torch.randn(5, m)
        for (name, (_, reference)), run in zip(CASES.items(), kernels, strict=True):
            (actual,) = run(*tensors, check=True)
            expected = reference(*tensors)
            torch.testing.assert_close(
                actual, expected, equal_nan=True, msg=lambda m, name=name: f"{name}: {m}"
            )
