"""Group norms' backwards that read their tensors once: what a kernel sums over the group and over
the pixels of each channel."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
import torch

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Graph
from fusegen.plan.kernels.rows import RowMapping, RowPlan
from fusegen.runtime.loader import emulator_runtime
from tests.emulated import apply, graph, value
from tests.trained import Trained, compare, trained


@dataclass(frozen=True)
class Case:
    """A group norm over images, and the blocks that share a group in each form."""

    channels: int
    height: int
    groups: int
    mappings: tuple[RowMapping, ...]
    dtype: DType = DType.BFLOAT16
    is_ahead: bool = False

    def __str__(self) -> str:
        return f"{self.channels} in {self.groups}, {self.height}, {self.dtype.value}"

    @property
    def shape(self) -> tuple[int, int, int]:
        return (self.channels, self.height, self.height)

    @property
    def graph(self) -> Graph:
        x = value("x", "n", *self.shape, dtype=self.dtype)
        weight, bias = (value(k, self.channels, dtype=self.dtype) for k in ("weight", "bias"))
        y = apply("group_norm", apply("relu", x), weight, bias, num_groups=self.groups)
        name = f"norm_{self.channels}_{self.height}_{self.groups}_{self.dtype.value}"
        return graph([x, weight, bias], apply("silu", y), name=name)


BLOCK, CLUSTER = RowMapping.BLOCK, RowMapping.CLUSTER
CASES = (
    Case(4, 32, 2, (BLOCK,)),
    Case(8, 32, 2, (BLOCK,), DType.FLOAT32),
    Case(8, 64, 1, (CLUSTER, CLUSTER, BLOCK), is_ahead=True),
    Case(8, 64, 1, (CLUSTER, CLUSTER, BLOCK), DType.FLOAT32, is_ahead=True),
    Case(16, 64, 4, (CLUSTER, BLOCK)),
)


@functools.cache
def made(case: Case) -> Trained:
    return trained([case.graph], {"n": 64})[0]


def drawn(case: Case, images: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(images)
    shapes = [(images, *case.shape), (case.channels,), (case.channels,)]
    dtype = getattr(torch, case.dtype.value)
    return [torch.randn(shape, generator=generator).to(dtype) for shape in shapes]


def plan_of(model: Graph) -> RowPlan:
    (step, *_) = trained_plan(model)
    return step


def trained_plan(model: Graph) -> list[RowPlan]:
    from fusegen.passes import pipeline
    from fusegen.passes.differentiation import differentiate
    from fusegen.plan.cost import SizeHints
    from fusegen.plan.module import plan_module

    found = differentiate(model)
    assert found is not None
    plan = plan_module(pipeline.run(found.backward), DType.FLOAT32, SizeHints({"n": 64}))
    return [step for step in plan.steps if isinstance(step, RowPlan)]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_gradients(case: Case) -> None:
    """By rows enough for each form; the big tensors are read by one kernel."""
    found = made(case)
    first = found.backward.plan.steps[0]
    assert isinstance(first, RowPlan) and len(first.program.pieces) == 2
    assert tuple(form.mapping for form in first.forms) == case.mappings
    assert bool(first.forms[0].ahead) is case.is_ahead
    for images in (1, 7) if case.is_ahead else (0, 3):
        emulator_runtime().take_launched()
        compare(found, drawn(case, images), {"n": images})
        launched = emulator_runtime().take_launched()
        groups = images * case.groups
        assert any("_ahead_kernel" in name for name in launched) is (case.is_ahead and groups > 2)


@pytest.mark.parametrize("case", [CASES[0], CASES[2]], ids=str)
def test_the_same_bits_under_every_order(case: Case) -> None:
    tensors = drawn(case, 5)
    upstream = drawn(case, 5)[0].flip(0)
    first = made(case).gradients(tensors, [upstream])
    for seed in range(1, 4):
        again = made(case).gradients(tensors, [upstream], seed=seed)
        assert all(torch.equal(first[node], again[node]) for node in first)


def test_tensors_with_any_strides() -> None:
    case = CASES[0]
    x, weight, bias = drawn(case, 3)
    apart = x.to(memory_format=torch.channels_last)
    compare(made(case), [apart, weight, bias], {"n": 3})


@pytest.fixture
def ampere() -> Iterator[None]:
    """Launchers see a device without clusters."""
    emulator_runtime().set_capability(8)
    yield
    emulator_runtime().set_capability(9)


@pytest.mark.usefixtures("ampere")
@pytest.mark.parametrize("case", [CASES[2], CASES[3]], ids=str)
def test_a_device_without_clusters_reads_a_group_piece_by_piece(case: Case) -> None:
    emulator_runtime().take_launched()
    compare(made(case), drawn(case, 2), {"n": 2})
    launched = emulator_runtime().take_launched()
    assert any("gradient" in name and "_looping_kernel" in name for name in launched)


@pytest.mark.parametrize(
    ("channels", "height", "groups", "width", "has_pieces"),
    [
        (64, 64, 8, 64, True),
        (64, 32, 8, 32, True),
        (64, 16, 8, 16, False),  # 256 pixels: 16 threads of 16 columns
        (64, 56, 8, 56, False),  # 3136 pixels are not those of whole warps
        (24, 64, 8, 64, False),  # three channels: no power of two of threads
        (64, 128, 1, 128, False),  # too long to keep
        (128, 16, 1, 32, True),  # 65536 columns in pieces of 512 are the most and the fewest
        (256, 16, 1, 32, False),
    ],
)
def test_which_groups_have_pieces(
    channels: int, height: int, groups: int, width: int, has_pieces: bool
) -> None:
    x = value("x", "n", channels, height, width, dtype=DType.BFLOAT16)
    weight, bias = (value(k, channels, dtype=DType.BFLOAT16) for k in ("weight", "bias"))
    y = apply("group_norm", x, weight, bias, num_groups=groups)
    steps = trained_plan(graph([x, weight, bias], y))
    assert any(step.program.pieces for step in steps) is has_pieces
