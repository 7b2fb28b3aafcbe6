"""Faults planted in test kernels, which the checker must report whatever the order of threads."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from fusegen.emulator import EmulatorRuntime
from tests.emulator.kernel_library import Kernel, LoadKernel, fault_places

SEEDS = range(10)


def assert_found_under_every_seed(
    runtime: EmulatorRuntime,
    load_kernel: LoadKernel,
    name: str,
    fault: str,
    says: str,
    launch: Callable[[Kernel], str | None],
    seeds: Iterable[int] = SEEDS,
) -> None:
    """Build the kernel with the fault; each launch's report must match `says` and name its line."""
    kernel = load_kernel(name, fault, check=True)
    for seed in seeds:
        runtime.forget_all()
        runtime.configure(seed, check=True)
        report = launch(kernel)
        assert report is not None
        assert re.search(says, report), report
        assert any(place in report for place in fault_places(name, fault)), report
        assert runtime.error_text() == report
