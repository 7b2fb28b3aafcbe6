// Linear.
#include "fusegen/device.cuh"
#include "fusegen/dtypes.cuh"
#include "fusegen/launch.cuh"
#include "fusegen/math.cuh"
#include "fusegen/reduce.cuh"
#include "fusegen/stepped_division.cuh"

namespace fusegen {
// linear_gelu: linear, gelu.
// The product's elements are finished in registers and stored once.
template <bool packed>
__global__ void __launch_bounds__(256) linear_gelu_kernel(
    const float* __restrict__ x,
    Strides<2> x_strides,
    const float* __restrict__ fc_weight,
    Strides<2> fc_weight_strides,
    const float* __restrict__ fc_bias,
    Strides<1> fc_bias_strides,
    float* __restrict__ y,
    int64_t batch) {
    constexpr int threads = 256;
    const int64_t batches = 1;
    const int64_t rows = batch;
    const int64_t columns = 80;
    const int64_t depths = 96;
    FUSEGEN_SHARED(float, left_tile, 1040);
    FUSEGEN_SHARED(float, right_tile, 1040);
    const int thread_row = threadIdx.x / 16;
    const int thread_column = threadIdx.x % 16;
    const int64_t row_tiles = (rows + 63) / 64;
    const int64_t column_tiles = (columns + 63) / 64;
    // Neighbouring blocks share the right operand's columns, which then stay in the L2 cache.
    for (int64_t block = blockIdx.x; block < batches * row_tiles * column_tiles; block += gridDim.x) {
        const int64_t tile_first_row = block % row_tiles * 64;
        const int64_t column_tile = block / row_tiles % column_tiles;
        const int64_t tile_first_column = column_tile * 64;
        const int64_t batch_index = block / row_tiles / column_tiles;
        float accumulators[4][4] = {};
        for (int64_t first_depth = 0; first_depth < depths; first_depth += 16) {
            for (int i = threadIdx.x; i < 1024; i += threads) {
                const int tile_depth = i % 16;
                const int tile_row = i / 16;
                const int64_t depth = first_depth + tile_depth;
                const int64_t row = tile_first_row + tile_row;
                const bool inside = row < rows && depth < depths;
                left_tile[tile_depth * 65 + tile_row] =
                    inside ? x[packed ? depth + row * 96 : x_strides(row, depth)] : float(0);
            }
            for (int i = threadIdx.x; i < 1024; i += threads) {
                const int tile_depth = i % 16;
                const int tile_column = i / 16;
                const int64_t depth = first_depth + tile_depth;
                const int64_t column = tile_first_column + tile_column;
                const bool inside = column < columns && depth < depths;
                right_tile[tile_depth * 65 + tile_column] =
                    inside ? fc_weight[packed
                        ? column * 96 + depth : fc_weight_strides(column, depth)] : float(0);
            }
            __syncthreads();
            // A short sum of its own for each step keeps the rounding error of long ones down.
            float step[4][4] = {};
#pragma unroll
            for (int depth = 0; depth < 16; ++depth) {
#pragma unroll
                for (int i = 0; i < 4; ++i) {
#pragma unroll
                    for (int j = 0; j < 4; ++j) {
                        step[i][j] += left_tile[depth * 65 + thread_row + i * 16] *
                                      right_tile[depth * 65 + thread_column + j * 16];
                    }
                }
            }
#pragma unroll
            for (int i = 0; i < 4; ++i) {
#pragma unroll
                for (int j = 0; j < 4; ++j) {
                    accumulators[i][j] += step[i][j];
                }
            }
            __syncthreads();  // the next step overwrites the tiles
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) {
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                const int64_t row = tile_first_row + thread_row + i * 16;
                const int64_t column = tile_first_column + thread_column + j * 16;
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
    constexpr int threads = 256;
    constexpr std::size_t shared_bytes = 0;
    const bool packed = is_contiguous(x_strides, {batch, 96}) && is_contiguous(fc_weight_strides, {80, 96}) &&
                        is_contiguous(fc_bias_strides, {80});
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
