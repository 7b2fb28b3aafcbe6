// Two warps hand a row of shared memory back and forth by named barriers; one elected lane each
// counts the rounds. Blocks come in pairs, and each block reads its neighbour's row at the end.
#include <fusegen/hopper.cuh>

using namespace fusegen;

constexpr int lanes = 32, rounds = 3, threads = 2 * lanes;
constexpr int filled = 1, taken = 2;  // named barriers

__global__ void exchange(int* sums, int* neighbours, int* elected) {
    FUSEGEN_SHARED(int, row, lanes);
    FUSEGEN_SHARED(int, count, 2);
    const int lane = threadIdx.x % lanes, warp = threadIdx.x / lanes;
    if (threadIdx.x < 2) {
        count[threadIdx.x] = 0;
    }
    __syncthreads();
    int sum = 0;
    if (warp == 0) {
        for (int round = 0; round < rounds; ++round) {
            if (round > 0) {
#ifndef MISSING_TAKEN_BARRIER
                named_barrier_sync(taken, threads);
#endif
            }
            row[lane] = 100 * blockIdx.x + round + lane;  // found: MISSING_TAKEN_BARRIER
#if defined(BARRIER_ZERO)
            named_barrier_arrive(0, threads);  // found: BARRIER_ZERO
#elif defined(PART_OF_A_WARP)
            named_barrier_arrive(filled, threads - 1);  // found: PART_OF_A_WARP
#else
            named_barrier_arrive(filled, threads);
#endif
            if (elect_one()) {
                ++count[warp];
            }
        }
    } else {
        for (int round = 0; round < rounds; ++round) {
#ifdef OTHER_NUMBER_OF_THREADS
            // found: OTHER_NUMBER_OF_THREADS
            named_barrier_sync(filled, lanes);
#else
#ifndef MISSING_FILLED_BARRIER
            // found: MISSING_TAKEN_BARRIER
            named_barrier_sync(filled, threads);
#endif
#endif
            // found: MISSING_TAKEN_BARRIER
            sum += row[lanes - 1 - lane];  // found: MISSING_FILLED_BARRIER
            if (round + 1 < rounds) {
                named_barrier_arrive(taken, threads);
            }
            if (elect_one()) {
                ++count[warp];
            }
        }
        sums[blockIdx.x * lanes + lane] = sum;
    }
#ifdef NEVER_FILLED
    if (warp == 1) {
        named_barrier_sync(filled, threads);  // found: NEVER_FILLED
    }
#endif
#ifdef NEIGHBOUR_READ_EARLY
    __syncthreads();
#else
    cluster_sync();
#endif
    if (warp == 1) {
        // found: NEIGHBOUR_READ_EARLY
        // found: BLOCK_ENDS_EARLY
        neighbours[blockIdx.x * lanes + lane] = *cluster_shared(&row[lane], cluster_rank() ^ 1);
    }
    if (threadIdx.x < 2) {
        elected[blockIdx.x * 2 + threadIdx.x] = count[threadIdx.x];
    }
#ifndef BLOCK_ENDS_EARLY
    cluster_sync();
#endif
}

FUSEGEN_EXPORT int run(int* sums, int* neighbours, int* elected, int blocks, int cluster_blocks,
                       void* stream) {
    FUSEGEN_LAUNCH_CLUSTERS(exchange, dim3(blocks), dim3(threads), cluster_blocks, 0, stream, sums,
                            neighbours, elected);
    return FUSEGEN_LAST_ERROR();
}
