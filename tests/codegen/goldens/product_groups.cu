// LinearGroupNorm.
#include "fusegen/device.cuh"
#include "fusegen/dtypes.cuh"
#include "fusegen/launch.cuh"
#include "fusegen/math.cuh"
#include "fusegen/reduce.cuh"
#include "fusegen/shared_tile.cuh"
#include "fusegen/skinny_product.cuh"
#include "fusegen/stepped_division.cuh"

namespace fusegen {
// linear_group_norm: linear, group_norm.
// Groups of 16 columns lie inside a tile of 64, so their statistics need no memory traffic and the
// product is not stored.
template <bool packed>
__global__ void __launch_bounds__(128) linear_group_norm_kernel(
    const float* __restrict__ x,
    Strides<2> x_strides,
    const float* __restrict__ fc_weight,
    Strides<2> fc_weight_strides,
    const float* __restrict__ norm_weight,
    Strides<1> norm_weight_strides,
    float* __restrict__ y,
    int64_t batch) {
    wait_for_earlier_kernels();
    constexpr int threads = 128;
    constexpr int tile_rows = 64;
    const int64_t batches = 1;
    const int64_t rows = batch;
    const int64_t columns = 80;
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
#pragma unroll
                for (int element = 0; element < vector; ++element) {
                    const int64_t column = first_column + element;
                    total_state.push(kept_matmul[element], column);
                }
            }
            total_state = reduce_lanes<16>(total_state);
            const float total = convert<float>(total_state.result());
            // Phase 2 of 3.
            const float mean = total / 16.0f;
            auto rest_state = Sum<float>::identity();
            auto squared_deviations_state = Sum<float>::identity();
            for (int64_t first_column = 0 + lane * vector; first_column < row_end;
                 first_column += lanes * vector) {
                const auto kept_matmul_2 = load_vector<float, vector>(tile + tile_row * 65 + group * 16
                    + first_column);
#pragma unroll
                for (int element = 0; element < vector; ++element) {
                    const int64_t column = first_column + element;
                    const float deviation = kept_matmul_2[element] - mean;
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
                const auto kept_matmul_3 = load_vector<float, vector>(tile + tile_row * 65 + group * 16
                    + first_column);
                const auto norm_weight_vector =
                    load_vector<float, vector>(norm_weight + (packed
                        ? first_column + line_group * 16
                        : norm_weight_strides(first_column + line_group * 16)));
                Vector<float, vector> y_vector;
#pragma unroll
                for (int element = 0; element < vector; ++element) {
                    const float sub = kept_matmul_3[element] - centre;
                    const float mul = sub * rsqrt;
                    const float norm_weight_value = norm_weight_vector[element];
                    const float mul_2 = mul * norm_weight_value;
                    y_vector[element] = mul_2;
                }
                store_vector(y + first_column + line * 80 + line_group * 16, y_vector);
            }
        }

        __syncthreads();  // the next tile overwrites this one
    }
}

// linear_group_norm: linear, group_norm.
// Groups of 16 columns lie inside a tile of 64, so their statistics need no memory traffic and the
// product is not stored.
// This form is for products of few rows, at most `tile_rows`: a block reads its columns of the right
// operand once and keeps the sums of all rows.
template <int tile_rows>
__global__ void __launch_bounds__(256) linear_group_norm_skinny_kernel(
    const float* __restrict__ left_matrices,
    int64_t left_stride,
    const float* __restrict__ right_matrices,
    int64_t right_stride,
    const float* __restrict__ norm_weight,
    float* __restrict__ y,
    int64_t batch) {
    wait_for_earlier_kernels();
    constexpr int threads = 256;
    constexpr int tile_columns = 32;
    const int64_t rows = batch;
    const int64_t columns = 80;
    const int64_t depths = 96;
    const int64_t column_tiles = (columns + tile_columns - 1) / tile_columns;
    const int64_t tiles = 1 * column_tiles;
    FUSEGEN_DYNAMIC_SHARED(unsigned char, shared);
    float* const tile = reinterpret_cast<float*>(shared + 0);
    float* const partial = reinterpret_cast<float*>(shared + 2112);
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
#pragma unroll
                for (int element = 0; element < vector; ++element) {
                    const int64_t column = first_column + element;
                    total_state.push(kept_matmul[element], column);
                }
            }
            total_state = reduce_lanes<16>(total_state);
            const float total = convert<float>(total_state.result());
            // Phase 2 of 3.
            const float mean = total / 16.0f;
            auto rest_state = Sum<float>::identity();
            auto squared_deviations_state = Sum<float>::identity();
            for (int64_t first_column = 0 + lane * vector; first_column < row_end;
                 first_column += lanes * vector) {
                const auto kept_matmul_2 = load_vector<float, vector>(tile + tile_row * 33 + group * 16
                    + first_column);
#pragma unroll
                for (int element = 0; element < vector; ++element) {
                    const int64_t column = first_column + element;
                    const float deviation = kept_matmul_2[element] - mean;
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
                const auto kept_matmul_3 = load_vector<float, vector>(tile + tile_row * 33 + group * 16
                    + first_column);
                const auto norm_weight_vector =
                    load_vector<float, vector>(norm_weight + first_column + line_group * 16);
                Vector<float, vector> y_vector;
#pragma unroll
                for (int element = 0; element < vector; ++element) {
                    const float sub = kept_matmul_3[element] - centre;
                    const float mul = sub * rsqrt;
                    const float norm_weight_value = norm_weight_vector[element];
                    const float mul_2 = mul * norm_weight_value;
                    y_vector[element] = mul_2;
                }
                store_vector(y + first_column + line * 80 + line_group * 16, y_vector);
            }
        }

        __syncthreads();  // the next columns' sums overwrite these
    }
}

FUSEGEN_EXPORT int launch_linear_group_norm(
    const float* x,
    const int64_t* x_strides,
    const float* fc_weight,
    const int64_t* fc_weight_strides,
    const float* norm_weight,
    const int64_t* norm_weight_strides,
    float* y,
    int64_t batch,
    void* stream) {
    const int64_t rows = batch;
    const int64_t columns = 80;
    const int64_t tiles = 1 * divide_up(rows, 64) * divide_up(columns, 64);
    if (tiles == 0) {
        return 0;
    }
    constexpr int threads = 128;
    constexpr std::size_t shared_bytes = 16640;
    const bool packed = is_contiguous(x_strides, {batch, 96}) && is_contiguous(fc_weight_strides, {80, 96}) &&
                        is_contiguous(norm_weight_strides, {80});
    // The form for few rows takes operands that are read 16 bytes at a time.
    if (rows <= 16) {
        int64_t left_run[2];
        int64_t right_run[2];
        const int64_t depths = 96;
        if (is_contiguous(norm_weight_strides, {80}) && depths % 4 == 0 &&
            merge_dims(x_strides, {batch, 96}, {1, 2}, left_run) &&
            left_run[1] == 1 &&
            is_aligned(x, 16) &&
            (left_run[0]) % 4 == 0 &&
            merge_dims(fc_weight_strides, {80, 96}, {1, 2}, right_run) &&
            right_run[1] == 1 &&
            is_aligned(fc_weight, 16) &&
            (right_run[0]) % 4 == 0) {
            const int64_t column_tiles = divide_up(columns, 32);
            const auto skinny_kernel =
                rows <= 2 ? linear_group_norm_skinny_kernel<2> :
                rows <= 8 ? linear_group_norm_skinny_kernel<8> :
                linear_group_norm_skinny_kernel<16>;
            FUSEGEN_LAUNCH(skinny_kernel, grid_of(1 * column_tiles), dim3(256), 2112, stream,
                           x, left_run[0],
                           fc_weight, right_run[0],
                           norm_weight, y, batch);
            return FUSEGEN_LAST_ERROR();
        }
    }

    const dim3 grid = grid_of(tiles);
    if (packed) {
        FUSEGEN_LAUNCH((linear_group_norm_kernel<true>),
                       grid, dim3(threads), shared_bytes, stream,
                       x, Strides<2>(x_strides), fc_weight, Strides<2>(fc_weight_strides), norm_weight,
                       Strides<1>(norm_weight_strides), y, batch);
    } else {
        FUSEGEN_LAUNCH((linear_group_norm_kernel<false>),
                       grid, dim3(threads), shared_bytes, stream,
                       x, Strides<2>(x_strides), fc_weight, Strides<2>(fc_weight_strides), norm_weight,
                       Strides<1>(norm_weight_strides), y, batch);
    }
    return FUSEGEN_LAST_ERROR();
}
}  // namespace fusegen
