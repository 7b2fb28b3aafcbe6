// Kernels that start early: their blocks come to the processors while the kernel before them on the
// stream still ends, and wait there (CUDA programming guide, "Programmatic Dependent Launch"; PTX
// ISA, griddepcontrol). Compute capability 9.0.
#pragma once

#include <cuda_runtime.h>

#include <atomic>

namespace fusegen {

// Waits until all that was launched before on the stream is done, and sees what that wrote. Every
// kernel launched by FUSEGEN_LAUNCH begins with it: each thread, before anything else. Behind a
// barrier would be too late, since the compiler moves loads from `const __restrict__` pointers up.
__device__ __forceinline__ void wait_for_earlier_kernels() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Whether one kernel may start early on each device. Remembered, since to ask takes long.
class EarlyStarts {
public:
    template <class Kernel>
    bool allow(Kernel* kernel) {
        int device = 0;
        if (cudaGetDevice(&device) != cudaSuccess) {
            return false;
        }
        if (device >= known_devices) {
            return asked(kernel) == yes;
        }
        int answer = answers_[device].load(std::memory_order_relaxed);
        if (answer == unknown) {
            answer = asked(kernel);
            answers_[device].store(answer, std::memory_order_relaxed);
        }
        return answer == yes;
    }

private:
    // The kernel must have been compiled to wait: what a device of compute capability 9.0 makes of
    // code for 8.0 does not. Older drivers than CUDA 12.3's cannot record such launches in graphs.
    template <class Kernel>
    static int asked(Kernel* kernel) {
        cudaFuncAttributes attributes{};
        int driver = 0;
        const bool known = cudaFuncGetAttributes(&attributes, kernel) == cudaSuccess &&
                           cudaDriverGetVersion(&driver) == cudaSuccess;
        return !known ? unknown : attributes.ptxVersion >= 90 && driver >= 12030 ? yes : no;
    }

    enum { unknown, no, yes };
    static constexpr int known_devices = 16;
    std::atomic<int> answers_[known_devices] = {};
};

}  // namespace fusegen
