// Matrix products by the tensor cores of compute capability 8.0 and later: copies that do not wait
// fill stages of shared memory, from which warps read fragments.
#pragma once

#include "mma_tile.cuh"
#include "operand_prologue.cuh"

// Whether this compilation has use for these products: for a device from compute capability 8.0 on
// that has no warpgroup products, or emulated.
#if defined(FUSEGEN_EMULATE)
#define FUSEGEN_NEEDS_MMA 1
#elif defined(__CUDA_ARCH__)
#define FUSEGEN_NEEDS_MMA (__CUDA_ARCH__ >= 800 && __CUDA_ARCH__ / 100 != 9)
#else
#define FUSEGEN_NEEDS_MMA 0
#endif

namespace fusegen {

// A matrix in memory: `stride` elements lie between runs of neighbours.
template <class T>
struct MmaOperand {
    const T* matrix;
    int64_t stride;
    int64_t first_line;
    int64_t line_count;
};

// Leaves the sums of a tile of `rows` by `columns` products over `depths` in `tile`, with `pitch`
// elements from row to row, for all threads to read. `ring` has room for `stages` pairs of tiles.
// There is a warp for each 32 rows by 32 columns. `prepare_left` and `prepare_right` are given
// the depth of 16 bytes of neighbours of an operand, or of the first of them, and make what replaces
// these before they are multiplied, given their line.
template <int rows, int columns, int depth, int stages, Neighbours left_neighbours,
          Neighbours right_neighbours, class T, class PrepareLeft = Untouched,
          class PrepareRight = Untouched>
__device__ __forceinline__ void mma_product(const MmaOperand<T>& left, const MmaOperand<T>& right,
                                            int64_t depths, T* ring, float* tile, int pitch,
                                            const PrepareLeft& prepare_left = {},
                                            const PrepareRight& prepare_right = {}) {
    using Left = MmaTile<T, rows, depth, left_neighbours>;
    using Right = MmaTile<T, columns, depth, right_neighbours>;
    constexpr int warp_tile = 32;
    constexpr int warp_columns = columns / warp_tile;
    constexpr int threads = rows / warp_tile * warp_columns * 32;
    const int lane = threadIdx.x % 32;
    const int warp = threadIdx.x / 32;
    const int own_row = warp / warp_columns * warp_tile;
    const int own_column = warp % warp_columns * warp_tile;
    const int64_t steps = (depths + depth - 1) / depth;
    const auto stage_of = [&](int64_t step) {
        return ring + static_cast<int>(step % stages) * (Left::size + Right::size);
    };
    const auto load = [&](int64_t step) {
        if (step < steps) {
            T* const stage = stage_of(step);
            Left::template load<threads>(stage, left.matrix, left.stride, left.first_line,
                                         left.line_count, step * depth, depths);
            Right::template load<threads>(stage + Left::size, right.matrix, right.stride,
                                          right.first_line, right.line_count, step * depth, depths);
        }
        cp_async_commit();  // without copies too, so that the groups can be counted
    };
    float sums[2][4][4] = {};
#pragma unroll
    for (int step = 0; step < stages - 1; ++step) {
        load(step);
    }
    for (int64_t step = 0; step < steps; ++step) {
        cp_async_wait<stages - 2>();
        if constexpr (!std::is_same<PrepareLeft, Untouched>::value) {
            Left::template prepare<threads>(stage_of(step), left.first_line, left.line_count,
                                            step * depth, depths, prepare_left);
        }
        if constexpr (!std::is_same<PrepareRight, Untouched>::value) {
            Right::template prepare<threads>(stage_of(step) + Left::size, right.first_line,
                                             right.line_count, step * depth, depths, prepare_right);
        }
        __syncthreads();  // the step has arrived, and the one before it has been read
        load(step + stages - 1);
        const T* const left_tile = stage_of(step);
        const T* const right_tile = left_tile + Left::size;
#pragma unroll
        for (int at_depth = 0; at_depth < depth; at_depth += 16) {
            std::uint32_t left_fragments[2][4], right_fragments[2][4];
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                Left::left(left_fragments[i], left_tile, own_row + i * 16, at_depth);
                Right::right(right_fragments[i], right_tile, own_column + i * 16, at_depth);
            }
#pragma unroll
            for (int i = 0; i < 2; ++i) {
#pragma unroll
                for (int j = 0; j < 2; ++j) {
                    mma_pair<T>(&sums[i][2 * j][0], left_fragments[i], right_fragments[j]);
                }
            }
        }
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                const int row = own_row + i * 16 + lane / 4 + e / 2 * 8;
                const int column = own_column + j * 8 + lane % 4 * 2 + e % 2;
                tile[row * pitch + column] = sums[i][j][e];
            }
        }
    }
    __syncthreads();  // also: the next tile's copies may overwrite the ring
}

}  // namespace fusegen
