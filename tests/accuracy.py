"""How far kernels may be from the exact result: measured by PyTorch's own error.

The measure is the worst error of an element relative to the exact result (computed in float64), or
to the smallest normal number of the dtype where the exact result is smaller. Chains whose
intermediate values cancel are measured relative to the greatest element instead, and products
relative to what their terms add up to without their signs. A kernel may have
twice the worst error that PyTorch's eager mode has on the same inputs in the same dtype, because
either is within its error of the exact result by luck of rounding, and one rounding unit of the
dtype more, because eager's own error may be 0.

For float64 there is no exact result at hand: eager's float64 stands for it, and eager's error is
taken to be as many rounding units as in float32 on the same inputs. What stands for the exact
result may err that much itself, so a kernel may have three times the error there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch

from fusegen.testing.layouts import Layout

# Constants cancel in variances and norms, and the relative error of what should be 0 says nothing:
# repeated elements are for verification, whose bounds know by how much operands cancel.
VARIED_LAYOUTS = [layout for layout in Layout if layout is not Layout.REPEATED]


@dataclass(frozen=True)
class Measured:
    """Worst relative errors of a kernel and of eager mode, for one dtype."""

    dtype: torch.dtype
    kernel: float
    eager: float

    @property
    def allowed(self) -> float:
        """The error the kernel may have."""
        times = 3 if self.dtype is torch.float64 else 2
        return times * self.eager + torch.finfo(self.dtype).eps


def measure(
    actual: torch.Tensor,
    eager: torch.Tensor,
    exact: torch.Tensor,
    single: torch.Tensor,
    *,
    by_element: bool = True,
    terms: torch.Tensor | None = None,
) -> Measured:
    """The errors of a result, once its type, shape, NaNs and infinities are as they should be.

    `exact` is the result in float64, and `single` that of eager mode in float32, which a float64
    result needs. NaNs and infinities must stand where eager mode has them, or where the exact
    result has them. `by_element` tells which of the two measures is taken, unless `terms` has what
    the terms of each element's sum add up to without their signs: errors are relative to that then,
    as whose luck it is where a sum cancels depends on the machine.
    """
    assert actual.dtype is eager.dtype and actual.shape == eager.shape
    if not actual.dtype.is_floating_point:
        assert torch.equal(actual, eager), f"{actual} is not {eager}"
        return Measured(actual.dtype, 0.0, 0.0)
    exact = exact.double()
    rounded = exact.to(actual.dtype)
    same = _same_class(actual, eager) | _same_class(actual, rounded)
    assert same.all(), f"{actual[~same]}, eager {eager[~same]}, exact {rounded[~same]}"
    regular = actual.isfinite() & eager.isfinite() & rounded.isfinite()
    if not regular.any():
        return Measured(actual.dtype, 0.0, 0.0)
    is_double = actual.dtype is torch.float64
    least = torch.finfo(torch.float32 if is_double else actual.dtype).tiny
    scale = exact.abs() if by_element else exact[regular].abs().max().expand_as(exact)
    if terms is not None:
        scale = terms
    scale = scale.clamp(min=least)
    kernel = torch.where(actual == eager, 0, (actual.double() - exact).abs() / scale)
    if not is_double:
        peer = (eager.double() - exact).abs() / scale
        return Measured(actual.dtype, _worst(kernel[regular]), _worst(peer[regular]))
    peer = (single.double() - exact).abs() / scale
    regular &= peer < 0.01  # where float32 has lost all digits, it says nothing
    per_unit = torch.finfo(torch.float64).eps / torch.finfo(torch.float32).eps
    return Measured(actual.dtype, _worst(kernel[regular]), _worst(peer[regular]) * per_unit)


def _same_class(actual: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
    """Where both are NaN, the same infinity, or finite; a zero's sign counts where both are 0."""
    nan = actual.isnan() & expected.isnan()
    infinite = actual.isinf() & (actual == expected)
    finite = actual.isfinite() & expected.isfinite()
    zeros = (actual == 0) & (expected == 0)
    return nan | infinite | (finite & (~zeros | (actual.signbit() == expected.signbit())))


def _worst(errors: torch.Tensor) -> float:
    return float(errors.max()) if errors.numel() else 0.0


def assert_within(measured: Iterable[Measured]) -> None:
    """Assert the bound for all results of each dtype together."""
    by_dtype: dict[torch.dtype, list[Measured]] = {}
    for item in measured:
        by_dtype.setdefault(item.dtype, []).append(item)
    for dtype, items in by_dtype.items():
        if dtype.is_floating_point:
            worst = Measured(dtype, max(m.kernel for m in items), max(m.eager for m in items))
            assert worst.kernel <= worst.allowed, worst
