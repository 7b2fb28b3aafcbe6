// GeluSoftmax.
#include "fusegen/cluster.cuh"
#include "fusegen/device.cuh"
#include "fusegen/dtypes.cuh"
#include "fusegen/launch.cuh"
#include "fusegen/math.cuh"
#include "fusegen/reduce.cuh"
#include "fusegen/reduce_cluster.cuh"
#include "fusegen/rows_ahead.cuh"
#include "fusegen/stepped_division.cuh"

namespace fusegen {
// gelu_softmax: gelu, softmax.
// 3 passes over each row, a cluster of blocks a row, while the next rows are copied to shared
// memory; read once and kept in registers.
// Here one exchange between threads gives what takes two passes elsewhere.
// This form is for rows of at most 49152 columns.
template <int vector, bool packed>
__global__ void __launch_bounds__(1024, 1) gelu_softmax_ahead_kernel(
    const bfloat16* __restrict__ x,
    Strides<2> x_strides,
    bfloat16* __restrict__ y,
    int64_t batch) {
    wait_for_earlier_kernels();
#if FUSEGEN_HAS_CLUSTERS
    constexpr int lanes = 2048;  // threads that share a row
    constexpr int steps = 24 / vector;  // vectors that a thread takes together
    const int64_t rows = batch;
    const int64_t columns = 40000;
    const int lane = cluster_rank() * 1024 + threadIdx.x;
    const int64_t block = blockIdx.x / 2;
    const int64_t blocks = gridDim.x / 2;
    FUSEGEN_SHARED(std::uint64_t, barriers, 2);
    ClusterExchange exchange(barriers);
    constexpr int ahead = 2;  // rows that are under way at once
    FUSEGEN_DYNAMIC_SHARED(std::uint8_t, staged);
    const RowsAhead<bfloat16, vector, steps, 1024> x_ahead(staged, 0);
    // Starts the copies of this thread's share of a row.
    const auto bring_x = [&](int64_t row_ahead, int place) {
        if (row_ahead < rows) {
#pragma unroll
            for (int step = 0; step < steps; ++step) {
                const int64_t first_column = lane * vector + step * (lanes * vector);
                if (first_column < columns) {
                    x_ahead.bring(place, step, x + (packed
                        ? first_column + row_ahead * 40000 : x_strides(row_ahead, first_column)));
                }
            }
        }
    };
#pragma unroll
    for (int place = 0; place < ahead; ++place) {
        bring_x(block + place * blocks, place);
        cp_async_commit();
    }
    int place = 0;  // where the row at hand lies
    for (int64_t first_row = block * 1; first_row < rows; first_row += blocks * 1) {
        const int64_t row = first_row;
        const int64_t row_end = columns;
        cp_async_wait<ahead - 1>();  // for this row
        const int64_t row_ahead = first_row + ahead * blocks;  // takes its place
        Vector<float, vector> cache_0[steps];  // what one phase keeps for the next
        // Phase 1 of 2.
        auto amax_state = Maximum<float>::identity();
#pragma unroll
        for (int step = 0; step < steps; ++step) {
            const int64_t first_column = lane * vector + step * (lanes * vector);
            if (first_column >= row_end) {
                continue;
            }
            const auto x_vector = x_ahead.take(place, step);
#pragma unroll
            for (int element = 0; element < vector; ++element) {
                const int64_t column = first_column + element;
                const float x_value = value_at(x_vector, element);
                const float gelu = fusegen::near_gelu_none(x_value);
                const float widen = gelu;
                amax_state.push(widen, column);
                cache_0[step][element] = widen;
            }
        }
        bring_x(row_ahead, place);
        // By this thread's own greatest, so that one exchange gives all threads' greatest and sum.
        ShiftedSum<float, true> powers{amax_state.result(), 0};
        const float start = powers.start();
#pragma unroll
        for (int step = 0; step < steps; ++step) {
            if (lane * vector + step * (lanes * vector) >= row_end) {
                continue;
            }
#pragma unroll
            for (int element = 0; element < vector; ++element) {
                const float sub = cache_0[step][element] - start;
                const float exp = fusegen::near_exp(sub);
                powers.sum += exp;
                cache_0[step][element] = exp;
            }
        }
        const auto all_powers = reduce_cluster<1024, 2>(powers, exchange);
        const float amax = all_powers.greatest;
        const float sum = all_powers.sum;
        const float own_factor = powers.factor(amax);
        // Phase 2 of 2.
        const float div_share = own_factor / sum;
#pragma unroll
        for (int step = 0; step < steps; ++step) {
            const int64_t first_column = lane * vector + step * (lanes * vector);
            if (first_column >= row_end) {
                continue;
            }
            Vector<bfloat16, vector> y_vector;
#pragma unroll
            for (int element = 0; element < vector; ++element) {
                const float narrow_type = (cache_0[step][element] * div_share);
                y_vector[element] = convert<bfloat16>(narrow_type);
            }
            store_vector(y + first_column + row * 40000, y_vector);
        }

        cp_async_commit();  // without copies too, so that the groups can be counted
        place = place + 1 == ahead ? 0 : place + 1;
    }
#endif
}

// gelu_softmax: gelu, softmax.
// 3 passes over each row, a cluster of blocks a row, while the next rows are copied to shared
// memory; read once and kept in registers.
// Here no row is copied ahead: for few rows, and tensors that are not wide.
// This form is for rows of at most 49152 columns.
template <int vector, bool packed>
__global__ void __launch_bounds__(512, 2) gelu_softmax_cluster_kernel(
    const bfloat16* __restrict__ x,
    Strides<2> x_strides,
    bfloat16* __restrict__ y,
    int64_t batch) {
    wait_for_earlier_kernels();
#if FUSEGEN_HAS_CLUSTERS
    constexpr int lanes = 2048;  // threads that share a row
    constexpr int steps = 24 / vector;  // vectors that a thread takes together
    const int64_t rows = batch;
    const int64_t columns = 40000;
    const int lane = cluster_rank() * 512 + threadIdx.x;
    const int64_t block = blockIdx.x / 4;
    const int64_t blocks = gridDim.x / 4;
    FUSEGEN_SHARED(std::uint64_t, barriers, 2);
    ClusterExchange exchange(barriers);
    for (int64_t first_row = block * 1; first_row < rows; first_row += blocks * 1) {
        const int64_t row = first_row;
        const int64_t row_end = columns;
        Vector<float, vector> cache_0_2[steps];  // what one phase keeps for the next
        // Phase 1 of 3.
        auto amax_state_2 = Maximum<float>::identity();
        Vector<bfloat16, vector> x_vector_2[steps];
#pragma unroll
        for (int step = 0; step < steps; ++step) {
            const int64_t first_column = lane * vector + step * (lanes * vector);
            if (first_column < row_end) {
                x_vector_2[step] = load_vector<bfloat16, vector>(x + (packed
                    ? first_column + row * 40000 : x_strides(row, first_column)));
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
                const float x_value_2 = value_at(x_vector_2[step], element);
                const float gelu_2 = fusegen::near_gelu_none(x_value_2);
                const float widen_2 = gelu_2;
                amax_state_2.push(widen_2, column);
                cache_0_2[step][element] = widen_2;
            }
        }
        amax_state_2 = reduce_cluster<512, 4>(amax_state_2, exchange);
        const float amax_2 = convert<float>(amax_state_2.result());
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
                const float sub_2 = cache_0_2[step][element] - amax_2;
                const float exp_2 = fusegen::near_exp(sub_2);
                sum_state.push(exp_2, column);
                cache_0_2[step][element] = exp_2;
            }
        }
        sum_state = reduce_cluster<512, 4>(sum_state, exchange);
        const float sum_2 = convert<float>(sum_state.result());
        // Phase 3 of 3.
        const Divisor sum_divisor(sum_2);
#pragma unroll
        for (int step = 0; step < steps; ++step) {
            const int64_t first_column = lane * vector + step * (lanes * vector);
            if (first_column >= row_end) {
                continue;
            }
            Vector<bfloat16, vector> y_vector_2;
#pragma unroll
            for (int element = 0; element < vector; ++element) {
                const float div = sum_divisor.near_quotient(cache_0_2[step][element]);
                const float narrow_type_2 = div;
                y_vector_2[element] = convert<bfloat16>(narrow_type_2);
            }
            store_vector(y + first_column + row * 40000, y_vector_2);
        }
    }
#endif
}

// gelu_softmax: gelu, softmax.
// 3 passes over each row, a cluster of blocks a row, while the next rows are copied to shared
// memory; read once and kept in registers.
// Here no row is copied ahead: for few rows, and tensors that are not wide.
// This form reads a row in each pass: for those too long to keep.
template <int vector, bool packed>
__global__ void __launch_bounds__(256, 1) gelu_softmax_looping_kernel(
    const bfloat16* __restrict__ x,
    Strides<2> x_strides,
    bfloat16* __restrict__ y,
    int64_t batch) {
    wait_for_earlier_kernels();
    constexpr int lanes = 256;  // threads that share a row
    constexpr int steps = 32 / vector;  // vectors that a thread takes together
    const int64_t rows = batch;
    const int64_t columns = 40000;
    const int lane = threadIdx.x;
    int turn = 0;  // which of two arrays the next exchange between warps uses
    const int64_t block = blockIdx.x;
    const int64_t blocks = gridDim.x;
    for (int64_t first_row = block * 1; first_row < rows; first_row += blocks * 1) {
        const int64_t row = first_row;
        const int64_t row_end = columns;
        // Phase 1 of 3.
        auto amax_state_3 = Maximum<float>::identity();
        for (int64_t chunk = lane * vector; chunk < row_end; chunk += steps * lanes * vector) {
            Vector<bfloat16, vector> x_vector_3[steps];
#pragma unroll
            for (int step = 0; step < steps; ++step) {
                const int64_t first_column = chunk + step * (lanes * vector);
                if (first_column < row_end) {
                    x_vector_3[step] = load_vector<bfloat16, vector>(x + (packed
                        ? first_column + row * 40000 : x_strides(row, first_column)));
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
                    const float x_value_3 = value_at(x_vector_3[step], element);
                    const float gelu_3 = fusegen::near_gelu_none(x_value_3);
                    const float widen_3 = gelu_3;
                    amax_state_3.push(widen_3, column);
                }
            }
        }
        amax_state_3 = reduce_block<256>(amax_state_3, turn);
        const float amax_3 = convert<float>(amax_state_3.result());
        // Phase 2 of 3.
        auto sum_state_2 = Sum<float>::identity();
        for (int64_t chunk = lane * vector; chunk < row_end; chunk += steps * lanes * vector) {
            Vector<bfloat16, vector> x_vector_4[steps];
#pragma unroll
            for (int step = 0; step < steps; ++step) {
                const int64_t first_column = chunk + step * (lanes * vector);
                if (first_column < row_end) {
                    x_vector_4[step] = load_vector<bfloat16, vector>(x + (packed
                        ? first_column + row * 40000 : x_strides(row, first_column)));
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
                    const float x_value_4 = value_at(x_vector_4[step], element);
                    const float gelu_4 = fusegen::near_gelu_none(x_value_4);
                    const float widen_4 = gelu_4;
                    const float sub_3 = widen_4 - amax_3;
                    const float exp_3 = fusegen::near_exp(sub_3);
                    sum_state_2.push(exp_3, column);
                }
            }
        }
        sum_state_2 = reduce_block<256>(sum_state_2, turn);
        const float sum_3 = convert<float>(sum_state_2.result());
        // Phase 3 of 3.
        const Divisor sum_divisor_2(sum_3);
        for (int64_t chunk = lane * vector; chunk < row_end; chunk += steps * lanes * vector) {
            Vector<bfloat16, vector> x_vector_5[steps];
#pragma unroll
            for (int step = 0; step < steps; ++step) {
                const int64_t first_column = chunk + step * (lanes * vector);
                if (first_column < row_end) {
                    x_vector_5[step] = load_vector<bfloat16, vector>(x + (packed
                        ? first_column + row * 40000 : x_strides(row, first_column)));
                }
            }
#pragma unroll
            for (int step = 0; step < steps; ++step) {
                const int64_t first_column = chunk + step * (lanes * vector);
                if (first_column >= row_end) {
                    continue;
                }
                Vector<bfloat16, vector> y_vector_3;
#pragma unroll
                for (int element = 0; element < vector; ++element) {
                    const float x_value_5 = value_at(x_vector_5[step], element);
                    const float gelu_5 = fusegen::near_gelu_none(x_value_5);
                    const float widen_5 = gelu_5;
                    const float sub_4 = widen_5 - amax_3;
                    const float exp_4 = fusegen::near_exp(sub_4);
                    const float div_2 = sum_divisor_2.near_quotient(exp_4);
                    const float narrow_type_3 = div_2;
                    y_vector_3[element] = convert<bfloat16>(narrow_type_3);
                }
                store_vector(y + first_column + row * 40000, y_vector_3);
            }
        }
    }
}

FUSEGEN_EXPORT int launch_gelu_softmax(
    const bfloat16* x,
    const int64_t* x_strides,
    bfloat16* y,
    int64_t batch,
    void* stream) {
    const int64_t rows = batch;
    const int64_t columns = 40000;
    if (rows == 0) {
        return 0;
    }
    constexpr int vector = 8;
    // Wide accesses for whole vectors of packed tensors; all else goes element by element.
    const bool packed = is_contiguous(x_strides, {batch, 40000}) && is_aligned(x, 16) && is_aligned(y, 16);
    const bool wide = packed && columns % vector == 0;
    const int64_t resident = wide
        ? FUSEGEN_RESIDENT((gelu_softmax_ahead_kernel<vector, true>), 1024, 2, 98304) : 0;
    if (resident > 0 && rows > resident) {
        const dim3 grid = grid_of(resident, 2);
        FUSEGEN_LAUNCH_CLUSTERS((gelu_softmax_ahead_kernel<vector, true>),
                                grid, dim3(1024), 2, 98304, stream,
                                x, Strides<2>(x_strides), y, batch);
    } else if (columns <= 49152 && has_clusters()) {
        const dim3 grid = grid_of(divide_up(rows, 1), 4);
        if (wide) {
            FUSEGEN_LAUNCH_CLUSTERS((gelu_softmax_cluster_kernel<vector, true>),
                                    grid, dim3(512), 4, 0, stream,
                                    x, Strides<2>(x_strides), y, batch);
        } else {
            FUSEGEN_LAUNCH_CLUSTERS((gelu_softmax_cluster_kernel<1, false>),
                                    grid, dim3(512), 4, 0, stream,
                                    x, Strides<2>(x_strides), y, batch);
        }
    } else {
        const dim3 grid = grid_of(divide_up(rows, 1));
        if (wide) {
            FUSEGEN_LAUNCH((gelu_softmax_looping_kernel<vector, true>),
                           grid, dim3(256), 0, stream,
                           x, Strides<2>(x_strides), y, batch);
        } else {
            FUSEGEN_LAUNCH((gelu_softmax_looping_kernel<1, false>),
                           grid, dim3(256), 0, stream,
                           x, Strides<2>(x_strides), y, batch);
        }
    }
    return FUSEGEN_LAST_ERROR();
}
}  // namespace fusegen
