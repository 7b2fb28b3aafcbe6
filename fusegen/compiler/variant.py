"""One operator: a model in one dtype and mode, from its graph to the sources to build."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum

from fusegen import resources
from fusegen.codegen.binding import binding_source
from fusegen.codegen.cuda import cuda_source
from fusegen.codegen.kernel_text import COMMENT_WIDTH
from fusegen.codegen.python_operators import is_differentiable_buffer
from fusegen.codegen.python_reference import reference_text
from fusegen.compiler.dumps import dump_cuda, dump_pass, dump_plan
from fusegen.compiler.specialisation import Specialisation
from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Graph, shown_name
from fusegen.passes import pipeline
from fusegen.passes.autocast import Autocast
from fusegen.passes.demands import batch_counts
from fusegen.passes.differentiation import Origin, without
from fusegen.plan.cost import H100, Device
from fusegen.plan.kernels.library import LibraryPlan
from fusegen.plan.kernels.module import ModulePlan
from fusegen.plan.module import plan_module
from fusegen.plan.needs import needed_for
from fusegen.plan.precision import Precision, float32_products
from fusegen.plan.preferences import UNTUNED, Preferences
from fusegen.runtime.request import BuildRequest, Target


@dataclass(frozen=True)
class Variant:
    """The name of an operator and of its library (`mlp_float32`), its plan, and its sources: the
    kernels, their binding, and the headers both include. The kernels are the same for parameters
    and for `buffers`, which autograd has to tell apart."""

    name: str
    plan: ModulePlan
    sources: Mapping[str, str]
    buffers: tuple[str, ...] = ()

    def request(
        self,
        target: Target,
        architectures: tuple[str, ...] = (),
        check: bool = False,
        differentiated: str = "",
    ) -> BuildRequest:
        """What to build; `differentiated` tells apart Python modules that differentiate the
        operator in different ways."""
        autograd = " ".join((*self.buffers, differentiated))
        return BuildRequest(self.name, self.sources, target, architectures, check, autograd)


def decomposed(chosen: Specialisation, dtype: DType, *, training: bool) -> Graph:
    """The graph in a dtype and mode, as the passes before the planner's own leave it."""
    return pipeline.run(chosen.graph(dtype, training=training), dump_pass)


def has_tf32(chosen: Specialisation, dtype: DType, *, training: bool) -> bool:
    """Whether the operator in a dtype and mode has another version for TF32 products."""
    return float32_products(decomposed(chosen, dtype, training=training))


class Part(Enum):
    """What an operator computes; the value is the part of its name that tells it."""

    RESULTS = ""
    FORWARD = "_forward"  # the results, and what is saved for the backward
    BACKWARD = "_backward"


@dataclass(frozen=True)
class VariantKey:
    """Which of a model's operators: its dtype, its mode, how it does float32 products, what it
    computes, and under which autocast, if any; of a backward, the positions of the outputs that
    nothing is made of."""

    dtype: DType
    training: bool
    precision: Precision = Precision.HIGHEST
    part: Part = Part.RESULTS
    under: Autocast | None = None
    absent: tuple[int, ...] = ()

    def name(self, chosen: Specialisation) -> str:
        """The operator's name, put together as the generated module does."""
        version = "_tf32" if self.precision is Precision.HIGH else ""
        form = self.dtype.value if self.under is None else self.under.name
        left_out = "_without_" + "_".join(map(str, self.absent)) if self.absent else ""
        return f"{chosen.operator(self.training)}{self.part.value}{left_out}{version}_{form}"

    def graph(self, chosen: Specialisation) -> Graph:
        """What it computes, before the passes."""
        if self.part is Part.RESULTS:
            return chosen.graph(self.dtype, training=self.training, under=self.under)
        derivative = chosen.derivative(self.dtype, self.training, self.under)
        assert derivative is not None
        if self.part is Part.FORWARD:
            return derivative.forward
        return without(derivative, self.absent) if self.absent else derivative.backward

    def spent(self, chosen: Specialisation) -> tuple[int, ...]:
        """The arguments, by position, that nobody needs after a backward."""
        if self.part is not Part.BACKWARD or self.absent:
            return ()
        derivative = chosen.derivative(self.dtype, self.training, self.under)
        assert derivative is not None
        origins = enumerate(source.origin for source in derivative.sources)
        return tuple(position for position, origin in origins if origin is Origin.SAVED)


def key_named(chosen: Specialisation, keys: Iterable[VariantKey], name: str) -> VariantKey:
    """The one of `keys` with that name, or that of a backward among them for fewer outputs."""
    by_name = {key.name(chosen): key for key in keys}
    partial = re.fullmatch(rf"(.*{Part.BACKWARD.value})_without((?:_\d+)+)(_.*)", name)
    if name in by_name or partial is None:
        return by_name[name]
    absent = tuple(map(int, partial[2].split("_")[1:]))
    return replace(by_name[partial[1] + partial[3]], absent=absent)


def variant_keys(
    chosen: Specialisation,
    dtypes: Iterable[DType],
    precisions: Collection[Precision] = tuple(Precision),
    *,
    gradients: bool = True,
) -> tuple[VariantKey, ...]:
    """The operators of a model in these dtypes: those in full precision always, those of the other
    `precisions` where they differ, and with `gradients` those that a training needs."""
    keys = []
    for dtype in dict.fromkeys(dtypes):
        for training in chosen.modes:
            versions = [Precision.HIGHEST]
            if Precision.HIGH in precisions and has_tf32(chosen, dtype, training=training):
                versions.append(Precision.HIGH)
            parts = [Part.RESULTS]
            if gradients:
                parts += _gradient_parts(chosen, dtype, training)
            keys += [VariantKey(dtype, training, v, part) for v in versions for part in parts]
    return tuple(keys)


def autocast_keys(chosen: Specialisation, autocasts: Iterable[Autocast]) -> tuple[VariantKey, ...]:
    """The operators of a float32 model under these kinds of autocast, which it must have. Their
    products are none of float32."""
    return tuple(
        VariantKey(DType.FLOAT32, training, part=part, under=under)
        for under in autocasts
        for training in chosen.modes
        for part in (Part.RESULTS, *_gradient_parts(chosen, DType.FLOAT32, training, under))
    )


def _gradient_parts(
    chosen: Specialisation, dtype: DType, training: bool, under: Autocast | None = None
) -> list[Part]:
    """A backward, and a forward where it saves something, if the mode has gradients of its own."""
    if not chosen.derivatives(training):
        return []
    derivative = chosen.derivative(dtype, training, under)
    assert derivative is not None
    return [Part.FORWARD, Part.BACKWARD] if derivative.forward.saved else [Part.BACKWARD]


def tf32_dtypes(keys: Iterable[VariantKey]) -> dict[bool, tuple[DType, ...]]:
    """For each mode the dtypes that have an operator with TF32 products."""
    found: dict[bool, tuple[DType, ...]] = {}
    for key in keys:
        if key.precision is Precision.HIGH and key.part is Part.RESULTS:
            found[key.training] = (*found.get(key.training, ()), key.dtype)
    return found


def make_variant(
    chosen: Specialisation,
    key: VariantKey,
    preferences: Preferences = UNTUNED,
    device: Device = H100,
) -> Variant:
    """The operator of that key on a device, with what was tuned on the card at hand."""
    name, graph = key.name(chosen), key.graph(chosen)
    return graph_variant(name, chosen.header, graph, key, key.spent(chosen), preferences, device)


def graph_variant(
    name: str,
    header: tuple[str, ...],
    graph: Graph,
    key: VariantKey,
    spent: tuple[int, ...] = (),
    preferences: Preferences = UNTUNED,
    device: Device = H100,
) -> Variant:
    """An operator that computes a graph in the key's dtype and precision; `header` stands at the
    top of its files, and nobody needs the arguments `spent` afterwards."""
    plan = plan_module(
        pipeline.run(graph, dump_pass),
        key.dtype,
        device=device,
        precision=key.precision,
        spent=spent,
        preferences=preferences,
        watch=dump_pass,
    )
    dump_plan(name, plan)
    cuda = cuda_source(plan, (*header, "", *_overview(graph, plan)))
    dump_cuda(name, cuda.text)
    tensors = graph.placeholders
    shown = {b.name: shown_name(n) for b, n in zip(plan.arguments, tensors, strict=True)}
    binding = binding_source(
        plan,
        cuda.launchers,
        name,
        (*header, "", *textwrap.wrap(_about(key.part, name), COMMENT_WIDTH)),
        shown,
        batch_counts(graph),
        needed_for(plan) if key.part is Part.BACKWARD else None,
    )
    return Variant(
        name,
        plan,
        {
            f"{name}.cu": cuda.text,
            f"{name}_binding.cpp": binding,
            **{f"include/{file}": text for file, text in resources.include_files().items()},
        },
        tuple(map(shown_name, filter(is_differentiable_buffer, tensors))),
    )


def _about(part: Part, name: str) -> str:
    does = {
        Part.RESULTS: "the chain",
        Part.FORWARD: "the chain, with what the backward needs as further results,",
        Part.BACKWARD: "what the gradients need whose bits are set in `wanted`, of the kernels",
    }
    return f"The PyTorch operator {name}: checks its tensors and runs {does[part]} in {name}.cu."


def _overview(graph: Graph, plan: ModulePlan) -> tuple[str, ...]:
    """The chain as the reference has it, and the plan: for the head of the kernels' file."""
    tensors = graph.placeholders
    reference = reference_text(graph, tensors)
    lines = ["The chain:", *(f"  {line}" for line in reference.statements), "", "The plan:"]
    for number, step in enumerate(plan.steps, start=1):
        name = step.node.operation.name if isinstance(step, LibraryPlan) else step.name
        lines += textwrap.wrap(
            f"{number}. {name}: {step.why}.",
            COMMENT_WIDTH,
            initial_indent="  ",
            subsequent_indent="     ",
        )
    return tuple(lines)
