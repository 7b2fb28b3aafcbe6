// Row-wise softmax, one block a row, with a block reduction whose shared array is used twice.
#include <fusegen/device.cuh>

constexpr int threads = 128;
constexpr int warps = threads / 32;

template <bool take_maximum>
__device__ __forceinline__ float combine(float a, float b) {
    return take_maximum ? fmaxf(a, b) : a + b;
}

// Not a template: both reductions share one array.
__device__ float* partials_of_block() {
    FUSEGEN_SHARED(float, partials, warps);
    return partials;
}

template <bool take_maximum>
__device__ __forceinline__ float reduce_block(float value) {
    float* partials = partials_of_block();
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) {
        value = combine<take_maximum>(value, __shfl_xor_sync(0xffffffffu, value, offset));
    }
#ifndef MISSING_BARRIER_BEFORE_REUSE
    __syncthreads();
#endif
    if (threadIdx.x % 32 == 0) {
#ifdef SHARED_WRITE_PAST_END
        if (threadIdx.x == threads - 32) partials[warps] = value;  // found: SHARED_WRITE_PAST_END
#endif
        partials[threadIdx.x / 32] = value;  // found: MISSING_BARRIER_BEFORE_REUSE
    }
#ifndef MISSING_BARRIER_AFTER_WRITE
    __syncthreads();
#endif
    value = take_maximum ? -INFINITY : 0.0f;
#pragma unroll
    for (int i = 0; i < warps; ++i) {
        value = combine<take_maximum>(value, partials[i]);  // found: MISSING_BARRIER_AFTER_WRITE
    }
    return value;
}

__global__ void __launch_bounds__(threads)
    softmax(const float* __restrict__ x, float* __restrict__ y, int columns) {
    const float* row = x + static_cast<int64_t>(blockIdx.x) * columns;
    float* result = y + static_cast<int64_t>(blockIdx.x) * columns;
    float maximum = -INFINITY;
    for (int i = threadIdx.x; i < columns; i += threads) {
        maximum = fmaxf(maximum, row[i]);
    }
    maximum = reduce_block<true>(maximum);
#ifdef GLOBAL_READ_BEFORE_START
    if (threadIdx.x == 0) maximum = fmaxf(maximum, x[-1]);  // found: GLOBAL_READ_BEFORE_START
#endif
#ifdef GLOBAL_READ_PAST_END
    if (threadIdx.x == 0) maximum = fmaxf(maximum, row[columns]);  // found: GLOBAL_READ_PAST_END
#endif
    float sum = 0.0f;
    for (int i = threadIdx.x; i < columns; i += threads) {
        sum += expf(row[i] - maximum);
    }
    sum = reduce_block<false>(sum);
    for (int i = threadIdx.x; i < columns; i += threads) {
#ifdef UNWRITTEN_OUTPUT
        if (i == columns - 1) continue;
#endif
#ifdef UNINITIALISED_GLOBAL_READ
        sum = fmaxf(sum, result[i]);  // found: UNINITIALISED_GLOBAL_READ
#endif
        result[i] = expf(row[i] - maximum) / sum;
    }
#ifdef GLOBAL_WRITE_PAST_END
    if (threadIdx.x == 0) result[columns] = 0.0f;  // found: GLOBAL_WRITE_PAST_END
#endif
#ifdef GLOBAL_WRITE_BEFORE_START
    if (threadIdx.x == 0) y[-1] = 0.0f;  // found: GLOBAL_WRITE_BEFORE_START
#endif
}

FUSEGEN_EXPORT int run(const float* x, float* y, int rows, int columns) {
    FUSEGEN_LAUNCH(softmax, dim3(rows), dim3(threads), 0, nullptr, x, y, columns);
    return FUSEGEN_LAST_ERROR();
}
