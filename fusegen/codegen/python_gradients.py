"""What the Python module says about a mode's gradients: which tensors its backward operator takes,
and what makes tensors like the results of both operators for tracing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fusegen.codegen.python_mode import Mode, dtype_texts, follower
from fusegen.codegen.python_reference import FunctionText, empty_text, result_type
from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Graph, Node
from fusegen.ops.twin import literal
from fusegen.passes.differentiation import Differentiated, Origin


@dataclass(frozen=True)
class EmptyText:
    """A function that makes tensors like an operator's results."""

    name: str
    function: FunctionText
    result_type: str


@dataclass(frozen=True)
class GradientText:
    """How a mode is differentiated in some dtypes.

    The backward takes the gradients of the results `outputs`, then what is `kept` of the arguments
    and the forward's results, counted through; it gives those of the arguments `targets`. `forward`
    is None where nothing is saved: then the mode's own operator is the forward.
    """

    dtypes: tuple[str, ...]
    outputs: tuple[int, ...]
    kept: tuple[int, ...]
    targets: tuple[int, ...]
    forward: EmptyText | None
    backward: EmptyText


def gradient_texts(mode: Mode, suffix: str) -> tuple[GradientText, ...]:
    """The texts of a mode's derivatives, one for all dtypes in which they have the same structure;
    `suffix` ends the functions' names."""
    alike: dict[object, dict[DType, Differentiated]] = {}
    for dtype, found in mode.derivatives.items():
        shapes = tuple(saved.node.shape for saved in found.forward.saved)
        alike.setdefault((found.sources, found.targets, shapes), {})[dtype] = found
    return tuple(
        _text(group, suffix if number == 1 else f"{suffix}_{number}")
        for number, group in enumerate(alike.values(), start=1)
    )


def _text(group: Mapping[DType, Differentiated], suffix: str) -> GradientText:
    found = next(iter(group.values()))
    first_result = len(_arguments(found.forward))
    first_saved = first_result + len(found.forward.roots) - len(found.forward.saved)
    positions = {
        Origin.ARGUMENT: 0,
        Origin.OUTPUT: first_result,
        Origin.SAVED: first_saved,
    }
    return GradientText(
        dtypes=tuple(literal(dtype) for dtype in group),
        outputs=tuple(s.index for s in found.sources if s.origin is Origin.OUTPUT_GRADIENT),
        kept=tuple(positions[s.origin] + s.index for s in found.sources if s.origin in positions),
        targets=found.targets,
        forward=_forward(f"_empty_forward{suffix}", group),
        backward=_backward(f"_empty_backward{suffix}", group),
    )


def _arguments(graph: Graph) -> tuple[Node, ...]:
    return (*graph.inputs, *graph.tensors)


def _forward(name: str, group: Mapping[DType, Differentiated]) -> EmptyText | None:
    graphs = {dtype: found.forward for dtype, found in group.items()}
    graph = next(iter(graphs.values()))
    if not graph.saved:
        return None
    tensors = _arguments(graph)
    model = follower(tensors, dtype_texts(graphs, _arguments))
    dtypes = dtype_texts(graphs, lambda graph: graph.roots)
    text = empty_text(graph, tensors, model, dtypes)
    return EmptyText(name, text, result_type(len(graph.roots)))


def _backward(name: str, group: Mapping[DType, Differentiated]) -> EmptyText:
    graphs = {dtype: found.backward for dtype, found in group.items()}
    graph = next(iter(graphs.values()))
    model = follower(graph.inputs, dtype_texts(graphs, _arguments))
    dtypes = dtype_texts(graphs, lambda graph: graph.roots)
    text = empty_text(graph, graph.inputs, model, dtypes)
    return EmptyText(name, text, result_type(len(graph.roots)))
