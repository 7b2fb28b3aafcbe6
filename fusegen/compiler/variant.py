"""One operator: a model in one dtype and mode, from its graph to the sources to build."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass

from fusegen import resources
from fusegen.codegen.cuda import cuda_source
from fusegen.codegen.host import binding_source
from fusegen.codegen.python_module import shown_name
from fusegen.codegen.python_reference import reference_text
from fusegen.compiler.dumps import dump_cuda, dump_pass, dump_plan
from fusegen.compiler.specialisation import Specialisation
from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Graph
from fusegen.ir.integers import Integer, product
from fusegen.ops.record import Reduction
from fusegen.passes import pipeline
from fusegen.plan.kernels import LibraryPlan, ModulePlan
from fusegen.plan.module import plan_module
from fusegen.runtime.request import BuildRequest, Target

COMMENT_WIDTH = 96


@dataclass(frozen=True)
class Variant:
    """The name of an operator and of its library (`mlp_float32`), its plan, and its sources: the
    kernels, their binding, and the headers both include."""

    name: str
    plan: ModulePlan
    sources: Mapping[str, str]

    def request(
        self, target: Target, architectures: tuple[str, ...] = (), check: bool = False
    ) -> BuildRequest:
        """What to build."""
        return BuildRequest(self.name, self.sources, target, architectures, check)


def decomposed(chosen: Specialisation, dtype: DType, *, training: bool) -> Graph:
    """The graph in a dtype and mode, as the passes leave it for the planner."""
    return pipeline.run(chosen.graph(dtype, training=training), dump_pass)


def make_variant(chosen: Specialisation, dtype: DType, *, training: bool) -> Variant:
    """The operator in a dtype and mode."""
    name = f"{chosen.operator(training)}_{dtype.value}"
    graph = chosen.graph(dtype, training=training)
    plan = plan_module(decomposed(chosen, dtype, training=training), dtype)
    dump_plan(name, plan)
    cuda = cuda_source(plan, (*chosen.header, "", *_overview(graph, plan)))
    dump_cuda(name, cuda.text)
    tensors = (*graph.inputs, *graph.tensors)
    shown = {b.name: shown_name(n) for b, n in zip(plan.arguments, tensors, strict=True)}
    about = f"The PyTorch operator {name}: checks its tensors and runs the chain in {name}.cu."
    binding = binding_source(
        plan, cuda.launchers, name, (*chosen.header, "", about), shown, _batches(graph)
    )
    return Variant(
        name,
        plan,
        {
            f"{name}.cu": cuda.text,
            f"{name}_binding.cpp": binding,
            **{f"include/{file}": text for file, text in resources.include_files().items()},
        },
    )


def _batches(graph: Graph) -> dict[str, Integer]:
    """How many values each channel of a batch norm in training has."""
    found = {}
    for update in graph.updates:
        node = update.mean
        while not isinstance(node.operation, Reduction):
            node = node.operands[0]
        sizes = node.operands[0].shape
        found[update.path] = product(sizes[dim] for dim in node.attributes.integers("dims"))
    return found


def _overview(graph: Graph, plan: ModulePlan) -> tuple[str, ...]:
    """The chain as the reference has it, and the plan: for the head of the kernels' file."""
    tensors = (*graph.inputs, *graph.tensors)
    reference = reference_text(graph, tensors, tensors[0], (None,) * len(graph.roots))
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
