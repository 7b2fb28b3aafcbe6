"""A measurement for people and programs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.table import Table

from fusegen.compiler.explanation import TEXT_WIDTH, scaled

if TYPE_CHECKING:
    from fusegen.compiler.product_forms import TunedLaunch
    from fusegen.runtime.comparison import Comparison
    from fusegen.runtime.measurement import Measurement


@dataclass(frozen=True)
class MeasuredModel:
    """How long a model's kernels take, whether they are right, and which of them ran on tiles that
    `fusegen tune` chose."""

    measurement: Measurement
    comparison: Comparison
    tuned: tuple[TunedLaunch, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """`kernels` with name, time, bytes, operations and floor, the `library`'s time, the
        `totals` of all candidates (all times in microseconds), the products that are `tuned`, with
        kernel, rows, columns of tiles and parts of K, and the `comparison`."""
        found = self.measurement
        return {
            "card": found.card,
            "dtype": found.dtype,
            "bandwidth_bytes_per_s": found.bandwidth,
            "kernels": [
                {
                    "name": kernel.name,
                    "time_us": kernel.time,
                    "bytes": kernel.bytes,
                    "operations": kernel.operations,
                    "floor_us": kernel.floor,
                    "of_floor": kernel.of_floor,
                }
                for kernel in found.kernels
            ],
            "library_us": found.library,
            "totals_us": found.totals,
            "refused": found.refused,
            "tuned": [
                {
                    "kernel": launch.kernel,
                    "rows": launch.rows,
                    "tile_columns": launch.kind.columns,
                    "tile_parts": launch.kind.parts,
                }
                for launch in self.tuned
            ],
            "comparison": self.comparison.as_json(),
        }

    def as_text(self) -> str:
        """The kernels' table, what of it is tuned, the candidates' table, and the errors."""
        found = self.measurement
        console = Console(width=TEXT_WIDTH, color_system=None)
        with console.capture() as capture:
            console.print(
                f"{found.card}, {found.dtype}, a copy runs at {found.bandwidth / 1e12:.2f} TB/s",
                highlight=False,
            )
            console.print(self._kernels())
            for launch in self.tuned:
                console.print(str(launch), highlight=False, markup=False)
            console.print(self._totals())
            for name, why in found.refused.items():
                console.print(f"{name} is left out: {why}", highlight=False, markup=False)
            console.print(self.comparison.as_text(), highlight=False, markup=False)
        return capture.get().strip("\n")

    def _kernels(self) -> Table:
        table = Table("kernel", "time", "bytes", "operations", "floor", "of floor", box=box.SIMPLE)
        for kernel in self.measurement.kernels:
            share = kernel.of_floor
            table.add_row(
                kernel.name,
                _microseconds(kernel.time, "not seen"),
                "" if kernel.bytes is None else scaled(kernel.bytes, "B"),
                "" if kernel.operations is None else scaled(kernel.operations, ""),
                _microseconds(kernel.floor, ""),
                "" if share is None else f"{share:.0%}",
            )
        if self.measurement.library:
            table.add_row("library calls", f"{self.measurement.library:.2f} µs")
        return table

    def _totals(self) -> Table:
        table = Table("a call", "time", "against fusegen", box=box.SIMPLE)
        totals = self.measurement.totals
        for name, time in totals.items():
            table.add_row(name, f"{time:.2f} µs", f"{time / totals['fusegen']:.2f}x")
        return table


def _microseconds(time: float | None, otherwise: str) -> str:
    return otherwise if time is None else f"{time:.2f} µs"
