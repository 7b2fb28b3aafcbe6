"""What calling something means: an operation, a function of the program, or a layer."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence

from fusegen.errors import Span
from fusegen.frontend.arguments import Argument, attributes_of, bind, match, require
from fusegen.frontend.expressions import Expressions
from fusegen.frontend.modules import LayerModule, ModelModule
from fusegen.frontend.operators import on_numbers
from fusegen.frontend.syntax import Binding, Definition, Function, Input, Model, Parameter
from fusegen.frontend.values import (
    Declarable,
    Poisoned,
    Problem,
    Scope,
    TensorClass,
    Value,
    describe,
)
from fusegen.ir.dtypes import DType
from fusegen.ir.graph import (
    Attributes,
    Node,
    Placeholder,
    Role,
    StatisticsUpdate,
    TensorType,
)
from fusegen.ops.build import call
from fusegen.ops.construct import as_tensor
from fusegen.ops.operands import TENSOR_KINDS
from fusegen.ops.pointwise.logic import WHERE
from fusegen.ops.record import Layer, Macro, ParameterKind, Record, Stochastic
from fusegen.ops.registry import LAYERS

_LAYER_NAMES = {name.lower(): name for name in LAYERS}


class Calls(Expressions):
    """Expressions with calls; what calling a model means is left open."""

    def __init__(self, definitions: Mapping[str, Definition], *, training: bool) -> None:
        super().__init__(definitions)
        self._training = training
        self._active: set[Definition] = set()
        self.updates: list[StatisticsUpdate] = []
        self.seed = Node(
            Placeholder("seed", Role.SEED), (), Attributes(), TensorType((), DType.INT64), "seed"
        )
        self.dropping: list[str] = []
        self._module_path = ""
        self.layer_names: dict[Node, str] = {}

    @abstractmethod
    def apply_model(self, module: ModelModule, arguments: Sequence[Argument], span: Span) -> Value:
        """The outputs of a model for given inputs."""

    def apply(self, callee: Value, arguments: Sequence[Argument], span: Span) -> Value:
        """What calling `callee` gives. Raises Problem for arguments it does not take."""
        if isinstance(callee, (Record, Macro, Stochastic)):
            try:
                if isinstance(callee, Stochastic):
                    return self._apply_stochastic(callee, arguments, span)
                return self._apply_operation(callee, arguments, span)
            except Problem as problem:
                raise _or_layer(callee, arguments, problem) from None
        if isinstance(callee, Function):
            return self._apply_function(callee, arguments, span)
        if isinstance(callee, LayerModule):
            return self._apply_layer(callee, arguments, span)
        if isinstance(callee, ModelModule):
            return self.apply_model(callee, arguments, span)
        if isinstance(callee, Layer):
            return self._inline_layer(callee, arguments, span)
        if isinstance(callee, Declarable):
            raise _unnamed(callee, span)
        raise Problem(
            f"only functions and layers can be called, but this is {describe(callee)}", span
        )

    def _apply_operation(
        self, record: Record | Macro, arguments: Sequence[Argument], span: Span
    ) -> Value:
        values = bind(record.name, record.parameters, arguments, span)
        operands: list[Value] = []
        for parameter in record.parameters:
            if parameter.kind in TENSOR_KINDS:
                value = values.pop(parameter.name)
                is_list = parameter.kind is ParameterKind.TENSORS and isinstance(value, tuple)
                operands.extend(value if is_list else (value,))  # type: ignore[arg-type]
        computed = self.operate(span, on_numbers, record.name, operands)
        if computed is not None:
            return computed
        attributes = attributes_of(values)
        if record is WHERE and isinstance(operands[0], bool):
            operands[0] = as_tensor(operands[0])
        if isinstance(record, Record):
            return self.operate(span, lambda: call(record, operands, **attributes))  # type: ignore[arg-type]
        for operand in operands:
            if not isinstance(operand, Node):
                raise Problem(f"{record.name} needs a tensor, but got {describe(operand)}", span)
        return self.operate(span, record.expand, tuple(operands), attributes)

    def _apply_stochastic(
        self, function: Stochastic, arguments: Sequence[Argument], span: Span
    ) -> Value:
        values = bind(function.name, function.parameters, arguments, span)
        x = values.pop(function.parameters[0].name)
        if not isinstance(x, Node):
            raise Problem(f"{function.name} works on a tensor, but got {describe(x)}", span)
        return self._drawn(function, x, attributes_of(values), self._module_path, span)

    def _drawn(
        self, function: Stochastic, x: Node, attributes: Attributes, path: str, span: Span
    ) -> Node:
        """What a function gives that is random if the module at `path` is in training."""
        number = len(self.dropping)
        drawn = self.operate(span, function.draw, x, self.seed, number, attributes)
        if not self._training or drawn is x:
            return x
        self.dropping.append(path)
        return drawn

    def _apply_function(
        self, function: Function, arguments: Sequence[Argument], span: Span
    ) -> Value:
        name = f"function '{function.name.text}'"
        if function in self._active:
            raise Poisoned  # check_names has reported the recursion
        scope = self.scope_of(name, function.parameters, arguments, span)
        self._active.add(function)
        try:
            return self._run_function(function, scope)
        except Problem as problem:
            inside = problem.inside or f"in {name}, line {problem.span.line}"
            raise Problem(problem.message, span, problem.hint, inside) from None
        finally:
            self._active.remove(function)

    def _run_function(self, function: Function, scope: Scope) -> Value:
        for statement in function.statements:
            if isinstance(statement, Binding):
                self.assign(statement, self.evaluate(statement.value, scope), scope)
            elif not isinstance(statement, Input):
                values = tuple(self.evaluate(value, scope) for value in statement.values)
                return values[0] if len(values) == 1 else values
        raise Poisoned  # check_names has reported the missing return

    def scope_of(
        self,
        callee: str,
        parameters: Sequence[Parameter],
        arguments: Sequence[Argument],
        span: Span,
    ) -> Scope:
        """The parameters of a function or model with their values; a default may use the
        parameters before it. Raises Problem for a missing or unknown argument."""
        found = match(callee, [p.name.text for p in parameters], arguments)
        require(callee, (p.name.text for p in parameters if p.default is None), found, span)
        scope: Scope = {}
        for parameter in parameters:
            name = parameter.name.text
            if name in found:
                scope[name] = found[name].value
            else:
                assert parameter.default is not None
                scope[name] = self.evaluate(parameter.default, scope)
        return scope

    def assign(self, binding: Binding, value: Value, scope: Scope) -> None:
        """Give the names of a binding their values. Raises Problem where the counts differ."""
        names = binding.targets.names
        if len(names) == 1:
            scope[names[0].text] = value
            return
        if not isinstance(value, tuple) or len(value) != len(names):
            raise Problem(
                f"{len(names)} names are bound, but the value is {describe(value)}",
                binding.span,
                f"bind {len(value)} names" if isinstance(value, tuple) else "bind one name",
            )
        for name, item in zip(names, value, strict=True):
            scope[name.text] = item

    def _apply_layer(self, module: LayerModule, arguments: Sequence[Argument], span: Span) -> Value:
        layer = module.layer
        names = ["input"] if layer.arity == 1 else [f"input{i + 1}" for i in range(layer.arity)]
        shown = describe(module) if module.path else layer.name
        found = match(shown, names, arguments)
        require(shown, names, found, span)
        inputs: list[Node] = []
        for argument in found.values():
            if not isinstance(argument.value, Node):
                raise Problem(
                    f"{shown} works on a tensor, but got {describe(argument.value)}",
                    argument.span,
                )
            inputs.append(argument.value)
        result: Node
        if layer.stochastic is None:
            result = self.operate(
                span, layer.apply, tuple(inputs), module.tensors, module.arguments, self._training
            )
        else:  # one without a name is in no mode of its own
            path = module.path or self._module_path
            result = self._drawn(layer.stochastic, inputs[0], module.arguments, path, span)
        if module.path and result not in inputs:
            self.layer_names.setdefault(result, module.path)
        if self._training and layer.statistics and "running_mean" in module.tensors:
            mean, variance = self.operate(span, layer.statistics, *inputs)
            self.updates.append(StatisticsUpdate(module.path, mean, variance))
        return result

    def _inline_layer(self, layer: Layer, arguments: Sequence[Argument], span: Span) -> Value:
        """A layer where it is used, which only one without parameters may be."""
        chosen = attributes_of(bind(layer.name, layer.parameters, arguments, span))
        if self.operate(span, layer.tensors, chosen):
            raise _unnamed(layer, span)
        return LayerModule(layer, "", chosen, {})


def _or_layer(
    callee: Record | Macro | Stochastic, arguments: Sequence[Argument], problem: Problem
) -> Problem:
    """The problem of a call, with the layer of that name where no argument is a tensor."""
    layer = _LAYER_NAMES.get(callee.name.replace("_", ""))
    if problem.hint or layer is None or any(isinstance(a.value, Node) for a in arguments):
        return problem
    hint = f"'{callee.name}' is a function of tensors, the layer is '{layer}'"
    return Problem(problem.message, problem.span, hint, problem.inside)


def _unnamed(callee: Declarable, span: Span) -> Problem:
    """The error of a declaration that is not bound to a name in a model."""
    name = callee.name.text if isinstance(callee, Model) else callee.name
    what = "is a tensor of the model" if isinstance(callee, TensorClass) else "has parameters"
    return Problem(
        f"{name} {what}, so it needs a name of its own in a model",
        span,
        f"write {name.lower()} = {name}(...) on a line of the model, then use {name.lower()}",
    )
