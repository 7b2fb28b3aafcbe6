"""The Python module of a model: the `nn.Module` class around the operators."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, replace

from fusegen.codegen.environment import environment
from fusegen.codegen.names import Names
from fusegen.codegen.python_gradients import (
    EmptyText,
    GradientText,
    autocast_gradient_text,
    gradient_texts,
    literal_empty,
)
from fusegen.codegen.python_layers import member_statements
from fusegen.codegen.python_mode import Mode, dtype_texts, follower
from fusegen.codegen.python_reference import (
    FunctionText,
    empty_text,
    reference_text,
    result_type,
    size_text,
)
from fusegen.codegen.wanted import LAST_BIT
from fusegen.ir.dependence import gradient_sources
from fusegen.ir.graph import Graph, Node, Placeholder, Role, shown_name, topological
from fusegen.ops.twin import literal
from fusegen.passes.autocast import Autocast
from fusegen.passes.demands import batch_counts

DOCSTRING_WIDTH = 96
# What the text of `forward` uses.
FORWARD_GLOBALS = frozenset(
    {
        "_INFERENCE",
        "_TRAINING",
        "_draw_seed",
        "_in_training",
        "_members",
        "_members_training",
        "_run",
        "_update_statistics",
    }
)


@dataclass(frozen=True)
class Libraries:
    """What was built beside the module: the operators' namespace by variant (`mlp_float32`), the
    command that builds another, what to do when a library is missing, and the file name of the
    emulator's library, if the kernels need it."""

    namespaces: Mapping[str, str]
    command: str
    mend: str
    emulator: str | None


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


@dataclass(frozen=True)
class TrainingText:
    """What `forward` does in training: run, update the running statistics, return the outputs.
    `layers` are the modules whose mode decides, `shown` the user's names for them."""

    layers: tuple[str, ...]
    shown: tuple[str, ...]
    arguments: list[str]
    results: tuple[str, ...]
    updates: tuple[str, ...]
    returned: str


@dataclass(frozen=True)
class ModuleText:
    """What the skeleton `module.py.j2` fills in; `derived` where a mode has gradients of its own,
    `referenced` where one has those of the reference; `gathers` where an argument may be a number
    that is not on the kernels' device."""

    docstring: tuple[str, ...]
    class_name: str
    class_docstring: tuple[str, ...]
    members: tuple[str, ...]
    inputs: tuple[str, ...]
    inference: list[str]
    result_type: str
    training: TrainingText | None
    modes: tuple[ModeText, ...]
    derived: bool
    referenced: bool
    autocasts: bool
    drops: bool
    gathers: bool
    has_layers: bool
    last_bit: int
    device: str
    libraries: Libraries | None


def module_source(
    inference: Mode,
    training: Mode | None,
    *,
    header: tuple[str, ...],
    device: str,
    libraries: Libraries | None,
) -> str:
    """The module as Python text.

    `training` is given where that mode differs; `header` is the docstring, line by line; `device`
    is the type of device the kernels take tensors on (`cuda`, or `cpu` in the emulator). Without
    `libraries`, whoever runs the text must set its `find_libraries`.
    """
    graph = inference.graph
    modes = [_mode("inference", inference)]
    if training is not None:
        modes.append(_mode("training", training))
    text = ModuleText(
        docstring=tuple(map(docstring_line, header)),
        class_name=graph.name,
        class_docstring=_class_docstring(graph),
        members=member_statements(graph.layers),
        inputs=tuple(f"{name}: Tensor" for name in _input_names(graph)),
        inference=_arguments(graph, modes[0]),
        result_type=result_type(len(graph.outputs)),
        training=None if training is None else _training(training.graph, modes[-1]),
        modes=tuple(modes),
        derived=any(mode.gradients for mode in modes),
        referenced=not all(mode.gradients for mode in modes),
        autocasts=any(mode.autocasts for mode in modes),
        drops=training is not None and bool(training.graph.dropping),
        gathers=device != "cpu" and any(map(_is_number, operator_tensors(graph))),
        has_layers=any(mode.members and mode.members.layers for mode in modes),
        last_bit=LAST_BIT,
        device=device,
        libraries=libraries,
    )
    return _tidy(environment().get_template("module.py.j2").render(text=text))


def operator_tensors(graph: Graph) -> tuple[Node, ...]:
    """The tensors an operator takes: the inputs, then the parameters and buffers it reads."""
    used = set(topological(graph.roots))
    return (*graph.inputs, *(node for node in graph.tensors if node in used))


def is_differentiable_buffer(node: Node) -> bool:
    """Whether a tensor that an operator takes is a buffer of a kind that could have a gradient,
    and has none here."""
    return _role(node) is Role.BUFFER and node.dtype.is_float


def _mode(name: str, mode: Mode) -> ModeText:
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


def _training(graph: Graph, mode: ModeText) -> TrainingText:
    outputs = [f"output_{number}" for number, _ in enumerate(graph.outputs)]
    if len(outputs) == 1:
        outputs = ["output"]
    statistics: list[str] = []
    updates: list[str] = []
    counts = batch_counts(graph)
    inputs = dict(zip(graph.inputs, _input_names(graph), strict=True))
    for number, (update, (_, count)) in enumerate(zip(graph.updates, counts, strict=True)):
        pair = f"mean_{number}", f"variance_{number}"
        statistics += pair
        given = f"self.{update.path}", *pair, size_text(count, inputs)
        updates.append(f"_update_statistics({', '.join(given)})")
    paths = dict.fromkeys((*(update.path for update in graph.updates), *graph.dropping))
    return TrainingText(
        layers=tuple(f"self.{path}" if path else "self" for path in paths),
        shown=tuple(path or "the module itself" for path in paths),
        arguments=_arguments(graph, mode),
        results=(*outputs, *statistics),
        updates=tuple(updates),
        returned=", ".join(outputs),
    )


def _arguments(graph: Graph, mode: ModeText) -> list[str]:
    """What `forward` passes on, in the order of `operator_tensors`."""
    inputs = _input_names(graph)
    members = [] if mode.members is None else [f"*{mode.members.function}(self)"]
    is_random = any(_role(node) is Role.SEED for node in operator_tensors(graph))
    pairs = zip(inputs, graph.inputs, strict=True)
    like = next((name for name, node in pairs if node.shape), inputs[0])
    return [*inputs, *members, *([f"_draw_seed({like})"] if is_random else [])]


def _is_number(node: Node) -> bool:
    """Whether a tensor without a dimension is handed in or held, not drawn by the module."""
    return not node.shape and _role(node) is not Role.SEED


def _members(function: str, graph: Graph, tensors: tuple[Node, ...]) -> MembersText | None:
    """How to get at those of an operator's tensors that the module holds, if there are any."""
    held = [node for node in tensors if _role(node) in (Role.PARAMETER, Role.BUFFER)]
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
    kept = "_parameters" if _role(node) is Role.PARAMETER else "_buffers"
    return f'module{owner}.{kept}["{name}"]'


def _role(node: Node) -> Role:
    assert isinstance(node.operation, Placeholder)
    return node.operation.role


def _input_names(graph: Graph) -> list[str]:
    """The parameters of `forward`: the user's names, altered only where its text has them."""
    wanted = [shown_name(node) for node in graph.inputs]
    names = Names(set(wanted), FORWARD_GLOBALS)
    return [names.fresh(name) if name in FORWARD_GLOBALS else name for name in wanted]


def _class_docstring(graph: Graph) -> tuple[str, ...]:
    lines = textwrap.wrap(graph.description or f"The model {graph.name}.", DOCSTRING_WIDTH)
    shapes = [f"{node.name}: {_shape(node)}" for node in graph.inputs]
    returned = [f"{output.name}: {_shape(output.node)}" for output in graph.outputs]
    written = (*lines, "", *shapes, f"Returns {', '.join(returned)}.")
    return tuple(docstring_line(line) for line in written)


def docstring_line(text: str) -> str:
    """A line as it stands inside a docstring."""
    return text.replace("\\", "\\\\").replace('"""', "'''")


def _shape(node: Node) -> str:
    return f"[{', '.join(str(size) for size in node.shape)}]"


def _tidy(text: str) -> str:
    """Without trailing spaces, and with at most the two empty lines that Python puts between
    definitions."""
    text = re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE)
    return re.sub(r"\n{4,}", "\n\n\n", text).strip() + "\n"
