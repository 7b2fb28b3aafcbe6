"""Which forms a matrix product has, for the plan's reader."""

from __future__ import annotations

from fusegen.plan.kernels.product import ProductPlan


def forms_of(plan: ProductPlan) -> tuple[str, ...]:
    """When the launcher takes which form, in the order in which it asks, as clauses."""
    forms = []
    if plan.narrow is not None and plan.tensor_cores is not None:
        forms.append(
            f"Hopper's tensor cores on tiles of {plan.narrow.rows} x {plan.narrow.columns} where "
            f"those of {plan.tensor_cores.columns} columns would leave half of the device idle"
        )
    if plan.skinny is not None:
        forms.append(
            f"at most {max(plan.skinny.rows)} rows read the right operand once, "
            f"{plan.skinny.columns} columns a block"
        )
    if plan.tensor_cores is not None:
        forms.append(
            f"Hopper's tensor cores on tiles of {plan.tensor_cores.rows} x "
            f"{plan.tensor_cores.columns}"
        )
        wide = plan.tensor_cores.split.wide if plan.tensor_cores.split else None
        if wide is not None:
            forms.append(
                f"where float16 parts lack range three bfloat16 parts of each element, on tiles of "
                f"{wide.rows} x {wide.columns}"
            )
    if plan.mma is not None:
        forms.append(f"other tensor cores on tiles of {plan.mma.rows} x {plan.mma.columns}")
    what = "otherwise " if forms else ""
    return (*forms, f"{what}a shared-memory tile of {plan.tile.rows} x {plan.tile.columns}")
