"""Which forms a matrix product has, for the plan's reader."""

from __future__ import annotations

from fusegen.plan.kernels.product import ProductPlan


def forms_of(plan: ProductPlan) -> tuple[str, ...]:
    """When the launcher takes which form, in the order in which it asks, as clauses."""
    tiles = _tensor_cores(plan)
    rows = _few_rows(plan)
    forms = [*rows, *tiles] if plan.skinny_first else [*tiles, *rows]
    if plan.mma is not None:
        forms.append(f"other tensor cores on tiles of {plan.mma.rows} x {plan.mma.columns}")
    what = "otherwise " if forms else ""
    return (*forms, f"{what}a shared-memory tile of {plan.tile.rows} x {plan.tile.columns}")


def _few_rows(plan: ProductPlan) -> tuple[str, ...]:
    if plan.skinny is None:
        return ()
    return (
        f"at most {max(plan.skinny.rows)} rows read the right operand once, "
        f"{plan.skinny.columns} columns a block",
    )


def _tuned(plan: ProductPlan) -> str:
    """What `fusegen tune` found on this card, as part of a clause that goes on."""
    if not plan.tuned:
        return ""
    found = [f"{rows.columns} columns for {rows.least} to {rows.most}" for rows in plan.tuned]
    return f"as tuned on this card for some numbers of rows ({', '.join(found)}), else "


def _tensor_cores(plan: ProductPlan) -> tuple[str, ...]:
    cores = plan.tensor_cores
    if cores is None:
        return ()
    *others, last = [f"{form.rows} x {form.columns}" for form in (cores, *plan.narrower)]
    tiles = f"Hopper's tensor cores on tiles of {', '.join(others)}{' or ' if others else ''}{last}"
    if others:
        which = "whichever are done first, with one for each multiprocessor at a time"
        return (f"{tiles}, {_tuned(plan)}{which}",)
    wide = cores.split.wide if cores.split else None
    if wide is None:
        return (tiles,)
    return (
        tiles,
        f"where float16 parts lack range three bfloat16 parts of each element, on tiles of "
        f"{wide.rows} x {wide.columns}",
    )
