"""The Python module of a model: the `nn.Module` class around the operators."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass

from fusegen.codegen.environment import environment
from fusegen.codegen.python_forward import (
    TrainingText,
    forward_arguments,
    input_names,
    training_text,
)
from fusegen.codegen.python_layers import member_statements
from fusegen.codegen.python_mode import Mode
from fusegen.codegen.python_operators import ModeText, is_number, mode_text, operator_tensors
from fusegen.codegen.python_reference import result_type
from fusegen.codegen.wanted import LAST_BIT
from fusegen.ir.graph import Graph, Node

DOCSTRING_WIDTH = 96


@dataclass(frozen=True)
class Libraries:
    """What was built beside the module: the operators' namespace by variant (`mlp_float32`), the
    command that builds another, what to do when a library is missing, and the file name of the
    emulator's library, if the kernels need it."""

    namespaces: Mapping[str, str]
    command: str
    mend: str
    emulator: str | None

    @property
    def command_text(self) -> str:
        """The command as a literal of Python's."""
        return json.dumps(self.command, ensure_ascii=False)


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
    modes = [mode_text("inference", inference)]
    if training is not None:
        modes.append(mode_text("training", training))
    text = ModuleText(
        docstring=tuple(map(docstring_line, header)),
        class_name=graph.name,
        class_docstring=_class_docstring(graph),
        members=member_statements(graph.layers),
        inputs=tuple(f"{name}: Tensor" for name in input_names(graph)),
        inference=forward_arguments(graph, modes[0]),
        result_type=result_type(len(graph.outputs)),
        training=None if training is None else training_text(training.graph, modes[-1]),
        modes=tuple(modes),
        derived=any(mode.gradients for mode in modes),
        referenced=not all(mode.gradients for mode in modes),
        autocasts=any(mode.autocasts for mode in modes),
        drops=training is not None and bool(training.graph.dropping),
        gathers=device != "cpu" and any(map(is_number, operator_tensors(graph))),
        has_layers=any(mode.members and mode.members.layers for mode in modes),
        last_bit=LAST_BIT,
        device=device,
        libraries=libraries,
    )
    return _tidy(environment().get_template("module.py.j2").render(text=text))


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
