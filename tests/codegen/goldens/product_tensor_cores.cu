// LinearGeluGroupNorm.
#include "fusegen/device.cuh"
#include "fusegen/dtypes.cuh"
#include "fusegen/hopper.cuh"
#include "fusegen/launch.cuh"
#include "fusegen/math.cuh"
#include "fusegen/mma_product.cuh"
#include "fusegen/reduce.cuh"
#include "fusegen/rest_lines.cuh"
#include "fusegen/shared_tile.cuh"
#include "fusegen/skinny_product.cuh"
#include "fusegen/stepped_division.cuh"
#include "fusegen/tile_order.cuh"
#include "fusegen/tile_waves.cuh"
#include "fusegen/wgmma_exchange.cuh"

namespace fusegen {
// linear_gelu_group_norm: linear, gelu, group_norm.
// Groups of 16 columns lie inside a tile of 64, so their statistics need no memory traffic and the
// product is not stored.
template <bool packed>
__global__ void __launch_bounds__(128) linear_gelu_group_norm_kernel(
    const bfloat16* __restrict__ x,
    Strides<2> x_strides,
    const bfloat16* __restrict__ fc_weight,
    Strides<2> fc_weight_strides,
    bfloat16* __restrict__ y,
    int64_t batch) {
    wait_for_earlier_kernels();
    constexpr int threads = 128;
    constexpr int tile_rows = 64;
    const int64_t batches = 1;
    const int64_t rows = batch;
    const int64_t columns = 256;
    const int64_t depths = 96;
    using Tile = SharedTile<float, 64, 64, 16, 8, 4, Neighbours::in_depth, Neighbours::in_depth>;
    static_assert(Tile::threads == threads, "the block's size depends on it");
    FUSEGEN_SHARED(float, operand_tiles, Tile::shared_size);
    FUSEGEN_DYNAMIC_SHARED(unsigned char, shared);
    float* const tile = reinterpret_cast<float*>(shared + 0);
    const int64_t row_tiles = (rows + 63) / 64;
    const int64_t column_tiles = (columns + 63) / 64;
    // Neighbouring blocks share the right operand's columns, which then stay in the L2 cache.
    for (int64_t block = blockIdx.x; block < batches * row_tiles * column_tiles; block += gridDim.x) {
        const int64_t tile_first_row = block % row_tiles * 64;
        const int64_t column_tile = block / row_tiles % column_tiles;
        const int64_t tile_first_column = column_tile * 64;
        [[maybe_unused]] const int64_t batch_index = block / row_tiles / column_tiles;
        const auto left_source = [&]([[maybe_unused]] int64_t row, [[maybe_unused]] int64_t depth) {
            return &x[packed ? depth + row * 96 : x_strides(row, depth)];
        };
        const auto right_source = [&]([[maybe_unused]] int64_t column, [[maybe_unused]] int64_t depth) {
            return &fc_weight[packed ? column * 96 + depth : fc_weight_strides(column, depth)];
        };
        Tile::Sums accumulators = {};
        Tile::multiply(left_source, tile_first_row, rows, right_source, tile_first_column, columns,
                       0, depths, operand_tiles, accumulators);
#pragma unroll
        for (int i = 0; i < 8; ++i) {
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                tile[Tile::row(i) * 65 + Tile::column(j)] = accumulators[i][j];
            }
        }
        __syncthreads();
        constexpr int lanes = 16;  // threads that share a row
        constexpr int vector = 1;
        const int lane = threadIdx.x % lanes;
        // A row of the epilogue is a group of 16 columns of a row of the tile.
        constexpr int groups = 4;
        for (int pair = threadIdx.x / lanes; pair < tile_rows * groups; pair += threads / lanes) {
            const int tile_row = pair / groups;
            const int group = pair % groups;
            const int64_t product_row = tile_first_row + tile_row;
            const int64_t product_column = tile_first_column + group * 16;
            const bool is_active = product_row < rows && product_column < columns;
            const int64_t line = is_active ? batch_index * rows + product_row : 0;
            const int64_t line_group = is_active ? product_column / 16 : 0;
            const int64_t row_end = is_active ? 16 : 0;
            // Phase 1 of 3.
            auto total_state = Sum<float>::identity();
            for (int64_t first_column = 0 + lane * vector; first_column < row_end;
                 first_column += lanes * vector) {
                const auto kept_matmul = load_vector<float, vector>(tile + tile_row * 65 + group * 16
                    + first_column);
                Vector<float, vector> kept_widen;
#pragma unroll
                for (int element = 0; element < vector; ++element) {
                    const int64_t column = first_column + element;
                    const float gelu = fusegen::near_gelu_none(kept_matmul[element]);
                    const float widen = gelu;
                    total_state.push(widen, column);
                    kept_widen[element] = widen;
                }
                store_vector(tile + tile_row * 65 + group * 16 + first_column, kept_widen);
            }
            total_state = reduce_lanes<16>(total_state);
            const float total = convert<float>(total_state.result());
            // Phase 2 of 3.
            const float mean = total / 16.0f;
            auto rest_state = Sum<float>::identity();
            auto squared_deviations_state = Sum<float>::identity();
            for (int64_t first_column = 0 + lane * vector; first_column < row_end;
                 first_column += lanes * vector) {
                const auto kept_widen_2 = load_vector<float, vector>(tile + tile_row * 65 + group * 16
                    + first_column);
#pragma unroll
                for (int element = 0; element < vector; ++element) {
                    const int64_t column = first_column + element;
                    const float deviation = kept_widen_2[element] - mean;
                    rest_state.push(deviation, column);
                    const float squared = deviation * deviation;
                    squared_deviations_state.push(squared, column);
                }
            }
            rest_state = reduce_lanes<16>(rest_state);
            squared_deviations_state = reduce_lanes<16>(squared_deviations_state);
            const float rest = convert<float>(rest_state.result());
            const float squared_deviations = convert<float>(squared_deviations_state.result());
            // Phase 3 of 3.
            const float rest_2 = rest / 16.0f;
            const float centre = mean + rest_2;
            const float div = squared_deviations / 16.0f;
            const float add = div + 1e-05f;
            const float rsqrt = fusegen::rsqrt(add);
            for (int64_t first_column = 0 + lane * vector; first_column < row_end;
                 first_column += lanes * vector) {
                const auto kept_widen_3 = load_vector<float, vector>(tile + tile_row * 65 + group * 16
                    + first_column);
                Vector<bfloat16, vector> y_vector;
#pragma unroll
                for (int element = 0; element < vector; ++element) {
                    const float sub = kept_widen_3[element] - centre;
                    const float mul = sub * rsqrt;
                    const float narrow_type = mul;
                    y_vector[element] = convert<bfloat16>(narrow_type);
                }
                store_vector(y + first_column + line * 256 + line_group * 16, y_vector);
            }
        }

        __syncthreads();  // the next tile overwrites this one
    }
}

// linear_gelu_group_norm: linear, gelu, group_norm.
// Groups of 16 columns lie inside a tile of 64, so their statistics need no memory traffic and the
// product is not stored.
// This form is for products of few rows, at most `tile_rows`: a block reads its columns of the right
// operand once and keeps the sums of all rows.
template <int tile_rows>
__global__ void __launch_bounds__(256) linear_gelu_group_norm_skinny_kernel(
    const bfloat16* __restrict__ left_matrices,
    int64_t left_stride,
    const bfloat16* __restrict__ right_matrices,
    int64_t right_stride,
    bfloat16* __restrict__ y,
    int64_t batch) {
    wait_for_earlier_kernels();
    constexpr int threads = 256;
    constexpr int tile_columns = 32;
    const int64_t rows = batch;
    const int64_t columns = 256;
    const int64_t depths = 96;
    const int64_t column_tiles = (columns + tile_columns - 1) / tile_columns;
    const int64_t tiles = 1 * column_tiles;
    FUSEGEN_DYNAMIC_SHARED(unsigned char, shared);
    float* const tile = reinterpret_cast<float*>(shared + 0);
    float* const partial = reinterpret_cast<float*>(shared + 1056);
    for (int64_t block = blockIdx.x; block < tiles; block += gridDim.x) {
        const int64_t column_tile = block % column_tiles;
        [[maybe_unused]] const int64_t batch_index = block / column_tiles;
        const int64_t tile_first_row = 0;
        const int64_t tile_first_column = column_tile * tile_columns;
        skinny_product<tile_rows, tile_columns, Neighbours::in_depth>(
            left_matrices, left_stride, rows,
            right_matrices, right_stride, tile_first_column, columns,
            depths, tile, 33, partial);
        constexpr int lanes = 16;  // threads that share a row
        constexpr int vector = 1;
        const int lane = threadIdx.x % lanes;
        // A row of the epilogue is a group of 16 columns of a row of the tile.
        constexpr int groups = 2;
        for (int pair = threadIdx.x / lanes; pair < tile_rows * groups; pair += threads / lanes) {
            const int tile_row = pair / groups;
            const int group = pair % groups;
            const int64_t product_row = tile_first_row + tile_row;
            const int64_t product_column = tile_first_column + group * 16;
            const bool is_active = product_row < rows && product_column < columns;
            const int64_t line = is_active ? batch_index * rows + product_row : 0;
            const int64_t line_group = is_active ? product_column / 16 : 0;
            const int64_t row_end = is_active ? 16 : 0;
            // Phase 1 of 3.
            auto total_state = Sum<float>::identity();
            for (int64_t first_column = 0 + lane * vector; first_column < row_end;
                 first_column += lanes * vector) {
                const auto kept_matmul = load_vector<float, vector>(tile + tile_row * 33 + group * 16
                    + first_column);
                Vector<float, vector> kept_widen;
#pragma unroll
                for (int element = 0; element < vector; ++element) {
                    const int64_t column = first_column + element;
                    const float gelu = fusegen::near_gelu_none(kept_matmul[element]);
                    const float widen = gelu;
                    total_state.push(widen, column);
                    kept_widen[element] = widen;
                }
                store_vector(tile + tile_row * 33 + group * 16 + first_column, kept_widen);
            }
            total_state = reduce_lanes<16>(total_state);
            const float total = convert<float>(total_state.result());
            // Phase 2 of 3.
            const float mean = total / 16.0f;
            auto rest_state = Sum<float>::identity();
            auto squared_deviations_state = Sum<float>::identity();
            for (int64_t first_column = 0 + lane * vector; first_column < row_end;
                 first_column += lanes * vector) {
                const auto kept_widen_2 = load_vector<float, vector>(tile + tile_row * 33 + group * 16
                    + first_column);
#pragma unroll
                for (int element = 0; element < vector; ++element) {
                    const int64_t column = first_column + element;
                    const float deviation = kept_widen_2[element] - mean;
                    rest_state.push(deviation, column);
                    const float squared = deviation * deviation;
                    squared_deviations_state.push(squared, column);
                }
            }
            rest_state = reduce_lanes<16>(rest_state);
            squared_deviations_state = reduce_lanes<16>(squared_deviations_state);
            const float rest = convert<float>(rest_state.result());
            const float squared_deviations = convert<float>(squared_deviations_state.result());
            // Phase 3 of 3.
            const float rest_2 = rest / 16.0f;
            const float centre = mean + rest_2;
            const float div = squared_deviations / 16.0f;
            const float add = div + 1e-05f;
            const float rsqrt = fusegen::rsqrt(add);
            for (int64_t first_column = 0 + lane * vector; first_column < row_end;
                 first_column += lanes * vector) {
                const auto kept_widen_3 = load_vector<float, vector>(tile + tile_row * 33 + group * 16
                    + first_column);
                Vector<bfloat16, vector> y_vector;
#pragma unroll
                for (int element = 0; element < vector; ++element) {
                    const float sub = kept_widen_3[element] - centre;
                    const float mul = sub * rsqrt;
                    const float narrow_type = mul;
                    y_vector[element] = convert<bfloat16>(narrow_type);
                }
                store_vector(y + first_column + line * 256 + line_group * 16, y_vector);
            }
        }

        __syncthreads();  // the next columns' sums overwrite these
    }
}

// linear_gelu_group_norm: linear, gelu, group_norm.
// Groups of 16 columns lie inside a tile of 64, so their statistics need no memory traffic and the
// product is not stored.
// This form runs on Hopper's tensor cores: one warpgroup copies tiles of the operands into a ring of
// stages, two others multiply them, each for half of the rows.
__global__ void __launch_bounds__(384, 1) linear_gelu_group_norm_64_tensor_kernel(
    const __grid_constant__ TensorMap left_map,
    const __grid_constant__ TensorMap left_rest_map,
    const __grid_constant__ TensorMap right_map,
    bfloat16* __restrict__ y,
    int64_t batch) {
    wait_for_earlier_kernels();
#if FUSEGEN_HAS_WGMMA
    constexpr int vector = 8;
    constexpr int stages = 8;
    constexpr int tile_rows = 128;
    constexpr int tile_columns = 64;
    constexpr int tile_depth = 64;
    constexpr int left_start = 0;
    constexpr int right_start = 8192;
    constexpr int stage_size = 12288;  // elements
    const int64_t rows = batch;
    const int64_t columns = 256;
    const int64_t depths = 96;
    const TileOrder order{static_cast<int>((rows + tile_rows - 1) / tile_rows),
                          static_cast<int>((columns + tile_columns - 1) / tile_columns)};
    const int tiles = static_cast<int>(1 * order.rows * order.columns);
    const int steps = static_cast<int>((depths + tile_depth - 1) / tile_depth);
    FUSEGEN_SHARED(std::uint64_t, full, stages);   // the stage's operands have arrived
    FUSEGEN_SHARED(std::uint64_t, empty, stages);  // both multiplying warpgroups are done with them
    FUSEGEN_TILE_SHARED(bfloat16, ring);
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < stages; ++stage) {
            mbarrier_init(&full[stage], 1);
            mbarrier_init(&empty[stage], 2);
        }
        mbarrier_fence_init();
        prefetch_tensor_map(left_map);
        prefetch_tensor_map(left_rest_map);
        prefetch_tensor_map(right_map);
    }
    // The last tile's copies bring no more lines of the left operand than there are rows, in eights,
    // as copies that fill in zeros are slow. What lies behind counts for rows that are not kept.
    const int rest_size = lines_of_rest<tile_rows>(rows) * tile_depth;
    clear_behind<bfloat16, stages, stage_size, tile_rows * tile_depth>(ring, rest_size);
    fence_async_shared();
    __syncthreads();
    const int warpgroup = threadIdx.x / 128;
    const int thread = threadIdx.x % 128;
    int stage = 0;
    unsigned phase = 0;
    if (warpgroup == 0) {
        decrease_registers<40>();
        for (int tile = thread == 0 ? static_cast<int>(blockIdx.x) : tiles; tile < tiles; tile += gridDim.x) {
            int batch_index, row_tile, column_tile;
            order.find(tile, batch_index, row_tile, column_tile);
            const int tile_first_row = row_tile * tile_rows;
            const int tile_first_column = column_tile * tile_columns;
            const bool is_rest = row_tile + 1 == order.rows;
            const TensorMap& left_map_here = is_rest ? left_rest_map : left_map;
            const int size_here = is_rest ? stage_size - tile_rows * tile_depth + rest_size : stage_size;
            for (int step = 0; step < steps; ++step) {
                bfloat16* const stage_tiles = ring + stage * stage_size;
                mbarrier_wait(&empty[stage], phase ^ 1);
                mbarrier_arrive_expect(&full[stage], size_here * sizeof(bfloat16));
                tma_load_3d(stage_tiles + left_start, left_map_here, &full[stage],
                            step * tile_depth, tile_first_row, 0);
                // The lines come in an order that makes the columns neighbours which a thread holds of the result.
                tma_load_5d(stage_tiles + right_start, right_map, &full[stage],
                            step * tile_depth, 0, 0, 0, tile_first_column / 32);
                stage = stage + 1 == stages ? 0 : stage + 1;
                phase ^= stage == 0;
            }
        }
    } else {
        increase_registers<232>();
        const int own_row = (warpgroup - 1) * wgmma_m + thread / 32 * 16 + thread % 32 / 4;
        for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
            int batch_of_tile, row_tile, column_tile;
            order.find(tile, batch_of_tile, row_tile, column_tile);
            [[maybe_unused]] const int64_t batch_index = batch_of_tile;
            const int64_t tile_first_row = int64_t{row_tile} * tile_rows;
            [[maybe_unused]] const int64_t tile_first_column = int64_t{column_tile} * tile_columns;
            float accumulators[tile_columns / 2];
            int previous = 0;
            for (int step = 0; step < steps; ++step) {
                const bfloat16* const stage_tiles = ring + stage * stage_size;
                const bfloat16* const left_tile = stage_tiles + left_start
                    + (warpgroup - 1) * wgmma_m * tile_depth;
                const bfloat16* const right_tile = stage_tiles + right_start;
                mbarrier_wait(&full[stage], phase);
                wgmma_fence();
#pragma unroll
                for (int depth = 0; depth < tile_depth; depth += wgmma_k<bfloat16>) {
                    wgmma<bfloat16, tile_columns>(
                        accumulators, wgmma_descriptor(left_tile + depth),
                        wgmma_descriptor(right_tile + depth), step + depth > 0);
                }
                wgmma_commit();
                if (step > 0) {
                    wgmma_wait<1>();  // the step before this one is done with its stage
                    if (thread == 0) {
                        mbarrier_arrive(&empty[previous]);
                    }
                }
                previous = stage;
                stage = stage + 1 == stages ? 0 : stage + 1;
                phase ^= stage == 0;
            }
            wgmma_wait<0>(accumulators);
            if (thread == 0) {
                mbarrier_arrive(&empty[previous]);
            }
            const int lane = thread % 2;  // of the threads that share a row's columns
#pragma unroll
            for (int group = 0; group < 2; ++group) {
                const int64_t line_group = int64_t{column_tile} * 4 + (group * 2 + thread % 4 / 2);
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    const int64_t product_row = tile_first_row + own_row + half * 8;
                    const bool is_active = product_row < rows;
                    const int64_t line = product_row < rows ? batch_index * rows + product_row : 0;
                    // Phase 1 of 3.
                    auto total_state = Sum<float>::identity();
#pragma unroll
                    for (int block = 0; block < 1; ++block) {
                        [[maybe_unused]] const int64_t first_column = block * 16 + lane * 8;

#pragma unroll
                        for (int element = 0; element < vector; ++element) {
                            const int64_t column = first_column + element;
                            const float gelu = fusegen::near_gelu_none(accumulators[group * 16
                                + element / 2 * 4 + half * 2 + element % 2]);
                            const float widen = gelu;
                            total_state.push(widen, column);
                            accumulators[group * 16 + element / 2 * 4 + half * 2 + element % 2] = widen;
                        }
                    }
                    total_state = reduce_lanes<2>(total_state);
                    const float total = convert<float>(total_state.result());
                    // Phase 2 of 3.
                    const float mean = total / 16.0f;
                    auto rest_state = Sum<float>::identity();
                    auto squared_deviations_state = Sum<float>::identity();
#pragma unroll
                    for (int block = 0; block < 1; ++block) {
                        [[maybe_unused]] const int64_t first_column = block * 16 + lane * 8;

#pragma unroll
                        for (int element = 0; element < vector; ++element) {
                            const int64_t column = first_column + element;
                            const float deviation = accumulators[group * 16 + element / 2 * 4 + half * 2
                                + element % 2] - mean;
                            rest_state.push(deviation, column);
                            const float squared = deviation * deviation;
                            squared_deviations_state.push(squared, column);
                        }
                    }
                    rest_state = reduce_lanes<2>(rest_state);
                    squared_deviations_state = reduce_lanes<2>(squared_deviations_state);
                    const float rest = convert<float>(rest_state.result());
                    const float squared_deviations = convert<float>(squared_deviations_state.result());
                    // Phase 3 of 3.
                    const float rest_2 = rest / 16.0f;
                    const float centre = mean + rest_2;
                    const float div = squared_deviations / 16.0f;
                    const float add = div + 1e-05f;
                    const float rsqrt = fusegen::rsqrt(add);
#pragma unroll
                    for (int block = 0; block < 1; ++block) {
                        [[maybe_unused]] const int64_t first_column = block * 16 + lane * 8;
                        Vector<bfloat16, vector> y_vector;
#pragma unroll
                        for (int element = 0; element < vector; ++element) {
                            const float sub = accumulators[group * 16 + element / 2 * 4 + half * 2
                                + element % 2] - centre;
                            const float mul = sub * rsqrt;
                            const float narrow_type = mul;
                            y_vector[element] = convert<bfloat16>(narrow_type);
                        }
                        store_vector_if(is_active, y + first_column + line * 256 + line_group * 16, y_vector);
                    }
                }
            }
        }
    }
#else
    __trap();  // the launcher takes this form on Hopper alone
#endif
}

// linear_gelu_group_norm: linear, gelu, group_norm.
// Groups of 16 columns lie inside a tile of 64, so their statistics need no memory traffic and the
// product is not stored.
// This form runs on Hopper's tensor cores: one warpgroup copies tiles of the operands into a ring of
// stages, two others multiply them, each for half of the rows.
__global__ void __launch_bounds__(384, 1) linear_gelu_group_norm_256_tensor_kernel(
    const __grid_constant__ TensorMap left_map,
    const __grid_constant__ TensorMap left_rest_map,
    const __grid_constant__ TensorMap right_map,
    bfloat16* __restrict__ y,
    int64_t batch) {
    wait_for_earlier_kernels();
#if FUSEGEN_HAS_WGMMA
    constexpr int vector = 8;
    constexpr int stages = 4;
    constexpr int tile_rows = 128;
    constexpr int tile_columns = 256;
    constexpr int tile_depth = 64;
    constexpr int left_start = 0;
    constexpr int right_start = 8192;
    constexpr int stage_size = 24576;  // elements
    const int64_t rows = batch;
    const int64_t columns = 256;
    const int64_t depths = 96;
    const TileOrder order{static_cast<int>((rows + tile_rows - 1) / tile_rows),
                          static_cast<int>((columns + tile_columns - 1) / tile_columns)};
    const int tiles = static_cast<int>(1 * order.rows * order.columns);
    const int steps = static_cast<int>((depths + tile_depth - 1) / tile_depth);
    FUSEGEN_SHARED(std::uint64_t, full, stages);   // the stage's operands have arrived
    FUSEGEN_SHARED(std::uint64_t, empty, stages);  // both multiplying warpgroups are done with them
    FUSEGEN_TILE_SHARED(bfloat16, ring);
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < stages; ++stage) {
            mbarrier_init(&full[stage], 1);
            mbarrier_init(&empty[stage], 2);
        }
        mbarrier_fence_init();
        prefetch_tensor_map(left_map);
        prefetch_tensor_map(left_rest_map);
        prefetch_tensor_map(right_map);
    }
    // The last tile's copies bring no more lines of the left operand than there are rows, in eights,
    // as copies that fill in zeros are slow. What lies behind counts for rows that are not kept.
    const int rest_size = lines_of_rest<tile_rows>(rows) * tile_depth;
    clear_behind<bfloat16, stages, stage_size, tile_rows * tile_depth>(ring, rest_size);
    fence_async_shared();
    __syncthreads();
    const int warpgroup = threadIdx.x / 128;
    const int thread = threadIdx.x % 128;
    int stage = 0;
    unsigned phase = 0;
    if (warpgroup == 0) {
        decrease_registers<40>();
        for (int tile = thread == 0 ? static_cast<int>(blockIdx.x) : tiles; tile < tiles; tile += gridDim.x) {
            int batch_index, row_tile, column_tile;
            order.find(tile, batch_index, row_tile, column_tile);
            const int tile_first_row = row_tile * tile_rows;
            const int tile_first_column = column_tile * tile_columns;
            const bool is_rest = row_tile + 1 == order.rows;
            const TensorMap& left_map_here = is_rest ? left_rest_map : left_map;
            const int size_here = is_rest ? stage_size - tile_rows * tile_depth + rest_size : stage_size;
            for (int step = 0; step < steps; ++step) {
                bfloat16* const stage_tiles = ring + stage * stage_size;
                mbarrier_wait(&empty[stage], phase ^ 1);
                mbarrier_arrive_expect(&full[stage], size_here * sizeof(bfloat16));
                tma_load_3d(stage_tiles + left_start, left_map_here, &full[stage],
                            step * tile_depth, tile_first_row, 0);
                // The lines come in an order that makes the columns neighbours which a thread holds of the result.
                tma_load_5d(stage_tiles + right_start, right_map, &full[stage],
                            step * tile_depth, 0, 0, 0, tile_first_column / 32);
                stage = stage + 1 == stages ? 0 : stage + 1;
                phase ^= stage == 0;
            }
        }
    } else {
        increase_registers<232>();
        const int own_row = (warpgroup - 1) * wgmma_m + thread / 32 * 16 + thread % 32 / 4;
        for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
            int batch_of_tile, row_tile, column_tile;
            order.find(tile, batch_of_tile, row_tile, column_tile);
            [[maybe_unused]] const int64_t batch_index = batch_of_tile;
            const int64_t tile_first_row = int64_t{row_tile} * tile_rows;
            [[maybe_unused]] const int64_t tile_first_column = int64_t{column_tile} * tile_columns;
            float accumulators[tile_columns / 2];
            int previous = 0;
            for (int step = 0; step < steps; ++step) {
                const bfloat16* const stage_tiles = ring + stage * stage_size;
                const bfloat16* const left_tile = stage_tiles + left_start
                    + (warpgroup - 1) * wgmma_m * tile_depth;
                const bfloat16* const right_tile = stage_tiles + right_start;
                mbarrier_wait(&full[stage], phase);
                wgmma_fence();
#pragma unroll
                for (int depth = 0; depth < tile_depth; depth += wgmma_k<bfloat16>) {
                    wgmma<bfloat16, tile_columns>(
                        accumulators, wgmma_descriptor(left_tile + depth),
                        wgmma_descriptor(right_tile + depth), step + depth > 0);
                }
                wgmma_commit();
                if (step > 0) {
                    wgmma_wait<1>();  // the step before this one is done with its stage
                    if (thread == 0) {
                        mbarrier_arrive(&empty[previous]);
                    }
                }
                previous = stage;
                stage = stage + 1 == stages ? 0 : stage + 1;
                phase ^= stage == 0;
            }
            wgmma_wait<0>(accumulators);
            if (thread == 0) {
                mbarrier_arrive(&empty[previous]);
            }
            const int lane = thread % 2;  // of the threads that share a row's columns
#pragma unroll
            for (int group = 0; group < 8; ++group) {
                const int64_t line_group = int64_t{column_tile} * 16 + (group * 2 + thread % 4 / 2);
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    const int64_t product_row = tile_first_row + own_row + half * 8;
                    const bool is_active = product_row < rows;
                    const int64_t line = product_row < rows ? batch_index * rows + product_row : 0;
                    // Phase 1 of 3.
                    auto total_state = Sum<float>::identity();
#pragma unroll
                    for (int block = 0; block < 1; ++block) {
                        [[maybe_unused]] const int64_t first_column = block * 16 + lane * 8;

#pragma unroll
                        for (int element = 0; element < vector; ++element) {
                            const int64_t column = first_column + element;
                            const float gelu = fusegen::near_gelu_none(accumulators[group * 16
                                + element / 2 * 4 + half * 2 + element % 2]);
                            const float widen = gelu;
                            total_state.push(widen, column);
                            accumulators[group * 16 + element / 2 * 4 + half * 2 + element % 2] = widen;
                        }
                    }
                    total_state = reduce_lanes<2>(total_state);
                    const float total = convert<float>(total_state.result());
                    // Phase 2 of 3.
                    const float mean = total / 16.0f;
                    auto rest_state = Sum<float>::identity();
                    auto squared_deviations_state = Sum<float>::identity();
#pragma unroll
                    for (int block = 0; block < 1; ++block) {
                        [[maybe_unused]] const int64_t first_column = block * 16 + lane * 8;

#pragma unroll
                        for (int element = 0; element < vector; ++element) {
                            const int64_t column = first_column + element;
                            const float deviation = accumulators[group * 16 + element / 2 * 4 + half * 2
                                + element % 2] - mean;
                            rest_state.push(deviation, column);
                            const float squared = deviation * deviation;
                            squared_deviations_state.push(squared, column);
                        }
                    }
                    rest_state = reduce_lanes<2>(rest_state);
                    squared_deviations_state = reduce_lanes<2>(squared_deviations_state);
                    const float rest = convert<float>(rest_state.result());
                    const float squared_deviations = convert<float>(squared_deviations_state.result());
                    // Phase 3 of 3.
                    const float rest_2 = rest / 16.0f;
                    const float centre = mean + rest_2;
                    const float div = squared_deviations / 16.0f;
                    const float add = div + 1e-05f;
                    const float rsqrt = fusegen::rsqrt(add);
#pragma unroll
                    for (int block = 0; block < 1; ++block) {
                        [[maybe_unused]] const int64_t first_column = block * 16 + lane * 8;
                        Vector<bfloat16, vector> y_vector;
#pragma unroll
                        for (int element = 0; element < vector; ++element) {
                            const float sub = accumulators[group * 16 + element / 2 * 4 + half * 2
                                + element % 2] - centre;
                            const float mul = sub * rsqrt;
                            const float narrow_type = mul;
                            y_vector[element] = convert<bfloat16>(narrow_type);
                        }
                        store_vector_if(is_active, y + first_column + line * 256 + line_group * 16, y_vector);
                    }
                }
            }
        }
    }
#else
    __trap();  // the launcher takes this form on Hopper alone
#endif
}

// linear_gelu_group_norm: linear, gelu, group_norm.
// Groups of 16 columns lie inside a tile of 64, so their statistics need no memory traffic and the
// product is not stored.
// This form is for the tensor cores of devices that have no warpgroup products.
__global__ void __launch_bounds__(256) linear_gelu_group_norm_mma_kernel(
    const bfloat16* __restrict__ left_matrices,
    int64_t left_stride,
    const bfloat16* __restrict__ right_matrices,
    int64_t right_stride,
    bfloat16* __restrict__ y,
    int64_t batch) {
    wait_for_earlier_kernels();
#if FUSEGEN_NEEDS_MMA
    constexpr int threads = 256;
    constexpr int tile_rows = 128;
    constexpr int tile_columns = 64;
    const int64_t rows = batch;
    const int64_t columns = 256;
    const int64_t depths = 96;
    const int64_t row_tiles = (rows + tile_rows - 1) / tile_rows;
    const int64_t column_tiles = (columns + tile_columns - 1) / tile_columns;
    const int64_t tiles = 1 * row_tiles * column_tiles;
    FUSEGEN_DYNAMIC_SHARED(unsigned char, shared);
    float* const tile = reinterpret_cast<float*>(shared + 0);
    bfloat16* const ring = reinterpret_cast<bfloat16*>(shared + 33280);
    // Neighbouring blocks share the right operand's columns, which then stay in the L2 cache.
    for (int64_t block = blockIdx.x; block < tiles; block += gridDim.x) {
        const int64_t tile_first_row = block % row_tiles * tile_rows;
        const int64_t column_tile = block / row_tiles % column_tiles;
        const int64_t tile_first_column = column_tile * tile_columns;
        [[maybe_unused]] const int64_t batch_index = block / row_tiles / column_tiles;
        mma_product<tile_rows, tile_columns, 32, 3, Neighbours::in_depth, Neighbours::in_depth>(
            MmaOperand<bfloat16>{left_matrices, left_stride, tile_first_row, rows},
            MmaOperand<bfloat16>{right_matrices, right_stride, tile_first_column, columns},
            depths, ring, tile, 65);
        constexpr int lanes = 16;  // threads that share a row
        constexpr int vector = 1;
        const int lane = threadIdx.x % lanes;
        // A row of the epilogue is a group of 16 columns of a row of the tile.
        constexpr int groups = 4;
        for (int pair = threadIdx.x / lanes; pair < tile_rows * groups; pair += threads / lanes) {
            const int tile_row = pair / groups;
            const int group = pair % groups;
            const int64_t product_row = tile_first_row + tile_row;
            const int64_t product_column = tile_first_column + group * 16;
            const bool is_active = product_row < rows && product_column < columns;
            const int64_t line = is_active ? batch_index * rows + product_row : 0;
            const int64_t line_group = is_active ? product_column / 16 : 0;
            const int64_t row_end = is_active ? 16 : 0;
            // Phase 1 of 3.
            auto total_state = Sum<float>::identity();
            for (int64_t first_column = 0 + lane * vector; first_column < row_end;
                 first_column += lanes * vector) {
                const auto kept_matmul = load_vector<float, vector>(tile + tile_row * 65 + group * 16
                    + first_column);
                Vector<float, vector> kept_widen;
#pragma unroll
                for (int element = 0; element < vector; ++element) {
                    const int64_t column = first_column + element;
                    const float gelu = fusegen::near_gelu_none(kept_matmul[element]);
                    const float widen = gelu;
                    total_state.push(widen, column);
                    kept_widen[element] = widen;
                }
                store_vector(tile + tile_row * 65 + group * 16 + first_column, kept_widen);
            }
            total_state = reduce_lanes<16>(total_state);
            const float total = convert<float>(total_state.result());
            // Phase 2 of 3.
            const float mean = total / 16.0f;
            auto rest_state = Sum<float>::identity();
            auto squared_deviations_state = Sum<float>::identity();
            for (int64_t first_column = 0 + lane * vector; first_column < row_end;
                 first_column += lanes * vector) {
                const auto kept_widen_2 = load_vector<float, vector>(tile + tile_row * 65 + group * 16
                    + first_column);
#pragma unroll
                for (int element = 0; element < vector; ++element) {
                    const int64_t column = first_column + element;
                    const float deviation = kept_widen_2[element] - mean;
                    rest_state.push(deviation, column);
                    const float squared = deviation * deviation;
                    squared_deviations_state.push(squared, column);
                }
            }
            rest_state = reduce_lanes<16>(rest_state);
            squared_deviations_state = reduce_lanes<16>(squared_deviations_state);
            const float rest = convert<float>(rest_state.result());
            const float squared_deviations = convert<float>(squared_deviations_state.result());
            // Phase 3 of 3.
            const float rest_2 = rest / 16.0f;
            const float centre = mean + rest_2;
            const float div = squared_deviations / 16.0f;
            const float add = div + 1e-05f;
            const float rsqrt = fusegen::rsqrt(add);
            for (int64_t first_column = 0 + lane * vector; first_column < row_end;
                 first_column += lanes * vector) {
                const auto kept_widen_3 = load_vector<float, vector>(tile + tile_row * 65 + group * 16
                    + first_column);
                Vector<bfloat16, vector> y_vector;
#pragma unroll
                for (int element = 0; element < vector; ++element) {
                    const float sub = kept_widen_3[element] - centre;
                    const float mul = sub * rsqrt;
                    const float narrow_type = mul;
                    y_vector[element] = convert<bfloat16>(narrow_type);
                }
                store_vector(y + first_column + line * 256 + line_group * 16, y_vector);
            }
        }

        __syncthreads();  // the next tile overwrites this one
    }
#else
    __trap();  // the launcher takes another form where there are warpgroup products
#endif
}

FUSEGEN_EXPORT int launch_linear_gelu_group_norm(
    const bfloat16* x,
    const int64_t* x_strides,
    const bfloat16* fc_weight,
    const int64_t* fc_weight_strides,
    bfloat16* y,
    int64_t batch,
    void* stream) {
    const int64_t rows = batch;
    const int64_t columns = 256;
    const int64_t tiles = 1 * divide_up(rows, 64) * divide_up(columns, 64);
    if (tiles == 0) {
        return 0;
    }
    constexpr int threads = 128;
    constexpr std::size_t shared_bytes = 16640;
    const bool packed = is_contiguous(x_strides, {batch, 96}) && is_contiguous(fc_weight_strides, {256, 96});
    const dim3 grid = grid_of(tiles);
    // Of the kinds of tiles the one whose waves, a block for each multiprocessor, end first.
    constexpr TileWave tile_waves[] = {
        {256, 1, 1700, 10.6, 0, 0},
        {64, 1, 500, 3.6, 0, 0},
    };
    const int64_t row_tiles = 1 * divide_up(rows, 128);
    const int form = quickest_tile(tile_waves, row_tiles, columns, 96, processor_count());
    if (form == 1) {  // 64 columns
        // The tensor cores' form takes operands with neighbours in the planned direction, whose other
        // strides are multiples of 16 bytes.
        TensorMap left_map;
        TensorMap left_rest_map;
        int64_t left_run[2];
        TensorMap right_map;
        int64_t right_run[2];
        const int rest_lines = lines_of_rest<128>(rows);
        const int64_t depths = 96;
        const int64_t tensor_tiles = 1 * divide_up(rows, 128) * divide_up(columns, 64);
        if (has_wgmma() && tensor_tiles <= TileOrder::limit && columns % 2 == 0 &&
            is_aligned(x, 16) && is_aligned(fc_weight, 16) && is_aligned(y, 16) &&
            merge_dims(x_strides, {batch, 96}, {1, 2}, left_run) &&
            left_run[1] == 1 &&
            encode_tensor_map<bfloat16>(&left_map, TensorTiles<3>{
                x, { depths, batch, 1 }, { left_run[0], left_run[0] },
                { 64, 128, 1 }, Swizzle::bytes_128}) == TensorMapError::none &&
            encode_tensor_map<bfloat16>(&left_rest_map, TensorTiles<3>{
                x, { depths, batch, 1 }, { left_run[0], left_run[0] },
                { 64, rest_lines, 1 }, Swizzle::bytes_128}) == TensorMapError::none &&
            merge_dims(fc_weight_strides, {256, 96}, {1, 2}, right_run) &&
            right_run[1] == 1 &&
            encode_tensor_map<bfloat16>(&right_map, TensorTiles<5>{
                fc_weight, { depths, 2, 4, 4, 8 }, { right_run[0], right_run[0] * 8, right_run[0]
                    * 2, right_run[0] * 32 },
                { 64, 2, 4, 4, 2 }, Swizzle::bytes_128}) == TensorMapError::none) {
            const int64_t processors = processor_count();
            constexpr std::size_t ring_bytes = 98304 * sizeof(bfloat16);
            FUSEGEN_LAUNCH(linear_gelu_group_norm_64_tensor_kernel, grid_of(tensor_tiles < processors
                ? tensor_tiles : processors), dim3(384), ring_bytes, stream,
                           left_map, left_rest_map, right_map, y, batch);
            return FUSEGEN_LAST_ERROR();
        }
    }
    // The tensor cores' form takes operands with neighbours in the planned direction, whose other
    // strides are multiples of 16 bytes.
    TensorMap left_map;
    TensorMap left_rest_map;
    int64_t left_run[2];
    TensorMap right_map;
    int64_t right_run[2];
    const int rest_lines = lines_of_rest<128>(rows);
    const int64_t depths = 96;
    const int64_t tensor_tiles = 1 * divide_up(rows, 128) * divide_up(columns, 256);
    if (has_wgmma() && tensor_tiles <= TileOrder::limit && columns % 2 == 0 &&
        is_aligned(x, 16) && is_aligned(fc_weight, 16) && is_aligned(y, 16) &&
        merge_dims(x_strides, {batch, 96}, {1, 2}, left_run) &&
        left_run[1] == 1 &&
        encode_tensor_map<bfloat16>(&left_map, TensorTiles<3>{
            x, { depths, batch, 1 }, { left_run[0], left_run[0] },
            { 64, 128, 1 }, Swizzle::bytes_128}) == TensorMapError::none &&
        encode_tensor_map<bfloat16>(&left_rest_map, TensorTiles<3>{
            x, { depths, batch, 1 }, { left_run[0], left_run[0] },
            { 64, rest_lines, 1 }, Swizzle::bytes_128}) == TensorMapError::none &&
        merge_dims(fc_weight_strides, {256, 96}, {1, 2}, right_run) &&
        right_run[1] == 1 &&
        encode_tensor_map<bfloat16>(&right_map, TensorTiles<5>{
            fc_weight, { depths, 2, 4, 4, 8 }, { right_run[0], right_run[0] * 8, right_run[0]
                * 2, right_run[0] * 32 },
            { 64, 2, 4, 4, 8 }, Swizzle::bytes_128}) == TensorMapError::none) {
        const int64_t processors = processor_count();
        constexpr std::size_t ring_bytes = 98304 * sizeof(bfloat16);
        FUSEGEN_LAUNCH(linear_gelu_group_norm_256_tensor_kernel, grid_of(tensor_tiles < processors
            ? tensor_tiles : processors), dim3(384), ring_bytes, stream,
                       left_map, left_rest_map, right_map, y, batch);
        return FUSEGEN_LAST_ERROR();
    }

    // The form for few rows takes operands that are read 16 bytes at a time.
    if (rows <= 8) {
        int64_t left_run[2];
        int64_t right_run[2];
        const int64_t depths = 96;
        if (depths % 8 == 0 &&
            merge_dims(x_strides, {batch, 96}, {1, 2}, left_run) &&
            left_run[1] == 1 &&
            is_aligned(x, 16) &&
            (left_run[0]) % 8 == 0 &&
            merge_dims(fc_weight_strides, {256, 96}, {1, 2}, right_run) &&
            right_run[1] == 1 &&
            is_aligned(fc_weight, 16) &&
            (right_run[0]) % 8 == 0) {
            const int64_t column_tiles = divide_up(columns, 32);
            const auto skinny_kernel =
                rows <= 2 ? linear_gelu_group_norm_skinny_kernel<2> :
                linear_gelu_group_norm_skinny_kernel<8>;
            FUSEGEN_LAUNCH(skinny_kernel, grid_of(1 * column_tiles), dim3(256), 1056, stream,
                           x, left_run[0],
                           fc_weight, right_run[0],
                           y, batch);
            return FUSEGEN_LAST_ERROR();
        }
    }

    // The form for other tensor cores takes operands that are read 16 bytes at a time.
    if (has_mma() && !has_wgmma()) {
        int64_t left_run[2];
        int64_t right_run[2];
        if (merge_dims(x_strides, {batch, 96}, {1, 2}, left_run) &&
            left_run[1] == 1 &&
            is_aligned(x, 16) &&
            (left_run[0]) % 8 == 0 &&
            merge_dims(fc_weight_strides, {256, 96}, {1, 2}, right_run) &&
            right_run[1] == 1 &&
            is_aligned(fc_weight, 16) &&
            (right_run[0]) % 8 == 0) {
            const int64_t mma_tiles = 1 * divide_up(rows, 128) * divide_up(columns, 64);
            FUSEGEN_LAUNCH(linear_gelu_group_norm_mma_kernel, grid_of(mma_tiles), dim3(256), 79360, stream,
                           x, left_run[0],
                           fc_weight, right_run[0],
                           y, batch);
            return FUSEGEN_LAST_ERROR();
        }
    }

    if (packed) {
        FUSEGEN_LAUNCH((linear_gelu_group_norm_kernel<true>),
                       grid, dim3(threads), shared_bytes, stream,
                       x, Strides<2>(x_strides), fc_weight, Strides<2>(fc_weight_strides), y, batch);
    } else {
        FUSEGEN_LAUNCH((linear_gelu_group_norm_kernel<false>),
                       grid, dim3(threads), shared_bytes, stream,
                       x, Strides<2>(x_strides), fc_weight, Strides<2>(fc_weight_strides), y, batch);
    }
    return FUSEGEN_LAST_ERROR();
}
}  // namespace fusegen
