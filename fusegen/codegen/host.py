"""The C++ binding: one PyTorch operator that checks its tensors and runs the whole plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fusegen.codegen.c_text import integer
from fusegen.codegen.environment import environment, tidy
from fusegen.codegen.kernel_text import Signature
from fusegen.codegen.names import Names
from fusegen.ir.dtypes import DType
from fusegen.ir.graph import AttributeValue, Graph, Shape, topological
from fusegen.ir.integers import Atom, Integer, Symbol, product
from fusegen.ops.operands import by_parameter
from fusegen.ops.record import LibraryCall, Monoid, Parameter, ParameterKind, Reduction
from fusegen.plan.buffers import Buffer
from fusegen.plan.kernels import LibraryPlan, ModulePlan, Step
from fusegen.plan.sizes import definitions

SCALAR_TYPES = {
    DType.BOOL: "Bool",
    DType.UINT8: "Byte",
    DType.INT8: "Char",
    DType.INT16: "Short",
    DType.INT32: "Int",
    DType.INT64: "Long",
    DType.FLOAT16: "Half",
    DType.BFLOAT16: "BFloat16",
    DType.FLOAT32: "Float",
    DType.FLOAT64: "Double",
}

# Operations that refuse to look for an extreme where there is nothing to choose from (a softmax,
# which looks for one too, has no result there), and how they do it.
EXTREMES = frozenset({"amax", "amin", "argmax", "argmin", "norm"})
CHOOSING = frozenset({Monoid.MAXIMUM, Monoid.MINIMUM, Monoid.ARGMAX, Monoid.ARGMIN})

# The names that the skeleton `binding.cpp.j2` uses itself.
SKELETON = frozenset({"fusegen", "library", "run", "Run", "ScalarType", "Size", "Tensor", "std"})


@dataclass(frozen=True)
class Launcher:
    """A kernel's launcher as the binding declares it."""

    name: str
    parameters: tuple[str, ...]


@dataclass(frozen=True)
class NamedSize:
    """A symbolic size: its variable, and the user's name for it."""

    variable: str
    name: str


@dataclass(frozen=True)
class BindingText:
    """What the skeleton `binding.cpp.j2` fills in; each of `steps` is a few statements."""

    header: tuple[str, ...]
    operator: str
    names: tuple[str, ...]
    kernels: tuple[Launcher, ...]
    sizes: tuple[NamedSize, ...]
    defined_sizes: tuple[str, ...]
    parameters: tuple[str, ...]
    arguments: tuple[str, ...]
    checks: tuple[str, ...]
    count_checks: tuple[str, ...]
    steps: tuple[tuple[str, ...], ...]
    returned: str
    result_type: str
    schema_parameters: tuple[str, ...]
    schema_result: str


def binding_source(
    plan: ModulePlan,
    launchers: Mapping[str, Signature],
    operator: str,
    header: tuple[str, ...],
    shown: Mapping[str, str],
    batches: Mapping[str, Integer],
) -> str:
    """The binding of a plan as C++ text.

    `launchers` are those of the plan's `.cu` file; `operator` is the name to register in the
    namespace FUSEGEN_NAMESPACE; `header` is the comment, line by line; `shown` gives the user's
    name for each argument's buffer (`gemm.weight` for `gemm_weight`); `batches` how many values
    each channel of a batch norm in training has, by the layer's path.
    """
    writer = _Writer.of(plan, launchers, operator)
    results = tuple(writer.variables[buffer.name] for buffer in plan.results)
    single = len(results) == 1
    names = [writer.variables[buffer.name] for buffer in plan.arguments]
    text = BindingText(
        header=header,
        operator=operator,
        # Python registers autograd with the first; the second spares calls without gradients that.
        names=(operator, f"{operator}_no_grad"),
        kernels=tuple(writer.declaration(*item) for item in launchers.items()),
        sizes=tuple(NamedSize(writer.symbols[s], s.name) for s in writer.given),
        defined_sizes=tuple(writer.definition(s) for s in writer.defined),
        parameters=tuple(f"const Tensor& {name}" for name in names),
        arguments=tuple(names),
        checks=tuple(
            writer.check(b, shown[b.name], names[0]) for b in _deciding_first(plan.arguments)
        ),
        count_checks=(
            *(writer.count_check("batch", layer, count) for layer, count in batches.items()),
            *(writer.count_check("extreme", *found) for found in _extremes(plan.graph)),
        ),
        steps=tuple(writer.statements(step, launchers) for step in plan.steps),
        returned=results[0] if single else f"{{{', '.join(results)}}}",
        result_type="Tensor" if single else f"std::tuple<{', '.join('Tensor' for _ in results)}>",
        schema_parameters=tuple(f"Tensor {name}" for name in names),
        schema_result="Tensor" if single else f"({', '.join('Tensor' for _ in results)})",
    )
    return tidy(environment().get_template("binding.cpp.j2").render(text=text))


@dataclass
class _Writer:
    """Writes the binding's statements; `symbols` and `variables` give sizes and buffers names.

    `given` sizes are those of the arguments, `defined` ones follow from them.
    """

    given: tuple[Symbol, ...]
    defined: tuple[Symbol, ...]
    symbols: dict[Atom, str]
    variables: dict[str, str]
    results: dict[str, Buffer]

    @staticmethod
    def of(plan: ModulePlan, launchers: Mapping[str, Signature], operator: str) -> _Writer:
        names = Names({operator, *SKELETON})
        buffers = (*plan.arguments, *plan.results, *plan.workspaces)
        variables = {buffer.name: names.fresh(buffer.name) for buffer in buffers}
        found = {s for b in plan.arguments for size in b.shape for s in _given(size).symbols()}
        given = tuple(sorted(found, key=lambda s: s.name))
        passed = [symbol for launcher in launchers.values() for symbol in launcher.sizes]
        sizes = [size for buffer in buffers for size in buffer.shape]
        defined = definitions((*sizes, *(Integer.of_atom(symbol) for symbol in passed)))
        symbols: dict[Atom, str] = {s: names.fresh(s.name) for s in (*given, *defined)}
        return _Writer(given, defined, symbols, variables, {b.name: b for b in plan.results})

    def definition(self, symbol: Symbol) -> str:
        """The declaration of a size that follows from others."""
        assert symbol.definition is not None
        value = integer(symbol.definition, self.symbols)
        if any(coefficient < 0 for _, coefficient in symbol.definition.terms):
            names: dict[Atom, str] = {s: s.name for s in (*self.given, *self.defined)}
            text = integer(symbol.definition, names)
            value = f'fusegen::difference("{text}", {value})'
        return f"const int64_t {self.symbols[symbol]} = {value};"

    def declaration(self, name: str, signature: Signature) -> Launcher:
        parameters = []
        for buffer in signature.reads:
            parameters.append(f"const void* {self.variables[buffer.name]}")
            if buffer in signature.strided:
                parameters.append(f"const int64_t* {self.variables[buffer.name]}_strides")
        parameters += [f"void* {self.variables[buffer.name]}" for buffer in signature.writes]
        parameters += [f"int64_t {self.symbols[size]}" for size in signature.sizes]
        return Launcher(name, (*parameters, "void* stream"))

    def check(self, buffer: Buffer, shown: str, first: str) -> str:
        """The check of an argument; the first to have a symbolic size decides it."""
        sizes = self._sizes(tuple(map(_given, buffer.shape)))
        dtype = SCALAR_TYPES[buffer.dtype]
        variable = self.variables[buffer.name]
        return (
            f'fusegen::check_tensor("{shown}", {variable}, {first}, ScalarType::{dtype}, {sizes});'
        )

    def count_check(self, kind: str, name: str, count: Integer) -> str:
        """The check of how many values something is computed from."""
        return f'fusegen::check_{kind}("{name}", {integer(count, self.symbols)});'

    def statements(self, step: Step, launchers: Mapping[str, Signature]) -> tuple[str, ...]:
        """The memory a step writes to, and its launch or call."""
        if isinstance(step, LibraryPlan):
            return (self._library_call(step),)
        signature = launchers[step.name]
        allocations = tuple(self._allocation(buffer) for buffer in signature.writes)
        arguments = []
        for buffer in signature.reads:
            arguments.append(f"{self.variables[buffer.name]}.const_data_ptr()")
            if buffer in signature.strided:
                arguments.append(f"{self.variables[buffer.name]}.strides().data()")
        arguments += [f"{self.variables[b.name]}.mutable_data_ptr()" for b in signature.writes]
        arguments += [self.symbols[size] for size in signature.sizes]
        passed = ",\n        ".join((*arguments, "run.stream()"))
        call = f'run.check("{step.name}", launch_{step.name}(\n        {passed}));'
        return (*allocations, call)

    def _allocation(self, buffer: Buffer) -> str:
        variable, dtype = self.variables[buffer.name], SCALAR_TYPES[buffer.dtype]
        result = self.results.get(buffer.name)
        if result is None:
            sizes = self._sizes(buffer.shape)
            return f"const Tensor {variable} = run.workspace({sizes}, ScalarType::{dtype});"
        sizes = self._sizes(result.shape)
        return (
            f'const Tensor {variable} = run.result("{buffer.name}", {sizes}, ScalarType::{dtype});'
        )

    def _sizes(self, shape: Shape) -> str:
        return f"{{{', '.join(integer(size, self.symbols) for size in shape)}}}"

    def _library_call(self, step: LibraryPlan) -> str:
        operation = step.node.operation
        assert isinstance(operation, LibraryCall)
        operands = by_parameter(operation.parameters, step.operands, step.node.attributes)
        arguments = [f'"{operation.aten}"']
        for parameter in operation.parameters:
            buffers = operands.get(parameter.name)
            if buffers:
                (variable,) = (self.variables[buffer.name] for buffer in buffers)
                optional = parameter.kind is ParameterKind.OPTIONAL_TENSOR
                arguments.append(f"std::optional<Tensor>({variable})" if optional else variable)
            else:
                arguments.append(_argument(parameter, step.node.attributes[parameter.name]))
        passed = ",\n        ".join(arguments)
        variable = self.variables[step.result.name]
        several = f"<{operation.results}, {operation.result}>" if operation.results > 1 else ""
        called = f"run.library{several}(\n        {passed})"
        result = self.results.get(step.result.name)
        if result is not None and result.shape != step.result.shape:
            sizes = self._sizes(result.shape)
            called = f"torch::stable::view({called}, {sizes})"
        return f"const Tensor {variable} = {called};"


def _given(size: Integer) -> Integer:
    """A size in terms of those that tensors decide, none of them defined by others."""
    defined = {s: s.definition for s in size.symbols() if s.definition is not None}
    return _given(size.substitute(defined)) if defined else size


def _deciding_first(arguments: tuple[Buffer, ...]) -> tuple[Buffer, ...]:
    """The arguments in an order in which those that decide a size come before those that have a
    sum or a multiple of it; in their own order otherwise."""
    rest, order = list(arguments), list[Buffer]()
    decided: set[Symbol] = set()
    while rest:
        chosen = next((b for b in rest if _derived_from(b) <= decided), rest[0])
        rest.remove(chosen)
        order.append(chosen)
        sizes = map(_given, chosen.shape)
        decided |= {s for size in sizes for s in size.symbols() if size == Integer.of_atom(s)}
    return tuple(order)


def _derived_from(buffer: Buffer) -> set[Symbol]:
    """The sizes of which a tensor has sums or multiples."""
    sizes = map(_given, buffer.shape)
    return {s for size in sizes for s in size.symbols() if size != Integer.of_atom(s)}


def _extremes(graph: Graph) -> tuple[tuple[str, Integer], ...]:
    """The operations that choose one of their operand's elements, and from how many, where that
    is known only at run time."""
    found: dict[tuple[str, Integer], None] = {}
    for node in topological(graph.roots):
        if not isinstance(node.operation, Reduction) or node.written_as not in EXTREMES:
            continue
        if node.operation.monoid in CHOOSING:
            shape = node.operands[0].shape
            count = product(shape[dim] for dim in node.attributes.integers("dims"))
            if count.constant is None:
                found[node.written_as, count] = None
    return tuple(found)


def _argument(parameter: Parameter, value: AttributeValue) -> str:
    """An argument of a PyTorch operator that is no tensor."""
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
