"""Which forms attention has, for the plan's reader."""

from __future__ import annotations

from fusegen.plan.kernels.attention import AttentionPlan, AttentionTile


def attention_forms(plan: AttentionPlan) -> tuple[str, ...]:
    """When the launcher takes which form, in the order in which it asks, as clauses."""
    by_warps = f"tiles of {_shown(plan.warp_tile)}"
    if plan.views is None:
        return (f"the tensor cores on {by_warps}, of operands read element by element",)
    return (
        f"Hopper's tensor cores on tiles of {_shown(plan.warpgroup_tile)}",
        f"other tensor cores on {by_warps}",
        "the same of operands read element by element, if these lie otherwise",
    )


def _shown(tile: AttentionTile) -> str:
    return f"{tile.rows} rows and {tile.keys} keys"
