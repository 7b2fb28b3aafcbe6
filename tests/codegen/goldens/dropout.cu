// GeluDropout.
#include "fusegen/device.cuh"
#include "fusegen/dtypes.cuh"
#include "fusegen/launch.cuh"
#include "fusegen/math.cuh"
#include "fusegen/reduce.cuh"
#include "fusegen/stepped_division.cuh"

namespace fusegen {
// gelu_dropout: gelu, dropout.
// Elementwise: each element is read once and written once.
template <int vector, bool packed>
__global__ void __launch_bounds__(256) gelu_dropout_kernel(
    const bfloat16* __restrict__ x,
    Strides<2> x_strides,
    const int64_t* __restrict__ seed,
    bfloat16* __restrict__ y,
    int64_t begin,
    int64_t end) {
    wait_for_earlier_kernels();
    const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x * vector;
    const int64_t thread = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    for (int64_t first = begin + thread * vector; first < end; first += stride) {
        const auto x_vector =
            load_vector<bfloat16, vector>(x + (packed ? first : x_strides(first / 64, first % 64)));
        const int64_t seed_shared = seed[0];
        const auto kept_vector = are_kept<vector>(seed_shared, first, 429496730, 0);
        Vector<bfloat16, vector> y_vector;
#pragma unroll
        for (int element = 0; element < vector; ++element) {
            const float x_value = value_at(x_vector, element);
            const float gelu = fusegen::near_gelu_none(x_value);
            const float to = fusegen::cast<bfloat16>(kept_vector[element]);
            const float mul = gelu * to;
            const float mul_2 = mul * 1.1111112f;
            y_vector[element] = convert<bfloat16>(mul_2);
        }
        store_vector(y + first, y_vector);
    }
}

FUSEGEN_EXPORT int launch_gelu_dropout(
    const bfloat16* x,
    const int64_t* x_strides,
    const int64_t* seed,
    bfloat16* y,
    int64_t batch,
    void* stream) {
    const int64_t count = batch * 64;
    if (count == 0) {
        return 0;
    }
    constexpr int threads = 256;
    constexpr int vector = 8;
    // Wide accesses for whole vectors of packed tensors; all else goes element by element.
    const bool wide = is_contiguous(x_strides, {batch, 64}) && is_aligned(x, 16) && is_aligned(seed, 16) &&
                      is_aligned(y, 16);
    const int64_t middle = wide ? count - count % vector : 0;
    if (middle > 0) {
        FUSEGEN_LAUNCH((gelu_dropout_kernel<vector, true>),
                       grid_of(divide_up(middle, threads * vector)), dim3(threads), 0, stream,
                       x, Strides<2>(x_strides), seed, y, int64_t(0), middle);
    }
    if (middle < count) {
        FUSEGEN_LAUNCH((gelu_dropout_kernel<1, false>),
                       grid_of(divide_up(count - middle, threads)), dim3(threads), 0, stream,
                       x, Strides<2>(x_strides), seed, y, middle, count);
    }
    return FUSEGEN_LAST_ERROR();
}
}  // namespace fusegen
