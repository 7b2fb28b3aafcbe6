"""Which forms a matrix product has, for the plan's reader."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fusegen.plan.cost import SizeHints
from fusegen.plan.kernels.module import ModulePlan
from fusegen.plan.kernels.product import ProductPlan
from fusegen.plan.kernels.product_forms import TileKind


@dataclass(frozen=True)
class TunedLaunch:
    """A product, by its kernel's name, that runs on the tiles that were tuned for its `rows`."""

    kernel: str
    rows: int
    kind: TileKind

    def __str__(self) -> str:
        tiles = f"tiles of {shown_columns(self.kind)}"
        return f"{self.kernel}: {self.rows} rows on {tiles} columns, as tuned on this card"


def tuned_launches(plan: ModulePlan, sizes: SizeHints) -> Iterator[TunedLaunch]:
    """The products of a plan that at these sizes run on tiles that `fusegen tune` chose."""
    for step in plan.steps:
        if isinstance(step, ProductPlan):
            rows = sizes.value(step.axes.rows)
            if step.skinny and step.skinny_first and rows <= max(step.skinny.rows):
                continue
            for tuned in step.tuned:
                if tuned.least <= rows <= tuned.most:
                    yield TunedLaunch(step.name, rows, tuned.kind)


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
    found = [f"{shown_columns(r.kind)} for {r.least} to {r.most}" for r in plan.tuned]
    return f"as tuned on this card for some numbers of rows ({', '.join(found)}), else "


def shown_columns(kind: TileKind) -> str:
    """How many columns tiles of a kind have, and how many parts of K if there are several."""
    if kind.is_shared:
        return f"{kind.columns} (K shared through memory)"
    return f"{kind.columns}{f' (K in {kind.parts} parts)' if kind.parts > 1 else ''}"


def _tensor_cores(plan: ProductPlan) -> tuple[str, ...]:
    cores = plan.tensor_cores
    if cores is None:
        return ()
    if plan.alternatives and not cores.split:
        *others, last = [shown_columns(form.kind) for form in (cores, *plan.alternatives)]
        return (
            f"Hopper's tensor cores on tiles of {cores.rows} rows and {', '.join(others)} or "
            f"{last} columns, {_tuned(plan)}whichever are done first, with a block for each "
            "multiprocessor at a time",
        )
    tiles = f"Hopper's tensor cores on tiles of {cores.rows} x {shown_columns(cores.kind)}"
    if plan.alternatives:
        tiles = f"{tiles}, whose K blocks share through memory where tiles are few"
    wide = cores.split.wide if cores.split else None
    if wide is None:
        return (tiles,)
    return (
        tiles,
        f"where float16 parts lack range three bfloat16 parts of each element, on tiles of "
        f"{wide.rows} x {wide.columns}",
    )
