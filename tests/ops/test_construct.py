"""Making nodes: numbers among operands, defaults, and what is refused."""

from __future__ import annotations

import itertools

import pytest
import torch

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import TensorType
from fusegen.ir.integers import Integer
from fusegen.ops.composite.normalizations import GROUP_NORM
from fusegen.ops.construct import call, constant, size_value
from fusegen.ops.pointwise import arithmetic
from fusegen.ops.pointwise.casting import CAST
from fusegen.ops.pointwise.functions import EXP
from fusegen.ops.pointwise.logic import WHERE
from fusegen.ops.record import CONSTANT, SIZE_VALUE, OperationError
from tests.ops.examples import fixed, placeholder, torch_dtype
from tests.reference import evaluate

NUMBERS = (True, 2, 2.5)


@pytest.mark.parametrize("dtype", DType)
@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("rank", [0, 1])
def test_a_number_changes_the_dtype_only_by_its_kind(
    dtype: DType, number: bool | int | float, rank: int
) -> None:
    x = placeholder(fixed((3,) * rank, dtype))
    expected = (torch.ones((3,) * rank, dtype=torch_dtype(dtype)) * number).dtype
    for operands in ((x, number), (number, x)):
        assert torch_dtype(call(arithmetic.MUL, operands).dtype) is expected


@pytest.mark.parametrize("first,second", list(itertools.product(DType, repeat=2)))
@pytest.mark.parametrize("ranks", [(1, 1), (0, 1), (1, 0), (0, 0)])
def test_tensors_promote_as_in_pytorch(first: DType, second: DType, ranks: tuple[int, int]) -> None:
    shapes = [(2,) * rank for rank in ranks]
    nodes = [placeholder(fixed(s, d)) for s, d in zip(shapes, (first, second), strict=True)]
    values = [
        torch.ones(s, dtype=torch_dtype(d)) for s, d in zip(shapes, (first, second), strict=True)
    ]
    product = call(arithmetic.MUL, nodes)
    assert torch_dtype(product.dtype) is (values[0] * values[1]).dtype
    quotient = call(arithmetic.DIVIDE, nodes)
    (result,) = evaluate((quotient,), dict(zip(nodes, values, strict=True)))
    assert torch_dtype(quotient.dtype) is result.dtype is (values[0] / values[1]).dtype


@pytest.mark.parametrize("pair", list(itertools.product(NUMBERS, repeat=2)))
def test_where_between_two_numbers(pair: tuple[float, float]) -> None:
    condition = torch.tensor([True, False])
    node = call(WHERE, (placeholder(fixed((2,), DType.BOOL)), *pair))
    assert torch_dtype(node.dtype) is torch.where(condition, *pair).dtype


def test_a_large_number_keeps_its_value_beside_float64() -> None:
    x = placeholder(fixed((3,), DType.FLOAT64))
    node = call(arithmetic.ADD, (x, 2e50))
    (result,) = evaluate((node,), {x: torch.ones(3, dtype=torch.float64)})
    assert result.tolist() == [2e50] * 3


def test_the_number_of_a_16_bit_operation_is_not_rounded() -> None:
    node = call(arithmetic.MUL, (placeholder(fixed((3,), DType.FLOAT16)), 0.1))
    number = node.operands[1]
    assert number.operation is CONSTANT
    assert number.type == TensorType((), DType.FLOAT16)
    assert number.attributes["value"] == 0.1


def test_a_constant_takes_the_dtype_of_what_it_meets() -> None:
    x = placeholder(fixed((3,), DType.FLOAT64))
    node = call(arithmetic.ADD, (x, constant(2, DType.INT64)))
    assert node.operands[1].dtype is DType.FLOAT64


def test_a_symbolic_size_is_an_int64_scalar() -> None:
    x = placeholder(fixed((3,), DType.FLOAT16))
    node = call(arithmetic.DIVIDE, (x, Integer.symbol("batch") * 2))
    assert node.operands[1].operation is SIZE_VALUE
    assert node.operands[1].type == TensorType((), DType.INT64)
    assert node.dtype is DType.FLOAT16
    (result,) = evaluate((node,), {x: torch.ones(3, dtype=torch.float16)}, {"batch": 4})
    assert result.tolist() == [0.125] * 3


def test_a_known_size_is_a_constant() -> None:
    assert size_value(Integer.of(7)).attributes["value"] == 7


def test_a_function_of_two_sizes_is_a_tensor() -> None:
    size = size_value(Integer.symbol("n"))
    (result,) = evaluate((call(EXP, (call(arithmetic.SUB, (size, 3)),)),), {}, {"n": 3})
    assert result.dtype is torch.float32
    assert result.item() == 1.0


def test_integers_are_cast_for_a_floating_point_function() -> None:
    node = call(EXP, (placeholder(fixed((3,), DType.INT32)),))
    assert node.operands[0].operation is CAST
    assert node.dtype is DType.FLOAT32


def test_defaults_stand_in_the_order_of_the_parameters() -> None:
    x = placeholder(fixed((2, 4), DType.FLOAT32))
    bias = placeholder(fixed((4,), DType.FLOAT32))
    node = call(GROUP_NORM, (x, None, bias), num_groups=2)
    assert list(node.attributes.items()) == [("num_groups", 2), ("weight", None), ("eps", 1e-5)]
    assert node.operands == (x, bias)


def test_arguments_that_do_not_exist_are_a_mistake_of_the_caller() -> None:
    x = placeholder(fixed((3,), DType.FLOAT32))
    with pytest.raises(TypeError, match="no parameter axis"):
        call(EXP, (x,), axis=1)
    with pytest.raises(TypeError, match="1 operands too many"):
        call(EXP, (x, x))
    with pytest.raises(TypeError, match="add needs other"):
        call(arithmetic.ADD, (x,))


def test_shapes_that_do_not_broadcast_are_both_shown() -> None:
    x = placeholder(TensorType((Integer.symbol("batch"), Integer.of(64)), DType.FLOAT32))
    y = placeholder(fixed((32,), DType.FLOAT32))
    with pytest.raises(OperationError) as error:
        call(arithmetic.ADD, (x, y))
    assert error.value.message == (
        "shapes [batch, 64] and [32] do not broadcast: 64 against 32 at dim -1"
    )
    assert error.value.hint == "sizes must be equal, or one of them 1"
