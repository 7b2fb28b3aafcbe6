// Softmax.
#include "fusegen/device.cuh"
#include "fusegen/dtypes.cuh"
#include "fusegen/launch.cuh"
#include "fusegen/math.cuh"
#include "fusegen/reduce.cuh"
#include "fusegen/stepped_division.cuh"

namespace fusegen {
// softmax: softmax.
// 3 passes over each row, a part of a warp a row; read once and kept in shared memory.
template <int vector, bool packed>
__global__ void __launch_bounds__(256) softmax_kernel(
    const float* __restrict__ x,
    Strides<2> x_strides,
    float* __restrict__ y,
    int64_t batch,
    int64_t width) {
    constexpr int lanes = 32;  // threads that share a row
    const int64_t rows = batch;
    const int64_t columns = width;
    const int lane = threadIdx.x % lanes;
    const int row_in_block = threadIdx.x / lanes;
    const int64_t begin = 0;
    const int64_t end = columns;
    const int64_t block = blockIdx.x;
    const int64_t blocks = gridDim.x;
    // What one phase keeps for the next: each thread reads back only what it wrote itself.
    FUSEGEN_DYNAMIC_SHARED(unsigned char, cache);
    float* const cache_0 = reinterpret_cast<float*>(cache) + row_in_block * columns;
    for (int64_t first_row = block * 8; first_row < rows; first_row += blocks * 8) {
        // Threads beyond the last row stand on it without columns: all take part in exchanges.
        const int64_t own_row = first_row + row_in_block;
        const bool is_active = own_row < rows;
        const int64_t row = is_active ? own_row : rows - 1;
        const int64_t row_end = is_active ? end : begin;
        // Phase 1 of 3.
        auto amax_state = Maximum<float>::identity();
        for (int64_t first_column = begin + lane * vector; first_column < row_end;
             first_column += lanes * vector) {
            const auto x_vector =
                load_vector<float, vector>(x + (packed
                    ? first_column + row * width : x_strides(row, first_column)));
            Vector<float, vector> kept_x;
#pragma unroll
            for (int element = 0; element < vector; ++element) {
                const int64_t column = first_column + element;
                const float x_value = x_vector[element];
                amax_state.push(x_value, column);
                kept_x[element] = x_value;
            }
            store_vector(cache_0 + first_column, kept_x);
        }
        amax_state = reduce_lanes<32>(amax_state);
        const float amax = convert<float>(amax_state.result());
        // Phase 2 of 3.
        auto sum_state = Sum<float>::identity();
        for (int64_t first_column = begin + lane * vector; first_column < row_end;
             first_column += lanes * vector) {
            const auto kept_x_2 = load_vector<float, vector>(cache_0 + first_column);
            Vector<float, vector> kept_exp;
#pragma unroll
            for (int element = 0; element < vector; ++element) {
                const int64_t column = first_column + element;
                const float sub = kept_x_2[element] - amax;
                const float exp = fusegen::exponential(sub);
                sum_state.push(exp, column);
                kept_exp[element] = exp;
            }
            store_vector(cache_0 + first_column, kept_exp);
        }
        sum_state = reduce_lanes<32>(sum_state);
        const float sum = convert<float>(sum_state.result());
        // Phase 3 of 3.
        for (int64_t first_column = begin + lane * vector; first_column < row_end;
             first_column += lanes * vector) {
            const auto kept_exp_2 = load_vector<float, vector>(cache_0 + first_column);
            Vector<float, vector> y_vector;
#pragma unroll
            for (int element = 0; element < vector; ++element) {
                const float div = kept_exp_2[element] / sum;
                y_vector[element] = div;
            }
            store_vector(y + first_column + row * width, y_vector);
        }
    }
}

// softmax: softmax.
// 3 passes over each row, a part of a warp a row; read once and kept in shared memory.
// This form keeps nothing from phase to phase: for rows too long for shared memory.
template <int vector, bool packed>
__global__ void __launch_bounds__(256) softmax_streaming_kernel(
    const float* __restrict__ x,
    Strides<2> x_strides,
    float* __restrict__ y,
    int64_t batch,
    int64_t width) {
    constexpr int lanes = 32;  // threads that share a row
    const int64_t rows = batch;
    const int64_t columns = width;
    const int lane = threadIdx.x % lanes;
    const int row_in_block = threadIdx.x / lanes;
    const int64_t begin = 0;
    const int64_t end = columns;
    const int64_t block = blockIdx.x;
    const int64_t blocks = gridDim.x;
    for (int64_t first_row = block * 8; first_row < rows; first_row += blocks * 8) {
        // Threads beyond the last row stand on it without columns: all take part in exchanges.
        const int64_t own_row = first_row + row_in_block;
        const bool is_active = own_row < rows;
        const int64_t row = is_active ? own_row : rows - 1;
        const int64_t row_end = is_active ? end : begin;
        // Phase 1 of 3.
        auto amax_state_2 = Maximum<float>::identity();
        for (int64_t first_column = begin + lane * vector; first_column < row_end;
             first_column += lanes * vector) {
            const auto x_vector_2 =
                load_vector<float, vector>(x + (packed
                    ? first_column + row * width : x_strides(row, first_column)));
#pragma unroll
            for (int element = 0; element < vector; ++element) {
                const int64_t column = first_column + element;
                const float x_value_2 = x_vector_2[element];
                amax_state_2.push(x_value_2, column);
            }
        }
        amax_state_2 = reduce_lanes<32>(amax_state_2);
        const float amax_2 = convert<float>(amax_state_2.result());
        // Phase 2 of 3.
        auto sum_state_2 = Sum<float>::identity();
        for (int64_t first_column = begin + lane * vector; first_column < row_end;
             first_column += lanes * vector) {
            const auto x_vector_3 =
                load_vector<float, vector>(x + (packed
                    ? first_column + row * width : x_strides(row, first_column)));
#pragma unroll
            for (int element = 0; element < vector; ++element) {
                const int64_t column = first_column + element;
                const float x_value_3 = x_vector_3[element];
                const float sub_2 = x_value_3 - amax_2;
                const float exp_2 = fusegen::exponential(sub_2);
                sum_state_2.push(exp_2, column);
            }
        }
        sum_state_2 = reduce_lanes<32>(sum_state_2);
        const float sum_2 = convert<float>(sum_state_2.result());
        // Phase 3 of 3.
        for (int64_t first_column = begin + lane * vector; first_column < row_end;
             first_column += lanes * vector) {
            const auto x_vector_4 =
                load_vector<float, vector>(x + (packed
                    ? first_column + row * width : x_strides(row, first_column)));
            Vector<float, vector> y_vector_2;
#pragma unroll
            for (int element = 0; element < vector; ++element) {
                const float x_value_4 = x_vector_4[element];
                const float sub_3 = x_value_4 - amax_2;
                const float exp_3 = fusegen::exponential(sub_3);
                const float div_2 = exp_3 / sum_2;
                y_vector_2[element] = div_2;
            }
            store_vector(y + first_column + row * width, y_vector_2);
        }
    }
}

FUSEGEN_EXPORT int launch_softmax(
    const float* x,
    const int64_t* x_strides,
    float* y,
    int64_t batch,
    int64_t width,
    void* stream) {
    const int64_t rows = batch;
    const int64_t columns = width;
    if (rows == 0) {
        return 0;
    }
    constexpr int threads = 256;
    constexpr int vector = 4;
    const dim3 grid = grid_of(divide_up(rows, 8), 1);
    // Wide accesses for whole vectors of packed tensors; all else goes element by element.
    const bool wide = columns % vector == 0 &&
                      is_contiguous(x_strides, {batch, width}) && is_aligned(x, 16) && is_aligned(y, 16);
    if (32 * columns <= shared_memory_limit()) {
        const std::size_t cache_bytes = static_cast<std::size_t>(32 * columns);
        if (wide) {
            FUSEGEN_LAUNCH((softmax_kernel<vector, true>),
                           grid, dim3(threads), cache_bytes, stream,
                           x, Strides<2>(x_strides), y, batch, width);
        } else {
            FUSEGEN_LAUNCH((softmax_kernel<1, false>),
                           grid, dim3(threads), cache_bytes, stream,
                           x, Strides<2>(x_strides), y, batch, width);
        }
    } else {
        const std::size_t cache_bytes_streaming = static_cast<std::size_t>(0 * columns);
        if (wide) {
            FUSEGEN_LAUNCH((softmax_streaming_kernel<vector, true>),
                           grid, dim3(threads), cache_bytes_streaming, stream,
                           x, Strides<2>(x_strides), y, batch, width);
        } else {
            FUSEGEN_LAUNCH((softmax_streaming_kernel<1, false>),
                           grid, dim3(threads), cache_bytes_streaming, stream,
                           x, Strides<2>(x_strides), y, batch, width);
        }
    }
    return FUSEGEN_LAST_ERROR();
}
}  // namespace fusegen
