// LinearGelu.
#include "fusegen/device.cuh"
#include "fusegen/dtypes.cuh"
#include "fusegen/hopper.cuh"
#include "fusegen/launch.cuh"
#include "fusegen/math.cuh"
#include "fusegen/reduce.cuh"
#include "fusegen/shared_tile.cuh"
#include "fusegen/skinny_product.cuh"
#include "fusegen/split.cuh"
#include "fusegen/stepped_division.cuh"
#include "fusegen/tile_order.cuh"
#include "fusegen/wgmma_exchange.cuh"
#include "fusegen/wide_split.cuh"

namespace fusegen {
// linear_gelu: linear, gelu.
// The product's elements are finished in registers and stored once; blocks share K where tiles are
// few, and a kernel adds their sums in order; float32 operands are first written as two float16
// parts each, of which the tensor cores make three products, as accurate as float32's and less
// work.
template <bool packed>
__global__ void __launch_bounds__(128) linear_gelu_kernel(
    const uint8_t* __restrict__ flags,  // of the tiles to compute, null for all
    const float* __restrict__ x,
    Strides<2> x_strides,
    const float* __restrict__ fc_weight,
    Strides<2> fc_weight_strides,
    float* __restrict__ y,
    int64_t batch) {
    wait_for_earlier_kernels();
    constexpr int threads = 128;
    const int64_t batches = 1;
    const int64_t rows = batch;
    const int64_t columns = 4096;
    const int64_t depths = 1024;
    using Tile = SharedTile<float, 64, 64, 16, 8, 4, Neighbours::in_depth, Neighbours::in_depth>;
    static_assert(Tile::threads == threads, "the block's size depends on it");
    FUSEGEN_SHARED(float, operand_tiles, Tile::shared_size);
    const int64_t row_tiles = (rows + 63) / 64;
    const int64_t column_tiles = (columns + 63) / 64;
    const auto is_left_out = [&](int64_t block) {
        const int64_t batch = block / row_tiles / column_tiles;
        const int64_t first_row = block % row_tiles * 64;
        const int64_t first_column = block / row_tiles % column_tiles * 64;
        return flags != nullptr && !is_flagged(flags, rows, columns, batch, first_row, 64, first_column, 64);
    };
    // Mostly all tiles are left out: the threads see to that for many of the block's at once.
    bool has_work = false;
    for (int64_t block = blockIdx.x
        + int64_t{threadIdx.x} * gridDim.x; block < batches * row_tiles
        * column_tiles; block += int64_t{gridDim.x} * threads) {
        has_work |= !is_left_out(block);
    }
    if (!__syncthreads_or(has_work)) {
        return;
    }
    // Neighbouring blocks share the right operand's columns, which then stay in the L2 cache.
    for (int64_t block = blockIdx.x; block < batches * row_tiles * column_tiles; block += gridDim.x) {
        const int64_t tile_first_row = block % row_tiles * 64;
        const int64_t column_tile = block / row_tiles % column_tiles;
        const int64_t tile_first_column = column_tile * 64;
        [[maybe_unused]] const int64_t batch_index = block / row_tiles / column_tiles;
        if (is_left_out(block)) {
            continue;
        }
        const auto left_source = [&]([[maybe_unused]] int64_t row, [[maybe_unused]] int64_t depth) {
            return &x[packed ? depth + row * 1024 : x_strides(row, depth)];
        };
        const auto right_source = [&]([[maybe_unused]] int64_t column, [[maybe_unused]] int64_t depth) {
            return &fc_weight[packed ? column * 1024 + depth : fc_weight_strides(column, depth)];
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
                    const float gelu = fusegen::gelu_none(accumulators[i][j]);
                    y[column + row * 4096 + batch * batch_index * 4096] = gelu;
                }
            }
        }
    }
}

// linear_gelu: linear, gelu.
// The product's elements are finished in registers and stored once; blocks share K where tiles are
// few, and a kernel adds their sums in order; float32 operands are first written as two float16
// parts each, of which the tensor cores make three products, as accurate as float32's and less
// work.
// This kernel adds the sums of the parts of K, in their order, where several blocks have shared it.
__global__ void __launch_bounds__(flag_rows * flag_columns) linear_gelu_sums_kernel(
    int64_t parts,
    const float* __restrict__ sums,
    float* __restrict__ y,
    float16* __restrict__ matmul_left_parts,
    float* __restrict__ matmul_left_scales,
    float16* __restrict__ matmul_right_parts,
    float* __restrict__ matmul_right_scales,
    uint8_t* __restrict__ matmul_flags,
    int64_t batch) {
    wait_for_earlier_kernels();
    const int64_t batches = 1;
    const int64_t rows = batch;
    const int64_t columns = 4096;
    const int64_t part_size = batches * rows * columns;
    const LineScale* const left_scales = reinterpret_cast<const LineScale*>(matmul_left_scales);
    const LineScale* const right_scales = reinterpret_cast<const LineScale*>(matmul_right_scales);
    const int64_t row_marks = (rows + split_tile - 1) / split_tile * (split_tile / flag_rows);
    const int64_t column_marks = (columns + split_tile - 1) / split_tile * (split_tile / flag_columns);
    for (int64_t mark = blockIdx.x; mark < batches * row_marks * column_marks; mark += gridDim.x) {
        const int64_t batch_index = mark / column_marks / row_marks;
        const int64_t row = mark / column_marks % row_marks * flag_rows + threadIdx.x / flag_columns;
        const int64_t column = mark % column_marks * flag_columns + threadIdx.x % flag_columns;
        bool is_lost = false;
        if (row < rows && column < columns) {
            const float* const first_sum = sums + (batch_index * rows + row) * columns + column;
            float own_sum = 0;
#pragma unroll 8
            for (int64_t part = 0; part < parts; ++part) {
                own_sum += first_sum[part * part_size];
            }
            const int64_t left_line = row;
            const int64_t right_line = column;
            const LineScale left_scale = left_scales[left_line];
            const LineScale right_scale = right_scales[right_line];
            is_lost = is_below_loss(own_sum, left_scale, right_scale) &&
                      !outweighs_loss(left_scale, right_scale, matmul_left_parts
                          + left_line * 1024, matmul_right_parts + right_line * 1024);
            own_sum = without_scale(own_sum, left_scale, right_scale);
            const float gelu = fusegen::gelu_none(own_sum);
            y[column + row * 4096 + batch * batch_index * 4096] = gelu;
        }
        const bool any_lost = __syncthreads_or(is_lost);
        if (threadIdx.x == 0) {
            matmul_flags[mark] = any_lost;
        }
    }
}

// linear_gelu: linear, gelu.
// The product's elements are finished in registers and stored once; blocks share K where tiles are
// few, and a kernel adds their sums in order; float32 operands are first written as two float16
// parts each, of which the tensor cores make three products, as accurate as float32's and less
// work.
// This form is for products of few rows, at most `tile_rows`: a block reads its columns of the right
// operand once and keeps the sums of all rows.
template <int tile_rows>
__global__ void __launch_bounds__(256) linear_gelu_skinny_kernel(
    const float* __restrict__ left_matrices,
    int64_t left_stride,
    const float* __restrict__ right_matrices,
    int64_t right_stride,
    float* __restrict__ y,
    int64_t batch) {
    wait_for_earlier_kernels();
    constexpr int threads = 256;
    constexpr int tile_columns = 32;
    const int64_t rows = batch;
    const int64_t columns = 4096;
    const int64_t depths = 1024;
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
                const float gelu = fusegen::gelu_none(tile[tile_row * 33 + tile_column]);
                y[column + row * 4096 + batch * batch_index * 4096] = gelu;
            }
        }
        __syncthreads();  // the next columns' sums overwrite these
    }
}

// linear_gelu: linear, gelu.
// The product's elements are finished in registers and stored once; blocks share K where tiles are
// few, and a kernel adds their sums in order; float32 operands are first written as two float16
// parts each, of which the tensor cores make three products, as accurate as float32's and less
// work.
// This form runs on Hopper's tensor cores: one warpgroup copies tiles of the operands into a ring of
// stages, two others multiply them, each for half of the rows.
// Tiles are few: several blocks share the K of each, and leave the sums of their parts.
__global__ void __launch_bounds__(384, 1) linear_gelu_shared_tensor_kernel(
    const __grid_constant__ TensorMap left_map,
    const __grid_constant__ TensorMap left_low_map,
    const __grid_constant__ TensorMap right_map,
    const __grid_constant__ TensorMap right_low_map,
    int parts,  // of K, each for a block
    float* __restrict__ matmul_sums,
    int64_t batch) {
    wait_for_earlier_kernels();
#if FUSEGEN_HAS_WGMMA
    constexpr int vector = 4;
    constexpr int stages = 3;
    constexpr int tile_rows = 128;
    constexpr int tile_columns = 128;
    constexpr int tile_depth = 64;
    constexpr int left_start = 0;
    constexpr int left_low_start = 8192;
    constexpr int right_start = 16384;
    constexpr int right_low_start = 24576;
    constexpr int stage_size = 32768;  // elements
    const int64_t rows = batch;
    const int64_t columns = 4096;
    const int64_t depths = 1024;
    const TileOrder order{static_cast<int>((rows + tile_rows - 1) / tile_rows),
                          static_cast<int>((columns + tile_columns - 1) / tile_columns)};
    const int tiles = static_cast<int>(1 * order.rows * order.columns);
    const int part = static_cast<int>(blockIdx.x % parts);
    const int all_steps = static_cast<int>((depths + tile_depth - 1) / tile_depth);
    const int first_step = all_steps * part / parts;
    const int steps = all_steps * (part + 1) / parts - first_step;
    FUSEGEN_SHARED(std::uint64_t, full, stages);   // the stage's operands have arrived
    FUSEGEN_SHARED(std::uint64_t, empty, stages);  // both multiplying warpgroups are done with them
    FUSEGEN_TILE_SHARED(float16, ring);
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < stages; ++stage) {
            mbarrier_init(&full[stage], 1);
            mbarrier_init(&empty[stage], 2);
        }
        mbarrier_fence_init();
        prefetch_tensor_map(left_map);
        prefetch_tensor_map(left_low_map);
        prefetch_tensor_map(right_map);
        prefetch_tensor_map(right_low_map);
    }
    __syncthreads();
    const int warpgroup = threadIdx.x / 128;
    const int thread = threadIdx.x % 128;
    int stage = 0;
    unsigned phase = 0;
    if (warpgroup == 0) {
        decrease_registers<40>();
        for (int tile = thread == 0
            ? static_cast<int>(blockIdx.x / parts) : tiles; tile < tiles; tile += gridDim.x / parts) {
            int batch_index, row_tile, column_tile;
            order.find(tile, batch_index, row_tile, column_tile);
            const int tile_first_row = row_tile * tile_rows;
            const int tile_first_column = column_tile * tile_columns;
            for (int step = first_step; step < first_step + steps; ++step) {
                float16* const stage_tiles = ring + stage * stage_size;
                mbarrier_wait(&empty[stage], phase ^ 1);
                mbarrier_arrive_expect(&full[stage], stage_size * sizeof(float16));
                tma_load_3d(stage_tiles + left_start, left_map, &full[stage],
                            step * tile_depth, tile_first_row, 0);
                tma_load_3d(stage_tiles + left_low_start, left_low_map, &full[stage],
                            step * tile_depth, tile_first_row, 0);
                // The lines come in an order that makes the columns neighbours which a thread holds of the result.
                tma_load_5d(stage_tiles + right_start, right_map, &full[stage],
                            step * tile_depth, 0, 0, 0, tile_first_column / 16);
                // The lines come in an order that makes the columns neighbours which a thread holds of the result.
                tma_load_5d(stage_tiles + right_low_start, right_low_map, &full[stage],
                            step * tile_depth, 0, 0, 0, tile_first_column / 16);
                stage = stage + 1 == stages ? 0 : stage + 1;
                phase ^= stage == 0;
            }
        }
    } else {
        increase_registers<232>();
        const int own_row = (warpgroup - 1) * wgmma_m + thread / 32 * 16 + thread % 32 / 4;
        for (int tile = blockIdx.x / parts; tile < tiles; tile += gridDim.x / parts) {
            int batch_of_tile, row_tile, column_tile;
            order.find(tile, batch_of_tile, row_tile, column_tile);
            [[maybe_unused]] const int64_t batch_index = batch_of_tile;
            const int64_t tile_first_row = int64_t{row_tile} * tile_rows;
            [[maybe_unused]] const int64_t tile_first_column = int64_t{column_tile} * tile_columns;
            float accumulators[tile_columns / 2] = {};
            float sums[tile_columns / 2];
            float small[tile_columns / 2] = {};
            int previous = 0;
            for (int step = 0; step < steps; ++step) {
                const float16* const stage_tiles = ring + stage * stage_size;
                const int own_lines = (warpgroup - 1) * wgmma_m * tile_depth;
                mbarrier_wait(&full[stage], phase);
#pragma unroll 1  // else there would be registers for the sums of each turn, and too few
                for (int first = 0; first < tile_depth; first += 32) {
                    wgmma_fence(sums);
#pragma unroll
                    for (int depth = first; depth < first + 32; depth += wgmma_k<float16>) {
                        wgmma<float16, tile_columns>(sums, wgmma_descriptor(stage_tiles + left_start
                            + own_lines + depth),
                                                     wgmma_descriptor(stage_tiles + right_start
                                                         + depth), depth > first);
                    }
                    wgmma_commit();
#pragma unroll
                    for (int depth = first; depth < first + 32; depth += wgmma_k<float16>) {
                        wgmma<float16, tile_columns>(small, wgmma_descriptor(stage_tiles + left_start
                            + own_lines + depth),
                                                     wgmma_descriptor(stage_tiles + right_low_start
                                                         + depth), true);
                        wgmma<float16, tile_columns>(small, wgmma_descriptor(stage_tiles + left_low_start
                            + own_lines + depth),
                                                     wgmma_descriptor(stage_tiles + right_start
                                                         + depth), true);
                    }
                    wgmma_commit();
                    wgmma_wait<1>(sums);
                    if (thread == 0 && first == 0 && step > 0) {
                        mbarrier_arrive(&empty[previous]);  // all of the step before this one is done, too
                    }
#pragma unroll
                    for (int i = 0; i < tile_columns / 2; ++i) {
                        accumulators[i] += sums[i];
                    }
                }
                previous = stage;
                stage = stage + 1 == stages ? 0 : stage + 1;
                phase ^= stage == 0;
            }
            wgmma_wait<0>(small);
            if (thread == 0) {
                mbarrier_arrive(&empty[previous]);
            }
#pragma unroll
            for (int i = 0; i < tile_columns / 2; ++i) {
                accumulators[i] += small[i] * (1 / low_part_scale);
            }
#pragma unroll
            for (int block = 0; block < tile_columns / 16; ++block) {
                const int64_t block_column = tile_first_column + block * 16 + thread % 4 * 4;
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    const int64_t product_row = tile_first_row + own_row + half * 8;
                    // Beyond the edges the first row's operands are read, and nothing is stored.
                    const bool is_active = product_row < rows;
                    const int64_t row = is_active ? product_row : 0;
                    const int64_t first_column = block_column;
                    Vector<float, vector> matmul_sums_vector;
#pragma unroll
                    for (int element = 0; element < vector; ++element) {
                        matmul_sums_vector[element] = accumulators[block * 8 + element / 2 * 4 + half * 2
                            + element % 2];
                    }
                    store_vector_if(is_active, matmul_sums + first_column + row * 4096
                        + batch * batch_index * 4096 + batch * part * 4096, matmul_sums_vector);
                }
            }
        }
    }
#else
    __trap();  // the launcher takes this form on Hopper alone
#endif
}

// Splits the left operand's rows into float16 parts (split.cuh).
template <bool packed>
__global__ void __launch_bounds__(split_line_threads) linear_gelu_split_left_kernel(
    const float* __restrict__ x,
    Strides<2> x_strides,
    float16* __restrict__ matmul_left_parts,
    float* __restrict__ matmul_left_scales,
    int64_t batch) {
    wait_for_earlier_kernels();
    const int64_t lines = batch;
    const int64_t depths = 1024;
    const int64_t pitch = 1024;
    const int64_t batches = 1;
    const int64_t low_start = batches * lines * pitch;
    LineScale* const scales = reinterpret_cast<LineScale*>(matmul_left_scales);
    int turn = 0;
    for (int64_t position = blockIdx.x; position < batches * lines; position += gridDim.x) {
        [[maybe_unused]] const int64_t batch_index = position / lines;
        const int64_t row = position % lines;
        const float* contiguous = nullptr;
        if (packed) {
            contiguous = x + row * 1024;
            contiguous = reinterpret_cast<std::uintptr_t>(contiguous) % access_bytes == 0
                ? contiguous : nullptr;
        }
        const auto element = [&](int64_t depth) { return x[packed
            ? depth + row * 1024 : x_strides(row, depth)]; };
        float16* const high = matmul_left_parts + position * pitch;
        split_line<split_line_threads, true>(contiguous, element, depths, pitch, high, high
            + low_start, scales + position, turn);
    }
}

// Splits the right operand's columns into float16 parts (split.cuh).
template <bool packed>
__global__ void __launch_bounds__(split_line_threads) linear_gelu_split_right_kernel(
    const float* __restrict__ fc_weight,
    Strides<2> fc_weight_strides,
    float16* __restrict__ matmul_right_parts,
    float* __restrict__ matmul_right_scales) {
    wait_for_earlier_kernels();
    const int64_t lines = 4096;
    const int64_t depths = 1024;
    const int64_t pitch = 1024;
    const int64_t batches = 1;
    const int64_t low_start = batches * lines * pitch;
    LineScale* const scales = reinterpret_cast<LineScale*>(matmul_right_scales);
    int turn = 0;
    for (int64_t position = blockIdx.x; position < batches * lines; position += gridDim.x) {
        [[maybe_unused]] const int64_t batch_index = position / lines;
        const int64_t column = position % lines;
        const float* contiguous = nullptr;
        if (packed) {
            contiguous = fc_weight + column * 1024;
            contiguous = reinterpret_cast<std::uintptr_t>(contiguous) % access_bytes == 0
                ? contiguous : nullptr;
        }
        const auto element = [&](int64_t depth) { return fc_weight[packed
            ? column * 1024 + depth : fc_weight_strides(column, depth)]; };
        float16* const high = matmul_right_parts + position * pitch;
        split_line<split_line_threads, true>(contiguous, element, depths, pitch, high, high
            + low_start, scales + position, turn);
    }
}

// linear_gelu: linear, gelu.
// The product's elements are finished in registers and stored once; blocks share K where tiles are
// few, and a kernel adds their sums in order; float32 operands are first written as two float16
// parts each, of which the tensor cores make three products, as accurate as float32's and less
// work.
// This form runs on Hopper's tensor cores: one warpgroup copies tiles of the operands into a ring of
// stages, two others multiply them, each for half of the rows.
__global__ void __launch_bounds__(384, 1) linear_gelu_tensor_kernel(
    const __grid_constant__ TensorMap left_map,
    const __grid_constant__ TensorMap left_low_map,
    const __grid_constant__ TensorMap right_map,
    const __grid_constant__ TensorMap right_low_map,
    float* __restrict__ y,
    float16* __restrict__ matmul_left_parts,
    float* __restrict__ matmul_left_scales,
    float16* __restrict__ matmul_right_parts,
    float* __restrict__ matmul_right_scales,
    uint8_t* __restrict__ matmul_flags,
    int64_t batch) {
    wait_for_earlier_kernels();
#if FUSEGEN_HAS_WGMMA
    constexpr int vector = 4;
    constexpr int stages = 3;
    constexpr int tile_rows = 128;
    constexpr int tile_columns = 128;
    constexpr int tile_depth = 64;
    constexpr int left_start = 0;
    constexpr int left_low_start = 8192;
    constexpr int right_start = 16384;
    constexpr int right_low_start = 24576;
    constexpr int stage_size = 32768;  // elements
    const int64_t rows = batch;
    const int64_t columns = 4096;
    const int64_t depths = 1024;
    const TileOrder order{static_cast<int>((rows + tile_rows - 1) / tile_rows),
                          static_cast<int>((columns + tile_columns - 1) / tile_columns)};
    const int tiles = static_cast<int>(1 * order.rows * order.columns);
    const int steps = static_cast<int>((depths + tile_depth - 1) / tile_depth);
    FUSEGEN_SHARED(std::uint64_t, full, stages);   // the stage's operands have arrived
    FUSEGEN_SHARED(std::uint64_t, empty, stages);  // both multiplying warpgroups are done with them
    FUSEGEN_TILE_SHARED(float16, ring);
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < stages; ++stage) {
            mbarrier_init(&full[stage], 1);
            mbarrier_init(&empty[stage], 2);
        }
        mbarrier_fence_init();
        prefetch_tensor_map(left_map);
        prefetch_tensor_map(left_low_map);
        prefetch_tensor_map(right_map);
        prefetch_tensor_map(right_low_map);
    }
    __syncthreads();
    const int warpgroup = threadIdx.x / 128;
    const int thread = threadIdx.x % 128;
    int stage = 0;
    unsigned phase = 0;
    // All warps that have a part in a tile decide by themselves, and alike, whether it is worth it.
    const auto is_left_out = [&](int64_t tile_first_row, int64_t tile_first_column,
                                 [[maybe_unused]] int64_t batch_index) {
        const LineScale* left_scales = reinterpret_cast<const LineScale*>(matmul_left_scales)
            + tile_first_row;
        const LineScale* right_scales = reinterpret_cast<const LineScale*>(matmul_right_scales)
            + tile_first_column;
        const int rows_here = static_cast<int>(rows - tile_first_row < tile_rows
            ? rows - tile_first_row : tile_rows);
        const int columns_here = static_cast<int>(columns - tile_first_column < tile_columns
            ? columns - tile_first_column : tile_columns);
        return is_beyond_parts(left_scales, rows_here, right_scales, columns_here);
    };
    if (warpgroup == 0) {
        decrease_registers<40>();
        for (int tile = thread < 32 ? static_cast<int>(blockIdx.x) : tiles; tile < tiles; tile += gridDim.x) {
            int batch_index, row_tile, column_tile;
            order.find(tile, batch_index, row_tile, column_tile);
            const int tile_first_row = row_tile * tile_rows;
            const int tile_first_column = column_tile * tile_columns;
            const bool has_work = !is_left_out(tile_first_row, tile_first_column, batch_index);
            for (int step = thread == 0 && has_work ? 0 : steps; step < steps; ++step) {
                float16* const stage_tiles = ring + stage * stage_size;
                mbarrier_wait(&empty[stage], phase ^ 1);
                mbarrier_arrive_expect(&full[stage], stage_size * sizeof(float16));
                tma_load_3d(stage_tiles + left_start, left_map, &full[stage],
                            step * tile_depth, tile_first_row, 0);
                tma_load_3d(stage_tiles + left_low_start, left_low_map, &full[stage],
                            step * tile_depth, tile_first_row, 0);
                // The lines come in an order that makes the columns neighbours which a thread holds of the result.
                tma_load_5d(stage_tiles + right_start, right_map, &full[stage],
                            step * tile_depth, 0, 0, 0, tile_first_column / 16);
                // The lines come in an order that makes the columns neighbours which a thread holds of the result.
                tma_load_5d(stage_tiles + right_low_start, right_low_map, &full[stage],
                            step * tile_depth, 0, 0, 0, tile_first_column / 16);
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
            if (is_left_out(tile_first_row, tile_first_column, batch_index)) {
                if (thread % 32 < split_tile / flag_columns) {
                    matmul_flags[flag_position(rows, columns, batch_index, tile_first_row
                        + own_row, tile_first_column + thread % 32 * flag_columns)] = 1;
                }
                continue;
            }
            float accumulators[tile_columns / 2] = {};
            float sums[tile_columns / 2];
            float small[tile_columns / 2] = {};
            int previous = 0;
            for (int step = 0; step < steps; ++step) {
                const float16* const stage_tiles = ring + stage * stage_size;
                const int own_lines = (warpgroup - 1) * wgmma_m * tile_depth;
                mbarrier_wait(&full[stage], phase);
#pragma unroll 1  // else there would be registers for the sums of each turn, and too few
                for (int first = 0; first < tile_depth; first += 32) {
                    wgmma_fence(sums);
#pragma unroll
                    for (int depth = first; depth < first + 32; depth += wgmma_k<float16>) {
                        wgmma<float16, tile_columns>(sums, wgmma_descriptor(stage_tiles + left_start
                            + own_lines + depth),
                                                     wgmma_descriptor(stage_tiles + right_start
                                                         + depth), depth > first);
                    }
                    wgmma_commit();
#pragma unroll
                    for (int depth = first; depth < first + 32; depth += wgmma_k<float16>) {
                        wgmma<float16, tile_columns>(small, wgmma_descriptor(stage_tiles + left_start
                            + own_lines + depth),
                                                     wgmma_descriptor(stage_tiles + right_low_start
                                                         + depth), true);
                        wgmma<float16, tile_columns>(small, wgmma_descriptor(stage_tiles + left_low_start
                            + own_lines + depth),
                                                     wgmma_descriptor(stage_tiles + right_start
                                                         + depth), true);
                    }
                    wgmma_commit();
                    wgmma_wait<1>(sums);
                    if (thread == 0 && first == 0 && step > 0) {
                        mbarrier_arrive(&empty[previous]);  // all of the step before this one is done, too
                    }
#pragma unroll
                    for (int i = 0; i < tile_columns / 2; ++i) {
                        accumulators[i] += sums[i];
                    }
                }
                previous = stage;
                stage = stage + 1 == stages ? 0 : stage + 1;
                phase ^= stage == 0;
            }
            wgmma_wait<0>(small);
            if (thread == 0) {
                mbarrier_arrive(&empty[previous]);
            }
#pragma unroll
            for (int i = 0; i < tile_columns / 2; ++i) {
                accumulators[i] += small[i] * (1 / low_part_scale);
            }
            const LineScale* left_scales = reinterpret_cast<const LineScale*>(matmul_left_scales)
                + tile_first_row;
            const LineScale* right_scales = reinterpret_cast<const LineScale*>(matmul_right_scales)
                + tile_first_column;
            const int rows_here = static_cast<int>(rows - tile_first_row < tile_rows
                ? rows - tile_first_row : tile_rows);
            const int columns_here = static_cast<int>(columns - tile_first_column < tile_columns
                ? columns - tile_first_column : tile_columns);
            const float16* left_parts = matmul_left_parts + tile_first_row * 1024;
            const float16* right_parts = matmul_right_parts + tile_first_column * 1024;
            const LineScale row_scales[2] = {left_scales[own_row < rows_here ? own_row : 0],
                                             left_scales[own_row + 8 < rows_here ? own_row + 8 : 0]};
            // Seldom is a sum below what its lines may have lost, or not a number; then each gets a bit.
            bool is_any_below = false;
            std::uint64_t below = 0;
#pragma unroll
            for (int block = 0; block < tile_columns / 16; ++block) {
#pragma unroll
                for (int element = 0; element < vector; ++element) {
                    const int column = block * 16 + thread % 4 * vector + element;
                    const LineScale column_scale = right_scales[column];
#pragma unroll
                    for (int half = 0; half < 2; ++half) {
                        const int i = block * 8 + element / 2 * 4 + half * 2 + element % 2;
                        float& sum = accumulators[i];
                        is_any_below |= is_below_loss(sum, row_scales[half], column_scale);
                    }
                }
            }
            if (__any_sync(whole_warp, is_any_below)) {
#pragma unroll
                for (int block = 0; block < tile_columns / 16; ++block) {
#pragma unroll
                    for (int element = 0; element < vector; ++element) {
                        const int column = block * 16 + thread % 4 * vector + element;
                        const LineScale column_scale = right_scales[column];
#pragma unroll
                        for (int half = 0; half < 2; ++half) {
                            const int i = block * 8 + element / 2 * 4 + half * 2 + element % 2;
                            float& sum = accumulators[i];
                            const bool is_inside = own_row + half * 8 < rows_here && column < columns_here;
                            const bool is_below = is_inside && is_below_loss(sum, row_scales[half], column_scale);
                            below |= static_cast<std::uint64_t>(is_below) << i;
                        }
                    }
                }
            }
#pragma unroll
            for (int block = 0; block < tile_columns / 16; ++block) {
#pragma unroll
                for (int element = 0; element < vector; ++element) {
                    const int column = block * 16 + thread % 4 * vector + element;
                    const LineScale column_scale = right_scales[column];
#pragma unroll
                    for (int half = 0; half < 2; ++half) {
                        const int i = block * 8 + element / 2 * 4 + half * 2 + element % 2;
                        float& sum = accumulators[i];
                        sum = without_scale(sum, row_scales[half], column_scale);
                    }
                }
            }
            for (int first = 0; first < tile_columns; first += flag_columns) {
                bool is_lost = false;
                unsigned left_to_see = static_cast<unsigned>(below >> first / 2);
                for (int i = first / 2; left_to_see != 0 && !is_lost; ++i, left_to_see >>= 1) {
                    if (left_to_see & 1) {
                        const int64_t row = own_row + i / 2 % 2 * 8;
                        const int64_t column = i / 8 * 16 + thread % 4 * vector + i % 8 / 4 * 2 + i % 2;
                        is_lost = !outweighs_loss(left_scales[row], right_scales[column], left_parts
                            + row * 1024, right_parts + column * 1024);
                    }
                }
                const bool any_lost = __any_sync(whole_warp, is_lost);
                if (thread % 32 == 0) {
                    matmul_flags[flag_position(rows, columns, batch_index, tile_first_row
                        + own_row, tile_first_column + first)] = any_lost;
                }
            }
#pragma unroll
            for (int block = 0; block < tile_columns / 16; ++block) {
                const int64_t block_column = tile_first_column + block * 16 + thread % 4 * 4;
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    const int64_t product_row = tile_first_row + own_row + half * 8;
                    // Beyond the edges the first row's operands are read, and nothing is stored.
                    const bool is_active = product_row < rows;
                    const int64_t row = is_active ? product_row : 0;
                    const int64_t first_column = block_column;
                    Vector<float, vector> y_vector;
#pragma unroll
                    for (int element = 0; element < vector; ++element) {
                        const float gelu = fusegen::gelu_none(accumulators[block * 8 + element / 2 * 4
                            + half * 2 + element % 2]);
                        y_vector[element] = gelu;
                    }
                    store_vector_if(is_active, y + first_column + row * 4096
                        + batch * batch_index * 4096, y_vector);
                }
            }
        }
    }
#else
    __trap();  // the launcher takes this form on Hopper alone
#endif
}

// linear_gelu: linear, gelu.
// The product's elements are finished in registers and stored once; blocks share K where tiles are
// few, and a kernel adds their sums in order; float32 operands are first written as two float16
// parts each, of which the tensor cores make three products, as accurate as float32's and less
// work.
// This form computes the rows, and then what is left of the columns, whose operands have few elements
// that are not 0.
template <bool packed>
__global__ void __launch_bounds__(256) linear_gelu_few_kernel(
    const LineScale* __restrict__ left_scales,
    const LineScale* __restrict__ right_scales,
    const float* __restrict__ x,
    Strides<2> x_strides,
    const float* __restrict__ fc_weight,
    Strides<2> fc_weight_strides,
    float* __restrict__ y,
    int64_t batch) {
    wait_for_earlier_kernels();
    constexpr int threads = 256;
    const int64_t batches = 1;
    const int64_t rows = batch;
    const int64_t columns = 4096;
    const int64_t depths = 1024;
    FUSEGEN_SHARED(float, few_values, few_elements);
    FUSEGEN_SHARED(int64_t, few_places, few_elements);
    for (int64_t first = blockIdx.x; first < batches * rows; first += int64_t{gridDim.x} * threads) {
        const int64_t seen = first + int64_t{threadIdx.x} * gridDim.x;
        const auto has_few = [&](int64_t visited) {
            return left_scales[visited % rows].has_few_elements();
        };
        // Mostly there are none: the threads see to that for many lines at once.
        const bool any_few = __syncthreads_or(seen < batches * rows && has_few(seen));
        const int64_t round_end = any_few ? first + int64_t{gridDim.x} * threads : first;
        for (int64_t visited = first; visited < round_end && visited < batches * rows; visited += gridDim.x) {
            if (!has_few(visited)) {
                continue;
            }
            [[maybe_unused]] const int64_t batch_index = visited / rows;
            const int64_t row = visited % rows;
            const auto element = [&](int64_t depth) { return x[packed
                ? depth + row * 1024 : x_strides(row, depth)]; };
            const int count = find_few_elements<threads>(element, depths, few_values, few_places);
            for (int64_t column = threadIdx.x; column < columns; column += threads) {
                double exact_sum = 0.0;  // float32 sums one after the other err more than cuBLAS's
#pragma unroll 8
                for (int i = 0; i < count; ++i) {
                    const int64_t depth = few_places[i];
                    exact_sum += static_cast<double>(few_values[i]) * static_cast<double>(fc_weight[packed
                        ? column * 1024 + depth : fc_weight_strides(column, depth)]);
                }
                const float own_sum = static_cast<float>(exact_sum);
                const float gelu_2 = fusegen::gelu_none(own_sum);
                y[column + row * 4096 + batch * batch_index * 4096] = gelu_2;
            }
            __syncthreads();  // the next line's elements overwrite these
        }
    }
    for (int64_t first = blockIdx.x; first < batches * columns; first += int64_t{gridDim.x} * threads) {
        const int64_t seen = first + int64_t{threadIdx.x} * gridDim.x;
        const auto has_few = [&](int64_t visited) {
            return right_scales[visited % columns].has_few_elements();
        };
        // Mostly there are none: the threads see to that for many lines at once.
        const bool any_few = __syncthreads_or(seen < batches * columns && has_few(seen));
        const int64_t round_end = any_few ? first + int64_t{gridDim.x} * threads : first;
        for (int64_t visited = first; visited < round_end && visited < batches
            * columns; visited += gridDim.x) {
            if (!has_few(visited)) {
                continue;
            }
            [[maybe_unused]] const int64_t batch_index = visited / columns;
            const int64_t column = visited % columns;
            const auto element = [&](int64_t depth) { return fc_weight[packed
                ? column * 1024 + depth : fc_weight_strides(column, depth)]; };
            const int count = find_few_elements<threads>(element, depths, few_values, few_places);
            for (int64_t row = threadIdx.x; row < rows; row += threads) {
                if (left_scales[row].has_few_elements()) {
                    continue;
                }
                double exact_sum = 0.0;  // float32 sums one after the other err more than cuBLAS's
#pragma unroll 8
                for (int i = 0; i < count; ++i) {
                    const int64_t depth = few_places[i];
                    exact_sum += static_cast<double>(few_values[i]) * static_cast<double>(x[packed
                        ? depth + row * 1024 : x_strides(row, depth)]);
                }
                const float own_sum = static_cast<float>(exact_sum);
                const float gelu_2 = fusegen::gelu_none(own_sum);
                y[column + row * 4096 + batch * batch_index * 4096] = gelu_2;
            }
            __syncthreads();  // the next line's elements overwrite these
        }
    }
}

// linear_gelu: linear, gelu.
// The product's elements are finished in registers and stored once; blocks share K where tiles are
// few, and a kernel adds their sums in order; float32 operands are first written as two float16
// parts each, of which the tensor cores make three products, as accurate as float32's and less
// work.
// This form computes tiles again whose operands float16 parts cannot represent, from three bfloat16
// parts of each element (wide_split.cuh). It takes away their marks, unless they are beyond it, too.
__global__ void __launch_bounds__(wide_threads, 1) linear_gelu_wide_kernel(
    const float* __restrict__ left_matrices,
    int64_t left_stride,
    const float* __restrict__ right_matrices,
    int64_t right_stride,
    float* __restrict__ y,
    float* __restrict__ matmul_left_scales,
    float* __restrict__ matmul_right_scales,
    uint8_t* __restrict__ matmul_flags,
    int64_t batch) {
    wait_for_earlier_kernels();
#if FUSEGEN_HAS_WGMMA
    constexpr int vector = 4;
    constexpr int tile_rows = wide_rows;
    constexpr int tile_columns = wide_columns;
    const int64_t rows = batch;
    const int64_t columns = 4096;
    const int64_t depths = 1024;
    const TileOrder order{static_cast<int>((rows + tile_rows - 1) / tile_rows),
                          static_cast<int>((columns + tile_columns - 1) / tile_columns)};
    const int64_t tiles = 1 * order.rows * order.columns;
    FUSEGEN_SHARED(float, scales, wide_rows + wide_columns);
    FUSEGEN_TILE_SHARED(bfloat16, stages);
    const int warpgroup = threadIdx.x / 128;
    const int thread = threadIdx.x % 128;
    const int own_row = warpgroup * wgmma_m + thread / 32 * 16 + thread % 32 / 4;
    const auto is_marked = [&](int64_t tile) {
        int batch, row_tile, column_tile;
        order.find(static_cast<int>(tile), batch, row_tile, column_tile);
        return is_flagged(matmul_flags, rows, columns, batch, int64_t{row_tile}
            * tile_rows, tile_rows, int64_t{column_tile} * tile_columns, tile_columns);
    };
    // Mostly there is nothing to do: the threads see to that for many of the block's tiles at once.
    const int64_t round = int64_t{gridDim.x} * wide_threads;
    for (int64_t first = blockIdx.x; first < tiles; first += round) {
        const int64_t seen = first + int64_t{threadIdx.x} * gridDim.x;
        const int64_t end = __syncthreads_or(seen < tiles && is_marked(seen)) ? first + round : first;
        for (int64_t tile = first; tile < end && tile < tiles; tile += gridDim.x) {
            if (!is_marked(tile)) {
                continue;
            }
            int batch_of_tile, row_tile, column_tile;
            order.find(static_cast<int>(tile), batch_of_tile, row_tile, column_tile);
            [[maybe_unused]] const int64_t batch_index = batch_of_tile;
            const int64_t tile_first_row = int64_t{row_tile} * tile_rows;
            const int64_t tile_first_column = int64_t{column_tile} * tile_columns;
            const LineScale* left_scales = reinterpret_cast<const LineScale*>(matmul_left_scales)
                + tile_first_row;
            const LineScale* right_scales = reinterpret_cast<const LineScale*>(matmul_right_scales)
                + tile_first_column;
            const int rows_here = static_cast<int>(rows - tile_first_row < tile_rows
                ? rows - tile_first_row : tile_rows);
            const int columns_here = static_cast<int>(columns - tile_first_column < tile_columns
                ? columns - tile_first_column : tile_columns);
            if (threadIdx.x < wide_rows + wide_columns) {
                const int line = threadIdx.x < wide_rows ? threadIdx.x : threadIdx.x - wide_rows;
                const bool is_row = threadIdx.x < wide_rows;
                const bool is_there = line < (is_row ? rows_here : columns_here);
                scales[threadIdx.x] = is_there ? (is_row ? left_scales : right_scales)[line].scale() : 1.0f;
            }
            __syncthreads();
            float accumulators[tile_columns / 2] = {};
            wide_product<Neighbours::in_depth, Neighbours::in_depth, vector>(
                accumulators,
                WideOperand{left_matrices, left_stride, tile_first_row, rows},
                WideOperand{right_matrices, right_stride, tile_first_column, columns},
                depths, stages, scales);
            bool is_lost = false;
            const LineScale row_scales[2] = {left_scales[own_row < rows_here ? own_row : 0],
                                             left_scales[own_row + 8 < rows_here ? own_row + 8 : 0]};
#pragma unroll
            for (int block = 0; block < tile_columns / 16; ++block) {
#pragma unroll
                for (int element = 0; element < vector; ++element) {
                    const int column = block * 16 + thread % 4 * vector + element;
                    const LineScale column_scale = right_scales[column];
#pragma unroll
                    for (int half = 0; half < 2; ++half) {
                        const int i = block * 8 + element / 2 * 4 + half * 2 + element % 2;
                        float& sum = accumulators[i];
                        const bool is_inside = own_row + half * 8 < rows_here && column < columns_here;
                        is_lost |= is_inside && is_beyond_wide_parts(sum, row_scales[half], column_scale);
                        sum = without_scale(sum, row_scales[half], column_scale);
                    }
                }
            }
            const bool any_lost = __any_sync(whole_warp, is_lost);
            if (thread % 32 == 0) {
                matmul_flags[flag_position(rows, columns, batch_index, tile_first_row
                    + own_row, tile_first_column)] = any_lost;
            }
#pragma unroll
            for (int block = 0; block < tile_columns / 16; ++block) {
                const int64_t block_column = tile_first_column + block * 16 + thread % 4 * 4;
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    const int64_t product_row = tile_first_row + own_row + half * 8;
                    // Beyond the edges the first row's operands are read, and nothing is stored.
                    const bool is_active = product_row < rows;
                    const int64_t row = is_active ? product_row : 0;
                    const int64_t first_column = block_column;
                    Vector<float, vector> y_vector;
#pragma unroll
                    for (int element = 0; element < vector; ++element) {
                        const float gelu = fusegen::gelu_none(accumulators[block * 8 + element / 2 * 4
                            + half * 2 + element % 2]);
                        y_vector[element] = gelu;
                    }
                    store_vector_if(is_active, y + first_column + row * 4096
                        + batch * batch_index * 4096, y_vector);
                }
            }
        }
    }
#else
    __trap();  // the launcher takes this form on Hopper alone
#endif
}

FUSEGEN_EXPORT int launch_linear_gelu(
    const float* x,
    const int64_t* x_strides,
    const float* fc_weight,
    const int64_t* fc_weight_strides,
    float* y,
    float16* matmul_left_parts,
    float* matmul_left_scales,
    float16* matmul_right_parts,
    float* matmul_right_scales,
    uint8_t* matmul_flags,
    float* matmul_sums,
    int64_t batch,
    void* stream) {
    const int64_t rows = batch;
    const int64_t columns = 4096;
    const int64_t tiles = 1 * divide_up(rows, 64) * divide_up(columns, 64);
    if (tiles == 0) {
        return 0;
    }
    constexpr int threads = 128;
    constexpr std::size_t shared_bytes = 0;
    const bool packed = is_contiguous(x_strides, {batch, 1024}) &&
                        is_contiguous(fc_weight_strides, {4096, 1024});
    // The form for few rows takes operands that are read 16 bytes at a time.
    if (rows <= 16) {
        int64_t left_run[2];
        int64_t right_run[2];
        const int64_t depths = 1024;
        if (depths % 4 == 0 &&
            merge_dims(x_strides, {batch, 1024}, {1, 2}, left_run) &&
            left_run[1] == 1 &&
            is_aligned(x, 16) &&
            (left_run[0]) % 4 == 0 &&
            merge_dims(fc_weight_strides, {4096, 1024}, {1, 2}, right_run) &&
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
                           y, batch);
            return FUSEGEN_LAST_ERROR();
        }
    }

    dim3 grid = grid_of(tiles);
    const uint8_t* flags = nullptr;
    // The tensor cores' form takes any operands, as kernels of their own split them first.
    TensorMap left_map;
    TensorMap left_low_map;
    TensorMap right_map;
    TensorMap right_low_map;
    const int64_t depths = 1024;
    const int64_t tensor_tiles = 1 * divide_up(rows, 128) * divide_up(columns, 128);
    const int64_t parts = parts_of_depth(128, tensor_tiles, depths, 512);
    if (has_wgmma() && tensor_tiles <= TileOrder::limit && columns % 2 == 0 &&
        split_pays(1, batch, 4096, 1024) && is_aligned(y, 16) && is_aligned(matmul_left_parts, 8) &&
        is_aligned(matmul_left_scales, 16) && is_aligned(matmul_right_parts, 8) &&
        is_aligned(matmul_right_scales, 16) && is_aligned(matmul_flags, 4) &&
        encode_tensor_map<float16>(&left_map, TensorTiles<3>{
            matmul_left_parts, { depths, batch, 1 }, { 1024, 1024 },
            { 64, 128, 1 }, Swizzle::bytes_128}) == TensorMapError::none &&
        encode_tensor_map<float16>(&left_low_map, TensorTiles<3>{
            matmul_left_parts + (batch * 1024), { depths, batch, 1 }, { 1024, 1024 },
            { 64, 128, 1 }, Swizzle::bytes_128}) == TensorMapError::none &&
        encode_tensor_map<float16>(&right_map, TensorTiles<5>{
            matmul_right_parts, { depths, 2, 4, 2, 256 }, { 1024, 4096, 2048, 16384 },
            { 64, 2, 4, 2, 8 }, Swizzle::bytes_128}) == TensorMapError::none &&
        encode_tensor_map<float16>(&right_low_map, TensorTiles<5>{
            matmul_right_parts + 4194304, { depths, 2, 4, 2, 256 }, { 1024, 4096, 2048, 16384 },
            { 64, 2, 4, 2, 8 }, Swizzle::bytes_128}) == TensorMapError::none) {
        const int64_t processors = processor_count();
        constexpr std::size_t ring_bytes = 98304 * sizeof(float16);
        {
            const int64_t lines = rows;
            const dim3 blocks = grid_of(1 * lines);
            if (is_contiguous(x_strides, {batch, 1024})) {
                FUSEGEN_LAUNCH((linear_gelu_split_left_kernel<true>), blocks, dim3(split_line_threads), 0, stream,
                               x, Strides<2>(x_strides), matmul_left_parts, matmul_left_scales, batch);
            } else {
                FUSEGEN_LAUNCH((linear_gelu_split_left_kernel<false>), blocks, dim3(split_line_threads), 0, stream,
                               x, Strides<2>(x_strides), matmul_left_parts, matmul_left_scales, batch);
            }
        }
        {
            const int64_t lines = columns;
            const dim3 blocks = grid_of(1 * lines);
            if (is_contiguous(fc_weight_strides, {4096, 1024})) {
                FUSEGEN_LAUNCH((linear_gelu_split_right_kernel<true>), blocks, dim3(split_line_threads), 0, stream,
                               fc_weight, Strides<2>(fc_weight_strides), matmul_right_parts, matmul_right_scales);
            } else {
                FUSEGEN_LAUNCH((linear_gelu_split_right_kernel<false>), blocks, dim3(split_line_threads), 0, stream,
                               fc_weight, Strides<2>(fc_weight_strides), matmul_right_parts, matmul_right_scales);
            }
        }

        if (parts > 1) {
            FUSEGEN_LAUNCH(linear_gelu_shared_tensor_kernel, grid_of(parts
                * tensor_tiles), dim3(384), ring_bytes, stream,
                           left_map, left_low_map, right_map, right_low_map, static_cast<int>(parts),
                                       matmul_sums, batch);
            FUSEGEN_LAUNCH(linear_gelu_sums_kernel, grid_of(1 * divide_up(rows, split_tile)
                * divide_up(columns, split_tile) * (split_tile / flag_rows)
                * (split_tile / flag_columns)), dim3(flag_rows * flag_columns), 0, stream,
                           parts, matmul_sums, y, matmul_left_parts, matmul_left_scales, matmul_right_parts,
                                       matmul_right_scales, matmul_flags, batch);
        } else {
            FUSEGEN_LAUNCH(linear_gelu_tensor_kernel, grid_of(tensor_tiles < processors
                ? tensor_tiles : processors), dim3(384), ring_bytes, stream,
                           left_map, left_low_map, right_map, right_low_map, y, matmul_left_parts, matmul_left_scales,
                           matmul_right_parts, matmul_right_scales, matmul_flags, batch);
        }
        {
            const int64_t lines = 1 * (rows > columns ? rows : columns);
            const dim3 blocks = grid_of(lines < 8 * processors ? lines : 8 * processors);
            const LineScale* const left_scales = reinterpret_cast<const LineScale*>(matmul_left_scales);
            const LineScale* const right_scales = reinterpret_cast<const LineScale*>(matmul_right_scales);
            if (packed) {
                FUSEGEN_LAUNCH((linear_gelu_few_kernel<true>), blocks, dim3(256), 0, stream,
                               left_scales, right_scales, x, Strides<2>(x_strides), fc_weight,
                               Strides<2>(fc_weight_strides), y, batch);
            } else {
                FUSEGEN_LAUNCH((linear_gelu_few_kernel<false>), blocks, dim3(256), 0, stream,
                               left_scales, right_scales, x, Strides<2>(x_strides), fc_weight,
                               Strides<2>(fc_weight_strides), y, batch);
            }
        }
        int64_t left_run[2];
        int64_t right_run[2];
        const int64_t wide_tiles = 1 * divide_up(rows, wide_rows) * divide_up(columns, wide_columns);
        if (wide_tiles <= TileOrder::limit &&
            depths % 4 == 0 && merge_dims(x_strides, {batch, 1024}, {1, 2}, left_run) && left_run[1] == 1 &&
            is_aligned(x, 16) && (left_run[0]) % 4 == 0 &&
            merge_dims(fc_weight_strides, {4096, 1024}, {1, 2}, right_run) && right_run[1] == 1 &&
            is_aligned(fc_weight, 16) && (right_run[0]) % 4 == 0) {
            // An odd number of blocks: the tiles of one row, every few, are then not the same blocks'.
            FUSEGEN_LAUNCH(linear_gelu_wide_kernel, grid_of(wide_tiles < processors
                ? wide_tiles : odd(processors)), dim3(wide_threads), wide_shared_bytes, stream,
                           x, left_run[0],
                           fc_weight, right_run[0],
                           y, matmul_left_scales, matmul_right_scales, matmul_flags, batch);
        }
        // The shared-memory tile is left with what is still marked.
        flags = matmul_flags;
        grid = grid_of(tiles < 4 * processors ? tiles : odd(4 * processors));
    }

    if (packed) {
        FUSEGEN_LAUNCH((linear_gelu_kernel<true>),
                       grid, dim3(threads), shared_bytes, stream,
                       flags, x, Strides<2>(x_strides), fc_weight, Strides<2>(fc_weight_strides), y, batch);
    } else {
        FUSEGEN_LAUNCH((linear_gelu_kernel<false>),
                       grid, dim3(threads), shared_bytes, stream,
                       flags, x, Strides<2>(x_strides), fc_weight, Strides<2>(fc_weight_strides), y, batch);
    }
    return FUSEGEN_LAST_ERROR();
}
}  // namespace fusegen
