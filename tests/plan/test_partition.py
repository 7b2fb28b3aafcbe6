"""Which operations share a kernel, and why others do not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings

from fusegen.codegen.cuda import cuda_source
from fusegen.frontend import Source, elaborate, parse
from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Graph, Node, Placeholder, topological
from fusegen.passes import pipeline
from fusegen.passes.differentiation import differentiate
from fusegen.passes.results import COMPUTED
from fusegen.plan.arranging import arranged
from fusegen.plan.buffers import Buffer, BufferRole
from fusegen.plan.cost import H100, SizeHints
from fusegen.plan.group import Context, Group
from fusegen.plan.kernels.convolution import ConvolutionPlan
from fusegen.plan.kernels.elementwise import ElementwisePlan
from fusegen.plan.kernels.epilogues import GroupEpilogue, PartialEpilogue
from fusegen.plan.kernels.library import LibraryPlan
from fusegen.plan.kernels.module import ModulePlan, Step
from fusegen.plan.kernels.product import ProductPlan
from fusegen.plan.kernels.rows import RowMapping, RowPlan
from fusegen.plan.module import plan_module
from fusegen.plan.strategies import judge
from tests.emulated import apply, graph, planned, value
from tests.kernels.families import add, gelu, linear, mul, softmax
from tests.kernels.test_normalised_operands import layer_norm
from tests.random_graphs import random_graphs

CHAINS = Path(__file__).parents[2] / "examples" / "kernelbench"


def chain(number: int, dtype: DType = DType.FLOAT32) -> ModulePlan:
    """The plan of one of the five chains at full size."""
    text = (CHAINS / f"l2_{number}.fuse").read_text(encoding="utf-8")
    found = elaborate(parse(Source("chain.fuse", text)), dtype=dtype).graph
    hints = {"batch": 128 if number == 21 else 1024, "height": 256, "width": 256}
    return plan_module(pipeline.run(found), dtype, SizeHints(hints))


def kinds(plan: ModulePlan) -> list[type[Step]]:
    return [type(step) for step in plan.steps]


def split_workspaces(step: ProductPlan) -> tuple[Buffer, ...]:
    """Where a float32 product's parts lie."""
    split = step.tensor_cores.split if step.tensor_cores else None
    return split.written if split else ()


@pytest.mark.parametrize(
    ("columns", "forms"),
    [
        (1024, ["WARP"]),
        (1025, ["BLOCK"]),
        (32768, ["BLOCK"]),
        (32769, ["CLUSTER", "BLOCK"]),
        (262144, ["CLUSTER", "BLOCK"]),
        (262145, ["BLOCK"]),
        ("m", ["WARP", "PART", "BLOCK", "CLUSTER", "BLOCK"]),
    ],
)
def test_a_row_is_kept_by_as_few_threads_as_have_the_registers(
    columns: int | str, forms: list[str]
) -> None:
    (step,) = planned(graph([x := value("x", 1024, columns)], softmax(x))).steps
    assert isinstance(step, RowPlan)
    assert [form.mapping.name for form in step.forms if not form.ahead] == forms
    for form in step.forms:
        assert (form.most_columns is not None) == bool(form.program.slots)
        kept = form.steps * step.vector * form.program.kept_bytes
        assert kept <= 256 and form.threads * (kept // 4 + 32) <= 65536


def test_an_epilogue_that_keeps_too_much_of_a_tile_is_a_kernel_of_its_own() -> None:
    x, weight = value("x", 64, 32), value("weight", 256, 32)
    for kept, shares_a_kernel in ((2, True), (9, False)):
        product = linear(x, weight)
        parts = [gelu(mul(product, float(n))) for n in range(2, 2 + kept)]
        total = parts[0]
        for part in parts[1:]:
            total = add(total, part)
        normed = apply("group_norm", total, num_groups=2)
        plan = planned(graph([x, weight], *(add(normed, part) for part in parts)))
        products = [step for step in plan.steps if isinstance(step, ProductPlan)]
        assert len(products) == 1 and (len(plan.steps) == 1) == shares_a_kernel


@pytest.mark.parametrize("number", [62, 88, 94])
def test_products_with_group_statistics_are_one_kernel(number: int) -> None:
    for dtype in (DType.FLOAT32, DType.BFLOAT16):
        plan = chain(number, dtype)
        (step,) = plan.steps
        assert isinstance(step, ProductPlan) and isinstance(step.epilogue, GroupEpilogue)
        assert plan.workspaces == split_workspaces(step)


def test_the_product_of_chain_64_is_never_stored() -> None:
    plan = chain(64)
    first, second = plan.steps
    assert isinstance(first, ProductPlan) and isinstance(first.epilogue, PartialEpilogue)
    assert isinstance(second, RowPlan)
    product_bytes = 1024 * 8192 * 4
    hints = SizeHints({"batch": 1024})
    stored = set(plan.workspaces) - set(split_workspaces(first))
    assert sum(hints.value(buffer.bytes) for buffer in stored) <= product_bytes // 16


@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.BFLOAT16])
def test_chain_21_computes_its_convolution_again_rather_than_store_it(dtype: DType) -> None:
    plan = chain(21, dtype)
    assert kinds(plan) == [ConvolutionPlan, RowPlan, ConvolutionPlan]
    result_bytes = 128 * 32 * 254 * 254 * dtype.itemsize
    hints = SizeHints({"batch": 128, "height": 256, "width": 256})
    assert sum(hints.value(buffer.bytes) for buffer in plan.workspaces) <= result_bytes // 100


X, W = value("x", "n", 256), value("w", 256)


def one_kernel(*results: Node, inputs: tuple[Node, ...] = (X, W)) -> Step:
    (step,) = planned(graph(inputs, *results)).steps
    return step


@pytest.mark.parametrize(
    "results",
    [
        pytest.param((gelu(mul(add(X, 1.0), W)),), id="a chain"),
        pytest.param((gelu(X), mul(X, 2.0)), id="two results of one input"),
        pytest.param((gelu(X), apply("relu", mul(gelu(X), W))), id="a result that is used again"),
        pytest.param((apply("cat", gelu(X), apply("relu", X), dim=1),), id="joined"),
        pytest.param((gelu(apply("permute", X, dims=(1, 0))),), id="a view between"),
    ],
)
def test_elementwise_operations_are_one_kernel(results: tuple[Node, ...]) -> None:
    assert isinstance(one_kernel(*results), ElementwisePlan)


NORM = apply("layer_norm", X, W, W, normalized_shape=(256,))


@pytest.mark.parametrize(
    "results",
    [
        pytest.param((add(gelu(NORM), X),), id="layer norm, gelu, residual"),
        pytest.param((softmax(add(mul(X, 0.125), W)),), id="softmax with scale and mask"),
        pytest.param((apply("rms_norm", X, W, normalized_shape=(256,)),), id="rms norm"),
        pytest.param((apply("log_softmax", X, dim=1),), id="log softmax"),
        pytest.param((apply("sum", X, dim=1), apply("amax", X, dim=1)), id="two reductions"),
        pytest.param((NORM, apply("rms_norm", X, W, normalized_shape=(256,))), id="two norms"),
        pytest.param((apply("logsumexp", gelu(X), dim=1), gelu(X)), id="a prologue kept"),
    ],
)
def test_what_needs_one_row_at_a_time_is_one_kernel(results: tuple[Node, ...]) -> None:
    step = one_kernel(*results)
    assert isinstance(step, RowPlan) and step.forms[0].mapping is RowMapping.WARP


@pytest.mark.parametrize(
    ("shape", "dim", "mapping", "parts"),
    [
        (("n", 256), 1, RowMapping.WARP, 1),
        (("n", 8192), 1, RowMapping.BLOCK, 1),
        (("n", 4096), 0, RowMapping.OUTER, 16),
        ((2, 1 << 20), 1, RowMapping.BLOCK, 264),
        ((1 << 16, 64), 0, RowMapping.OUTER, 528),
    ],
)
def test_threads_lie_along_memory_and_fill_the_device(
    shape: tuple[int | str, ...], dim: int, mapping: RowMapping, parts: int
) -> None:
    x = value("x", *shape)
    first, *finish = planned(graph([x], apply("sum", x, dim=dim))).steps
    assert isinstance(first, RowPlan)
    assert (first.forms[0].mapping, first.parts) == (mapping, parts)
    assert len(finish) == (parts > 1)


def refusals(result: Node, *inputs: Node) -> dict[str, str]:
    """What the strategies say against all of a graph's operations in one group."""
    order = topological(arranged(pipeline.run(graph(inputs, result))).roots)
    buffers = {
        node: Buffer(f"b{i}", BufferRole.WORKSPACE, node.type) for i, node in enumerate(order)
    }
    nodes = tuple(node for node in order if isinstance(node.operation, COMPUTED))
    return dict(judge(Group(nodes, nodes[-1:]), Context(buffers, H100, SizeHints())).refusals)


A, B = value("a", "n", 64), value("b", 600, 64)
PRODUCT = linear(A, B)
S = value("s", 64, 64)


@pytest.mark.parametrize(
    ("result", "strategy", "reason"),
    [
        (gelu(X), "rows in one kernel", "nothing is reduced"),
        (softmax(X), "elementwise", "something in the group is not elementwise"),
        (
            softmax(X),
            "rows split across blocks",
            "a reduction needs the result of another one over the same row",
        ),
        (
            apply("sum", X, dim=1),
            "rows split across blocks",
            "the rows alone keep the whole device busy, or are short",
        ),
        (
            apply("group_norm", PRODUCT, num_groups=3),
            "product with groups inside the tile",
            "groups of 200 columns do not fit into a tile",
        ),
        (
            softmax(PRODUCT),
            "product with partial row reductions",
            "the product's elements are needed elsewhere, so they are stored anyway",
        ),
        (
            apply("matmul", PRODUCT, apply("relu", value("c", 600, 8))),
            "product with elementwise epilogue",
            "the group has not exactly one matrix product",
        ),
        (
            apply("sub", S, apply("sum", S, dim=1)),
            "rows in one kernel",
            "sum is needed at another row than the kernel's own",
        ),
        (
            apply("sub", X, apply("sum", X, dim=0)),
            "product with groups inside the tile",
            "the group has not exactly one matrix product",
        ),
    ],
)
def test_refusals_say_why(result: Node, strategy: str, reason: str) -> None:
    assert refusals(result, X, W, A, B, S)[strategy] == reason


@pytest.mark.parametrize("follow", [layer_norm, softmax, lambda y: add(y, layer_norm(y))])
@pytest.mark.parametrize("dtype", [DType.FLOAT16, DType.BFLOAT16])
def test_what_rows_read_of_a_product_is_stored_as_narrow_as_it_is(
    follow: Callable[[Node], Node], dtype: DType
) -> None:
    """Such as a linear layer's result, which a layer norm computes on in float32."""
    x, w = value("x", "m", 1024, dtype=dtype), value("w", 1024, 1024, dtype=dtype)
    plan = planned(graph([x, w], follow(gelu(linear(x, w)))))
    assert len(plan.steps) == 2
    assert [buffer.dtype for buffer in plan.workspaces] == [dtype]


def test_what_widens_an_argument_for_others_stays_a_kernel() -> None:
    x, w = value("x", "m", 64, dtype=DType.FLOAT32), value("w", 32, 64, dtype=DType.FLOAT64)
    plan = planned(graph([x, w], linear(apply("to", x, dtype=DType.FLOAT64), w)))
    assert [type(step) for step in plan.steps] == [ElementwisePlan, ProductPlan]


def test_two_norms_over_different_dims_are_two_kernels() -> None:
    x = value("x", "n", 1 << 16)  # columns enough for all multiprocessors
    plan = planned(graph([x], softmax(softmax(x, 1), 0)))
    assert kinds(plan) == [RowPlan, RowPlan]


@pytest.mark.parametrize(
    "results",
    [
        pytest.param((gelu(X),), id="elementwise"),
        pytest.param((softmax(X),), id="rows"),
        pytest.param((linear(A, B),), id="product"),
        pytest.param((apply("logsumexp", linear(A, B), dim=1),), id="product rows"),
    ],
)
def test_costs_are_those_of_inputs_and_results(results: tuple[Node, ...]) -> None:
    """Nothing is read or written twice in these, but for small states of the product's rows."""
    inputs = (A, B) if results[0].shape[0] == A.shape[0] and X not in _below(results[0]) else (X,)
    plan = planned(graph(inputs, *results), {"n": 1 << 14})
    hints = SizeHints({"n": 1 << 14})
    given = sum(hints.value(buffer.bytes) for buffer in plan.arguments)
    made = sum(hints.value(buffer.bytes) for buffer in plan.results)
    states = sum(hints.value(buffer.bytes) for buffer in plan.workspaces)
    assert sum(step.cost.reads for step in plan.steps) == given + states
    assert sum(step.cost.writes for step in plan.steps) == made + states
    assert all(0 < step.cost.floor(H100) < step.cost.estimate(H100) for step in plan.steps)


def test_dear_values_of_rows_are_not_computed_for_each_element() -> None:
    """A row's slope, by which its elements are multiplied and summed along the other direction."""
    x, slope = value("x", 1024, 4096), value("slope", 1024, 1)
    for _ in range(12):
        slope = apply("gelu", apply("tanh", slope))
    scaled = apply("mul", x, slope)
    narrow, *wide = planned(graph([*_inputs(scaled)], scaled, apply("sum", scaled, dim=0))).steps
    assert isinstance(narrow, ElementwisePlan) and narrow.count.constant == 1024
    assert len(wide) in (1, 2) and all(isinstance(step, RowPlan) for step in wide)
    cheap = apply("mul", x, apply("neg", value("slope", 1024, 1)))
    steps = planned(graph([*_inputs(cheap)], cheap, apply("sum", cheap, dim=0))).steps
    assert not any(isinstance(step, ElementwisePlan) for step in steps)


def _inputs(node: Node) -> list[Node]:
    return [n for n in _below(node) if isinstance(n.operation, Placeholder)]


def _below(node: Node) -> tuple[Node, ...]:
    return topological((node,))


@settings(max_examples=150)
@given(drawn=random_graphs())
def test_steps_run_in_order_and_make_every_result_once(drawn: Graph) -> None:
    plan = planned(drawn)
    available = {buffer.name for buffer in plan.arguments}
    for step in plan.steps:
        reads = _reads(step)
        assert reads <= available, f"{reads - available} read before they are written"
        written = [buffer.name for buffer in step.written]
        assert not available & set(written) and len(set(written)) == len(written)
        available |= set(written)
    assert {buffer.name for buffer in plan.results} <= available


def _reads(step: Step) -> set[str]:
    if isinstance(step, LibraryPlan):
        return {buffer.name for buffer in step.operands}
    (signature,) = cuda_source(
        ModulePlan(graph, DType.FLOAT32, (), (), (), (step,), ((),)), ()
    ).launchers.values()
    return {buffer.name for buffer in signature.reads}


def test_the_gradient_of_parts_that_are_used_together_is_one_kernel() -> None:
    """Each part's gradient reads the others: all are made where they are joined, once the join of
    all is one group with them."""
    width = 512
    x = value("x", "n", 4 * width)
    a, b, c, d = (apply("narrow", x, dim=1, start=i * width, length=width) for i in range(4))
    gated = apply("mul", apply("sigmoid", a), apply("tanh", b))
    found = differentiate(graph([x], apply("add", gated, apply("mul", apply("sigmoid", c), d))))
    assert found is not None
    plan = plan_module(pipeline.run(found.backward), DType.FLOAT32)
    assert len(plan.steps) == 1 and plan.workspaces == ()
