// Elementwise.
#include "fusegen/device.cuh"
#include "fusegen/dtypes.cuh"
#include "fusegen/launch.cuh"
#include "fusegen/math.cuh"
#include "fusegen/reduce.cuh"
#include "fusegen/stepped_division.cuh"

namespace fusegen {
// mul_gelu: mul, gelu.
// Elementwise: each element is read once and written once.
template <int vector, bool packed>
__global__ void __launch_bounds__(256) mul_gelu_kernel(
    const float* __restrict__ x,
    Strides<2> x_strides,
    const float* __restrict__ scale,
    Strides<1> scale_strides,
    float* __restrict__ y,
    int64_t begin,
    int64_t end) {
    wait_for_earlier_kernels();
    const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x * vector;
    const int64_t thread = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    for (int64_t first = begin + thread * vector; first < end; first += stride) {
        const auto x_vector =
            load_vector<float, vector>(x + (packed ? first : x_strides(first / 64, first % 64)));
        const auto scale_vector =
            load_vector<float, vector>(scale + (packed ? first % 64 : scale_strides(first % 64)));
        Vector<float, vector> y_vector;
#pragma unroll
        for (int element = 0; element < vector; ++element) {
            const float x_value = x_vector[element];
            const float scale_value = scale_vector[element];
            const float mul = x_value * scale_value;
            const float gelu = fusegen::gelu_none(mul);
            y_vector[element] = gelu;
        }
        store_vector(y + first, y_vector);
    }
}

FUSEGEN_EXPORT int launch_mul_gelu(
    const float* x,
    const int64_t* x_strides,
    const float* scale,
    const int64_t* scale_strides,
    float* y,
    int64_t batch,
    void* stream) {
    const int64_t count = batch * 64;
    if (count == 0) {
        return 0;
    }
    constexpr int threads = 256;
    constexpr int vector = 4;
    // Wide accesses for whole vectors of packed tensors; all else goes element by element.
    const bool wide = is_contiguous(x_strides, {batch, 64}) && is_contiguous(scale_strides, {64}) &&
                      is_aligned(x, 16) && is_aligned(scale, 16) && is_aligned(y, 16);
    const int64_t middle = wide ? count - count % vector : 0;
    if (middle > 0) {
        FUSEGEN_LAUNCH((mul_gelu_kernel<vector, true>),
                       grid_of(divide_up(middle, threads * vector)), dim3(threads), 0, stream,
                       x, Strides<2>(x_strides), scale, Strides<1>(scale_strides), y, int64_t(0), middle);
    }
    if (middle < count) {
        FUSEGEN_LAUNCH((mul_gelu_kernel<1, false>),
                       grid_of(divide_up(count - middle, threads)), dim3(threads), 0, stream,
                       x, Strides<2>(x_strides), scale, Strides<1>(scale_strides), y, middle, count);
    }
    return FUSEGEN_LAST_ERROR();
}
}  // namespace fusegen
