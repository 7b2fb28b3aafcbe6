"""What right gradients may be: the bounds of `fusegen.testing.bounds`, for the backward.

The truth is PyTorch's autograd through the model in float64 (`fusegen.testing.truth`). The backward
is a graph as well, so its rounding errors come from the same source: the forward is evaluated with
an error in each operation, what it hands to the backward is rounded as memory does, and the
backward is evaluated with errors of its own. Errors part what is tied in a kernel as well, as the
greatest of equal elements, and what only ties have is then not seen to err; so at a second look the
forward of some evaluations makes none. Whether that graph is the derivative at all is asked
apart, in float64 from end to end (`formula_bounds`). An output that nothing was made of has no
gradient, and adds nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from fusegen.ir.graph import Graph, Node, topological
from fusegen.passes.differentiation import Differentiated, Origin, without
from fusegen.testing.bounds import Bound, bound_of, precisions
from fusegen.testing.interpreter import Sizes, as_stored, exact, perturbed
from fusegen.testing.poles import Crossings, Unbounded, bounded
from fusegen.testing.rounding import Precision
from fusegen.testing.truth import Truth, true_gradients

# In float64 a formula may be off by this part of what float32's rounding errors make of it: units
# of roundoff differ by 2^29, and a wrong formula is off by far more.
FORMULA_FACTOR = 2.0**-16
FORMULA_SAMPLES = 2
# Nor is a wrong formula as near as this to the right one, relatively.
FORMULA_UNIT = 2.0**-36
# Or by this many times what float64's own rounding errors make of it: not in proportion to
# float32's where nothing but rounding errors is normalised.
FORMULA_SPREAD = 16.0
# Nor is there a derivative in what float64's least normal number becomes, times any of float32's:
# what is less underflows on the way in one order of operations and not in another.
FORMULA_LEAST = 2.0 ** (128 - 1022)
# Seeds of the backward's errors, apart from those of the forward's.
BACKWARD_SEEDS = 1000


def gradient_bounds(
    model: Graph,
    found: Differentiated,
    tensors: Sequence[Tensor],
    upstream: Sequence[Tensor | None],
    eager: Mapping[int, Tensor],
    sizes: Sizes,
    precision: Precision,
    looks: int = 1,
) -> dict[int, Bound]:
    """The bound for the gradient of each argument in `eager`, which has PyTorch's in the module's
    dtype by the arguments' positions; `upstream` are the gradients of all outputs, None for those
    that nothing was made of. There are `looks` times as many samples as usual."""
    found = for_used(found, upstream)
    truth = true_gradients(model, found.targets, tensors, upstream, sizes)

    kinds = precisions(found.forward, precision, looks)
    usual = len(precisions(found.forward, precision))
    crossings = Crossings(), Crossings()
    samples = []
    for seed, kind in enumerate(kinds):
        noted = crossings[0].noted(looks > 1), crossings[1].noted(looks > 1)
        samples.append(_perturbed(found, tensors, upstream, sizes, kind, seed, noted)[0])
    lost: dict[int, Tensor] = {}
    if looks > 1:
        crossing = crossings[0].without_bound(), crossings[1].without_bound()
        _, lost = _perturbed(found, tensors, upstream, sizes, precision, 0, crossing)
        samples[:0] = [
            _perturbed(found, tensors, upstream, sizes, kind, seed, with_ties=True)[0]
            for seed, kind in enumerate(kinds[:usual])
        ]
        usual *= 2
    limits = {}
    for target in found.targets:
        if target in eager:
            moved, name = [s[target] for s in samples], _name(found, target)
            limit = bound_of(name, truth[target].value, moved, eager[target], usual)
            limits[target] = replace(limit, lost=lost.get(target))
    return limits


def formula_bounds(
    model: Graph,
    found: Differentiated,
    rounding: Differentiated,
    tensors: Sequence[Tensor],
    upstream: Sequence[Tensor | None],
    sizes: Sizes,
    looks: int = 1,
) -> dict[int, tuple[Bound, Tensor]]:
    """For each gradient of a model in float64, the bound by PyTorch's autograd, and what the graph
    of the backward gives; `rounding` is the model in float32, which tells how errors spread. Which
    of NaN and the infinities comes out is a matter of the order of operations, and not asked."""
    found, rounding = for_used(found, upstream), for_used(rounding, upstream)
    truth = true_gradients(model, found.targets, tensors, upstream, sizes)
    modelled = _exactly(found, tensors, upstream, sizes)
    kinds = [(seed, False) for seed in range(FORMULA_SAMPLES * looks)]
    kinds += [(seed, True) for seed in range(FORMULA_SAMPLES * (looks - 1))]
    in_float32, in_float64 = (
        [
            _perturbed(
                graphs, tensors, upstream, sizes, Precision(unbounded=True), seed, with_ties=ties
            )[0]
            for seed, ties in kinds
        ]
        for graphs in (rounding, found)
    )
    limits = {}
    for target in found.targets:
        expected, value = truth[target].value, modelled[target]
        spreads = [FORMULA_FACTOR * _off(s[target], expected) for s in in_float32]
        # From the formula's own value: from the truth, a wrong formula would allow for itself.
        spreads += [FORMULA_SPREAD * _off(s[target], value) for s in in_float64]
        bound = _formula_bound(_name(found, target), expected, spreads)
        limits[target] = bound, _special_alike(value, truth[target])
    return limits


def _off(sample: Tensor, value: Tensor) -> Tensor:
    """How far a sample is from a value; anything where it is not finite: there is no telling how
    errors spread."""
    return torch.where(sample.isfinite(), (sample - value).abs(), torch.inf)


def _special_alike(value: Tensor, truth: Truth) -> Tensor:
    """A value with the truth's where neither it nor PyTorch's is finite."""
    return torch.where(value.isfinite() | truth.in_pytorch.isfinite(), value, truth.value)


def _formula_bound(name: str, truth: Tensor, spreads: Sequence[Tensor]) -> Bound:
    allowed = FORMULA_UNIT * truth.abs() + FORMULA_LEAST
    for spread in spreads:
        allowed = torch.maximum(allowed, spread)
    allowed = torch.where(truth.isfinite(), allowed, 0.0)
    return Bound(name, truth, allowed, truth, ())


def for_used(found: Differentiated, upstream: Sequence[Tensor | None]) -> Differentiated:
    """The one whose backward takes nothing of the gradients that are None."""
    absent = [i for i, gradient in enumerate(upstream) if gradient is None]
    return replace(found, backward=without(found, absent)) if absent else found


def taken(
    found: Differentiated,
    tensors: Sequence[Tensor],
    upstream: Sequence[Tensor | None],
    roots: Sequence[Tensor],
) -> list[Tensor]:
    """What the backward takes, in its order; `roots` are the forward's results, saved ones too."""
    tables: dict[Origin, Sequence[Tensor]] = {
        Origin.OUTPUT_GRADIENT: [
            torch.zeros_like(root) if gradient is None else gradient  # which is not read
            for root, gradient in zip(roots, upstream, strict=False)
        ],
        Origin.ARGUMENT: tensors,
        Origin.OUTPUT: roots,
        Origin.SAVED: roots[len(roots) - len(found.forward.saved) :],
    }
    return [tables[source.origin][source.index] for source in found.sources]


def _exactly(
    found: Differentiated,
    tensors: Sequence[Tensor],
    upstream: Sequence[Tensor | None],
    sizes: Sizes,
) -> dict[int, Tensor]:
    """The gradients that the two graphs stand for, by the arguments' positions; those of values of
    a narrower type are not rounded to it, as autograd through the float64 reference rounds none."""
    roots = exact(found.forward, tensors, sizes)
    given = taken(found, tensors, upstream, roots)
    made = exact(found.backward, given, sizes, unrounded=_gradients(found))
    return dict(zip(found.targets, made, strict=True))


def _gradients(found: Differentiated) -> set[Node]:
    """What the backward makes of incoming gradients."""
    made = {
        node
        for node, source in zip(found.backward.inputs, found.sources, strict=True)
        if source.origin is Origin.OUTPUT_GRADIENT
    }
    for node in topological(found.backward.roots):
        if any(operand in made for operand in node.operands):
            made.add(node)
    return made


def _perturbed(
    found: Differentiated,
    tensors: Sequence[Tensor],
    upstream: Sequence[Tensor | None],
    sizes: Sizes,
    precision: Precision,
    seed: int,
    unbounded: tuple[Unbounded, Unbounded] = (bounded, bounded),
    with_ties: bool = False,
) -> tuple[dict[int, Tensor], dict[int, Tensor]]:
    """The gradients as kernels may compute them, and which elements of each may be anything, by the
    arguments' positions; `unbounded` are the forward's quotients and the backward's that are. The
    forward makes no errors where it is to keep the ties that it has."""
    forward, backward = unbounded
    if with_ties:
        roots = exact(found.forward, tensors, sizes)
        lost = tuple(torch.zeros_like(root, dtype=torch.bool) for root in roots)
    else:
        roots, lost = perturbed(found.forward, tensors, sizes, precision, seed, unbounded=forward)
    stored = [as_stored(r, node) for r, node in zip(roots, found.forward.roots, strict=True)]
    given = taken(found, tensors, upstream, roots if precision.unbounded else stored)
    nothing = [torch.zeros_like(tensor, dtype=torch.bool) for tensor in tensors]
    none = [None if g is None else torch.zeros_like(g, dtype=torch.bool) for g in upstream]
    seed += BACKWARD_SEEDS
    handed = taken(found, nothing, none, lost)
    made, lost = perturbed(found.backward, given, sizes, precision, seed, handed, backward)
    targets = found.targets
    return dict(zip(targets, made, strict=True)), dict(zip(targets, lost, strict=True))


def _name(found: Differentiated, target: int) -> str:
    return found.backward.outputs[found.targets.index(target)].name.replace("_", " ", 2)
