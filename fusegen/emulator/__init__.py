"""The emulator: the same kernel text compiled by g++ and run on the CPU, one fiber a CUDA thread.

A kernel library built with `compile_flags` needs the runtime library, built once from
`runtime_sources` with `runtime_compile_flags` and loaded by `load_runtime` before any kernel
library. The asynchronous parts of compute capability 9.0 (barriers in shared memory, bulk copies,
wgmma, clusters) and of 8.0 (cp.async, mma.sync) run through the wrappers of `fusegen/hopper.cuh`
and `fusegen/mma.cuh`; what runs by itself completes as late as can be under seed 0, and at moments
drawn from any other seed. With `check`, every memory access of a kernel is watched for races,
bounds and uninitialised reads.
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
