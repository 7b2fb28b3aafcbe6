// Places in memory: how much of a tile there is, and addresses that are kept.
#pragma once

#include "device.cuh"

namespace fusegen {

// How many of a tile's `most` lines or depths there are, which begins at `first` of `all`.
__device__ __forceinline__ int within(int64_t all, int64_t first, int most) {
    return all - first < most ? static_cast<int>(all - first) : most;
}

// A number or a pointer that the compiler shall keep: it would compute it anew, of several
// multiplications, for each of the loads that have it in their addresses.
template <class T>
__device__ __forceinline__ T computed_once(T x) {
#ifndef FUSEGEN_EMULATE
    asm volatile("" : "+l"(x));
#endif
    return x;
}

}  // namespace fusegen
