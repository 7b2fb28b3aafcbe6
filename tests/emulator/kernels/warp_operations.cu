// Every shuffle and vote, one result of each a thread. The last warp of the block may be partial.
#include <fusegen/device.cuh>

struct Triple {
    float first;
    double second;
    short third;
};

constexpr int results = 10;

__global__ void warp_operations(int* y) {
    const unsigned all = 0xffffffffu;
    const int thread = threadIdx.x, lane = thread % 32;
    // The lanes of this warp that the block has.
    const int lanes = min(32, static_cast<int>(blockDim.x) - thread / 32 * 32);
    const unsigned present = lanes == 32 ? all : (1u << lanes) - 1;
    int* out = y + thread * results;

#ifdef EXITED_LANE
    if (lane == 5) return;
#endif
#ifdef MASK_WITHOUT_SELF
    out[0] = __shfl_sync(present & ~2u, thread, 0);  // found: MASK_WITHOUT_SELF
#endif
#ifdef SOURCE_OUTSIDE_MASK
    if (lane < 4) out[0] = __shfl_sync(0xfu, thread, 7);  // found: SOURCE_OUTSIDE_MASK
#endif
#ifdef DIVERGENT_LANES
    if (lane < 3) {
        out[0] = __shfl_sync(present, thread, 0);  // found: DIVERGENT_LANES
    } else {
        out[0] = __shfl_sync(present, thread, 1);
    }
#endif
    out[0] = __shfl_sync(present, thread, 1);
    out[1] = __shfl_up_sync(present, thread, 3);  // found: EXITED_LANE
    out[2] = __shfl_xor_sync(present, thread, 1, 8);
#ifdef ABSENT_LANE
    out[3] = __shfl_sync(all, thread, 31);  // found: ABSENT_LANE
#else
    out[3] = __shfl_sync(present, thread, lanes - 1);
#endif
    out[4] = static_cast<int>(__ballot_sync(present, lane % 3 == 0));
    out[5] = __any_sync(present, lane == 2) * 2 + __all_sync(present, lane < lanes);
    out[6] = __all_sync(present, lane != 2);
    const Triple own{thread + 0.5f, thread + 0.25, static_cast<short>(-thread)};
    const Triple other = fusegen::shuffle_xor(present, own, 1);
    out[7] = other.first == (thread ^ 1) + 0.5f && other.second == (thread ^ 1) + 0.25 &&
             other.third == -(thread ^ 1);
    out[8] = static_cast<int>(fusegen::shuffle(present, own, 0).first);
    out[9] = __shfl_down_sync(present, thread, lane + 2 < lanes ? 2 : 0);
    __syncwarp();
}

FUSEGEN_EXPORT int run(int* y, int threads) {
    FUSEGEN_LAUNCH(warp_operations, dim3(1), dim3(threads), 0, nullptr, y);
    return FUSEGEN_LAST_ERROR();
}
