// ProductPlaces.
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
#include "fusegen/wgmma_exchange.cuh"

namespace fusegen {
// matmul_relu: matmul, relu.
// The product's elements are finished in registers and stored once, each at its place in a result
// whose dims have another order.
template <bool packed>
__global__ void __launch_bounds__(128) matmul_relu_kernel(
    const bfloat16* __restrict__ p,
    Strides<4> p_strides,
    const bfloat16* __restrict__ v,
    Strides<4> v_strides,
    bfloat16* __restrict__ y,
    int64_t batch,
    int64_t heads,
    int64_t time) {
    wait_for_earlier_kernels();
    constexpr int threads = 128;
    const int64_t batches = batch * heads;
    const int64_t rows = time;
    const int64_t columns = 32;
    const int64_t depths = 64;
    using Tile = SharedTile<float, 64, 64, 16, 8, 4, Neighbours::in_depth, Neighbours::in_columns>;
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
            return &p[packed
                ? depth + row * 64 + batch_index * time * 64
                : p_strides(batch_index / heads, batch_index % heads, row, depth)];
        };
        const auto right_source = [&]([[maybe_unused]] int64_t column, [[maybe_unused]] int64_t depth) {
            return &v[packed
                ? batch_index * 2048 + column + depth * 32
                : v_strides(batch_index / heads, batch_index % heads, depth, column)];
        };
        Tile::Sums accumulators = {};
        Tile::multiply(left_source, tile_first_row, rows, right_source, tile_first_column, columns,
                       0, depths, operand_tiles, accumulators);
        const int64_t batch_place_0 = batch_index % heads;
        const int64_t batch_place_1 = batch_index / heads;
#pragma unroll
        for (int i = 0; i < 8; ++i) {
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                const int64_t row = tile_first_row + Tile::row(i);
                const int64_t column = tile_first_column + Tile::column(j);
                if (row < rows && column < columns) {
                    const float relu = fusegen::relu(accumulators[i][j]);
                    y[batch_place_0 * 32 + column + heads * row * 32
                        + batch_place_1 * heads * time * 32] = convert<bfloat16>(relu);
                }
            }
        }
    }
}

// matmul_relu: matmul, relu.
// The product's elements are finished in registers and stored once, each at its place in a result
// whose dims have another order.
// This form is for products of few rows, at most `tile_rows`: a block reads its columns of the right
// operand once and keeps the sums of all rows.
template <int tile_rows>
__global__ void __launch_bounds__(256) matmul_relu_skinny_kernel(
    const bfloat16* __restrict__ left_matrices,
    int64_t left_stride,
    int64_t left_batch_stride_0,
    int64_t left_batch_stride_1,
    const bfloat16* __restrict__ right_matrices,
    int64_t right_stride,
    int64_t right_batch_stride_0,
    int64_t right_batch_stride_1,
    bfloat16* __restrict__ y,
    int64_t batch,
    int64_t heads,
    int64_t time) {
    wait_for_earlier_kernels();
    constexpr int threads = 256;
    constexpr int tile_columns = 32;
    const int64_t rows = time;
    const int64_t columns = 32;
    const int64_t depths = 64;
    const int64_t column_tiles = (columns + tile_columns - 1) / tile_columns;
    const int64_t tiles = batch * heads * column_tiles;
    FUSEGEN_DYNAMIC_SHARED(unsigned char, shared);
    float* const tile = reinterpret_cast<float*>(shared);
    float* const partial = reinterpret_cast<float*>(shared + 1056);
    for (int64_t block = blockIdx.x; block < tiles; block += gridDim.x) {
        const int64_t column_tile = block % column_tiles;
        [[maybe_unused]] const int64_t batch_index = block / column_tiles;
        const int64_t tile_first_row = 0;
        const int64_t tile_first_column = column_tile * tile_columns;
        skinny_product<tile_rows, tile_columns, Neighbours::in_columns>(
            left_matrices + (batch_index / heads) * left_batch_stride_0
                + (batch_index % heads) * left_batch_stride_1, left_stride, rows,
            right_matrices + (batch_index / heads) * right_batch_stride_0
                + (batch_index % heads) * right_batch_stride_1, right_stride, tile_first_column, columns,
            depths, tile, 33, partial);
        const int64_t batch_place_0 = batch_index % heads;
        const int64_t batch_place_1 = batch_index / heads;
        for (int i = threadIdx.x; i < tile_rows * tile_columns; i += threads) {
            const int tile_row = i / tile_columns;
            const int tile_column = i % tile_columns;
            const int64_t row = tile_first_row + tile_row;
            const int64_t column = tile_first_column + tile_column;
            if (row < rows && column < columns) {
                const float relu = fusegen::relu(tile[tile_row * 33 + tile_column]);
                y[batch_place_0 * 32 + column + heads * row * 32
                    + batch_place_1 * heads * time * 32] = convert<bfloat16>(relu);
            }
        }
        __syncthreads();  // the next columns' sums overwrite these
    }
}

// matmul_relu: matmul, relu.
// The product's elements are finished in registers and stored once, each at its place in a result
// whose dims have another order.
// This form runs on Hopper's tensor cores: one warpgroup copies tiles of the operands into a ring of
// stages, two others multiply them, each for half of the rows.
__global__ void __launch_bounds__(384, 1) matmul_relu_64_tensor_kernel(
    const __grid_constant__ TensorMap left_map,
    const __grid_constant__ TensorMap left_rest_map,
    const __grid_constant__ TensorMap right_map,
    bfloat16* __restrict__ y,
    int64_t batch,
    int64_t heads,
    int64_t time) {
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
    const int64_t rows = time;
    const int64_t columns = 32;
    const int64_t depths = 64;
    const TileOrder order{static_cast<int>((rows + tile_rows - 1) / tile_rows),
                          static_cast<int>((columns + tile_columns - 1) / tile_columns)};
    const int tiles = static_cast<int>(batch * heads * order.rows * order.columns);
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
            const int left_batch_0 = static_cast<int>(batch_index / heads);
            const int left_batch_1 = static_cast<int>(batch_index % heads);
            const int right_batch_0 = static_cast<int>(batch_index / heads);
            const int right_batch_1 = static_cast<int>(batch_index % heads);
            const bool is_rest = row_tile + 1 == order.rows;
            const TensorMap& left_map_here = is_rest ? left_rest_map : left_map;
            const int size_here = is_rest ? stage_size - tile_rows * tile_depth + rest_size : stage_size;
            for (int step = 0; step < steps; ++step) {
                bfloat16* const stage_tiles = ring + stage * stage_size;
                mbarrier_wait(&empty[stage], phase ^ 1);
                mbarrier_arrive_expect(&full[stage], size_here * sizeof(bfloat16));
                tma_load_4d(stage_tiles + left_start, left_map_here, &full[stage],
                            step * tile_depth, tile_first_row, left_batch_0, left_batch_1);
#pragma unroll
                for (int chunk = 0; chunk < 64; chunk += chunk_lines) {
                    tma_load_4d(stage_tiles + right_start + chunk * tile_depth, right_map, &full[stage],
                                tile_first_column + chunk, step * tile_depth, right_batch_0, right_batch_1);
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
                    wgmma<bfloat16, tile_columns, Major::k, Major::mn>(
                        accumulators, wgmma_descriptor(left_tile + depth),
                        wgmma_descriptor_mn_major(right_tile
                            + depth * chunk_lines, chunk_lines * tile_depth * sizeof(bfloat16)), step
                            + depth > 0);
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
            const int64_t batch_place_0 = batch_index % heads;
            const int64_t batch_place_1 = batch_index / heads;
#pragma unroll
            for (int block = 0; block < tile_columns / 32; ++block) {
                const int64_t block_column = tile_first_column + block * 32 + thread % 4 * 8;
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    const int64_t product_row = tile_first_row + own_row + half * 8;
                    // Beyond the edges the first element's operands are read, and nothing is stored.
                    const bool is_active = product_row < rows && block_column < columns;
                    const int64_t row = is_active ? product_row : 0;
                    const int64_t first_column = is_active ? block_column : 0;
                    Vector<bfloat16, vector> y_vector;
#pragma unroll
                    for (int element = 0; element < vector; ++element) {
                        const float relu = fusegen::relu(accumulators[block * 16 + element / 2 * 4
                            + half * 2 + element % 2]);
                        y_vector[element] = convert<bfloat16>(relu);
                    }
                    store_vector_if(is_active, y + batch_place_0 * 32 + first_column + heads * row * 32
                        + batch_place_1 * heads * time * 32, exchange_columns(y_vector));
                }
            }
        }
    }
#else
    __trap();  // the launcher takes this form on Hopper alone
#endif
}

// matmul_relu: matmul, relu.
// The product's elements are finished in registers and stored once, each at its place in a result
// whose dims have another order.
// This form is for the tensor cores of devices that have no warpgroup products.
__global__ void __launch_bounds__(256) matmul_relu_mma_kernel(
    const bfloat16* __restrict__ left_matrices,
    int64_t left_stride,
    int64_t left_batch_stride_0,
    int64_t left_batch_stride_1,
    const bfloat16* __restrict__ right_matrices,
    int64_t right_stride,
    int64_t right_batch_stride_0,
    int64_t right_batch_stride_1,
    bfloat16* __restrict__ y,
    int64_t batch,
    int64_t heads,
    int64_t time) {
    wait_for_earlier_kernels();
#if FUSEGEN_NEEDS_MMA
    constexpr int threads = 256;
    constexpr int tile_rows = 128;
    constexpr int tile_columns = 64;
    const int64_t rows = time;
    const int64_t columns = 32;
    const int64_t depths = 64;
    const int64_t row_tiles = (rows + tile_rows - 1) / tile_rows;
    const int64_t column_tiles = (columns + tile_columns - 1) / tile_columns;
    const int64_t tiles = batch * heads * row_tiles * column_tiles;
    FUSEGEN_DYNAMIC_SHARED(unsigned char, shared);
    float* const tile = reinterpret_cast<float*>(shared);
    bfloat16* const ring = reinterpret_cast<bfloat16*>(shared + 33280);
    // Neighbouring blocks share the right operand's columns, which then stay in the L2 cache.
    for (int64_t block = blockIdx.x; block < tiles; block += gridDim.x) {
        const int64_t tile_first_row = block % row_tiles * tile_rows;
        const int64_t column_tile = block / row_tiles % column_tiles;
        const int64_t tile_first_column = column_tile * tile_columns;
        [[maybe_unused]] const int64_t batch_index = block / row_tiles / column_tiles;
        mma_product<tile_rows, tile_columns, 32, 3, Neighbours::in_depth, Neighbours::in_columns>(
            MmaOperand<bfloat16>{left_matrices + (batch_index / heads) * left_batch_stride_0
                + (batch_index % heads) * left_batch_stride_1, left_stride, tile_first_row, rows},
            MmaOperand<bfloat16>{right_matrices + (batch_index / heads) * right_batch_stride_0
                + (batch_index % heads) * right_batch_stride_1, right_stride, tile_first_column, columns},
            depths, ring, tile, 65);
        const int64_t batch_place_0 = batch_index % heads;
        const int64_t batch_place_1 = batch_index / heads;
        for (int i = threadIdx.x; i < tile_rows * tile_columns; i += threads) {
            const int tile_row = i / tile_columns;
            const int tile_column = i % tile_columns;
            const int64_t row = tile_first_row + tile_row;
            const int64_t column = tile_first_column + tile_column;
            if (row < rows && column < columns) {
                const float relu = fusegen::relu(tile[tile_row * 65 + tile_column]);
                y[batch_place_0 * 32 + column + heads * row * 32
                    + batch_place_1 * heads * time * 32] = convert<bfloat16>(relu);
            }
        }
        __syncthreads();  // the next tile overwrites this one
    }
#else
    __trap();  // the launcher takes another form where there are warpgroup products
#endif
}

FUSEGEN_EXPORT int launch_matmul_relu(
    const bfloat16* p,
    const int64_t* p_strides,
    const bfloat16* v,
    const int64_t* v_strides,
    bfloat16* y,
    int64_t batch,
    int64_t heads,
    int64_t time,
    void* stream) {
    const int64_t rows = time;
    const int64_t columns = 32;
    const int64_t tiles = batch * heads * divide_up(rows, 64) * divide_up(columns, 64);
    if (tiles == 0) {
        return 0;
    }
    constexpr int threads = 128;
    constexpr std::size_t shared_bytes = 0;
    const bool packed = is_contiguous(p_strides, {batch, heads, time, 64}) &&
                        is_contiguous(v_strides, {batch, heads, 64, 32});
    const dim3 grid = grid_of(tiles);
    // The tensor cores' form takes operands with neighbours in the planned direction, whose other
    // strides are multiples of 16 bytes.
    TensorMap left_map;
    TensorMap left_rest_map;
    int64_t left_run[4];
    TensorMap right_map;
    int64_t right_run[4];
    const int rest_lines = lines_of_rest<128>(rows);
    const int64_t depths = 64;
    const int64_t tensor_tiles = batch * heads * divide_up(rows, 128) * divide_up(columns, 64);
    if (has_wgmma() && tensor_tiles <= TileOrder::limit && columns % 2 == 0 &&
        is_aligned(p, 16) && is_aligned(v, 16) && is_aligned(y, 16) &&
        merge_dims(p_strides, {batch, heads, time, 64}, {1, 2, 3, 4}, left_run) &&
        left_run[3] == 1 &&
        encode_tensor_map<bfloat16>(&left_map, TensorTiles<4>{
            p, { depths, time, batch, heads }, { left_run[2], left_run[0], left_run[1] },
            { 64, 128, 1, 1 }, Swizzle::bytes_128}) == TensorMapError::none &&
        encode_tensor_map<bfloat16>(&left_rest_map, TensorTiles<4>{
            p, { depths, time, batch, heads }, { left_run[2], left_run[0], left_run[1] },
            { 64, rest_lines, 1, 1 }, Swizzle::bytes_128}) == TensorMapError::none &&
        merge_dims(v_strides, {batch, heads, 64, 32}, {1, 2, 3, 4}, right_run) &&
        right_run[3] == 1 &&
        encode_tensor_map<bfloat16>(&right_map, TensorTiles<4>{
            v, { 32, depths, batch, heads }, { right_run[2], right_run[0], right_run[1] },
            { 64, 64, 1, 1 }, Swizzle::bytes_128}) == TensorMapError::none) {
        const int64_t processors = processor_count();
        constexpr std::size_t ring_bytes = 98304 * sizeof(bfloat16);
        FUSEGEN_LAUNCH(matmul_relu_64_tensor_kernel, grid_of(tensor_tiles < processors
            ? tensor_tiles : processors), dim3(384), ring_bytes, stream,
                       left_map, left_rest_map, right_map, y, batch, heads, time);
        return FUSEGEN_LAST_ERROR();
    }

    // The form for few rows takes operands that are read 16 bytes at a time.
    if (rows <= 8) {
        int64_t left_run[4];
        int64_t right_run[4];
        const int64_t depths = 64;
        if (depths % 8 == 0 && columns % 4 == 0 &&
            merge_dims(p_strides, {batch, heads, time, 64}, {1, 2, 3, 4}, left_run) &&
            left_run[3] == 1 &&
            is_aligned(p, 16) &&
            (left_run[2]) % 8 == 0 &&
            (left_run[0]) % 8 == 0 &&
            (left_run[1]) % 8 == 0 &&
            merge_dims(v_strides, {batch, heads, 64, 32}, {1, 2, 3, 4}, right_run) &&
            right_run[3] == 1 &&
            is_aligned(v, 16) &&
            (right_run[2]) % 8 == 0 &&
            (right_run[0]) % 8 == 0 &&
            (right_run[1]) % 8 == 0) {
            const int64_t column_tiles = divide_up(columns, 32);
            const auto skinny_kernel =
                rows <= 2 ? matmul_relu_skinny_kernel<2> :
                matmul_relu_skinny_kernel<8>;
            FUSEGEN_LAUNCH(skinny_kernel, grid_of(batch * heads * column_tiles), dim3(256), 9248, stream,
                           p, left_run[2], left_run[0], left_run[1],
                           v, right_run[2], right_run[0], right_run[1],
                           y, batch, heads, time);
            return FUSEGEN_LAST_ERROR();
        }
    }

    // The form for other tensor cores takes operands that are read 16 bytes at a time.
    if (has_mma() && !has_wgmma()) {
        int64_t left_run[4];
        int64_t right_run[4];
        if (merge_dims(p_strides, {batch, heads, time, 64}, {1, 2, 3, 4}, left_run) &&
            left_run[3] == 1 &&
            is_aligned(p, 16) &&
            (left_run[2]) % 8 == 0 &&
            (left_run[0]) % 8 == 0 &&
            (left_run[1]) % 8 == 0 &&
            merge_dims(v_strides, {batch, heads, 64, 32}, {1, 2, 3, 4}, right_run) &&
            right_run[3] == 1 &&
            is_aligned(v, 16) &&
            (right_run[2]) % 8 == 0 &&
            (right_run[0]) % 8 == 0 &&
            (right_run[1]) % 8 == 0) {
            const int64_t mma_tiles = batch * heads * divide_up(rows, 128) * divide_up(columns, 64);
            FUSEGEN_LAUNCH(matmul_relu_mma_kernel, grid_of(mma_tiles), dim3(256), 77824, stream,
                           p, left_run[2], left_run[0], left_run[1],
                           v, right_run[2], right_run[0], right_run[1],
                           y, batch, heads, time);
            return FUSEGEN_LAST_ERROR();
        }
    }

    if (packed) {
        FUSEGEN_LAUNCH((matmul_relu_kernel<true>),
                       grid, dim3(threads), shared_bytes, stream,
                       p, Strides<4>(p_strides), v, Strides<4>(v_strides), y, batch, heads, time);
    } else {
        FUSEGEN_LAUNCH((matmul_relu_kernel<false>),
                       grid, dim3(threads), shared_bytes, stream,
                       p, Strides<4>(p_strides), v, Strides<4>(v_strides), y, batch, heads, time);
    }
    return FUSEGEN_LAST_ERROR();
}
}  // namespace fusegen
