// Reductions over a cluster of blocks, through each other's shared memory.
#pragma once

#include "cluster.cuh"
#include "reduce.cuh"

#if FUSEGEN_HAS_CLUSTERS

namespace fusegen {

// The merged state of all threads of a cluster of `blocks` blocks of `threads`, in each of them.
// Every thread must call it, and every block must have started. `turn` is as in `reduce_block`.
//
// Each warp hands its state to every block, so that one barrier does and none reads from a block
// that may have ended.
template <int threads, int blocks, class State>
__device__ __forceinline__ State reduce_cluster(State state, int& turn) {
    constexpr int warps = threads / 32;
    constexpr int count = warps * blocks;
    constexpr int each = count / 32;
    static_assert(each > 0 && count % 32 == 0, "each lane merges as many states");
    FUSEGEN_SHARED(State, states, 2 * count);
    State* const exchanged = states + turn * count;
    turn ^= 1;
    state = reduce_lanes<32>(state);
    const unsigned lane = threadIdx.x % 32;
    if (lane < blocks) {
        *cluster_shared(exchanged + cluster_rank() * warps + threadIdx.x / 32, lane) = state;
    }
    cluster_sync();
    state = exchanged[lane * each];
#pragma unroll
    for (int i = 1; i < each; ++i) {
        state.merge(exchanged[lane * each + i]);
    }
    return reduce_lanes<32>(state);
}

}  // namespace fusegen

#endif
