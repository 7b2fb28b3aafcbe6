"""The arguments of a call of one of PyTorch's own operators."""

from __future__ import annotations

from collections.abc import Mapping

from fusegen.ir.graph import AttributeValue
from fusegen.ops.operands import by_parameter
from fusegen.ops.record import LibraryCall, Parameter, ParameterKind
from fusegen.plan.kernels.library import LibraryPlan


def library_arguments(step: LibraryPlan, variables: Mapping[str, str]) -> tuple[str, ...]:
    """The operator's name and its arguments as C++; `variables` are the buffers' names there."""
    operation = step.node.operation
    assert isinstance(operation, LibraryCall)
    operands = by_parameter(operation.parameters, step.operands, step.node.attributes)
    arguments = [f'"{operation.aten}"']
    for parameter in operation.parameters:
        buffers = operands.get(parameter.name)
        if buffers:
            (variable,) = (variables[buffer.name] for buffer in buffers)
            optional = parameter.kind is ParameterKind.OPTIONAL_TENSOR
            arguments.append(f"std::optional<Tensor>({variable})" if optional else variable)
        else:
            arguments.append(_attribute(parameter, step.node.attributes[parameter.name]))
    return tuple(arguments)


def _attribute(parameter: Parameter, value: AttributeValue) -> str:
    """An argument that is no tensor."""
    if value is None:
        return "std::nullopt"
    if parameter.kind is ParameterKind.FLAG:
        return "true" if value else "false"
    if parameter.kind is ParameterKind.INTEGERS:
        items = value if isinstance(value, tuple) else (value,)
        return f"std::vector<int64_t>{{{', '.join(map(str, items))}}}"
    if parameter.kind is ParameterKind.FLAGS:
        assert isinstance(value, tuple)
        flags = ", ".join("true" if flag else "false" for flag in value)
        return f"std::array<bool, {len(value)}>{{{flags}}}"
    assert isinstance(value, int), f"an operator's argument {parameter.name} = {value!r}"
    number = f"int64_t({value})"
    return f"std::optional<int64_t>({number})" if parameter.default is None else number
