"""Running the bodies of models on symbolic tensors, and making the modules they declare."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from fusegen.errors import Span
from fusegen.frontend.arguments import Argument, attributes_of, bind, match, require
from fusegen.frontend.calls import Calls
from fusegen.frontend.inputs import match_given, placeholder
from fusegen.frontend.modules import LayerModule, ModelModule, tensor_placeholder
from fusegen.frontend.python_names import check_member
from fusegen.frontend.report import Report
from fusegen.frontend.syntax import (
    Binding,
    Call,
    Definition,
    Input,
    Model,
    Name,
    Return,
)
from fusegen.frontend.tensors import bare_tensor
from fusegen.frontend.values import (
    POISON,
    Declarable,
    Poisoned,
    Problem,
    Scope,
    TensorClass,
    Value,
    describe,
)
from fusegen.ir.dtypes import DType
from fusegen.ir.graph import LayerInstance, Node, Role
from fusegen.ops.record import Layer

TakeInput = Callable[[Input, Scope], Value]


class Elaborator(Calls):
    """One elaboration: collects the graph's layers and statistics, and reports what is wrong.

    A statement that fails is reported, and what it binds is poisoned, so the others go on.
    """

    def __init__(
        self,
        definitions: Mapping[str, Definition],
        report: Report,
        *,
        dtype: DType,
        training: bool,
    ) -> None:
        super().__init__(definitions, training=training)
        self._report = report
        self._dtype = dtype
        self.layers: list[LayerInstance] = []
        self.names: dict[Node, str] = {}

    def run_main(self, module: ModelModule) -> tuple[tuple[Node, ...], tuple[Value, ...]]:
        """The input nodes and the returned values of the model that is compiled."""
        inputs: list[Node] = []

        def take(declared: Input, scope: Scope) -> Value:
            node = placeholder(declared, scope, self.evaluate, self._dtype)
            inputs.append(node)
            self.note(node, declared.name.span)
            return node

        returned = self._run(module, take)
        return tuple(inputs), returned

    def _run(self, module: ModelModule, take_input: TakeInput) -> tuple[Value, ...]:
        """The values a model's body returns, POISON for those that failed; `take_input` gives
        the tensor of an input, and binds the sizes in its shape."""
        if module.definition in self._active:
            return ()  # check_names has reported the recursion
        self._active.add(module.definition)
        outside, self._module_path = self._module_path, module.path
        try:
            with self.nested(module.definition.name.span):
                return tuple(self._run_statements(module, take_input))
        finally:
            self._active.remove(module.definition)
            self._module_path = outside

    def _run_statements(self, module: ModelModule, take_input: TakeInput) -> Iterator[Value]:
        scope = dict(module.arguments)
        for statement in module.definition.statements:
            if isinstance(statement, Return):
                for expression in statement.values:
                    value = self._attempt(partial(self.evaluate, expression, scope), module)
                    yield from value if isinstance(value, tuple) else (value,)
                return
            execute = partial(self._execute, statement, scope, module, take_input)
            if self._attempt(execute, module) is POISON:
                _poison(statement, scope)

    def _execute(
        self, statement: Input | Binding, scope: Scope, module: ModelModule, take_input: TakeInput
    ) -> None:
        if isinstance(statement, Input):
            scope[statement.name.text] = take_input(statement, scope)
            return
        value = self._bound_value(statement, scope, module)
        self.assign(statement, value, scope)
        if not isinstance(statement.value, Name):  # another name for a value is not its name
            for target in statement.targets.names:
                bound = scope[target.text]
                if isinstance(bound, Node):
                    self.names.setdefault(bound, target.text)

    def _attempt(self, action: Callable[[], Value], module: ModelModule) -> Value:
        """What `action` gives, or POISON after reporting the error it met."""
        try:
            return action()
        except Poisoned:
            return POISON
        except Problem as problem:
            message = problem.message
            if problem.inside:
                message += f" ({problem.inside})"
            if module.path and _contains(module.definition.span, problem.span):
                message += f" (in layer '{module.path}')"
            self._report.error(message, problem.span, problem.hint)
            return POISON

    def _bound_value(self, binding: Binding, scope: Scope, module: ModelModule) -> Value:
        """The value of a binding, which may declare a layer or tensor of the module."""
        value, names = binding.value, binding.targets.names
        if isinstance(value, Call) and len(names) == 1:
            callee = self.evaluate(value.callee, scope)
            if isinstance(callee, Declarable):
                name = names[0].text
                made = module.children.get(name) or module.tensors.get(name)
                if made is None:
                    check_member(name, names[0].span)
                return made or self._declare(
                    name, callee, self.arguments(value, scope), module, value.span
                )
        return self.evaluate(value, scope)

    def _declare(
        self,
        name: str,
        callee: Layer | Model | TensorClass,
        arguments: Sequence[Argument],
        module: ModelModule,
        span: Span,
    ) -> Value:
        path = module.path_of(name)
        if isinstance(callee, TensorClass):
            module.tensors[name] = self._declare_tensor(path, callee, arguments, span)
            return module.tensors[name]
        if isinstance(callee, Layer):
            module.children[name] = self._declare_layer(path, callee, arguments, span)
            return module.children[name]
        shown = f"model '{callee.name.text}'"
        child = ModelModule(callee, path, self.scope_of(shown, callee.parameters, arguments, span))
        module.children[name] = child
        before = len(self.dropping)
        self._run(child, lambda _, __: POISON)  # declares its layers, whether or not it is called
        del self.dropping[before:]
        return child

    def _declare_layer(
        self, path: str, layer: Layer, arguments: Sequence[Argument], span: Span
    ) -> LayerModule:
        chosen = attributes_of(bind(layer.name, layer.parameters, arguments, span))
        tensors = {}
        for tensor in self.operate(span, layer.tensors, chosen):
            role = Role.PARAMETER if tensor.trained else Role.BUFFER
            node = tensor_placeholder(
                f"{path}.{tensor.name}", tensor.shape, tensor.dtype or self._dtype, role, span
            )
            self.note(node, span)
            tensors[tensor.name] = node
        self.layers.append(LayerInstance(path, layer.name, chosen))
        return LayerModule(layer, path, chosen, tensors)

    def _declare_tensor(
        self, path: str, callee: TensorClass, arguments: Sequence[Argument], span: Span
    ) -> Node:
        chosen = bare_tensor(callee, arguments, span)
        dtype = chosen["dtype"]
        node = tensor_placeholder(
            path,
            chosen.integers("shape"),
            dtype if isinstance(dtype, DType) else self._dtype,
            callee.role,
            span,
        )
        self.note(node, span)
        self.layers.append(LayerInstance(path, callee.name, chosen))
        return node

    def apply_model(self, module: ModelModule, arguments: Sequence[Argument], span: Span) -> Value:
        """The outputs of a model used as a layer; a tuple where it has several."""
        shown = describe(module)
        names = [s.name.text for s in module.definition.statements if isinstance(s, Input)]
        found = match(shown, names, arguments)
        require(shown, names, found, span)

        def take(declared: Input, scope: Scope) -> Value:
            given = found[declared.name.text]
            return match_given(declared, given.value, given.span, scope, self.evaluate, shown)

        returned = self._run(module, take)
        if not returned or POISON in returned:
            raise Poisoned
        return returned[0] if len(returned) == 1 else returned


def _poison(statement: Input | Binding, scope: Scope) -> None:
    """Poison the names a failed statement would have bound, and the sizes it would have."""
    if isinstance(statement, Binding):
        scope.update((name.text, POISON) for name in statement.targets.names)
        return
    scope[statement.name.text] = POISON
    for size in statement.sizes:
        if isinstance(size, Name):
            scope.setdefault(size.text, POISON)


def _contains(outer: Span, inner: Span) -> bool:
    return outer.line <= inner.line and inner.end_line <= outer.end_line
