"""A model with its arguments fixed: its graphs, plans and sources in each dtype and mode."""

from __future__ import annotations

import keyword
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import combinations

from fusegen import __version__
from fusegen.codegen.names import snake_case
from fusegen.codegen.python_mode import Mode
from fusegen.codegen.python_module import Libraries, module_source, operator_tensors
from fusegen.compiler.dumps import dump_graph, dump_program
from fusegen.errors import Diagnostic, FusegenError
from fusegen.frontend import Elaboration, Program, Source, elaborate, parse
from fusegen.frontend.elaborate import ArgumentValue
from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Graph
from fusegen.ops.autocast import Device
from fusegen.ops.record import OperationError
from fusegen.passes.autocast import Autocast, autocast
from fusegen.passes.differentiation import Differentiated, differentiate

# PyTorch's dispatcher takes no more of an operator.
OPERATOR_ARGUMENTS = 64
# The dtypes that inputs and parameters which pin none may have.
MODULE_DTYPES = (DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16, DType.FLOAT64)
# Up to so many inputs there are operators for all mixtures of dtypes in which they may arrive under
# autocast.
MIXED_INPUTS = 2


@dataclass(frozen=True, eq=False)
class Specialisation:
    """A model of a program with the arguments given, all others having their defaults."""

    program: Program
    model: str | None
    arguments: tuple[tuple[str, ArgumentValue], ...]

    @staticmethod
    def of(
        source: Source, model: str | None, arguments: Mapping[str, ArgumentValue]
    ) -> Specialisation:
        """Parse and check a source. Raises SourceError or FusegenError with all that is wrong."""
        program = parse(source)
        dump_program(program)
        made = Specialisation(program, model, tuple(arguments.items()))
        for training in (False, True):
            graph = made.graph(DType.FLOAT32, training=training)
            count = len(graph.inputs) + len(graph.tensors)
            if count > OPERATOR_ARGUMENTS:
                seed = " and a seed for its dropouts" if graph.dropping else ""
                raise FusegenError(
                    f"model '{graph.name}' has {count} inputs, parameters and buffers{seed}, but a "
                    f"PyTorch operator takes {OPERATOR_ARGUMENTS} tensors at most",
                    "make several models of it",
                )
        return made

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        """What is allowed but likely a mistake."""
        return self._elaboration(DType.FLOAT32, False).warnings

    def graph(self, dtype: DType, *, training: bool, under: Autocast | None = None) -> Graph:
        """The graph in a dtype and mode, with the tensors that its operator takes; of a float32
        module `under` autocast, its `autocasts` tell which."""
        graph = self._elaboration(dtype, training).graph
        graph = replace(graph, tensors=operator_tensors(graph)[len(graph.inputs) :])
        return graph if under is None else autocast(graph, under)

    @cached_property
    def modes(self) -> tuple[bool, ...]:
        """Which modes need operators of their own: evaluation, and training if that differs."""
        trained = self.graph(DType.FLOAT32, training=True)
        return (False, True) if trained.updates or trained.dropping else (False,)

    @property
    def name(self) -> str:
        """The model's name."""
        return self.graph(DType.FLOAT32, training=False).name

    @property
    def stem(self) -> str:
        """What files and operators are named after: never a name that would hide a library from a
        program beside them."""
        stem = snake_case(self.name)
        taken = keyword.iskeyword(stem) or stem in sys.stdlib_module_names or stem == "torch"
        return f"{stem}_model" if taken else stem

    def operator(self, training: bool) -> str:
        """A mode's operators' name, without the dtype."""
        return f"{self.stem}_training" if training else self.stem

    def derivative(
        self, dtype: DType, training: bool, under: Autocast | None = None
    ) -> Differentiated | None:
        """The forward and backward in a dtype and mode; None where PyTorch has to differentiate the
        reference: an operation on the way has no gradient here, or no gradient flows at all."""
        return _derivative(self, dtype, training, under)

    def derivatives(self, training: bool) -> dict[DType, Differentiated]:
        """Those in all dtypes, if there are any in all of them."""
        found = {dtype: self.derivative(dtype, training) for dtype in MODULE_DTYPES}
        kept = {dtype: version for dtype, version in found.items() if version is not None}
        return kept if len(kept) == len(found) else {}

    def autocasts(self, device: Device) -> tuple[Autocast, ...]:
        """The kinds of autocast on a kind of device for which the float32 module has operators:
        all where its graphs allow them and have gradients, else none, and PyTorch's operations run.
        """
        given, other = (
            self.graph(dtype, training=False).inputs for dtype in (DType.FLOAT32, DType.FLOAT16)
        )
        follow = [i for i, (x, y) in enumerate(zip(given, other, strict=True)) if x.type != y.type]
        # Further mixtures of many inputs' dtypes are not worth their text.
        counts = range(len(follow) + 1) if len(follow) <= MIXED_INPUTS else (0, len(follow))
        found = [
            Autocast(device, dtype, low)
            for dtype in (DType.BFLOAT16, DType.FLOAT16)
            for count in counts
            for low in combinations(follow, count)
        ]
        try:
            derivatives = [self.derivative(DType.FLOAT32, t, u) for t in self.modes for u in found]
        except OperationError:
            return ()
        return () if None in derivatives else tuple(found)

    @property
    def header(self) -> tuple[str, ...]:
        """What stands at the top of every generated file."""
        graph = self.graph(DType.FLOAT32, training=False)
        values = ", ".join(f"{name}={value}" for name, value in graph.arguments.items())
        file = self.program.source.filename.rpartition("/")[2]
        made = f"Generated by fusegen {__version__} from {file}"
        # A backslash at a line's end would make the next line part of a C++ comment.
        description = [line.rstrip("\\ ") for line in graph.description.splitlines()]
        return (self.name, *description, f"{made} with {values}." if values else f"{made}.")

    def python_source(
        self,
        device: str,
        libraries: Libraries | None,
        tf32: Mapping[bool, tuple[DType, ...]] | None = None,
        gradients: bool = True,
        autocasts: tuple[Autocast, ...] = (),
    ) -> str:
        """The Python module around the operators; `tf32` tells for each mode, whether training,
        the dtypes in which there is an operator with TF32 products, too. Without `gradients`,
        PyTorch differentiates the reference. `autocasts` are those that there are operators for."""
        evaluation, *training = (
            self._mode(mode, (tf32 or {}).get(mode, ()), gradients, autocasts)
            for mode in self.modes
        )
        return module_source(
            evaluation,
            training[0] if training else None,
            header=self.header,
            device=device,
            libraries=libraries,
        )

    def _mode(
        self,
        training: bool,
        tf32: tuple[DType, ...],
        gradients: bool,
        autocasts: tuple[Autocast, ...],
    ) -> Mode:
        return Mode(
            self.operator(training),
            {dtype: self._elaboration(dtype, training).graph for dtype in MODULE_DTYPES},
            tf32,
            self.derivatives(training) if gradients else {},
            {
                under: found
                for under in autocasts
                for found in [self.derivative(DType.FLOAT32, training, under)]
                if found is not None
            },
        )

    def _elaboration(self, dtype: DType, training: bool) -> Elaboration:
        return _elaborated(self, dtype, training)


@lru_cache(maxsize=128)
def _derivative(
    chosen: Specialisation, dtype: DType, training: bool, under: Autocast | None
) -> Differentiated | None:
    found = differentiate(chosen.graph(dtype, training=training, under=under))
    # One argument of a backward is no tensor.
    return found if found is not None and len(found.sources) < OPERATOR_ARGUMENTS else None


@lru_cache(maxsize=64)
def _elaborated(chosen: Specialisation, dtype: DType, training: bool) -> Elaboration:
    found = elaborate(
        chosen.program,
        model=chosen.model,
        arguments=dict(chosen.arguments),
        dtype=dtype,
        training=training,
    )
    dump_graph(f"{found.graph.name}-{dtype.value}{'-training' if training else ''}", found.graph)
    return found
