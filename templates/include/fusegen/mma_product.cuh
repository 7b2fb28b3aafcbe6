// Matrix products by the tensor cores of compute capability 8.0 and later: copies that do not wait
// fill stages of shared memory, from which warps read fragments.
#pragma once

#include "mma.cuh"
#include "neighbours.cuh"
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

// A block's tile of an operand: `lines` rows of the left operand or columns of the right one by
// `depth` of what is summed over, as it lies in memory. Rows are padded by 16 bytes, which keeps
// those that a warp reads together in different banks.
template <class T, int lines, int depth, Neighbours neighbours>
struct MmaTile {
    static constexpr bool in_depth = neighbours == Neighbours::in_depth;
    static constexpr int piece = access_bytes / static_cast<int>(sizeof(T));
    static constexpr int width = in_depth ? depth : lines;
    static constexpr int height = in_depth ? lines : depth;
    static constexpr int pitch = width + piece;
    static constexpr int size = height * pitch;

    // Brings the tile that begins at `first_line` and `first_depth` of a matrix of `line_count` by
    // `depth_count`, with zeros beyond it; `stride` elements lie between runs of neighbours.
    template <int threads>
    static __device__ __forceinline__ void load(T* tile, const T* matrix, int64_t stride,
                                                int64_t first_line, int64_t line_count,
                                                int64_t first_depth, int64_t depth_count) {
        const int64_t first_row = in_depth ? first_line : first_depth;
        const int64_t first_column = in_depth ? first_depth : first_line;
        const int64_t rows = in_depth ? line_count : depth_count;
        const int64_t columns = in_depth ? depth_count : line_count;
        for (int i = threadIdx.x; i < height * width / piece; i += threads) {
            const int tile_row = i / (width / piece);
            const int tile_column = i % (width / piece) * piece;
            const int64_t row = first_row + tile_row;
            const int64_t column = first_column + tile_column;
            const int64_t there = row < rows && column < columns ? columns - column : 0;
            cp_async(tile + tile_row * pitch + tile_column,
                     there > 0 ? matrix + row * stride + column : matrix,
                     static_cast<int>(there < piece ? there : piece) * static_cast<int>(sizeof(T)));
        }
    }

    // Replaces the pieces that this thread has brought of that tile, once they are there.
    template <int threads, class Prepare>
    static __device__ __forceinline__ void prepare(T* tile, int64_t first_line, int64_t line_count,
                                                   int64_t first_depth, int64_t depth_count,
                                                   const Prepare& prepare_piece) {
        const int lines_here = within(line_count, first_line, lines);
        const int depth_here = within(depth_count, first_depth, depth);
        for (int i = threadIdx.x; i < height * width / piece; i += threads) {
            const int tile_row = i / (width / piece);
            const int tile_column = i % (width / piece) * piece;
            const int line = in_depth ? tile_row : tile_column;
            const int at_depth = in_depth ? tile_column : tile_row;
            if (line < lines_here && at_depth < depth_here) {
                T* const place = tile + tile_row * pitch + tile_column;
                auto brought = load_vector<T, piece>(place);
                prepare_piece(first_depth + at_depth)(brought, first_line + line);
                store_vector(place, brought);
            }
        }
    }

    // The four fragments of 16 lines by 16 of depth in the order of mma's left operand: lines 0-7
    // and 8-15 of depth 0-7, then of depth 8-15.
    static __device__ __forceinline__ void left(std::uint32_t (&fragments)[4], const T* tile,
                                                int line, int at_depth) {
        const int lane = threadIdx.x % 32;
        if constexpr (in_depth) {
            ldmatrix(fragments, tile + (line + lane % 16) * pitch + at_depth + lane / 16 * 8);
        } else {
            ldmatrix_transposed(fragments, tile + (at_depth + lane / 16 * 8 + lane % 8) * pitch +
                                               line + lane / 8 % 2 * 8);
        }
    }

    // The same for the right operand: depth 0-7 and 8-15 of lines 0-7, then of lines 8-15.
    static __device__ __forceinline__ void right(std::uint32_t (&fragments)[4], const T* tile,
                                                 int line, int at_depth) {
        const int lane = threadIdx.x % 32;
        if constexpr (in_depth) {
            ldmatrix(fragments, tile + (line + lane % 8 + lane / 16 * 8) * pitch + at_depth +
                                    lane / 8 % 2 * 8);
        } else {
            ldmatrix_transposed(fragments, tile + (at_depth + lane % 16) * pitch + line +
                                               lane / 16 * 8);
        }
    }
};

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
                for (int j = 0; j < 4; ++j) {
                    const std::uint32_t operand[2] = {right_fragments[j / 2][j % 2 * 2],
                                                      right_fragments[j / 2][j % 2 * 2 + 1]};
                    mma_m16n8k16<T>(sums[i][j], left_fragments[i], operand);
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
