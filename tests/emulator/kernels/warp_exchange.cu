// Lanes hand bytes to their neighbours through shared memory, warp by warp, without a barrier.
#include <fusegen/device.cuh>

constexpr int threads = 96;

__global__ void warp_exchange(const std::uint8_t* x, std::uint8_t* y) {
    FUSEGEN_SHARED(std::uint8_t, bytes, threads);
    const int thread = threadIdx.x;
    bytes[thread] = x[thread];
#ifdef SHUFFLE_AS_SYNCWARP
    __shfl_sync(0xffffffffu, thread, 0);
#elif !defined(MISSING_SYNCWARP)
    __syncwarp();
#endif
#ifdef NEIGHBOUR_IN_ANOTHER_WARP
    y[thread] = bytes[(thread + 32) % threads];  // found: NEIGHBOUR_IN_ANOTHER_WARP
#else
    // found: MISSING_SYNCWARP
    // found: SHUFFLE_AS_SYNCWARP
    y[thread] = bytes[thread ^ 1];
#endif
}

FUSEGEN_EXPORT int run(const std::uint8_t* x, std::uint8_t* y) {
    FUSEGEN_LAUNCH(warp_exchange, 1, threads, 0, nullptr, x, y);
    return FUSEGEN_LAST_ERROR();
}
