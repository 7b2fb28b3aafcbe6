"""Where in a model the values part: the first operation whose own result is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fusegen.compiler.variant import VariantKey, graph_variant
from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Graph, Node, Output, Placeholder, topological
from fusegen.ops.construct import is_number
from fusegen.runtime.emulation import emulation
from fusegen.runtime.gpu import default_architectures
from fusegen.runtime.loader import find_libraries
from fusegen.runtime.request import Target
from fusegen.runtime.tensors import as_tuple, torch_dtype
from fusegen.testing.bounds import bounds
from fusegen.testing.case import Case
from fusegen.testing.checks import precision
from fusegen.testing.gradients import for_used, taken
from fusegen.testing.interpreter import exact
from fusegen.testing.judging import Direction, judge
from fusegen.testing.subject import Subject


def first_parting(
    subject: Subject,
    case: Case,
    direction: Direction,
    tensors: Sequence[Tensor] | None = None,
) -> str | None:
    """The first operation of a failing case that is wrong when a graph ends with it, by its name
    and line: of the model, or of its backward, which is given right values then. None where every
    shortened graph is right.

    Builds the graph up to an operation some log2(operations) times: the one found is the first if
    all after it are wrong as well, as is usual.
    """
    subject = subject.in_mode(case.training)
    given = case.draw(subject) if tensors is None else tensors
    graph = _Run.of(subject, case, direction, given)
    nodes = _operations(graph.graph)
    low, high = 0, len(nodes)
    while low < high:
        middle = (low + high) // 2
        if graph.is_wrong(nodes[middle]):
            high = middle
        else:
            low = middle + 1
    if low == len(nodes):
        return None
    node = nodes[low]
    name = f"'{node.name}' = " if node.name else ""
    line = f" in line {node.span.line}" if node.span else ""
    return f"{name}{node.written_as}{line}"


def _operations(graph: Graph) -> Sequence[Node]:
    return [
        node
        for node in topological(tuple(output.node for output in graph.outputs))
        if not isinstance(node.operation, Placeholder) and not is_number(node)
    ]


@dataclass(frozen=True)
class _Run:
    """A graph and what it is given in a case."""

    subject: Subject
    case: Case
    graph: Graph
    tensors: Sequence[Tensor]

    @staticmethod
    def of(subject: Subject, case: Case, direction: Direction, tensors: Sequence[Tensor]) -> _Run:
        dtype = DType(case.dtype)
        if direction is Direction.FORWARD:
            return _Run(subject, case, subject.results(dtype), tensors)
        found = subject.derivative(dtype)
        roots = exact(found.forward, tensors, case.sizes)
        stored = [
            root.to(torch_dtype(node.dtype))
            for root, node in zip(roots, found.forward.roots, strict=True)
        ]
        upstream = case.draw_gradients(subject, stored[: len(found.forward.outputs)])
        used = for_used(found, upstream)
        return _Run(subject, case, used.backward, taken(used, tensors, upstream, stored))

    def is_wrong(self, node: Node) -> bool:
        """Whether the kernels of the graph that ends with `node` give a wrong result, or none."""
        shortened = replace(self.graph, outputs=(Output("value", node),), updates=())
        sizes = self.case.sizes
        wanted = exact(shortened, self.tensors, sizes)[0].to(torch_dtype(node.dtype))
        (bound,) = bounds(shortened, self.tensors, (wanted,), sizes, precision(self.subject))
        try:
            (result,) = self._kernels(shortened)
        except RuntimeError:
            return True
        return judge(bound, result) is not None

    def _kernels(self, graph: Graph) -> tuple[Tensor, ...]:
        key = VariantKey(DType(self.case.dtype), training=False)
        on_gpu = self.subject.target is Target.CUDA
        architectures = default_architectures() if on_gpu else ()
        chosen = self.subject.chosen
        name = f"{chosen.stem}_up_to_{graph.outputs[0].node.operation.name}"
        variant = graph_variant(name, chosen.header, graph, key)
        request = variant.request(self.subject.target, architectures, check=not on_gpu)
        ((namespace, library),) = find_libraries([request])
        if not hasattr(getattr(torch.ops, namespace), name):
            torch.ops.load_library(library)  # type: ignore[no-untyped-call]
        operator = getattr(getattr(torch.ops, namespace), name)
        watched = nullcontext() if on_gpu else emulation(self.case.order, check=True)
        with watched, torch.no_grad():
            return as_tuple(operator(*self.tensors))
