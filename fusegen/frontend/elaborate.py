"""From a program to the graph of one of its models, for given constants and dtype."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from fusegen.errors import Diagnostic, FusegenError
from fusegen.frontend.arguments import attributes_of
from fusegen.frontend.elaborator import Elaborator
from fusegen.frontend.expressions import BUILTINS
from fusegen.frontend.modules import ModelModule
from fusegen.frontend.names import check_names
from fusegen.frontend.program import Program
from fusegen.frontend.report import Report, listing, nearest
from fusegen.frontend.syntax import Expression, Input, Model, Name, Return
from fusegen.frontend.values import POISON, Poisoned, Problem, Scope, Value, describe
from fusegen.ir.dtypes import DType
from fusegen.ir.graph import (
    Graph,
    LayerInstance,
    Node,
    Output,
    StatisticsUpdate,
    topological,
)

ArgumentValue = int | float | bool | str
_KINDS: dict[type, str] = {
    int: "an integer",
    float: "a number",
    bool: "True or False",
    str: "a string",
}


@dataclass(frozen=True)
class Elaboration:
    """The graph of a model, and what in its source is allowed but likely a mistake."""

    graph: Graph
    warnings: tuple[Diagnostic, ...]


def elaborate(
    program: Program,
    *,
    model: str | None = None,
    arguments: Mapping[str, ArgumentValue] | None = None,
    dtype: DType = DType.FLOAT32,
    training: bool = False,
) -> Elaboration:
    """The graph of `model` (by default the only one that no other uses) for given arguments.

    `dtype` is that of every input, parameter and buffer that names none of its own; `training` is
    the module's mode. Raises SourceError with every error in the program, and FusegenError for a
    model or arguments the program does not have.
    """
    report = Report(program.source)
    check_names(program.definitions, BUILTINS, report)
    chosen = program.choose_model(model)
    given = _checked(chosen, arguments or {})
    definitions = {d.name.text: d for d in reversed(program.definitions)}
    elaborator = Elaborator(definitions, report, dtype=dtype, training=training)
    module = ModelModule(chosen, "", _constants(chosen, given, elaborator, report))
    inputs, returned = elaborator.run_main(module)
    if not any(isinstance(statement, Input) for statement in chosen.statements):
        report.error(
            f"model '{chosen.name.text}' has no input",
            chosen.name.span,
            "declare one in its body: input x: [batch, features]",
        )
    outputs = tuple(_outputs(chosen, returned, report))
    report.check()
    graph = Graph(
        name=chosen.name.text,
        inputs=inputs,
        tensors=(*module.state(), *([elaborator.seed] if elaborator.dropping else [])),
        outputs=outputs,
        layers=tuple(elaborator.layers),
        updates=tuple(elaborator.updates),
        arguments=attributes_of(module.arguments),
        description=program.comment_above(chosen),
        dropping=tuple(dict.fromkeys(_holder(p, elaborator.layers) for p in elaborator.dropping)),
    )
    return Elaboration(_labelled(graph, elaborator), report.diagnostics)


def _checked(model: Model, arguments: Mapping[str, ArgumentValue]) -> Mapping[str, ArgumentValue]:
    """The arguments, if the model takes exactly these."""
    name = model.name.text
    parameters = [parameter.name.text for parameter in model.parameters]
    for unknown in sorted(arguments.keys() - set(parameters)):
        takes = f"its arguments are {listing(parameters)}" if parameters else "it takes none"
        hint = nearest(unknown, parameters) or takes
        raise FusegenError(f"model '{name}' has no argument '{unknown}'", hint)
    needed = [p.name.text for p in model.parameters if p.default is None]
    missing = [parameter for parameter in needed if parameter not in arguments]
    if missing:
        plural = "s" if len(missing) > 1 else ""
        raise FusegenError(
            f"model '{name}' needs a value for the argument{plural} {listing(missing)}",
            f"pass it with -D {missing[0]}=VALUE, or {missing[0]}=VALUE in Python, or give it a "
            "default in the model's header",
        )
    for argument, value in arguments.items():
        if not isinstance(value, (bool, int, float, str)):
            raise FusegenError(
                f"argument '{argument}' of model '{name}' is a {type(value).__name__}",
                "model arguments are integers, floats, truth values and strings",
            )
    return arguments


def _constants(
    model: Model,
    given: Mapping[str, ArgumentValue],
    elaborator: Elaborator,
    report: Report,
) -> Scope:
    """The model's arguments with their values, each default computed from those before it."""
    scope: Scope = {}
    for parameter in model.parameters:
        name = parameter.name.text
        if parameter.default is None:
            scope[name] = given[name]
            continue
        try:
            default = elaborator.evaluate(parameter.default, scope)
        except (Problem, Poisoned) as failure:
            if isinstance(failure, Problem):
                inside = f" ({failure.inside})" if failure.inside else ""
                report.error(failure.message + inside, failure.span, failure.hint)
            default = POISON
        value = given.get(name, default)
        if not _is_like(value, default):
            kind = _KINDS.get(type(default), "of that kind")
            raise FusegenError(
                f"argument '{name}' of model '{model.name.text}' cannot be {describe(value)}",
                f"it is {describe(default)} by default, and must be {kind}",
            )
        scope[name] = value
    return scope


def _is_like(value: Value, default: Value) -> bool:
    """Whether a value may stand for an argument with that default: of its type, or an int where
    the default is a float; anything where there is nothing to compare with."""
    if default is None or default is POISON or type(value) is type(default):
        return True
    return type(default) is float and type(value) is int


def _outputs(model: Model, returned: Sequence[Value], report: Report) -> Iterator[Output]:
    """The returned tensors with the names to show for them."""
    statement = next((s for s in model.statements if isinstance(s, Return)), None)
    if statement is None:
        return
    taken: set[str] = set()
    places: Sequence[Expression] = statement.values
    if len(places) != len(returned):  # some value is a list of tensors
        places = [statement.values[0]] * len(returned)
    for position, (value, place) in enumerate(zip(returned, places, strict=True)):
        if value is POISON:
            continue
        if not isinstance(value, Node):
            report.error(f"a model returns tensors, but this is {describe(value)}", place.span)
            continue
        name = place.text if isinstance(place, Name) else "output"
        if name in taken or (name == "output" and len(returned) > 1):
            name = f"{name}_{position}"
        taken.add(name)
        yield Output(name, value)


def _holder(path: str, layers: Sequence[LayerInstance]) -> str:
    """The module at a path, or the one that would hold it: one without members is not made."""
    while path and not any(f"{layer.path}.".startswith(f"{path}.") for layer in layers):
        path = path.rpartition(".")[0]
    return path


def _labelled(graph: Graph, elaborator: Elaborator) -> Graph:
    """The graph with the user's names and the places in the source on its nodes."""
    made: dict[Node, Node] = {}
    for node in topological((*graph.roots, *graph.placeholders)):
        operands = tuple(made[operand] for operand in node.operands)
        name = node.name or elaborator.names.get(node) or elaborator.layer_names.get(node)
        span = elaborator.spans.get(node, node.span)
        unchanged = name == node.name and span == node.span
        if unchanged and all(a is b for a, b in zip(operands, node.operands, strict=True)):
            made[node] = node
        else:
            made[node] = replace(node, operands=operands, name=name, span=span)
    return replace(
        graph,
        inputs=tuple(made[node] for node in graph.inputs),
        tensors=tuple(made[node] for node in graph.tensors),
        outputs=tuple(Output(output.name, made[output.node]) for output in graph.outputs),
        updates=tuple(
            StatisticsUpdate(update.path, made[update.mean], made[update.variance])
            for update in graph.updates
        ),
    )
