// What a thread has of products that are multiplied again without leaving its registers, and the tiles
// that take turns in shared memory for it.
#pragma once

#include "addressing.cuh"
#include "mma.cuh"
#include "numbers.cuh"

namespace fusegen {

// Where the element `at` of those that a thread has in one of its two rows is held, as the tensor
// cores leave a warp's sums of 16 rows: of every 8 columns a pair in the row lane / 4, and one in the
// row 8 further.
__device__ __forceinline__ constexpr int held_at(int at, int half) {
    return at / 2 * 4 + half * 2 + at % 2;
}

// Which of a block's rows a thread has there, of a warp's that begin at `first_row`: the last of
// `rows_here` where that is not there.
__device__ __forceinline__ int held_row(int first_row, int half, int rows_here) {
    const int row = first_row + half * 8 + static_cast<int>(threadIdx.x) % 32 / 4;
    return row < rows_here ? row : rows_here - 1;
}

// The places of the elements that a thread has of a tile of `columns`, which come in runs of
// neighbours in memory. `rows_here` of the block's rows are there, of which the warp's begin at
// `first_row`, and of the columns from `first_column` on `columns_here`: the places of those beyond
// are those of the last ones.
template <int columns, int run, int vector>
struct HeldPlaces {
    static constexpr int neighbours = vector;
    static constexpr int own_columns = columns / 4;

    int first_row;
    int rows_here;
    int64_t first_column;
    int columns_here;

    // The place in the tile of the `at`-th of those that a thread has in a row.
    static __device__ __forceinline__ int own_column(int at) {
        return at / run * run * 4 + threadIdx.x % 4 * run + at % run;
    }

    __device__ __forceinline__ bool are_whole() const { return columns_here == columns; }

    // Calls visit(half, at, row, column) for each `vector` of neighbours.
    template <class Visit>
    __device__ __forceinline__ void for_each(const Visit& visit) const {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int row = held_row(first_row, half, rows_here);
#pragma unroll
            for (int at = 0; at < own_columns; at += vector) {
                const int column = own_column(at);
                const int last = columns_here - vector;
                visit(half, at, row, first_column + (column < last ? column : last));
            }
        }
    }

    // What a thread has at the columns that are not there becomes `value`.
    __device__ __forceinline__ void fill_beyond(float (&held)[columns / 2], float value) const {
        if (!are_whole()) {
#pragma unroll
            for (int at = 0; at < own_columns; ++at) {
                if (own_column(at) >= columns_here) {
                    held[held_at(at, 0)] = held[held_at(at, 1)] = value;
                }
            }
        }
    }
};

// The registers that loads take.
template <class... Loads>
constexpr int registers_of = (0 + ... + static_cast<int>((sizeof(Loads) + 3) / 4));

// What products meet at the places that a thread has: what `meet(row, column)` finds there. It is
// loaded ahead if it takes no more than so many registers, and else where it is used.
template <class Met, class Places, int most_registers, class Meet>
struct MetThere {
    static constexpr int runs = Places::own_columns / Places::neighbours;
    static constexpr bool is_ahead = 2 * runs * static_cast<int>(Met::registers) <= most_registers;

    const Meet& meet;
    Met ahead[2][is_ahead ? runs : 1];

    explicit __device__ __forceinline__ MetThere(const Meet& meet) : meet(meet) {}

    __device__ __forceinline__ void load(const Places& places) {
        if constexpr (is_ahead) {
            places.for_each([&](int half, int at, int row, int64_t column) {
                ahead[half][at / Places::neighbours] = meet(row, column);
            });
        }
    }

    __device__ __forceinline__ decltype(auto) at(int half, int run, int row, int64_t column) const {
        if constexpr (is_ahead) {
            return (ahead[half][run]);
        } else {
            return meet(row, column);
        }
    }
};

// Some elements that lie apart in memory, of which `element_at(i)` gives one.
template <class T, int count, class ElementAt>
__device__ __forceinline__ Vector<T, count> gathered(const ElementAt& element_at) {
    Vector<T, count> found;
#pragma unroll
    for (int i = 0; i < count; ++i) {
        found[i] = element_at(i);
    }
    return found;
}

// 16 of the columns that a warp has, from `first` on, as a left operand in registers.
template <class T, int count>
__device__ __forceinline__ void left_fragments(std::uint32_t (&fragments)[4],
                                               const float (&held)[count], int first) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const float* const elements = &held[(first / 8 + i / 2) * 4 + i % 2 * 2];
        Vector<T, 2> pair;
        round_pair(pair, 0, elements[0], elements[1]);
        fragments[i] = *reinterpret_cast<const std::uint32_t*>(&pair);
    }
}

// Hands what a thread has of 16 rows to `keep(row, column, elements)`, `vector` neighbours at a time.
template <int vector, int count, class Keep>
__device__ __forceinline__ void hand_over(const float (&held)[count], int first_row, int rows_here,
                                          const Keep& keep) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int row = first_row + half * 8 + lane / 4;
#pragma unroll
        for (int at = 0; at < count / 2; at += vector) {
            if (row < rows_here) {
                keep(row, at / 2 * 8 + lane % 4 * 2 + at % 2, &held[held_at(at, half)]);
            }
        }
    }
}

// The tiles that `depth` of what is summed over need, which take turns in shared memory, in so many
// `stages`: those of one step are multiplied while later ones are brought, by
// `bring_stage(stage, first_depth)`, with zeros beyond the operands.
template <int stages, int stage_size, int depth, class T, class BringStage>
struct TileRing {
    T* ring;
    int64_t depth_count;
    const BringStage& bring_stage;

    __device__ __forceinline__ int64_t steps() const { return (depth_count + depth - 1) / depth; }
    __device__ __forceinline__ T* stage(int64_t step) const {
        return ring + static_cast<int>(step % stages) * stage_size;
    }
    __device__ __forceinline__ int depth_here(int64_t step) const {
        return within(depth_count, step * depth, depth);
    }
    __device__ __forceinline__ void bring(int64_t step) const {
        if (step < steps()) {
            bring_stage(stage(step), step * depth);
        }
        cp_async_commit();
    }
};

}  // namespace fusegen
