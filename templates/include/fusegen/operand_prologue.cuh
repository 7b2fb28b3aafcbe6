// Operands of a product that are made in shared memory: what a copy has brought there is replaced
// before it is multiplied.
#pragma once

#include "dtypes.cuh"
#include "neighbours.cuh"

namespace fusegen {

// For an operand that is multiplied as it is.
struct Untouched {
    template <class... Arguments>
    __device__ __forceinline__ void operator()(Arguments&&...) const {}
};

// Replaces a tile of `lines` rows or columns by `depth` as a bulk copy with the 128-byte swizzle
// leaves it, by `count` threads of which this is number `thread`. The tile begins at `first_line`
// and `first_depth`; lines from `lines_here` on may be left as they are. `prepare` takes 16 bytes of
// neighbours, a line and a depth.
//
// Rows of 128 bytes hold neighbours in depth, or, in chunks of as many lines as fit, in lines.
template <Neighbours neighbours, int lines, int depth, class T, class Prepare>
__device__ __forceinline__ void prepare_tile(T* tile, int thread, int count, int64_t first_line,
                                             int64_t lines_here, int64_t first_depth,
                                             const Prepare& prepare) {
    constexpr bool in_depth = neighbours == Neighbours::in_depth;
    constexpr int vector = access_bytes / static_cast<int>(sizeof(T));
    constexpr int row_pieces = 8;
    constexpr int row_size = row_pieces * vector;
    static_assert(!in_depth || depth == row_size, "a row holds a step of the depth");
    const int rows = !in_depth            ? lines / row_size * depth
                     : lines_here < lines ? static_cast<int>(lines_here)
                                          : lines;
#pragma unroll 4
    for (int i = thread; i < rows * row_pieces; i += count) {
        const int row = i / row_pieces;
        const int column = (i % row_pieces ^ row % row_pieces) * vector;
        auto piece = load_vector<T, vector>(tile + i * vector);
        if constexpr (in_depth) {
            prepare(piece, first_line + row, first_depth + column);
        } else {
            prepare(piece, first_line + row / depth * row_size + column,
                    first_depth + row % depth);
        }
        store_vector(tile + i * vector, piece);
    }
}

}  // namespace fusegen
