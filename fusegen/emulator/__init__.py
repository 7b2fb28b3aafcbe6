"""The emulator: the same kernel text compiled by g++ and run on the CPU, one fiber a CUDA thread.

A kernel library built with `compile_flags` needs the runtime library, built once from
`runtime_sources` with `runtime_compile_flags` and loaded by `load_runtime` before any kernel
library. With `check`, every memory access of a kernel is watched for races, bounds and
uninitialised reads.
"""

from fusegen.emulator.build import (
    compile_flags,
    link_flags,
    runtime_compile_flags,
    runtime_link_flags,
    runtime_sources,
    source_folder,
)
from fusegen.emulator.library import EmulatorRuntime, load_runtime

__all__ = [
    "EmulatorRuntime",
    "compile_flags",
    "link_flags",
    "load_runtime",
    "runtime_compile_flags",
    "runtime_link_flags",
    "runtime_sources",
    "source_folder",
]
