// Matrix products with few rows, which take as long as reading the right operand does: every
// element of it is read once, straight into registers.
#pragma once

#include "neighbours.cuh"
#include "reduce.cuh"

namespace fusegen {

// What a thread reads of the right operand at a time: 16 bytes along the depth by four columns.
template <class T>
constexpr int skinny_depth = access_bytes / static_cast<int>(sizeof(T));
constexpr int skinny_columns = 4;

// Which part of a step of the depth and of the block's columns a thread works on.
template <class T, int columns, Neighbours neighbours>
struct SkinnyPlace {
    static constexpr bool in_depth = neighbours == Neighbours::in_depth;
    // A warp reads 128 bytes and more of neighbours at once. The lanes that share columns are
    // `lane_distance` apart; beside them, all warps share the columns unless `in_depth`.
    static constexpr int lane_distance = in_depth ? 1 : columns / skinny_columns;
    static constexpr int warps = columns / skinny_columns;
    static constexpr int parts = in_depth ? 1 : warps;
    static constexpr int step_depth = 32 / lane_distance * parts * skinny_depth<T>;

    int warp = threadIdx.x / 32;
    int lane = threadIdx.x % 32;
    int column = (in_depth ? warp : lane % lane_distance) * skinny_columns;
    int part = in_depth ? 0 : warp;
    int depth = (lane / lane_distance + part * (32 / lane_distance)) * skinny_depth<T>;
};

// The right operand's elements in a thread's registers.
template <class T, Neighbours neighbours>
struct SkinnyBlock {
    static constexpr bool in_depth = neighbours == Neighbours::in_depth;
    static constexpr int accesses = in_depth ? skinny_columns : skinny_depth<T>;
    static constexpr int width = in_depth ? skinny_depth<T> : skinny_columns;

    Vector<T, width> vectors[accesses];

    __device__ __forceinline__ float at(int column, int depth) const {
        return convert<float>(in_depth ? vectors[column][depth] : vectors[depth][column]);
    }
};

// Sums of `rows` x 4 products. `left` points to a line of `rows` rows `left_stride` apart, of which
// `left_rows` exist, `right` to the matrix's first column, where `right_stride` elements lie between
// runs of neighbours; `right_columns` columns exist. The block's threads share the work; the sums of
// its `columns` columns from `first_column` on are left in `tile`, with `pitch` elements from row to
// row, for all threads to read. Rows and columns that do not exist have any sums.
//
// `partial` has room for `rows * columns` sums of each warp, unless the neighbours are in depth.
// `depths` is a multiple of `skinny_depth`, and so is `right_columns` of 4 unless they are.
template <int rows, int columns, Neighbours neighbours, class T>
__device__ __forceinline__ void skinny_product(const T* left, int64_t left_stride,
                                               int64_t left_rows, const T* right,
                                               int64_t right_stride, int64_t first_column,
                                               int64_t right_columns, int64_t depths, float* tile,
                                               int pitch, [[maybe_unused]] float* partial) {
    using Place = SkinnyPlace<T, columns, neighbours>;
    using Block = SkinnyBlock<T, neighbours>;
    constexpr int stages = 2;  // blocks on their way
    const Place place;
    const auto clamp = [](int64_t i, int64_t count) { return i < count ? i : count - 1; };
    // What lies beyond the edge is read from within it.
    const T* lines[Block::accesses];
#pragma unroll
    for (int i = 0; i < Block::accesses; ++i) {
        const int64_t column = first_column + place.column;
        lines[i] = Block::in_depth
                       ? right + clamp(column + i, right_columns) * right_stride
                       : right + i * right_stride +
                             (column < right_columns ? column : right_columns - skinny_columns);
    }
    const auto load = [&](Block& block, int64_t depth) {
#pragma unroll
        for (int i = 0; i < Block::accesses; ++i) {
            if (depth < depths) {
                block.vectors[i] = load_vector<T, Block::width>(
                    lines[i] + (Block::in_depth ? depth : depth * right_stride));
            }
        }
    };
    Block blocks[stages];
    float sums[rows][skinny_columns] = {};
#pragma unroll
    for (int stage = 0; stage < stages; ++stage) {
        load(blocks[stage], place.depth + stage * Place::step_depth);
    }
    for (int64_t first = place.depth; first < depths; first += stages * Place::step_depth) {
#pragma unroll
        for (int stage = 0; stage < stages; ++stage) {
            const int64_t depth = first + stage * Place::step_depth;
            if (depth >= depths) {
                break;
            }
            const Block block = blocks[stage];
            load(blocks[stage], depth + stages * Place::step_depth);
#pragma unroll
            for (int row = 0; row < rows; ++row) {
                const auto x = load_vector<T, skinny_depth<T>>(
                    left + clamp(row, left_rows) * left_stride + depth);
#pragma unroll
                for (int i = 0; i < skinny_depth<T>; ++i) {
#pragma unroll
                    for (int column = 0; column < skinny_columns; ++column) {
                        sums[row][column] += convert<float>(x[i]) * block.at(column, i);
                    }
                }
            }
        }
    }
    float* const target = Block::in_depth ? tile : partial + place.part * rows * columns;
    const int target_pitch = Block::in_depth ? pitch : columns;
#pragma unroll
    for (int row = 0; row < rows; ++row) {
#pragma unroll
        for (int column = 0; column < skinny_columns; ++column) {
            float sum = sums[row][column];
#pragma unroll
            for (int distance = Place::lane_distance; distance < 32; distance *= 2) {
                sum += shuffle_xor(whole_warp, sum, distance);
            }
            if (place.lane / Place::lane_distance == 0) {
                target[row * target_pitch + place.column + column] = sum;
            }
        }
    }
    __syncthreads();
    if constexpr (!Block::in_depth) {
        for (int i = threadIdx.x; i < rows * columns; i += Place::warps * 32) {
            float sum = partial[i];
            for (int part = 1; part < Place::parts; ++part) {
                sum += partial[part * rows * columns + i];
            }
            tile[i / columns * pitch + i % columns] = sum;
        }
        __syncthreads();
    }
}

}  // namespace fusegen
