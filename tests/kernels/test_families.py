"""Every kernel family in every order of threads, watched, in every layout and dtype."""

from __future__ import annotations

import functools

import pytest
import torch

from fusegen.ir.dtypes import DType
from fusegen.testing.layouts import laid_out
from tests.accuracy import VARIED_LAYOUTS, Measured, assert_within, measure
from tests.emulated import Kernels, link, planned
from tests.kernels.families import FAMILIES, Case
from tests.ops.examples import torch_dtype
from tests.reference import evaluate

SEEDS = range(1, 11)
CASES = [
    pytest.param(family, name, id=f"{family}: {name}")
    for family, cases in FAMILIES.items()
    for name in cases
]


@functools.cache
def kernels_of(family: str, dtype: DType) -> dict[str, Kernels]:
    """The kernels of all cases of a family, compiled together."""
    cases = FAMILIES[family]
    plans = [planned(case.graph(dtype), case.hints) for case in cases.values()]
    return dict(zip(cases, link(plans, check=True), strict=True))


def reference(case: Case, dtype: DType, tensors: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    """What PyTorch makes of the case in a dtype."""
    graph = case.graph(dtype)
    values = [tensor.to(torch_dtype(dtype)) for tensor in tensors]
    return evaluate(graph.roots, dict(zip(graph.inputs, values, strict=True)), case.sizes)


def check_accuracy(
    case: Case, dtype: DType, tensors: list[torch.Tensor], results: list[torch.Tensor]
) -> None:
    """Each result on its own is within the bound of `tests.accuracy`.

    Few elements make eager's error a matter of luck, so its worst on four more inputs counts. In
    float64 the reference is no better than the kernel: the two sum up to 10^4 terms in another
    order, so they differ by the square root of that many rounding units, which the norm of a set
    without spread multiplies by 1 / sqrt(1e-5).
    """
    dtypes = (dtype, DType.FLOAT64, DType.FLOAT32)
    more = [case.tensors(dtype, seed) for seed in range(1, 5)]
    references = [[reference(case, other, x) for other in dtypes] for x in (tensors, *more)]
    for position, actual in enumerate(results):
        expected = [[by_dtype[position] for by_dtype in each] for each in references]
        own = measure(actual, *expected[0], by_element=False)
        others = [measure(e[0], *e, by_element=False).eager for e in expected]
        if dtype is DType.FLOAT64:
            assert own.kernel <= 100 * 316 * torch.finfo(torch.float64).eps
        else:
            assert_within([Measured(own.dtype, own.kernel, max(others))])


@pytest.mark.parametrize(("family", "name"), CASES)
def test_the_order_of_threads_does_not_matter(family: str, name: str) -> None:
    case, kernels = FAMILIES[family][name], kernels_of(family, DType.FLOAT32)[name]
    tensors = case.tensors(DType.FLOAT32)
    first = kernels(*tensors, seed=0, check=True)
    check_accuracy(case, DType.FLOAT32, tensors, first)
    for seed in SEEDS:
        again = kernels(*tensors, seed=seed, check=True)
        assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True)), f"seed {seed}"


@pytest.mark.parametrize(("family", "name"), CASES)
def test_layouts_give_the_same_bits(family: str, name: str) -> None:
    """But for the expanded one, which is another value, and judged by its error."""
    case, kernels = FAMILIES[family][name], kernels_of(family, DType.FLOAT32)[name]
    tensors = case.tensors(DType.FLOAT32)
    first = kernels(*tensors)
    layouts = VARIED_LAYOUTS
    for turn in range(1, len(layouts)):
        moved = [laid_out(t, layouts[(turn + i) % len(layouts)]) for i, t in enumerate(tensors)]
        results = kernels(*moved, check=True)
        check_accuracy(case, DType.FLOAT32, moved, results)
        if all(torch.equal(a, b) for a, b in zip(tensors, moved, strict=True)):
            for one, other in zip(first, results, strict=True):
                torch.testing.assert_close(one, other)


@pytest.mark.parametrize("dtype", [DType.FLOAT16, DType.BFLOAT16, DType.FLOAT64])
@pytest.mark.parametrize("family", FAMILIES)
def test_other_dtypes(family: str, dtype: DType) -> None:
    for name, kernels in kernels_of(family, dtype).items():
        case = FAMILIES[family][name]
        tensors = case.tensors(dtype)
        results = kernels(*tensors, seed=3, check=True)
        try:
            check_accuracy(case, dtype, tensors, results)
        except AssertionError as error:
            raise AssertionError(f"{name}: {error}") from error
