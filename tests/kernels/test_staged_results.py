"""Results of products on the tensor cores whose rows may begin anywhere: they go through shared
memory, wherever columns are no whole vectors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pytest
import torch

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Graph, Node
from fusegen.plan.kernels.product import ProductPlan
from fusegen.plan.kernels.product_forms import Exchange, WgmmaForm
from fusegen.runtime.loader import emulator_runtime
from tests.emulated import Kernels, Size, apply, build, graph, planned, value
from tests.kernels.families import add, gelu
from tests.kernels.test_operand_layouts import matmul, padded, transposed
from tests.ops.examples import torch_dtype
from tests.reference import evaluate

SEEDS = (0, 1, 2)
ROWS, DEPTH = 33, 72
BF16, F16 = DType.BFLOAT16, DType.FLOAT16
TENSOR_CORES = "tensor_kernel"

# What is done with a product, given a value for each column and a tensor of the result's shape.
Follows = Callable[[Node, Node, Node], Node]


def alone(product: Node, bias: Node, other: Node) -> Node:
    return product


def biased(product: Node, bias: Node, other: Node) -> Node:
    return apply("relu", add(product, bias))


def residual(product: Node, bias: Node, other: Node) -> Node:
    return add(apply("relu", add(product, bias)), other)


def widened(product: Node, bias: Node, other: Node) -> Node:
    return apply("to", residual(product, bias, other), dtype=DType.FLOAT32)


@dataclass(frozen=True)
class Case:
    """x @ w.T, or x @ w where the right operand lies `across`, of `batches` matrices if given."""

    columns: Size
    follows: Follows = residual
    batches: tuple[Size, ...] = ()
    rows: Size = "m"
    depth: int = DEPTH
    across: bool = False
    dtype: DType = BF16

    @property
    def shapes(self) -> tuple[tuple[Size, ...], ...]:
        """Those of both operands, a value for each column, and what has the result's shape."""
        right = (self.depth, self.columns) if self.across else (self.columns, self.depth)
        return (
            (*self.batches, self.rows, self.depth),
            (*self.batches, *right),
            (self.columns,),
            (*self.batches, self.rows, self.columns),
        )

    def graph(self) -> Graph:
        names = ("x", "w", "bias", "other")
        x, w, bias, other = (
            value(name, *shape, dtype=self.dtype)
            for name, shape in zip(names, self.shapes, strict=True)
        )
        product = matmul(x, w if self.across else transposed(w))
        return graph([x, w, bias, other], self.follows(product, bias, other))

    def tensors(self, **sizes: int) -> list[torch.Tensor]:
        """Normal numbers for these values of symbolic sizes."""
        known = {"m": ROWS, "b": 3, **sizes}
        generator = torch.Generator().manual_seed(11)
        shapes = [[known[s] if isinstance(s, str) else s for s in shape] for shape in self.shapes]
        return [
            torch.randn(shape, generator=generator).to(torch_dtype(self.dtype))  # type: ignore[arg-type]
            for shape in shapes
        ]


CASES: dict[str, Case] = {
    "odd": Case(37),
    "odd, alone": Case(37, alone),
    "odd, float16": Case(37, biased, dtype=F16),
    "odd, float32 results": Case(205, widened, rows=70),
    "symbolic, float32 results": Case("n", widened),
    "one column": Case(1, biased),
    "two columns": Case(2, biased),
    "fours of columns": Case(36, biased),
    "several parts of a tile": Case(205),
    "several tiles": Case(269, rows=130, dtype=F16),
    "batches": Case(37, batches=("b",)),
    "batches of odd sizes": Case(19, batches=(3,), rows=5),
    "batches of two dims": Case(30, biased, batches=("b", 2)),
    "symbolic": Case("n"),
    "symbolic, alone": Case("n", alone),
    "symbolic, batches": Case("n", batches=("b",), dtype=F16),
    "symbolic, across": Case("n", biased, across=True),
    "a depth of no whole lines": Case(37, depth=70),
    "across": Case(37, depth=70, across=True),
}


def form_of(one: Graph) -> WgmmaForm:
    (step,) = planned(one).steps
    assert isinstance(step, ProductPlan) and step.tensor_cores is not None
    return step.tensor_cores


@pytest.fixture(scope="module")
def kernels() -> Iterator[Mapping[str, Kernels]]:
    graphs = [case.graph() for case in CASES.values()]
    yield dict(zip(CASES, build(graphs, check=True), strict=True))


def check(
    compiled: Kernels, case: Case, tensors: Sequence[torch.Tensor], form: str = TENSOR_CORES
) -> None:
    """The result under several orders of threads, against float64; the kernel's name has `form` in
    it.

    Products of 16 bits are exact in float32, and each of the additions errs by a unit of 2^-24 of
    what the terms add up to without their signs, twice as much where the tensor cores cut off.
    Storing the result costs half a unit of its dtype.
    """
    one = case.graph()
    sizes = compiled.sizes(tensors)
    exact, terms = (
        evaluate(one.roots, dict(zip(one.inputs, wide, strict=True)), sizes)[0]
        for wide in ([t.double() for t in tensors], [t.double().abs() for t in tensors])
    )
    eps = torch.finfo(torch_dtype(case.dtype)).eps
    allowed = 2 * (case.depth + 2) * 2.0**-24 * terms + eps * exact.abs()
    for seed in SEEDS:
        emulator_runtime().take_launched()
        (found,) = compiled(*tensors, seed=seed, check=True)
        assert form in emulator_runtime().take_launched()[0]
        assert found.shape == exact.shape
        assert bool(((found.double() - exact).abs() <= allowed).all())


@pytest.mark.parametrize("name", CASES)
def test_the_form(name: str) -> None:
    form = form_of(CASES[name].graph())
    assert form.exchange is Exchange.THROUGH_SHARED and form.neighbours == 2


@pytest.mark.parametrize("name", [name for name in CASES if CASES[name].depth == DEPTH])
def test_against_float64(kernels: Mapping[str, Kernels], name: str) -> None:
    """Of symbolic columns, there are 37 or so many that stand in whole vectors."""
    for columns in (37, 40) if "symbolic" in name else (37,):
        case = CASES[name]
        is_copied = not case.across or columns % 8 == 0  # lines start at multiples of 16 bytes
        tensors = case.tensors(n=columns)
        check(kernels[name], case, tensors, TENSOR_CORES if is_copied else "kernel")


@pytest.mark.parametrize("columns", [1, 2, 7, 12, 30, 64, 129, 264, 268])
def test_columns_known_at_run_time(kernels: Mapping[str, Kernels], columns: int) -> None:
    check(kernels["symbolic"], CASES["symbolic"], CASES["symbolic"].tensors(n=columns))


@pytest.mark.parametrize("rows", [1, 8, 64, 65, 130])
def test_any_number_of_rows(kernels: Mapping[str, Kernels], rows: int) -> None:
    check(kernels["odd"], CASES["odd"], CASES["odd"].tensors(m=rows))


@pytest.mark.parametrize("name", ["a depth of no whole lines", "across"])
def test_operands_whose_lines_are_apart(kernels: Mapping[str, Kernels], name: str) -> None:
    """Other forms take them where lines start anywhere, this one where there is room behind."""
    case = CASES[name]
    x, w, bias, other = case.tensors()
    check(kernels[name], case, [x, w, bias, other], form="kernel")
    check(kernels[name], case, [apart(x), apart(w), bias, other])


def apart(x: torch.Tensor) -> torch.Tensor:
    """Lines that start at multiples of 16 bytes."""
    wide = torch.full((*x.shape[:-1], -(-x.shape[-1] // 8) * 8), float("nan"), dtype=x.dtype)
    view = wide[..., : x.shape[-1]]
    return view.copy_(x)


def test_a_residual_with_strides_takes_another_form(kernels: Mapping[str, Kernels]) -> None:
    case = CASES["odd"]
    *tensors, other = case.tensors()
    check(kernels["odd"], case, [*tensors, padded(other)], form="kernel")


@pytest.mark.parametrize("special", [float("inf"), float("nan")])
def test_special_values(kernels: Mapping[str, Kernels], special: float) -> None:
    """They stay in the row and the column that have them."""
    x, w, bias, other = CASES["odd, alone"].tensors()
    x[3, 5] = special
    w[36, 7] = -special
    (found,) = kernels["odd, alone"](x, w, bias, other, check=True)
    exact = x.double() @ w.double().T
    assert torch.equal(found.isnan(), exact.isnan())
    assert torch.equal(found.isposinf(), exact.isposinf())
    assert torch.equal(found.isneginf(), exact.isneginf())


@pytest.mark.parametrize("columns", [32, 40, 264])
def test_whole_vectors_are_stored_from_registers(columns: int) -> None:
    assert form_of(Case(columns, biased).graph()).exchange is not Exchange.THROUGH_SHARED


def test_two_results_are_stored_from_registers() -> None:
    """Whole vectors or pairs of columns, as there are; shared memory has room for one result."""
    x, w, bias = (
        value(n, *s, dtype=BF16)
        for n, s in (("x", ("m", DEPTH)), ("w", ("n", DEPTH)), ("b", ("n",)))
    )
    added = add(matmul(x, transposed(w)), bias)
    one = graph([x, w, bias], gelu(added), added)
    form = form_of(one)
    assert form.or_pairs and form.exchange is not Exchange.THROUGH_SHARED
    (compiled,) = build([one], check=True)
    for columns, kernel in ((40, TENSOR_CORES), (30, TENSOR_CORES), (37, "kernel")):
        tensors = Case("n").tensors(n=columns)[:3]
        wide = [t.double() for t in tensors]
        expected = wide[0] @ wide[1].T + wide[2]
        for seed in SEEDS:
            emulator_runtime().take_launched()
            found = compiled(*tensors, seed=seed, check=True)
            assert kernel in emulator_runtime().take_launched()[0]
            for actual, exact in zip(
                found, (torch.nn.functional.gelu(expected), expected), strict=True
            ):
                # The sums' error is far below the half unit of bfloat16 that storing costs.
                error = (actual.double() - exact).abs()
                assert bool((error <= 2.0**-8 * exact.abs() + 2.0**-12).all())
