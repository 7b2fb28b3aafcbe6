"""The gradient of a convolution's input by a kernel of its own."""

from __future__ import annotations

import pytest
import torch

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Graph
from fusegen.passes import pipeline
from fusegen.passes.differentiation import differentiate
from fusegen.plan.cost import SizeHints
from fusegen.plan.kernels.convolution import ConvolutionPlan
from fusegen.plan.module import plan_module
from tests.emulated import apply, graph, value
from tests.trained import compare, trained

HINTS = {"n": 64, "d": 16, "h": 128, "w": 128}


def convolved(
    channels: int,
    results: int,
    kernel: tuple[int, ...],
    dtype: DType,
    transposed: bool = False,
    **given: object,
) -> Graph:
    x = value("x", "n", channels, *"dhw"[-len(kernel) :], dtype=dtype)
    shape = (channels, results) if transposed else (results, channels)
    weight = value("weight", *shape, *kernel, dtype=dtype)
    name = f"conv{'_transpose' if transposed else ''}{len(kernel)}d"
    return graph([x, weight], apply(name, x, weight, **given), name="Convolved")


def has_kernel(model: Graph) -> bool:
    """Whether the backward finds the input's gradient without the library."""
    found = differentiate(model)
    assert found is not None
    plan = plan_module(pipeline.run(found.backward), DType.FLOAT32, SizeHints(HINTS))
    return any(isinstance(step, ConvolutionPlan) for step in plan.steps)


@pytest.mark.parametrize(
    ("model", "pixels"),
    [
        (convolved(8, 32, (3, 3), DType.FLOAT32), (9, 11)),
        (convolved(3, 5, (3, 2), DType.FLOAT32, padding=(1, 0)), (6, 7)),
        (convolved(5, 12, (2, 3), DType.BFLOAT16, dilation=(2, 1)), (7, 9)),
        (convolved(8, 8, (1, 1), DType.FLOAT16), (4, 8)),
        (convolved(16, 9, (3, 3), DType.FLOAT16, padding=(2, 2)), (3, 5)),
        (convolved(8, 16, (3, 3), DType.FLOAT32, stride=(2, 1)), (6, 7)),
        (convolved(3, 8, (2, 3, 3), DType.FLOAT32, padding=(1, 0, 1)), (3, 5, 6)),
        (convolved(4, 6, (3, 2, 3), DType.BFLOAT16, stride=2), (5, 6, 9)),
        (convolved(8, 3, (4, 4), DType.FLOAT32, True, stride=2, padding=1), (5, 6)),
        (convolved(16, 3, (3, 3, 3), DType.FLOAT16, True, stride=2, output_padding=1), (3, 4, 5)),
    ],
    ids=[
        *("few", "rectangle", "dilated", "a pixel", "padded", "strided", "planes"),
        *("strided planes", "transposed", "transposed planes"),
    ],
)
def test_gradients(model: Graph, pixels: tuple[int, ...]) -> None:
    assert has_kernel(model)
    (made,) = trained([model], HINTS)
    generator = torch.Generator().manual_seed(5)
    dtype = getattr(torch, model.inputs[0].dtype.value)
    x = torch.randn(
        (
            2,
            *(
                s.constant or p
                for s, p in zip(model.inputs[0].shape[1:], (0, *pixels), strict=True)
            ),
        ),
        generator=generator,
    )
    weight = torch.randn([s.constant or 0 for s in model.inputs[1].shape], generator=generator)
    sizes = dict(zip("dhw"[-len(pixels) :], pixels, strict=True))
    compare(made, [x.to(dtype), weight.to(dtype)], {"n": 2, **sizes})


@pytest.mark.parametrize(
    "model",
    [
        convolved(8, 64, (3, 3), DType.FLOAT32),  # an element reads 64 channels
        convolved(8, 8, (1, 1), DType.FLOAT32, padding=(1, 1)),  # results of no pixel
        convolved(8, 8, (3, 3), DType.FLOAT64),
    ],
    ids=["many channels", "padding alone", "float64"],
)
def test_what_is_left_to_the_library(model: Graph) -> None:
    assert not has_kernel(model)
