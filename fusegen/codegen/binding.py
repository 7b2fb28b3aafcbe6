"""The C++ binding: one PyTorch operator that checks its tensors and runs the whole plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby

from fusegen.codegen.c_text import SCALAR_TYPES, integer
from fusegen.codegen.count_checks import CountCheck, count_checks
from fusegen.codegen.deciding_arguments import deciding_first
from fusegen.codegen.environment import environment, tidy
from fusegen.codegen.kernel_text import Signature
from fusegen.codegen.library_call import library_arguments
from fusegen.codegen.names import Names
from fusegen.codegen.releases import Entry, entries, release_lines, released
from fusegen.codegen.wanted import wants_any
from fusegen.ir.given_sizes import in_given_sizes
from fusegen.ir.graph import Shape
from fusegen.ir.integers import Atom, Integer, Symbol
from fusegen.ops.record import LibraryCall
from fusegen.plan.buffers import Buffer
from fusegen.plan.kernels.base import KernelPlan
from fusegen.plan.kernels.library import LibraryPlan
from fusegen.plan.kernels.module import ModulePlan, Step
from fusegen.plan.sizes import definitions

# The names that the skeleton `binding.cpp.j2` uses itself.
SKELETON = frozenset(
    {
        "dropping",
        "fusegen",
        "library",
        "run",
        "Run",
        "ScalarType",
        "Size",
        "Tensor",
        "std",
        "wanted",
    }
)


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
class StepText:
    """What some steps of the plan do, and on what condition; None for always."""

    steps: tuple[tuple[str, ...], ...]
    condition: str | None


@dataclass(frozen=True)
class BindingText:
    """What the skeleton `binding.cpp.j2` fills in; `variables` are tensors to declare before the
    steps, where some of these may be left out."""

    header: tuple[str, ...]
    operator: str
    entries: tuple[Entry, ...]
    kernels: tuple[Launcher, ...]
    sizes: tuple[NamedSize, ...]
    defined_sizes: tuple[str, ...]
    parameters: tuple[str, ...]
    arguments: tuple[str, ...]
    checks: tuple[str, ...]
    count_checks: tuple[str, ...]
    variables: tuple[str, ...]
    steps: tuple[StepText, ...]
    returned: str
    result_type: str
    schema_result: str

    @property
    def drops(self) -> bool:
        """Whether there is an instance that drops arguments."""
        return any(entry.drops for entry in self.entries)


def binding_source(
    plan: ModulePlan,
    launchers: Mapping[str, Signature],
    operator: str,
    header: tuple[str, ...],
    shown: Mapping[str, str],
    batches: tuple[tuple[str, Integer], ...],
    needs: tuple[frozenset[int], ...] | None = None,
) -> str:
    """The binding of a plan as C++ text.

    `launchers` are those of the plan's `.cu` file; `operator` is the name to register in the
    namespace FUSEGEN_NAMESPACE; `header` is the comment, line by line; `shown` gives the user's
    name for each argument's buffer (`gemm.weight` for `gemm_weight`); `batches` are the graph's
    `batch_counts`.

    With `needs`, which tells for each step the results that depend on it, the operator takes a last
    argument `wanted`, whose bits (see `wanted.py`) choose results: steps that none of these needs
    are left out, and the other results are empty tensors of shape [0].
    """
    writer = _Writer.of(plan, launchers, operator, chooses=needs is not None)
    results = [writer.variables[buffer.name] for buffer in plan.results]
    single = len(results) == 1
    names = [writer.variables[buffer.name] for buffer in plan.arguments]
    parameters = [f"const Tensor& {name}" for name in names]
    if needs is not None:
        parameters.append("int64_t wanted")
        results = [
            f"run.chosen({wants_any(frozenset({i}))}, {name}, ScalarType::{SCALAR_TYPES[b.dtype]})"
            for i, (name, b) in enumerate(zip(results, plan.results, strict=True))
        ]
    text = BindingText(
        header=header,
        operator=operator,
        entries=entries(plan, operator, writer.variables, chooses=writer.chooses),
        kernels=tuple(writer.declaration(*item) for item in launchers.items()),
        sizes=tuple(NamedSize(writer.symbols[s], s.name) for s in writer.given),
        defined_sizes=tuple(writer.definition(s) for s in writer.defined),
        parameters=tuple(parameters),
        arguments=tuple(names),
        checks=tuple(
            writer.check(b, shown[b.name], names[0]) for b in deciding_first(plan.arguments)
        ),
        count_checks=tuple(writer.count_check(c) for c in count_checks(plan, batches)),
        variables=tuple(writer.variables[b.name] for step in plan.steps for b in step.written)
        if writer.chooses
        else (),
        steps=_steps(
            [
                (
                    *writer.statements(step, launchers),
                    *release_lines(plan, number, writer.variables),
                )
                for number, step in enumerate(plan.steps)
            ],
            [_needed(step, needs, len(results)) for step, _ in enumerate(plan.steps)],
        ),
        returned=results[0] if single else f"{{{', '.join(results)}}}",
        result_type="Tensor" if single else f"std::tuple<{', '.join('Tensor' for _ in results)}>",
        schema_result="Tensor" if single else f"({', '.join('Tensor' for _ in results)})",
    )
    return tidy(environment().get_template("binding.cpp.j2").render(text=text))


def _needed(step: int, needs: tuple[frozenset[int], ...] | None, results: int) -> str | None:
    """The condition of a step; one that all results need has none."""
    return None if needs is None or len(needs[step]) == results else wants_any(needs[step])


def _steps(steps: list[tuple[str, ...]], conditions: list[str | None]) -> tuple[StepText, ...]:
    """The steps, neighbours with one condition together."""
    pairs = groupby(zip(conditions, steps, strict=True), key=lambda pair: pair[0])
    return tuple(StepText(tuple(s for _, s in group), condition) for condition, group in pairs)


@dataclass
class _Writer:
    """Writes the binding's statements; `symbols` and `variables` give sizes and buffers names.

    `given` sizes are those of the arguments, `defined` ones follow from them. Where the operator
    `chooses` among the steps, their tensors are declared before.
    """

    given: tuple[Symbol, ...]
    defined: tuple[Symbol, ...]
    symbols: dict[Atom, str]
    variables: dict[str, str]
    results: dict[str, Buffer]
    released: frozenset[Buffer]
    chooses: bool

    @staticmethod
    def of(
        plan: ModulePlan, launchers: Mapping[str, Signature], operator: str, *, chooses: bool
    ) -> _Writer:
        names = Names({operator, *SKELETON, *(f"launch_{name}" for name in launchers)})
        buffers = (*plan.arguments, *plan.results, *plan.workspaces)
        variables = {buffer.name: names.fresh(buffer.name) for buffer in buffers}
        found = {
            s for b in plan.arguments for size in b.shape for s in in_given_sizes(size).symbols()
        }
        given = tuple(sorted(found, key=lambda s: s.name))
        passed = [symbol for launcher in launchers.values() for symbol in launcher.sizes]
        sizes = [size for buffer in buffers for size in buffer.shape]
        defined = definitions((*sizes, *(Integer.of_atom(symbol) for symbol in passed)))
        symbols: dict[Atom, str] = {s: names.fresh(s.name) for s in (*given, *defined)}
        results = {b.name: b for b in plan.results}
        return _Writer(given, defined, symbols, variables, results, released(plan), chooses)

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
        sizes = self._sizes(tuple(map(in_given_sizes, buffer.shape)))
        dtype = SCALAR_TYPES[buffer.dtype]
        variable = self.variables[buffer.name]
        return (
            f'fusegen::check_tensor("{shown}", {variable}, {first}, ScalarType::{dtype}, {sizes});'
        )

    def count_check(self, check: CountCheck) -> str:
        """The check of how many values something is computed from."""
        return f'fusegen::check_{check.kind}("{check.name}", {integer(check.count, self.symbols)});'

    def statements(self, step: Step, launchers: Mapping[str, Signature]) -> tuple[str, ...]:
        """The memory a step writes to, and its launch or call."""
        if isinstance(step, LibraryPlan):
            return (self._library_call(step),)
        signature = launchers[step.name]
        allocations = tuple(self._memory(buffer, step) for buffer in signature.writes)
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

    def _memory(self, buffer: Buffer, step: KernelPlan) -> str:
        if step.in_place is not None and buffer is step.in_place.written:
            same = self.variables[step.in_place.read.name]
            if buffer.shape != step.in_place.read.shape:
                same = f"torch::stable::view({same}, {self._sizes(buffer.shape)})"
            return self._assigned(buffer, same)
        dtype = SCALAR_TYPES[buffer.dtype]
        result = self.results.get(buffer.name)
        if result is None:
            sizes = self._sizes(buffer.shape)
            return self._assigned(buffer, f"run.workspace({sizes}, ScalarType::{dtype})")
        sizes = self._sizes(result.shape)
        return self._assigned(buffer, f'run.result("{buffer.name}", {sizes}, ScalarType::{dtype})')

    def _assigned(self, buffer: Buffer, value: str) -> str:
        constant = "" if buffer in self.released else "const "
        declared = "" if self.chooses else f"{constant}Tensor "
        return f"{declared}{self.variables[buffer.name]} = {value};"

    def _sizes(self, shape: Shape) -> str:
        return f"{{{', '.join(integer(size, self.symbols) for size in shape)}}}"

    def _library_call(self, step: LibraryPlan) -> str:
        operation = step.node.operation
        assert isinstance(operation, LibraryCall)
        passed = ",\n        ".join(library_arguments(step, self.variables))
        several = f"<{operation.results}, {operation.result}>" if operation.results > 1 else ""
        function = "library_channels_last" if operation.channels_last else "library"
        called = f"run.{function}{several}(\n        {passed})"
        result = self.results.get(step.result.name)
        if result is not None and result.shape != step.result.shape:
            sizes = self._sizes(result.shape)
            called = f"torch::stable::view({called}, {sizes})"
        return self._assigned(step.result, called)
