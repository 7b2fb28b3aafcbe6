// Exchanges between lanes after a warpgroup's products, for wide accesses to the result's rows.
//
// Four lanes share a row of the accumulators; of every 32 columns each holds four pairs, 8 columns
// apart. These become 8 neighbours when pair j of lane q becomes pair q of lane j: a transposition of 4
// by 4 in two rounds, in each of which two lanes exchange half of what they have.
#pragma once

#include "reduce.cuh"

namespace fusegen {

template <class T>
__device__ __forceinline__ void exchange_fourths(T& first, T& second, T& third, T& fourth) {
    const bool is_odd = threadIdx.x & 1, is_upper = threadIdx.x & 2;
    const auto exchange = [](T& low, T& high, bool gives_low, int lane_mask) {
        const T taken = shuffle_xor(whole_warp, gives_low ? low : high, lane_mask);
        low = gives_low ? taken : low;
        high = gives_low ? high : taken;
    };
    exchange(first, third, is_upper, 2);
    exchange(second, fourth, is_upper, 2);
    exchange(first, second, is_odd, 1);
    exchange(third, fourth, is_odd, 1);
}

// Exchanges a thread's sums: of 32 columns there are 16, four of each pair's two rows.
template <int count>
__device__ __forceinline__ void exchange_columns(float (&sums)[count]) {
    static_assert(count % 16 == 0, "there are whole exchanges");
#pragma unroll
    for (int run = 0; run < count; run += 16) {
#pragma unroll
        for (int i = run; i < run + 4; ++i) {
            exchange_fourths(sums[i], sums[i + 4], sums[i + 8], sums[i + 12]);
        }
    }
}

// Exchanges a thread's results in a row of 32 columns.
template <class T>
__device__ __forceinline__ Vector<T, 8> exchange_columns(Vector<T, 8> results) {
    static_assert(sizeof(T) == 2, "a pair is a word");
    unsigned pairs[4];
    memcpy(pairs, &results, sizeof(pairs));
    exchange_fourths(pairs[0], pairs[1], pairs[2], pairs[3]);
    memcpy(&results, pairs, sizeof(pairs));
    return results;
}

}  // namespace fusegen
