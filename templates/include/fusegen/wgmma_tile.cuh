// Tiles of operands in shared memory as warpgroups multiply them.
#pragma once

#include "operand_tile.cuh"
#include "wgmma.cuh"

namespace fusegen {

template <class T, int lines, int depth, Neighbours neighbours, RowOrder order = RowOrder::as_is>
struct WgmmaTile : OperandTile<T, lines, depth, neighbours, SwizzledRows, order> {
    using Base = OperandTile<T, lines, depth, neighbours, SwizzledRows, order>;
    using Base::in_depth;
    using Rows = typename Base::Rows;
    static constexpr Major major = in_depth ? Major::k : Major::mn;

    // What tells wgmma of the lines from `line` and 16 of depth from `at_depth` on. Lines are multiples
    // of 64, or 0.
    static __device__ __forceinline__ std::uint64_t descriptor(const T* tile, int line,
                                                               int at_depth) {
        // Places are told in units of 16 bytes, so that a constant is added to that of the tile.
        if constexpr (in_depth) {
            const int offset = at_depth / Rows::row_size * Rows::chunk_size +
                               line * Rows::row_size + at_depth % Rows::row_size;
            return wgmma_descriptor(tile) + offset / Base::piece;
        } else {
            const int offset =
                line / Rows::row_size * Rows::chunk_size + at_depth * Rows::row_size;
            return wgmma_descriptor_mn_major(tile,
                                             Rows::chunk_size * static_cast<unsigned>(sizeof(T))) +
                   offset / Base::piece;
        }
    }
};

}  // namespace fusegen
