"""What must hold for a generated module on one case."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TypeVar

import torch
from torch import Tensor

from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Graph, topological
from fusegen.ops.record import LibraryCall
from fusegen.passes.demands import batch_counts, slice_demands
from fusegen.runtime.emulation import emulation
from fusegen.runtime.request import Target
from fusegen.testing.bounds import SECOND_LOOK, Bound, bounds
from fusegen.testing.case import Case, argument_name
from fusegen.testing.gradients import formula_bounds, gradient_bounds
from fusegen.testing.judging import (
    Direction,
    Finding,
    judge,
    shared,
    storage_bytes,
    unstable,
    wrong_type,
)
from fusegen.testing.refusals import Unsuitable
from fusegen.testing.rounding import Precision, precision_by_settings
from fusegen.testing.subject import Subject


def check_case(
    subject: Subject, case: Case, tensors: Sequence[Tensor] | None = None
) -> Finding | None:
    """The first thing that is wrong in the forward, or, where the model has a generated backward,
    in that; else None. `tensors` take the place of those that the case draws. Raises Unsuitable
    where PyTorch gives nothing to compare with, or a result of another shape than the kernels'."""
    subject = subject.in_mode(case.training)
    _require_accepted(subject.graph(DType(case.dtype)), case)
    tensors = case.draw(subject) if tensors is None else tensors
    eager = subject.reference(tensors)
    found = _check_forward(subject, case, tensors, eager)
    if found is None and subject.why_forward_only is None:
        found = _check_backward(subject, case, tensors, eager)
    return found


def _require_accepted(graph: Graph, case: Case) -> None:
    """Unsuitable where a call refuses what the reference computes something from: a subscript of
    nothing, and a batch norm of one value per channel, of which that has the statistics alone where
    its result is not used."""
    for demand in slice_demands(graph):
        if not demand.is_met(case.sizes):
            raise Unsuitable(f"the kernels refuse a subscript beyond the size {demand.name}")
    for layer, count in batch_counts(graph):
        if count.evaluate(case.sizes) == 1:
            raise Unsuitable(f"the kernels refuse a batch of one value in {layer}")


def _check_forward(
    subject: Subject, case: Case, tensors: Sequence[Tensor], eager: Sequence[Tensor]
) -> Finding | None:
    before = [storage_bytes(tensor) for tensor in tensors]
    try:
        first, second = _twice(subject, case, eager, lambda: subject.kernels(tensors))
    except RuntimeError as failure:
        return Finding("the kernels failed", str(failure))
    if any(not torch.equal(b, storage_bytes(t)) for b, t in zip(before, tensors, strict=True)):
        return Finding("the kernels changed an argument")
    graph = subject.results(DType(case.dtype))

    def look(looks: int) -> Finding | None:
        limits = bounds(graph, tensors, eager, case.sizes, precision(subject), looks)
        return _first_wrong(zip(limits, first, second, eager, strict=True), tensors)

    return look(1) and look(SECOND_LOOK)


Judged = tuple[Bound, Tensor, Tensor, Tensor]


def _first_wrong(results: Iterable[Judged], given: Sequence[Tensor]) -> Finding | None:
    """What is wrong with the first result that is wrong, each with its bound, that of a second run
    and eager's."""
    return next(filter(None, (_judged(*each, given) for each in results)), None)


def _judged(
    bound: Bound, result: Tensor, again: Tensor, peer: Tensor, given: Sequence[Tensor]
) -> Finding | None:
    """What is wrong with a result beside eager's, that of a second run, and the arguments."""
    return (
        wrong_type(bound.name, result, peer)
        or shared(bound.name, result, given)
        or judge(bound, result)
        or unstable(bound.name, result, again)
    )


def _check_backward(
    subject: Subject, case: Case, tensors: Sequence[Tensor], results: Sequence[Tensor]
) -> Finding | None:
    trained = subject.trained(case.frozen)
    upstream = case.draw_gradients(subject, results)
    given = (*tensors, *(gradient for gradient in upstream if gradient is not None))
    before = [storage_bytes(tensor) for tensor in given]
    eager = subject.reference_gradients(tensors, trained, upstream)
    wanted = {i: gradient for i, gradient in enumerate(eager) if gradient is not None}

    def differentiate() -> tuple[Tensor | None, ...]:
        return subject.kernel_gradients(tensors, trained, upstream)

    try:
        first, second = _twice(subject, case, tuple(wanted.values()), differentiate)
    except RuntimeError as failure:
        return Finding("the kernels failed", str(failure), Direction.BACKWARD)
    if any(not torch.equal(b, storage_bytes(t)) for b, t in zip(before, given, strict=True)):
        return Finding(
            "the kernels changed an argument or an incoming gradient", "", Direction.BACKWARD
        )
    if not repeats(subject, subject.derivative(DType(case.dtype)).backward):
        second = first
    names = [argument_name(node) for node in subject.placeholders(DType(case.dtype))]
    stray = _stray(names, first, wanted)
    if stray or not wanted:
        return stray
    made, again = ({i: g for i, g in enumerate(run) if g is not None} for run in (first, second))
    return _judged_gradients(subject, case, tensors, upstream, given, wanted, made, again)


def _judged_gradients(
    subject: Subject,
    case: Case,
    tensors: Sequence[Tensor],
    upstream: Sequence[Tensor | None],
    given: Sequence[Tensor],
    wanted: dict[int, Tensor],
    first: Mapping[int, Tensor],
    second: Mapping[int, Tensor],
) -> Finding | None:
    dtype = DType(case.dtype)
    model, found = subject.graph(dtype), subject.derivative(dtype)

    def look(looks: int) -> Finding | None:
        limits = gradient_bounds(
            model, found, tensors, upstream, wanted, case.sizes, precision(subject), looks
        )
        results = [(limits[i], first[i], second[i], peer) for i, peer in wanted.items()]
        return _first_wrong(results, given)

    finding = look(1) and look(SECOND_LOOK)
    if finding:
        return replace(finding, direction=Direction.BACKWARD)
    in_float64, in_float32 = map(subject.derivative, (DType.FLOAT64, DType.FLOAT32))
    model = subject.graph(DType.FLOAT64)

    def look_at_formulas(looks: int) -> Finding | None:
        limits = formula_bounds(model, in_float64, in_float32, tensors, upstream, case.sizes, looks)
        return next(filter(None, (judge(*limit) for limit in limits.values())), None)

    wrong = look_at_formulas(1) and look_at_formulas(SECOND_LOOK)
    if wrong:
        headline = f"the derivative is wrong in float64 as well: {wrong.headline}"
        return Finding(headline, wrong.details, Direction.BACKWARD)
    return None


def _stray(
    names: Sequence[str], found: Sequence[Tensor | None], wanted: dict[int, Tensor]
) -> Finding | None:
    """Gradients that are missing, or that are there where PyTorch has none."""
    for position, (name, gradient) in enumerate(zip(names, found, strict=True)):
        if position in wanted and gradient is None:
            return Finding(f"gradient of {name} is missing", "", Direction.BACKWARD)
        if position not in wanted and gradient is not None:
            headline = f"gradient of {name} is there, where PyTorch has None"
            return Finding(headline, "", Direction.BACKWARD)
    return None


def repeats(subject: Subject, graph: Graph) -> bool:
    """Whether two runs of one of a model's graphs must agree to the bit: some of PyTorch's own
    kernels do not on a GPU."""
    calls = [x.operation for x in topological(graph.roots) if isinstance(x.operation, LibraryCall)]
    return subject.device != "cuda" or all(call.repeatable for call in calls)


def precision(subject: Subject) -> Precision:
    """What the settings at hand let float32 products and convolutions round their operands to."""
    return precision_by_settings(subject.target is Target.CUDA)


Results = TypeVar("Results", bound=Sequence[Tensor | None])


def _twice(
    subject: Subject, case: Case, like: Sequence[Tensor], run: Callable[[], Results]
) -> tuple[Results, Results]:
    """Two runs, in the emulator in different orders of threads, with its checker on if the kernels
    were built for it; on a GPU the results land in memory full of NaN."""
    runs = []
    for order in (case.order, case.order + 1):
        if subject.target is Target.EMULATE:
            with emulation(order, check=subject.checked):
                runs.append(run())
        else:
            _poison_free_memory(like)
            with _deterministic_libraries():
                runs.append(run())
            torch.cuda.synchronize()  # so that what fails fails here
    return runs[0], runs[1]


@contextmanager
def _deterministic_libraries() -> Iterator[None]:
    """PyTorch's convolutions give the same bits each time only where that is asked for."""
    before = torch.backends.cudnn.deterministic
    torch.backends.cudnn.deterministic = True
    try:
        yield
    finally:
        torch.backends.cudnn.deterministic = before


def _poison_free_memory(like: Sequence[Tensor]) -> None:
    """Leave NaN in the memory that results will be allocated in, so that what stays unwritten
    shows."""
    for tensor in like:
        filling = math.nan if tensor.is_floating_point() else 113
        torch.empty_like(tensor).fill_(filling)
