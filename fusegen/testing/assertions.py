"""Assertions for users' own test suites."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from os import PathLike

from torch import Tensor, nn

from fusegen.frontend import Source
from fusegen.frontend.elaborate import ArgumentValue
from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Graph
from fusegen.runtime.tensors import torch_dtype
from fusegen.testing.case import Case
from fusegen.testing.checks import check_case
from fusegen.testing.parting import first_parting
from fusegen.testing.subject import Subject, path_of
from fusegen.testing.verification import Failure, verify


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
        raise AssertionError(f"{subject.chosen.name}: {result.failure}\n{result.failure.case}")
    if not result.checked:
        raise AssertionError(f"{subject.chosen.name}: no case was checked in {seconds} seconds")


def assert_matches_reference(
    module: nn.Module, *inputs: Tensor, forward_only: bool = False
) -> None:
    """Assert that a module that `fusegen.load` made gives the right results for `inputs`, and, if
    not `forward_only`, the right gradients of the inputs and of all parameters that are trained,
    for normal gradients of the results.

    The module runs as it stands, in evaluation, on the inputs' device; all that `fusegen verify`
    checks in a case must hold, every element within the bound that `fusegen.testing.bounds` and
    `gradients` derive; accesses to memory are checked if it was loaded with `check=True`.
    AssertionError names the first operation whose own result is wrong, if there
    is one; TypeError for a module that `fusegen.load` did not make.
    """
    subject = _subject_of(module, forward_only)
    held = dict(module.named_parameters()) | dict(module.named_buffers())
    dtype = _dtype(subject, inputs, held)
    graph = subject.graph(dtype)
    tensors = tuple(
        tensor.detach() for tensor in (*inputs, *(held[path_of(node)] for node in graph.tensors))
    )
    frozen = (name for name, p in module.named_parameters() if not p.requires_grad)
    case = Case(dtype.value, _sizes(graph, tensors), frozen=tuple(frozen))
    modes = [(part, part.training) for part in module.modules()]
    try:
        finding = check_case(subject, case, tensors)
    finally:
        for part, was_training in modes:
            part.training = was_training
    if finding:
        parting = first_parting(subject, case, finding.direction, tensors)
        raise AssertionError(f"{subject.chosen.name}: {Failure(case, finding, parting)}")


def _subject_of(module: nn.Module, forward_only: bool) -> Subject:
    """The model a module was made from; TypeError if `fusegen.load` did not make it."""
    for base in type(module).__mro__:
        if "__fixed__" in base.__dict__:
            opened, arguments = base.__dict__["__fixed__"]
            filename, text, model, target, checked = opened.__open__.recipe[1]
            made = Subject.of(
                Source(filename, text),
                model=model,
                arguments=arguments,
                target=target,
                forward_only=forward_only,
            )
            return replace(made, module=module, checked=checked)
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
    for node, tensor in zip(graph.placeholders, tensors, strict=True):
        for size, actual in zip(node.shape, tensor.shape, strict=True):
            symbol = size.alone if len(size.symbols()) == 1 and size.constant is None else None
            if symbol is not None and symbol.definition is None:
                sizes[symbol.name] = actual
    return sizes
