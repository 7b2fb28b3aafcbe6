"""What the Python module says about a mode's gradients: which tensors its backward operator takes,
and what makes tensors like the results of both operators for tracing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fusegen.codegen.python_mode import Mode, dtype_texts, fixed_dtypes, follower
from fusegen.codegen.python_reference import FunctionText, empty_text, result_type
from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Graph, Node
from fusegen.passes.differentiation import Differentiated, Origin


@dataclass(frozen=True)
class EmptyText:
    """A function that makes tensors like an operator's results."""

    name: str
    function: FunctionText
    result_type: str


@dataclass(frozen=True)
class GradientText:
    """How a mode is differentiated in some dtypes; `constant` is its name in the text.

    The backward takes the gradients of the results `outputs`, then what is `kept` of the arguments
    and the forward's results, counted through; it gives those of the arguments `targets`. The last
    `saved` of those kept are there for it alone. `forward` is None where nothing is saved: then the
    mode's own operator is the forward.
    """

    constant: str
    outputs: tuple[int, ...]
    kept: tuple[int, ...]
    saved: int
    targets: tuple[int, ...]
    forward: EmptyText | None
    backward: EmptyText


def gradient_texts(mode: Mode, constant: str, suffix: str) -> dict[DType, GradientText]:
    """The texts of a mode's derivatives by dtype, one for all in which they have the same
    structure; `suffix` ends the functions' names."""
    alike: dict[object, dict[DType, Differentiated]] = {}
    for dtype, found in mode.derivatives.items():
        shapes = tuple(saved.node.shape for saved in found.forward.saved)
        alike.setdefault((found.sources, found.targets, shapes), {})[dtype] = found
    texts: dict[DType, GradientText] = {}
    for number, group in enumerate(alike.values(), start=1):
        end = "" if number == 1 else f"_{number}"
        found = next(iter(group.values()))
        made = _text(
            f"{constant}{end}",
            found,
            _forward(f"_empty_forward{suffix}{end}", group),
            _backward(f"_empty_backward{suffix}{end}", group),
        )
        texts |= dict.fromkeys(group, made)
    return texts


def autocast_gradient_text(found: Differentiated, constant: str, suffix: str) -> GradientText:
    """The text of a derivative under autocast, where no dtype follows the module's."""
    forward = found.forward
    saving = literal_empty(f"_empty_forward{suffix}", forward, forward.placeholders)
    backward = literal_empty(f"_empty_backward{suffix}", found.backward, found.backward.inputs)
    return _text(constant, found, saving if forward.saved else None, backward)


def literal_empty(name: str, graph: Graph, tensors: tuple[Node, ...]) -> EmptyText:
    """What makes tensors like a graph's results, with a fixed dtype each."""
    text = empty_text(graph, tensors, tensors[0], fixed_dtypes(graph.roots))
    return EmptyText(name, text, result_type(len(graph.roots)))


def _text(
    constant: str, found: Differentiated, forward: EmptyText | None, backward: EmptyText
) -> GradientText:
    first_result = len(found.forward.placeholders)
    first_saved = first_result + len(found.forward.roots) - len(found.forward.saved)
    positions = {
        Origin.ARGUMENT: 0,
        Origin.OUTPUT: first_result,
        Origin.SAVED: first_saved,
    }
    return GradientText(
        constant=constant,
        outputs=tuple(s.index for s in found.sources if s.origin is Origin.OUTPUT_GRADIENT),
        kept=tuple(positions[s.origin] + s.index for s in found.sources if s.origin in positions),
        saved=sum(source.origin is Origin.SAVED for source in found.sources),
        targets=found.targets,
        forward=forward,
        backward=backward,
    )


def _forward(name: str, group: Mapping[DType, Differentiated]) -> EmptyText | None:
    graphs = {dtype: found.forward for dtype, found in group.items()}
    graph = next(iter(graphs.values()))
    if not graph.saved:
        return None
    tensors = graph.placeholders
    model = follower(tensors, dtype_texts(graphs, lambda graph: graph.placeholders))
    dtypes = dtype_texts(graphs, lambda graph: graph.roots)
    text = empty_text(graph, tensors, model, dtypes)
    return EmptyText(name, text, result_type(len(graph.roots)))


def _backward(name: str, group: Mapping[DType, Differentiated]) -> EmptyText:
    graphs = {dtype: found.backward for dtype, found in group.items()}
    graph = next(iter(graphs.values()))
    model = follower(graph.inputs, dtype_texts(graphs, lambda graph: graph.placeholders))
    dtypes = dtype_texts(graphs, lambda graph: graph.roots)
    text = empty_text(graph, graph.inputs, model, dtypes)
    return EmptyText(name, text, result_type(len(graph.roots)))
