// Softmax.
#include "fusegen/cluster.cuh"
#include "fusegen/device.cuh"
#include "fusegen/dtypes.cuh"
#include "fusegen/launch.cuh"
#include "fusegen/math.cuh"
#include "fusegen/reduce.cuh"
#include "fusegen/reduce_cluster.cuh"
#include "fusegen/stepped_division.cuh"

namespace fusegen {
// softmax: softmax.
// 3 passes over each row, a part of a warp a row; read once and kept in registers.
// This form is for rows of at most 1024 columns.
template <int vector, bool packed>
__global__ void __launch_bounds__(256, 4) softmax_warp_kernel(
    const float* __restrict__ x,
    Strides<2> x_strides,
    float* __restrict__ y,
    int64_t batch,
    int64_t width) {
    wait_for_earlier_kernels();
    constexpr int lanes = 32;  // threads that share a row
    constexpr int steps = 32 / vector;  // vectors that a thread takes together
    const int64_t rows = batch;
    const int64_t columns = width;
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
        Vector<float, vector> cache_0[steps];  // what one phase keeps for the next
        // Phase 1 of 3.
        auto amax_state = Maximum<float>::identity();
        Vector<float, vector> x_vector[steps];
#pragma unroll
        for (int step = 0; step < steps; ++step) {
            const int64_t first_column = lane * vector + step * (lanes * vector);
            if (first_column < row_end) {
                x_vector[step] = load_vector<float, vector>(x + (packed
                    ? first_column + row * width : x_strides(row, first_column)));
            }
        }
#pragma unroll
        for (int step = 0; step < steps; ++step) {
            const int64_t first_column = lane * vector + step * (lanes * vector);
            if (first_column >= row_end) {
                continue;
            }

#pragma unroll
            for (int element = 0; element < vector; ++element) {
                const int64_t column = first_column + element;
                const float x_value = x_vector[step][element];
                amax_state.push(x_value, column);
                cache_0[step][element] = x_value;
            }
        }
        amax_state = reduce_lanes<32>(amax_state);
        const float amax = convert<float>(amax_state.result());
        // Phase 2 of 3.
        auto sum_state = Sum<float>::identity();
#pragma unroll
        for (int step = 0; step < steps; ++step) {
            const int64_t first_column = lane * vector + step * (lanes * vector);
            if (first_column >= row_end) {
                continue;
            }

#pragma unroll
            for (int element = 0; element < vector; ++element) {
                const int64_t column = first_column + element;
                const float sub = cache_0[step][element] - amax;
                const float exp = fusegen::exponential(sub);
                sum_state.push(exp, column);
                cache_0[step][element] = exp;
            }
        }
        sum_state = reduce_lanes<32>(sum_state);
        const float sum = convert<float>(sum_state.result());
        // Phase 3 of 3.
        const Divisor sum_divisor(sum);
#pragma unroll
        for (int step = 0; step < steps; ++step) {
            const int64_t first_column = lane * vector + step * (lanes * vector);
            if (first_column >= row_end) {
                continue;
            }
            Vector<float, vector> y_vector;
#pragma unroll
            for (int element = 0; element < vector; ++element) {
                const float div = sum_divisor.quotient(cache_0[step][element]);
                y_vector[element] = div;
            }
            store_vector(y + first_column + row * width, y_vector);
        }
    }
}

// softmax: softmax.
// 3 passes over each row, a part of a warp a row; read once and kept in registers.
// This form is for rows of at most 2048 columns.
template <int vector, bool packed>
__global__ void __launch_bounds__(256, 4) softmax_part_kernel(
    const float* __restrict__ x,
    Strides<2> x_strides,
    float* __restrict__ y,
    int64_t batch,
    int64_t width) {
    wait_for_earlier_kernels();
    constexpr int lanes = 64;  // threads that share a row
    constexpr int steps = 32 / vector;  // vectors that a thread takes together
    const int64_t rows = batch;
    const int64_t columns = width;
    const int lane = threadIdx.x % lanes;
    const int row_in_block = threadIdx.x / lanes;
    int turn = 0;  // which of two arrays the next exchange between warps uses
    const int64_t block = blockIdx.x;
    const int64_t blocks = gridDim.x;
    for (int64_t first_row = block * 4; first_row < rows; first_row += blocks * 4) {
        // Threads beyond the last row stand on it without columns: all take part in exchanges.
        const int64_t own_row = first_row + row_in_block;
        const bool is_active = own_row < rows;
        const int64_t row = is_active ? own_row : rows - 1;
        const int64_t row_end = is_active ? columns : 0;
        Vector<float, vector> cache_0_2[steps];  // what one phase keeps for the next
        // Phase 1 of 3.
        auto amax_state_2 = Maximum<float>::identity();
        Vector<float, vector> x_vector_2[steps];
#pragma unroll
        for (int step = 0; step < steps; ++step) {
            const int64_t first_column = lane * vector + step * (lanes * vector);
            if (first_column < row_end) {
                x_vector_2[step] = load_vector<float, vector>(x + (packed
                    ? first_column + row * width : x_strides(row, first_column)));
            }
        }
#pragma unroll
        for (int step = 0; step < steps; ++step) {
            const int64_t first_column = lane * vector + step * (lanes * vector);
            if (first_column >= row_end) {
                continue;
            }

#pragma unroll
            for (int element = 0; element < vector; ++element) {
                const int64_t column = first_column + element;
                const float x_value_2 = x_vector_2[step][element];
                amax_state_2.push(x_value_2, column);
                cache_0_2[step][element] = x_value_2;
            }
        }
        amax_state_2 = reduce_part<64, 256>(amax_state_2, turn);
        const float amax_2 = convert<float>(amax_state_2.result());
        // Phase 2 of 3.
        auto sum_state_2 = Sum<float>::identity();
#pragma unroll
        for (int step = 0; step < steps; ++step) {
            const int64_t first_column = lane * vector + step * (lanes * vector);
            if (first_column >= row_end) {
                continue;
            }

#pragma unroll
            for (int element = 0; element < vector; ++element) {
                const int64_t column = first_column + element;
                const float sub_2 = cache_0_2[step][element] - amax_2;
                const float exp_2 = fusegen::exponential(sub_2);
                sum_state_2.push(exp_2, column);
                cache_0_2[step][element] = exp_2;
            }
        }
        sum_state_2 = reduce_part<64, 256>(sum_state_2, turn);
        const float sum_2 = convert<float>(sum_state_2.result());
        // Phase 3 of 3.
        const Divisor sum_divisor_2(sum_2);
#pragma unroll
        for (int step = 0; step < steps; ++step) {
            const int64_t first_column = lane * vector + step * (lanes * vector);
            if (first_column >= row_end) {
                continue;
            }
            Vector<float, vector> y_vector_2;
#pragma unroll
            for (int element = 0; element < vector; ++element) {
                const float div_2 = sum_divisor_2.quotient(cache_0_2[step][element]);
                y_vector_2[element] = div_2;
            }
            store_vector(y + first_column + row * width, y_vector_2);
        }
    }
}

// softmax: softmax.
// 3 passes over each row, a part of a warp a row; read once and kept in registers.
// This form is for rows of at most 8192 columns.
template <int vector, bool packed>
__global__ void __launch_bounds__(256, 4) softmax_block_kernel(
    const float* __restrict__ x,
    Strides<2> x_strides,
    float* __restrict__ y,
    int64_t batch,
    int64_t width) {
    wait_for_earlier_kernels();
    constexpr int lanes = 256;  // threads that share a row
    constexpr int steps = 32 / vector;  // vectors that a thread takes together
    const int64_t rows = batch;
    const int64_t columns = width;
    const int lane = threadIdx.x;
    int turn = 0;  // which of two arrays the next exchange between warps uses
    const int64_t block = blockIdx.x;
    const int64_t blocks = gridDim.x;
    for (int64_t first_row = block * 1; first_row < rows; first_row += blocks * 1) {
        const int64_t row = first_row;
        const int64_t row_end = columns;
        Vector<float, vector> cache_0_3[steps];  // what one phase keeps for the next
        // Phase 1 of 3.
        auto amax_state_3 = Maximum<float>::identity();
        Vector<float, vector> x_vector_3[steps];
#pragma unroll
        for (int step = 0; step < steps; ++step) {
            const int64_t first_column = lane * vector + step * (lanes * vector);
            if (first_column < row_end) {
                x_vector_3[step] = load_vector<float, vector>(x + (packed
                    ? first_column + row * width : x_strides(row, first_column)));
            }
        }
#pragma unroll
        for (int step = 0; step < steps; ++step) {
            const int64_t first_column = lane * vector + step * (lanes * vector);
            if (first_column >= row_end) {
                continue;
            }

#pragma unroll
            for (int element = 0; element < vector; ++element) {
                const int64_t column = first_column + element;
                const float x_value_3 = x_vector_3[step][element];
                amax_state_3.push(x_value_3, column);
                cache_0_3[step][element] = x_value_3;
            }
        }
        amax_state_3 = reduce_block<256>(amax_state_3, turn);
        const float amax_3 = convert<float>(amax_state_3.result());
        // Phase 2 of 3.
        auto sum_state_3 = Sum<float>::identity();
#pragma unroll
        for (int step = 0; step < steps; ++step) {
            const int64_t first_column = lane * vector + step * (lanes * vector);
            if (first_column >= row_end) {
                continue;
            }

#pragma unroll
            for (int element = 0; element < vector; ++element) {
                const int64_t column = first_column + element;
                const float sub_3 = cache_0_3[step][element] - amax_3;
                const float exp_3 = fusegen::exponential(sub_3);
                sum_state_3.push(exp_3, column);
                cache_0_3[step][element] = exp_3;
            }
        }
        sum_state_3 = reduce_block<256>(sum_state_3, turn);
        const float sum_3 = convert<float>(sum_state_3.result());
        // Phase 3 of 3.
        const Divisor sum_divisor_3(sum_3);
#pragma unroll
        for (int step = 0; step < steps; ++step) {
            const int64_t first_column = lane * vector + step * (lanes * vector);
            if (first_column >= row_end) {
                continue;
            }
            Vector<float, vector> y_vector_3;
#pragma unroll
            for (int element = 0; element < vector; ++element) {
                const float div_3 = sum_divisor_3.quotient(cache_0_3[step][element]);
                y_vector_3[element] = div_3;
            }
            store_vector(y + first_column + row * width, y_vector_3);
        }
    }
}

// softmax: softmax.
// 3 passes over each row, a part of a warp a row; read once and kept in registers.
// This form is for rows of at most 131072 columns.
template <int vector, bool packed>
__global__ void __launch_bounds__(512, 2) softmax_cluster_kernel(
    const float* __restrict__ x,
    Strides<2> x_strides,
    float* __restrict__ y,
    int64_t batch,
    int64_t width) {
    wait_for_earlier_kernels();
#if FUSEGEN_HAS_CLUSTERS
    constexpr int lanes = 4096;  // threads that share a row
    constexpr int steps = 32 / vector;  // vectors that a thread takes together
    const int64_t rows = batch;
    const int64_t columns = width;
    const int lane = cluster_rank() * 512 + threadIdx.x;
    const int64_t block = blockIdx.x / 8;
    const int64_t blocks = gridDim.x / 8;
    FUSEGEN_SHARED(std::uint64_t, barriers, 2);
    ClusterExchange exchange(barriers);
    for (int64_t first_row = block * 1; first_row < rows; first_row += blocks * 1) {
        const int64_t row = first_row;
        const int64_t row_end = columns;
        Vector<float, vector> cache_0_4[steps];  // what one phase keeps for the next
        // Phase 1 of 3.
        auto amax_state_4 = Maximum<float>::identity();
        Vector<float, vector> x_vector_4[steps];
#pragma unroll
        for (int step = 0; step < steps; ++step) {
            const int64_t first_column = lane * vector + step * (lanes * vector);
            if (first_column < row_end) {
                x_vector_4[step] = load_vector<float, vector>(x + (packed
                    ? first_column + row * width : x_strides(row, first_column)));
            }
        }
#pragma unroll
        for (int step = 0; step < steps; ++step) {
            const int64_t first_column = lane * vector + step * (lanes * vector);
            if (first_column >= row_end) {
                continue;
            }

#pragma unroll
            for (int element = 0; element < vector; ++element) {
                const int64_t column = first_column + element;
                const float x_value_4 = x_vector_4[step][element];
                amax_state_4.push(x_value_4, column);
                cache_0_4[step][element] = x_value_4;
            }
        }
        amax_state_4 = reduce_cluster<512, 8>(amax_state_4, exchange);
        const float amax_4 = convert<float>(amax_state_4.result());
        // Phase 2 of 3.
        auto sum_state_4 = Sum<float>::identity();
#pragma unroll
        for (int step = 0; step < steps; ++step) {
            const int64_t first_column = lane * vector + step * (lanes * vector);
            if (first_column >= row_end) {
                continue;
            }

#pragma unroll
            for (int element = 0; element < vector; ++element) {
                const int64_t column = first_column + element;
                const float sub_4 = cache_0_4[step][element] - amax_4;
                const float exp_4 = fusegen::exponential(sub_4);
                sum_state_4.push(exp_4, column);
                cache_0_4[step][element] = exp_4;
            }
        }
        sum_state_4 = reduce_cluster<512, 8>(sum_state_4, exchange);
        const float sum_4 = convert<float>(sum_state_4.result());
        // Phase 3 of 3.
        const Divisor sum_divisor_4(sum_4);
#pragma unroll
        for (int step = 0; step < steps; ++step) {
            const int64_t first_column = lane * vector + step * (lanes * vector);
            if (first_column >= row_end) {
                continue;
            }
            Vector<float, vector> y_vector_4;
#pragma unroll
            for (int element = 0; element < vector; ++element) {
                const float div_4 = sum_divisor_4.quotient(cache_0_4[step][element]);
                y_vector_4[element] = div_4;
            }
            store_vector(y + first_column + row * width, y_vector_4);
        }
    }
#endif
}

// softmax: softmax.
// 3 passes over each row, a part of a warp a row; read once and kept in registers.
// This form reads a row in each pass: for those too long to keep.
template <int vector, bool packed>
__global__ void __launch_bounds__(512, 1) softmax_looping_kernel(
    const float* __restrict__ x,
    Strides<2> x_strides,
    float* __restrict__ y,
    int64_t batch,
    int64_t width) {
    wait_for_earlier_kernels();
    constexpr int lanes = 512;  // threads that share a row
    constexpr int steps = 16 / vector;  // vectors that a thread takes together
    const int64_t rows = batch;
    const int64_t columns = width;
    const int lane = threadIdx.x;
    int turn = 0;  // which of two arrays the next exchange between warps uses
    const int64_t block = blockIdx.x;
    const int64_t blocks = gridDim.x;
    for (int64_t first_row = block * 1; first_row < rows; first_row += blocks * 1) {
        const int64_t row = first_row;
        const int64_t row_end = columns;
        // Phase 1 of 3.
        auto amax_state_5 = Maximum<float>::identity();
        for (int64_t chunk = lane * vector; chunk < row_end; chunk += steps * lanes * vector) {
            Vector<float, vector> x_vector_5[steps];
#pragma unroll
            for (int step = 0; step < steps; ++step) {
                const int64_t first_column = chunk + step * (lanes * vector);
                if (first_column < row_end) {
                    x_vector_5[step] = load_vector<float, vector>(x + (packed
                        ? first_column + row * width : x_strides(row, first_column)));
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
                    const float x_value_5 = x_vector_5[step][element];
                    amax_state_5.push(x_value_5, column);
                }
            }
        }
        amax_state_5 = reduce_block<512>(amax_state_5, turn);
        const float amax_5 = convert<float>(amax_state_5.result());
        // Phase 2 of 3.
        auto sum_state_5 = Sum<float>::identity();
        for (int64_t chunk = lane * vector; chunk < row_end; chunk += steps * lanes * vector) {
            Vector<float, vector> x_vector_6[steps];
#pragma unroll
            for (int step = 0; step < steps; ++step) {
                const int64_t first_column = chunk + step * (lanes * vector);
                if (first_column < row_end) {
                    x_vector_6[step] = load_vector<float, vector>(x + (packed
                        ? first_column + row * width : x_strides(row, first_column)));
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
                    const float x_value_6 = x_vector_6[step][element];
                    const float sub_5 = x_value_6 - amax_5;
                    const float exp_5 = fusegen::exponential(sub_5);
                    sum_state_5.push(exp_5, column);
                }
            }
        }
        sum_state_5 = reduce_block<512>(sum_state_5, turn);
        const float sum_5 = convert<float>(sum_state_5.result());
        // Phase 3 of 3.
        const Divisor sum_divisor_5(sum_5);
        for (int64_t chunk = lane * vector; chunk < row_end; chunk += steps * lanes * vector) {
            Vector<float, vector> x_vector_7[steps];
#pragma unroll
            for (int step = 0; step < steps; ++step) {
                const int64_t first_column = chunk + step * (lanes * vector);
                if (first_column < row_end) {
                    x_vector_7[step] = load_vector<float, vector>(x + (packed
                        ? first_column + row * width : x_strides(row, first_column)));
                }
            }
#pragma unroll
            for (int step = 0; step < steps; ++step) {
                const int64_t first_column = chunk + step * (lanes * vector);
                if (first_column >= row_end) {
                    continue;
                }
                Vector<float, vector> y_vector_5;
#pragma unroll
                for (int element = 0; element < vector; ++element) {
                    const float x_value_7 = x_vector_7[step][element];
                    const float sub_6 = x_value_7 - amax_5;
                    const float exp_6 = fusegen::exponential(sub_6);
                    const float div_5 = sum_divisor_5.quotient(exp_6);
                    y_vector_5[element] = div_5;
                }
                store_vector(y + first_column + row * width, y_vector_5);
            }
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
    constexpr int vector = 4;
    // Wide accesses for whole vectors of packed tensors; all else goes element by element.
    const bool packed = is_contiguous(x_strides, {batch, width}) && is_aligned(x, 16) && is_aligned(y, 16);
    const bool wide = packed && columns % vector == 0;
    if (columns <= 1024) {
        const dim3 grid = grid_of(divide_up(rows, 8));
        if (wide) {
            FUSEGEN_LAUNCH((softmax_warp_kernel<vector, true>),
                           grid, dim3(256), 0, stream,
                           x, Strides<2>(x_strides), y, batch, width);
        } else {
            FUSEGEN_LAUNCH((softmax_warp_kernel<1, false>),
                           grid, dim3(256), 0, stream,
                           x, Strides<2>(x_strides), y, batch, width);
        }
    } else if (columns <= 2048) {
        const dim3 grid = grid_of(divide_up(rows, 4));
        if (wide) {
            FUSEGEN_LAUNCH((softmax_part_kernel<vector, true>),
                           grid, dim3(256), 0, stream,
                           x, Strides<2>(x_strides), y, batch, width);
        } else {
            FUSEGEN_LAUNCH((softmax_part_kernel<1, false>),
                           grid, dim3(256), 0, stream,
                           x, Strides<2>(x_strides), y, batch, width);
        }
    } else if (columns <= 8192) {
        const dim3 grid = grid_of(divide_up(rows, 1));
        if (wide) {
            FUSEGEN_LAUNCH((softmax_block_kernel<vector, true>),
                           grid, dim3(256), 0, stream,
                           x, Strides<2>(x_strides), y, batch, width);
        } else {
            FUSEGEN_LAUNCH((softmax_block_kernel<1, false>),
                           grid, dim3(256), 0, stream,
                           x, Strides<2>(x_strides), y, batch, width);
        }
    } else if (columns <= 131072 && has_clusters()) {
        const dim3 grid = grid_of(divide_up(rows, 1), 8);
        if (wide) {
            FUSEGEN_LAUNCH_CLUSTERS((softmax_cluster_kernel<vector, true>),
                                    grid, dim3(512), 8, 0, stream,
                                    x, Strides<2>(x_strides), y, batch, width);
        } else {
            FUSEGEN_LAUNCH_CLUSTERS((softmax_cluster_kernel<1, false>),
                                    grid, dim3(512), 8, 0, stream,
                                    x, Strides<2>(x_strides), y, batch, width);
        }
    } else {
        const dim3 grid = grid_of(divide_up(rows, 1));
        if (wide) {
            FUSEGEN_LAUNCH((softmax_looping_kernel<vector, true>),
                           grid, dim3(512), 0, stream,
                           x, Strides<2>(x_strides), y, batch, width);
        } else {
            FUSEGEN_LAUNCH((softmax_looping_kernel<1, false>),
                           grid, dim3(512), 0, stream,
                           x, Strides<2>(x_strides), y, batch, width);
        }
    }
    return FUSEGEN_LAST_ERROR();
}
}  // namespace fusegen
