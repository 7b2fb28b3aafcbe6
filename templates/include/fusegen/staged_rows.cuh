// Results of a warp that go through shared memory on their way to rows of any alignment.
#pragma once

#include "device.cuh"

namespace fusegen {

// Stores a warp's `lines` x `width` results, which lie `pitch` apart in shared memory, to rows from
// `first_row` and columns from `first_column` on, as far as these are among `rows` and `columns`.
// `place` tells the position of an element; as many neighbours are stored together, `most` at most,
// as divide the number of columns.
template <int lines, int width, int pitch, int most, class T, class Place>
__device__ __forceinline__ void store_staged(const T* staged, T* __restrict__ result,
                                             int64_t first_row, int64_t rows, int64_t first_column,
                                             int64_t columns, Place place) {
    const auto store_by = [&](auto together) {
        constexpr int vector = decltype(together)::value;
        constexpr int steps = lines * width / (32 * vector);
        constexpr int beside = width / vector;  // accesses that make a line
#pragma unroll
        for (int step = 0; step < steps; ++step) {
            const int access = step * 32 + static_cast<int>(threadIdx.x % 32);
            const int line = access / beside, at = access % beside * vector;
            const int64_t row = first_row + line, column = first_column + at;
            if (row < rows && column < columns) {
                store_vector(result + place(row, column),
                             load_vector<T, vector>(staged + line * pitch + at));
            }
        }
    };
    if (columns % most == 0) {
        store_by(std::integral_constant<int, most>{});
    } else if (columns % 4 == 0) {
        store_by(std::integral_constant<int, 4>{});
    } else if (columns % 2 == 0) {
        store_by(std::integral_constant<int, 2>{});
    } else {
        store_by(std::integral_constant<int, 1>{});
    }
}

}  // namespace fusegen
