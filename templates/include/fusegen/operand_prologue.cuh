// Operands of a product that are made in shared memory: what a copy has brought there is replaced
// before it is multiplied.
#pragma once

#include "addressing.cuh"
#include "dtypes.cuh"
#include "neighbours.cuh"

namespace fusegen {

// For an operand that is multiplied as it is.
struct Untouched {
    template <class... Arguments>
    __device__ __forceinline__ void operator()(Arguments&&...) const {}
};

// Replaces a tile of `lines` rows or columns by `depth` as a bulk copy with the 128-byte swizzle
// leaves it, by `threads` threads of which this is number `thread`. The tile begins at `first_line`
// and `first_depth`; what is beyond `depth_here` stays, and what is beyond `lines_here` does not
// matter. `prepare` is given the depth of 16 bytes of neighbours, or of the first of them, and makes
// what takes these and their line: neighbours in depth share what belongs to their depth with those of
// all lines that a thread has.
//
// Rows of 128 bytes hold neighbours in depth, or, in chunks of as many lines as fit, in lines.
template <Neighbours neighbours, int lines, int depth, int threads, class T, class Prepare>
__device__ __forceinline__ void prepare_tile(T* tile, int thread, int64_t first_line,
                                             int lines_here, int64_t first_depth, int depth_here,
                                             const Prepare& prepare) {
    constexpr bool in_depth = neighbours == Neighbours::in_depth;
    constexpr int vector = access_bytes / static_cast<int>(sizeof(T));
    constexpr int row_pieces = 8;
    constexpr int row_size = row_pieces * vector;
    constexpr int height = in_depth ? lines : lines / row_size * depth;
    constexpr int step = threads / row_pieces;  // rows that the threads take at once
    constexpr int turns = height / step;
    static_assert(!in_depth || depth == row_size, "a row holds a step of the depth");
    static_assert(step % 8 == 0, "a thread's pieces are in the same place of their rows");
    static_assert(height % step == 0 && (in_depth || depth % step == 0), "no thread has fewer");
    constexpr int together = turns % 4 == 0 ? 4 : turns % 2 == 0 ? 2 : 1;  // loaded, then stored
    const int own_row = thread / row_pieces;
    const int own_column = (thread % row_pieces ^ own_row % 8) * vector;
    T* const own = tile + thread * vector;
    const auto take = [&](int first, const auto& make) {
        Vector<T, vector> loaded[together];
#pragma unroll
        for (int i = 0; i < together; ++i) {
            loaded[i] = load_vector<T, vector>(own + (first + i) * threads * vector);
        }
#pragma unroll
        for (int i = 0; i < together; ++i) {
            make(loaded[i], (first + i) * step);
            store_vector(own + (first + i) * threads * vector, loaded[i]);
        }
    };
    if constexpr (in_depth) {
        if (own_column < depth_here) {
            const auto prepare_line = prepare(first_depth + own_column);
#pragma unroll
            for (int first = 0; first < turns; first += together) {
                // Lines beyond the last take what is there for that: no branch keeps them apart.
                take(first, [&](Vector<T, vector>& piece, int before) {
                    const int line = before + own_row;
                    const int last = lines_here - 1;
                    prepare_line(piece, first_line + (line < last ? line : last));
                });
            }
        }
    } else {
#pragma unroll
        for (int first = 0; first < turns; first += together) {
            take(first, [&](Vector<T, vector>& piece, int before) {
                const int line = before / depth * row_size + own_column;
                const int at_depth = before % depth + own_row;
                if (line < lines_here && at_depth < depth_here) {
                    prepare(first_depth + at_depth)(piece, first_line + line);
                }
            });
        }
    }
}

}  // namespace fusegen
