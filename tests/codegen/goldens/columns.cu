// Columns.
#include "fusegen/device.cuh"
#include "fusegen/dtypes.cuh"
#include "fusegen/launch.cuh"
#include "fusegen/math.cuh"
#include "fusegen/reduce.cuh"
#include "fusegen/stepped_division.cuh"

namespace fusegen {
// var: var.
// 2 passes over each row, neighbouring threads on neighbouring rows; read once and kept in
// registers.
template <int vector, bool packed>
__global__ void __launch_bounds__(512, 2) var_kernel(
    const float* __restrict__ x,
    Strides<2> x_strides,
    float* __restrict__ y) {
    wait_for_earlier_kernels();
    constexpr int lanes = 16;  // threads that share a row
    constexpr int steps = 16;  // columns that a thread takes together
    const int64_t rows = 64;
    const int lane = threadIdx.x / 32;
    const int row_in_block = threadIdx.x % 32 * vector;
    const int64_t block = blockIdx.x;
    const int64_t blocks = gridDim.x;
    for (int64_t first_row = block * (32 * vector); first_row < rows; first_row += blocks * (32 * vector)) {
        // Threads beyond the last row stand on it and store nothing: all take part in exchanges.
        const int64_t thread_row = first_row + row_in_block;
        const bool is_active = thread_row < rows;
        [[maybe_unused]] const int64_t own_row = is_active ? thread_row : rows - vector;
        Vector<float, vector> cache_0[steps];  // what one phase keeps for the next
        // Phase 1 of 2.
        Sum<float> total_state[vector];
#pragma unroll
        for (int element = 0; element < vector; ++element) {
            total_state[element] = Sum<float>::identity();
        }
        Vector<float, vector> x_vector[steps];
#pragma unroll
        for (int step = 0; step < steps; ++step) {
            const int64_t column = lane + step * lanes;
            x_vector[step] = load_vector<float, vector>(x + (packed
                ? column * 64 + own_row : x_strides(column, own_row)));
        }
#pragma unroll
        for (int step = 0; step < steps; ++step) {
            [[maybe_unused]] const int64_t column = lane + step * lanes;

#pragma unroll
            for (int element = 0; element < vector; ++element) {
                const float x_value = x_vector[step][element];
                total_state[element].push(x_value, column);
                cache_0[step][element] = x_value;
            }
        }

        float total[vector];
        reduce_outer<32, 16>(total_state);
#pragma unroll
        for (int element = 0; element < vector; ++element) {
            total[element] = convert<float>(total_state[element].result());
        }
        // Phase 2 of 2.
        Sum<float> squared_deviations_state[vector];
#pragma unroll
        for (int element = 0; element < vector; ++element) {
            squared_deviations_state[element] = Sum<float>::identity();
        }
#pragma unroll
        for (int step = 0; step < steps; ++step) {
            [[maybe_unused]] const int64_t column = lane + step * lanes;

#pragma unroll
            for (int element = 0; element < vector; ++element) {
                const float mean = total[element] / 256.0f;
                const float deviation = cache_0[step][element] - mean;
                const float squared = deviation * deviation;
                squared_deviations_state[element].push(squared, column);
            }
        }

        float squared_deviations[vector];
        reduce_outer<32, 16>(squared_deviations_state);
#pragma unroll
        for (int element = 0; element < vector; ++element) {
            squared_deviations[element] = convert<float>(squared_deviations_state[element].result());
        }

        if (lane == 0 && is_active) {
#pragma unroll
            for (int element = 0; element < vector; ++element) {
                const int64_t row = own_row + element;
                const float div = squared_deviations[element] / 255.0f;
                y[row] = div;
            }
        }
    }
}

FUSEGEN_EXPORT int launch_var(
    const float* x,
    const int64_t* x_strides,
    float* y,
    void* stream) {
    const int64_t rows = 64;
    if (rows == 0) {
        return 0;
    }
    constexpr int vector = 2;
    // Wide accesses for whole vectors of packed tensors; all else goes element by element.
    const bool packed = is_contiguous(x_strides, {256, 64}) && is_aligned(x, 8) && is_aligned(y, 8);
    const bool wide = packed && rows % vector == 0;
    const dim3 grid = grid_of(divide_up(rows, 32 * (wide ? vector : 1)));
    if (wide) {
        FUSEGEN_LAUNCH((var_kernel<vector, true>),
                       grid, dim3(512), 0, stream,
                       x, Strides<2>(x_strides), y);
    } else {
        FUSEGEN_LAUNCH((var_kernel<1, false>),
                       grid, dim3(512), 0, stream,
                       x, Strides<2>(x_strides), y);
    }
    return FUSEGEN_LAST_ERROR();
}
}  // namespace fusegen
