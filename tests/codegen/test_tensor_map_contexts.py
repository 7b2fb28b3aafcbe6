"""A thread that has not used the device yet gets its tensor maps; the driver is a stand-in."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from fusegen.runtime.toolchain import find_nvcc
from tests.emulated import compile_quietly, session_folder

pytestmark = pytest.mark.nvcc

CALLER = """\
#include "fusegen/tensor_map.cuh"

int main() {
    using namespace fusegen;
    alignas(16) static bfloat16 matrix[64 * 64];
    TensorMap map;
    const TensorTiles<2> tiles{matrix, {64, 64}, {64}, {64, 8}, Swizzle::bytes_128};
    return static_cast<int>(encode_tensor_map<bfloat16>(&map, tiles));
}
"""
# As on a GPU, cudaSetDevice makes the device's context the thread's.
DRIVER = """\
#include <cuda.h>
#include <cuda_runtime_api.h>

static bool has_context = false;

static CUresult encode(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*,
                       const cuuint64_t*, const cuuint32_t*, const cuuint32_t*,
                       CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion,
                       CUtensorMapFloatOOBfill) {
    return has_context ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

extern "C" {

cudaError_t __wrap_cudaGetDriverEntryPointByVersion(
    const char*, void** function, unsigned, unsigned long long,
    cudaDriverEntryPointQueryResult* found) {
    *function = reinterpret_cast<void*>(&encode);
    *found = cudaDriverEntryPointSuccess;
    return cudaSuccess;
}

cudaError_t __wrap_cudaGetDevice(int* device) {
    *device = 3;
    return cudaSuccess;
}

cudaError_t __wrap_cudaSetDevice(int device) {
    has_context = device == 3;
    return cudaSuccess;
}

}
"""
WRAPPED = ("cudaGetDriverEntryPointByVersion", "cudaGetDevice", "cudaSetDevice")


def test_a_thread_without_a_context(tmp_path: Path) -> None:
    """Else its first call would take another form, with other bits, than those that follow."""
    (tmp_path / "caller.cu").write_text(CALLER)
    (tmp_path / "driver.cpp").write_text(DRIVER)
    compile_quietly(
        find_nvcc().path,
        *("-std=c++17", "-arch=sm_90a", f"-I{session_folder() / 'include'}"),
        *(f"-Xlinker=--wrap={name}" for name in WRAPPED),
        *(tmp_path / "caller.cu", tmp_path / "driver.cpp", "-o", tmp_path / "caller"),
    )
    assert subprocess.run([tmp_path / "caller"], check=False).returncode == 0
