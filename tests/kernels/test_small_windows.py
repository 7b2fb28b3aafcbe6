"""Poolings of few elements as parts of elementwise kernels."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from fusegen.ir.dtypes import DType
from fusegen.plan.kernels.elementwise import ElementwisePlan
from tests.emulated import apply, build, graph, value
from tests.ops.examples import torch_dtype

NAN, INFINITY = float("nan"), float("inf")
# The pooling, its window, and sizes that it divides or not.
CASES = [
    ("max_pool1d", (4,), (11,)),
    ("avg_pool1d", (2,), (8,)),
    ("max_pool2d", (2, 2), (7, 10)),
    ("avg_pool2d", (2, 4), (4, 9)),
    ("max_pool3d", (2, 2, 2), (4, 5, 6)),
    ("avg_pool3d", (2, 2, 2), (3, 4, 8)),
]


@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.BFLOAT16, DType.FLOAT64])
def test_windows_are_pytorchs(dtype: DType) -> None:
    graphs = []
    for name, window, sizes in CASES:
        x = value("x", "n", 3, *"dhw"[-len(sizes) :], dtype=dtype)
        made = apply(name, apply("mul", x, 2.0), kernel_size=window)
        graphs.append(graph([x], apply("neg", made)))
    for kernels, (name, window, sizes) in zip(build(graphs, check=True), CASES, strict=True):
        assert all(isinstance(step, ElementwisePlan) for step in kernels.plan.steps)
        generator = torch.Generator().manual_seed(len(name))
        x = torch.randn(2, 3, *sizes, generator=generator).to(torch_dtype(dtype))
        x.view(-1)[5] = NAN
        x.view(-1)[-1] = -INFINITY
        (found,) = kernels(x, seed=1, check=True)
        exact = -getattr(F, name)(x.double() * 2, window)
        if name.startswith("max"):
            right = exact.to(found.dtype)
            torch.testing.assert_close(found, right, rtol=0, atol=0, equal_nan=True)
        else:
            # At most 8 terms, a rounding each in the compute type, and one at the end.
            unit = torch.finfo(torch_dtype(dtype)).eps
            terms = F.avg_pool3d if name[-2] == "3" else getattr(F, name)
            scale = terms(x.double().nan_to_num(0.0, neginf=0.0).abs() * 2, window)
            near = max(torch.finfo(torch.float64).eps, min(unit, 2.0**-23))
            allowed = scale * 8 * near + exact.abs().nan_to_num(0.0, posinf=0.0) * unit
            is_finite = exact.isfinite()
            assert torch.equal(found.isnan(), exact.isnan())
            assert torch.equal(found.isinf(), exact.isinf())
            error = (found.double() - exact).abs()
            assert bool((error <= allowed)[is_finite].all())
