"""The suites: lists of cases."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.case import Case
from benchmarks.suites import chains, convolutions, memory, overhead, products, transformers

SUITES: dict[str, Callable[[], list[Case]]] = {
    "chains": chains.cases,
    "products": products.cases,
    "memory": memory.cases,
    "overhead": overhead.cases,
    "transformers": transformers.cases,
    "convolutions": convolutions.cases,
}
