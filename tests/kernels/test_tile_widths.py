"""Products on the tensor cores on tiles of every width, and which of them a launch takes."""

from __future__ import annotations

import functools
from dataclasses import replace

import pytest
import torch

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Graph
from fusegen.plan.kernels.module import ModulePlan
from fusegen.plan.kernels.product import ProductPlan, TunedRows
from fusegen.plan.kernels.product_forms import WgmmaForm
from fusegen.plan.precision import Precision
from fusegen.plan.tensor_cores import STAGES
from fusegen.plan.tile_waves import ROWS, Extent, time, wave_time
from fusegen.runtime.loader import emulator_runtime
from tests.emulated import Kernels, apply, graph, link, planned, value
from tests.kernels.families import add, gelu, group_norm, linear
from tests.kernels.test_operand_layouts import check, half, matmul, normal, transposed
from tests.kernels.test_tf32 import as_tf32

# As `processor_count` in `launch.cuh`.
EMULATED_PROCESSORS = 3
BETWEEN = (128, 192)
NARROWEST = 32


def on_tiles(plan: ModulePlan, *widths: int) -> ModulePlan:
    """The plan with its products on tiles of these widths alone, the first of which are for all."""

    def form(cores: WgmmaForm, columns: int) -> WgmmaForm:
        wave = wave_time(columns, cores.left.buffer.dtype.itemsize)
        return replace(cores, columns=columns, stages=STAGES[columns], wave=wave)

    steps = []
    for step in plan.steps:
        if isinstance(step, ProductPlan):
            assert step.tensor_cores is not None
            first, *others = (form(step.tensor_cores, columns) for columns in widths)
            step = replace(step, tensor_cores=first, narrower=tuple(others))
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
    waves = {columns: wave_time(columns, DType.BFLOAT16.itemsize) for columns in widths}
    taken = []
    for rows in (1, 129, 300):
        extent = Extent(-(-rows // ROWS), 264, 72)
        times = {c: time(extent, c, wave, EMULATED_PROCESSORS) for c, wave in waves.items()}
        quickest = min(times, key=lambda c: times[c])
        form = f"_{quickest}_tensor_kernel"
        check(compiled, bare(), [normal(rows, 72), normal(264, 72)], form=form)
        taken.append(quickest)
    assert len(set(taken)) > 1


def test_a_launch_takes_tuned_tiles_for_the_rows_they_are_for() -> None:
    plan = on_tiles(planned(bare()), 256, 128, 64)
    (step,) = plan.steps
    assert isinstance(step, ProductPlan)
    tuned = (TunedRows(1, 16, 256), TunedRows(17, 64, 128), TunedRows(129, 256, 128))
    (compiled,) = link([replace(plan, steps=(replace(step, tuned=tuned),))], check=True)
    for rows, columns in ((1, 256), (16, 256), (17, 128), (64, 128), (65, 64), (129, 128)):
        form = f"_{columns}_tensor_kernel"
        check(compiled, bare(), [normal(rows, 72), normal(264, 72)], form=form)
