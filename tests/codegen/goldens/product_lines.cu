// WeightGradient.
#include "fusegen/cluster.cuh"
#include "fusegen/device.cuh"
#include "fusegen/dtypes.cuh"
#include "fusegen/hopper.cuh"
#include "fusegen/launch.cuh"
#include "fusegen/math.cuh"
#include "fusegen/mma_product.cuh"
#include "fusegen/reduce.cuh"
#include "fusegen/shared_tile.cuh"
#include "fusegen/stepped_division.cuh"
#include "fusegen/tile_order.cuh"
#include "fusegen/tile_waves.cuh"
#include "fusegen/wgmma_exchange.cuh"

namespace fusegen {
// matmul: matmul.
// The product's elements are finished in registers and stored once; blocks share K where tiles are
// few, and a kernel adds their sums in order.
template <bool packed>
__global__ void __launch_bounds__(128) matmul_kernel(
    const float16* __restrict__ dy,
    Strides<2> dy_strides,
    const float16* __restrict__ x,
    Strides<2> x_strides,
    float16* __restrict__ y,
    int64_t batch) {
    wait_for_earlier_kernels();
    constexpr int threads = 128;
    const int64_t batches = 1;
    const int64_t rows = 256;
    const int64_t columns = 256;
    const int64_t depths = batch;
    using Tile = SharedTile<float, 64, 64, 16, 8, 4, Neighbours::in_columns, Neighbours::in_columns>;
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
            return &dy[packed ? depth * 256 + row : dy_strides(depth, row)];
        };
        const auto right_source = [&]([[maybe_unused]] int64_t column, [[maybe_unused]] int64_t depth) {
            return &x[packed ? column + depth * 256 : x_strides(depth, column)];
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
                    y[batch_index * 65536 + column + row * 256] = convert<float16>(accumulators[i][j]);
                }
            }
        }
    }
}

// matmul: matmul.
// The product's elements are finished in registers and stored once; blocks share K where tiles are
// few, and a kernel adds their sums in order.
// This kernel adds the sums of the parts of K, in their order, where several blocks have shared it.
__global__ void __launch_bounds__(128) matmul_sums_kernel(
    int64_t parts,
    const float* __restrict__ sums,
    float16* __restrict__ y) {
    wait_for_earlier_kernels();
    const int64_t batches = 1;
    const int64_t rows = 256;
    const int64_t columns = 256;
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
        y[batch_index * 65536 + column + row * 256] = convert<float16>(own_sum);
    }
}

// matmul: matmul.
// The product's elements are finished in registers and stored once; blocks share K where tiles are
// few, and a kernel adds their sums in order.
// This form runs on Hopper's tensor cores: one warpgroup copies tiles of the operands into a ring of
// stages, two others multiply them, each for half of the rows.
__global__ void __launch_bounds__(384, 1) matmul_64_by_4_tensor_kernel(
    const __grid_constant__ TensorMap left_map,
    const __grid_constant__ TensorMap right_map,
    float16* __restrict__ y,
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
    constexpr int chunk_lines = 64;
    constexpr int stage_size = 12288;  // elements
    const int64_t rows = 256;
    const int64_t columns = 256;
    const int64_t depths = batch;
    const TileOrder order{static_cast<int>((rows + tile_rows - 1) / tile_rows),
                          static_cast<int>((columns + tile_columns - 1) / tile_columns)};
    const int tiles = static_cast<int>(1 * order.rows * order.columns);
    // The blocks of a cluster make a tile together, each of them a part of the steps along K.
    constexpr int parts = 4;
    const int part = static_cast<int>(cluster_rank());
    const int all_steps = static_cast<int>((depths + tile_depth - 1) / tile_depth);
    const int first_step = all_steps * part / parts;
    const int steps = all_steps * (part + 1) / parts - first_step;
    // Every thread of the cluster meets the others twice: when all are done with their stages, and
    // when the sums have come.
    const auto meet = [] { cluster_sync(); };
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
        prefetch_tensor_map(right_map);
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
#pragma unroll
                for (int chunk = 0; chunk < 128; chunk += chunk_lines) {
                    tma_load_3d(stage_tiles + left_start + chunk * tile_depth, left_map, &full[stage],
                                tile_first_row + chunk, step * tile_depth, 0);
                }
#pragma unroll
                for (int chunk = 0; chunk < 64; chunk += chunk_lines) {
                    tma_load_3d(stage_tiles + right_start + chunk * tile_depth, right_map, &full[stage],
                                tile_first_column + chunk, step * tile_depth, 0);
                }
                stage = stage + 1 == stages ? 0 : stage + 1;
                phase ^= stage == 0;
            }
        }
        meet();
        meet();
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
            int previous = 0;
            int step = 0;
#pragma unroll 1
            do {
                const float16* const stage_tiles = ring + stage * stage_size;
                const float16* const left_tile = stage_tiles + left_start
                    + (warpgroup - 1) * wgmma_m * tile_depth;
                const float16* const right_tile = stage_tiles + right_start;
                mbarrier_wait(&full[stage], phase);
                wgmma_fence();
#pragma unroll
                for (int depth = 0; depth < tile_depth; depth += wgmma_k<float16>) {
                    wgmma<float16, tile_columns, Major::mn, Major::mn>(
                        accumulators, wgmma_descriptor_mn_major(left_tile
                            + depth * chunk_lines, chunk_lines * tile_depth * sizeof(float16)),
                        wgmma_descriptor_mn_major(right_tile
                            + depth * chunk_lines, chunk_lines * tile_depth * sizeof(float16)), true);
                }
                wgmma_commit();
                wgmma_wait<1>();  // the step before this one is done with its stage
                if (thread == 0 && step > 0) {
                    mbarrier_arrive(&empty[previous]);
                }
                previous = stage;
                stage = stage + 1 == stages ? 0 : stage + 1;
                phase ^= stage == 0;
            } while (++step < steps);
            wgmma_wait<0>(accumulators);
            if (thread == 0) {
                mbarrier_arrive(&empty[previous]);
            }
            float* const sums_of_parts = reinterpret_cast<float*>(ring);
            constexpr int part_size = tile_rows * tile_columns;
            const int own_sums = threadIdx.x - 128;
            meet();
            if (part > 0) {
                float* const sums = cluster_shared(sums_of_parts, 0) + (part - 1) * part_size + own_sums;
#pragma unroll
                for (int i = 0; i < tile_columns / 2; ++i) {
                    sums[i * 256] = accumulators[i];
                }
            }
            meet();
            if (part > 0) {
                break;
            }
#pragma unroll 1
            for (int other = 0; other < parts - 1; ++other) {
#pragma unroll
                for (int i = 0; i < tile_columns / 2; ++i) {
                    accumulators[i] += sums_of_parts[other * part_size + i * 256 + own_sums];
                }
            }
#pragma unroll
            for (int block = 0; block < tile_columns / 32; ++block) {
                const int64_t block_column = tile_first_column + block * 32 + thread % 4 * 8;
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    const int64_t product_row = tile_first_row + own_row + half * 8;
                    // Beyond the edges the first row's operands are read, and nothing is stored.
                    const bool is_active = product_row < rows;
                    const int64_t row = is_active ? product_row : 0;
                    const int64_t first_column = block_column;
                    Vector<float16, vector> y_vector;
#pragma unroll
                    for (int element = 0; element < vector; ++element) {
                        y_vector[element] = convert<float16>(accumulators[block * 16 + element / 2 * 4
                            + half * 2 + element % 2]);
                    }
                    store_vector_if(is_active, y + batch_index * 65536 + first_column
                        + row * 256, exchange_columns(y_vector));
                }
            }
        }
    }
#else
    __trap();  // the launcher takes this form on Hopper alone
#endif
}

// matmul: matmul.
// The product's elements are finished in registers and stored once; blocks share K where tiles are
// few, and a kernel adds their sums in order.
// This form runs on Hopper's tensor cores: one warpgroup copies tiles of the operands into a ring of
// stages, two others multiply them, each for half of the rows.
// Tiles are few: several blocks share the K of each, and leave the sums of their parts.
__global__ void __launch_bounds__(384, 1) matmul_128_shared_tensor_kernel(
    const __grid_constant__ TensorMap left_map,
    const __grid_constant__ TensorMap right_map,
    int parts,  // of K, each for a block
    float* __restrict__ y_sums,
    int64_t batch) {
    wait_for_earlier_kernels();
#if FUSEGEN_HAS_WGMMA
    constexpr int vector = 2;
    constexpr int stages = 6;
    constexpr int tile_rows = 128;
    constexpr int tile_columns = 128;
    constexpr int tile_depth = 64;
    constexpr int left_start = 0;
    constexpr int right_start = 8192;
    constexpr int chunk_lines = 64;
    constexpr int stage_size = 16384;  // elements
    const int64_t rows = 256;
    const int64_t columns = 256;
    const int64_t depths = batch;
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
        prefetch_tensor_map(right_map);
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
#pragma unroll
                for (int chunk = 0; chunk < 128; chunk += chunk_lines) {
                    tma_load_3d(stage_tiles + left_start + chunk * tile_depth, left_map, &full[stage],
                                tile_first_row + chunk, step * tile_depth, 0);
                }
#pragma unroll
                for (int chunk = 0; chunk < 128; chunk += chunk_lines) {
                    tma_load_3d(stage_tiles + right_start + chunk * tile_depth, right_map, &full[stage],
                                tile_first_column + chunk, step * tile_depth, 0);
                }
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
            int previous = 0;
            int step = 0;
#pragma unroll 1
            do {
                const float16* const stage_tiles = ring + stage * stage_size;
                const float16* const left_tile = stage_tiles + left_start
                    + (warpgroup - 1) * wgmma_m * tile_depth;
                const float16* const right_tile = stage_tiles + right_start;
                mbarrier_wait(&full[stage], phase);
                wgmma_fence();
#pragma unroll
                for (int depth = 0; depth < tile_depth; depth += wgmma_k<float16>) {
                    wgmma<float16, tile_columns, Major::mn, Major::mn>(
                        accumulators, wgmma_descriptor_mn_major(left_tile
                            + depth * chunk_lines, chunk_lines * tile_depth * sizeof(float16)),
                        wgmma_descriptor_mn_major(right_tile
                            + depth * chunk_lines, chunk_lines * tile_depth * sizeof(float16)), true);
                }
                wgmma_commit();
                wgmma_wait<1>();  // the step before this one is done with its stage
                if (thread == 0 && step > 0) {
                    mbarrier_arrive(&empty[previous]);
                }
                previous = stage;
                stage = stage + 1 == stages ? 0 : stage + 1;
                phase ^= stage == 0;
            } while (++step < steps);
            wgmma_wait<0>(accumulators);
            if (thread == 0) {
                mbarrier_arrive(&empty[previous]);
            }
#pragma unroll
            for (int block = 0; block < tile_columns / 8; ++block) {
                const int64_t block_column = tile_first_column + block * 8 + thread % 4 * 2;
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    const int64_t product_row = tile_first_row + own_row + half * 8;
                    // Beyond the edges the first row's operands are read, and nothing is stored.
                    const bool is_active = product_row < rows;
                    const int64_t row = is_active ? product_row : 0;
                    const int64_t first_column = block_column;
                    Vector<float, vector> y_sums_vector;
#pragma unroll
                    for (int element = 0; element < vector; ++element) {
                        y_sums_vector[element] = accumulators[block * 4 + half * 2 + element];
                    }
                    store_vector_if(is_active, y_sums + batch_index * 65536 + first_column + part * 65536
                        + row * 256, y_sums_vector);
                }
            }
        }
    }
#else
    __trap();  // the launcher takes this form on Hopper alone
#endif
}

// matmul: matmul.
// The product's elements are finished in registers and stored once; blocks share K where tiles are
// few, and a kernel adds their sums in order.
// This form runs on Hopper's tensor cores: one warpgroup copies tiles of the operands into a ring of
// stages, two others multiply them, each for half of the rows.
__global__ void __launch_bounds__(384, 1) matmul_64_tensor_kernel(
    const __grid_constant__ TensorMap left_map,
    const __grid_constant__ TensorMap right_map,
    float16* __restrict__ y,
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
    constexpr int chunk_lines = 64;
    constexpr int stage_size = 12288;  // elements
    const int64_t rows = 256;
    const int64_t columns = 256;
    const int64_t depths = batch;
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
        prefetch_tensor_map(right_map);
    }
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
            for (int step = 0; step < steps; ++step) {
                float16* const stage_tiles = ring + stage * stage_size;
                mbarrier_wait(&empty[stage], phase ^ 1);
                mbarrier_arrive_expect(&full[stage], stage_size * sizeof(float16));
#pragma unroll
                for (int chunk = 0; chunk < 128; chunk += chunk_lines) {
                    tma_load_3d(stage_tiles + left_start + chunk * tile_depth, left_map, &full[stage],
                                tile_first_row + chunk, step * tile_depth, 0);
                }
#pragma unroll
                for (int chunk = 0; chunk < 64; chunk += chunk_lines) {
                    tma_load_3d(stage_tiles + right_start + chunk * tile_depth, right_map, &full[stage],
                                tile_first_column + chunk, step * tile_depth, 0);
                }
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
            float accumulators[tile_columns / 2] = {};
            int previous = 0;
            int step = 0;
#pragma unroll 1
            do {
                const float16* const stage_tiles = ring + stage * stage_size;
                const float16* const left_tile = stage_tiles + left_start
                    + (warpgroup - 1) * wgmma_m * tile_depth;
                const float16* const right_tile = stage_tiles + right_start;
                mbarrier_wait(&full[stage], phase);
                wgmma_fence();
#pragma unroll
                for (int depth = 0; depth < tile_depth; depth += wgmma_k<float16>) {
                    wgmma<float16, tile_columns, Major::mn, Major::mn>(
                        accumulators, wgmma_descriptor_mn_major(left_tile
                            + depth * chunk_lines, chunk_lines * tile_depth * sizeof(float16)),
                        wgmma_descriptor_mn_major(right_tile
                            + depth * chunk_lines, chunk_lines * tile_depth * sizeof(float16)), true);
                }
                wgmma_commit();
                wgmma_wait<1>();  // the step before this one is done with its stage
                if (thread == 0 && step > 0) {
                    mbarrier_arrive(&empty[previous]);
                }
                previous = stage;
                stage = stage + 1 == stages ? 0 : stage + 1;
                phase ^= stage == 0;
            } while (++step < steps);
            wgmma_wait<0>(accumulators);
            if (thread == 0) {
                mbarrier_arrive(&empty[previous]);
            }
#pragma unroll
            for (int block = 0; block < tile_columns / 32; ++block) {
                const int64_t block_column = tile_first_column + block * 32 + thread % 4 * 8;
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    const int64_t product_row = tile_first_row + own_row + half * 8;
                    // Beyond the edges the first row's operands are read, and nothing is stored.
                    const bool is_active = product_row < rows;
                    const int64_t row = is_active ? product_row : 0;
                    const int64_t first_column = block_column;
                    Vector<float16, vector> y_vector;
#pragma unroll
                    for (int element = 0; element < vector; ++element) {
                        y_vector[element] = convert<float16>(accumulators[block * 16 + element / 2 * 4
                            + half * 2 + element % 2]);
                    }
                    store_vector_if(is_active, y + batch_index * 65536 + first_column
                        + row * 256, exchange_columns(y_vector));
                }
            }
        }
    }
#else
    __trap();  // the launcher takes this form on Hopper alone
#endif
}

// matmul: matmul.
// The product's elements are finished in registers and stored once; blocks share K where tiles are
// few, and a kernel adds their sums in order.
// This form is for the tensor cores of devices that have no warpgroup products.
__global__ void __launch_bounds__(256) matmul_mma_kernel(
    const float16* __restrict__ left_matrices,
    int64_t left_stride,
    const float16* __restrict__ right_matrices,
    int64_t right_stride,
    float16* __restrict__ y,
    int64_t batch) {
    wait_for_earlier_kernels();
#if FUSEGEN_NEEDS_MMA
    constexpr int threads = 256;
    constexpr int tile_rows = 128;
    constexpr int tile_columns = 64;
    const int64_t rows = 256;
    const int64_t columns = 256;
    const int64_t depths = batch;
    const int64_t row_tiles = (rows + tile_rows - 1) / tile_rows;
    const int64_t column_tiles = (columns + tile_columns - 1) / tile_columns;
    const int64_t tiles = 1 * row_tiles * column_tiles;
    FUSEGEN_DYNAMIC_SHARED(unsigned char, shared);
    float* const tile = reinterpret_cast<float*>(shared);
    float16* const ring = reinterpret_cast<float16*>(shared + 33280);
    // Neighbouring blocks share the right operand's columns, which then stay in the L2 cache.
    for (int64_t block = blockIdx.x; block < tiles; block += gridDim.x) {
        const int64_t tile_first_row = block % row_tiles * tile_rows;
        const int64_t column_tile = block / row_tiles % column_tiles;
        const int64_t tile_first_column = column_tile * tile_columns;
        [[maybe_unused]] const int64_t batch_index = block / row_tiles / column_tiles;
        mma_product<tile_rows, tile_columns, 32, 3, Neighbours::in_columns, Neighbours::in_columns>(
            MmaOperand<float16>{left_matrices, left_stride, tile_first_row, rows},
            MmaOperand<float16>{right_matrices, right_stride, tile_first_column, columns},
            depths, ring, tile, 65);
        for (int i = threadIdx.x; i < tile_rows * tile_columns; i += threads) {
            const int tile_row = i / tile_columns;
            const int tile_column = i % tile_columns;
            const int64_t row = tile_first_row + tile_row;
            const int64_t column = tile_first_column + tile_column;
            if (row < rows && column < columns) {
                y[batch_index * 65536 + column + row * 256] = convert<float16>(tile[tile_row * 65
                    + tile_column]);
            }
        }
        __syncthreads();  // the next tile overwrites this one
    }
#else
    __trap();  // the launcher takes another form where there are warpgroup products
#endif
}

FUSEGEN_EXPORT int launch_matmul(
    const float16* dy,
    const int64_t* dy_strides,
    const float16* x,
    const int64_t* x_strides,
    float16* y,
    float* y_sums,
    int64_t batch,
    void* stream) {
    const int64_t rows = 256;
    const int64_t columns = 256;
    const int64_t tiles = 1 * divide_up(rows, 64) * divide_up(columns, 64);
    if (tiles == 0) {
        return 0;
    }
    constexpr int threads = 128;
    constexpr std::size_t shared_bytes = 0;
    const bool packed = is_contiguous(dy_strides, {batch, 256}) && is_contiguous(x_strides, {batch, 256});
    const dim3 grid = grid_of(tiles);
    // Of the kinds of tiles the one whose waves, a block for each multiprocessor, end first.
    constexpr TileWave tile_waves[] = {
        {64, 1, 500, 3.6, 0, 0},
        {64, 4, 3500, 1.2, 2048, 0},
        {128, 1, 9300, 5.4, 512, 128},
    };
    const int64_t row_tiles = 1 * divide_up(rows, 128);
    const int form = quickest_tile(tile_waves, row_tiles, columns, batch, processor_count());
    if (form == 1) {  // 64 columns, K in 4 parts
        // The tensor cores' form takes operands with neighbours in the planned direction, whose other
        // strides are multiples of 16 bytes.
        TensorMap left_map;
        int64_t left_run[2];
        TensorMap right_map;
        int64_t right_run[2];
        const int64_t depths = batch;
        const int64_t tensor_tiles = 1 * divide_up(rows, 128) * divide_up(columns, 64);
        if (has_wgmma() && tensor_tiles <= TileOrder::limit / 4 && columns % 2 == 0 && depths >= 2048 &&
            is_aligned(dy, 16) && is_aligned(x, 16) && is_aligned(y, 16) &&
            merge_dims(dy_strides, {batch, 256}, {1, 2}, left_run) &&
            left_run[1] == 1 &&
            encode_tensor_map<float16>(&left_map, TensorTiles<3>{
                dy, { 256, depths, 1 }, { left_run[0], left_run[0] },
                { 64, 64, 1 }, Swizzle::bytes_128}) == TensorMapError::none &&
            merge_dims(x_strides, {batch, 256}, {1, 2}, right_run) &&
            right_run[1] == 1 &&
            encode_tensor_map<float16>(&right_map, TensorTiles<3>{
                x, { 256, depths, 1 }, { right_run[0], right_run[0] },
                { 64, 64, 1 }, Swizzle::bytes_128}) == TensorMapError::none) {
            constexpr std::size_t ring_bytes = 98304 * sizeof(float16);
            // As many clusters as tiles: none works on two.
            FUSEGEN_LAUNCH_CLUSTERS(matmul_64_by_4_tensor_kernel, grid_of(tensor_tiles, 4), dim3(384), 4,
                                    ring_bytes, stream,
                                    left_map, right_map, y, batch);
            return FUSEGEN_LAST_ERROR();
        }
    }
    if (form == 2) {  // 128 columns, K shared through memory
        // The tensor cores' form takes operands with neighbours in the planned direction, whose other
        // strides are multiples of 16 bytes.
        TensorMap left_map;
        int64_t left_run[2];
        TensorMap right_map;
        int64_t right_run[2];
        const int64_t depths = batch;
        const int64_t tensor_tiles = 1 * divide_up(rows, 128) * divide_up(columns, 128);
        const int64_t parts = parts_of_depth(128, tensor_tiles, depths, 512);
        if (has_wgmma() && parts > 1 && tensor_tiles <= TileOrder::limit && columns % 2 == 0 &&
            is_aligned(dy, 4) && is_aligned(x, 4) && is_aligned(y_sums, 8) &&
            merge_dims(dy_strides, {batch, 256}, {1, 2}, left_run) &&
            left_run[1] == 1 &&
            encode_tensor_map<float16>(&left_map, TensorTiles<3>{
                dy, { 256, depths, 1 }, { left_run[0], left_run[0] },
                { 64, 64, 1 }, Swizzle::bytes_128}) == TensorMapError::none &&
            merge_dims(x_strides, {batch, 256}, {1, 2}, right_run) &&
            right_run[1] == 1 &&
            encode_tensor_map<float16>(&right_map, TensorTiles<3>{
                x, { 256, depths, 1 }, { right_run[0], right_run[0] },
                { 64, 64, 1 }, Swizzle::bytes_128}) == TensorMapError::none) {
            constexpr std::size_t ring_bytes = 98304 * sizeof(float16);
            FUSEGEN_LAUNCH(matmul_128_shared_tensor_kernel, grid_of(parts
                * tensor_tiles), dim3(384), ring_bytes, stream,
                           left_map, right_map, static_cast<int>(parts), y_sums, batch);
            FUSEGEN_LAUNCH(matmul_sums_kernel, grid_of(divide_up(1 * rows
                * columns, 128)), dim3(128), 0, stream,
                           parts, y_sums, y);
            return FUSEGEN_LAST_ERROR();
        }
    }
    // The tensor cores' form takes operands with neighbours in the planned direction, whose other
    // strides are multiples of 16 bytes.
    TensorMap left_map;
    int64_t left_run[2];
    TensorMap right_map;
    int64_t right_run[2];
    const int64_t depths = batch;
    const int64_t tensor_tiles = 1 * divide_up(rows, 128) * divide_up(columns, 64);
    if (has_wgmma() && tensor_tiles <= TileOrder::limit && columns % 2 == 0 &&
        is_aligned(dy, 16) && is_aligned(x, 16) && is_aligned(y, 16) &&
        merge_dims(dy_strides, {batch, 256}, {1, 2}, left_run) &&
        left_run[1] == 1 &&
        encode_tensor_map<float16>(&left_map, TensorTiles<3>{
            dy, { 256, depths, 1 }, { left_run[0], left_run[0] },
            { 64, 64, 1 }, Swizzle::bytes_128}) == TensorMapError::none &&
        merge_dims(x_strides, {batch, 256}, {1, 2}, right_run) &&
        right_run[1] == 1 &&
        encode_tensor_map<float16>(&right_map, TensorTiles<3>{
            x, { 256, depths, 1 }, { right_run[0], right_run[0] },
            { 64, 64, 1 }, Swizzle::bytes_128}) == TensorMapError::none) {
        const int64_t processors = processor_count();
        constexpr std::size_t ring_bytes = 98304 * sizeof(float16);
        FUSEGEN_LAUNCH(matmul_64_tensor_kernel, grid_of(tensor_tiles < processors
            ? tensor_tiles : processors), dim3(384), ring_bytes, stream,
                       left_map, right_map, y, batch);
        return FUSEGEN_LAST_ERROR();
    }

    // The form for other tensor cores takes operands that are read 16 bytes at a time.
    if (has_mma() && !has_wgmma()) {
        int64_t left_run[2];
        int64_t right_run[2];
        if (merge_dims(dy_strides, {batch, 256}, {1, 2}, left_run) &&
            left_run[1] == 1 &&
            is_aligned(dy, 16) &&
            (left_run[0]) % 8 == 0 &&
            merge_dims(x_strides, {batch, 256}, {1, 2}, right_run) &&
            right_run[1] == 1 &&
            is_aligned(x, 16) &&
            (right_run[0]) % 8 == 0) {
            const int64_t mma_tiles = 1 * divide_up(rows, 128) * divide_up(columns, 64);
            FUSEGEN_LAUNCH(matmul_mma_kernel, grid_of(mma_tiles), dim3(256), 73216, stream,
                           dy, left_run[0],
                           x, right_run[0],
                           y, batch);
            return FUSEGEN_LAST_ERROR();
        }
    }

    if (packed) {
        FUSEGEN_LAUNCH((matmul_kernel<true>),
                       grid, dim3(threads), shared_bytes, stream,
                       dy, Strides<2>(dy_strides), x, Strides<2>(x_strides), y, batch);
    } else {
        FUSEGEN_LAUNCH((matmul_kernel<false>),
                       grid, dim3(threads), shared_bytes, stream,
                       dy, Strides<2>(dy_strides), x, Strides<2>(x_strides), y, batch);
    }
    return FUSEGEN_LAST_ERROR();
}
}  // namespace fusegen
