"""A mode of a module: its graphs by dtype, and which dtypes follow the module's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from fusegen.codegen.python_reference import COMPUTE, DtypeText
from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Graph, Node
from fusegen.ops.twin import literal
from fusegen.passes.autocast import Autocast
from fusegen.passes.differentiation import Differentiated


@dataclass(frozen=True)
class Mode:
    """The module in evaluation or in training: the name of its operators without their dtype, and
    its graph as the user wrote it, elaborated for each dtype that the module can have. In the
    dtypes of `tf32` there is an operator with TF32 products beside the one with float32 products.
    `derivatives` are its forward and backward in each dtype, and empty where PyTorch differentiates
    the reference instead; `autocasts` those of the float32 module under kinds of autocast.

    All text is made from the graph for float32; the others tell which dtypes follow the module's.
    """

    operator: str
    graphs: Mapping[DType, Graph]
    tf32: tuple[DType, ...] = ()
    derivatives: Mapping[DType, Differentiated] = field(default_factory=dict)
    autocasts: Mapping[Autocast, Differentiated] = field(default_factory=dict)

    @property
    def graph(self) -> Graph:
        """The graph for float32."""
        return self.graphs[DType.FLOAT32]


def dtype_texts(
    graphs: Mapping[DType, Graph], nodes: Callable[[Graph], tuple[Node, ...]]
) -> tuple[DtypeText, ...]:
    """The dtype of each of `nodes` of a graph, which `graphs` has for some dtypes of the module."""
    found = zip(*(nodes(graph) for graph in graphs.values()), strict=True)
    return tuple(_dtype_text(dict(zip(graphs, versions, strict=True))) for versions in found)


def fixed_dtypes(nodes: tuple[Node, ...]) -> tuple[DtypeText, ...]:
    """The dtypes of nodes, whatever the module's is."""
    return tuple(literal(node.dtype) for node in nodes)


def _dtype_text(versions: Mapping[DType, Node]) -> DtypeText:
    by_module = {of: node.dtype for of, node in versions.items()}
    if all(of is dtype for of, dtype in by_module.items()):
        return None
    if all(of.compute is dtype for of, dtype in by_module.items()):
        return COMPUTE
    first, *others = dict.fromkeys(by_module.values())
    if not others:
        return literal(first)
    items = (f"{literal(of)}: {literal(dtype)}" for of, dtype in by_module.items())
    return f"{{{', '.join(items)}}}"


def follower(tensors: tuple[Node, ...], dtypes: tuple[DtypeText, ...]) -> Node:
    """One of the tensors that has the module's dtype, if any has."""
    pairs = zip(tensors, dtypes, strict=True)
    return next((tensor for tensor, dtype in pairs if dtype is None), tensors[0])
