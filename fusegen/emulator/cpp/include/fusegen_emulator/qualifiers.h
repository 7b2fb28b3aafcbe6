// CUDA's keywords: each means nothing, or its g++ twin, when a thread is a fiber on the CPU.
// (g++ knows __restrict__ itself; __noinline__ is left out because g++'s own headers use that
// name.)
#pragma once

#define __global__
#define __device__
#define __host__
#define __constant__ static const
#define __grid_constant__
#define __launch_bounds__(...)
#define __forceinline__ inline __attribute__((always_inline))
#define __align__(bytes) __attribute__((aligned(bytes)))
