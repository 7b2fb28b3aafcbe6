// LinearLogSumExp.
#include "fusegen/device.cuh"
#include "fusegen/dtypes.cuh"
#include "fusegen/launch.cuh"
#include "fusegen/math.cuh"
#include "fusegen/reduce.cuh"
#include "fusegen/shared_tile.cuh"
#include "fusegen/skinny_product.cuh"
#include "fusegen/stepped_division.cuh"

namespace fusegen {
// linear_logsumexp_gelu_partial: linear, logsumexp, gelu.
// Each tile leaves one small state a row, so the product never reaches memory.
template <bool packed>
__global__ void __launch_bounds__(128) linear_logsumexp_gelu_partial_kernel(
    const float* __restrict__ x,
    Strides<2> x_strides,
    const float* __restrict__ fc_weight,
    Strides<2> fc_weight_strides,
    uint8_t* __restrict__ logsumexp_states,
    int64_t batch) {
    wait_for_earlier_kernels();
    constexpr int threads = 128;
    constexpr int tile_rows = 64;
    constexpr int tile_columns = 64;
    const int64_t batches = 1;
    const int64_t rows = batch;
    const int64_t columns = 800;
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
        constexpr int lanes = 32;  // threads that share a row
        constexpr int vector = 1;
        const int lane = threadIdx.x % lanes;
        // Each row of the tile leaves the state of its columns.
        const int64_t parts = column_tiles;
        const int64_t part = column_tile;
        for (int tile_row = threadIdx.x / lanes; tile_row < tile_rows; tile_row += threads / lanes) {
            const bool is_active = tile_first_row + tile_row < rows;
            const int64_t row = is_active ? batch_index * rows + tile_first_row + tile_row : 0;
            const int64_t tile_end = tile_first_column + tile_columns;
            const int64_t row_end = !is_active ? tile_first_column : tile_end < columns ? tile_end : columns;
            // Phase 1 of 1.
            auto logsumexp_state = LogSumExp<float>::identity();
            for (int64_t first_column = tile_first_column + lane * vector; first_column < row_end;
                 first_column += lanes * vector) {
                const auto kept_matmul = load_vector<float, vector>(tile + tile_row * 65
                    + first_column - tile_first_column);
#pragma unroll
                for (int element = 0; element < vector; ++element) {
                    const int64_t column = first_column + element;
                    logsumexp_state.push(kept_matmul[element], column);
                }
            }
            logsumexp_state = reduce_lanes<32>(logsumexp_state);

            if (lane == 0 && is_active) {
                static_assert(sizeof(LogSumExp<float>) == 8, "the workspace's size depends on it");
                reinterpret_cast<LogSumExp<float>*>(logsumexp_states)[row * parts + part] = logsumexp_state;
            }
        }

        __syncthreads();  // the next tile overwrites this one
    }
}

// linear_logsumexp_gelu_partial: linear, logsumexp, gelu.
// Each tile leaves one small state a row, so the product never reaches memory.
// This form is for products of few rows, at most `tile_rows`: a block reads its columns of the right
// operand once and keeps the sums of all rows.
template <int tile_rows>
__global__ void __launch_bounds__(512) linear_logsumexp_gelu_partial_skinny_kernel(
    const float* __restrict__ left_matrices,
    int64_t left_stride,
    const float* __restrict__ right_matrices,
    int64_t right_stride,
    uint8_t* __restrict__ logsumexp_states,
    int64_t batch) {
    wait_for_earlier_kernels();
    constexpr int threads = 512;
    constexpr int tile_columns = 64;
    const int64_t rows = batch;
    const int64_t columns = 800;
    const int64_t depths = 96;
    const int64_t column_tiles = (columns + tile_columns - 1) / tile_columns;
    const int64_t tiles = 1 * column_tiles;
    FUSEGEN_DYNAMIC_SHARED(unsigned char, shared);
    float* const tile = reinterpret_cast<float*>(shared + 0);
    float* const partial = reinterpret_cast<float*>(shared + 4160);
    for (int64_t block = blockIdx.x; block < tiles; block += gridDim.x) {
        const int64_t column_tile = block % column_tiles;
        [[maybe_unused]] const int64_t batch_index = block / column_tiles;
        const int64_t tile_first_row = 0;
        const int64_t tile_first_column = column_tile * tile_columns;
        skinny_product<tile_rows, tile_columns, Neighbours::in_depth>(
            left_matrices, left_stride, rows,
            right_matrices, right_stride, tile_first_column, columns,
            depths, tile, 65, partial);
        constexpr int lanes = 32;  // threads that share a row
        constexpr int vector = 1;
        const int lane = threadIdx.x % lanes;
        // Each row of the tile leaves the state of its columns.
        const int64_t parts = column_tiles;
        const int64_t part = column_tile;
        for (int tile_row = threadIdx.x / lanes; tile_row < tile_rows; tile_row += threads / lanes) {
            const bool is_active = tile_first_row + tile_row < rows;
            const int64_t row = is_active ? batch_index * rows + tile_first_row + tile_row : 0;
            const int64_t tile_end = tile_first_column + tile_columns;
            const int64_t row_end = !is_active ? tile_first_column : tile_end < columns ? tile_end : columns;
            // Phase 1 of 1.
            auto logsumexp_state = LogSumExp<float>::identity();
            for (int64_t first_column = tile_first_column + lane * vector; first_column < row_end;
                 first_column += lanes * vector) {
                const auto kept_matmul = load_vector<float, vector>(tile + tile_row * 65
                    + first_column - tile_first_column);
#pragma unroll
                for (int element = 0; element < vector; ++element) {
                    const int64_t column = first_column + element;
                    logsumexp_state.push(kept_matmul[element], column);
                }
            }
            logsumexp_state = reduce_lanes<32>(logsumexp_state);

            if (lane == 0 && is_active) {
                static_assert(sizeof(LogSumExp<float>) == 8, "the workspace's size depends on it");
                reinterpret_cast<LogSumExp<float>*>(logsumexp_states)[row * parts + part] = logsumexp_state;
            }
        }

        __syncthreads();  // the next columns' sums overwrite these
    }
}

FUSEGEN_EXPORT int launch_linear_logsumexp_gelu_partial(
    const float* x,
    const int64_t* x_strides,
    const float* fc_weight,
    const int64_t* fc_weight_strides,
    uint8_t* logsumexp_states,
    int64_t batch,
    void* stream) {
    const int64_t rows = batch;
    const int64_t columns = 800;
    const int64_t tiles = 1 * divide_up(rows, 64) * divide_up(columns, 64);
    if (tiles == 0) {
        return 0;
    }
    constexpr int threads = 128;
    constexpr std::size_t shared_bytes = 16640;
    const bool packed = is_contiguous(x_strides, {batch, 96}) && is_contiguous(fc_weight_strides, {800, 96});
    // The form for few rows takes operands that are read 16 bytes at a time.
    if (rows <= 16) {
        int64_t left_run[2];
        int64_t right_run[2];
        const int64_t depths = 96;
        if (depths % 4 == 0 &&
            merge_dims(x_strides, {batch, 96}, {1, 2}, left_run) &&
            left_run[1] == 1 &&
            is_aligned(x, 16) &&
            (left_run[0]) % 4 == 0 &&
            merge_dims(fc_weight_strides, {800, 96}, {1, 2}, right_run) &&
            right_run[1] == 1 &&
            is_aligned(fc_weight, 16) &&
            (right_run[0]) % 4 == 0) {
            const int64_t column_tiles = divide_up(columns, 64);
            const auto skinny_kernel =
                rows <= 2 ? linear_logsumexp_gelu_partial_skinny_kernel<2> :
                rows <= 8 ? linear_logsumexp_gelu_partial_skinny_kernel<8> :
                linear_logsumexp_gelu_partial_skinny_kernel<16>;
            FUSEGEN_LAUNCH(skinny_kernel, grid_of(1 * column_tiles), dim3(512), 4160, stream,
                           x, left_run[0],
                           fc_weight, right_run[0],
                           logsumexp_states, batch);
            return FUSEGEN_LAST_ERROR();
        }
    }

    const dim3 grid = grid_of(tiles);
    if (packed) {
        FUSEGEN_LAUNCH((linear_logsumexp_gelu_partial_kernel<true>),
                       grid, dim3(threads), shared_bytes, stream,
                       x, Strides<2>(x_strides), fc_weight, Strides<2>(fc_weight_strides), logsumexp_states,
                       batch);
    } else {
        FUSEGEN_LAUNCH((linear_logsumexp_gelu_partial_kernel<false>),
                       grid, dim3(threads), shared_bytes, stream,
                       x, Strides<2>(x_strides), fc_weight, Strides<2>(fc_weight_strides), logsumexp_states,
                       batch);
    }
    return FUSEGEN_LAST_ERROR();
}

// linear_logsumexp_gelu_finish: linear, logsumexp, gelu.
// Merges the partial states of each row in a fixed order.
template <int vector, bool packed>
__global__ void __launch_bounds__(256, 1) linear_logsumexp_gelu_finish_kernel(
    const uint8_t* __restrict__ logsumexp_states,
    float* __restrict__ y,
    int64_t batch) {
    wait_for_earlier_kernels();
    constexpr int lanes = 32;  // threads that share a row
    constexpr int steps = 4 / vector;  // vectors that a thread takes together
    const int64_t rows = batch;
    const int64_t columns = 13;
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
        auto logsumexp_state = LogSumExp<float>::identity();
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
                    const auto* const logsumexp_left = reinterpret_cast<const LogSumExp<float>*>(logsumexp_states);
                    logsumexp_state.merge(logsumexp_left[column + row * 13]);
                }
            }
        }
        logsumexp_state = reduce_lanes<32>(logsumexp_state);
        const float logsumexp = convert<float>(logsumexp_state.result());

        const float gelu = fusegen::gelu_none(logsumexp);
        if (lane == 0 && is_active) {
            y[row] = gelu;
        }
    }
}

FUSEGEN_EXPORT int launch_linear_logsumexp_gelu_finish(
    const uint8_t* logsumexp_states,
    float* y,
    int64_t batch,
    void* stream) {
    const int64_t rows = batch;
    const int64_t columns = 13;
    if (rows == 0) {
        return 0;
    }
    constexpr int vector = 1;
    // Wide accesses for whole vectors of packed tensors; all else goes element by element.
    const bool packed = true && is_aligned(logsumexp_states, 1) && is_aligned(y, 4);
    const bool wide = packed && columns % vector == 0;
    const dim3 grid = grid_of(divide_up(rows, 8));
    if (wide) {
        FUSEGEN_LAUNCH((linear_logsumexp_gelu_finish_kernel<vector, true>),
                       grid, dim3(256), 0, stream,
                       logsumexp_states, y, batch);
    } else {
        FUSEGEN_LAUNCH((linear_logsumexp_gelu_finish_kernel<1, false>),
                       grid, dim3(256), 0, stream,
                       logsumexp_states, y, batch);
    }
    return FUSEGEN_LAST_ERROR();
}
}  // namespace fusegen
