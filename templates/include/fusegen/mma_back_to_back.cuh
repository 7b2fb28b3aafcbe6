// Back-to-back products by the tensor cores of compute capability 8.0 and later.
#pragma once

#include "back_to_back.cuh"
#include "mma_tile.cuh"

namespace fusegen {

// The steps of products of 16 rows by a warp, which are done when they return. Left operands in shared
// memory have all the block's rows; `T` is what is multiplied.
template <class T>
struct ByWarps {
    // The first of the warp's rows.
    const int first_row = static_cast<int>(threadIdx.x) / 32 * 16;

    // Waits for what has been copied to shared memory, and for those that read it before.
    static __device__ __forceinline__ void await_tiles() {
        cp_async_wait<0>();
        __syncthreads();
    }

    // Before products of these registers begin, and where they have to be done.
    template <class... Registers>
    static __device__ __forceinline__ void begin(Registers&...) {}
    template <class... Registers>
    static __device__ __forceinline__ void finish(Registers&...) {}
    static __device__ __forceinline__ void commit() {}

    // The product of the warp's rows and a right operand.
    template <class Left, class Right>
    __device__ __forceinline__ void multiply(float (&sums)[Right::tile_lines / 2], const T* left,
                                             const T* right) const {
        static_assert(Left::tile_depth == Right::tile_depth, "tiles that meet");
#pragma unroll
        for (float& sum : sums) {
            sum = 0.0f;
        }
#pragma unroll
        for (int at_depth = 0; at_depth < Left::tile_depth; at_depth += 16) {
            std::uint32_t own[4];
            Left::left(own, left, first_row, at_depth);
            add_products<Right>(sums, own, right, at_depth);
        }
    }

    // The same added to sums, with a left operand in registers.
    template <class Right>
    static __device__ __forceinline__ void multiply_held(
        float (&sums)[Right::tile_lines / 2], const std::uint32_t (&left)[Right::tile_depth / 16][4],
        const T* right) {
#pragma unroll
        for (int i = 0; i < Right::tile_depth / 16; ++i) {
            add_products<Right>(sums, left[i], right, i * 16);
        }
    }

    template <class Right>
    static __device__ __forceinline__ void add_products(float (&sums)[Right::tile_lines / 2],
                                                        const std::uint32_t (&left)[4],
                                                        const T* right, int at_depth) {
#pragma unroll
        for (int line = 0; line < Right::tile_lines; line += 16) {
            std::uint32_t other[4];
            Right::right(other, right, line, at_depth);
            mma_pair<T>(&sums[line / 2], left, other);
        }
    }
};

}  // namespace fusegen
