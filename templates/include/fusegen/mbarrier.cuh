// Barriers in shared memory that count arrivals and the bytes of bulk copies (PTX ISA, "Parallel
// Synchronization and Communication Instructions: mbarrier"). Compute capability 9.0.
//
// A barrier works in phases. A phase is complete when `count` arrivals have come and as many bytes
// have been copied as arrivals announced; the next phase then begins. A waiter names the phase by
// its parity: 0 for the first phase, 1 for the second, and so on in turn. Waiting for parity 1 on a
// new barrier returns at once.
#pragma once

#include "shared_address.cuh"

#ifdef FUSEGEN_EMULATE

#include <fusegen_emulator/mbarrier.h>

#else

namespace fusegen {

// Makes a barrier that each phase waits for `count` arrivals: mbarrier.init. One thread does it.
__device__ __forceinline__ void mbarrier_init(std::uint64_t* barrier, unsigned count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)),
                 "r"(count)
                 : "memory");
}

// Makes the barriers that this thread initialised visible to bulk copies and to the cluster's other
// blocks: fence.mbarrier_init. The block's threads still need a __syncthreads().
__device__ __forceinline__ void mbarrier_fence_init() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// Counts one arrival: mbarrier.arrive. What the thread did before is seen by those who wait.
__device__ __forceinline__ void mbarrier_arrive(std::uint64_t* barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier))
                 : "memory");
}

// Counts one arrival and announces `bytes` that bulk copies will bring in this phase:
// mbarrier.arrive.expect_tx.
__device__ __forceinline__ void mbarrier_arrive_expect(std::uint64_t* barrier, unsigned bytes) {
    asm volatile(
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
        "r"(bytes)
        : "memory");
}

// Waits until the phase of this parity is complete: mbarrier.try_wait.parity.
__device__ __forceinline__ void mbarrier_wait(std::uint64_t* barrier, unsigned parity) {
    asm volatile(
        "{\n"
        ".reg .pred complete;\n"
        "again:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 complete, [%0], %1;\n"
        "@!complete bra again;\n"
        "}" ::"r"(shared_address(barrier)),
        "r"(parity)
        : "memory");
}

}  // namespace fusegen

#endif
