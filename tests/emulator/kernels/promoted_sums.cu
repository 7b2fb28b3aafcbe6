// Sums of many numbers, promoted one by one.
#include "fusegen/device.cuh"
#include "fusegen/split.cuh"

namespace fusegen {

// Each thread sums up a row of `count` numbers.
__global__ void row_sums(const float* x, float* y, int count) {
    float totals[1] = {}, sums[1] = {};
    for (int i = 0; i < count; ++i) {
#ifdef ROUNDED
        totals[0] += x[threadIdx.x * count + i];
#else
        sums[0] += x[threadIdx.x * count + i];
        promote(totals, sums);
#endif
    }
    y[threadIdx.x] = totals[0] + sums[0];
}

FUSEGEN_EXPORT int run(const float* x, float* y, int count, void* stream) {
    FUSEGEN_LAUNCH(row_sums, dim3(1), dim3(32), 0, stream, x, y, count);
    return FUSEGEN_LAST_ERROR();
}

}  // namespace fusegen
