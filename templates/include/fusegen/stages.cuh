// Stages in shared memory that a block's first warpgroup fills with tiles, while others multiply.
#pragma once

#include "mma.cuh"
#include "reduce.cuh"
#include "tma.cuh"
#include "warp_roles.cuh"

namespace fusegen {

// Which of a block's multiplying warpgroups this one is, the first being the loader's: the same for
// all lanes, which the compiler is told this way.
__device__ __forceinline__ int multiplying_warpgroup() {
    return shuffle(whole_warp, static_cast<int>(threadIdx.x) / 128 - 1, 0);
}

// Stages that are filled and used up in turn. Whoever fills or uses them has this by itself, with the
// stage whose turn it is.
template <int stages>
struct Stages {
    static constexpr int barrier_count = 2 * stages;

    std::uint64_t* arrived;  // of each stage: what it has is there
    std::uint64_t* free;     // of each stage: all are done with what it had
    int stage = 0;
    unsigned phase = 0;

    explicit __device__ __forceinline__ Stages(std::uint64_t* barriers)
        : arrived(barriers), free(barriers + stages) {}

    // Makes the barriers for `users` warpgroups. One thread does it, before anybody waits.
    __device__ __forceinline__ void make_barriers(int users) const {
        for (int i = 0; i < stages; ++i) {
            mbarrier_init(&arrived[i], 1);
            mbarrier_init(&free[i], users);
        }
    }

    __device__ __forceinline__ void next() {
        stage = stage + 1 == stages ? 0 : stage + 1;
        phase ^= stage == 0;
    }

    // Waits until what the stage has is there.
    __device__ __forceinline__ void await() const { mbarrier_wait(&arrived[stage], phase); }

    // Tells that this warpgroup is done with it.
    __device__ __forceinline__ void release() const {
        if (threadIdx.x % 128 == 0) {
            mbarrier_arrive(&free[stage]);
        }
    }

    // Fills the stage once it is free, and turns to the next: `bring(barrier)` brings `bytes` by bulk
    // copies, or where these cannot, `copy()` by copies of 16 bytes. All of the warpgroup take part;
    // only its first warp waits for the stage, and the others for that where there is something to
    // copy.
    template <class Bring, class Copy>
    __device__ __forceinline__ void fill(bool in_bulk, unsigned bytes, const Bring& bring,
                                         const Copy& copy) {
        if (threadIdx.x < 32) {
            mbarrier_wait(&free[stage], phase ^ 1);
            __syncwarp();  // no lane is left behind, where it would miss a phase
        }
        if (in_bulk) {
            if (threadIdx.x == 0) {
                mbarrier_arrive_expect(&arrived[stage], bytes);
                bring(&arrived[stage]);
            }
        } else {
            named_barrier_sync(1, 128);
            copy();
            cp_async_commit();
            cp_async_wait<0>();
            fence_async_shared();
            named_barrier_sync(1, 128);
            if (threadIdx.x == 0) {
                mbarrier_arrive(&arrived[stage]);
            }
        }
        next();
    }
};

}  // namespace fusegen
