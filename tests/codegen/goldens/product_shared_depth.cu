// AddedGradient.
#include "fusegen/device.cuh"
#include "fusegen/dtypes.cuh"
#include "fusegen/launch.cuh"
#include "fusegen/math.cuh"
#include "fusegen/reduce.cuh"
#include "fusegen/shared_tile.cuh"
#include "fusegen/stepped_division.cuh"

namespace fusegen {
// matmul_add: matmul, add.
// The product's elements are finished in registers and stored once; blocks share K where tiles are
// few, and a kernel adds their sums in order.
template <bool packed>
__global__ void __launch_bounds__(128) matmul_add_kernel(
    int64_t parts,  // of K, each for a block
    const float* __restrict__ dy,
    Strides<2> dy_strides,
    const float* __restrict__ x,
    Strides<2> x_strides,
    const float* __restrict__ old,
    Strides<2> old_strides,
    float* __restrict__ y,
    float* __restrict__ matmul_sums,
    int64_t batch) {
    wait_for_earlier_kernels();
    constexpr int threads = 128;
    const int64_t batches = 1;
    const int64_t rows = 64;
    const int64_t columns = 128;
    const int64_t depths = batch;
    using Tile = SharedTile<float, 64, 64, 16, 8, 4, Neighbours::in_columns, Neighbours::in_columns>;
    static_assert(Tile::threads == threads, "the block's size depends on it");
    FUSEGEN_SHARED(float, operand_tiles, Tile::shared_size);
    const int64_t row_tiles = (rows + 63) / 64;
    const int64_t column_tiles = (columns + 63) / 64;
    const int64_t tiles = batches * row_tiles * column_tiles;
    for (int64_t part_tile = blockIdx.x; part_tile < parts * tiles; part_tile += gridDim.x) {
        const int64_t block = part_tile % tiles;
        const int64_t part = part_tile / tiles;
        const int64_t steps = (depths + 15) / 16;
        const int64_t depth_start = steps * part / parts * 16;
        const int64_t part_end = steps * (part + 1) / parts * 16;
        const int64_t depth_end = part_end < depths ? part_end : depths;
        const int64_t tile_first_row = block % row_tiles * 64;
        const int64_t column_tile = block / row_tiles % column_tiles;
        const int64_t tile_first_column = column_tile * 64;
        [[maybe_unused]] const int64_t batch_index = block / row_tiles / column_tiles;
        const auto left_source = [&]([[maybe_unused]] int64_t row, [[maybe_unused]] int64_t depth) {
            return &dy[packed ? depth * 64 + row : dy_strides(depth, row)];
        };
        const auto right_source = [&]([[maybe_unused]] int64_t column, [[maybe_unused]] int64_t depth) {
            return &x[packed ? column + depth * 128 : x_strides(depth, column)];
        };
        Tile::Sums accumulators = {};
        Tile::multiply(left_source, tile_first_row, rows, right_source, tile_first_column, columns,
                       depth_start, depth_end, operand_tiles, accumulators);
#pragma unroll
        for (int i = 0; i < 8; ++i) {
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                const int64_t row = tile_first_row + Tile::row(i);
                const int64_t column = tile_first_column + Tile::column(j);
                if (row < rows && column < columns && parts > 1) {
                    matmul_sums[batch_index * 8192 + column + part * 8192 + row * 128] = accumulators[i][j];
                    continue;
                }
                if (row < rows && column < columns) {
                    const float old_value = old[packed ? column + row * 128 : old_strides(row, column)];
                    const float add = accumulators[i][j] + old_value;
                    y[batch_index * 8192 + column + row * 128] = add;
                }
            }
        }
    }
}

// matmul_add: matmul, add.
// The product's elements are finished in registers and stored once; blocks share K where tiles are
// few, and a kernel adds their sums in order.
// This kernel adds the sums of the parts of K, in their order, where several blocks have shared it.
__global__ void __launch_bounds__(128) matmul_add_sums_kernel(
    int64_t parts,
    const float* __restrict__ sums,
    const float* __restrict__ old,
    float* __restrict__ y) {
    wait_for_earlier_kernels();
    const int64_t batches = 1;
    const int64_t rows = 64;
    const int64_t columns = 128;
    const int64_t part_size = batches * rows * columns;
    for (int64_t index = int64_t{blockIdx.x} * 128
        + threadIdx.x; index < part_size; index += int64_t{gridDim.x} * 128) {
        const int64_t column = index % columns;
        const int64_t row = index / columns % rows;
        [[maybe_unused]] const int64_t batch_index = index / columns / rows;
        const float* const first_sum = sums + index;
        float own_sum = 0;
#pragma unroll 8
        for (int64_t part = 0; part < parts; ++part) {
            own_sum += first_sum[part * part_size];
        }
        const float old_value = old[column + row * 128];
        const float add = own_sum + old_value;
        y[batch_index * 8192 + column + row * 128] = add;
    }
}

FUSEGEN_EXPORT int launch_matmul_add(
    const float* dy,
    const int64_t* dy_strides,
    const float* x,
    const int64_t* x_strides,
    const float* old,
    const int64_t* old_strides,
    float* y,
    float* matmul_sums,
    int64_t batch,
    void* stream) {
    const int64_t rows = 64;
    const int64_t columns = 128;
    const int64_t tiles = 1 * divide_up(rows, 64) * divide_up(columns, 64);
    if (tiles == 0) {
        return 0;
    }
    constexpr int threads = 128;
    constexpr std::size_t shared_bytes = 0;
    const bool packed = is_contiguous(dy_strides, {batch, 64}) && is_contiguous(x_strides, {batch, 128}) &&
                        is_contiguous(old_strides, {64, 128});
    const int64_t shared_parts = parts_of_depth(256, tiles, batch, 128);
    const int64_t parts = is_contiguous(old_strides, {64, 128}) ? shared_parts : 1;
    const dim3 grid = grid_of(parts * tiles);
    if (packed) {
        FUSEGEN_LAUNCH((matmul_add_kernel<true>),
                       grid, dim3(threads), shared_bytes, stream,
                       parts, dy, Strides<2>(dy_strides), x, Strides<2>(x_strides), old,
                       Strides<2>(old_strides), y, matmul_sums, batch);
    } else {
        FUSEGEN_LAUNCH((matmul_add_kernel<false>),
                       grid, dim3(threads), shared_bytes, stream,
                       parts, dy, Strides<2>(dy_strides), x, Strides<2>(x_strides), old,
                       Strides<2>(old_strides), y, matmul_sums, batch);
    }
    if (parts > 1) {
        FUSEGEN_LAUNCH(matmul_add_sums_kernel, grid_of(divide_up(1 * rows
            * columns, 128)), dim3(128), 0, stream,
                       parts, matmul_sums, old, y);
    }
    return FUSEGEN_LAST_ERROR();
}
}  // namespace fusegen
