"""A mode's operators in the Python module: what they take, what they give, and in which forms."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fusegen.codegen.python_gradients import (
    EmptyText,
    GradientText,
    autocast_gradient_text,
    gradient_texts,
    literal_empty,
)
from fusegen.codegen.python_mode import Mode, dtype_texts, follower
from fusegen.codegen.python_reference import FunctionText, empty_text, reference_text, result_type
from fusegen.ir.dependence import gradient_sources
from fusegen.ir.graph import Graph, Node, Placeholder, Role, shown_name, topological
from fusegen.ops.twin import literal
from fusegen.passes.autocast import Autocast


@dataclass(frozen=True)
class HolderText:
    """A submodule that holds some of an operator's tensors: its path, and its class in
    `torch.nn`."""

    path: str
    kind: str


@dataclass(frozen=True)
class MembersText:
    """The function that gives the parameters and buffers that a mode's operator takes: where
    `nn.Module` keeps each (`module._parameters["scale"]`), and the attribute (`module.scale`).
    Those that the module does not hold itself are those of `layers`."""

    function: str
    places: tuple[str, ...]
    attributes: tuple[str, ...]
    layers: tuple[HolderText, ...]


@dataclass(frozen=True)
class FormText:
    """A mode's operators for some dtypes of its arguments: what stands for those in the text, what
    ends the operators' names, what makes empty results, whether there are some with TF32 products,
    and the constant of its gradient."""

    key: str
    name: str
    empty: str
    tf32: bool
    gradient: str


@dataclass(frozen=True)
class ModeText:
    """A mode's functions and what is known of its arguments; `visible` of its forward's results
    are those that are not saved for the backward. Of the arguments `numbers` have no dimension, and
    `first` is the first that has some, or the first of all. There are `forms` for the module's
    dtypes, and `autocasts`."""

    constant: str
    operator: str
    reference_name: str
    reference: FunctionText
    empties: tuple[EmptyText, ...]
    docstring: str
    result_type: str
    arguments: tuple[str, ...]
    partial: tuple[str, ...]
    buffers: tuple[int, ...]
    numbers: tuple[int, ...]
    first: int
    members: MembersText | None
    visible: int
    gradients: tuple[GradientText, ...]
    forms: tuple[FormText, ...]
    autocasts: tuple[FormText, ...]


def mode_text(name: str, mode: Mode) -> ModeText:
    """The text of a mode of that name."""
    suffix = "" if name == "inference" else f"_{name}"
    constant = f"_{name.upper()}"
    empty = f"_empty_results{suffix}"
    tensors = operator_tensors(mode.graph)
    own = dtype_texts(mode.graphs, operator_tensors)
    results = dtype_texts(mode.graphs, lambda graph: graph.roots)
    returned = result_type(len(mode.graph.roots))
    gradients = gradient_texts(mode, f"{constant}_GRADIENT", suffix)
    under = {
        context: autocast_gradient_text(
            found, f"{constant}_GRADIENT_{context.name.upper()}", f"{suffix}_{context.name}"
        )
        for context, found in mode.autocasts.items()
    }
    return ModeText(
        constant=constant,
        operator=mode.operator,
        reference_name=f"reference{suffix}",
        reference=reference_text(mode.graph, tensors),
        empties=(
            EmptyText(
                empty, empty_text(mode.graph, tensors, follower(tensors, own), results), returned
            ),
            *(
                literal_empty(
                    f"{empty}_{context.name}", _visible(found.forward), found.forward.placeholders
                )
                for context, found in mode.autocasts.items()
            ),
        ),
        docstring=_docstring(mode.graph),
        result_type=returned,
        arguments=tuple(
            f'("{shown_name(node)}", {dtype})' for node, dtype in zip(tensors, own, strict=True)
        ),
        partial=_partial(mode.graph, tensors),
        buffers=tuple(
            number for number, node in enumerate(tensors) if is_differentiable_buffer(node)
        ),
        numbers=tuple(number for number, node in enumerate(tensors) if not node.shape),
        first=next((number for number, node in enumerate(tensors) if node.shape), 0),
        members=_members(f"_members{suffix}", mode.graph, tensors),
        visible=len(mode.graph.roots),
        gradients=tuple(dict.fromkeys((*gradients.values(), *under.values()))),
        forms=tuple(
            FormText(
                literal(dtype),
                dtype.value,
                empty,
                dtype in mode.tf32,
                gradients[dtype].constant if dtype in gradients else "None",
            )
            for dtype in mode.graphs
        ),
        autocasts=tuple(
            FormText(
                f"_under_autocast({constant}_ARGUMENTS, {_context(context)})",
                context.name,
                f"{empty}_{context.name}",
                False,
                gradient.constant,
            )
            for context, gradient in under.items()
        ),
    )


def _docstring(graph: Graph) -> str:
    """What a mode's reference is."""
    if graph.updates:
        return "The same in training: also each batch norm's mean and unbiased variance."
    return "The same in training." if graph.dropping else "What the kernels compute, in PyTorch."


def _context(context: Autocast) -> str:
    return ", ".join((literal(context.dtype), *map(str, context.low)))


def _visible(forward: Graph) -> Graph:
    return replace(forward, saved=())


def _partial(graph: Graph, tensors: tuple[Node, ...]) -> tuple[str, ...]:
    """The results, by position, that do not depend differentiably on every floating-point
    argument, each with the positions of those it depends on."""
    floating = frozenset(node for node in tensors if node.dtype.is_float)
    # Batch statistics are no outputs: nothing is differentiated through them.
    outputs = tuple(output.node for output in graph.outputs)
    found = [*gradient_sources(outputs), *(frozenset[Node]() for _ in graph.roots[len(outputs) :])]
    return tuple(
        f"{number}: {literal(tuple(n for n, node in enumerate(tensors) if node in sources))}"
        for number, (root, sources) in enumerate(zip(graph.roots, found, strict=True))
        if root.dtype.is_float and sources != floating
    )


def operator_tensors(graph: Graph) -> tuple[Node, ...]:
    """The tensors an operator takes: the inputs, then the parameters and buffers it reads."""
    used = set(topological(graph.roots))
    return (*graph.inputs, *(node for node in graph.tensors if node in used))


def is_differentiable_buffer(node: Node) -> bool:
    """Whether a tensor that an operator takes is a buffer of a kind that could have a gradient,
    and has none here."""
    return role_of(node) is Role.BUFFER and node.dtype.is_float


def role_of(node: Node) -> Role:
    """What a tensor that an operator takes is to the module."""
    assert isinstance(node.operation, Placeholder)
    return node.operation.role


def is_number(node: Node) -> bool:
    """Whether a tensor without a dimension is handed in or held, not drawn by the module."""
    return not node.shape and role_of(node) is not Role.SEED


def _members(function: str, graph: Graph, tensors: tuple[Node, ...]) -> MembersText | None:
    """How to get at those of an operator's tensors that the module holds, if there are any."""
    held = [node for node in tensors if role_of(node) in (Role.PARAMETER, Role.BUFFER)]
    if not held:
        return None
    attributes = tuple(f"module.{shown_name(node)}" for node in held)
    kinds = {layer.path: layer.kind for layer in graph.layers}
    owners = dict.fromkeys(shown_name(node).rpartition(".")[0] for node in held)
    layers = tuple(HolderText(path, kinds.get(path, "Module")) for path in owners if path)
    return MembersText(function, tuple(map(_place, held)), attributes, layers)


def _place(node: Node) -> str:
    *owners, name = shown_name(node).split(".")
    owner = "".join(f'._modules["{owner}"]' for owner in owners)
    kept = "_parameters" if role_of(node) is Role.PARAMETER else "_buffers"
    return f'module{owner}.{kept}["{name}"]'
