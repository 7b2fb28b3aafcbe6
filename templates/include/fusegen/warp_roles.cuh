// What a kernel needs whose warps have different roles: registers moved between warpgroups,
// barriers of a part of the block, and a warp's one elected thread. Compute capability 9.0.
#pragma once

#include "device.cuh"

#ifdef FUSEGEN_EMULATE

#include <fusegen_emulator/warp_roles.h>

#else

namespace fusegen {

// Gives registers back, or asks for more: every thread of the warpgroup then has `count`, a
// multiple of 8 from 24 to 256: setmaxnreg. The kernel needs __launch_bounds__(threads, blocks). All
// threads of a block together have no more than they began with, 168 each of 384 where a block is
// alone, 80 where there are two: who asks for more than was given back waits for ever.
template <int count>
__device__ __forceinline__ void decrease_registers() {
    static_assert(count % 8 == 0 && count >= 24 && count <= 256, "not a number of registers");
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(count));
}

template <int count>
__device__ __forceinline__ void increase_registers() {
    static_assert(count % 8 == 0 && count >= 24 && count <= 256, "not a number of registers");
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(count));
}

// Waits until `threads` threads, a multiple of 32, have come to barrier `id`, from 1 to 15 (0 is
// __syncthreads): barrier.sync.
__device__ __forceinline__ void named_barrier_sync(int id, int threads) {
    asm volatile("barrier.sync.aligned %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// Comes to barrier `id` without waiting for the others: barrier.arrive.
__device__ __forceinline__ void named_barrier_arrive(int id, int threads) {
    asm volatile("barrier.arrive.aligned %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// True for one thread of the warp, always the same: elect.sync. Every lane must call it.
__device__ __forceinline__ bool elect_one() {
    unsigned elected;
    asm volatile(
        "{\n"
        ".reg .pred elected;\n"
        "elect.sync _|elected, 0xffffffff;\n"
        "selp.u32 %0, 1, 0, elected;\n"
        "}"
        : "=r"(elected));
    return elected != 0;
}

}  // namespace fusegen

#endif
