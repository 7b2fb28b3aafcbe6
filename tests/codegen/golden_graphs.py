"""The graphs whose whole kernel text is kept: one of each family and form."""

from __future__ import annotations

from collections.abc import Callable

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Graph
from fusegen.ops.composite.dropout import DROPPED
from fusegen.ops.construct import call
from fusegen.passes.differentiation import differentiate
from fusegen.plan.attention_limits import stores_no_scores
from tests.emulated import apply, cuda_text, graph, planned, value
from tests.kernels.families import add, gelu, linear, mul, softmax


def _elementwise() -> Graph:
    x, scale = value("x", "batch", 64), value("scale", 64)
    return graph([x, scale], gelu(mul(x, scale)), name="Elementwise")


def _special_functions() -> Graph:
    x = y = value("x", "batch", 64, dtype=DType.BFLOAT16)
    for name in ("sigmoid", "sigmoid", "sigmoid", "silu", "tanh", "mish"):
        y = apply(name, y)
    return graph([x], y, name="SpecialFunctions")


def _joined() -> Graph:
    x, y = value("x", "batch", 3), value("y", "batch", 5)
    return graph([x, y], apply("cat", gelu(x), y, dim=1), name="Joined")


def _layer_norm() -> Graph:
    x = value("x", "batch", 512)
    weight, bias = value("norm.weight", 512), value("norm.bias", 512)
    norm = apply("layer_norm", x, weight, bias, normalized_shape=(512,))
    return graph([x, weight, bias], add(gelu(norm), x), name="LayerNorm")


def _softmax() -> Graph:
    x = value("x", "batch", "width")
    return graph([x], softmax(x), name="Softmax")


def _columns() -> Graph:
    x = value("x", 256, 64)
    return graph([x], apply("var", x, dim=0), name="Columns")


def _split_sum() -> Graph:
    x = value("x", 1 << 20)
    return graph([x], apply("mean", x), name="SplitMean")


def _product() -> Graph:
    x, weight, bias = value("x", "batch", 96), value("fc.weight", 80, 96), value("fc.bias", 80)
    return graph([x, weight, bias], gelu(linear(x, weight, bias)), name="Linear")


def _product_tensor_cores() -> Graph:
    x = value("x", "batch", 96, dtype=DType.BFLOAT16)
    weight = value("fc.weight", 256, 96, dtype=DType.BFLOAT16)
    norm = apply("group_norm", gelu(linear(x, weight)), num_groups=16)
    return graph([x, weight], norm, name="LinearGeluGroupNorm")


def _product_prepared() -> Graph:
    x = value("x", "batch", 64, dtype=DType.BFLOAT16)
    scale = value("scale", 64, dtype=DType.BFLOAT16)
    weight = value("fc.weight", 256, 64, dtype=DType.BFLOAT16)
    active = apply("relu", mul(x, scale))
    return graph([x, scale, weight], linear(active, weight), name="ReluLinear")


def _product_lines() -> Graph:
    dy, x = (value(name, "batch", 256, dtype=DType.FLOAT16) for name in ("dy", "x"))
    transposed = apply("transpose", dy, dim0=0, dim1=1)
    return graph([dy, x], apply("matmul", transposed, x), name="WeightGradient")


def _product_shared_depth() -> Graph:
    dy, x, old = value("dy", "batch", 64), value("x", "batch", 128), value("old", 64, 128)
    transposed = apply("transpose", dy, dim0=0, dim1=1)
    return graph([dy, x, old], add(apply("matmul", transposed, x), old), name="AddedGradient")


def _product_places() -> Graph:
    """Heads that are put together in lines."""
    p = value("p", "batch", "heads", "time", 64, dtype=DType.BFLOAT16)
    v = value("v", "batch", "heads", 64, 32, dtype=DType.BFLOAT16)
    together = apply("transpose", apply("matmul", p, v), dim0=1, dim1=2)
    return graph([p, v], apply("relu", together), name="ProductPlaces")


def _product_groups() -> Graph:
    x, weight = value("x", "batch", 96), value("fc.weight", 80, 96)
    scale = value("norm.weight", 80)
    norm = apply("group_norm", linear(x, weight), scale, num_groups=5)
    return graph([x, weight, scale], norm, name="LinearGroupNorm")


def _product_split() -> Graph:
    x, weight = value("x", "batch", 1024), value("fc.weight", 4096, 1024)
    return graph([x, weight], gelu(linear(x, weight)), name="LinearGelu")


def _product_rows() -> Graph:
    x, weight = value("x", "batch", 96), value("fc.weight", 800, 96)
    result = gelu(apply("logsumexp", linear(x, weight), dim=1))
    return graph([x, weight], result, name="LinearLogSumExp")


def _convolution() -> Graph:
    x, weight = value("x", "batch", 8, "height", "width"), value("conv.weight", 32, 8, 3, 3)
    active = apply("sigmoid", apply("conv2d", x, weight))
    return graph([x, weight], apply("mean", active, dim=(2, 3)), name="ConvSigmoidMean")


def _convolution_16_bits() -> Graph:
    x = value("x", "batch", 12, "height", "width", dtype=DType.BFLOAT16)
    weight = value("conv.weight", 20, 12, 3, 3, dtype=DType.BFLOAT16)
    result = apply("conv2d", x, weight, stride=2, padding=1)
    return graph([x, weight], gelu(result), name="ConvGelu")


def _dropout() -> Graph:
    x, seed = value("x", "batch", 64, dtype=DType.BFLOAT16), value("seed", dtype=DType.INT64)
    dropped = call(DROPPED, (gelu(x), seed), p=0.1, number=0)
    return graph([x, seed], dropped, name="GeluDropout")


def _rows_ahead() -> Graph:
    x = value("x", "batch", 40000, dtype=DType.BFLOAT16)
    return graph([x], softmax(gelu(x)), name="GeluSoftmax")


def _attention() -> Graph:
    q, k, v = (value(name, "batch", "time", 64, dtype=DType.BFLOAT16) for name in "qkv")
    mask = value("mask", "time", "time", dtype=DType.BOOL)
    scores = mul(apply("matmul", q, apply("transpose", k, dim0=1, dim1=2)), 0.125)
    weights = softmax(apply("where", mask, scores, -float("inf")))
    return graph([q, k, v, mask], apply("matmul", weights, v), name="Attention")


def _attention_gradients() -> Graph:
    found = differentiate(_attention(), stores_no_scores)
    assert found is not None
    return found.backward


GOLDENS: dict[str, Callable[[], Graph]] = {
    "elementwise": _elementwise,
    "special_functions": _special_functions,
    "joined": _joined,
    "dropout": _dropout,
    "layer_norm": _layer_norm,
    "softmax": _softmax,
    "rows_ahead": _rows_ahead,
    "columns": _columns,
    "split_mean": _split_sum,
    "convolution": _convolution,
    "convolution_16_bits": _convolution_16_bits,
    "attention": _attention,
    "attention_gradients": _attention_gradients,
    "product": _product,
    "product_groups": _product_groups,
    "product_places": _product_places,
    "product_tensor_cores": _product_tensor_cores,
    "product_lines": _product_lines,
    "product_prepared": _product_prepared,
    "product_shared_depth": _product_shared_depth,
    "product_rows": _product_rows,
    "product_split": _product_split,
}


def golden_text(name: str) -> str:
    """The emitted `.cu` text of one of the graphs."""
    return cuda_text(planned(GOLDENS[name]()))
