// Joined.
#include "fusegen/device.cuh"
#include "fusegen/dtypes.cuh"
#include "fusegen/launch.cuh"
#include "fusegen/math.cuh"
#include "fusegen/reduce.cuh"
#include "fusegen/stepped_division.cuh"

namespace fusegen {
// gelu_cat: gelu, cat.
// Elementwise: each element is read once and written once.
template <int vector, bool packed>
__global__ void __launch_bounds__(256) gelu_cat_kernel(
    const float* __restrict__ x,
    Strides<2> x_strides,
    const float* __restrict__ y,
    Strides<2> y_strides,
    float* __restrict__ y_2,
    int64_t begin,
    int64_t end) {
    wait_for_earlier_kernels();
    const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x * vector;
    const int64_t thread = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    for (int64_t first = begin + thread * vector; first < end; first += stride) {
        Vector<float, vector> y_2_vector;
#pragma unroll
        for (int element = 0; element < vector; ++element) {
            const int64_t index = first + element;
            float cat;
            if ((index % 8) < 3) {
                const float x_value = x[packed
                    ? (index % 8) + (index / 8) * 3 : x_strides(index / 8, index % 8)];
                const float gelu = fusegen::gelu_none(x_value);
                cat = gelu;
            } else {
                const float y_value = y[packed
                    ? (index % 8) + (index / 8) * 5 - 3 : y_strides(index / 8, (index % 8) - 3)];
                cat = y_value;
            }
            y_2_vector[element] = cat;
        }
        store_vector(y_2 + first, y_2_vector);
    }
}

FUSEGEN_EXPORT int launch_gelu_cat(
    const float* x,
    const int64_t* x_strides,
    const float* y,
    const int64_t* y_strides,
    float* y_2,
    int64_t batch,
    void* stream) {
    const int64_t count = batch * 8;
    if (count == 0) {
        return 0;
    }
    constexpr int threads = 256;
    constexpr int vector = 4;
    // Wide accesses for whole vectors of packed tensors; all else goes element by element.
    const bool wide = is_contiguous(x_strides, {batch, 3}) && is_contiguous(y_strides, {batch, 5}) &&
                      is_aligned(x, 16) && is_aligned(y, 16) && is_aligned(y_2, 16);
    const int64_t middle = wide ? count - count % vector : 0;
    if (middle > 0) {
        FUSEGEN_LAUNCH((gelu_cat_kernel<vector, true>),
                       grid_of(divide_up(middle, threads * vector)), dim3(threads), 0, stream,
                       x, Strides<2>(x_strides), y, Strides<2>(y_strides), y_2, int64_t(0), middle);
    }
    if (middle < count) {
        FUSEGEN_LAUNCH((gelu_cat_kernel<1, false>),
                       grid_of(divide_up(count - middle, threads)), dim3(threads), 0, stream,
                       x, Strides<2>(x_strides), y, Strides<2>(y_strides), y_2, middle, count);
    }
    return FUSEGEN_LAST_ERROR();
}
}  // namespace fusegen
