// Back-to-back products by Hopper's tensor cores.
#pragma once

#include "back_to_back.cuh"
#include "matrix_map.cuh"
#include "stages.cuh"
#include "wgmma_tile.cuh"

namespace fusegen {

// The same as `ByWarps` for warpgroups, which have 64 rows each. Products run by themselves until they
// are finished.
template <class T>
struct ByWarpgroups {
    // The first of the warpgroup's rows, and of the warp's.
    const int first_line = multiplying_warpgroup() * wgmma_m;
    const int first_row = first_line + static_cast<int>(threadIdx.x) % 128 / 32 * 16;

    template <class... Registers>
    static __device__ __forceinline__ void begin(Registers&... registers) {
        wgmma_fence(registers...);
    }
    template <class... Registers>
    static __device__ __forceinline__ void finish(Registers&... registers) {
        wgmma_wait<0>(registers...);
    }
    static __device__ __forceinline__ void commit() { wgmma_commit(); }

    template <class Left, class Right>
    __device__ __forceinline__ void multiply(float (&sums)[Right::tile_lines / 2], const T* left,
                                             const T* right) const {
        static_assert(Left::tile_depth == Right::tile_depth, "tiles that meet");
#pragma unroll
        for (int at_depth = 0; at_depth < Left::tile_depth; at_depth += wgmma_k<T>) {
            wgmma<T, Right::tile_lines, Left::major, Right::major>(
                sums, Left::descriptor(left, first_line, at_depth),
                Right::descriptor(right, 0, at_depth), at_depth > 0);
        }
    }

    template <class Right>
    static __device__ __forceinline__ void multiply_held(
        float (&sums)[Right::tile_lines / 2], const std::uint32_t (&left)[Right::tile_depth / 16][4],
        const T* right) {
#pragma unroll
        for (int i = 0; i < Right::tile_depth / 16; ++i) {
            wgmma<T, Right::tile_lines, Right::major>(sums, left[i],
                                                      Right::descriptor(right, 0, i * 16));
        }
    }
};

}  // namespace fusegen
