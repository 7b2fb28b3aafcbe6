"""Products on the tensor cores on tiles of every width, and which of them a launch takes."""

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
from fusegen.plan.kernels.product import ProductPlan, TunedRows
from fusegen.plan.kernels.product_forms import TileKind, WaveTime, WgmmaForm
from fusegen.plan.precision import Precision
from fusegen.plan.tensor_cores import STAGES
from fusegen.plan.tile_waves import ROWS, Extent, time, wave_time
from fusegen.runtime.loader import emulator_runtime
from tests import emulated
from tests.emulated import Kernels, apply, graph, link, planned, value
from tests.kernels.families import add, gelu, group_norm, linear
from tests.kernels.test_operand_layouts import check, half, matmul, normal, transposed
from tests.kernels.test_tf32 import as_tf32

# As `processor_count` in `launch.cuh`.
EMULATED_PROCESSORS = 3
BETWEEN = (128, 192)
NARROWEST = 32


def on_tiles(plan: ModulePlan, *widths: int, parts: int = 1) -> ModulePlan:
    """The plan with its products on tiles of these widths alone, the first of which are for all;
    with any K in so many parts."""

    def form(cores: WgmmaForm, columns: int) -> WgmmaForm:
        wave = wave_time(TileKind(columns, parts), cores.left.buffer.dtype.itemsize)
        wave = replace(wave, least_depths=0)
        return replace(cores, columns=columns, stages=STAGES[columns], wave=wave, parts=parts)

    steps = []
    for step in plan.steps:
        if isinstance(step, ProductPlan):
            assert step.tensor_cores is not None
            first, *others = (form(step.tensor_cores, columns) for columns in widths)
            step = replace(step, tensor_cores=first, alternatives=tuple(others))
        steps.append(step)
    return replace(plan, steps=tuple(steps))


def bare() -> Graph:
    """x @ w.T, whose columns are whole tiles of neither width and whose depth is no whole step."""
    x, w = half("x", "m", 72), half("w", 264, 72)
    return graph([x, w], matmul(x, transposed(w)))


def gradient() -> Graph:
    """dy.T @ x: any depth, both operands across it."""
    dy, x = half("dy", "m", 136), half("x", "m", 200)
    return graph([dy, x], matmul(transposed(dy), x))


def groups() -> Graph:
    """Statistics over 16 columns, which are loaded by eights."""
    x, w, b = half("x", "m", 40), half("w", 224, 40), half("b", 224)
    return graph([x, w, b], group_norm(14)(gelu(add(matmul(x, transposed(w)), b))))


def states() -> Graph:
    """Row sums: 4 parts of 64 columns and half of one."""
    x, w = half("x", "m", 40), half("w", 40, 288)
    return graph([x, w], apply("logsumexp", matmul(x, w), dim=1))


GRAPHS = {"bare": bare, "gradient": gradient, "groups": groups, "states": states}
# Those that stand between the widest and the narrow tiles that other tests go through, and the
# narrowest where its width allows.
CASES = [
    *((name, columns) for name in GRAPHS for columns in BETWEEN),
    ("bare", NARROWEST),
    ("groups", NARROWEST),
]


@functools.cache
def kernels() -> dict[tuple[str, int], Kernels]:
    """Those of each graph on tiles of each width, all from one file."""
    plans = [on_tiles(planned(GRAPHS[name]()), columns) for name, columns in CASES]
    return dict(zip(CASES, link(plans, check=True), strict=True))


@pytest.mark.parametrize(("name", "columns"), CASES)
def test_against_float64(name: str, columns: int) -> None:
    compiled = kernels()[name, columns]
    inputs = GRAPHS[name]().inputs
    tensors = [
        normal(*(131 if s.constant is None else s.constant for s in x.shape)) for x in inputs
    ]
    check(compiled, GRAPHS[name](), tensors, form=f"_{columns}_tensor_kernel")


def test_tf32() -> None:
    x, w = value("x", "m", 36), value("w", 264, 36)
    plans = [planned(graph([x, w], linear(x, w)), None, Precision.HIGH) for _ in BETWEEN]
    shapes = ((130, 36), (264, 36))
    tensors = [as_tf32(normal(*shape, dtype=torch.float32)) for shape in shapes]
    expected = tensors[0].double() @ tensors[1].double().T
    bound = 36 * torch.finfo(torch.float32).eps * (tensors[0].abs() @ tensors[1].abs().T)
    built = link([on_tiles(p, c) for p, c in zip(plans, BETWEEN, strict=True)], check=True)
    for columns, compiled in zip(BETWEEN, built, strict=True):
        emulator_runtime().take_launched()
        (actual,) = compiled(*tensors, check=True)
        (launched,) = emulator_runtime().take_launched()
        assert f"_{columns}_tensor_kernel" in launched
        assert bool(((actual.double() - expected).abs() <= bound).all())


def test_a_launch_takes_the_tiles_that_are_done_first() -> None:
    """Of three multiprocessors: for 1 row one tile for each is best, for many rows wide ones."""
    widths = (256, 192, 128, 64)
    (compiled,) = link([on_tiles(planned(bare()), *widths)], check=True)
    waves = {k: wave_time(k, DType.BFLOAT16.itemsize) for k in map(TileKind, widths)}
    taken = []
    for rows in (1, 129, 300):
        extent = Extent(-(-rows // ROWS), 264, 72)
        times = {k.columns: time(extent, k, wave, EMULATED_PROCESSORS) for k, wave in waves.items()}
        quickest = min(times, key=lambda columns: times[columns])
        form = f"_{quickest}_tensor_kernel"
        check(compiled, bare(), [normal(rows, 72), normal(264, 72)], form=form)
        taken.append(quickest)
    assert len(set(taken)) > 1


def test_a_launch_counts_clusters_as_the_planner_does() -> None:
    """Four tiles of 64 columns take two waves of single blocks, and four of one cluster each."""
    made = planned(deep("x @ w.T"))
    (whole,), (shared,) = (on_tiles(made, 64, parts=parts).steps for parts in (1, 4))
    assert isinstance(whole, ProductPlan) and isinstance(shared, ProductPlan)
    assert whole.tensor_cores is not None and shared.tensor_cores is not None
    waves = {1: WaveTime(1000.0, 0.0)}
    first = replace(whole.tensor_cores, wave=waves[1])
    plans = []
    for fixed in (490.0, 510.0):
        second = replace(shared.tensor_cores, wave=WaveTime(fixed, 0.0))
        step = replace(whole, tensor_cores=first, alternatives=(second,))
        plans.append(replace(made, steps=(step,)))
    extent = Extent(1, 200, 520)
    for kernels, fixed in zip(link(plans, check=True), (490.0, 510.0), strict=True):
        waves[4] = WaveTime(fixed, 0.0)
        times = {p: time(extent, TileKind(64, p), w, EMULATED_PROCESSORS) for p, w in waves.items()}
        form = "_64_by_4_tensor_kernel" if times[4] < times[1] else "_64_tensor_kernel"
        assert ("by_4" in form) == (fixed == 490.0)
        check(kernels, deep("x @ w.T"), [normal(9, 520), normal(200, 520)], form=form)


def test_a_launch_takes_tuned_tiles_for_the_rows_they_are_for() -> None:
    plan = on_tiles(planned(bare()), 256, 128, 64)
    (step,) = plan.steps
    assert isinstance(step, ProductPlan)
    ranges = ((1, 16, 256), (17, 64, 128), (129, 256, 128))
    tuned = tuple(TunedRows(least, most, TileKind(columns)) for least, most, columns in ranges)
    (compiled,) = link([replace(plan, steps=(replace(step, tuned=tuned),))], check=True)
    for rows, columns in ((1, 256), (16, 256), (17, 128), (64, 128), (65, 64), (129, 128)):
        form = f"_{columns}_tensor_kernel"
        check(compiled, bare(), [normal(rows, 72), normal(264, 72)], form=form)


def deep(name: str) -> Graph:
    """Products whose 520 of K are 9 steps, the last one of which has 8."""
    x, w, b = half("x", "m", 520), half("w", 200, 520), half("b", 192)
    if name == "x @ w.T":
        return graph([x, w], matmul(x, transposed(w)))
    if name == "x @ w":
        w = half("w", 520, 200)
        return graph([x, w], gelu(matmul(x, w)))
    w = half("w", 192, 520)
    if name == "groups":
        return graph([x, w, b], group_norm(12)(add(matmul(x, transposed(w)), b)))
    return graph([x, w], apply("logsumexp", matmul(x, transposed(w)), dim=1))


PARTS = [
    ("x @ w.T", 64, 4),
    ("x @ w.T", 256, 2),
    ("x @ w", 128, 4),
    ("groups", 128, 2),
    ("states", 192, 2),
]


@functools.cache
def in_parts() -> dict[tuple[str, int, int], Kernels]:
    plans = [on_tiles(planned(deep(name)), columns, parts=parts) for name, columns, parts in PARTS]
    return dict(zip(PARTS, link(plans, check=True), strict=True))


@pytest.mark.parametrize(("name", "columns", "parts"), PARTS)
def test_parts_of_k_meet(name: str, columns: int, parts: int) -> None:
    """Tiles whose K a cluster's blocks share, in uneven parts: right, and the same every time."""
    compiled = in_parts()[name, columns, parts]
    for rows in (3, 131):
        shapes = [
            [rows if s.constant is None else s.constant for s in x.shape] for x in deep(name).inputs
        ]
        tensors = [normal(*shape) for shape in shapes]
        check(compiled, deep(name), tensors, form=f"_{columns}_by_{parts}_tensor_kernel")


@pytest.mark.parametrize("order", [1, -1])
def test_a_depth_that_is_known_late_is_shared_where_it_is_long(order: int) -> None:
    made = planned(gradient())
    plan, shared = (on_tiles(made, 64, parts=parts).steps[0] for parts in (1, 4))
    assert isinstance(plan, ProductPlan) and isinstance(shared, ProductPlan)
    assert plan.tensor_cores is not None and shared.tensor_cores is not None
    quick = replace(shared.tensor_cores, wave=WaveTime(0.0, 0.0, least_depths=256))
    first, second = (plan.tensor_cores, quick)[::order]
    step = replace(plan, tensor_cores=first, alternatives=(second,))
    (compiled,) = link([replace(made, steps=(step,))], check=True)
    for depth, form in ((255, "_64_tensor_kernel"), (256, "_64_by_4_tensor_kernel")):
        check(compiled, gradient(), [normal(depth, 136), normal(depth, 200)], form=form)


@pytest.mark.parametrize(
    ("fault", "right", "wrong"),
    [
        ("nobody waits", "[] { cluster_sync(); }", "[] {}"),
        ("a part is left out", "other < parts - 1", "other < parts - 2"),
        ("parts lie on each other", "(part - 1) * part_size", "0 * part_size"),
        ("a step is made twice", "first_step + steps;", "first_step + steps + (part == 0);"),
        (
            "all make the first part's steps",
            "int step = first_step; step <",
            "int step = 0; step <",
        ),
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
    (compiled,) = link([on_tiles(planned(deep("x @ w.T")), 64, parts=4)], check=True)
    with pytest.raises(AssertionError):
        check(compiled, deep("x @ w.T"), [normal(5, 520), normal(200, 520)], form="tensor_kernel")
