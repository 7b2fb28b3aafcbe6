// Reductions over a cluster of blocks, through each other's shared memory.
#pragma once

#include "cluster.cuh"
#include "reduce.cuh"

#if FUSEGEN_HAS_CLUSTERS

namespace fusegen {

// What the reductions of a kernel have in common: two barriers of each block, which count what the
// cluster's blocks send it. They take turns, and so do the two halves of an array.
//
// Nobody fills a half again before all warps have sent their part of the reduction between, and so
// have read it. A block may end after its last reduction: all that was sent to it has come.
struct ClusterExchange {
    std::uint64_t* barriers;
    unsigned uses;

    // Every thread of every block must call it; `shared` has two elements.
    __device__ __forceinline__ explicit ClusterExchange(std::uint64_t* shared)
        : barriers(shared), uses(0) {
        if (threadIdx.x == 0) {
            mbarrier_init(barriers, 1);
            mbarrier_init(barriers + 1, 1);
            mbarrier_fence_init();
        }
        cluster_sync();  // no block sends to another before that has started
    }
};

// A state as whole words, which is what blocks send each other.
template <class State>
struct alignas(alignof(State) < 4 ? 4 : alignof(State)) SentState {
    State state;
};

// The merged state of `count` neighbours, a power of two, those of a warp each.
template <int count, class State>
__device__ __forceinline__ State merge_sent(const SentState<State>* states) {
    if constexpr (count == 1) {
        return states->state;
    } else {
        State state = merge_sent<count / 2>(states);
        merge_alike(state, merge_sent<count / 2>(states + count / 2), 32 * (count / 2));
        return state;
    }
}

// Of sums the greatest first, as reduce_lanes.
template <int count, class T, bool near>
__device__ __forceinline__ ShiftedSum<T, near> merge_sent(
    const SentState<ShiftedSum<T, near>>* states) {
    T greatest = states->state.greatest;
#pragma unroll
    for (int i = 1; i < count; ++i) {
        greatest = maximum(greatest, states[i].state.greatest);
    }
    T sum = T(0);
#pragma unroll
    for (int i = 0; i < count; ++i) {
        sum += states[i].state.sum * states[i].state.factor(greatest);
    }
    return {greatest, sum};
}

// The merged state of all threads of a cluster of `blocks` blocks of `threads`, in each of them.
// Every thread must call it.
template <int threads, int blocks, class State>
__device__ __forceinline__ State reduce_cluster(State state, ClusterExchange& exchange) {
    constexpr int warps = threads / 32;
    constexpr int count = warps * blocks;
    constexpr int each = count / 32;
    static_assert(each > 0 && count % 32 == 0, "each lane merges as many states");
    FUSEGEN_SHARED(SentState<State>, states, 2 * count);
    const unsigned turn = exchange.uses % 2;
    const unsigned parity = exchange.uses / 2 % 2;
    ++exchange.uses;
    SentState<State>* const exchanged = states + turn * count;
    std::uint64_t* const barrier = exchange.barriers + turn;
    if (threadIdx.x == 0) {
        mbarrier_arrive_expect(barrier, count * sizeof(SentState<State>));
    }
    state = reduce_lanes<32>(state);
    __syncwarp();  // what follows comes after all that the warp has read of the last reduction
    const unsigned lane = threadIdx.x % 32;
    if (lane < blocks) {
        const SentState<State> sent{state};
        cluster_send(exchanged + cluster_rank() * warps + threadIdx.x / 32, sent, barrier, lane);
    }
    mbarrier_wait(barrier, parity);
    return reduce_lanes<32, 32 * each>(merge_sent<each>(exchanged + lane * each));
}

}  // namespace fusegen

#endif
