"""Which steps of a plan are needed for which of its results."""

from __future__ import annotations

from fusegen.plan.boundaries import covered
from fusegen.plan.kernels.module import ModulePlan
from fusegen.plan.module import base
from fusegen.plan.partition import Dependencies


def needed_for(plan: ModulePlan) -> tuple[frozenset[int], ...]:
    """For each step, the positions in `plan.results` of the results that depend on it: a step none
    of whose results is wanted can be left out, such as the product for a frozen weight's gradient.
    """
    producers = Dependencies.of(plan.graph).producers
    made_by = [base(root) for root in plan.graph.roots]
    covers = [set(covered(step)) for step in plan.steps]
    reads = [{p for node in nodes for p in producers[node]} - nodes for nodes in covers]
    needed: list[frozenset[int]] = []
    for step in reversed(range(len(covers))):
        own = {i for i, node in enumerate(made_by) if node in covers[step]}
        later = zip(range(len(covers) - 1, step, -1), needed, strict=True)
        for reader, results in later:
            # Steps of one group compute the same; some of what others share is computed in both.
            if covers[reader] == covers[step] or reads[reader] & covers[step]:
                own |= results
        needed.append(frozenset(own))
    return tuple(reversed(needed))
