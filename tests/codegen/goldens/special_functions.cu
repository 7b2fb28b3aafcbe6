// SpecialFunctions.
#include "fusegen/device.cuh"
#include "fusegen/dtypes.cuh"
#include "fusegen/launch.cuh"
#include "fusegen/math.cuh"
#include "fusegen/multiplied.cuh"
#include "fusegen/reduce.cuh"
#include "fusegen/stepped_division.cuh"

namespace fusegen {
// sigmoid_silu_tanh: sigmoid, sigmoid, sigmoid, silu, tanh, mish.
// Elementwise: each element is read once and written once; special functions take longest, so
// reciprocals are multiplied out in sigmoid, sigmoid, silu, tanh, mish.
template <int vector, bool packed>
__global__ void __launch_bounds__(256) sigmoid_silu_tanh_kernel(
    const bfloat16* __restrict__ x,
    Strides<2> x_strides,
    bfloat16* __restrict__ y,
    int64_t begin,
    int64_t end) {
    wait_for_earlier_kernels();
    const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x * vector;
    const int64_t thread = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    for (int64_t first = begin + thread * vector; first < end; first += stride) {
        const auto x_vector =
            load_vector<bfloat16, vector>(x + (packed ? first : x_strides(first / 64, first % 64)));
        Vector<bfloat16, vector> y_vector;
#pragma unroll
        for (int element = 0; element < vector; ++element) {
            const float x_value = value_at(x_vector, element);
            const float sigmoid = fusegen::multiplied_sigmoid(x_value);
            const float sigmoid_2 = fusegen::multiplied_sigmoid(sigmoid);
            const float sigmoid_3 = fusegen::near_sigmoid(sigmoid_2);
            const float silu = fusegen::multiplied_silu(sigmoid_3);
            const float tanh = fusegen::multiplied_tanh(silu);
            const float mish = fusegen::multiplied_mish(tanh);
            y_vector[element] = convert<bfloat16>(mish);
        }
        store_vector(y + first, y_vector);
    }
}

FUSEGEN_EXPORT int launch_sigmoid_silu_tanh(
    const bfloat16* x,
    const int64_t* x_strides,
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
    const bool wide = is_contiguous(x_strides, {batch, 64}) && is_aligned(x, 16) && is_aligned(y, 16);
    const int64_t middle = wide ? count - count % vector : 0;
    if (middle > 0) {
        FUSEGEN_LAUNCH((sigmoid_silu_tanh_kernel<vector, true>),
                       grid_of(divide_up(middle, threads * vector)), dim3(threads), 0, stream,
                       x, Strides<2>(x_strides), y, int64_t(0), middle);
    }
    if (middle < count) {
        FUSEGEN_LAUNCH((sigmoid_silu_tanh_kernel<1, false>),
                       grid_of(divide_up(count - middle, threads)), dim3(threads), 0, stream,
                       x, Strides<2>(x_strides), y, middle, count);
    }
    return FUSEGEN_LAST_ERROR();
}
}  // namespace fusegen
