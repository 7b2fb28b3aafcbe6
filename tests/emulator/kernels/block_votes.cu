// Block-wide votes, and the ways in which a block can come to a standstill.
#include <fusegen/device.cuh>

__global__ void block_votes(const int* x, int* y) {
    const int thread = threadIdx.x;
#ifdef DIVERGENT_BARRIER
    if (thread < 40) {
        __syncthreads();  // found: DIVERGENT_BARRIER
    } else {
        __syncthreads();
    }
#endif
#ifdef BARRIER_AFTER_EXIT
    if (thread >= 40) return;
#endif
    const int value = x[blockIdx.x * blockDim.x + thread];
    const int any = __syncthreads_or(value > 5);  // found: BARRIER_AFTER_EXIT
    const int all = __syncthreads_and(value > 5);
    const int count = __syncthreads_count(value > 5);
#ifdef DEADLOCK
    if (thread % 2 == 0) {
        y[0] = __shfl_xor_sync(0xffffffffu, value, 2);  // found: DEADLOCK
    } else {
        __syncthreads();
    }
#endif
    if (thread == 0) {
        y[blockIdx.x * 3] = any;
        y[blockIdx.x * 3 + 1] = all;
        y[blockIdx.x * 3 + 2] = count;
    }
}

FUSEGEN_EXPORT int run(const int* x, int* y, int blocks, int threads) {
    FUSEGEN_LAUNCH(block_votes, blocks, threads, 0, nullptr, x, y);
    return FUSEGEN_LAST_ERROR();
}
