// Linear.
#include "fusegen/device.cuh"
#include "fusegen/dtypes.cuh"
#include "fusegen/launch.cuh"
#include "fusegen/math.cuh"
#include "fusegen/reduce.cuh"
#include "fusegen/shared_tile.cuh"
#include "fusegen/skinny_product.cuh"
#include "fusegen/stepped_division.cuh"

namespace fusegen {
// linear_gelu: linear, gelu.
// The product's elements are finished in registers and stored once.
template <bool packed>
__global__ void __launch_bounds__(128) linear_gelu_kernel(
    const float* __restrict__ x,
    Strides<2> x_strides,
    const float* __restrict__ fc_weight,
    Strides<2> fc_weight_strides,
    const float* __restrict__ fc_bias,
    Strides<1> fc_bias_strides,
    float* __restrict__ y,
    int64_t batch) {
    wait_for_earlier_kernels();
    constexpr int threads = 128;
    const int64_t batches = 1;
    const int64_t rows = batch;
    const int64_t columns = 80;
    const int64_t depths = 96;
    using Tile = SharedTile<float, 64, 64, 16, 8, 4, Neighbours::in_depth, Neighbours::in_depth>;
    static_assert(Tile::threads == threads, "the block's size depends on it");
    FUSEGEN_SHARED(float, operand_tiles, Tile::shared_size);
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
                const int64_t row = tile_first_row + Tile::row(i);
                const int64_t column = tile_first_column + Tile::column(j);
                if (row < rows && column < columns) {
                    const float fc_bias_value = fc_bias[packed ? column : fc_bias_strides(column)];
                    const float add = accumulators[i][j] + fc_bias_value;
                    const float gelu = fusegen::gelu_none(add);
                    y[column + row * 80 + batch * batch_index * 80] = gelu;
                }
            }
        }
    }
}

// linear_gelu: linear, gelu.
// The product's elements are finished in registers and stored once.
// This form is for products of few rows, at most `tile_rows`: a block reads its columns of the right
// operand once and keeps the sums of all rows.
template <int tile_rows>
__global__ void __launch_bounds__(256) linear_gelu_skinny_kernel(
    const float* __restrict__ left_matrices,
    int64_t left_stride,
    const float* __restrict__ right_matrices,
    int64_t right_stride,
    const float* __restrict__ fc_bias,
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
    float* const tile = reinterpret_cast<float*>(shared);
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
        for (int i = threadIdx.x; i < tile_rows * tile_columns; i += threads) {
            const int tile_row = i / tile_columns;
            const int tile_column = i % tile_columns;
            const int64_t row = tile_first_row + tile_row;
            const int64_t column = tile_first_column + tile_column;
            if (row < rows && column < columns) {
                const float fc_bias_value = fc_bias[column];
                const float add = tile[tile_row * 33 + tile_column] + fc_bias_value;
                const float gelu = fusegen::gelu_none(add);
                y[column + row * 80 + batch * batch_index * 80] = gelu;
            }
        }
        __syncthreads();  // the next columns' sums overwrite these
    }
}

FUSEGEN_EXPORT int launch_linear_gelu(
    const float* x,
    const int64_t* x_strides,
    const float* fc_weight,
    const int64_t* fc_weight_strides,
    const float* fc_bias,
    const int64_t* fc_bias_strides,
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
    constexpr std::size_t shared_bytes = 0;
    const bool packed = is_contiguous(x_strides, {batch, 96}) && is_contiguous(fc_weight_strides, {80, 96}) &&
                        is_contiguous(fc_bias_strides, {80});
    // The form for few rows takes operands that are read 16 bytes at a time.
    if (rows <= 16) {
        int64_t left_run[2];
        int64_t right_run[2];
        const int64_t depths = 96;
        if (is_contiguous(fc_bias_strides, {80}) && depths % 4 == 0 &&
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
                rows <= 2 ? linear_gelu_skinny_kernel<2> :
                rows <= 8 ? linear_gelu_skinny_kernel<8> :
                linear_gelu_skinny_kernel<16>;
            FUSEGEN_LAUNCH(skinny_kernel, grid_of(1 * column_tiles), dim3(256), 2112, stream,
                           x, left_run[0],
                           fc_weight, right_run[0],
                           fc_bias, y, batch);
            return FUSEGEN_LAST_ERROR();
        }
    }

    const dim3 grid = grid_of(tiles);
    if (packed) {
        FUSEGEN_LAUNCH((linear_gelu_kernel<true>),
                       grid, dim3(threads), shared_bytes, stream,
                       x, Strides<2>(x_strides), fc_weight, Strides<2>(fc_weight_strides), fc_bias,
                       Strides<1>(fc_bias_strides), y, batch);
    } else {
        FUSEGEN_LAUNCH((linear_gelu_kernel<false>),
                       grid, dim3(threads), shared_bytes, stream,
                       x, Strides<2>(x_strides), fc_weight, Strides<2>(fc_weight_strides), fc_bias,
                       Strides<1>(fc_bias_strides), y, batch);
    }
    return FUSEGEN_LAST_ERROR();
}
}  // namespace fusegen
