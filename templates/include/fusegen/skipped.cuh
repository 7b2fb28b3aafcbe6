// Sums in which zeros that have no part may have met an infinity.
#pragma once

#include "device.cuh"

namespace fusegen {

// Makes those of a thread's sums again that are NaN: `again` is given the number of one, and itself.
// Registers have no numbers at run time, so that each is found, and put back, among all.
template <int count, class Again>
__device__ __forceinline__ void sum_nans_again(float (&sums)[count], Again again) {
    bool any = false;
#pragma unroll
    for (int i = 0; i < count; ++i) {
        any |= sums[i] != sums[i];
    }
    if (!any) {
        return;
    }
#pragma unroll 1
    for (int at = 0; at < count; ++at) {
        float sum = 0.0f;
#pragma unroll
        for (int i = 0; i < count; ++i) {
            sum = i == at ? sums[i] : sum;
        }
        if (sum != sum) {
            sum = again(at, sum);
        }
#pragma unroll
        for (int i = 0; i < count; ++i) {
            sums[i] = i == at ? sum : sums[i];
        }
    }
}

}  // namespace fusegen
