"""Blocks in which one warpgroup brings tiles to shared memory while the others multiply."""

from __future__ import annotations

from dataclasses import dataclass

from fusegen.plan.kernels.base import WARP

# A warpgroup's warps.
WARPGROUP = 4
# The registers of a multiprocessor, of which threads get whole eights, 240 with `setmaxnreg` (CUDA
# programming guide, compute capability 9.0; PTX ISA).
REGISTERS = 65536
STEP = 8
MOST_REGISTERS = 240
# What one needs at least that brings tiles.
LOADER_REGISTERS = 32


@dataclass(frozen=True)
class Loader:
    """The warpgroup that brings tiles: how many registers each of its threads keeps, and how many
    those of the others have then."""

    registers: int
    others: int


def loader(warps: int, blocks: int) -> Loader:
    """The loader of so many multiplying warps, where so many blocks share a multiprocessor."""
    warpgroups = warps // WARPGROUP
    threads = (warpgroups + 1) * WARPGROUP * WARP
    each = min(REGISTERS // (threads * blocks) // STEP * STEP, MOST_REGISTERS)
    total = each * (warpgroups + 1)
    others = min((total - LOADER_REGISTERS) // warpgroups // STEP * STEP, MOST_REGISTERS)
    return Loader(total - warpgroups * others, others)
