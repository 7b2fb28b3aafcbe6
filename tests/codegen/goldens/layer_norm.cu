// LayerNorm.
#include "fusegen/device.cuh"
#include "fusegen/dtypes.cuh"
#include "fusegen/launch.cuh"
#include "fusegen/math.cuh"
#include "fusegen/reduce.cuh"
#include "fusegen/stepped_division.cuh"

namespace fusegen {
// layer_norm_gelu_add: layer_norm, gelu, add.
// 3 passes over each row, a part of a warp a row; read once and kept in registers.
template <int vector, bool packed>
__global__ void __launch_bounds__(256, 4) layer_norm_gelu_add_kernel(
    const float* __restrict__ x,
    Strides<2> x_strides,
    const float* __restrict__ norm_weight,
    Strides<1> norm_weight_strides,
    const float* __restrict__ norm_bias,
    Strides<1> norm_bias_strides,
    float* __restrict__ y,
    int64_t batch) {
    wait_for_earlier_kernels();
    constexpr int lanes = 32;  // threads that share a row
    constexpr int steps = 16 / vector;  // vectors that a thread takes together
    const int64_t rows = batch;
    const int lane = threadIdx.x % lanes;
    const int row_in_block = threadIdx.x / lanes;
    const int64_t block = blockIdx.x;
    const int64_t blocks = gridDim.x;
    for (int64_t first_row = block * 8; first_row < rows; first_row += blocks * 8) {
        // Threads beyond the last row stand on it and store nothing: all take part in exchanges.
        const int64_t own_row = first_row + row_in_block;
        const bool is_active = own_row < rows;
        const int64_t row = is_active ? own_row : rows - 1;
        Vector<float, vector> cache_0[steps];  // what one phase keeps for the next
        // Phase 1 of 3.
        auto total_state = Sum<float>::identity();
        Vector<float, vector> x_vector[steps];
#pragma unroll
        for (int step = 0; step < steps; ++step) {
            const int64_t first_column = lane * vector + step * (lanes * vector);
            x_vector[step] = load_vector<float, vector>(x + (packed
                ? first_column + row * 512 : x_strides(row, first_column)));
        }
#pragma unroll
        for (int step = 0; step < steps; ++step) {
            const int64_t first_column = lane * vector + step * (lanes * vector);

#pragma unroll
            for (int element = 0; element < vector; ++element) {
                const int64_t column = first_column + element;
                const float x_value = x_vector[step][element];
                total_state.push(x_value, column);
                cache_0[step][element] = x_value;
            }
        }
        total_state = reduce_lanes<32>(total_state);
        const float total = convert<float>(total_state.result());
        // Phase 2 of 3.
        const float mean = total / 512.0f;
        auto rest_state = Sum<float>::identity();
        auto squared_deviations_state = Sum<float>::identity();
#pragma unroll
        for (int step = 0; step < steps; ++step) {
            const int64_t first_column = lane * vector + step * (lanes * vector);

#pragma unroll
            for (int element = 0; element < vector; ++element) {
                const int64_t column = first_column + element;
                const float deviation = cache_0[step][element] - mean;
                rest_state.push(deviation, column);
                const float squared = deviation * deviation;
                squared_deviations_state.push(squared, column);
            }
        }
        rest_state = reduce_lanes<32>(rest_state);
        squared_deviations_state = reduce_lanes<32>(squared_deviations_state);
        const float rest = convert<float>(rest_state.result());
        const float squared_deviations = convert<float>(squared_deviations_state.result());
        // Phase 3 of 3.
        const float rest_2 = rest / 512.0f;
        const float centre = mean + rest_2;
        const float div = squared_deviations / 512.0f;
        const float add = div + 1e-05f;
        const float rsqrt = fusegen::rsqrt(add);
#pragma unroll
        for (int step = 0; step < steps; ++step) {
            const int64_t first_column = lane * vector + step * (lanes * vector);
            if (!is_active) {
                continue;
            }
            const auto norm_weight_vector =
                load_vector<float, vector>(norm_weight + (packed
                    ? first_column : norm_weight_strides(first_column)));
            const auto norm_bias_vector =
                load_vector<float, vector>(norm_bias + (packed
                    ? first_column : norm_bias_strides(first_column)));
            Vector<float, vector> y_vector;
#pragma unroll
            for (int element = 0; element < vector; ++element) {
                const float sub = cache_0[step][element] - centre;
                const float mul = sub * rsqrt;
                const float norm_weight_value = norm_weight_vector[element];
                const float mul_2 = mul * norm_weight_value;
                const float norm_bias_value = norm_bias_vector[element];
                const float add_2 = mul_2 + norm_bias_value;
                const float gelu = fusegen::gelu_none(add_2);
                const float add_3 = gelu + cache_0[step][element];
                y_vector[element] = add_3;
            }
            store_vector(y + first_column + row * 512, y_vector);
        }
    }
}

FUSEGEN_EXPORT int launch_layer_norm_gelu_add(
    const float* x,
    const int64_t* x_strides,
    const float* norm_weight,
    const int64_t* norm_weight_strides,
    const float* norm_bias,
    const int64_t* norm_bias_strides,
    float* y,
    int64_t batch,
    void* stream) {
    const int64_t rows = batch;
    const int64_t columns = 512;
    if (rows == 0) {
        return 0;
    }
    constexpr int vector = 4;
    // Wide accesses for whole vectors of packed tensors; all else goes element by element.
    const bool packed = is_contiguous(x_strides, {batch, 512}) && is_contiguous(norm_weight_strides, {512}) &&
                        is_contiguous(norm_bias_strides, {512}) && is_aligned(x, 16) &&
                        is_aligned(norm_weight, 16) && is_aligned(norm_bias, 16) && is_aligned(y, 16);
    const bool wide = packed && columns % vector == 0;
    const dim3 grid = grid_of(divide_up(rows, 8));
    if (wide) {
        FUSEGEN_LAUNCH((layer_norm_gelu_add_kernel<vector, true>),
                       grid, dim3(256), 0, stream,
                       x, Strides<2>(x_strides), norm_weight, Strides<1>(norm_weight_strides), norm_bias,
                           Strides<1>(norm_bias_strides), y, batch);
    } else {
        FUSEGEN_LAUNCH((layer_norm_gelu_add_kernel<1, false>),
                       grid, dim3(256), 0, stream,
                       x, Strides<2>(x_strides), norm_weight, Strides<1>(norm_weight_strides), norm_bias,
                           Strides<1>(norm_bias_strides), y, batch);
    }
    return FUSEGEN_LAST_ERROR();
}
}  // namespace fusegen
