"""float32 products through float16 parts on the tensor cores: as accurate as float32's, and without
its range being lost."""

from __future__ import annotations

import functools

import pytest
import torch

from fusegen.ir.dtypes import DType
from fusegen.plan.kernels import ModulePlan, ProductPlan
from tests.emulated import Kernels, apply, link, planned
from tests.kernels.families import Case, gelu, group_norm, linear
from tests.kernels.test_families import check_accuracy

HINTS = {"m": 4096, "n": 4096, "k": 4096, "b": 8}
K = 520


def product(transposed: str = "") -> Case:
    """A product of any size; the operands named are stored along K last."""

    def body(*operands):  # type: ignore[no-untyped-def]
        x, w = operands
        x = apply("transpose", x, dim0=0, dim1=1) if "x" in transposed else x
        w = w if "w" in transposed else apply("transpose", w, dim0=0, dim1=1)
        return apply("matmul", x, w)

    x = ("k", "m") if "x" in transposed else ("m", "k")
    w = ("k", "n") if "w" in transposed else ("n", "k")
    return Case((x, w), body, {"m": 9, "n": 10, "k": K}, HINTS)


CASES = {
    "plain": product(),
    "x transposed": product("x"),
    "w transposed": product("w"),
    "both transposed": product("xw"),
    "several tiles": Case((("m", "k"), ("n", "k")), linear, {"m": 140, "n": 134, "k": 70}, HINTS),
    "batches": Case(
        (("b", "m", "k"), ("b", "k", "n")),
        lambda x, w: apply("matmul", x, w),
        {"b": 2, "m": 9, "n": 6, "k": 37},
        HINTS,
    ),
    "a matrix for all batches": Case(
        (("b", "m", "k"), ("n", "k")), linear, {"b": 2, "m": 9, "n": 6, "k": 37}, HINTS
    ),
    "groups": Case(
        (("m", "k"), (64, "k"), (64,), (64,), (64,)),
        lambda x, w, b, scale, shift: gelu(group_norm(4)(linear(x, w, b), scale, shift)),
        {"m": 9, "k": 100},
        {"m": 65536, "k": 4096},
    ),
    "row sums": Case(
        (("m", "k"), ("n", "k"), ("n",)),
        lambda x, w, b: (
            gelu(apply("logsumexp", linear(x, w, b), dim=1, keepdim=True)),
            apply("amax", linear(x, w, b), dim=1),
        ),
        {"m": 9, "n": 130, "k": 60},
        HINTS,
    ),
}


def is_split(plan: ModulePlan) -> bool:
    return any(
        isinstance(s, ProductPlan) and s.tensor_cores is not None and s.tensor_cores.split
        for s in plan.steps
    )


@functools.cache
def kernels() -> dict[str, Kernels]:
    plans = [planned(case.graph(DType.FLOAT32), case.hints) for case in CASES.values()]
    assert all(map(is_split, plans))
    return dict(zip(CASES, link(plans, check=True), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_every_order_of_threads(name: str) -> None:
    case, compiled = CASES[name], kernels()[name]
    tensors = case.tensors(DType.FLOAT32)
    first = compiled(*tensors, check=True)
    check_accuracy(case, DType.FLOAT32, tensors, first)
    for seed in range(1, 4):
        again = compiled(*tensors, seed=seed, check=True)
        assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True)), f"seed {seed}"
