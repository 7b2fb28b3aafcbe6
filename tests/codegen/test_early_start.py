"""Every kernel waits for those before it on the stream before it touches memory (early_start.cuh):
in its text, in the machine code that nvcc makes of it, and only such a kernel is launched early."""

from __future__ import annotations

import re
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from fusegen.compiler.specialisation import Specialisation
from fusegen.compiler.variant import make_variant, variant_keys
from fusegen.frontend import Source
from fusegen.ir.dtypes import DType
from fusegen.runtime.toolchain import find_nvcc
from tests.codegen.golden_graphs import GOLDENS
from tests.emulated import compile_quietly, joined_text, planned, session_folder
from tests.kernels.families import FAMILIES

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").rglob("*.fuse"))
WAIT = "wait_for_earlier_kernels();"


def assert_waits_first(text: str) -> None:
    """The first statement of every kernel is the wait."""
    first = re.findall(r"^__global__ [^{}]*\) \{\n +(.*)$", text, re.MULTILINE)
    assert first and len(first) == text.count("__global__ ")
    assert set(first) == {WAIT}


@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.BFLOAT16])
@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_waits_first(family: str, dtype: DType) -> None:
    cases = FAMILIES[family].values()
    assert_waits_first(joined_text([planned(case.graph(dtype), case.hints) for case in cases]))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.BFLOAT16])
def test_examples_wait_first_in_both_directions(path: Path, dtype: DType) -> None:
    chosen = Specialisation.of(Source(path.name, path.read_text()), None, {})
    for key in variant_keys(chosen, [dtype]):
        variant = make_variant(chosen, key)
        assert_waits_first(variant.sources[f"{variant.name}.cu"])


# Opcodes of compute capability 9.0, the low 12 bits of an instruction of 16 bytes.
WAITING = 0x82E  # ACQBULK
REACHING_MEMORY = {
    0x980: "LD",
    0x981: "LDG",
    0x985: "ST",
    0x986: "STG",
    0xFAE: "LDGSTS",
    0x5B4: "UTMALDG",
}


def kernels_of(cubin: bytes) -> Iterator[tuple[str, list[int]]]:
    """The name and the opcodes of each function in an ELF file of machine code."""
    (table,) = struct.unpack_from("<Q", cubin, 0x28)
    entry_size, count, names_at = struct.unpack_from("<3H", cubin, 0x3A)
    sections = [struct.unpack_from("<2I4Q", cubin, table + i * entry_size) for i in range(count)]
    names = sections[names_at][4]
    for name_at, _, _, _, start, size in sections:
        name = cubin[names + name_at : cubin.index(b"\0", names + name_at)].decode()
        if name.startswith(".text."):
            words = struct.iter_unpack("<2Q", cubin[start : start + size])
            yield name.removeprefix(".text."), [low & 0xFFF for low, _ in words]


def early_accesses(text: str, folder: Path) -> dict[str, list[str]]:
    """For each kernel of a `.cu` text as it is built, what it does with memory before it waits."""
    source, cubin = folder / "kernels.cu", folder / "kernels.cubin"
    source.write_text(text, encoding="utf-8")
    compile_quietly(
        find_nvcc().path,
        *("-O3", "-std=c++17", "-lineinfo", "-gencode=arch=compute_90a,code=sm_90a"),
        *(f"-I{session_folder() / 'include'}", "-cubin", source, "-o", cubin),
    )
    found = {}
    for name, opcodes in kernels_of(cubin.read_bytes()):
        assert WAITING in opcodes, name
        before = opcodes[: opcodes.index(WAITING)]
        found[name] = [REACHING_MEMORY[code] for code in before if code in REACHING_MEMORY]
    return found


@pytest.mark.nvcc
def test_machine_code_waits_before_it_reads(tmp_path: Path) -> None:
    """The compiler may move loads from `const __restrict__` pointers before the wait, and does
    where a barrier stands before it; where the wait comes first, none has been seen moved."""
    text = joined_text([planned(graph()) for graph in GOLDENS.values()])
    found = early_accesses(text, tmp_path)
    assert len(found) >= text.count("__global__ ")
    assert not {name: accesses for name, accesses in found.items() if accesses}


TOO_EARLY = """\
#include "fusegen/device.cuh"

__global__ void late(const volatile float* x, float* y) {
    const float early = x[threadIdx.x];
    fusegen::wait_for_earlier_kernels();
    y[threadIdx.x] = early;
}
"""


@pytest.mark.nvcc
def test_a_read_before_the_wait_is_found(tmp_path: Path) -> None:
    assert list(early_accesses(TOO_EARLY, tmp_path).values()) == [["LDG"]]


CALLER = """\
#include "fusegen/cluster.cuh"

__global__ void kernel(float* x) {
    fusegen::wait_for_earlier_kernels();
    *x = 1;
}

extern "C" void launch_both(int times) {
    for (int i = 0; i < times; ++i) {
        FUSEGEN_LAUNCH(kernel, dim3(8), dim3(32), 0, nullptr, nullptr);
        FUSEGEN_LAUNCH_CLUSTERS(kernel, dim3(8), dim3(32), 4, 0, nullptr, nullptr);
    }
}
"""
# Stands in for the driver; says how each launch was asked for, and what was asked before.
DRIVER = """\
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>

extern "C" {

void launch_both(int times);

cudaError_t __wrap_cudaGetDevice(int* device) {
    *device = 1;
    return cudaSuccess;
}

cudaError_t __wrap_cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void*) {
    attributes->ptxVersion = std::atoi(std::getenv("COMPILED_FOR"));
    std::printf("compiled for? ");
    return cudaSuccess;
}

cudaError_t __wrap_cudaDriverGetVersion(int* version) {
    *version = std::atoi(std::getenv("DRIVER"));
    return cudaSuccess;
}

cudaError_t __wrap_cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void*, void**) {
    std::printf("launch(");
    for (unsigned i = 0; i < config->numAttrs; ++i) {
        const cudaLaunchAttribute& attribute = config->attrs[i];
        if (attribute.id == cudaLaunchAttributeClusterDimension) {
            std::printf("clusters of %u ", attribute.val.clusterDim.x);
        } else if (attribute.id == cudaLaunchAttributeProgrammaticStreamSerialization) {
            std::printf("early %d ", attribute.val.programmaticStreamSerializationAllowed);
        }
    }
    std::printf(") ");
    return cudaSuccess;
}

}

int main() {
    launch_both(2);
}
"""
WRAPPED = (
    "cudaDriverGetVersion",
    "cudaFuncGetAttributes",
    "cudaGetDevice",
    "cudaLaunchKernelExC",
)


@pytest.mark.nvcc
def test_only_kernels_that_wait_are_launched_early(tmp_path: Path) -> None:
    """A folder built for 8.0 alone has no wait, whatever device runs it; older drivers than CUDA
    12.3's cannot record an early launch in a graph. Each kernel is asked once."""
    (tmp_path / "caller.cu").write_text(CALLER)
    (tmp_path / "driver.cpp").write_text(DRIVER)
    compile_quietly(
        find_nvcc().path,
        *("-std=c++17", "-arch=sm_90a", f"-I{session_folder() / 'include'}"),
        *(f"-Xlinker=--wrap={name}" for name in WRAPPED),
        *(tmp_path / "caller.cu", tmp_path / "driver.cpp", "-o", tmp_path / "caller"),
    )

    def launches(compiled_for: int, driver: int) -> str:
        environment = {"COMPILED_FOR": str(compiled_for), "DRIVER": str(driver)}
        done = subprocess.run(
            [tmp_path / "caller"], env=environment, capture_output=True, text=True
        )
        return done.stdout

    asked = "compiled for? launch({0}) compiled for? launch(clusters of 4 {0}) "
    known = "launch({0}) launch(clusters of 4 {0}) "
    assert launches(90, 13000) == (asked + known).format("early 1 ")
    assert launches(100, 12030) == (asked + known).format("early 1 ")
    assert launches(80, 13000) == (asked + known).format("")
    assert launches(90, 12020) == (asked + known).format("")
