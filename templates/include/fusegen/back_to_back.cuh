// Products of matrices that are themselves made of products: these are multiplied again from the
// registers that they are summed in, a tile of columns at a time, and never in memory (CUTLASS calls
// that back-to-back products).
#pragma once

#include "operand_tile.cuh"
#include "row_fragments.cuh"

namespace fusegen {

// Makes left operands of `second_count` second products of the `count` first products that a thread
// has: `make(row, column, of_row, met, products, made)` does so for neighbours, with what belongs to
// their row and what has been `met` at their place. Columns that are not there become zeros.
template <class T, int second_count, int count, int size, class Places, class OfRow,
          class MetThere, class Make>
__device__ __forceinline__ void make_operands(std::uint32_t (&operands)[second_count][size / 8][4],
                                              const float (&held)[count][size],
                                              const Places& places, const OfRow (&of_rows)[2],
                                              const MetThere& met, const Make& make) {
    constexpr int vector = Places::neighbours;
    float all_made[second_count][size];
    places.for_each([&](int half, int at, int row, int64_t column) {
        float products[count][vector], made[second_count][vector];
#pragma unroll
        for (int i = 0; i < count; ++i) {
#pragma unroll
            for (int element = 0; element < vector; ++element) {
                products[i][element] = held[i][held_at(at + element, half)];
            }
        }
        make(row, column, of_rows[half], met.at(half, at / vector, row, column), products, made);
#pragma unroll
        for (int i = 0; i < second_count; ++i) {
#pragma unroll
            for (int element = 0; element < vector; ++element) {
                all_made[i][held_at(at + element, half)] = made[i][element];
            }
        }
    });
#pragma unroll
    for (int i = 0; i < second_count; ++i) {
        places.fill_beyond(all_made[i], 0.0f);
#pragma unroll
        for (int first = 0; first < size / 8; ++first) {
            left_fragments<T>(operands[i][first], all_made[i], first * 16);
        }
    }
}

// What belongs to each of the two rows of a thread, which `meet_row(row)` finds.
template <class OfRow, class MeetRow>
__device__ __forceinline__ void of_held_rows(OfRow (&of_rows)[2], int first_row, int rows_here,
                                             const MeetRow& meet_row) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        of_rows[half] = meet_row(held_row(first_row, half, rows_here));
    }
}

}  // namespace fusegen
