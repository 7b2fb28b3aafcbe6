"""Where a careful implementation makes no error, and what follows for gradients that are masked."""

from __future__ import annotations

import pytest
import torch

from fusegen.frontend import Source
from fusegen.ir.dtypes import DType
from fusegen.runtime.tensors import torch_dtype
from fusegen.testing import Subject
from fusegen.testing.bounds import SECOND_LOOK
from fusegen.testing.gradients import gradient_bounds
from fusegen.testing.rounding import Precision

# What is 0, and has a gradient of 0, in many places.
MASKED = (
    "relu(x)",
    "relu(relu(x) * 3)",
    "relu(x * relu(x))",
    "relu(hardtanh(x, 0.0, 2.0))",
    "relu(-abs(x))",
    "relu(relu(x) @ relu(x))",
    "relu(mean(relu(x) - relu(x), dim=1, keepdim=True) + relu(x))",
    "relu(softshrink(relu(x), 1.0))",
    "relu(floor(x))",
    "where(x > 0, x, 0)",
    "maximum(relu(x), 0.3)",
    "relu(clamp(x, 0, 1.5))",
    "relu(x |> to(float32))",
)


@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.BFLOAT16], ids=lambda dtype: dtype.value)
@pytest.mark.parametrize("looks", [1, SECOND_LOOK])
@pytest.mark.parametrize("masked", MASKED)
def test_what_is_masked_must_be_zero(masked: str, looks: int, dtype: DType) -> None:
    source = Source("model.fuse", f"model Masked():\n    input x: [6, 6]\n    return {masked}\n")
    subject = Subject.of(source, target="emulate")
    x = torch.randn(6, 6, generator=torch.Generator().manual_seed(3)).to(torch_dtype(dtype))
    (result,) = subject.reference([x])
    upstream = [torch.ones_like(result)]
    (eager,) = subject.reference_gradients([x], (True,), upstream)
    assert eager is not None
    model, found = subject.graph(dtype), subject.derivative(dtype)
    limits = gradient_bounds(model, found, [x], upstream, {0: eager}, {}, Precision(), looks)
    assert not limits[0].violations(eager).any()
    hidden = eager == 0
    assert hidden.sum() > 6
    # Not masked, a gradient is about as large as the others are.
    assert limits[0].violations(torch.where(hidden, 0.01, eager)).equal(hidden)


@pytest.mark.parametrize("looks", [1, SECOND_LOOK])
def test_what_is_tied_has_the_errors_of_ties_at_the_second_look(looks: int) -> None:
    """Each of 120 equal elements has that part of a gradient, which cancels but for errors."""
    source = Source("m.fuse", "model M():\n    input x: [3, 40]\n    return amax(softmax(x, 0))\n")
    subject = Subject.of(source, target="emulate")
    x, upstream = torch.zeros(3, 40), [torch.tensor(1.0)]
    model, found = subject.graph(DType.FLOAT32), subject.derivative(DType.FLOAT32)
    limits = gradient_bounds(model, found, [x], upstream, {0: x}, {}, Precision(), looks)
    near, far = torch.full_like(x, 2.0**-30), torch.full_like(x, 2.0**-20)
    assert bool(limits[0].violations(near).any()) is (looks == 1)
    # In some samples one column has the greatest element alone.
    assert limits[0].violations(far).sum() > 60
