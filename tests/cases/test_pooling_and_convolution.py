"""Faults of other compilers in pooling and convolution, N31 to N34."""

from __future__ import annotations

import pytest
import torch

from fusegen.ops.record import OperationError
from tests.emulated import apply, graph, run, value

NAN = float("nan")


def pooled(name: str, tensor: torch.Tensor, **attributes: object) -> torch.Tensor:
    x = value("x", *tensor.shape)
    (result,) = run(graph([x], apply(name, x, **attributes)), [tensor], check=True)
    return result


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_n31_average_pool_in_ceil_mode_divides_by_what_it_covers(rank: int) -> None:
    x = torch.arange(1.0, 6.0).reshape(1, 1, *(1,) * (rank - 1), 5)
    window = (*(1,) * (rank - 1), 2)
    result = pooled(f"avg_pool{rank}d", x, kernel_size=window, stride=window, ceil_mode=True)
    assert result.flatten().tolist() == [1.5, 3.5, 5.0]


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_n33_max_pool_pads_with_minus_infinity_and_keeps_nan(rank: int) -> None:
    x = torch.full((1, 1, *(4,) * rank), -5.0)
    result = pooled(f"max_pool{rank}d", x, kernel_size=2, padding=1)
    assert (result == -5.0).all()
    x.view(-1)[0] = NAN
    result = pooled(f"max_pool{rank}d", x, kernel_size=2).flatten()
    assert result[0].isnan() and (result[1:] == -5.0).all()


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_n34_output_padding_of_a_transposed_convolution(rank: int) -> None:
    x, weight = value("x", 1, 2, *(4,) * rank), value("weight", 2, 3, *(3,) * rank)
    name = f"conv_transpose{rank}d"
    node = apply(name, x, weight, dilation=3, output_padding=2)
    assert [size.constant for size in node.shape[2:]] == [12] * rank
    tensors = torch.randn(1, 2, *(4,) * rank), torch.randn(2, 3, *(3,) * rank)
    (result,) = run(graph([x, weight], node), tensors)
    assert list(result.shape[2:]) == [12] * rank
    with pytest.raises(OperationError, match="output_padding"):
        apply(name, x, weight, output_padding=1)
