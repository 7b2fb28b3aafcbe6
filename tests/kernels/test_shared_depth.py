"""Products of few tiles whose long K several blocks share."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

import pytest
import torch

from fusegen.codegen.cuda import CudaSource, cuda_source
from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Graph
from fusegen.plan.kernels.module import ModulePlan
from fusegen.plan.kernels.product import ProductPlan
from fusegen.runtime.loader import emulator_runtime
from tests import emulated
from tests.emulated import Kernels, apply, build, graph, link, planned, value
from tests.kernels.families import add, group_norm, mul
from tests.kernels.test_operand_layouts import matmul, transposed


def gradient(dtype: DType = DType.FLOAT32) -> Graph:
    """dy.T @ x, of two tiles, and what is done with it: K is the number of rows."""
    dy, x = value("dy", "m", 40, dtype=dtype), value("x", "m", 72, dtype=dtype)
    scale, old = value("scale", 72, dtype=dtype), value("old", 40, 72, dtype=dtype)
    return graph([dy, x, scale, old], add(mul(matmul(transposed(dy), x), scale), old))


@functools.cache
def compiled(dtype: DType) -> Kernels:
    (kernels,) = build([gradient(dtype)], check=True)
    return kernels


def tensors(depth: int, dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(depth)
    shapes = ((depth, 40), (depth, 72), (72,), (40, 72))
    return [torch.randn(*shape, generator=generator, dtype=dtype) for shape in shapes]


def check(kernels: Kernels, given: list[torch.Tensor], *launched: str) -> None:
    """Right against float64, and the same bits twice, by these kernels."""
    dy, x, scale, old = (t.double() for t in given)
    depth, unit = len(dy), torch.finfo(given[0].dtype).eps
    bound = unit * (depth + 4) * (dy.abs().T @ x.abs() * scale.abs() + old.abs())
    emulator_runtime().take_launched()
    (first,) = kernels(*given, check=True)
    names = emulator_runtime().take_launched()
    assert len(names) == len(launched)
    assert all(ending in name for name, ending in zip(names, launched, strict=True)), names
    assert bool(((first.double() - (dy.T @ x * scale + old)).abs() <= bound).all())
    (second,) = kernels(*given, seed=1)
    assert torch.equal(first, second)


@pytest.mark.parametrize("depth", [256, 300, 2100, 20000])
def test_blocks_share_a_long_depth(depth: int) -> None:
    """Parts of whole steps and a last one that is shorter, up to as many as there are blocks."""
    check(compiled(DType.FLOAT32), tensors(depth), "_kernel<true>", "_sums_kernel")


def test_float64() -> None:
    check(compiled(DType.FLOAT64), tensors(500, torch.float64), "_kernel<true>", "_sums_kernel")


@pytest.mark.parametrize("depth", [0, 1, 255])
def test_one_block_has_a_short_depth(depth: int) -> None:
    check(compiled(DType.FLOAT32), tensors(depth), "_kernel<true>")


def test_operands_with_strides_are_shared_and_those_of_the_epilogue_not() -> None:
    dy, x, scale, old = tensors(300)
    apart = [t.repeat_interleave(2, dim=-1)[..., ::2] for t in (dy, x)]
    check(compiled(DType.FLOAT32), [*apart, scale, old], "_kernel<false>", "_sums_kernel")
    spread = old.repeat_interleave(2, dim=-1)[..., ::2]
    check(compiled(DType.FLOAT32), [dy, x, scale, spread], "_kernel<false>")


def test_batches_and_several_tiles_each_way() -> None:
    x, y = value("x", "b", 70, 300), value("y", "b", 300, 130)
    (kernels,) = build([graph([x, y], matmul(x, y))], check=True)
    generator = torch.Generator().manual_seed(0)
    left, right = (torch.randn(2, *shape, generator=generator) for shape in ((70, 300), (300, 130)))
    emulator_runtime().take_launched()
    (found,) = kernels(left, right, check=True)
    assert "_sums_kernel" in emulator_runtime().take_launched()[-1]
    bound = torch.finfo(torch.float32).eps * 300 * (left.double().abs() @ right.double().abs())
    assert bool(((found.double() - left.double() @ right.double()).abs() <= bound).all())


def test_no_more_room_for_sums_than_known_sizes_need() -> None:
    x, y = value("x", 64, 600), value("y", 600, 128)
    (step,) = planned(graph([x, y], matmul(x, y))).steps
    assert isinstance(step, ProductPlan) and step.shared_depth is not None
    assert step.shared_depth.blocks == 2 * 4  # tiles, and parts of 38 steps


def shares(one: Graph) -> bool:
    (step,) = planned(one).steps
    assert isinstance(step, ProductPlan)
    return step.shared_depth is not None


def test_only_where_some_sizes_make_it_worth_it() -> None:
    def product(rows: int | str, columns: int, depth: int | str) -> Graph:
        x = value("x", rows, depth, dtype=DType.FLOAT64)
        y = value("y", depth, columns, dtype=DType.FLOAT64)
        return graph([x, y], matmul(x, y))

    assert shares(product(64, 64, "k")) and shares(product("m", 64, 256))
    assert shares(product(512, 1024, "k")) and not shares(product(512, 1088, "k"))
    assert not shares(product(64, 64, 255))
    x, y = value("x", 64, "k"), value("y", "k", 64)
    assert not shares(graph([x, y], group_norm(4)(matmul(x, y))))


@pytest.mark.parametrize(
    ("fault", "right", "wrong"),
    [
        ("a part is left out", "part < parts; ++part", "part < parts - 1; ++part"),
        ("parts lie on each other", "part * part_size", "0 * part_size"),
        (
            "a step is left out",
            "steps * (part + 1) / parts * 16",
            "steps * (part + 1) / parts * 16 - 16",
        ),
        ("all have the first part", "depth_start = steps * part / parts * 16", "depth_start = 0"),
        ("another column", "sums + index", "sums + index / 2"),
    ],
)
def test_planted_faults_are_found(
    fault: str, right: str, wrong: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def planted(*arguments: Any) -> CudaSource:
        made = cuda_source(*arguments)
        assert right in made.text, fault
        return replace(made, text=made.text.replace(right, wrong))

    monkeypatch.setattr(emulated, "cuda_source", planted)
    (kernels,) = build([gradient()], check=True)
    with pytest.raises(AssertionError):
        check(kernels, tensors(600), "_kernel<true>", "_sums_kernel")


def on_tensor_cores(plan: ModulePlan, least_steps: int = 1) -> ModulePlan:
    """The plan with its K shared wherever it can be, whatever else would be quicker."""
    steps = []
    for step in plan.steps:
        assert isinstance(step, ProductPlan)
        (form,) = (form for form in step.tensor_forms if form.shared)
        assert form.shared is not None
        form = replace(form, shared=replace(form.shared, least_steps=least_steps))
        cores, alternatives = (step.tensor_cores, (form,)) if form.split else (form, ())
        steps.append(replace(step, tensor_cores=cores, alternatives=alternatives))
    return replace(plan, steps=tuple(steps))


@functools.cache
def on_wgmma() -> Kernels:
    return link([on_tensor_cores(planned(gradient(DType.BFLOAT16)))], check=True)[0]


@pytest.mark.parametrize("depth", [128, 200, 777, 9000])
def test_tensor_cores_share_a_depth(depth: int) -> None:
    """From two steps to more than there are blocks, and a last one that is no whole one."""
    names = ("_shared_tensor_kernel", "_sums_kernel")
    check(on_wgmma(), tensors(depth, torch.bfloat16), *names)


def test_batches_and_several_tiles_on_tensor_cores() -> None:
    dy, x = (
        value("dy", 3, "m", 136, dtype=DType.BFLOAT16),
        value("x", 3, "m", 72, dtype=DType.BFLOAT16),
    )
    turned = apply("transpose", dy, dim0=1, dim1=2)
    plan = planned(graph([dy, x], matmul(turned, x)))
    (kernels,) = link([on_tensor_cores(plan)], check=True)
    generator = torch.Generator().manual_seed(0)
    left, right = (torch.randn(3, 300, n, generator=generator).bfloat16() for n in (136, 72))
    emulator_runtime().take_launched()
    (found,) = kernels(left, right, check=True)
    assert "_sums_kernel" in emulator_runtime().take_launched()[-1]
    exact = left.double().transpose(1, 2) @ right.double()
    bound = 2.0**-8 * exact.abs() + 2.0**-23 * 300 * (
        left.double().abs().transpose(1, 2) @ right.double().abs()
    )
    assert bool(((found.double() - exact).abs() <= bound).all())


def test_a_short_depth_is_not_shared_on_tensor_cores() -> None:
    plan = planned(gradient(DType.BFLOAT16))
    (step,) = plan.steps
    assert isinstance(step, ProductPlan) and step.tensor_cores is not None
    assert step.tensor_forms[-1].kind.is_shared
    (kernels,) = link([plan], check=True)
    check(kernels, tensors(64, torch.bfloat16), "_tensor_kernel")
    check(kernels, tensors(4096, torch.bfloat16), "_shared_tensor_kernel", "_sums_kernel")
