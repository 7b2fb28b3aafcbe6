"""Which forms a matrix product has, for the plan's reader."""

from __future__ import annotations

from fusegen.plan.kernels.product import ProductPlan
from fusegen.plan.kernels.product_forms import WgmmaForm


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
    forms = {form.kind: form for form in (plan.tensor_cores, *plan.narrower) if form is not None}
    found = [f"{_columns(forms[r.kind])} for {r.least} to {r.most}" for r in plan.tuned]
    return f"as tuned on this card for some numbers of rows ({', '.join(found)}), else "


def _columns(form: WgmmaForm) -> str:
    return f"{form.columns}{f' (K in {form.parts} parts)' if form.parts > 1 else ''}"


def _tensor_cores(plan: ProductPlan) -> tuple[str, ...]:
    cores = plan.tensor_cores
    if cores is None:
        return ()
    if plan.narrower:
        *others, last = [_columns(form) for form in (cores, *plan.narrower)]
        return (
            f"Hopper's tensor cores on tiles of {cores.rows} rows and {', '.join(others)} or "
            f"{last} columns, {_tuned(plan)}whichever are done first, with a block for each "
            "multiprocessor at a time",
        )
    tiles = f"Hopper's tensor cores on tiles of {cores.rows} x {_columns(cores)}"
    wide = cores.split.wide if cores.split else None
    if wide is None:
        return (tiles,)
    return (
        tiles,
        f"where float16 parts lack range three bfloat16 parts of each element, on tiles of "
        f"{wide.rows} x {wide.columns}",
    )
