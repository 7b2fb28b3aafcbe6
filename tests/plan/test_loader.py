"""How many registers threads have where one warpgroup brings tiles for the others. The emulator
reckons with one block a multiprocessor, so where there are two only this test counts them."""

from __future__ import annotations

import pytest

from fusegen.plan.kernels.loader import (
    LOADER_REGISTERS,
    MOST_REGISTERS,
    REGISTERS,
    STEP,
    WARPGROUP,
    Loader,
    loader,
)


@pytest.mark.parametrize(
    ("warps", "blocks", "expected"),
    [(8, 2, Loader(32, 104)), (8, 1, Loader(40, 232)), (4, 2, Loader(32, 224))],
)
def test_registers_of_the_tiles_that_are_planned(warps: int, blocks: int, expected: Loader) -> None:
    assert loader(warps, blocks) == expected


@pytest.mark.parametrize("blocks", [1, 2, 3])
@pytest.mark.parametrize("warps", [4, 8, 12])
def test_all_registers_fit_and_none_is_given_that_was_not_there(warps: int, blocks: int) -> None:
    """What a block has is what it is launched with: whole eights for each thread."""
    made = loader(warps, blocks)
    threads = (warps + WARPGROUP) * 32
    launched_with = min(REGISTERS // (threads * blocks) // STEP * STEP, MOST_REGISTERS)
    assert made.registers % STEP == made.others % STEP == 0
    assert made.registers >= LOADER_REGISTERS
    assert launched_with <= made.others <= MOST_REGISTERS
    assert 128 * made.registers + 32 * warps * made.others <= threads * launched_with
