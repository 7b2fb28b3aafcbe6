// Products of float32 operands through three bfloat16 parts each, for the tiles in which two float16
// parts (split.cuh) cannot represent an operand.
//
// bfloat16 has float32's range and 8 bits. A value rounded to it, what that lacks, rounded again, and
// what is still lacking are together the whole value. Six of the parts' products count; the other
// three are below 2^-24 of the value's. The tensor cores' running sum loses bits, so that of high x high
// is taken into float32 registers every `wide_promotion` of K. That of the rest, 2^-7 of the others at
// most, is added at the end.
//
// Lines are multiplied by the powers of two that split.cuh found for them. Parts of an element down to
// 2^-123 of a line's greatest are normal numbers.
#pragma once

#include "neighbours.cuh"
#include "split.cuh"
#include "wgmma.cuh"

namespace fusegen {

// A block's tile: two warpgroups with 64 rows each.
constexpr int wide_rows = 128, wide_columns = 64, wide_depth = 64, wide_threads = 256;
constexpr int wide_promotion = wide_depth / 2;
// A step's parts of both operands, in elements, and those of two steps, in bytes.
constexpr int wide_stage = 3 * (wide_rows + wide_columns) * wide_depth;
constexpr int wide_shared_bytes = 2 * wide_stage * static_cast<int>(sizeof(bfloat16));

// A matrix of `lines` by the product's depth whose rows of neighbours, `stride` apart, are read 16
// bytes at a time; the tile begins at `first_line`.
struct WideOperand {
    const float* matrix;
    int64_t stride;
    int64_t first_line;
    int64_t lines;
};

// Where column `line` of the right operand stands in its tile, such that a thread of the accumulators
// holds `neighbours` neighbouring columns of the result: line 2 j + e of lane q's comes as number
// 8 j + 2 q + e.
template <int neighbours>
__device__ __forceinline__ int exchanged_line(int line) {
    constexpr int run = 4 * neighbours;
    const int in_run = line % run, in_lane = in_run % neighbours;
    return line - in_run + in_lane / 2 * 8 + in_run / neighbours * 2 + in_lane % 2;
}

// What a thread reads of an operand's tile in a step, and how the tile's parts lie in shared memory:
// with the 128-byte swizzle, and major as the operand is in memory.
template <int tile_lines, Neighbours major, int neighbours>
struct WideTile {
    static constexpr bool in_depth = major == Neighbours::in_depth;
    static constexpr int part = tile_lines * wide_depth;  // elements
    static constexpr int chunk = 64 * 64;                 // elements of 64 lines
    static constexpr int count = part / split_vector / wide_threads;
    static constexpr int run = (in_depth ? wide_depth : tile_lines) / split_vector;
    static_assert(in_depth || neighbours == 2, "lines can be exchanged along K only");

    Vector<float, split_vector> values[count];
    const float* lines[in_depth ? count : 1];  // the beginnings of the thread's lines
    int64_t stride;

    static __device__ __forceinline__ int inner() { return threadIdx.x % run * split_vector; }
    static __device__ __forceinline__ int outer(int i) {
        return threadIdx.x / run + i * (wide_threads / run);
    }

    // Lines beyond the matrix are read as its first one; nobody looks at what comes of them.
    __device__ __forceinline__ explicit WideTile(const WideOperand& operand)
        : stride(operand.stride) {
#pragma unroll
        for (int i = 0; i < (in_depth ? count : 1); ++i) {
            const int64_t line = operand.first_line + (in_depth ? outer(i) : inner());
            const int64_t there = line < operand.lines ? line : 0;
            lines[i] = operand.matrix + (in_depth ? there * stride : there);
        }
    }

    // Reads what a step needs, without a wait for it. Beyond the depth others' elements come.
    __device__ __forceinline__ void load(int64_t first_depth, int64_t depths) {
#pragma unroll
        for (int i = 0; i < count; ++i) {
            const int64_t depth = first_depth + (in_depth ? inner() : outer(i));
            const int64_t there = depth < depths ? depth : 0;
            values[i] = load_vector<float, split_vector>(in_depth ? lines[i] + there
                                                                  : lines[0] + there * stride);
        }
    }

    // Writes the parts of what was read, one behind the other, with zeros beyond the depth; `scales`
    // are the lines' powers of two.
    __device__ __forceinline__ void store(bfloat16* tile, const float* scales, int64_t first_depth,
                                          int64_t depths) const {
#pragma unroll
        for (int i = 0; i < count; ++i) {
            const bool is_inside = first_depth + (in_depth ? inner() : outer(i)) < depths;
            Vector<bfloat16, split_vector> high, middle, low;
#pragma unroll
            for (int j = 0; j < split_vector; j += 2) {
                float rest[2];
#pragma unroll
                for (int k = 0; k < 2; ++k) {
                    const float scale = scales[in_depth ? outer(i) : inner() + j + k];
                    rest[k] = is_inside ? values[i][j + k] * scale : 0.0f;
                }
                round_pair(high, j, rest[0], rest[1]);
                rest[0] -= to_float(high[j]);
                rest[1] -= to_float(high[j + 1]);
                round_pair(middle, j, rest[0], rest[1]);
                rest[0] -= to_float(middle[j]);
                rest[1] -= to_float(middle[j + 1]);
                round_pair(low, j, rest[0], rest[1]);
            }
            const int row = in_depth ? exchanged_line<neighbours>(outer(i)) : outer(i);
            const int column = inner() % 64;
            bfloat16* const place = tile + (in_depth ? 0 : inner() / 64 * chunk) + row * 64 +
                                    (column / 8 ^ row % 8) * 8 + column % 8;
            store_vector(place, high);
            store_vector(place + part, middle);
            store_vector(place + 2 * part, low);
        }
    }

    // Describes one of the three parts for wgmma: 16 of K from `depth` on, of the lines from
    // `first_line`, a multiple of 64.
    static __device__ __forceinline__ std::uint64_t descriptor(const bfloat16* tile, int number,
                                                               int first_line, int depth) {
        const bfloat16* const lines = tile + number * part + first_line / 64 * chunk;
        return in_depth ? wgmma_descriptor(lines + depth)
                        : wgmma_descriptor_mn_major(lines + depth * 64, chunk * sizeof(bfloat16));
    }
};

// The warpgroup's 64 x wide_columns of the tile's product, for wgmma's layout of sums. `stages` has
// room for two steps' parts, and `scales` has the powers of two of the tile's rows and then of its
// columns.
template <Neighbours left_major, Neighbours right_major, int neighbours>
__device__ __forceinline__ void wide_product(float (&sums)[wide_columns / 2],
                                             const WideOperand& left, const WideOperand& right,
                                             int64_t depths, bfloat16* stages,
                                             const float* scales) {
    using LeftTile = WideTile<wide_rows, left_major, 2>;
    using RightTile = WideTile<wide_columns, right_major, neighbours>;
    constexpr Major a = LeftTile::in_depth ? Major::k : Major::mn;
    constexpr Major b = RightTile::in_depth ? Major::k : Major::mn;
    const int first_row = threadIdx.x / 128 * wgmma_m;
    LeftTile left_values(left);
    RightTile right_values(right);
    const auto load = [&](int64_t first_depth) {
        left_values.load(first_depth, depths);
        right_values.load(first_depth, depths);
    };
    const auto store = [&](bfloat16* stage, int64_t first_depth) {
        left_values.store(stage, scales, first_depth, depths);
        right_values.store(stage + 3 * LeftTile::part, scales + wide_rows, first_depth, depths);
        fence_async_shared();
    };
    load(0);
    store(stages, 0);
    load(wide_depth);
    __syncthreads();
    float high[wide_columns / 2] = {};
    float rest[wide_columns / 2] = {};
    int turn = 0;
    for (int64_t depth = 0; depth < depths; depth += wide_depth, turn ^= 1) {
        const bfloat16* const stage = stages + turn * wide_stage;
        const auto multiply = [&](float(&to)[wide_columns / 2], int left_part, int right_part, int k) {
            wgmma<bfloat16, wide_columns, a, b>(
                to, LeftTile::descriptor(stage, left_part, first_row, k),
                RightTile::descriptor(stage + 3 * LeftTile::part, right_part, 0, k), true);
        };
        const auto multiply_high = [&](int first) {
#pragma unroll
            for (int k = first; k < first + wide_promotion; k += wgmma_k<bfloat16>) {
                multiply(high, 0, 0, k);
            }
            wgmma_commit();
        };
        wgmma_fence(high);
        multiply_high(0);
#pragma unroll
        for (int k = 0; k < wide_depth; k += wgmma_k<bfloat16>) {
            multiply(rest, 2, 0, k);
            multiply(rest, 0, 2, k);
            multiply(rest, 1, 1, k);
            multiply(rest, 1, 0, k);
            multiply(rest, 0, 1, k);
        }
        wgmma_commit();
        // The other stage's products are done. While these run, it is filled.
        if (depth + wide_depth < depths) {
            store(stages + (turn ^ 1) * wide_stage, depth + wide_depth);
        }
        wgmma_wait<1>(high);
        promote(sums, high);
        wgmma_fence(high);
        multiply_high(wide_promotion);
        wgmma_wait<0>(high, rest);
        // Only now: the fence would wait for what is being read, too.
        load(depth + 2 * wide_depth);
        promote(sums, high);
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < wide_columns / 2; ++i) {
        sums[i] += high[i] + rest[i];
    }
}

// Whether a sum of products of parts, not scaled back, is not what float32 would have: not a number,
// or so small that what the parts lack of a line's tiny elements shows.
__device__ __forceinline__ bool is_beyond_wide_parts(float sum, const LineScale& left,
                                                     const LineScale& right) {
    constexpr float greatest = 3.40282347e38f, least = 5.29395592e-23f;  // 2^-74
    return !(fabsf(sum) <= greatest) ||
           (fabsf(sum) < least && (left.has_tiny_elements() || right.has_tiny_elements()));
}

}  // namespace fusegen
