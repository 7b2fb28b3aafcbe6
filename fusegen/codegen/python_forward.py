"""What a module's `forward` passes to its operators and, in training, does with their results."""

from __future__ import annotations

from dataclasses import dataclass

from fusegen.codegen.names import Names
from fusegen.codegen.python_operators import ModeText, operator_tensors, role_of
from fusegen.codegen.python_reference import size_text
from fusegen.ir.graph import Graph, Role, shown_name
from fusegen.passes.demands import batch_counts

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
class TrainingText:
    """What `forward` does in training: run, update the running statistics, return the outputs.
    `layers` are the modules whose mode decides, `shown` the user's names for them."""

    layers: tuple[str, ...]
    shown: tuple[str, ...]
    arguments: list[str]
    results: tuple[str, ...]
    updates: tuple[str, ...]
    returned: str


def training_text(graph: Graph, mode: ModeText) -> TrainingText:
    """What is done with the results of a training graph's operators, whose text is `mode`."""
    outputs = [f"output_{number}" for number, _ in enumerate(graph.outputs)]
    if len(outputs) == 1:
        outputs = ["output"]
    statistics: list[str] = []
    updates: list[str] = []
    counts = batch_counts(graph)
    inputs = dict(zip(graph.inputs, input_names(graph), strict=True))
    for number, (update, (_, count)) in enumerate(zip(graph.updates, counts, strict=True)):
        pair = f"mean_{number}", f"variance_{number}"
        statistics += pair
        given = f"self.{update.path}", *pair, size_text(count, inputs)
        updates.append(f"_update_statistics({', '.join(given)})")
    paths = dict.fromkeys((*(update.path for update in graph.updates), *graph.dropping))
    return TrainingText(
        layers=tuple(f"self.{path}" if path else "self" for path in paths),
        shown=tuple(path or "the module itself" for path in paths),
        arguments=forward_arguments(graph, mode),
        results=(*outputs, *statistics),
        updates=tuple(updates),
        returned=", ".join(outputs),
    )


def forward_arguments(graph: Graph, mode: ModeText) -> list[str]:
    """What `forward` passes on, in the order of `operator_tensors`."""
    inputs = input_names(graph)
    members = [] if mode.members is None else [f"*{mode.members.function}(self)"]
    is_random = any(role_of(node) is Role.SEED for node in operator_tensors(graph))
    pairs = zip(inputs, graph.inputs, strict=True)
    like = next((name for name, node in pairs if node.shape), inputs[0])
    return [*inputs, *members, *([f"_draw_seed({like})"] if is_random else [])]


def input_names(graph: Graph) -> list[str]:
    """The parameters of `forward`: the user's names, altered only where its text has them."""
    wanted = [shown_name(node) for node in graph.inputs]
    names = Names(set(wanted), FORWARD_GLOBALS)
    return [names.fresh(name) if name in FORWARD_GLOBALS else name for name in wanted]
