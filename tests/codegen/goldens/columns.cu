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
__global__ void __launch_bounds__(256, 4) var_kernel(
    const float* __restrict__ x,
    Strides<2> x_strides,
    float* __restrict__ y) {
    constexpr int lanes = 8;  // threads that share a row
    constexpr int steps = 32 / vector;  // vectors that a thread takes together
    const int64_t rows = 64;
    const int lane = threadIdx.x / 32;
    const int row_in_block = threadIdx.x % 32;
    const int64_t block = blockIdx.x;
    const int64_t blocks = gridDim.x;
    for (int64_t first_row = block * 32; first_row < rows; first_row += blocks * 32) {
        // Threads beyond the last row stand on it and store nothing: all take part in exchanges.
        const int64_t own_row = first_row + row_in_block;
        const bool is_active = own_row < rows;
        const int64_t row = is_active ? own_row : rows - 1;
        Vector<float, vector> cache_0[steps];  // what one phase keeps for the next
        // Phase 1 of 2.
        auto total_state = Sum<float>::identity();
        Vector<float, vector> x_vector[steps];
#pragma unroll
        for (int step = 0; step < steps; ++step) {
            const int64_t first_column = lane * vector + step * (lanes * vector);
            x_vector[step] = load_vector<float, vector>(x + (packed
                ? first_column * 64 + row : x_strides(first_column, row)));
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
        total_state = reduce_outer<32, 8>(total_state);
        const float total = convert<float>(total_state.result());
        // Phase 2 of 2.
        const float mean = total / 256.0f;
        auto squared_deviations_state = Sum<float>::identity();
#pragma unroll
        for (int step = 0; step < steps; ++step) {
            const int64_t first_column = lane * vector + step * (lanes * vector);

#pragma unroll
            for (int element = 0; element < vector; ++element) {
                const int64_t column = first_column + element;
                const float deviation = cache_0[step][element] - mean;
                const float squared = deviation * deviation;
                squared_deviations_state.push(squared, column);
            }
        }
        squared_deviations_state = reduce_outer<32, 8>(squared_deviations_state);
        const float squared_deviations = convert<float>(squared_deviations_state.result());

        const float div = squared_deviations / 255.0f;
        if (lane == 0 && is_active) {
            y[row] = div;
        }
    }
}

FUSEGEN_EXPORT int launch_var(
    const float* x,
    const int64_t* x_strides,
    float* y,
    void* stream) {
    const int64_t rows = 64;
    const int64_t columns = 256;
    if (rows == 0) {
        return 0;
    }
    constexpr int vector = 1;
    // Wide accesses for whole vectors of packed tensors; all else goes element by element.
    const bool packed = is_contiguous(x_strides, {256, 64}) && is_aligned(x, 4) && is_aligned(y, 4);
    const bool wide = packed && columns % vector == 0;
    const dim3 grid = grid_of(divide_up(rows, 32));
    if (wide) {
        FUSEGEN_LAUNCH((var_kernel<vector, true>),
                       grid, dim3(256), 0, stream,
                       x, Strides<2>(x_strides), y);
    } else {
        FUSEGEN_LAUNCH((var_kernel<1, false>),
                       grid, dim3(256), 0, stream,
                       x, Strides<2>(x_strides), y);
    }
    return FUSEGEN_LAST_ERROR();
}
}  // namespace fusegen
