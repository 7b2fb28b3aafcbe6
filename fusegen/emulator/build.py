"""What a builder needs to compile the emulator's runtime and kernels for it: sources and flags."""

from __future__ import annotations

import functools
import platform
from pathlib import Path

# The instruction sets that make up x86-64-v3, as /proc/cpuinfo names them (System V ABI, x86-64,
# table of micro-architecture levels; `abm` there is LZCNT).
_X86_64_V3_FEATURES = frozenset(
    {"abm", "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe", "xsave"}
)


def source_folder() -> Path:
    """The folder of the emulator's C++ sources; its `include` folder holds the kernels' shim."""
    return Path(__file__).resolve().parent / "cpp"


def runtime_sources() -> tuple[Path, ...]:
    """The C++ files of the runtime library, to be compiled together, in a stable order."""
    return tuple(sorted(source_folder().glob("*/*.cpp")))


@functools.cache
def _machine_flags() -> tuple[str, ...]:
    """The flags that let g++ use fused multiply-adds where the processor has them.

    Not -march=native: a library built on one machine must run on another of the same family.
    """
    if platform.machine() not in ("x86_64", "AMD64"):
        return ()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return ()
    features = next((line for line in lines if line.startswith("flags")), "").split()
    return ("-march=x86-64-v3",) if _X86_64_V3_FEATURES.issubset(features) else ()


def compile_flags(check: bool) -> tuple[str, ...]:
    """Flags for g++ to compile one generated `.cu` to an object file (`g++ FLAGS -c k.cu -o k.o`).

    With `check` the object calls the checker at every memory access. Such an object must be linked
    without any -fsanitize flag: the emulator's runtime library answers those calls, not libtsan.
    The folder that holds `fusegen/device.cuh` must be added with -I.
    """
    flags = (
        "-x",
        "c++",
        "-std=c++17",
        # As quick as -O2 at run time here, where fibers and the checker take the time, and
        # compiled in less than half of it.
        "-Og",
        *_machine_flags(),
        "-DFUSEGEN_EMULATE",
        f"-I{source_folder() / 'include'}",
        "-fPIC",
        # Line tables only: the checker's reports name the kernel's lines.
        "-g1",
        # Kernel libraries hold helpers of the same names; each must keep to its own.
        "-fvisibility=hidden",
        "-fno-gnu-unique",
        # CUDA's math functions set no errno, and its kernels view memory through vector types.
        "-fno-math-errno",
        "-fno-strict-aliasing",
        "-Wall",
        "-Wextra",
        "-Wno-unknown-pragmas",  # #pragma unroll
        # Rows kept in registers are filled and read under the same condition, which g++ misses.
        "-Wno-maybe-uninitialized",
        "-Wno-uninitialized",
    )
    if not check:
        return flags
    return (*flags, "-fsanitize=thread", "--param", "tsan-instrument-func-entry-exit=0")


def link_flags() -> tuple[str, ...]:
    """Flags for g++ to link a kernel library (`g++ FLAGS k.o -o k.so`).

    The library's references to the emulator are resolved when it is loaded, so `load_runtime` must
    come first.
    """
    return ("-shared",)


def runtime_compile_flags() -> tuple[str, ...]:
    """Flags for g++ to compile one runtime source (`g++ FLAGS -c barrier.cpp -o barrier.o`)."""
    return ("-std=c++20", "-O3", "-g1", "-fPIC", "-pthread", "-Wall", "-Wextra")


def runtime_link_flags() -> tuple[str, ...]:
    """Flags for g++ to link the runtime library (`g++ OBJECTS FLAGS -o runtime.so`)."""
    return ("-shared", "-pthread", "-ldl")
