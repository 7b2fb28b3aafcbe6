"""Graphs that go through every kernel family, for tests over orders, layouts and dtypes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Graph, Node
from tests.emulated import Size, apply, graph, value
from tests.ops.examples import torch_dtype

Shape = tuple[Size, ...]
Body = Callable[..., Node | tuple[Node, ...]]


@dataclass(frozen=True)
class Case:
    """A graph over inputs of the given shapes, the values of its symbolic sizes in the test, and
    what the planner is told of them."""

    shapes: tuple[Shape, ...]
    body: Body
    sizes: Mapping[str, int] = field(default_factory=dict)
    hints: Mapping[str, int] | None = None

    def graph(self, dtype: DType) -> Graph:
        """The case with all inputs of one dtype."""
        inputs = [value(f"x{i}", *shape, dtype=dtype) for i, shape in enumerate(self.shapes)]
        results = self.body(*inputs)
        return graph(inputs, *(results if isinstance(results, tuple) else (results,)))

    def tensors(self, dtype: DType, seed: int = 0) -> list[torch.Tensor]:
        """Normal numbers for the inputs."""
        generator = torch.Generator().manual_seed(seed)
        shapes = [[self.sizes.get(s, s) for s in shape] for shape in self.shapes]  # type: ignore[call-overload]
        return [torch.randn(s, generator=generator).to(torch_dtype(dtype)) for s in shapes]


def linear(x: Node, weight: Node, *bias: Node) -> Node:
    return apply("linear", x, weight, *bias)


def gelu(x: Node) -> Node:
    return apply("gelu", x)


def add(x: Node, y: Node | float) -> Node:
    return apply("add", x, y)


def mul(x: Node, y: Node | float) -> Node:
    return apply("mul", x, y)


def softmax(x: Node, dim: int = -1) -> Node:
    return apply("softmax", x, dim=dim)


def group_norm(groups: int) -> Callable[..., Node]:
    return lambda x, *affine: apply("group_norm", x, *affine, num_groups=groups)


def grouped_linear(rows: int, inner: int, columns: int, groups: int) -> Case:
    """A linear layer, group normalization of its features, and an activation."""
    return Case(
        ((rows, inner), (columns, inner), (columns,), (columns,), (columns,)),
        lambda x, w, b, scale, shift: gelu(group_norm(groups)(linear(x, w, b), scale, shift)),
    )


def row_sums(rows: int, inner: int, columns: int) -> Case:
    """A linear layer of which only reductions over the features are kept."""
    return Case(
        ((rows, inner), (columns, inner), (columns,)),
        lambda x, w, b: (
            gelu(apply("logsumexp", linear(x, w, b), dim=1, keepdim=True)),
            apply("amax", linear(x, w, b), dim=1),
        ),
    )


ELEMENTWISE: dict[str, Case] = {
    "one element": Case(((1,),), gelu),
    "odd count": Case(((1027,),), gelu),
    "vector and rest": Case(((3, 341),), lambda x: mul(gelu(x), 2.0)),
    "broadcast row": Case((("n", 12), (12,)), lambda x, w: mul(gelu(x), w), {"n": 5}),
    "broadcast column": Case((("n", 12), ("n", 1)), add, {"n": 5}),
    "both expand": Case((("n", 1), (1, "m")), add, {"n": 3, "m": 37}),
    "scalar": Case(((40,), ()), mul),
    "several results": Case(((65,), (65,)), lambda x, y: (add(x, y), mul(x, y), gelu(x))),
    "permuted": Case(((3, 5, 7),), lambda x: gelu(apply("permute", x, dims=(2, 0, 1)))),
    "channels scaled": Case(((2, 6, 5, 7), (6, 1, 1)), mul),
    "joined": Case(
        (("n", 3), ("n", 5), ("n", 1)),
        lambda x, y, z: apply("cat", gelu(x), y, mul(z, 3.0), dim=1),
        {"n": 9},
    ),
    "joined rows": Case(
        (("n", 3), ("m", 3)), lambda x, y: apply("cat", x, gelu(y)), {"n": 9, "m": 2}
    ),
}

ROWS: dict[str, Case] = {
    **{
        f"softmax of {width}": Case((("n", width),), softmax, {"n": 5})
        for width in (1, 2, 3, 31, 32, 33, 100, 257, 1023, 1024)
    },
    "softmax of any width": Case((("n", "m"),), softmax, {"n": 9, "m": 77}),
    "block softmax": Case((("n", 1025),), softmax, {"n": 3}),
    "block softmax, vectors": Case((("n", 4096),), softmax, {"n": 2}),
    "block of any width": Case((("n", "m"),), softmax, {"n": 3, "m": 7300}),
    "the longest row of one block": Case((("n", 32768),), softmax, {"n": 1}),
    "hardly too long a row for one block": Case((("n", 32772),), softmax, {"n": 2}),
    "a cluster, element by element": Case((("n", 32769),), softmax, {"n": 1}),
    "cluster of any width": Case((("n", "m"),), softmax, {"n": 2, "m": 9000}),
    "the longest row of a cluster": Case((("n", "m"),), softmax, {"n": 1, "m": 131072}),
    "hardly too long a row for a cluster": Case((("n", "m"),), softmax, {"n": 1, "m": 131073}),
    "columns": Case(((70, "m"),), lambda x: apply("sum", x, dim=0), {"m": 35}),
    "columns of a long outer dim": Case(
        (("n", 72),), lambda x: (apply("sum", x, dim=0), apply("var", x, dim=0)), {"n": 700}
    ),
    "softmax of columns": Case((("n", "m"),), lambda x: softmax(x, 0), {"n": 70, "m": 33}),
    "middle dim": Case(((3, 10, 9),), lambda x: softmax(x, 1)),
    "outer and inner dims": Case(((3, 4, 5),), lambda x: apply("sum", x, dim=(0, 2))),
    "everything": Case(((7, 9),), lambda x: apply("var", x)),
    "several reductions": Case(
        (("n", 130),),
        lambda x: (
            apply("sum", x, dim=(1,)),
            apply("amax", x, dim=(1,)),
            apply("argmin", x, dim=1),
            apply("logsumexp", x, dim=1),
            gelu(x),
        ),
        {"n": 6},
    ),
    "reduction of a reduction": Case(
        (("n", 60),),
        lambda x: apply("var", apply("sub", x, apply("mean", x, dim=(1,), keepdim=True)), dim=1),
        {"n": 6},
    ),
    "layer norm and residual": Case(
        (("n", 200), (200,), (200,)),
        lambda x, w, b: add(gelu(apply("layer_norm", x, w, b, normalized_shape=(200,))), x),
        {"n": 5},
    ),
    "rms norm": Case(
        (("n", 96), (96,)),
        lambda x, w: apply("rms_norm", x, w, normalized_shape=(96,)),
        {"n": 5},
    ),
    "group norm of images": Case(
        (("n", 6, "h", "w"), (6,), (6,)), group_norm(3), {"n": 2, "h": 5, "w": 7}
    ),
    "instance norm": Case(((2, 3, 9, 11),), lambda x: apply("instance_norm", x)),
    "global average": Case(((2, 5, 8, 9),), lambda x: apply("mean", x, dim=(2, 3))),
    "joined, then normalised": Case(
        (("n", 30), ("n", 7)), lambda x, y: softmax(apply("cat", gelu(x), y, dim=1)), {"n": 5}
    ),
    "log softmax": Case((("n", 50),), lambda x: apply("log_softmax", x, dim=1), {"n": 4}),
}

SPLIT: dict[str, Case] = {
    "two long rows": Case(((2, 9000),), lambda x: apply("logsumexp", x, dim=1)),
    "one row": Case(((10007,),), lambda x: apply("var", x)),
    "a few columns": Case(((6000, 3),), lambda x: apply("sum", x, dim=(0,))),
    "several results": Case(
        ((3, 8192),),
        lambda x: (gelu(x), apply("amax", x, dim=1), apply("argmax", x, dim=1)),
    ),
    "channels of a batch": Case(((40, 3, 20, 9),), lambda x: apply("var", x, dim=(0, 2, 3))),
    "with a finish": Case(((2, 9000), (2,)), lambda x, y: mul(gelu(apply("norm", x, dim=1)), y)),
}

PRODUCTS: dict[str, Case] = {
    **{
        f"linear {m} x {k} x {n}": Case(
            ((m, k), (n, k), (n,)), lambda x, w, b: gelu(linear(x, w, b))
        )
        for m, k, n in ((1, 1, 1), (1, 70, 3), (65, 1, 1), (3, 17, 129), (70, 33, 66), (2, 0, 5))
    },
    "any rows": Case((("m", 20), (9, 20)), linear, {"m": 67}),
    "residual and scale": Case(
        (("m", 24), (24, 24), (24,), ("m", 1)),
        lambda x, w, scale, column: add(mul(mul(linear(x, w), scale), column), x),
        {"m": 10},
    ),
    "batches": Case((("b", 5, 7), ("b", 7, 11)), lambda x, y: apply("matmul", x, y), {"b": 3}),
    "batches, transposed": Case(
        ((2, 3, 5, 7), (2, 3, 11, 7)),
        lambda x, y: apply("matmul", x, apply("transpose", y, dim0=2, dim1=3)),
    ),
    "a matrix for all batches": Case(
        (("b", 65, 8), (1, 24, 8)),
        lambda x, y: apply("matmul", x, apply("transpose", y, dim0=1, dim1=2)),
        {"b": 3},
    ),
    "broadcast batches": Case(((2, 1, 4, 6), (3, 6, 5)), lambda x, y: apply("matmul", x, y)),
    "two results": Case(((9, 8), (10, 8)), lambda x, w: (linear(x, w), gelu(linear(x, w)))),
    "groups of 1": grouped_linear(3, 10, 8, 8),
    "groups of 3": grouped_linear(5, 10, 63, 21),
    "groups of 3 over tiles": grouped_linear(66, 10, 135, 45),
    "groups of 16": grouped_linear(65, 18, 160, 10),
    "groups of 64": grouped_linear(3, 18, 192, 3),
    "groups of 100": grouped_linear(70, 10, 300, 3),
    "groups of 128": grouped_linear(2, 5, 128, 1),
    "groups after activations": Case(
        ((5, 12), (48, 12), (48,)), lambda x, w, b: group_norm(3)(gelu(add(linear(x, w), b)))
    ),
    "layer norm of 48": Case(
        ((5, 12), (48, 12)),
        lambda x, w: apply("layer_norm", linear(x, w), normalized_shape=(48,)),
    ),
    "softmax of 40": Case((("m", 12), (40, 12)), lambda x, w: softmax(linear(x, w)), {"m": 66}),
    "row sums of 300": row_sums(5, 16, 300),
    "row sums of 65": row_sums(66, 16, 65),
    "row sums of any width": Case(
        ((5, 16), ("n", 16)),
        lambda x, w: apply("var", linear(x, w), dim=1),
        {"n": 130},
    ),
    "sums of columns": Case(((70, 5), (6, 5)), lambda x, w: apply("sum", linear(x, w), dim=(0,))),
    "wide softmax": Case(((3, 5), (300, 5)), lambda x, w: softmax(linear(x, w))),
    "attention": Case(
        (("b", "t", 8), ("b", "s", 8)),
        lambda q, k: apply(
            "matmul", softmax(apply("matmul", q, apply("transpose", k, dim0=1, dim1=2))), k
        ),
        {"b": 2, "t": 5, "s": 70},
    ),
}


def convolved(**attributes: object) -> Callable[..., Node]:
    """A convolution, with a bias where one is given, and an activation."""
    return lambda *operands: apply("sigmoid", apply("conv2d", *operands, **attributes))


CONVOLUTIONS: dict[str, Case] = {
    "chain 21": Case(
        (("n", 8, "h", "w"), (32, 8, 3, 3), (32,), (32, 1, 1), (32,), (32,)),
        lambda x, w, b, scale, *affine: group_norm(8)(
            apply("sigmoid", mul(apply("conv2d", x, w, b), scale)), *affine
        ),
        {"n": 2, "h": 11, "w": 14},
    ),
    "few channels, padding": Case(((2, 3, 7, 9), (20, 3, 3, 3), (20,)), convolved(padding=1)),
    "stride and dilation": Case(
        ((1, 9, 11, 12), (5, 9, 2, 3)), convolved(stride=(2, 1), padding=(1, 2), dilation=(2, 3))
    ),
    "rows of several tiles": Case(((1, 2, 3, 270), (3, 2, 1, 3)), convolved()),
    "rows of several tiles, aligned": Case(((1, 2, 2, 264), (40, 2, 1, 1)), convolved()),
    "one pixel": Case(((3, 1, 5, 5), (1, 1, 5, 5)), convolved()),
    "residual": Case(
        (("n", 8, "h", "w"), (8, 8, 3, 3)),
        lambda x, w: add(gelu(apply("conv2d", x, w, padding=1)), x),
        {"n": 2, "h": 5, "w": 6},
    ),
    "two results": Case(
        ((2, 4, 6, 6), (16, 4, 3, 3)),
        lambda x, w: (apply("conv2d", x, w), gelu(apply("conv2d", x, w))),
    ),
    "means of channels": Case(
        ((2, 4, 6, 7), (33, 4, 3, 3)),
        lambda x, w: gelu(apply("mean", convolved()(x, w), dim=(2, 3))),
    ),
    "elements and extremes": Case(
        ((2, 4, 10, 7), (6, 4, 2, 2)),
        lambda x, w: (convolved()(x, w), apply("amax", convolved()(x, w), dim=(1, 2, 3))),
    ),
    "instance norm": Case(
        ((2, 4, 12, 7), (6, 4, 3, 3)), lambda x, w: apply("instance_norm", convolved()(x, w))
    ),
    "groups of all channels": Case(
        ((2, 4, 9, 7), (6, 4, 3, 3)), lambda x, w: gelu(group_norm(1)(convolved()(x, w)))
    ),
}

FAMILIES: dict[str, dict[str, Case]] = {
    "elementwise": ELEMENTWISE,
    "rows": ROWS,
    "split rows": SPLIT,
    "products": PRODUCTS,
    "convolutions": CONVOLUTIONS,
}
