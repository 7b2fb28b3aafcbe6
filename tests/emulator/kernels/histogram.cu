// Counts values with atomics, first in shared memory, then in global memory.
#include <fusegen/device.cuh>

constexpr int bins = 8;

__global__ void histogram(const int* x, int* counts, unsigned long long* total, int count) {
    FUSEGEN_SHARED(int, block_counts, bins);
    if (threadIdx.x < bins) {
        block_counts[threadIdx.x] = 0;
    }
    __syncthreads();
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) {
#ifdef PLAIN_UPDATE_IN_BLOCK
        block_counts[x[i]] += 1;  // found: PLAIN_UPDATE_IN_BLOCK
#else
        atomicAdd(&block_counts[x[i]], 1);
#endif
    }
    __syncthreads();
    if (threadIdx.x < bins) {
#ifdef PLAIN_UPDATE_BETWEEN_BLOCKS
        counts[threadIdx.x] += block_counts[threadIdx.x];  // found: PLAIN_UPDATE_BETWEEN_BLOCKS
#else
        atomicAdd(&counts[threadIdx.x], block_counts[threadIdx.x]);
#endif
    }
    if (threadIdx.x == 0) {
        atomicMax(total, static_cast<unsigned long long>(blockIdx.x));
    }
#ifdef READ_BETWEEN_BLOCKS
    if (threadIdx.x == 0 && counts[0] > count) counts[0] = 0;  // found: READ_BETWEEN_BLOCKS
#endif
}

FUSEGEN_EXPORT int run(const int* x, int* counts, unsigned long long* total, int count,
                       int blocks) {
    FUSEGEN_LAUNCH(histogram, blocks, 64, 0, nullptr, x, counts, total, count);
    return FUSEGEN_LAST_ERROR();
}
