"""Which reciprocals elementwise kernels multiply out."""

from __future__ import annotations

import pytest

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Graph, Node
from fusegen.plan.kernels.elementwise import ElementwisePlan
from tests.emulated import apply, cuda_text, graph, planned, value

NARROW = (DType.FLOAT16, DType.BFLOAT16)
WIDE = (DType.FLOAT32, DType.FLOAT64)


def ten(x: Node) -> Node:
    """The ten operations of `benchmarks/memory.py`: six special functions in 33 instructions."""
    inner = apply("tanh", apply("mul", apply("sigmoid", apply("add", apply("mul", x, 2), 1)), x))
    return apply("silu", apply("add", apply("square", apply("relu", apply("sub", inner, 0.5))), x))


def multiplied(model: Graph) -> list[str]:
    """The operations that the only kernel, an elementwise one, multiplies out."""
    (step,) = planned(model).steps
    assert isinstance(step, ElementwisePlan)
    return sorted(expression.name for expression in step.multiplied)


def chain(*names: str, dtype: DType = DType.BFLOAT16) -> Graph:
    """Operations one after the other."""
    x = y = value("x", "n", dtype=dtype)
    for name in names:
        y = apply(name, y)
    return graph([x], y)


@pytest.mark.parametrize("dtype", NARROW)
def test_two_of_three_reciprocals_make_both_even(dtype: DType) -> None:
    """54 cycles of the unit beside 33 instructions become 45 beside 37, and 36 beside 41."""
    x = value("x", "n", dtype=dtype)
    model = graph([x], ten(x))
    assert multiplied(model) == ["silu", "tanh"]
    text = cuda_text(planned(model))
    assert text.count("fusegen::multiplied_") == 2 and "multiplied_tanh(" in text
    assert '#include "fusegen/multiplied.cuh"' in text
    comment = " ".join(text.split()).replace("// ", "")
    assert "reciprocals are multiplied out in tanh, silu" in comment


@pytest.mark.parametrize("dtype", WIDE)
def test_wider_results_keep_theirs(dtype: DType) -> None:
    x = value("x", "n", dtype=dtype)
    assert multiplied(graph([x], ten(x))) == []


def test_memory_hides_a_few() -> None:
    """Three special functions take 27 cycles, 4 bytes 38 at the speed of `clone` and 29 on faster
    memory; four take 36."""
    assert multiplied(chain("sigmoid")) == multiplied(chain("silu", "exp")) == []
    assert "multiplied" not in cuda_text(planned(chain("silu", "exp")))
    assert multiplied(chain("silu", "tanh")) == ["silu"]


def test_more_bytes_hide_more() -> None:
    """With another operand and another result 8 bytes take 57 cycles at least, six functions 54."""
    x, other = value("x", "n", dtype=DType.BFLOAT16), value("y", "n", dtype=DType.BFLOAT16)
    made = ten(x)
    assert multiplied(graph([x, other], made, apply("mul", made, other))) == []


def test_instructions_hide_them() -> None:
    """An accurate error function beside them takes longer than they do."""
    x = value("x", "n", dtype=DType.BFLOAT16)
    assert multiplied(graph([x], apply("erf", ten(x)))) == []


@pytest.mark.parametrize("dtype", NARROW)
def test_first_those_that_cost_least(dtype: DType) -> None:
    """A tanh takes 4 instructions more, a sigmoid 5: 72 and 29 cycles become 63 and 33, 54 and 38,
    45 and 43; another sigmoid would make it 48."""
    model = chain(*["sigmoid"] * 3, "tanh", dtype=dtype)
    assert multiplied(model) == ["sigmoid", "sigmoid", "tanh"]
    text = cuda_text(planned(model))
    assert text.index("multiplied_sigmoid(") < text.index("near_sigmoid(")  # the last one stays


@pytest.mark.parametrize("name", ["exp", "gelu"])
def test_an_exponential_has_no_reciprocal(name: str) -> None:
    assert multiplied(chain(*[name] * 7)) == []


def test_kernels_that_reduce_or_multiply_keep_theirs() -> None:
    x = value("x", 1 << 16, 256, dtype=DType.BFLOAT16)
    weight = value("weight", 256, 256, dtype=DType.BFLOAT16)
    shared = ten(x)
    models = [
        graph([x], apply("softmax", shared, dim=1)),
        graph([x], ten(apply("layer_norm", x, normalized_shape=(256,)))),
        graph([x], apply("sum", shared, dim=0)),
        graph([x, weight], ten(apply("matmul", x, weight))),
    ]
    for model in models:
        assert "multiplied" not in cuda_text(planned(model))
