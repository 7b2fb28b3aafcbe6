// SplitMean.
#include "fusegen/device.cuh"
#include "fusegen/dtypes.cuh"
#include "fusegen/launch.cuh"
#include "fusegen/math.cuh"
#include "fusegen/reduce.cuh"
#include "fusegen/stepped_division.cuh"

namespace fusegen {
// mean_partial: mean.
// Few long rows: 512 blocks share each and leave partial states.
template <int vector, bool packed>
__global__ void __launch_bounds__(512, 1) mean_partial_kernel(
    const float* __restrict__ x,
    Strides<1> x_strides,
    uint8_t* __restrict__ sum_states) {
    wait_for_earlier_kernels();
    constexpr int lanes = 512;  // threads that share a row
    constexpr int steps = 16 / vector;  // vectors that a thread takes together
    const int64_t rows = 1;
    const int64_t columns = 1048576;
    const int lane = threadIdx.x;
    int turn = 0;  // which of two arrays the next exchange between warps uses
    constexpr int parts = 512;  // blocks that share a row
    const int64_t part = blockIdx.x % parts;
    const int64_t part_columns = (columns + parts * vector - 1) / (parts * vector) * vector;
    const int64_t begin = part * part_columns;
    const int64_t end = begin + part_columns < columns ? begin + part_columns : columns;
    const int64_t block = blockIdx.x / parts;
    const int64_t blocks = gridDim.x / parts;
    for (int64_t first_row = block * 1; first_row < rows; first_row += blocks * 1) {
        const int64_t row = first_row;
        const int64_t row_end = end;
        // Phase 1 of 1.
        auto sum_state = Sum<float>::identity();
        for (int64_t chunk = begin + lane * vector; chunk < row_end; chunk += steps * lanes * vector) {
            Vector<float, vector> x_vector[steps];
#pragma unroll
            for (int step = 0; step < steps; ++step) {
                const int64_t first_column = chunk + step * (lanes * vector);
                if (first_column < row_end) {
                    x_vector[step] = load_vector<float, vector>(x + (packed
                        ? first_column : x_strides(first_column)));
                }
            }
#pragma unroll
            for (int step = 0; step < steps; ++step) {
                const int64_t first_column = chunk + step * (lanes * vector);
                if (first_column >= row_end) {
                    continue;
                }

#pragma unroll
                for (int element = 0; element < vector; ++element) {
                    const int64_t column = first_column + element;
                    const float x_value = x_vector[step][element];
                    sum_state.push(x_value, column);
                }
            }
        }
        sum_state = reduce_block<512>(sum_state, turn);

        if (lane == 0) {
            static_assert(sizeof(Sum<float>) == 4, "the workspace's size depends on it");
            reinterpret_cast<Sum<float>*>(sum_states)[row * parts + part] = sum_state;
        }
    }
}

FUSEGEN_EXPORT int launch_mean_partial(
    const float* x,
    const int64_t* x_strides,
    uint8_t* sum_states,
    void* stream) {
    const int64_t rows = 1;
    const int64_t columns = 1048576;
    if (rows == 0) {
        return 0;
    }
    constexpr int vector = 4;
    // Wide accesses for whole vectors of packed tensors; all else goes element by element.
    const bool packed = is_contiguous(x_strides, {1048576}) && is_aligned(x, 16) && is_aligned(sum_states, 4);
    const bool wide = packed && columns % vector == 0;
    const dim3 grid = grid_of(divide_up(rows, 1), 512);
    if (wide) {
        FUSEGEN_LAUNCH((mean_partial_kernel<vector, true>),
                       grid, dim3(512), 0, stream,
                       x, Strides<1>(x_strides), sum_states);
    } else {
        FUSEGEN_LAUNCH((mean_partial_kernel<1, false>),
                       grid, dim3(512), 0, stream,
                       x, Strides<1>(x_strides), sum_states);
    }
    return FUSEGEN_LAST_ERROR();
}

// mean_finish: mean.
// Merges the partial states of each row in a fixed order.
template <int vector, bool packed>
__global__ void __launch_bounds__(256, 1) mean_finish_kernel(
    const uint8_t* __restrict__ sum_states,
    float* __restrict__ y) {
    wait_for_earlier_kernels();
    constexpr int lanes = 32;  // threads that share a row
    constexpr int steps = 4 / vector;  // vectors that a thread takes together
    const int64_t rows = 1;
    const int64_t columns = 512;
    const int lane = threadIdx.x % lanes;
    const int row_in_block = threadIdx.x / lanes;
    const int64_t block = blockIdx.x;
    const int64_t blocks = gridDim.x;
    for (int64_t first_row = block * 8; first_row < rows; first_row += blocks * 8) {
        // Threads beyond the last row stand on it without columns: all take part in exchanges.
        const int64_t own_row = first_row + row_in_block;
        const bool is_active = own_row < rows;
        const int64_t row = is_active ? own_row : rows - 1;
        const int64_t row_end = is_active ? columns : 0;
        // Phase 1 of 1.
        auto sum_state = Sum<float>::identity();
        for (int64_t chunk = lane * vector; chunk < row_end; chunk += steps * lanes * vector) {
#pragma unroll
            for (int step = 0; step < steps; ++step) {
                const int64_t first_column = chunk + step * (lanes * vector);
                if (first_column >= row_end) {
                    continue;
                }

#pragma unroll
                for (int element = 0; element < vector; ++element) {
                    const int64_t column = first_column + element;
                    const auto* const sum_left = reinterpret_cast<const Sum<float>*>(sum_states);
                    sum_state.merge(sum_left[column + row * 512]);
                }
            }
        }
        sum_state = reduce_lanes<32>(sum_state);
        const float sum = convert<float>(sum_state.result());

        const float div = sum / 1048576.0f;
        if (lane == 0 && is_active) {
            y[row] = div;
        }
    }
}

FUSEGEN_EXPORT int launch_mean_finish(
    const uint8_t* sum_states,
    float* y,
    void* stream) {
    const int64_t rows = 1;
    const int64_t columns = 512;
    if (rows == 0) {
        return 0;
    }
    constexpr int vector = 1;
    // Wide accesses for whole vectors of packed tensors; all else goes element by element.
    const bool packed = true && is_aligned(sum_states, 1) && is_aligned(y, 4);
    const bool wide = packed && columns % vector == 0;
    const dim3 grid = grid_of(divide_up(rows, 8));
    if (wide) {
        FUSEGEN_LAUNCH((mean_finish_kernel<vector, true>),
                       grid, dim3(256), 0, stream,
                       sum_states, y);
    } else {
        FUSEGEN_LAUNCH((mean_finish_kernel<1, false>),
                       grid, dim3(256), 0, stream,
                       sum_states, y);
    }
    return FUSEGEN_LAST_ERROR();
}
}  // namespace fusegen
