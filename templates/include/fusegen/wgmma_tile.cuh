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
        if constexpr (in_depth) {
            return wgmma_descriptor(tile + at_depth / Rows::row_size * Rows::chunk_size +
                                    line * Rows::row_size + at_depth % Rows::row_size);
        } else {
            return wgmma_descriptor_mn_major(
                tile + line / Rows::row_size * Rows::chunk_size + at_depth * Rows::row_size,
                Rows::chunk_size * static_cast<unsigned>(sizeof(T)));
        }
    }
};

}  // namespace fusegen
