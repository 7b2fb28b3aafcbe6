// Products on tensor cores with fewer rows than a tile has.
#pragma once

#include "dtypes.cuh"

namespace fusegen {

// How many lines of the left operand a copy brings: all of a tile, or where there are fewer rows
// these, in whole eights, after which the swizzle repeats.
template <int tile_rows>
__host__ __device__ inline int lines_of_few(int64_t rows) {
    return rows < tile_rows ? static_cast<int>((rows + 7) / 8 * 8) : tile_rows;
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
