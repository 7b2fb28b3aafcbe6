// An exchange of a warpgroup product's sums between lanes, for wide accesses to the result's rows.
#pragma once

#include "reduce.cuh"

namespace fusegen {

// Four lanes share a row of the accumulators; of every 32 columns each holds four pairs, 8 columns
// apart. Makes these 8 neighbours: pair j of lane q becomes pair q of lane j. A 4 by 4 transposition
// takes two rounds, in which two lanes exchange half of what they have.
template <int count>
__device__ __forceinline__ void exchange_columns(float (&sums)[count]) {
    constexpr int run = 16;  // sums of 32 columns of two rows
    static_assert(count % run == 0, "there are whole exchanges");
    const bool is_odd = threadIdx.x & 1, is_upper = threadIdx.x & 2;
    const auto exchange = [&](float& first, float& second, bool gives_first, int lane_mask) {
        const float taken = shuffle_xor(whole_warp, gives_first ? first : second, lane_mask);
        first = gives_first ? taken : first;
        second = gives_first ? second : taken;
    };
#pragma unroll
    for (int i = 0; i < count; i += run) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {  // of a pair, in either row
            float* const pairs = sums + i + j;
            exchange(pairs[0], pairs[8], is_upper, 2);
            exchange(pairs[4], pairs[12], is_upper, 2);
            exchange(pairs[0], pairs[4], is_odd, 1);
            exchange(pairs[8], pairs[12], is_odd, 1);
        }
    }
}

}  // namespace fusegen
