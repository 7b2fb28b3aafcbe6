"""Bare matrix products against the library's."""

from __future__ import annotations

import functools

from torch import nn

from benchmarks.case import Case
from benchmarks.suites.programs import maker

# Rows, columns and depth.
SIZES = ((1024, 8192, 8192), (4096, 4096, 4096), (8192, 8192, 8192), (16384, 4096, 4096))

PROGRAM = """\
model Product(depth, columns):
    input x: [rows, depth]
    linear = Linear(depth, columns, bias=False)
    return linear(x)
"""


class Product(nn.Module):
    """x @ weight.T"""

    def __init__(self, depth: int, columns: int) -> None:
        super().__init__()
        self.linear = nn.Linear(depth, columns, bias=False)
        self.forward = self.linear.forward


def cases() -> list[Case]:
    """A case for each size."""
    return [
        Case(
            "products",
            f"{rows}x{columns}x{depth}",
            functools.partial(Product, depth, columns),
            maker(PROGRAM, depth=depth, columns=columns),
            (rows, depth),
            2 * rows * columns * depth,
        )
        for rows, columns, depth in SIZES
    ]
