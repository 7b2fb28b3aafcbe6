// Attention_backward.
#include "fusegen/device.cuh"
#include "fusegen/dtypes.cuh"
#include "fusegen/launch.cuh"
#include "fusegen/math.cuh"
#include "fusegen/mma_back_to_back.cuh"
#include "fusegen/reduce.cuh"
#include "fusegen/stepped_division.cuh"
#include "fusegen/wgmma_back_to_back.cuh"

namespace fusegen {
// softmax_gradient: softmax gradient.
// One pass over each row, a part of a warp a row; read in each pass.
template <int vector, bool packed>
__global__ void __launch_bounds__(256, 1) softmax_gradient_kernel(
    const bfloat16* __restrict__ gradient_of_y,
    Strides<3> gradient_of_y_strides,
    const bfloat16* __restrict__ y,
    Strides<3> y_strides,
    const bfloat16* __restrict__ softmax_3,
    Strides<3> softmax_3_strides,
    float* __restrict__ sum,
    int64_t batch,
    int64_t time) {
    wait_for_earlier_kernels();
    constexpr int lanes = 4;  // threads that share a row
    constexpr int steps = 32 / vector;  // vectors that a thread takes together
    const int64_t rows = batch * time;
    const int64_t columns = 64;
    const int lane = threadIdx.x % lanes;
    const int row_in_block = threadIdx.x / lanes;
    const int64_t block = blockIdx.x;
    const int64_t blocks = gridDim.x;
    for (int64_t first_row = block * 64; first_row < rows; first_row += blocks * 64) {
        // Threads beyond the last row stand on it without columns: all take part in exchanges.
        const int64_t own_row = first_row + row_in_block;
        const bool is_active = own_row < rows;
        const int64_t row = is_active ? own_row : rows - 1;
        const int64_t row_end = is_active ? columns : 0;
        // Phase 1 of 1.
        const int64_t row_remainder = row % time;
        const int64_t row_quotient = row / time;
        auto sum_state = Sum<float>::identity();
        for (int64_t chunk = lane * vector; chunk < row_end; chunk += steps * lanes * vector) {
            Vector<bfloat16, vector> gradient_of_y_vector[steps];
            Vector<bfloat16, vector> y_vector[steps];
            Vector<bfloat16, vector> softmax_3_vector[steps];
#pragma unroll
            for (int step = 0; step < steps; ++step) {
                const int64_t first_column = chunk + step * (lanes * vector);
                if (first_column < row_end) {
                    gradient_of_y_vector[step] = load_vector<bfloat16, vector>(gradient_of_y + (packed
                        ? first_column + row * 64
                        : gradient_of_y_strides(row_quotient, row_remainder, first_column)));
                    y_vector[step] = load_vector<bfloat16, vector>(y + (packed
                        ? first_column + row * 64 : y_strides(row_quotient, row_remainder, first_column)));
                    softmax_3_vector[step] = load_vector<bfloat16, vector>(softmax_3 + (packed
                        ? first_column + row * 64
                        : softmax_3_strides(row_quotient, row_remainder, first_column)));
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
                    const float gradient_of_y_value = value_at(gradient_of_y_vector[step], element);
                    const float widen = gradient_of_y_value;
                    const float y_value = value_at(y_vector[step], element);
                    const float widen_2 = y_value;
                    const float softmax_3_value = value_at(softmax_3_vector[step], element);
                    const float widen_3 = softmax_3_value;
                    const float add = widen_2 + widen_3;
                    const float mul = widen * add;
                    sum_state.push(mul, column);
                }
            }
        }
        sum_state = reduce_lanes<4>(sum_state);
        const float sum_2 = convert<float>(sum_state.result());

        if (lane == 0 && is_active) {
            sum[row] = sum_2;
        }
    }
}

FUSEGEN_EXPORT int launch_softmax_gradient(
    const bfloat16* gradient_of_y,
    const int64_t* gradient_of_y_strides,
    const bfloat16* y,
    const int64_t* y_strides,
    const bfloat16* softmax_3,
    const int64_t* softmax_3_strides,
    float* sum,
    int64_t batch,
    int64_t time,
    void* stream) {
    const int64_t rows = batch * time;
    const int64_t columns = 64;
    if (rows == 0) {
        return 0;
    }
    constexpr int vector = 8;
    // Wide accesses for whole vectors of packed tensors; all else goes element by element.
    const bool packed = is_contiguous(gradient_of_y_strides, {batch, time, 64}) &&
                        is_contiguous(y_strides, {batch, time, 64}) &&
                        is_contiguous(softmax_3_strides, {batch, time, 64}) &&
                        is_aligned(gradient_of_y, 16) && is_aligned(y, 16) && is_aligned(softmax_3, 16) &&
                        is_aligned(sum, 16);
    const bool wide = packed && columns % vector == 0;
    const dim3 grid = grid_of(divide_up(rows, 64));
    if (wide) {
        FUSEGEN_LAUNCH((softmax_gradient_kernel<vector, true>),
                       grid, dim3(256), 0, stream,
                       gradient_of_y, Strides<3>(gradient_of_y_strides), y, Strides<3>(y_strides),
                           softmax_3, Strides<3>(softmax_3_strides), sum, batch, time);
    } else {
        FUSEGEN_LAUNCH((softmax_gradient_kernel<1, false>),
                       grid, dim3(256), 0, stream,
                       gradient_of_y, Strides<3>(gradient_of_y_strides), y, Strides<3>(y_strides),
                           softmax_3, Strides<3>(softmax_3_strides), sum, batch, time);
    }
    return FUSEGEN_LAST_ERROR();
}

// gradient_of_q: matmul, mul, where, softmax, softmax gradient, gradient_of_q = matmul gradient,
// where gradient, mul gradient.
// What is made of products is multiplied again from registers, a tile at a time, so that none of
// it is stored.
// This form is for Hopper's tensor cores. One warpgroup of a block brings tiles for the others.
template <int middle_vector>
__global__ void __launch_bounds__(256, 2) gradient_of_q_warpgroup_kernel(
    const __grid_constant__ MatrixMap<1> left_0_map,
    const __grid_constant__ MatrixMap<1> left_1_map,
    const __grid_constant__ MatrixMap<1> right_0_map,
    const __grid_constant__ MatrixMap<1> right_1_map,
    const bfloat16* __restrict__ right_0_matrices,
    int64_t right_0_stride,
    int64_t right_0_batch_stride,
    const bfloat16* __restrict__ right_1_matrices,
    int64_t right_1_stride,
    int64_t right_1_batch_stride,
    const bool* __restrict__ mask,
    Strides<2> mask_strides,
    const float* __restrict__ softmax,
    Strides<3> softmax_strides,
    const float* __restrict__ softmax_2,
    Strides<3> softmax_2_strides,
    const float* __restrict__ sum,
    bfloat16* __restrict__ gradient_of_q,
    int64_t batch,
    int64_t time) {
    wait_for_earlier_kernels();
#if FUSEGEN_HAS_WGMMA
    constexpr bool packed = middle_vector > 1;
    using Left0 = WgmmaTile<bfloat16, 64, 64, Neighbours::in_depth>;
    using Left1 = WgmmaTile<bfloat16, 64, 64, Neighbours::in_depth>;
    using Right0 = WgmmaTile<bfloat16, 64, 64, Neighbours::in_depth, RowOrder::by_lanes>;
    using Right1 = WgmmaTile<bfloat16, 64, 64, Neighbours::in_depth, RowOrder::by_lanes>;
    using TurnedRight0 = WgmmaTile<bfloat16, 64, 64, Neighbours::in_columns, RowOrder::by_lanes>;
    constexpr int left_size = Left0::size + Left1::size;
    constexpr int right_size = Right0::size + Right1::size;
    static_assert((left_size + 2 * right_size) * sizeof(bfloat16) == 49152, "the shared memory of the launch");
    constexpr int tile_rows = 64;
    constexpr int tile_middles = 64;
    const int64_t rows = time;
    const int64_t middles = time;
    const int64_t row_tiles = (rows + tile_rows - 1) / tile_rows;
    const int64_t tiles = batch * row_tiles;
    constexpr int stages = 2;
    FUSEGEN_SHARED(std::uint64_t, barriers, Stages<1>::barrier_count + Stages<stages>::barrier_count);
    FUSEGEN_TILE_SHARED(bfloat16, shared);
    Stages<1> row_stage(barriers);
    Stages<stages> ring(barriers + row_stage.barrier_count);
    if (threadIdx.x == 0) {
        row_stage.make_barriers(1);
        ring.make_barriers(1);
        mbarrier_fence_init();
    }
    __syncthreads();
    // Neighbouring blocks share what is brought, which then stays in the L2 cache.
    if (threadIdx.x < 128) {
        decrease_registers<32>();
        constexpr int threads = 128;
        for (int64_t block = blockIdx.x; block < tiles; block += gridDim.x) {
            const int64_t tile_first_row = block % row_tiles * tile_rows;
            [[maybe_unused]] const int64_t batch_index = block / row_tiles;
            const int left_0_place = left_0_map.place(batch_index);
            const int left_1_place = left_1_map.place(batch_index);
            const int right_0_place = right_0_map.place(batch_index);
            const int right_1_place = right_1_map.place(batch_index);
            const bfloat16* const right_0_matrix = computed_once(right_0_matrices
                + batch_index * right_0_batch_stride);
            const bfloat16* const right_1_matrix = computed_once(right_1_matrices
                + batch_index * right_1_batch_stride);
            row_stage.fill(true, left_size * sizeof(bfloat16), [&](std::uint64_t* barrier) {
                bring_whole<Left0>(shared, left_0_map, barrier,
                    left_0_place, tile_first_row, 0);
                bring_whole<Left1>(shared + Left0::size, left_1_map, barrier,
                    left_1_place, tile_first_row, 0);
            }, [] {});
            for (int64_t first_middle = 0; first_middle < middles; first_middle += tile_middles) {
                bfloat16* const stage = shared + left_size + ring.stage * right_size;
                const bool is_whole = first_middle + tile_middles <= middles;
                ring.fill(is_whole, right_size * sizeof(bfloat16), [&](std::uint64_t* barrier) {
                    bring_whole<Right0>(stage, right_0_map, barrier,
                        right_0_place, first_middle, 0);
                    bring_whole<Right1>(stage + Right0::size, right_1_map, barrier,
                        right_1_place, first_middle, 0);
                }, [&] {
                    Right0::template load<threads, 4>(stage, right_0_matrix, static_cast<int>(right_0_stride),
                        first_middle, middles, 0, 64);
                    Right1::template load<threads, 4>(stage
                        + Right0::size, right_1_matrix, static_cast<int>(right_1_stride),
                        first_middle, middles, 0, 64);
                });
            }
        }
        return;
    }
    increase_registers<224>();
    const ByWarpgroups<bfloat16> products;
    for (int64_t block = blockIdx.x; block < tiles; block += gridDim.x) {
        const int64_t tile_first_row = block % row_tiles * tile_rows;
        [[maybe_unused]] const int64_t batch_index = block / row_tiles;
        // What neighbouring products meet at their place, and what is made of them and multiplied.
        struct Met {
            enum {
                registers = registers_of<
                    Vector<bool, middle_vector>>
            };
            Vector<bool, middle_vector> mask_vector;
        };
        const auto meet = [&]([[maybe_unused]] int row_in_tile, [[maybe_unused]] int64_t first_middle) {
            constexpr int vector = middle_vector;
            const int64_t row = tile_first_row + row_in_tile;
            return Met{load_vector<bool, vector>(mask + (packed
                ? first_middle + row * time : mask_strides(row, first_middle)))};
        };
        struct OfRow {
            float softmax_of_row;
            float softmax_2_of_row;
            float sum_of_row;
        };
        const auto meet_row = [&]([[maybe_unused]] int row_in_tile) {
            const int64_t row = tile_first_row + row_in_tile;
            return OfRow{softmax[packed ? row + batch_index * time : softmax_strides(batch_index, row, 0)],
                         softmax_2[packed
                             ? row + batch_index * time : softmax_2_strides(batch_index, row, 0)],
                         sum[row + batch_index * time]};
        };
        const auto make = [&]([[maybe_unused]] int row_in_tile, [[maybe_unused]] int64_t first_middle,
                              [[maybe_unused]] const OfRow& of_row, [[maybe_unused]] const Met& met,
                              const float (&firsts)[2][middle_vector],
                              float (&made)[1][middle_vector]) {
            constexpr int vector = middle_vector;
#pragma unroll
            for (int element = 0; element < vector; ++element) {
                const float product_0 = firsts[0][element];
                const float product_1 = firsts[1][element];
                const bool mask_value = value_at(met.mask_vector, element);
                const float mul = product_0 * 0.125f;
                const float where = mask_value ? mul : (-fusegen::infinity<float>());
                const float widen = where;
                const float softmax_value = of_row.softmax_of_row;
                const float sub = widen - softmax_value;
                const float exp = fusegen::near_exp(sub);
                const float softmax_2_value = of_row.softmax_2_of_row;
                const float mul_2 = exp * softmax_2_value;
                const float narrow_type = mul_2;
                const float widen_2 = narrow_type;
                const float widen_3 = product_1;
                const float sum_value = of_row.sum_of_row;
                const float sub_2 = widen_3 - sum_value;
                const float mul_3 = widen_2 * sub_2;
                const float narrow_type_2 = mul_3;
                const float where_2 = mask_value ? narrow_type_2 : 0.0f;
                const float mul_4 = where_2 * 0.125f;
                made[0][element] = mul_4;
            }
        };
        const int rows_here = within(rows, tile_first_row, tile_rows);
        OfRow of_rows[2];
        of_held_rows(of_rows, products.first_row, rows_here, meet_row);
        float held[2][tile_middles / 2];
        float sums_0[TurnedRight0::tile_lines / 2] = {};
        using Places = HeldPlaces<tile_middles, Right0::lane_run, middle_vector>;
        const auto places_at = [&](int64_t first_middle) {
            return Places{products.first_row, rows_here, first_middle, within(middles, first_middle, tile_middles)};
        };
        MetThere<Met, Places, 112, decltype(meet)> met(meet);
        if (middles > 0) {
            met.load(places_at(0));
        }
        row_stage.await();
        for (int64_t first_middle = 0; first_middle < middles; first_middle += tile_middles) {
            ring.await();
            const bfloat16* const stage = shared + left_size + ring.stage * right_size;
            products.begin(held[0], held[1]);
            products.template multiply<Left0, Right0>(held[0], shared, stage);
            products.template multiply<Left1, Right1>(held[1], shared + Left0::size, stage + Right0::size);
            products.commit();
            products.finish(held[0], held[1]);
            std::uint32_t operands[1][tile_middles / 16][4];
            make_operands<bfloat16>(operands, held, places_at(first_middle), of_rows, met, make);
            products.begin(sums_0, operands[0]);
            products.template multiply_held<TurnedRight0>(sums_0, operands[0], stage);
            products.commit();
            // What the next step meets is loaded while these are multiplied.
            if (first_middle + tile_middles < middles) {
                met.load(places_at(first_middle + tile_middles));
            }
            products.finish(sums_0, operands[0]);
            ring.release();
            ring.next();
        }
        row_stage.release();
        row_stage.next();
        constexpr int column_vector_0 = packed ? 2 : 1;
        const auto keep_0 = [&](int row_in_tile, int first_column, const float* results) {
            constexpr int vector = column_vector_0;
            const int64_t row = tile_first_row + row_in_tile;
            Vector<bfloat16, vector> gradient_of_q_vector;
#pragma unroll
            for (int element = 0; element < vector; ++element) {
                gradient_of_q_vector[element] = convert<bfloat16>(results[element]);
            }
            store_vector(gradient_of_q + first_column + row * 64
                + batch_index * time * 64, gradient_of_q_vector);
        };
        hand_over<column_vector_0>(sums_0, products.first_row, rows_here, keep_0);
    }
#else
    __trap();  // the launcher takes another form there
#endif
}

// gradient_of_q: matmul, mul, where, softmax, softmax gradient, gradient_of_q = matmul gradient,
// where gradient, mul gradient.
// What is made of products is multiplied again from registers, a tile at a time, so that none of
// it is stored.
// This form is for all tensor cores.
template <int middle_vector, bool whole>
__global__ void __launch_bounds__(256, 1) gradient_of_q_kernel(
    const bfloat16* __restrict__ left_0_matrices,
    int64_t left_0_stride,
    int64_t left_0_batch_stride,
    const bfloat16* __restrict__ left_1_matrices,
    int64_t left_1_stride,
    int64_t left_1_batch_stride,
    const bfloat16* __restrict__ right_0_matrices,
    int64_t right_0_stride,
    int64_t right_0_batch_stride,
    const bfloat16* __restrict__ right_1_matrices,
    int64_t right_1_stride,
    int64_t right_1_batch_stride,
    const bfloat16* __restrict__ q,
    Strides<3> q_strides,
    const bfloat16* __restrict__ gradient_of_y,
    Strides<3> gradient_of_y_strides,
    const bfloat16* __restrict__ k,
    Strides<3> k_strides,
    const bfloat16* __restrict__ v,
    Strides<3> v_strides,
    const bool* __restrict__ mask,
    Strides<2> mask_strides,
    const float* __restrict__ softmax,
    Strides<3> softmax_strides,
    const float* __restrict__ softmax_2,
    Strides<3> softmax_2_strides,
    const float* __restrict__ sum,
    bfloat16* __restrict__ gradient_of_q,
    int64_t batch,
    int64_t time) {
    wait_for_earlier_kernels();
    constexpr bool packed = middle_vector > 1;
    using Left0 = MmaTile<bfloat16, 128, 64, Neighbours::in_depth>;
    using Left1 = MmaTile<bfloat16, 128, 64, Neighbours::in_depth>;
    using Right0 = MmaTile<bfloat16, 32, 64, Neighbours::in_depth, RowOrder::by_lanes>;
    using Right1 = MmaTile<bfloat16, 32, 64, Neighbours::in_depth, RowOrder::by_lanes>;
    using TurnedRight0 = MmaTile<bfloat16, 64, 32, Neighbours::in_columns, RowOrder::by_lanes>;
    constexpr int left_size = Left0::size + Left1::size;
    constexpr int right_size = Right0::size + Right1::size;
    static_assert((left_size + 2 * right_size) * sizeof(bfloat16) == 55296, "the shared memory of the launch");
    constexpr int tile_rows = 128;
    constexpr int tile_middles = 32;
    const int64_t rows = time;
    const int64_t middles = time;
    const int64_t row_tiles = (rows + tile_rows - 1) / tile_rows;
    const int64_t tiles = batch * row_tiles;
    constexpr int threads = 256;
    const ByWarps<bfloat16> products;
    FUSEGEN_DYNAMIC_SHARED(bfloat16, shared);
    // Neighbouring blocks share what is brought, which then stays in the L2 cache.
    for (int64_t block = blockIdx.x; block < tiles; block += gridDim.x) {
        const int64_t tile_first_row = block % row_tiles * tile_rows;
        [[maybe_unused]] const int64_t batch_index = block / row_tiles;
        const bfloat16* const left_0_matrix = computed_once(left_0_matrices
            + batch_index * left_0_batch_stride);
        const bfloat16* const left_1_matrix = computed_once(left_1_matrices
            + batch_index * left_1_batch_stride);
        const bfloat16* const right_0_matrix = computed_once(right_0_matrices
            + batch_index * right_0_batch_stride);
        const bfloat16* const right_1_matrix = computed_once(right_1_matrices
            + batch_index * right_1_batch_stride);
        const auto bring = [&](bfloat16* stage, int64_t first_middle) {
            if constexpr (whole) {
                Right0::template load<threads>(stage, right_0_matrix, static_cast<int>(right_0_stride),
                    first_middle, middles, 0, 64);
            } else {
                Right0::template load_each<threads>(stage, first_middle, middles, 0, 64,
                    [&](int64_t middle, int64_t column) { return k[packed
                        ? column + middle * 64 + batch_index * time * 64
                        : k_strides(batch_index, middle, column)]; });
            }
            if constexpr (whole) {
                Right1::template load<threads>(stage
                    + Right0::size, right_1_matrix, static_cast<int>(right_1_stride),
                    first_middle, middles, 0, 64);
            } else {
                Right1::template load_each<threads>(stage + Right0::size, first_middle, middles, 0, 64,
                    [&](int64_t middle, int64_t column) { return v[packed
                        ? column + middle * 64 + batch_index * time * 64
                        : v_strides(batch_index, middle, column)]; });
            }
        };
        if constexpr (whole) {
            Left0::template load<threads>(shared, left_0_matrix, static_cast<int>(left_0_stride),
                tile_first_row, rows, 0, 64);
        } else {
            Left0::template load_each<threads>(shared, tile_first_row, rows, 0, 64,
                [&](int64_t row, int64_t column) { return q[packed
                    ? column + row * 64 + batch_index * time * 64 : q_strides(batch_index, row, column)]; });
        }
        if constexpr (whole) {
            Left1::template load<threads>(shared
                + Left0::size, left_1_matrix, static_cast<int>(left_1_stride),
                tile_first_row, rows, 0, 64);
        } else {
            Left1::template load_each<threads>(shared + Left0::size, tile_first_row, rows, 0, 64,
                [&](int64_t row, int64_t column) { return gradient_of_y[packed
                    ? column + row * 64 + batch_index * time * 64
                    : gradient_of_y_strides(batch_index, row, column)]; });
        }
        const TileRing<2, right_size, tile_middles, bfloat16, decltype(bring)> ring{shared
            + left_size, middles, bring};
        ring.bring(0);
        // What neighbouring products meet at their place, and what is made of them and multiplied.
        struct Met {
            enum {
                registers = registers_of<
                    Vector<bool, middle_vector>>
            };
            Vector<bool, middle_vector> mask_vector;
        };
        const auto meet = [&]([[maybe_unused]] int row_in_tile, [[maybe_unused]] int64_t first_middle) {
            constexpr int vector = middle_vector;
            const int64_t row = tile_first_row + row_in_tile;
            return Met{load_vector<bool, vector>(mask + (packed
                ? first_middle + row * time : mask_strides(row, first_middle)))};
        };
        struct OfRow {
            float softmax_of_row;
            float softmax_2_of_row;
            float sum_of_row;
        };
        const auto meet_row = [&]([[maybe_unused]] int row_in_tile) {
            const int64_t row = tile_first_row + row_in_tile;
            return OfRow{softmax[packed ? row + batch_index * time : softmax_strides(batch_index, row, 0)],
                         softmax_2[packed
                             ? row + batch_index * time : softmax_2_strides(batch_index, row, 0)],
                         sum[row + batch_index * time]};
        };
        const auto make = [&]([[maybe_unused]] int row_in_tile, [[maybe_unused]] int64_t first_middle,
                              [[maybe_unused]] const OfRow& of_row, [[maybe_unused]] const Met& met,
                              const float (&firsts)[2][middle_vector],
                              float (&made)[1][middle_vector]) {
            constexpr int vector = middle_vector;
#pragma unroll
            for (int element = 0; element < vector; ++element) {
                const float product_0 = firsts[0][element];
                const float product_1 = firsts[1][element];
                const bool mask_value = value_at(met.mask_vector, element);
                const float mul = product_0 * 0.125f;
                const float where = mask_value ? mul : (-fusegen::infinity<float>());
                const float widen = where;
                const float softmax_value = of_row.softmax_of_row;
                const float sub = widen - softmax_value;
                const float exp = fusegen::near_exp(sub);
                const float softmax_2_value = of_row.softmax_2_of_row;
                const float mul_2 = exp * softmax_2_value;
                const float narrow_type = mul_2;
                const float widen_2 = narrow_type;
                const float widen_3 = product_1;
                const float sum_value = of_row.sum_of_row;
                const float sub_2 = widen_3 - sum_value;
                const float mul_3 = widen_2 * sub_2;
                const float narrow_type_2 = mul_3;
                const float where_2 = mask_value ? narrow_type_2 : 0.0f;
                const float mul_4 = where_2 * 0.125f;
                made[0][element] = mul_4;
            }
        };
        const int rows_here = within(rows, tile_first_row, tile_rows);
        OfRow of_rows[2];
        of_held_rows(of_rows, products.first_row, rows_here, meet_row);
        float held[2][tile_middles / 2];
        float sums_0[TurnedRight0::tile_lines / 2] = {};
        using Places = HeldPlaces<tile_middles, Right0::lane_run, middle_vector>;
        const auto places_at = [&](int64_t first_middle) {
            return Places{products.first_row, rows_here, first_middle, within(middles, first_middle, tile_middles)};
        };
        MetThere<Met, Places, 112, decltype(meet)> met(meet);
        if (middles > 0) {
            met.load(places_at(0));
        }
        for (int64_t step = 0; step < ring.steps(); ++step) {
            products.await_tiles();
            ring.bring(step + 1);
            const bfloat16* const stage = ring.stage(step);
            const int64_t first_middle = step * tile_middles;
            products.begin(held[0], held[1]);
            products.template multiply<Left0, Right0>(held[0], shared, stage);
            products.template multiply<Left1, Right1>(held[1], shared + Left0::size, stage + Right0::size);
            products.commit();
            products.finish(held[0], held[1]);
            std::uint32_t operands[1][tile_middles / 16][4];
            make_operands<bfloat16>(operands, held, places_at(first_middle), of_rows, met, make);
            products.begin(sums_0, operands[0]);
            products.template multiply_held<TurnedRight0>(sums_0, operands[0], stage);
            products.commit();
            // What the next step meets is loaded while these are multiplied.
            if (first_middle + tile_middles < middles) {
                met.load(places_at(first_middle + tile_middles));
            }
            products.finish(sums_0, operands[0]);
        }
        constexpr int column_vector_0 = packed ? 2 : 1;
        const auto keep_0 = [&](int row_in_tile, int first_column, const float* results) {
            constexpr int vector = column_vector_0;
            const int64_t row = tile_first_row + row_in_tile;
            Vector<bfloat16, vector> gradient_of_q_vector;
#pragma unroll
            for (int element = 0; element < vector; ++element) {
                gradient_of_q_vector[element] = convert<bfloat16>(results[element]);
            }
            store_vector(gradient_of_q + first_column + row * 64
                + batch_index * time * 64, gradient_of_q_vector);
        };
        hand_over<column_vector_0>(sums_0, products.first_row, rows_here, keep_0);
        __syncthreads();  // the next tile's copies may overwrite the shared memory
    }
}

FUSEGEN_EXPORT int launch_gradient_of_q(
    const bfloat16* q,
    const int64_t* q_strides,
    const bfloat16* gradient_of_y,
    const int64_t* gradient_of_y_strides,
    const bfloat16* k,
    const int64_t* k_strides,
    const bfloat16* v,
    const int64_t* v_strides,
    const bool* mask,
    const int64_t* mask_strides,
    const float* softmax,
    const int64_t* softmax_strides,
    const float* softmax_2,
    const int64_t* softmax_2_strides,
    const float* sum,
    bfloat16* gradient_of_q,
    int64_t batch,
    int64_t time,
    void* stream) {
    const int64_t rows = time;
    if (batch * rows == 0) {
        return 0;
    }
    int64_t left_0_run[3];
    int64_t left_1_run[3];
    int64_t right_0_run[3];
    int64_t right_1_run[3];
    // Operands are read 16 bytes at a time, and all else in vectors, if they lie so.
    if (merge_dims(q_strides, {batch, time, 64}, {1, 2, 3}, left_0_run) &&
        left_0_run[2] == 1 &&
        is_aligned(q, 16) &&
        (left_0_run[1]) % 8 == 0 &&
        (left_0_run[0]) % 8 == 0 &&
        left_0_run[1] < stride_limit &&
        merge_dims(gradient_of_y_strides, {batch, time, 64}, {1, 2, 3}, left_1_run) &&
        left_1_run[2] == 1 &&
        is_aligned(gradient_of_y, 16) &&
        (left_1_run[1]) % 8 == 0 &&
        (left_1_run[0]) % 8 == 0 &&
        left_1_run[1] < stride_limit &&
        merge_dims(k_strides, {batch, time, 64}, {1, 2, 3}, right_0_run) &&
        right_0_run[2] == 1 &&
        is_aligned(k, 16) &&
        (right_0_run[1]) % 8 == 0 &&
        (right_0_run[0]) % 8 == 0 &&
        right_0_run[1] < stride_limit &&
        merge_dims(v_strides, {batch, time, 64}, {1, 2, 3}, right_1_run) &&
        right_1_run[2] == 1 &&
        is_aligned(v, 16) &&
        (right_1_run[1]) % 8 == 0 &&
        (right_1_run[0]) % 8 == 0 &&
        right_1_run[1] < stride_limit) {
        const bool in_vectors = is_contiguous(mask_strides, {time, time}) &&
                                is_contiguous(softmax_strides, {batch, time, 1}) &&
                                is_contiguous(softmax_2_strides, {batch, time, 1}) && is_aligned(mask, 8) &&
                                is_aligned(softmax, 16) && is_aligned(softmax_2, 16) && is_aligned(sum, 16) &&
                                is_aligned(gradient_of_q, 4) && time % 8 == 0;
        MatrixMap<1> left_0_map;
        MatrixMap<1> left_1_map;
        MatrixMap<1> right_0_map;
        MatrixMap<1> right_1_map;
        if (has_wgmma() &&
            map_matrices<WgmmaTile<bfloat16, 64, 64, Neighbours::in_depth>>(
                &left_0_map, q, time, 64, left_0_run[1],
                {batch}, {left_0_run[0]}) &&
            map_matrices<WgmmaTile<bfloat16, 64, 64, Neighbours::in_depth>>(
                &left_1_map, gradient_of_y, time, 64, left_1_run[1],
                {batch}, {left_1_run[0]}) &&
            map_matrices<WgmmaTile<bfloat16, 64, 64, Neighbours::in_depth, RowOrder::by_lanes>>(
                &right_0_map, k, time, 64, right_0_run[1],
                {batch}, {right_0_run[0]}) &&
            map_matrices<WgmmaTile<bfloat16, 64, 64, Neighbours::in_depth, RowOrder::by_lanes>>(
                &right_1_map, v, time, 64, right_1_run[1],
                {batch}, {right_1_run[0]})) {
            const int64_t resident = processor_count() * 2;
            const int64_t tiles = batch * divide_up(rows, 64);
            if (in_vectors) {
                FUSEGEN_LAUNCH((gradient_of_q_warpgroup_kernel<8>),
                               grid_of(tiles < resident ? tiles : resident), dim3(256), 49152, stream,
                               left_0_map, left_1_map, right_0_map, right_1_map,
                               k, right_0_run[1], right_0_run[0],
                               v, right_1_run[1], right_1_run[0],
                               mask, Strides<2>(mask_strides), softmax, Strides<3>(softmax_strides), softmax_2,
                               Strides<3>(softmax_2_strides), sum, gradient_of_q, batch, time);
                return FUSEGEN_LAST_ERROR();
            }
            FUSEGEN_LAUNCH((gradient_of_q_warpgroup_kernel<1>),
                           grid_of(tiles < resident ? tiles : resident), dim3(256), 49152, stream,
                           left_0_map, left_1_map, right_0_map, right_1_map,
                           k, right_0_run[1], right_0_run[0],
                           v, right_1_run[1], right_1_run[0],
                           mask, Strides<2>(mask_strides), softmax, Strides<3>(softmax_strides), softmax_2,
                           Strides<3>(softmax_2_strides), sum, gradient_of_q, batch, time);
            return FUSEGEN_LAST_ERROR();
        }
        if (in_vectors) {
            FUSEGEN_LAUNCH((gradient_of_q_kernel<8, true>),
                           grid_of(batch * divide_up(rows, 128)), dim3(256), 55296, stream,
                           q, left_0_run[1], left_0_run[0],
                           gradient_of_y, left_1_run[1], left_1_run[0],
                           k, right_0_run[1], right_0_run[0],
                           v, right_1_run[1], right_1_run[0],
                           q, Strides<3>(q_strides), gradient_of_y, Strides<3>(gradient_of_y_strides), k,
                           Strides<3>(k_strides), v, Strides<3>(v_strides), mask, Strides<2>(mask_strides), softmax,
                           Strides<3>(softmax_strides), softmax_2, Strides<3>(softmax_2_strides), sum, gradient_of_q,
                           batch, time);
            return FUSEGEN_LAST_ERROR();
        }
        FUSEGEN_LAUNCH((gradient_of_q_kernel<1, true>),
                       grid_of(batch * divide_up(rows, 128)), dim3(256), 55296, stream,
                       q, left_0_run[1], left_0_run[0],
                       gradient_of_y, left_1_run[1], left_1_run[0],
                       k, right_0_run[1], right_0_run[0],
                       v, right_1_run[1], right_1_run[0],
                       q, Strides<3>(q_strides), gradient_of_y, Strides<3>(gradient_of_y_strides), k,
                       Strides<3>(k_strides), v, Strides<3>(v_strides), mask, Strides<2>(mask_strides), softmax,
                       Strides<3>(softmax_strides), softmax_2, Strides<3>(softmax_2_strides), sum, gradient_of_q,
                       batch, time);
        return FUSEGEN_LAST_ERROR();
    }
    FUSEGEN_LAUNCH((gradient_of_q_kernel<1, false>),
                   grid_of(batch * divide_up(rows, 128)), dim3(256), 55296, stream,
                   nullptr, 0, 0,
                   nullptr, 0, 0,
                   nullptr, 0, 0,
                   nullptr, 0, 0,
                   q, Strides<3>(q_strides), gradient_of_y, Strides<3>(gradient_of_y_strides), k,
                   Strides<3>(k_strides), v, Strides<3>(v_strides), mask, Strides<2>(mask_strides), softmax,
                   Strides<3>(softmax_strides), softmax_2, Strides<3>(softmax_2_strides), sum, gradient_of_q,
                   batch, time);
    return FUSEGEN_LAST_ERROR();
}

// gradient_of_k_gradient_of_v: matmul, mul, where, softmax, softmax gradient, gradient_of_v =
// matmul gradient, where gradient, mul gradient, gradient_of_k = transpose gradient.
// What is made of products is multiplied again from registers, a tile at a time, so that none of
// it is stored.
// This form is for Hopper's tensor cores. One warpgroup of a block brings tiles for the others.
template <int middle_vector>
__global__ void __launch_bounds__(256, 2) gradient_of_k_gradient_of_v_warpgroup_kernel(
    const __grid_constant__ MatrixMap<1> left_0_map,
    const __grid_constant__ MatrixMap<1> left_1_map,
    const __grid_constant__ MatrixMap<1> right_0_map,
    const __grid_constant__ MatrixMap<1> right_1_map,
    const bfloat16* __restrict__ right_0_matrices,
    int64_t right_0_stride,
    int64_t right_0_batch_stride,
    const bfloat16* __restrict__ right_1_matrices,
    int64_t right_1_stride,
    int64_t right_1_batch_stride,
    const bool* __restrict__ mask,
    Strides<2> mask_strides,
    const float* __restrict__ softmax,
    Strides<3> softmax_strides,
    const float* __restrict__ softmax_2,
    Strides<3> softmax_2_strides,
    const float* __restrict__ sum,
    bfloat16* __restrict__ gradient_of_k,
    bfloat16* __restrict__ gradient_of_v,
    int64_t batch,
    int64_t time) {
    wait_for_earlier_kernels();
#if FUSEGEN_HAS_WGMMA
    constexpr bool packed = middle_vector > 1;
    using Left0 = WgmmaTile<bfloat16, 64, 64, Neighbours::in_depth>;
    using Left1 = WgmmaTile<bfloat16, 64, 64, Neighbours::in_depth>;
    using Right0 = WgmmaTile<bfloat16, 64, 64, Neighbours::in_depth, RowOrder::by_lanes>;
    using Right1 = WgmmaTile<bfloat16, 64, 64, Neighbours::in_depth, RowOrder::by_lanes>;
    using TurnedRight0 = WgmmaTile<bfloat16, 64, 64, Neighbours::in_columns, RowOrder::by_lanes>;
    using TurnedRight1 = WgmmaTile<bfloat16, 64, 64, Neighbours::in_columns, RowOrder::by_lanes>;
    constexpr int left_size = Left0::size + Left1::size;
    constexpr int right_size = Right0::size + Right1::size;
    static_assert((left_size + 2 * right_size) * sizeof(bfloat16) == 49152, "the shared memory of the launch");
    constexpr int tile_rows = 64;
    constexpr int tile_middles = 64;
    const int64_t rows = time;
    const int64_t middles = time;
    const int64_t row_tiles = (rows + tile_rows - 1) / tile_rows;
    const int64_t tiles = batch * row_tiles;
    constexpr int stages = 2;
    FUSEGEN_SHARED(std::uint64_t, barriers, Stages<1>::barrier_count + Stages<stages>::barrier_count);
    FUSEGEN_TILE_SHARED(bfloat16, shared);
    Stages<1> row_stage(barriers);
    Stages<stages> ring(barriers + row_stage.barrier_count);
    if (threadIdx.x == 0) {
        row_stage.make_barriers(1);
        ring.make_barriers(1);
        mbarrier_fence_init();
    }
    __syncthreads();
    // Neighbouring blocks share what is brought, which then stays in the L2 cache.
    if (threadIdx.x < 128) {
        decrease_registers<32>();
        constexpr int threads = 128;
        for (int64_t block = blockIdx.x; block < tiles; block += gridDim.x) {
            const int64_t tile_first_row = block % row_tiles * tile_rows;
            [[maybe_unused]] const int64_t batch_index = block / row_tiles;
            const int left_0_place = left_0_map.place(batch_index);
            const int left_1_place = left_1_map.place(batch_index);
            const int right_0_place = right_0_map.place(batch_index);
            const int right_1_place = right_1_map.place(batch_index);
            const bfloat16* const right_0_matrix = computed_once(right_0_matrices
                + batch_index * right_0_batch_stride);
            const bfloat16* const right_1_matrix = computed_once(right_1_matrices
                + batch_index * right_1_batch_stride);
            row_stage.fill(true, left_size * sizeof(bfloat16), [&](std::uint64_t* barrier) {
                bring_whole<Left0>(shared, left_0_map, barrier,
                    left_0_place, tile_first_row, 0);
                bring_whole<Left1>(shared + Left0::size, left_1_map, barrier,
                    left_1_place, tile_first_row, 0);
            }, [] {});
            for (int64_t first_middle = 0; first_middle < middles; first_middle += tile_middles) {
                bfloat16* const stage = shared + left_size + ring.stage * right_size;
                const bool is_whole = first_middle + tile_middles <= middles;
                ring.fill(is_whole, right_size * sizeof(bfloat16), [&](std::uint64_t* barrier) {
                    bring_whole<Right0>(stage, right_0_map, barrier,
                        right_0_place, first_middle, 0);
                    bring_whole<Right1>(stage + Right0::size, right_1_map, barrier,
                        right_1_place, first_middle, 0);
                }, [&] {
                    Right0::template load<threads, 4>(stage, right_0_matrix, static_cast<int>(right_0_stride),
                        first_middle, middles, 0, 64);
                    Right1::template load<threads, 4>(stage
                        + Right0::size, right_1_matrix, static_cast<int>(right_1_stride),
                        first_middle, middles, 0, 64);
                });
            }
        }
        return;
    }
    increase_registers<224>();
    const ByWarpgroups<bfloat16> products;
    for (int64_t block = blockIdx.x; block < tiles; block += gridDim.x) {
        const int64_t tile_first_row = block % row_tiles * tile_rows;
        [[maybe_unused]] const int64_t batch_index = block / row_tiles;
        // What neighbouring products meet at their place, and what is made of them and multiplied.
        struct Met {
            enum {
                registers = registers_of<
                    Vector<float, middle_vector>,
                    Vector<float, middle_vector>,
                    Vector<float, middle_vector>,
                    Vector<bool, middle_vector>>
            };
            Vector<float, middle_vector> softmax_vector;
            Vector<float, middle_vector> softmax_2_vector;
            Vector<float, middle_vector> sum_vector;
            Vector<bool, middle_vector> mask_gathered;
        };
        const auto meet = [&]([[maybe_unused]] int row_in_tile, [[maybe_unused]] int64_t first_middle) {
            constexpr int vector = middle_vector;
            const int64_t row = tile_first_row + row_in_tile;
            return Met{load_vector<float, vector>(softmax + (packed
                ? first_middle + batch_index * time : softmax_strides(batch_index, first_middle, 0))),
            load_vector<float, vector>(softmax_2 + (packed
                ? first_middle + batch_index * time : softmax_2_strides(batch_index, first_middle, 0))),
            load_vector<float, vector>(sum + first_middle + batch_index * time),
            gathered<bool, vector>([&](int element) {
                const int64_t middle = first_middle + element;
                return mask[packed ? row + middle * time : mask_strides(middle, row)];
            })};
        };
        struct OfRow {};
        const auto meet_row = [](int) { return OfRow{}; };
        const auto make = [&]([[maybe_unused]] int row_in_tile, [[maybe_unused]] int64_t first_middle,
                              [[maybe_unused]] const OfRow& of_row, [[maybe_unused]] const Met& met,
                              const float (&firsts)[2][middle_vector],
                              float (&made)[2][middle_vector]) {
            constexpr int vector = middle_vector;
#pragma unroll
            for (int element = 0; element < vector; ++element) {
                const float product_0 = firsts[0][element];
                const float product_1 = firsts[1][element];
                const bool mask_value = value_at(met.mask_gathered, element);
                const float mul = product_0 * 0.125f;
                const float where = mask_value ? mul : (-fusegen::infinity<float>());
                const float widen = where;
                const float softmax_value = met.softmax_vector[element];
                const float sub = widen - softmax_value;
                const float exp = fusegen::near_exp(sub);
                const float softmax_2_value = met.softmax_2_vector[element];
                const float mul_2 = exp * softmax_2_value;
                const float narrow_type = mul_2;
                const float widen_2 = narrow_type;
                const float widen_3 = product_1;
                const float sum_value = met.sum_vector[element];
                const float sub_2 = widen_3 - sum_value;
                const float mul_3 = widen_2 * sub_2;
                const float narrow_type_2 = mul_3;
                const float where_2 = mask_value ? narrow_type_2 : 0.0f;
                const float mul_4 = where_2 * 0.125f;
                made[0][element] = mul_4;
                made[1][element] = narrow_type;
            }
        };
        const int rows_here = within(rows, tile_first_row, tile_rows);
        OfRow of_rows[2];
        of_held_rows(of_rows, products.first_row, rows_here, meet_row);
        float held[2][tile_middles / 2];
        float sums_0[TurnedRight0::tile_lines / 2] = {};
        float sums_1[TurnedRight1::tile_lines / 2] = {};
        using Places = HeldPlaces<tile_middles, Right0::lane_run, middle_vector>;
        const auto places_at = [&](int64_t first_middle) {
            return Places{products.first_row, rows_here, first_middle, within(middles, first_middle, tile_middles)};
        };
        MetThere<Met, Places, 112, decltype(meet)> met(meet);
        if (middles > 0) {
            met.load(places_at(0));
        }
        row_stage.await();
        for (int64_t first_middle = 0; first_middle < middles; first_middle += tile_middles) {
            ring.await();
            const bfloat16* const stage = shared + left_size + ring.stage * right_size;
            products.begin(held[0], held[1]);
            products.template multiply<Left0, Right0>(held[0], shared, stage);
            products.template multiply<Left1, Right1>(held[1], shared + Left0::size, stage + Right0::size);
            products.commit();
            products.finish(held[0], held[1]);
            std::uint32_t operands[2][tile_middles / 16][4];
            make_operands<bfloat16>(operands, held, places_at(first_middle), of_rows, met, make);
            products.begin(sums_0, operands[0], sums_1, operands[1]);
            products.template multiply_held<TurnedRight0>(sums_0, operands[0], stage);
            products.template multiply_held<TurnedRight1>(sums_1, operands[1], stage + Right0::size);
            products.commit();
            // What the next step meets is loaded while these are multiplied.
            if (first_middle + tile_middles < middles) {
                met.load(places_at(first_middle + tile_middles));
            }
            products.finish(sums_0, operands[0], sums_1, operands[1]);
            ring.release();
            ring.next();
        }
        row_stage.release();
        row_stage.next();
        constexpr int column_vector_0 = packed ? 2 : 1;
        const auto keep_0 = [&](int row_in_tile, int first_column, const float* results) {
            constexpr int vector = column_vector_0;
            const int64_t row = tile_first_row + row_in_tile;
            Vector<bfloat16, vector> gradient_of_k_vector;
#pragma unroll
            for (int element = 0; element < vector; ++element) {
                gradient_of_k_vector[element] = convert<bfloat16>(results[element]);
            }
            store_vector(gradient_of_k + first_column + row * 64
                + batch_index * time * 64, gradient_of_k_vector);
        };
        hand_over<column_vector_0>(sums_0, products.first_row, rows_here, keep_0);
        constexpr int column_vector_1 = packed ? 2 : 1;
        const auto keep_1 = [&](int row_in_tile, int first_column, const float* results) {
            constexpr int vector = column_vector_1;
            const int64_t row = tile_first_row + row_in_tile;
            Vector<bfloat16, vector> gradient_of_v_vector;
#pragma unroll
            for (int element = 0; element < vector; ++element) {
                gradient_of_v_vector[element] = convert<bfloat16>(results[element]);
            }
            store_vector(gradient_of_v + first_column + row * 64
                + batch_index * time * 64, gradient_of_v_vector);
        };
        hand_over<column_vector_1>(sums_1, products.first_row, rows_here, keep_1);
    }
#else
    __trap();  // the launcher takes another form there
#endif
}

// gradient_of_k_gradient_of_v: matmul, mul, where, softmax, softmax gradient, gradient_of_v =
// matmul gradient, where gradient, mul gradient, gradient_of_k = transpose gradient.
// What is made of products is multiplied again from registers, a tile at a time, so that none of
// it is stored.
// This form is for all tensor cores.
template <int middle_vector, bool whole>
__global__ void __launch_bounds__(256, 1) gradient_of_k_gradient_of_v_kernel(
    const bfloat16* __restrict__ left_0_matrices,
    int64_t left_0_stride,
    int64_t left_0_batch_stride,
    const bfloat16* __restrict__ left_1_matrices,
    int64_t left_1_stride,
    int64_t left_1_batch_stride,
    const bfloat16* __restrict__ right_0_matrices,
    int64_t right_0_stride,
    int64_t right_0_batch_stride,
    const bfloat16* __restrict__ right_1_matrices,
    int64_t right_1_stride,
    int64_t right_1_batch_stride,
    const bfloat16* __restrict__ k,
    Strides<3> k_strides,
    const bfloat16* __restrict__ v,
    Strides<3> v_strides,
    const bfloat16* __restrict__ q,
    Strides<3> q_strides,
    const bfloat16* __restrict__ gradient_of_y,
    Strides<3> gradient_of_y_strides,
    const bool* __restrict__ mask,
    Strides<2> mask_strides,
    const float* __restrict__ softmax,
    Strides<3> softmax_strides,
    const float* __restrict__ softmax_2,
    Strides<3> softmax_2_strides,
    const float* __restrict__ sum,
    bfloat16* __restrict__ gradient_of_k,
    bfloat16* __restrict__ gradient_of_v,
    int64_t batch,
    int64_t time) {
    wait_for_earlier_kernels();
    constexpr bool packed = middle_vector > 1;
    using Left0 = MmaTile<bfloat16, 128, 64, Neighbours::in_depth>;
    using Left1 = MmaTile<bfloat16, 128, 64, Neighbours::in_depth>;
    using Right0 = MmaTile<bfloat16, 32, 64, Neighbours::in_depth, RowOrder::by_lanes>;
    using Right1 = MmaTile<bfloat16, 32, 64, Neighbours::in_depth, RowOrder::by_lanes>;
    using TurnedRight0 = MmaTile<bfloat16, 64, 32, Neighbours::in_columns, RowOrder::by_lanes>;
    using TurnedRight1 = MmaTile<bfloat16, 64, 32, Neighbours::in_columns, RowOrder::by_lanes>;
    constexpr int left_size = Left0::size + Left1::size;
    constexpr int right_size = Right0::size + Right1::size;
    static_assert((left_size + 2 * right_size) * sizeof(bfloat16) == 55296, "the shared memory of the launch");
    constexpr int tile_rows = 128;
    constexpr int tile_middles = 32;
    const int64_t rows = time;
    const int64_t middles = time;
    const int64_t row_tiles = (rows + tile_rows - 1) / tile_rows;
    const int64_t tiles = batch * row_tiles;
    constexpr int threads = 256;
    const ByWarps<bfloat16> products;
    FUSEGEN_DYNAMIC_SHARED(bfloat16, shared);
    // Neighbouring blocks share what is brought, which then stays in the L2 cache.
    for (int64_t block = blockIdx.x; block < tiles; block += gridDim.x) {
        const int64_t tile_first_row = block % row_tiles * tile_rows;
        [[maybe_unused]] const int64_t batch_index = block / row_tiles;
        const bfloat16* const left_0_matrix = computed_once(left_0_matrices
            + batch_index * left_0_batch_stride);
        const bfloat16* const left_1_matrix = computed_once(left_1_matrices
            + batch_index * left_1_batch_stride);
        const bfloat16* const right_0_matrix = computed_once(right_0_matrices
            + batch_index * right_0_batch_stride);
        const bfloat16* const right_1_matrix = computed_once(right_1_matrices
            + batch_index * right_1_batch_stride);
        const auto bring = [&](bfloat16* stage, int64_t first_middle) {
            if constexpr (whole) {
                Right0::template load<threads>(stage, right_0_matrix, static_cast<int>(right_0_stride),
                    first_middle, middles, 0, 64);
            } else {
                Right0::template load_each<threads>(stage, first_middle, middles, 0, 64,
                    [&](int64_t middle, int64_t column) { return q[packed
                        ? column + middle * 64 + batch_index * time * 64
                        : q_strides(batch_index, middle, column)]; });
            }
            if constexpr (whole) {
                Right1::template load<threads>(stage
                    + Right0::size, right_1_matrix, static_cast<int>(right_1_stride),
                    first_middle, middles, 0, 64);
            } else {
                Right1::template load_each<threads>(stage + Right0::size, first_middle, middles, 0, 64,
                    [&](int64_t middle, int64_t column) { return gradient_of_y[packed
                        ? column + middle * 64 + batch_index * time * 64
                        : gradient_of_y_strides(batch_index, middle, column)]; });
            }
        };
        if constexpr (whole) {
            Left0::template load<threads>(shared, left_0_matrix, static_cast<int>(left_0_stride),
                tile_first_row, rows, 0, 64);
        } else {
            Left0::template load_each<threads>(shared, tile_first_row, rows, 0, 64,
                [&](int64_t row, int64_t column) { return k[packed
                    ? column + row * 64 + batch_index * time * 64 : k_strides(batch_index, row, column)]; });
        }
        if constexpr (whole) {
            Left1::template load<threads>(shared
                + Left0::size, left_1_matrix, static_cast<int>(left_1_stride),
                tile_first_row, rows, 0, 64);
        } else {
            Left1::template load_each<threads>(shared + Left0::size, tile_first_row, rows, 0, 64,
                [&](int64_t row, int64_t column) { return v[packed
                    ? column + row * 64 + batch_index * time * 64 : v_strides(batch_index, row, column)]; });
        }
        const TileRing<2, right_size, tile_middles, bfloat16, decltype(bring)> ring{shared
            + left_size, middles, bring};
        ring.bring(0);
        // What neighbouring products meet at their place, and what is made of them and multiplied.
        struct Met {
            enum {
                registers = registers_of<
                    Vector<float, middle_vector>,
                    Vector<float, middle_vector>,
                    Vector<float, middle_vector>,
                    Vector<bool, middle_vector>>
            };
            Vector<float, middle_vector> softmax_vector;
            Vector<float, middle_vector> softmax_2_vector;
            Vector<float, middle_vector> sum_vector;
            Vector<bool, middle_vector> mask_gathered;
        };
        const auto meet = [&]([[maybe_unused]] int row_in_tile, [[maybe_unused]] int64_t first_middle) {
            constexpr int vector = middle_vector;
            const int64_t row = tile_first_row + row_in_tile;
            return Met{load_vector<float, vector>(softmax + (packed
                ? first_middle + batch_index * time : softmax_strides(batch_index, first_middle, 0))),
            load_vector<float, vector>(softmax_2 + (packed
                ? first_middle + batch_index * time : softmax_2_strides(batch_index, first_middle, 0))),
            load_vector<float, vector>(sum + first_middle + batch_index * time),
            gathered<bool, vector>([&](int element) {
                const int64_t middle = first_middle + element;
                return mask[packed ? row + middle * time : mask_strides(middle, row)];
            })};
        };
        struct OfRow {};
        const auto meet_row = [](int) { return OfRow{}; };
        const auto make = [&]([[maybe_unused]] int row_in_tile, [[maybe_unused]] int64_t first_middle,
                              [[maybe_unused]] const OfRow& of_row, [[maybe_unused]] const Met& met,
                              const float (&firsts)[2][middle_vector],
                              float (&made)[2][middle_vector]) {
            constexpr int vector = middle_vector;
#pragma unroll
            for (int element = 0; element < vector; ++element) {
                const float product_0 = firsts[0][element];
                const float product_1 = firsts[1][element];
                const bool mask_value = value_at(met.mask_gathered, element);
                const float mul = product_0 * 0.125f;
                const float where = mask_value ? mul : (-fusegen::infinity<float>());
                const float widen = where;
                const float softmax_value = met.softmax_vector[element];
                const float sub = widen - softmax_value;
                const float exp = fusegen::near_exp(sub);
                const float softmax_2_value = met.softmax_2_vector[element];
                const float mul_2 = exp * softmax_2_value;
                const float narrow_type = mul_2;
                const float widen_2 = narrow_type;
                const float widen_3 = product_1;
                const float sum_value = met.sum_vector[element];
                const float sub_2 = widen_3 - sum_value;
                const float mul_3 = widen_2 * sub_2;
                const float narrow_type_2 = mul_3;
                const float where_2 = mask_value ? narrow_type_2 : 0.0f;
                const float mul_4 = where_2 * 0.125f;
                made[0][element] = mul_4;
                made[1][element] = narrow_type;
            }
        };
        const int rows_here = within(rows, tile_first_row, tile_rows);
        OfRow of_rows[2];
        of_held_rows(of_rows, products.first_row, rows_here, meet_row);
        float held[2][tile_middles / 2];
        float sums_0[TurnedRight0::tile_lines / 2] = {};
        float sums_1[TurnedRight1::tile_lines / 2] = {};
        using Places = HeldPlaces<tile_middles, Right0::lane_run, middle_vector>;
        const auto places_at = [&](int64_t first_middle) {
            return Places{products.first_row, rows_here, first_middle, within(middles, first_middle, tile_middles)};
        };
        MetThere<Met, Places, 112, decltype(meet)> met(meet);
        if (middles > 0) {
            met.load(places_at(0));
        }
        for (int64_t step = 0; step < ring.steps(); ++step) {
            products.await_tiles();
            ring.bring(step + 1);
            const bfloat16* const stage = ring.stage(step);
            const int64_t first_middle = step * tile_middles;
            products.begin(held[0], held[1]);
            products.template multiply<Left0, Right0>(held[0], shared, stage);
            products.template multiply<Left1, Right1>(held[1], shared + Left0::size, stage + Right0::size);
            products.commit();
            products.finish(held[0], held[1]);
            std::uint32_t operands[2][tile_middles / 16][4];
            make_operands<bfloat16>(operands, held, places_at(first_middle), of_rows, met, make);
            products.begin(sums_0, operands[0], sums_1, operands[1]);
            products.template multiply_held<TurnedRight0>(sums_0, operands[0], stage);
            products.template multiply_held<TurnedRight1>(sums_1, operands[1], stage + Right0::size);
            products.commit();
            // What the next step meets is loaded while these are multiplied.
            if (first_middle + tile_middles < middles) {
                met.load(places_at(first_middle + tile_middles));
            }
            products.finish(sums_0, operands[0], sums_1, operands[1]);
        }
        constexpr int column_vector_0 = packed ? 2 : 1;
        const auto keep_0 = [&](int row_in_tile, int first_column, const float* results) {
            constexpr int vector = column_vector_0;
            const int64_t row = tile_first_row + row_in_tile;
            Vector<bfloat16, vector> gradient_of_k_vector;
#pragma unroll
            for (int element = 0; element < vector; ++element) {
                gradient_of_k_vector[element] = convert<bfloat16>(results[element]);
            }
            store_vector(gradient_of_k + first_column + row * 64
                + batch_index * time * 64, gradient_of_k_vector);
        };
        hand_over<column_vector_0>(sums_0, products.first_row, rows_here, keep_0);
        constexpr int column_vector_1 = packed ? 2 : 1;
        const auto keep_1 = [&](int row_in_tile, int first_column, const float* results) {
            constexpr int vector = column_vector_1;
            const int64_t row = tile_first_row + row_in_tile;
            Vector<bfloat16, vector> gradient_of_v_vector;
#pragma unroll
            for (int element = 0; element < vector; ++element) {
                gradient_of_v_vector[element] = convert<bfloat16>(results[element]);
            }
            store_vector(gradient_of_v + first_column + row * 64
                + batch_index * time * 64, gradient_of_v_vector);
        };
        hand_over<column_vector_1>(sums_1, products.first_row, rows_here, keep_1);
        __syncthreads();  // the next tile's copies may overwrite the shared memory
    }
}

FUSEGEN_EXPORT int launch_gradient_of_k_gradient_of_v(
    const bfloat16* k,
    const int64_t* k_strides,
    const bfloat16* v,
    const int64_t* v_strides,
    const bfloat16* q,
    const int64_t* q_strides,
    const bfloat16* gradient_of_y,
    const int64_t* gradient_of_y_strides,
    const bool* mask,
    const int64_t* mask_strides,
    const float* softmax,
    const int64_t* softmax_strides,
    const float* softmax_2,
    const int64_t* softmax_2_strides,
    const float* sum,
    bfloat16* gradient_of_k,
    bfloat16* gradient_of_v,
    int64_t batch,
    int64_t time,
    void* stream) {
    const int64_t rows = time;
    if (batch * rows == 0) {
        return 0;
    }
    int64_t left_0_run[3];
    int64_t left_1_run[3];
    int64_t right_0_run[3];
    int64_t right_1_run[3];
    // Operands are read 16 bytes at a time, and all else in vectors, if they lie so.
    if (merge_dims(k_strides, {batch, time, 64}, {1, 2, 3}, left_0_run) &&
        left_0_run[2] == 1 &&
        is_aligned(k, 16) &&
        (left_0_run[1]) % 8 == 0 &&
        (left_0_run[0]) % 8 == 0 &&
        left_0_run[1] < stride_limit &&
        merge_dims(v_strides, {batch, time, 64}, {1, 2, 3}, left_1_run) &&
        left_1_run[2] == 1 &&
        is_aligned(v, 16) &&
        (left_1_run[1]) % 8 == 0 &&
        (left_1_run[0]) % 8 == 0 &&
        left_1_run[1] < stride_limit &&
        merge_dims(q_strides, {batch, time, 64}, {1, 2, 3}, right_0_run) &&
        right_0_run[2] == 1 &&
        is_aligned(q, 16) &&
        (right_0_run[1]) % 8 == 0 &&
        (right_0_run[0]) % 8 == 0 &&
        right_0_run[1] < stride_limit &&
        merge_dims(gradient_of_y_strides, {batch, time, 64}, {1, 2, 3}, right_1_run) &&
        right_1_run[2] == 1 &&
        is_aligned(gradient_of_y, 16) &&
        (right_1_run[1]) % 8 == 0 &&
        (right_1_run[0]) % 8 == 0 &&
        right_1_run[1] < stride_limit) {
        const bool in_vectors = is_contiguous(mask_strides, {time, time}) &&
                                is_contiguous(softmax_strides, {batch, time, 1}) &&
                                is_contiguous(softmax_2_strides, {batch, time, 1}) && is_aligned(mask, 8) &&
                                is_aligned(softmax, 16) && is_aligned(softmax_2, 16) && is_aligned(sum, 16) &&
                                is_aligned(gradient_of_k, 4) && is_aligned(gradient_of_v, 4) && time % 8 == 0;
        MatrixMap<1> left_0_map;
        MatrixMap<1> left_1_map;
        MatrixMap<1> right_0_map;
        MatrixMap<1> right_1_map;
        if (has_wgmma() &&
            map_matrices<WgmmaTile<bfloat16, 64, 64, Neighbours::in_depth>>(
                &left_0_map, k, time, 64, left_0_run[1],
                {batch}, {left_0_run[0]}) &&
            map_matrices<WgmmaTile<bfloat16, 64, 64, Neighbours::in_depth>>(
                &left_1_map, v, time, 64, left_1_run[1],
                {batch}, {left_1_run[0]}) &&
            map_matrices<WgmmaTile<bfloat16, 64, 64, Neighbours::in_depth, RowOrder::by_lanes>>(
                &right_0_map, q, time, 64, right_0_run[1],
                {batch}, {right_0_run[0]}) &&
            map_matrices<WgmmaTile<bfloat16, 64, 64, Neighbours::in_depth, RowOrder::by_lanes>>(
                &right_1_map, gradient_of_y, time, 64, right_1_run[1],
                {batch}, {right_1_run[0]})) {
            const int64_t resident = processor_count() * 2;
            const int64_t tiles = batch * divide_up(rows, 64);
            if (in_vectors) {
                FUSEGEN_LAUNCH((gradient_of_k_gradient_of_v_warpgroup_kernel<8>),
                               grid_of(tiles < resident ? tiles : resident), dim3(256), 49152, stream,
                               left_0_map, left_1_map, right_0_map, right_1_map,
                               q, right_0_run[1], right_0_run[0],
                               gradient_of_y, right_1_run[1], right_1_run[0],
                               mask, Strides<2>(mask_strides), softmax, Strides<3>(softmax_strides), softmax_2,
                               Strides<3>(softmax_2_strides), sum, gradient_of_k, gradient_of_v, batch, time);
                return FUSEGEN_LAST_ERROR();
            }
            FUSEGEN_LAUNCH((gradient_of_k_gradient_of_v_warpgroup_kernel<1>),
                           grid_of(tiles < resident ? tiles : resident), dim3(256), 49152, stream,
                           left_0_map, left_1_map, right_0_map, right_1_map,
                           q, right_0_run[1], right_0_run[0],
                           gradient_of_y, right_1_run[1], right_1_run[0],
                           mask, Strides<2>(mask_strides), softmax, Strides<3>(softmax_strides), softmax_2,
                           Strides<3>(softmax_2_strides), sum, gradient_of_k, gradient_of_v, batch, time);
            return FUSEGEN_LAST_ERROR();
        }
        if (in_vectors) {
            FUSEGEN_LAUNCH((gradient_of_k_gradient_of_v_kernel<8, true>),
                           grid_of(batch * divide_up(rows, 128)), dim3(256), 55296, stream,
                           k, left_0_run[1], left_0_run[0],
                           v, left_1_run[1], left_1_run[0],
                           q, right_0_run[1], right_0_run[0],
                           gradient_of_y, right_1_run[1], right_1_run[0],
                           k, Strides<3>(k_strides), v, Strides<3>(v_strides), q, Strides<3>(q_strides), gradient_of_y,
                           Strides<3>(gradient_of_y_strides), mask, Strides<2>(mask_strides), softmax,
                           Strides<3>(softmax_strides), softmax_2, Strides<3>(softmax_2_strides), sum, gradient_of_k,
                           gradient_of_v, batch, time);
            return FUSEGEN_LAST_ERROR();
        }
        FUSEGEN_LAUNCH((gradient_of_k_gradient_of_v_kernel<1, true>),
                       grid_of(batch * divide_up(rows, 128)), dim3(256), 55296, stream,
                       k, left_0_run[1], left_0_run[0],
                       v, left_1_run[1], left_1_run[0],
                       q, right_0_run[1], right_0_run[0],
                       gradient_of_y, right_1_run[1], right_1_run[0],
                       k, Strides<3>(k_strides), v, Strides<3>(v_strides), q, Strides<3>(q_strides), gradient_of_y,
                       Strides<3>(gradient_of_y_strides), mask, Strides<2>(mask_strides), softmax,
                       Strides<3>(softmax_strides), softmax_2, Strides<3>(softmax_2_strides), sum, gradient_of_k,
                       gradient_of_v, batch, time);
        return FUSEGEN_LAST_ERROR();
    }
    FUSEGEN_LAUNCH((gradient_of_k_gradient_of_v_kernel<1, false>),
                   grid_of(batch * divide_up(rows, 128)), dim3(256), 55296, stream,
                   nullptr, 0, 0,
                   nullptr, 0, 0,
                   nullptr, 0, 0,
                   nullptr, 0, 0,
                   k, Strides<3>(k_strides), v, Strides<3>(v_strides), q, Strides<3>(q_strides), gradient_of_y,
                   Strides<3>(gradient_of_y_strides), mask, Strides<2>(mask_strides), softmax,
                   Strides<3>(softmax_strides), softmax_2, Strides<3>(softmax_2_strides), sum, gradient_of_k,
                   gradient_of_v, batch, time);
    return FUSEGEN_LAST_ERROR();
}
}  // namespace fusegen
