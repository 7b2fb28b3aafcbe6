"""Where in a model the values part: the first operation whose own result is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace

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
from fusegen.testing.bounds import bounds
from fusegen.testing.case import Case
from fusegen.testing.checks import judge, precision
from fusegen.testing.interpreter import exact
from fusegen.testing.subject import Subject, as_tuple, torch_dtype


def first_parting(subject: Subject, case: Case) -> str | None:
    """The first operation of a failing case that is wrong when the model ends with it, by its name
    and line; None where every shortened model is right.

    Builds the model up to an operation some log2(operations) times: the one found is the first if
    all after it are wrong as well, as is usual.
    """
    graph = subject.graph(DType(case.dtype))
    nodes = _operations(graph)
    low, high = 0, len(nodes)
    while low < high:
        middle = (low + high) // 2
        if _is_wrong(subject, case, graph, nodes[middle]):
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


def _is_wrong(subject: Subject, case: Case, graph: Graph, node: Node) -> bool:
    """Whether the kernels of the model that ends with `node` give a wrong result, or none."""
    shortened = replace(graph, outputs=(Output("value", node),), updates=())
    tensors = case.draw(subject)
    wanted = exact(shortened, tensors, case.sizes)[0].to(torch_dtype(node.dtype))
    (bound,) = bounds(shortened, tensors, (wanted,), case.sizes, precision(subject))
    try:
        (result,) = _run(subject, case, shortened, tensors)
    except RuntimeError:
        return True
    return judge(bound, result) is not None


def _run(
    subject: Subject, case: Case, graph: Graph, tensors: Sequence[Tensor]
) -> tuple[Tensor, ...]:
    key = VariantKey(DType(case.dtype), training=False)
    on_gpu = subject.target is Target.CUDA
    architectures = default_architectures() if on_gpu else ()
    name = f"{subject.chosen.stem}_up_to_{graph.outputs[0].node.operation.name}"
    variant = graph_variant(name, subject.chosen.header, graph, key)
    request = variant.request(subject.target, architectures, check=not on_gpu)
    ((namespace, library),) = find_libraries([request])
    if not hasattr(getattr(torch.ops, namespace), name):
        torch.ops.load_library(library)  # type: ignore[no-untyped-call]
    operator = getattr(getattr(torch.ops, namespace), name)
    watched = nullcontext() if on_gpu else emulation(case.order, check=True)
    with watched, torch.no_grad():
        return as_tuple(operator(*tensors))
