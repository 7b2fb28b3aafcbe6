"""What is timed must be right: results on other tiles are compared with the first ones'."""

from __future__ import annotations

import pytest
import torch

from fusegen.errors import FusegenError
from fusegen.runtime.tile_timing import _check

RIGHT = torch.tensor([1.0, -2.0, 3.0, 0.0], dtype=torch.bfloat16)


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(torch.zeros_like(RIGHT), id="zeros"),
        pytest.param(torch.full_like(RIGHT, float("nan")), id="NaN everywhere"),
        pytest.param(RIGHT.clone().index_fill_(0, torch.tensor([3]), float("nan")), id="one NaN"),
        pytest.param(RIGHT.clone().index_fill_(0, torch.tensor([3]), float("inf")), id="infinite"),
    ],
)
def test_wrong_results_are_refused(wrong: torch.Tensor) -> None:
    with pytest.raises(FusegenError, match="results on other tiles differ"):
        _check([[RIGHT], [RIGHT.clone()], [wrong]])


def test_results_that_are_alike_pass() -> None:
    special = torch.tensor([float("nan"), float("inf"), -1.0])
    _check([[RIGHT, special], [RIGHT * (1 + 2.0**-8), special.clone()]])
