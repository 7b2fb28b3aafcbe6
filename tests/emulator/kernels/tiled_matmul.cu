// c = a @ b in square tiles, two-dimensional blocks, edges padded with zeros.
#include <fusegen/device.cuh>

constexpr int tile = 16;

__global__ void matmul(const float* a, const float* b, float* c, int m, int n, int k) {
    FUSEGEN_SHARED(float, tile_a, tile* tile);
    FUSEGEN_SHARED(float, tile_b, tile* tile);
    const int row = blockIdx.y * tile + threadIdx.y, column = blockIdx.x * tile + threadIdx.x;
    const int own = threadIdx.y * tile + threadIdx.x;
    float sum = 0.0f;
    for (int start = 0; start < k; start += tile) {
        const int inner_a = start + threadIdx.x, inner_b = start + threadIdx.y;
#ifdef UNINITIALISED_SHARED_READ
        if (row < m && inner_a < k) tile_a[own] = a[row * k + inner_a];
#else
        tile_a[own] = row < m && inner_a < k ? a[row * k + inner_a] : 0.0f;
#endif
        tile_b[own] = inner_b < k && column < n ? b[inner_b * n + column] : 0.0f;
#ifndef MISSING_BARRIER_AFTER_WRITE
        __syncthreads();
#endif
#pragma unroll 1
        for (int i = 0; i < tile; ++i) {
            // found: UNINITIALISED_SHARED_READ
            // found: MISSING_BARRIER_AFTER_WRITE
            // found: MISSING_BARRIER_BEFORE_REUSE
            sum += tile_a[threadIdx.y * tile + i] * tile_b[i * tile + threadIdx.x];
        }
#ifndef MISSING_BARRIER_BEFORE_REUSE
        __syncthreads();
#endif
    }
    if (row < m && column < n) {
        c[row * n + column] = sum;
    }
}

FUSEGEN_EXPORT int run(const float* a, const float* b, float* c, int m, int n, int k) {
    const dim3 grid((n + tile - 1) / tile, (m + tile - 1) / tile);
    FUSEGEN_LAUNCH(matmul, grid, dim3(tile, tile), 0, nullptr, a, b, c, m, n, k);
    return FUSEGEN_LAST_ERROR();
}
