"""Which names and parameters a kernel has."""

from __future__ import annotations

import pytest
import torch

from fusegen.codegen.cuda import cuda_source
from tests.emulated import apply, graph, planned, run, value


@pytest.mark.parametrize(("shape", "strided"), [((1,), False), ((1, 1), False), ((2, 1), True)])
def test_only_tensors_whose_strides_matter_have_stride_parameters(
    shape: tuple[int, ...], strided: bool
) -> None:
    x = value("x", *shape)
    one = graph([x], apply("exp", x))
    (signature,) = cuda_source(planned(one), ()).launchers.values()
    assert {buffer.name for buffer in signature.strided} == ({"x"} if strided else set())
    tensor = torch.randn(shape)
    torch.testing.assert_close(run(one, [tensor], check=True)[0], tensor.exp())
