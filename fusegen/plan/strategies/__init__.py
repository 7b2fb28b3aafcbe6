"""The ways to make kernels of a group of operations, in order of priority."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fusegen.plan.evaluate import NotInKernel
from fusegen.plan.group import Context, Group, NotApplicable
from fusegen.plan.kernels.module import Step
from fusegen.plan.strategies import (
    attention,
    back_to_back,
    column_sums,
    convolution,
    elementwise,
    empty,
    library,
    piece_sums,
    product,
    rows,
)


@dataclass(frozen=True)
class Strategy:
    """A named way to plan a group: `plan` gives the steps, in order, or raises `NotApplicable`."""

    name: str
    plan: Callable[[Group, Context], tuple[Step, ...]]


STRATEGIES = (
    Strategy("nothing to compute", empty.plan),
    Strategy("library call", library.plan),
    Strategy("convolution with elementwise epilogue", convolution.plan_elements),
    Strategy("convolution with statistics of channels", convolution.plan_statistics),
    Strategy("product with elementwise epilogue", product.plan_elements),
    Strategy("product with groups inside the tile", product.plan_groups),
    Strategy("product with partial row reductions", product.plan_partials),
    Strategy("attention without stored scores", attention.plan),
    Strategy("products of what is made of products", back_to_back.plan),
    Strategy("elementwise", elementwise.plan),
    Strategy("rows in one kernel", rows.plan),
    Strategy("rows in one kernel, variances in one pass", rows.plan_one_pass),
    Strategy("rows split across blocks", rows.plan_split),
    Strategy("rows with sums over rows", column_sums.plan),
    Strategy("rows with sums over their pieces", piece_sums.plan),
)


@dataclass(frozen=True)
class Verdict:
    """What the strategies say of a group: the best one's steps (none if none applies), and why
    the others do not do it."""

    steps: tuple[Step, ...]
    strategy: str
    seconds: float
    refusals: tuple[tuple[str, str], ...]


def judge(group: Group, context: Context) -> Verdict:
    """The cheapest plan of a group by the device's rates; of equals, the first in the table."""
    best: Verdict | None = None
    refusals: list[tuple[str, str]] = []
    for strategy in STRATEGIES:
        try:
            steps = strategy.plan(group, context)
        except (NotApplicable, NotInKernel) as refusal:
            refusals.append((strategy.name, str(refusal)))
            continue
        seconds = sum(step.cost.estimate(context.device) for step in steps)
        if best is None or seconds < best.seconds:
            best = Verdict(steps, strategy.name, seconds, ())
    if best is None:
        return Verdict((), "", float("inf"), tuple(refusals))
    return Verdict(best.steps, best.strategy, best.seconds, tuple(refusals))
