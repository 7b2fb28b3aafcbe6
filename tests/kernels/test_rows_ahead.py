"""Rows that come ahead: the next ones are copied to shared memory while a block works on one."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest
import torch

import tests.emulated
from fusegen.codegen.cuda import CudaSource
from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Graph
from fusegen.plan.kernels.module import ModulePlan
from fusegen.plan.kernels.rows import RowMapping, RowPlan
from fusegen.runtime.loader import emulator_runtime
from tests.emulated import Kernels, apply, graph, link, planned, value
from tests.reference import evaluate
from tests.trained import compare, trained

# Of these the emulator runs two blocks or clusters at once, so with one row more a block has two.
AT_ONCE = 2


@dataclass(frozen=True)
class Case:
    """A graph over rows of some width, and the blocks that should share a row, `tensors` of which
    come ahead."""

    kind: str
    width: int
    blocks: int
    dtype: DType = DType.BFLOAT16
    tensors: int = 1

    def __str__(self) -> str:
        return f"{self.kind} {self.width} {self.dtype.value}"

    @functools.cached_property
    def graph(self) -> Graph:
        """Relu, the operation over rows, and silu."""
        x, other = (value(name, "n", self.width, dtype=self.dtype) for name in ("x", "other"))
        weight, bias = (value(name, self.width, dtype=self.dtype) for name in ("weight", "bias"))
        active = apply("relu", x)
        if self.kind == "layer norm":
            y = apply("layer_norm", active, weight, bias, normalized_shape=(self.width,))
            inputs = [x, weight, bias]
        elif self.kind == "rms norm":
            y = apply("rms_norm", active, weight, normalized_shape=(self.width,))
            inputs = [x, weight]
        elif self.kind == "joined first":
            y = apply("softmax", apply("add", active, other), dim=1)
            inputs = [x, other]
        elif self.kind == "joined last":
            y = apply("add", apply("softmax", active, dim=1), other)
            inputs = [x, other]
        elif self.kind == "both kept":  # as in the backward of a softmax
            total = apply("sum", apply("mul", active, other), dim=1, keepdim=True)
            y = apply("mul", active, apply("sub", other, total))
            inputs = [x, other]
        else:
            y, inputs = apply("softmax", active, dim=1), [x]
        return graph(inputs, apply("silu", y))


# Rows that fill all threads' vectors, that end inside a thread's share, and that leave threads out.
CASES = (
    Case("layer norm", 32768, 1),
    Case("softmax", 16392, 1),
    Case("rms norm", 20000, 1, DType.FLOAT16),
    Case("softmax", 65536, 2),
    Case("layer norm", 33000, 2),
    Case("joined first", 24584, 1, tensors=2),
    Case("joined last", 40000, 2, tensors=2),
    Case("layer norm", 131064, 4),
    Case("both kept", 30000, 2, tensors=2),
    Case("layer norm", 10240, 1),
    Case("layer norm", 12288, 1, DType.FLOAT16),
    Case("layer norm", 24576, 1),
    Case("layer norm", 24576, 1, DType.FLOAT32),
    Case("softmax", 50000, 2, DType.FLOAT32),
    Case("rms norm", 32768, 1, DType.FLOAT32),
    Case("joined first", 20000, 1, DType.FLOAT32, tensors=2),
)


def row_plan(plan: ModulePlan) -> RowPlan:
    (step,) = plan.steps
    assert isinstance(step, RowPlan)
    return step


@functools.cache
def built(case: Case) -> Kernels:
    return link([planned(case.graph)], check=True)[0]


def drawn(case: Case, rows: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(rows + case.width)
    shapes = [[s.constant or rows for s in node.shape] for node in case.graph.inputs]
    dtype = getattr(torch, case.dtype.value)
    return [torch.randn(shape, generator=generator).to(dtype) for shape in shapes]


def check(case: Case, tensors: list[torch.Tensor], form: str, seed: int = 0) -> torch.Tensor:
    """The result, against float64 on the same numbers: storing it costs half a unit of its type,
    and what the statistics of a row lose in float32 is far less than 1e-5 of a unit deviation; a
    softmax has no terms that cancel, but in float32 the exponentials of distances up to 8 lose up
    to 4 units, and what follows a few more."""
    emulator_runtime().take_launched()
    (actual,) = built(case)(*tensors, seed=seed, check=True)
    assert [form in name for name in emulator_runtime().take_launched()] == [True]
    wide = dict(zip(case.graph.inputs, (t.double() for t in tensors), strict=True))
    (expected,) = evaluate(case.graph.roots, wide, {"n": tensors[0].shape[0]})
    absolute = 1e-5 if "norm" in case.kind or case.kind == "joined last" else 0.0
    absolute *= 0.1 if case.dtype is DType.FLOAT32 else 1
    error = (actual.double() - expected).abs()
    eps = torch.finfo(actual.dtype).eps * (8 if case.dtype is DType.FLOAT32 else 1)
    tiny = torch.finfo(actual.dtype).tiny
    is_near = error <= eps * expected.abs().clamp(min=tiny) + absolute
    assert bool(is_near.all()), f"wrong by {error.max()}"
    return actual


@pytest.mark.parametrize("case", CASES, ids=str)
def test_any_number_of_rows(case: Case) -> None:
    """Fewer rows than are under way, the last round short of blocks, and more than one round."""
    first, second, *_ = row_plan(planned(case.graph)).forms
    assert first.ahead is not None and second.ahead is None
    assert first.cluster == case.blocks and len(first.ahead.loads) == case.tensors
    for rows in (AT_ONCE + 1, 2 * AT_ONCE, 3 * AT_ONCE + 1):
        check(case, drawn(case, rows), "_ahead_kernel")


@pytest.mark.parametrize("rows", [1, AT_ONCE])
def test_no_more_rows_than_blocks_have_no_row_to_wait_for(rows: int) -> None:
    check(CASES[0], drawn(CASES[0], rows), "_block_kernel")


def test_no_rows() -> None:
    emulator_runtime().take_launched()
    (y,) = built(CASES[0])(*drawn(CASES[0], 0), check=True)
    assert y.shape == (0, 32768) and not emulator_runtime().take_launched()


@pytest.mark.parametrize("case", [CASES[1], CASES[6]], ids=str)
def test_the_same_bits_under_every_order(case: Case) -> None:
    tensors = drawn(case, 2 * AT_ONCE + 1)
    first = check(case, tensors, "_ahead_kernel")
    for seed in range(1, 10):
        assert torch.equal(check(case, tensors, "_ahead_kernel", seed), first)


def test_what_cannot_be_copied_in_whole_vectors_takes_another_form() -> None:
    case = CASES[1]
    (x,) = drawn(case, 3)
    unaligned = torch.cat([x.new_zeros(1), x.flatten()])[1:].reshape(x.shape)
    check(case, [unaligned], "_block_kernel<1")
    apart = torch.cat([x, x], dim=1)[:, : case.width]
    check(case, [apart], "_block_kernel<1")


@pytest.fixture
def turing() -> Iterator[None]:
    """Launchers see a device without copies that do not wait."""
    emulator_runtime().set_capability(7)
    yield
    emulator_runtime().set_capability(9)


@pytest.fixture
def ampere() -> Iterator[None]:
    """Launchers see a device without clusters."""
    emulator_runtime().set_capability(8)
    yield
    emulator_runtime().set_capability(9)


@pytest.mark.usefixtures("turing")
def test_a_device_without_such_copies_takes_another_form() -> None:
    check(CASES[1], drawn(CASES[1], 3), "_block_kernel")


@pytest.mark.usefixtures("ampere")
def test_a_device_without_clusters_brings_rows_to_single_blocks_only() -> None:
    check(CASES[1], drawn(CASES[1], 3), "_ahead_kernel")
    check(CASES[3], drawn(CASES[3], 3), "_looping_kernel")


def softmax_of(width: int, dtype: DType, *, log: bool = False) -> Graph:
    x = value("x", "n", width, dtype=dtype)
    name = "log_softmax" if log else "softmax"
    return graph([x], apply(name, x, dim=1), name=f"{name}_{width}_{dtype.value}")


def drawn_like(model: Graph, rows: int) -> torch.Tensor:
    (x,) = model.inputs
    generator = torch.Generator().manual_seed(rows)
    return torch.randn((rows, x.shape[1].constant or 0), generator=generator).to(
        getattr(torch, x.dtype.value)
    )


SOFTMAXES = (softmax_of(32768, DType.BFLOAT16), softmax_of(20004, DType.FLOAT32))


@functools.cache
def softmaxes() -> list[Kernels]:
    return link([planned(model) for model in SOFTMAXES], check=True)


@pytest.mark.parametrize("which", range(len(SOFTMAXES)))
def test_one_exchange_gives_the_greatest_and_the_sum(which: int) -> None:
    """Each thread takes exponentials by its own greatest value: of nothing but -infinity, of
    distances that none can have, beside infinity and NaN, and where other threads have far greater
    ones or all are equal."""
    model, kernels = SOFTMAXES[which], softmaxes()[which]
    form = row_plan(kernels.plan).forms[0]
    assert form.ahead and form.program.phases[0].powers and len(form.program.phases) == 2
    infinity = float("inf")
    x = drawn_like(model, 9)
    own = slice(0, 2 * 16 // x.itemsize)  # the first threads' first vectors
    x[0, 100:] = -infinity
    x[1] = -infinity
    x[2, own] = -infinity
    x[3, 5] = infinity
    x[4, 5] = float("nan")
    x[5] = -300.0
    x[5, 7] = 300.0
    x[6] = torch.linspace(-200, 3000, x.shape[1]).to(x.dtype)
    x[7] = -3e38
    x[8, ::2] = -infinity
    expected = torch.softmax(x.double(), dim=1)
    assert (
        not expected[[1, 3, 4]].isfinite().any() and expected[[0, 2, 5, 6, 7, 8]].isfinite().all()
    )
    for seed in range(2):
        (actual,) = kernels(x, seed=seed, check=True)
        assert torch.equal(actual.isnan(), expected.isnan())
        finite = expected.nan_to_num()
        distance = (x.double() - x.double().amax(1, keepdim=True)).abs().clamp(max=90).nan_to_num()
        unit = torch.finfo(torch.float32).eps
        # The exponential loses a unit, and half a one for each unit of a distance's size; storing
        # the result half of its own, or of the least number there is.
        lost = finite * (unit * (4 + distance) + torch.finfo(x.dtype).eps)
        least = torch.finfo(x.dtype).tiny * torch.finfo(x.dtype).eps
        assert bool(((actual.double().nan_to_num() - finite).abs() <= lost + least).all())


def test_a_softmax_of_what_needs_statistics() -> None:
    """The greatest of the row is not the only thing that is reduced of it."""
    width = 16392
    x = value("x", "n", width)
    hidden = apply("layer_norm", x, normalized_shape=(width,))
    model = graph(
        [x], apply("softmax", hidden, dim=-1), apply("amax", hidden, dim=(-1,)), name="Both"
    )
    (kernels,) = link([planned(model)], check=True)
    form = row_plan(kernels.plan).forms[0]
    assert form.ahead and any(phase.powers for phase in form.program.phases)
    drawn = drawn_like(model, 3)
    actual = kernels(drawn, check=True)
    wide = torch.nn.functional.layer_norm(drawn.double(), (width,))
    for made, expected in zip(actual, (wide.softmax(1), wide.amax(1)), strict=True):
        torch.testing.assert_close(made.double(), expected, rtol=2e-6, atol=0)


def test_a_log_softmax_keeps_its_values() -> None:
    model = softmax_of(16392, DType.BFLOAT16, log=True)
    (kernels,) = link([planned(model)], check=True)
    form = row_plan(kernels.plan).forms[0]
    assert form.ahead and len(form.program.phases) == 2
    x = drawn_like(model, 5) * 10
    (actual,) = kernels(x, check=True)
    expected = torch.log_softmax(x.double(), dim=1)
    error = (actual.double() - expected).abs()
    assert bool((error <= torch.finfo(x.dtype).eps * expected.abs()).all())


def norm_of(width: int, dtype: DType) -> Graph:
    x = value("x", "n", width, dtype=dtype)
    y = apply("layer_norm", x, normalized_shape=(width,))
    return graph([x], y, name=f"plain_{width}_{dtype.value}")


NORMS = tuple(norm_of(w, d) for d in (DType.BFLOAT16, DType.FLOAT32) for w in (24576, 32768))


@functools.cache
def norms() -> list[Kernels]:
    return link([planned(model) for model in NORMS], check=True)


@pytest.mark.parametrize("which", range(len(NORMS)))
def test_moments_of_whole_shares(which: int) -> None:
    """One exchange for mean and variance, exact where all of a row is equal, and as good as two
    passes where the mean is far from zero and where threads' own means are far from each other."""
    model, kernels = NORMS[which], norms()[which]
    form = row_plan(kernels.plan).forms[0]
    assert form.ahead and form.by_shares and len(form.program.phases) == 2
    x = drawn_like(model, 6).float()
    x[0] = 3.3
    x[1] = -1234.5
    x[2] += 1000.0
    x[3] += torch.linspace(-1000, 1000, x.shape[1])
    x[4, 17] = 1e6
    x[5, 5] = float("inf")
    x = x.to(getattr(torch, model.inputs[0].dtype.value))
    (actual,) = kernels(x, check=True)
    assert torch.equal(actual[:2], torch.zeros_like(actual[:2])) and bool(actual[5].isnan().all())
    wide = x[2:5].double()
    expected = torch.nn.functional.layer_norm(wide, (x.shape[1],))
    # Mean and variance lose units of themselves: two of the mean, as parts of a deviation.
    unit = torch.finfo(torch.float32).eps
    mean, deviation = wide.mean(1, keepdim=True).abs(), wide.std(1, keepdim=True)
    lost = 2 * unit * mean / deviation + expected.abs() * (4 * unit + torch.finfo(x.dtype).eps)
    assert bool(((actual[2:5].double() - expected).abs() <= lost + 2 * unit).all())


def test_what_all_rows_have_alike_is_read_once() -> None:
    """And stays in registers and in shared memory, as far as they have room."""

    def held(kind: str, width: int, dtype: DType) -> tuple[list[str], list[str]]:
        form = row_plan(planned(Case(kind, width, 1, dtype).graph)).forms[0]
        assert form.ahead is not None and form.ahead_bytes <= 211 * 1024
        resident, shared = form.ahead.resident, form.ahead.shared
        return [load.buffer.name for load in resident], [load.buffer.name for load in shared]

    assert held("layer norm", 32768, DType.BFLOAT16) == (["weight"], ["bias"])
    assert held("layer norm", 32768, DType.FLOAT32) == ([], [])
    assert held("rms norm", 32768, DType.BFLOAT16) == ([], [])  # one vector is not worth it


def normed(width: int, dtype: DType = DType.BFLOAT16) -> Graph:
    x = value("x", "n", width, dtype=dtype)
    weight, bias = (value(name, width, dtype=dtype) for name in ("weight", "bias"))
    y = apply("layer_norm", x, weight, bias, normalized_shape=(width,))
    return graph([x, weight, bias], y, name=f"Norm{width}")


@pytest.mark.parametrize(
    ("width", "mapping", "rows", "dtype"),
    [
        (2056, RowMapping.BLOCK, (0, 1, 3), DType.BFLOAT16),
        # three rows a block, at most
        (4096, RowMapping.BLOCK, (1, 264, 2 * 264 + 5), DType.BFLOAT16),
        (16384, RowMapping.CLUSTER, (1, 2 * 64 + 1), DType.BFLOAT16),
        (32768, RowMapping.CLUSTER, (2,), DType.BFLOAT16),
        (2052, RowMapping.BLOCK, (1, 2 * 264 + 5), DType.FLOAT32),
        (16384, RowMapping.CLUSTER, (2,), DType.FLOAT32),
    ],
)
def test_sums_over_rows(
    width: int, mapping: RowMapping, rows: tuple[int, ...], dtype: DType
) -> None:
    """Both operands come ahead, and the mean and the scale of the next row do."""
    model = normed(width, dtype)
    (made,) = trained([model], {"n": 1 << 14})
    first = made.backward.plan.steps[0]
    assert isinstance(first, RowPlan) and first.program.sums
    form = first.forms[0]
    assert form.mapping is mapping and form.ahead is not None
    assert len(form.ahead.loads) == 2 and len(form.ahead.scalars) == 2
    for count in rows:
        generator = torch.Generator().manual_seed(count)
        shapes = [(count, width), (width,), (width,)]
        drawn = [torch.randn(s, generator=generator) for s in shapes]
        drawn = [tensor.to(getattr(torch, dtype.value)) for tensor in drawn]
        emulator_runtime().take_launched()
        compare(made, drawn, {"n": count})
        launched = emulator_runtime().take_launched()
        assert any("_ahead_kernel" in name and "gradient" in name for name in launched)


def test_sums_over_rows_have_the_same_bits_each_time() -> None:
    model = normed(2056)
    (made,) = trained([model], {"n": 1 << 14})
    generator = torch.Generator().manual_seed(3)
    shapes = [(7, 2056), (2056,), (2056,), (7, 2056)]
    *tensors, upstream = (torch.randn(s, generator=generator).bfloat16() for s in shapes)
    first = made.gradients(tensors, [upstream])
    for seed in range(1, 10):
        again = made.gradients(tensors, [upstream], seed=seed)
        assert all(torch.equal(first[node], again[node]) for node in first)


@pytest.mark.parametrize(
    ("pattern", "fault", "says"),
    [
        ("cp_async_wait<ahead - 1>();", "", "race: reads at .* what a cp_async wrote"),
        ("cp_async_wait<ahead - 1>();", "cp_async_wait<ahead>();", "race: reads"),
        (
            "place = place + 1 == ahead ? 0 : place + 1;",
            "place = 0;",
            "race: |uninitialised",
        ),
        ("+ ahead * blocks;  // takes its place", "+ blocks;", "wrong by"),
        ("powers.factor(amax);", "powers.factor(amax) + 1.0f;", "wrong by"),
    ],
    ids=[
        "no wait",
        "a row too few waited for",
        "always the same place",
        "a row too near",
        "powers by a thread's own greatest",
    ],
)
def test_planted_faults_are_found(
    pattern: str, fault: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the checker in any order of threads, or by the result."""
    right = tests.emulated.cuda_source

    def faulty(plan: ModulePlan, header: tuple[str, ...]) -> CudaSource:
        made = right(plan, header)
        assert pattern in made.text
        return replace(made, text=made.text.replace(pattern, fault))

    monkeypatch.setattr(tests.emulated, "cuda_source", faulty)
    case = CASES[1]
    (kernels,) = link([planned(case.graph)], check=True)
    monkeypatch.setattr(f"{__name__}.built", lambda _: kernels)
    for seed in range(3):
        with pytest.raises(AssertionError, match=says):
            check(case, drawn(case, 4 * AT_ONCE), "_ahead_kernel", seed)


def test_who_takes_the_form() -> None:
    """Fixed rows that are long, and of whole vectors."""

    def takes(width: int | str, dtype: DType = DType.BFLOAT16, rows: int | str = "n") -> bool:
        x = value("x", rows, width, dtype=dtype)
        plan = row_plan(planned(graph([x], apply("softmax", x, dim=1))))
        return any(form.ahead for form in plan.forms)

    assert takes(32768) and takes(262144)
    assert not takes(16384) and not takes(32764) and not takes("width")
    assert takes(32768, DType.FLOAT32) and takes(262144, DType.FLOAT32)
    assert not takes(32766, DType.FLOAT32) and not takes(32768, DType.FLOAT64)
    assert not takes(262144 + 8) and not takes(262144 + 4, DType.FLOAT32)
    assert takes(65536, rows=67) and not takes(65536, rows=66)  # two blocks a row of 132


def test_rows_under_way_fit_into_shared_memory() -> None:
    """Two of one tensor or one each of two, beside 16 KB of a multiprocessor's 227, and one where
    a thread has 32 columns of 32 bits."""
    for case, rows in (
        (CASES[3], 2),
        (Case("joined first", 32768, 1), 1),
        (Case("softmax", 131072, 4, DType.FLOAT32), 1),
        (Case("softmax", 262144, 8, DType.FLOAT32), 1),
    ):
        form = row_plan(planned(case.graph)).forms[0]
        assert form.ahead is not None and form.ahead.rows == rows
        assert form.ahead_bytes == 128 * 1024
