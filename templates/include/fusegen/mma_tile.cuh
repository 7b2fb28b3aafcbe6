// Tiles of operands in shared memory as warps read fragments of them.
#pragma once

#include "operand_tile.cuh"

namespace fusegen {

template <class T, int lines, int depth, Neighbours neighbours, RowOrder order = RowOrder::as_is>
struct MmaTile : OperandTile<T, lines, depth, neighbours, PaddedRows, order> {
    using Base = OperandTile<T, lines, depth, neighbours, PaddedRows, order>;
    using Base::in_depth;
    static constexpr int pitch = Base::Rows::pitch;

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

// Adds to two neighbouring 16 x 8 blocks of a result, `sums`, the product of a left operand with the
// 16 lines and 16 of depth that `MmaTile::right` reads.
template <class T>
__device__ __forceinline__ void mma_pair(float* sums, const std::uint32_t (&left)[4],
                                         const std::uint32_t (&right)[4]) {
#pragma unroll
    for (int block = 0; block < 2; ++block) {
        const std::uint32_t operand[2] = {right[block * 2], right[block * 2 + 1]};
        float own[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            own[i] = sums[block * 4 + i];
        }
        mma_m16n8k16<T>(own, left, operand);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            sums[block * 4 + i] = own[i];
        }
    }
}

}  // namespace fusegen
