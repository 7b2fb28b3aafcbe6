// c = a @ b.T in float32, of 16-bit matrices a (m x k) and b (n x k), k a multiple of 8: mma.sync,
// fed by ldmatrix from two stages that cp.async fills in turn.
#include <fusegen/mma.cuh>

using namespace fusegen;

constexpr int tile = 64, tile_k = 32, stages = 2, block_threads = 128;
constexpr int warp_tile = 32, piece = 8;  // elements of 16 bytes

// Brings tile_k columns of `tile` rows, with zeros beyond the matrix.
template <class T>
__device__ __forceinline__ void load(T (*shared)[tile_k], const T* matrix, int rows, int columns,
                                     int first_row, int first_column) {
    constexpr int pieces = tile * tile_k / piece;
    for (int i = threadIdx.x; i < pieces; i += block_threads) {
        const int row = i / (tile_k / piece), column = i % (tile_k / piece) * piece;
        const bool inside = first_row + row < rows && first_column + column < columns;
        const T* from = matrix;
        if (inside) {
            from += static_cast<std::int64_t>(first_row + row) * columns + first_column + column;
        }
        // found: MISSING_BARRIER_BEFORE_REUSE
        cp_async(&shared[row][column], from, inside ? 16 : 0);
    }
}

template <class T>
__global__ void __launch_bounds__(block_threads)
    product(const T* a, const T* b, float* c, int m, int n, int k) {
    using Tile = T[tile][tile_k];
    FUSEGEN_SHARED(Tile, tiles_a, stages);
    FUSEGEN_SHARED(Tile, tiles_b, stages);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int warp_row = warp / 2 * warp_tile, warp_column = warp % 2 * warp_tile;
    const int first_row = blockIdx.y * tile, first_column = blockIdx.x * tile;
    const int steps = (k + tile_k - 1) / tile_k;
    float sums[2][4][4] = {};
    for (int step = -1; step < steps; ++step) {
        if (step + 1 < steps) {
            const int stage = (step + 1) % stages;
            load(tiles_a[stage], a, m, k, first_row, (step + 1) * tile_k);
            load(tiles_b[stage], b, n, k, first_column, (step + 1) * tile_k);
        }
        cp_async_commit();
        if (step < 0) {
            continue;
        }
#ifndef MISSING_COPY_WAIT
        cp_async_wait<1>();
#endif
#ifndef MISSING_BARRIER_AFTER_WAIT
        __syncthreads();
#endif
#pragma unroll
        for (int inner = 0; inner < tile_k; inner += 16) {
            std::uint32_t fragments_a[2][4], fragments_b[2][4];
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                // Rows 0 to 15 of the low half of K, then of the high one.
                // found: MISSING_COPY_WAIT
                // found: MISSING_BARRIER_AFTER_WAIT
                ldmatrix(fragments_a[i],
                         &tiles_a[step % stages][warp_row + i * 16 + lane % 16][lane / 16 * 8],
                         inner * static_cast<int>(sizeof(T)));
                // Both halves of K for columns 0 to 7, then 8 to 15.
                ldmatrix(fragments_b[i],
                         &tiles_b[step % stages][warp_column + i * 16 + lane % 8 + lane / 16 * 8]
                                 [inner + lane / 8 % 2 * 8]);
            }
#pragma unroll
            for (int i = 0; i < 2; ++i) {
#pragma unroll
                for (int j = 0; j < 4; ++j) {
                    const std::uint32_t operand[2] = {fragments_b[j / 2][j % 2 * 2],
                                                      fragments_b[j / 2][j % 2 * 2 + 1]};
                    if (k - step * tile_k - inner > 8) {
                        mma_m16n8k16<T>(sums[i][j], fragments_a[i], operand);
                    } else {  // what lies behind is zero
                        const std::uint32_t rows[2] = {fragments_a[i][0], fragments_a[i][1]};
                        mma_m16n8k8<T>(sums[i][j], rows, operand[0]);
                    }
                }
            }
        }
#ifndef MISSING_BARRIER_BEFORE_REUSE
        __syncthreads();
#endif
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                const int row = first_row + warp_row + i * 16 + lane / 4 + e / 2 * 8;
                const int column = first_column + warp_column + j * 8 + lane % 4 * 2 + e % 2;
                if (row < m && column < n) {
                    c[static_cast<std::int64_t>(row) * n + column] = sums[i][j][e];
                }
            }
        }
    }
}

template <class T>
int launch_product(const T* a, const T* b, float* c, int m, int n, int k, void* stream) {
    const dim3 grid((n + tile - 1) / tile, (m + tile - 1) / tile);
    FUSEGEN_LAUNCH(product<T>, grid, dim3(block_threads), 0, stream, a, b, c, m, n, k);
    return FUSEGEN_LAST_ERROR();
}

FUSEGEN_EXPORT int run(const bfloat16* a, const bfloat16* b, float* c, int m, int n, int k,
                       void* stream) {
    return launch_product(a, b, c, m, n, k, stream);
}

FUSEGEN_EXPORT int run_float16(const float16* a, const float16* b, float* c, int m, int n, int k,
                               void* stream) {
    return launch_product(a, b, c, m, n, k, stream);
}
