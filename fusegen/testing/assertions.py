"""Assertions for users' own test suites."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike

import torch
from torch import Tensor, nn

from fusegen.frontend import Source
from fusegen.frontend.elaborate import ArgumentValue
from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Graph
from fusegen.testing.bounds import bounds
from fusegen.testing.checks import precision
from fusegen.testing.judging import judge
from fusegen.testing.subject import Subject, as_tuple, path_of, torch_dtype
from fusegen.testing.verification import verify


def assert_verified(
    source: Source | str | PathLike[str],
    *,
    model: str | None = None,
    arguments: Mapping[str, ArgumentValue] | None = None,
    target: str | None = None,
    examples: int = 50,
    seconds: float = 60.0,
    seed: int = 0,
    forward_only: bool = False,
) -> None:
    """Assert that `fusegen verify` finds nothing wrong with a model; AssertionError shows the
    smallest failing case."""
    subject = Subject.of(
        source, model=model, arguments=arguments, target=target, forward_only=forward_only
    )
    result = verify(subject, examples=examples, seconds=seconds, seed=seed)
    if result.failure:
        finding, case, parts_at = (
            result.failure.finding,
            result.failure.case,
            result.failure.parts_at,
        )
        where = f"\nthe values part in the {finding.direction.value} at: {parts_at}"
        raise AssertionError(f"{subject.chosen.name}: {finding}\n{case}{where if parts_at else ''}")
    if not result.checked:
        raise AssertionError(f"{subject.chosen.name}: no case was checked in {seconds} seconds")


def assert_matches_reference(module: nn.Module, *inputs: Tensor) -> None:
    """Assert that a module that `fusegen.load` made gives the right results for `inputs`.

    The module is run as it stands, in evaluation, on the inputs' device; every element must be
    within the bound that `fusegen.testing.bounds` derives for it.
    """
    subject = _subject_of(module)
    held = dict(module.named_parameters()) | dict(module.named_buffers())
    dtype = _dtype(subject, inputs, held)
    graph = subject.graph(dtype)
    tensors = (*inputs, *(held[path_of(node)].detach() for node in graph.tensors))
    was_training = module.training
    with torch.no_grad():
        try:
            results = as_tuple(module.eval()(*inputs))
        finally:
            module.train(was_training)
        eager = subject.reference(tensors)
    limits = bounds(graph, tensors, eager, _sizes(graph, tensors), precision(subject))
    for bound, result in zip(limits, results, strict=True):
        finding = judge(bound, result)
        if finding:
            raise AssertionError(str(finding))


def _subject_of(module: nn.Module) -> Subject:
    """The model a module was made from; TypeError if `fusegen.load` did not make it."""
    for base in type(module).__mro__:
        if "__fixed__" in base.__dict__:
            opened, arguments = base.__dict__["__fixed__"]
            filename, text, model, target, _ = opened.__open__.recipe[1]
            return Subject.of(
                Source(filename, text), model=model, arguments=arguments, target=target
            )
    raise TypeError(f"{type(module).__name__} was not made by fusegen.load")


def _dtype(subject: Subject, inputs: tuple[Tensor, ...], held: Mapping[str, Tensor]) -> DType:
    """The module's dtype: that of the first argument which the source gives none."""
    both = (subject.placeholders(dtype) for dtype in (DType.FLOAT32, DType.FLOAT64))
    for position, (first, second) in enumerate(zip(*both, strict=True)):
        if first.dtype is not second.dtype:
            given = inputs[position] if position < len(inputs) else held[path_of(first)]
            return next(d for d in DType if torch_dtype(d) is given.dtype)
    return DType.FLOAT32


def _sizes(graph: Graph, tensors: tuple[Tensor, ...]) -> dict[str, int]:
    """The symbolic sizes, as the tensors have them."""
    sizes: dict[str, int] = {}
    for node, tensor in zip((*graph.inputs, *graph.tensors), tensors, strict=True):
        for size, actual in zip(node.shape, tensor.shape, strict=True):
            symbol = size.alone if len(size.symbols()) == 1 and size.constant is None else None
            if symbol is not None and symbol.definition is None:
                sizes[symbol.name] = actual
    return sizes
