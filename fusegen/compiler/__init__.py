"""The driver: runs the stages in order for the command line and the Python API.

Each function imports what it needs, so that `check` stays fast.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fusegen.errors import Diagnostic
from fusegen.frontend.source import Source

if TYPE_CHECKING:
    from fusegen.compiler.explanation import Explanation
    from fusegen.compiler.measured import MeasuredModel
    from fusegen.compiler.tuning import TunedModel
    from fusegen.frontend.elaborate import ArgumentValue
    from fusegen.runtime.comparison import Comparison
    from fusegen.runtime.tile_timing import Judge

    Arguments = Mapping[str, ArgumentValue]


def read_source(path: str) -> Source:
    """The source in a file; FusegenError tells why it cannot be read."""
    return Source.read(path)


def check(source: Source, arguments: Arguments, model: str | None = None) -> tuple[Diagnostic, ...]:
    """The warnings about a model; SourceError with every error."""
    from fusegen.frontend import elaborate, parse

    return elaborate(parse(source), model=model, arguments=arguments).warnings


def compile_to_folder(
    source: Source,
    out: Path,
    *,
    arguments: Arguments,
    target: str = "cuda",
    architectures: Sequence[str] = (),
    dtypes: Sequence[str] = ("float32",),
    precisions: Sequence[str] = (),
    autocasts: Sequence[str] = (),
    inference_only: bool = False,
    emit_only: bool = False,
    model: str | None = None,
) -> None:
    """Write the kernels, their binding, the Python module and the plan of a model into `out`, and
    build them there unless `emit_only`. Raises FusegenError, and writes nothing then.

    float32 products are built in full precision; `precisions` are settings of
    `torch.set_float32_matmul_precision` to have further ones for. `autocasts` are the dtypes to
    which `torch.autocast` may convert for a float32 module. `inference_only` leaves out the
    operators that a training needs.
    """
    from fusegen.compiler.choices import (
        autocast_named,
        check_lists,
        module_dtype_named,
        precision_named,
        target_named,
    )
    from fusegen.compiler.folder import write_folder
    from fusegen.compiler.specialisation import Specialisation

    check_lists(
        architectures=architectures, dtypes=dtypes, precisions=precisions, autocasts=autocasts
    )
    write_folder(
        Specialisation.of(source, model, arguments),
        out,
        target=target_named(target),
        architectures=architectures,
        dtypes=[module_dtype_named(dtype) for dtype in dtypes],
        precisions=[precision_named(precision) for precision in precisions],
        autocasts=[autocast_named(dtype) for dtype in autocasts],
        inference_only=inference_only,
        emit_only=emit_only,
    )


def explain(
    source: Source,
    *,
    arguments: Arguments,
    sizes: Mapping[str, int],
    dtype: str = "float32",
    precision: str = "highest",
    model: str | None = None,
) -> Explanation:
    """The plan of a model in evaluation for the given sizes, its bytes and operations, that of its
    forward in training if it is another one, and that of its backward; with what was tuned on this
    machine's card."""
    from dataclasses import replace

    from fusegen.compiler.choices import precision_named
    from fusegen.compiler.device import device_here
    from fusegen.compiler.dumps import dump_pass, dump_plan
    from fusegen.compiler.explanation import Explanation, SavedLine
    from fusegen.compiler.sizes import assumed_sizes, check_sizes
    from fusegen.compiler.specialisation import Specialisation
    from fusegen.compiler.variant import decomposed
    from fusegen.ir.dtypes import DType
    from fusegen.ir.graph import Graph
    from fusegen.passes import pipeline
    from fusegen.passes.differentiation import differentiate
    from fusegen.plan.attention_limits import stores_no_scores
    from fusegen.plan.boundaries import boundaries
    from fusegen.plan.cost import SizeHints
    from fusegen.plan.module import plan_module
    from fusegen.runtime.tuned_tiles import tuned_here

    tuned = tuned_here()

    def explained(name: str, graph: Graph) -> Explanation:
        asked = precision_named(precision)
        plan = plan_module(
            graph,
            DType(dtype),
            hints,
            device_here(),
            precision=asked,
            preferences=tuned,
            watch=dump_pass,
        )
        dump_plan(name, plan)
        found = Explanation.of(plan, boundaries(plan, hints), hints)
        # What is built is planned without sizes.
        built = plan_module(
            graph, DType(dtype), device=device_here(), precision=asked, preferences=tuned
        )
        return replace(found, is_built=found.plans_as(Explanation.of(built)))

    chosen = Specialisation.of(source, model, arguments)
    check_sizes(chosen.graph(DType(dtype), training=False), sizes)
    graph = decomposed(chosen, DType(dtype), training=False)
    hints = SizeHints.of(graph, sizes)
    forward = replace(explained(chosen.name, graph), sizes=assumed_sizes(graph, hints))
    trained = differentiate(chosen.graph(DType(dtype), training=True), stores_no_scores)
    if len(chosen.modes) > 1:
        found = decomposed(chosen, DType(dtype), training=True)
        found = pipeline.run(trained.forward) if trained else found
        other = explained(chosen.operator(True), found)
        is_built = forward.is_built and other.is_built
        forward = replace(forward, training=other, is_built=is_built)
    if trained is None:
        return forward
    saved = tuple(
        SavedLine(value.name, str(value.node.type), hints.value(value.node.type.count) * size)
        for value in trained.forward.saved
        for size in (value.node.dtype.itemsize,)
    )
    backward = explained(f"{chosen.name}_backward", pipeline.run(trained.backward))
    is_built = forward.is_built and backward.is_built
    return replace(forward, saved=saved, backward=backward, is_built=is_built)


def run(
    source: Source,
    *,
    arguments: Arguments,
    sizes: Mapping[str, int],
    dtype: str = "float32",
    precision: str = "highest",
    target: str | None = None,
    seed: int = 0,
    model: str | None = None,
) -> Comparison:
    """Build a model's kernels, run them on random inputs, and measure the errors.

    Without `target` they run on the GPU if there is one, else in the emulator. Sizes not given
    are 32.
    """
    from fusegen.compiler.loading import blueprint
    from fusegen.compiler.sizes import check_sizes
    from fusegen.compiler.specialisation import Specialisation
    from fusegen.ir.dtypes import DType
    from fusegen.plan.cost import SizeHints
    from fusegen.runtime.comparison import compare
    from fusegen.runtime.gpu import gpus
    from fusegen.runtime.request import Target

    chosen = Specialisation.of(source, model, arguments)
    graph = chosen.graph(DType(dtype), training=False)
    check_sizes(graph, sizes)
    where = Target(target or ("cuda" if gpus() else "emulate"))
    return compare(
        blueprint(chosen, where),
        graph,
        dtype=DType(dtype),
        device="cuda" if where is Target.CUDA else "cpu",
        precision=precision,
        sizes=SizeHints(sizes, default=32),
        seed=seed,
    )


def bench(
    source: Source,
    *,
    arguments: Arguments,
    sizes: Mapping[str, int],
    dtype: str = "float32",
    precision: str = "highest",
    peers: Sequence[str] = (),
    model: str | None = None,
) -> MeasuredModel:
    """Time a model's kernels on the GPU, each beside its floor, and PyTorch's ways to run it.

    Sizes not given are those that `explain` takes. The kernels are those of a module that is built
    on this card, with what was tuned there. FusegenError where there is no GPU.
    """
    from fusegen.compiler.choices import precision_named
    from fusegen.compiler.device import device_here
    from fusegen.compiler.loading import blueprint
    from fusegen.compiler.measured import MeasuredModel
    from fusegen.compiler.product_forms import tuned_launches
    from fusegen.compiler.sizes import check_sizes
    from fusegen.compiler.specialisation import Specialisation
    from fusegen.compiler.variant import decomposed
    from fusegen.ir.dtypes import DType
    from fusegen.plan.cost import SizeHints
    from fusegen.plan.kernels.library import LibraryPlan
    from fusegen.plan.module import plan_module
    from fusegen.runtime.comparison import compare
    from fusegen.runtime.measurement import measure, require_gpu
    from fusegen.runtime.request import Target
    from fusegen.runtime.tuned_tiles import tuned_here

    chosen = Specialisation.of(source, model, arguments)
    graph = chosen.graph(DType(dtype), training=False)
    check_sizes(graph, sizes)
    require_gpu()
    tuned = tuned_here()
    prepared = decomposed(chosen, DType(dtype), training=False)
    hints = SizeHints.of(prepared, sizes)
    # What is built is planned without sizes; with them the costs are right, if the plan is one.
    built, sized = (
        plan_module(
            prepared,
            DType(dtype),
            given,
            device_here(),
            precision=precision_named(precision),
            preferences=tuned,
        )
        for given in (None, hints)
    )
    known = {step.name: step.cost for step in sized.steps if not isinstance(step, LibraryPlan)}
    names = [step.name for step in built.steps if not isinstance(step, LibraryPlan)]
    costs = (
        {name: known.get(name) for name in names} if names == list(known) else dict.fromkeys(names)
    )
    what = blueprint(chosen, Target.CUDA, preferences=tuned)
    comparison = compare(
        what, graph, dtype=DType(dtype), device="cuda", precision=precision, sizes=hints, seed=0
    )
    measurement = measure(
        what, graph, costs, dtype=DType(dtype), precision=precision, sizes=hints, peers=peers
    )
    return MeasuredModel(measurement, comparison, tuple(tuned_launches(built, hints)))


def tune(
    source: Source,
    *,
    arguments: Arguments,
    sizes: Mapping[str, int],
    dtype: str = "float32",
    precision: str = "highest",
    model: str | None = None,
    judge: Judge,
) -> TunedModel:
    """Time the tiles that a model's products can run on, and remember the quickest for this card.

    FusegenError where there is no GPU, or nothing to choose, or where `judge` calls results wrong.
    """
    from functools import partial

    from fusegen.compiler.choices import precision_named
    from fusegen.compiler.sizes import check_sizes
    from fusegen.compiler.specialisation import Specialisation
    from fusegen.compiler.tuning import tune_model
    from fusegen.compiler.variant import VariantKey, has_tf32
    from fusegen.ir.dtypes import DType
    from fusegen.plan.precision import Precision
    from fusegen.runtime.gpu import current_card
    from fusegen.runtime.measurement import require_gpu
    from fusegen.runtime.tile_timing import time_products
    from fusegen.runtime.tuned_tiles import remember

    chosen = Specialisation.of(source, model, arguments)
    check_sizes(chosen.graph(DType(dtype), training=False), sizes)
    require_gpu()
    card = current_card()
    assert card is not None
    asked, in_dtype = precision_named(precision), DType(dtype)
    if not has_tf32(chosen, in_dtype, training=False):
        asked = Precision.HIGHEST
    variant = VariantKey(in_dtype, training=False, precision=asked).name(chosen)
    timing = partial(
        time_products, variant=variant, dtype=in_dtype, precision=precision, judge=judge
    )
    tuned = tune_model(chosen, card, timing, sizes=sizes, dtype=in_dtype, precision=asked)
    remember(card, [found.choice for found in tuned.products])
    return tuned
