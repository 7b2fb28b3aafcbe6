"""Hypothesis strategies: cases for a model, and tensors that are awkward in themselves.

Everything random in a case follows from what hypothesis draws, so that failures shrink and replay.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from hypothesis import strategies as st
from torch import Tensor

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Graph, topological
from fusegen.testing.case import Case, Filled, argument_name
from fusegen.testing.layouts import Layout, laid_out
from fusegen.testing.subject import Subject
from fusegen.testing.values import Values, filled

# Around the widths of vectors, warps and tiles; the first is what a failure shrinks to.
SIZES = (1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 127, 128, 129, 255, 257, 0)
SEEDS = st.integers(0, 2**20)
# What the largest tensor of a case may have, so that the emulator answers in a second or so.
GREATEST_COUNT = 1 << 15


@st.composite
def model_cases(
    draw: st.DrawFn,
    subject: Subject,
    *,
    dtypes: Sequence[str] = ("float32", "float16", "bfloat16"),
    sizes: Mapping[str, int] | None = None,
) -> Case:
    """Cases for a model; `sizes` fixes some of its symbolic sizes."""
    dtype = draw(st.sampled_from(dtypes))
    training = len(subject.modes) > 1 and draw(st.booleans())
    subject = subject.in_mode(training)
    graph = subject.graph(DType(dtype))
    chosen = dict(sizes or {})
    for name in _symbols(graph):
        if name not in chosen:
            chosen[name] = draw(st.sampled_from(_allowed(graph, name, chosen)))
    names = [argument_name(node) for node in graph.placeholders]
    odd = draw(st.sets(st.sampled_from(names))) if names else set()
    tensors = {name: draw(_fillings()) for name in names if name in odd}
    order = draw(st.integers(0, 20))
    if subject.why_forward_only is not None:
        return Case(dtype, chosen, tensors, order, training=training)
    outputs = [output.name for output in graph.outputs]
    gradients: dict[str, Filled | None] = {
        name: draw(_fillings()) for name in draw(st.sets(st.sampled_from(outputs)))
    }
    gradients |= dict.fromkeys(draw(_absent(outputs)))
    trained = [
        name for name, is_trained in zip(names, subject.trained(), strict=True) if is_trained
    ]
    frozen = draw(st.sets(st.sampled_from(trained), max_size=2))
    return Case(dtype, chosen, tensors, order, gradients, tuple(sorted(frozen)), training)


def _absent(outputs: Sequence[str]) -> st.SearchStrategy[Sequence[str]]:
    """The outputs that nothing is made of: none, or the first or last of several. For each choice
    there is a backward to build, so that there are few."""
    return st.sampled_from([(), outputs[:1], outputs[-1:]] if len(outputs) > 1 else [()])


def _fillings() -> st.SearchStrategy[Filled]:
    return st.builds(Filled, st.sampled_from(Values), st.sampled_from(Layout), SEEDS)


@st.composite
def awkward_tensors(
    draw: st.DrawFn,
    shape: tuple[int, ...],
    dtype: torch.dtype = torch.float32,
    *,
    values: Sequence[Values] = tuple(Values),
    layouts: Sequence[Layout] = tuple(Layout),
    device: str = "cpu",
) -> Tensor:
    """Tensors of a shape and dtype with any of the values and layouts."""
    made = filled(draw(st.sampled_from(values)), shape, dtype, draw(SEEDS), device)
    return laid_out(made, draw(st.sampled_from(layouts)))


def _symbols(graph: Graph) -> list[str]:
    placeholders = graph.placeholders
    found = {s.name for node in placeholders for size in node.shape for s in size.symbols()}
    return sorted(found)


def _allowed(graph: Graph, name: str, chosen: Mapping[str, int]) -> list[int]:
    """The values of a size that keep every tensor small, those on the way too, such as a product of
    a tensor with itself, and all sizes of slices at least 0; the other sizes are 1 until chosen."""
    results = topological(tuple(output.node for output in graph.outputs))
    shapes = {node.shape for node in (*graph.placeholders, *results)}
    others = dict.fromkeys(_symbols(graph), 1) | dict(chosen)

    def greatest(size: int) -> int:
        known = others | {name: size}
        return max(math.prod(d.evaluate(known) for d in shape) for shape in shapes)

    def least(size: int) -> int:
        known = others | {name: size}
        return min((d.evaluate(known) for shape in shapes for d in shape), default=0)

    small = [size for size in SIZES if greatest(size) <= max(GREATEST_COUNT, greatest(1))]
    return [size for size in small if least(size) >= min(0, least(1))]
