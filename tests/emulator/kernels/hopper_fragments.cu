// Moves a 32 x 32 matrix of 16-bit elements through fragments: ldmatrix and stmatrix, transposed on
// demand. Each of four warps moves 16 rows and 16 columns.
#include <fusegen/mma.cuh>

using namespace fusegen;

constexpr int side = 32;

template <bool transposed>
__global__ void move(const std::uint16_t* source, std::uint16_t* target) {
    using Row = std::uint16_t[side];
    FUSEGEN_SHARED(Row, before, side);
    FUSEGEN_SHARED(Row, after, side);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (int i = threadIdx.x; i < side * side; i += blockDim.x) {
        before[i / side][i % side] = source[i];
    }
    __syncthreads();
    const int row = warp / 2 * 16, column = warp % 2 * 16;
    // The four fragments lie in the corners: two below each other, then the next two columns.
    const int down = lane % 16, right = lane / 16 * 8;
    std::uint32_t fragments[4];
    if constexpr (transposed) {
        ldmatrix_transposed(fragments, &before[row + down][column + right]);
        const int across = lane / 8 % 2 * 8, below = lane % 8 + right;
        stmatrix(&after[column + below][row + across], fragments);
    } else {
#ifdef MISALIGNED_ROW
        ldmatrix(fragments, &before[row + down][column + right + 1]);  // found: MISALIGNED_ROW
#else
        ldmatrix(fragments, &before[row + down][column + right]);
#endif
        stmatrix(&after[row + down][column + right], fragments);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < side * side; i += blockDim.x) {
        target[i] = after[i / side][i % side];
    }
}

FUSEGEN_EXPORT int run(const std::uint16_t* source, std::uint16_t* target, void* stream) {
    FUSEGEN_LAUNCH(move<false>, dim3(1), dim3(128), 0, stream, source, target);
    return FUSEGEN_LAST_ERROR();
}

FUSEGEN_EXPORT int run_transposed(const std::uint16_t* source, std::uint16_t* target,
                                  void* stream) {
    FUSEGEN_LAUNCH(move<true>, dim3(1), dim3(128), 0, stream, source, target);
    return FUSEGEN_LAST_ERROR();
}
