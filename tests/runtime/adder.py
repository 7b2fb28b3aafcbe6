"""A tiny module for tests of the build: one kernel and its binding, adding two tensors."""

from __future__ import annotations

from fusegen import resources
from fusegen.runtime.request import BuildRequest, Target

KERNEL = """\
#include <fusegen/device.cuh>

__global__ void add_kernel(const float* a, const float* b, float* out, int64_t count) {
    fusegen::wait_for_earlier_kernels();
    const int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
    if (i < count) {
        out[i] = a[i] + b[i] + OFFSET;
    }
}

FUSEGEN_EXPORT int add_launch(
    const float* a, const float* b, float* out, int64_t count, void* stream) {
    if (count == 0) {
        return 0;
    }
    const dim3 grid(unsigned((count + 63) / 64));
    FUSEGEN_LAUNCH(add_kernel, grid, dim3(64), 0, stream, a, b, out, count);
    return FUSEGEN_LAST_ERROR();
}
"""

BINDING = """\
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <cstdint>

#ifdef FUSEGEN_EMULATE
#define DEVICE CPU
#else
#define DEVICE CUDA
#endif

using torch::stable::Tensor;

extern "C" int add_launch(const float*, const float*, float*, int64_t, void*);

static Tensor add(const Tensor& a, const Tensor& b) {
    Tensor out = torch::stable::empty_like(a);
    const int error = add_launch(
        static_cast<const float*>(a.data_ptr()), static_cast<const float*>(b.data_ptr()),
        static_cast<float*>(out.data_ptr()), a.numel(), nullptr);
    STD_TORCH_CHECK(error == 0, "add: the launch failed with error ", error);
    return out;
}

STABLE_TORCH_LIBRARY(FUSEGEN_NAMESPACE, library) {
    library.def("add(Tensor a, Tensor b) -> Tensor");
}

STABLE_TORCH_LIBRARY_IMPL(FUSEGEN_NAMESPACE, DEVICE, library) {
    library.impl("add", TORCH_BOX(&add));
}
"""


def adder(
    target: Target = Target.EMULATE, offset: float = 0.0, architectures: tuple[str, ...] = ()
) -> BuildRequest:
    """A module whose `add(a, b)` gives `a + b + offset` for contiguous float32 tensors."""
    headers = resources.include_files()
    sources = {
        "adder.cu": KERNEL.replace("OFFSET", f"{offset}f"),
        "adder_binding.cpp": BINDING,
        **{f"include/{name}": text for name, text in headers.items() if name.endswith(".cuh")},
    }
    return BuildRequest("adder", sources, target, architectures)
