"""Which forms kernels have that multiply twice, for the plan's reader."""

from __future__ import annotations

from fusegen.plan.kernels.attention import AttentionPlan
from fusegen.plan.kernels.back_to_back import BackToBackPlan


def row_tile_forms(plan: AttentionPlan | BackToBackPlan) -> tuple[str, ...]:
    """When the launcher takes which form, in the order in which it asks, as clauses."""
    by_warpgroups, by_warps = _tiles(plan)
    if not plan.has_matrices:
        return (f"the tensor cores on {by_warps}, of operands read element by element",)
    return (
        f"Hopper's tensor cores on {by_warpgroups}",
        f"other tensor cores on {by_warps}",
        "the same of operands read element by element, if these lie otherwise",
    )


def _tiles(plan: AttentionPlan | BackToBackPlan) -> tuple[str, str]:
    """The tiles of a block by warpgroups, and by warps."""
    if isinstance(plan, AttentionPlan):
        warpgroup, warp = plan.warpgroup_tile, plan.warp_tile
        return _shown(warpgroup.rows, warpgroup.keys, "keys"), _shown(warp.rows, warp.keys, "keys")
    what = "columns of the first products"
    own, other = plan.warpgroup_tile, plan.warp_tile
    return _shown(own.rows, own.middles, what), _shown(other.rows, other.middles, what)


def _shown(rows: int, columns: int, what: str) -> str:
    return f"tiles of {rows} rows and {columns} {what}"
