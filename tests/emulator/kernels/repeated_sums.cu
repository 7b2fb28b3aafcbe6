// Sums over a block and over a cluster, twice in a row, as row kernels take them.
#include "fusegen/cluster.cuh"
#include "fusegen/device.cuh"
#include "fusegen/reduce.cuh"
#include "fusegen/reduce_cluster.cuh"

namespace fusegen {

constexpr int threads = 128;
constexpr int cluster = 8;

// Each thread's result: the sum of the block's numbers, of their doubles, and of their threefold.
__global__ void block_sums(const int64_t* x, int64_t* y) {
    int turn = 0;
    const int64_t own = x[blockIdx.x * threads + threadIdx.x];
    int64_t total = 0;
    for (int64_t factor = 1; factor <= 3; ++factor) {
        // found: FIXED_TURN
        total += reduce_block<threads>(Sum<int64_t>{own * factor}, turn).result();
#ifdef FIXED_TURN
        turn = 0;
#endif
    }
    y[blockIdx.x * threads + threadIdx.x] = total;
}

// The same of the cluster's numbers, on devices that have clusters.
__global__ void cluster_sums(const int64_t* x, int64_t* y) {
#if FUSEGEN_HAS_CLUSTERS
    FUSEGEN_SHARED(std::uint64_t, barriers, 2);
    ClusterExchange exchange(barriers);
    const int64_t own = x[blockIdx.x * threads + threadIdx.x];
    int64_t total = 0;
    for (int64_t factor = 1; factor <= 3; ++factor) {
        // found: FIXED_TURN
        total += reduce_cluster<threads, cluster>(Sum<int64_t>{own * factor}, exchange).result();
#ifdef FIXED_TURN
        exchange.uses = 0;
#endif
    }
    y[blockIdx.x * threads + threadIdx.x] = total;
#else
    __trap();
#endif
}

FUSEGEN_EXPORT int run_block(const int64_t* x, int64_t* y, int blocks, void* stream) {
    FUSEGEN_LAUNCH(block_sums, dim3(blocks), dim3(threads), 0, stream, x, y);
    return FUSEGEN_LAST_ERROR();
}

FUSEGEN_EXPORT int run_cluster(const int64_t* x, int64_t* y, int blocks, void* stream) {
    FUSEGEN_LAUNCH_CLUSTERS(cluster_sums, dim3(blocks), dim3(threads), cluster, 0, stream, x, y);
    return FUSEGEN_LAST_ERROR();
}

}  // namespace fusegen
