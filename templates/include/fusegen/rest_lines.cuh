// The last tile of a product on tensor cores, which may have fewer rows than the others.
#pragma once

#include "dtypes.cuh"

namespace fusegen {

// How many lines of the left operand the last tile's copies bring: as many as there are rows, in
// whole eights, after which the swizzle repeats. There is at least one row.
template <int tile_rows>
__host__ __device__ inline int lines_of_rest(int64_t rows) {
    return static_cast<int>((rows - 1) % tile_rows / 8 + 1) * 8;
}

// Zeros for what no copy brings of the left operand, from element `size` of its `most` on, in every
// stage of the ring. All threads of the block take part; a fence and a barrier must follow.
template <class T, int stages, int stage_size, int most>
__device__ __forceinline__ void clear_behind(T* ring, int size) {
    constexpr int access = sizeof(float4) / sizeof(T);
    const int accesses = (most - size) / access;
    for (int i = threadIdx.x; i < stages * accesses; i += blockDim.x) {
        T* const rest = ring + i / accesses * stage_size + size;
        reinterpret_cast<float4*>(rest)[i % accesses] = float4{};
    }
}

}  // namespace fusegen
