"""How emulated kernels run: the order of their threads, and whether accesses are checked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from fusegen.runtime.loader import emulator_runtime


@contextmanager
def emulation(seed: int = 0, check: bool = False) -> Iterator[None]:
    """Within the block, run threads and blocks in the order drawn from `seed` (0 is the plain
    order), and with `check` refuse races, accesses out of bounds and reads of what nobody wrote.

    Only kernels loaded with `check=True` are checked. Holds for the whole process.
    """
    runtime = emulator_runtime()
    runtime.configure(seed, check)
    try:
        yield
    finally:
        runtime.configure()
