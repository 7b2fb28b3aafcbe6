"""Poolings that become elementwise operations, and those that stay the library's."""

from __future__ import annotations

import pytest

from fusegen.codegen.count_checks import count_checks
from fusegen.ir.dtypes import DType
from fusegen.plan.kernels.elementwise import ElementwisePlan
from fusegen.plan.kernels.library import LibraryPlan
from fusegen.plan.kernels.module import ModulePlan
from tests.emulated import apply, graph, planned, value

HINTS = {"n": 64, "h": 64, "w": 64}


def pooled(name: str, channels: int = 8, **given: object) -> ModulePlan:
    """A pooling between elementwise operations."""
    dims = ("h", "w", 16)[: int(name[-2])]
    x = value("x", "n", channels, *dims)
    made = apply(name, apply("relu", x), **given)
    return planned(graph([x], apply("tanh", made)), HINTS)


@pytest.mark.parametrize("name", ["max_pool1d", "max_pool2d", "avg_pool2d", "avg_pool3d"])
def test_a_small_one_shares_the_kernel_of_its_neighbours(name: str) -> None:
    (step,) = pooled(name, kernel_size=2).steps
    assert isinstance(step, ElementwisePlan)


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("max_pool2d", {"kernel_size": 3}),
        ("max_pool2d", {"kernel_size": 2, "stride": 1}),
        ("max_pool2d", {"kernel_size": 2, "padding": 1}),
        ("max_pool2d", {"kernel_size": 2, "dilation": 2}),
        ("avg_pool2d", {"kernel_size": 2, "divisor_override": 3}),
        ("avg_pool3d", {"kernel_size": (2, 2, 4)}),
    ],
)
def test_others_are_the_librarys(name: str, given: dict[str, object]) -> None:
    assert any(isinstance(step, LibraryPlan) for step in pooled(name, **given).steps)


def test_of_two_the_second_is_the_librarys_if_they_have_many_elements() -> None:
    x = value("x", "n", 8, "h", "w", dtype=DType.FLOAT32)
    once = apply("avg_pool2d", apply("relu", x), kernel_size=2)
    kinds = [type(s) for s in planned(graph([x], apply("avg_pool2d", once, kernel_size=2))).steps]
    assert kinds == [ElementwisePlan, LibraryPlan]
    row = apply("avg_pool2d", once, kernel_size=(1, 2))
    assert [type(s) for s in planned(graph([x], row)).steps] == [ElementwisePlan]


def convolved(follows: str, kernel: int) -> list[type]:
    x = value("x", "n", 32, "h", "w", dtype=DType.BFLOAT16)  # too few channels for a product
    weight = value("weight", 64, 32, 3, 3, dtype=DType.BFLOAT16)
    made = apply("max_pool2d", apply("relu", apply("conv2d", x, weight)), kernel_size=kernel)
    last = apply("mean", made, dim=(2, 3)) if follows == "mean" else apply(follows, made)
    return [type(step) for step in planned(graph([x, weight], last), HINTS).steps]


def test_behind_channels_that_are_last() -> None:
    """Its taps are tiles that are turned; a mean would read them along another dim."""
    alone = [ElementwisePlan] * 2 + [LibraryPlan, ElementwisePlan]
    assert convolved("tanh", 2) == alone
    assert convolved("tanh", 3).count(LibraryPlan) == 2
    assert convolved("mean", 2).count(LibraryPlan) == 2


def test_windows_that_may_be_none_are_checked_by_the_call() -> None:
    x = value("x", "n", 8, "h", 16)
    plan = planned(graph([x], apply("max_pool2d", apply("relu", x), kernel_size=2)), HINTS)
    check, *others = count_checks(plan, ())
    assert (check.kind, check.name) == ("window", "max_pool2d")
    assert [check.count.evaluate({"h": size}) for size in (1, 2, 5)] == [0, 1, 2]
    # What is asked of slices holds where a window fits.
    assert all(other.count.evaluate({"h": size}) >= 0 for other in others for size in (2, 3, 8))
