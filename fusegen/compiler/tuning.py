"""The stage that finds the quickest tiles for a model's products: what to time, and what follows.

How candidates are timed is the caller's, so that all else runs without a GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fusegen.compiler.device import device_here
from fusegen.compiler.loading import blueprint
from fusegen.compiler.sizes import check_sizes
from fusegen.compiler.specialisation import Specialisation
from fusegen.compiler.variant import decomposed
from fusegen.errors import FusegenError
from fusegen.ir.dtypes import DType
from fusegen.ir.graph import Graph
from fusegen.ir.integers import Integer
from fusegen.plan.cost import SizeHints
from fusegen.plan.kernels.product import ProductPlan
from fusegen.plan.kernels.product_forms import TileKind
from fusegen.plan.module import plan_module
from fusegen.plan.precision import Precision
from fusegen.plan.preferences import BUCKETS, Preferences, ProductShape, TunedTile, bucket_of
from fusegen.plan.tensor_cores import PARTS, STAGES
from fusegen.runtime.generated_module import Blueprint
from fusegen.runtime.request import Target

Times = Mapping[TileKind, Mapping[str, float]]
"""By the kind of its tiles and by its name, what a product's kernel takes in microseconds; one that
did not run on such tiles is left out."""

Timing = Callable[[Mapping[TileKind, Blueprint], Graph, Mapping[str, int]], Times]
"""Times the modules that have their products on one kind of tiles alone, for these sizes."""


@dataclass(frozen=True)
class TunedProduct:
    """A product of the plan, by its kernel's name, with so many rows: what it takes on each
    kind of tiles, in microseconds, and what is remembered for such numbers of rows."""

    kernel: str
    rows: int
    times: tuple[tuple[TileKind, float], ...]
    choice: TunedTile


@dataclass(frozen=True)
class TunedModel:
    """What was found on a card."""

    card: str
    products: tuple[TunedProduct, ...]

    def as_json(self) -> dict[str, Any]:
        """`card`, and `products` with kernel, rows, tiles with columns, parts of K and
        microseconds, and of the choice the most rows that it is for, its columns and its parts."""
        return {
            "card": self.card,
            "products": [
                {
                    "kernel": found.kernel,
                    "rows": found.rows,
                    "tiles": [
                        {"columns": kind.columns, "parts": kind.parts, "time_us": time}
                        for kind, time in found.times
                    ],
                    "most_rows": found.choice.most_rows,
                    "tile_columns": found.choice.kind.columns,
                    "tile_parts": found.choice.kind.parts,
                }
                for found in self.products
            ],
        }

    def as_text(self) -> str:
        """A line for each product and number of rows."""
        lines = [f"{self.card}; microseconds on tiles of so many columns (by parts of K):"]
        for found in self.products:
            times = ", ".join(f"{_shown(kind)}: {time:.1f}" for kind, time in found.times)
            choice = found.choice
            lines.append(
                f"  {found.kernel}, {found.rows} rows: {times}; "
                f"{_shown(choice.kind)} for up to {choice.most_rows} rows"
            )
        return "\n".join(lines)


def _shown(kind: TileKind) -> str:
    return str(kind.columns) if kind.parts == 1 else f"{kind.columns} by {kind.parts}"


@dataclass(frozen=True)
class _Product:
    kernel: str
    shape: ProductShape
    rows: Integer


def tune_model(
    chosen: Specialisation,
    card: str,
    timing: Timing,
    *,
    sizes: Mapping[str, int],
    dtype: DType,
    precision: Precision,
) -> TunedModel:
    """Time the products of a model in evaluation on all tiles that they can run on.

    `sizes` are symbolic sizes; of those that a product's rows depend on, the first that is not
    given takes values for each bucket of rows, and all others the planner's guesses. Raises
    FusegenError where no product has tiles to choose among, or ran on any.
    """
    graph = chosen.graph(dtype, training=False)
    check_sizes(graph, sizes)
    prepared = decomposed(chosen, dtype, training=False)

    def products(preferences: Preferences) -> dict[str, _Product]:
        plan = plan_module(
            prepared, dtype, device=device_here(), precision=precision, preferences=preferences
        )
        return {
            found.kernel: found
            for step in plan.steps
            if isinstance(step, ProductPlan) and (found := _product(step, preferences.only))
        }

    kinds = [TileKind(columns, parts) for columns in STAGES for parts in (1, *PARTS[columns])]
    by_kind = {kind: products(Preferences(only=kind)) for kind in kinds}
    by_kind = {kind: found for kind, found in by_kind.items() if found}
    known = {name: product for found in by_kind.values() for name, product in found.items()}
    choices = [name for name in known if sum(name in found for found in by_kind.values()) > 1]
    if not choices:
        raise FusegenError(
            f"no product of model '{chosen.name}' has tiles to choose among in {dtype.value}",
            "there are several for products with constant columns and depth on Hopper's tensor "
            "cores: with --dtype bfloat16 or float16, or with --precision high",
        )
    candidates = {
        kind: blueprint(chosen, Target.CUDA, preferences=Preferences(only=kind)) for kind in by_kind
    }
    tuned: dict[tuple[ProductShape, int], TunedProduct] = {}
    for case in _cases(graph, [known[name] for name in choices], sizes):
        times = timing(candidates, graph, case)
        for name in choices:
            rows = known[name].rows.evaluate(case)
            bucket = bucket_of(rows)
            found = tuple(
                (kind, times[kind][name])
                for kind in by_kind
                if name in by_kind[kind] and name in times.get(kind, {})
            )
            if bucket is None or len(found) < 2:
                continue
            quickest = min(found, key=lambda item: item[1])[0]
            choice = TunedTile(known[name].shape, bucket, quickest)
            tuned.setdefault((choice.shape, bucket), TunedProduct(name, rows, found, choice))
    if not tuned:
        raise FusegenError(
            f"no product of model '{chosen.name}' ran on tiles to choose among on this card",
            f"that takes a card of compute capability 9.0, and {BUCKETS[-1]} rows at most",
        )
    return TunedModel(card, tuple(tuned.values()))


def _product(step: ProductPlan, only: TileKind | None) -> _Product | None:
    """A product that runs on this kind of tiles `only`, if it does."""
    cores = step.tensor_cores
    if cores is None or cores.kind != only:
        return None
    shape = ProductShape.of(cores, step.axes)
    return None if shape is None else _Product(step.name, shape, step.axes.rows)


def _cases(graph: Graph, products: list[_Product], given: Mapping[str, int]) -> Iterator[SizeHints]:
    """The sizes to time: those given alone where they fix all rows, else one case for each bucket
    of the first product whose rows are open."""
    hints = SizeHints.of(graph, given)
    names = {name for product in products for name in _names(product.rows)}
    free = next((name for name in sorted(names) if name not in given), None)
    if free is None:
        yield hints
        return
    seen = set()
    for most in BUCKETS:
        value = _greatest(graph, products, given, free, most)
        if value not in seen and value > 0:
            seen.add(value)
            yield SizeHints.of(graph, {**given, free: value})


def _names(size: Integer) -> Iterator[str]:
    """The sizes that a size is made of."""
    for symbol in size.symbols():
        yield from [symbol.name] if symbol.definition is None else _names(symbol.definition)


def _greatest(
    graph: Graph, products: list[_Product], given: Mapping[str, int], free: str, most: int
) -> int:
    """The greatest value of a size with which no product has more than so many rows."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        hints = SizeHints.of(graph, {**given, free: middle})
        if max(product.rows.evaluate(hints) for product in products) <= most:
            low = middle
        else:
            high = middle - 1
    return low
