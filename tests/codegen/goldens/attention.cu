// Attention.
#include "fusegen/device.cuh"
#include "fusegen/dtypes.cuh"
#include "fusegen/launch.cuh"
#include "fusegen/math.cuh"
#include "fusegen/mma_attention.cuh"
#include "fusegen/reduce.cuh"
#include "fusegen/stepped_division.cuh"
#include "fusegen/wgmma_attention.cuh"

namespace fusegen {
// matmul_mul_where: matmul, mul, where, softmax.
// The softmax's weights are used where they are made, a tile of keys at a time, so that no score
// is stored.
// This form is for Hopper's tensor cores. One warpgroup of a block brings tiles for the others.
template <int key_vector>
__global__ void __launch_bounds__(384, 2) matmul_mul_where_warpgroup_kernel(
    const __grid_constant__ MatrixMap<1> query_map,
    const __grid_constant__ MatrixMap<1> key_map,
    const __grid_constant__ MatrixMap<1> value_map,
    const bfloat16* __restrict__ key_matrices,
    int64_t key_stride,
    int64_t key_batch_stride,
    const bfloat16* __restrict__ value_matrices,
    int64_t value_stride,
    int64_t value_batch_stride,
    const bool* __restrict__ mask,
    Strides<2> mask_strides,
    bfloat16* __restrict__ y,
    int64_t batch,
    int64_t time) {
    wait_for_earlier_kernels();
#if FUSEGEN_HAS_WGMMA
    constexpr bool packed = key_vector > 1;
    using Queries = WgmmaTile<bfloat16, 128, 64, Neighbours::in_depth>;
    using Keys = WgmmaTile<bfloat16, 64, 64, Neighbours::in_depth, RowOrder::by_lanes>;
    using Values = WgmmaTile<bfloat16, 64, 64, Neighbours::in_columns, RowOrder::by_lanes>;
    constexpr int stage_size = Keys::size + Values::size;
    static_assert((Queries::size + 2 * stage_size) * sizeof(bfloat16) == 49152,
                  "the shared memory of the launch");
    constexpr int column_vector = packed ? 2 : 1;
    constexpr int tile_rows = 128;
    const int64_t rows = time;
    const int64_t keys = time;
    const int64_t depths = 64;
    const int64_t columns = 64;
    const int64_t row_tiles = (rows + tile_rows - 1) / tile_rows;
    const int64_t tiles = batch * row_tiles;
    constexpr int tile_keys = 64;
    constexpr int stages = 2;
    FUSEGEN_SHARED(std::uint64_t, barriers, Stages<1>::barrier_count + Stages<stages>::barrier_count);
    FUSEGEN_TILE_SHARED(bfloat16, shared);
    Stages<1> row_stage(barriers);
    Stages<stages> ring(barriers + row_stage.barrier_count);
    if (threadIdx.x == 0) {
        row_stage.make_barriers(2);
        ring.make_barriers(2);
        mbarrier_fence_init();
    }
    __syncthreads();
    // Neighbouring blocks share keys and values, which then stay in the L2 cache.
    if (threadIdx.x < 128) {
        decrease_registers<32>();
        constexpr int threads = 128;
        for (int64_t block = blockIdx.x; block < tiles; block += gridDim.x) {
            const int64_t tile_first_row = block % row_tiles * tile_rows;
            [[maybe_unused]] const int64_t batch_index = block / row_tiles;
            const int query_place = query_map.place(batch_index);
            const int key_place = key_map.place(batch_index);
            const int value_place = value_map.place(batch_index);
            const bfloat16* const key_matrix = computed_once(key_matrices + batch_index * key_batch_stride);
            const bfloat16* const value_matrix = computed_once(value_matrices
                + batch_index * value_batch_stride);
            row_stage.fill(true, Queries::size * sizeof(bfloat16), [&](std::uint64_t* barrier) {
                bring_whole<Queries>(shared, query_map, barrier,
                    query_place, tile_first_row, 0);
            }, [] {});
            for (int64_t first_key = 0; first_key < keys; first_key += tile_keys) {
                bfloat16* const stage = shared + Queries::size + ring.stage * stage_size;
                const bool is_whole = first_key + tile_keys <= keys;
                ring.fill(is_whole, stage_size * sizeof(bfloat16), [&](std::uint64_t* barrier) {
                    bring_whole<Keys>(stage, key_map, barrier,
                        key_place, first_key, 0);
                    bring_whole<Values>(stage + Keys::size, value_map, barrier,
                        value_place, 0, first_key);
                }, [&] {
                    Keys::template load<threads, 4>(stage, key_matrix, static_cast<int>(key_stride),
                        first_key, keys, 0, depths);
                    Values::template load<threads, 4>(stage
                        + Keys::size, value_matrix, static_cast<int>(value_stride),
                        0, columns, first_key, keys);
                });
            }
        }
        return;
    }
    increase_registers<104>();
    for (int64_t block = blockIdx.x; block < tiles; block += gridDim.x) {
        const int64_t tile_first_row = block % row_tiles * tile_rows;
        [[maybe_unused]] const int64_t batch_index = block / row_tiles;
        // What neighbouring products meet at their place, and what the softmax takes of them.
        struct Met {
            enum {
                registers = registers_of<
                    Vector<bool, key_vector>>
            };
            Vector<bool, key_vector> mask_vector;
        };
        const auto meet = [&]([[maybe_unused]] int row_in_tile, [[maybe_unused]] int64_t first_key) {
            constexpr int vector = key_vector;
            const int64_t row = tile_first_row + row_in_tile;
            return Met{load_vector<bool, vector>(mask + (packed
                ? first_key + row * time : mask_strides(row, first_key)))};
        };
        const auto score = [&]([[maybe_unused]] int row_in_tile, [[maybe_unused]] int64_t first_key,
                               [[maybe_unused]] const Met& met, [[maybe_unused]] float* scores) {
            constexpr int vector = key_vector;
#pragma unroll
            for (int element = 0; element < vector; ++element) {
                const bool mask_value = value_at(met.mask_vector, element);
                const float where = mask_value ? scores[element] : (-fusegen::infinity<float>());
                scores[element] = where;
            }
        };
        // What is done with neighbouring results.
        const auto keep = [&](int row_in_tile, int first_column, const float* results) {
            constexpr int vector = column_vector;
            const int64_t row = tile_first_row + row_in_tile;
            Vector<bfloat16, vector> y_vector;
#pragma unroll
            for (int element = 0; element < vector; ++element) {
                y_vector[element] = convert<bfloat16>(results[element]);
            }
            store_vector(y + first_column + row * 64 + batch_index * time * 64, y_vector);
        };
        const auto keep_statistics = [&]([[maybe_unused]] int row_in_tile, [[maybe_unused]] float greatest,
                                         [[maybe_unused]] float weight_total) {
        };
        wgmma_attention<key_vector, column_vector, false, 24, Met, Queries, Keys, Values>(
            shared, row_stage, shared + Queries::size, ring, within(rows, tile_first_row, tile_rows),
            keys, 0.125f, meet, score, keep, keep_statistics);
    }
#else
    __trap();  // the launcher takes another form there
#endif
}

// matmul_mul_where: matmul, mul, where, softmax.
// The softmax's weights are used where they are made, a tile of keys at a time, so that no score
// is stored.
// This form is for all tensor cores.
template <int key_vector, bool whole>
__global__ void __launch_bounds__(128, 1) matmul_mul_where_kernel(
    const bfloat16* __restrict__ query_matrices,
    int64_t query_stride,
    int64_t query_batch_stride,
    const bfloat16* __restrict__ key_matrices,
    int64_t key_stride,
    int64_t key_batch_stride,
    const bfloat16* __restrict__ value_matrices,
    int64_t value_stride,
    int64_t value_batch_stride,
    const bfloat16* __restrict__ q,
    Strides<3> q_strides,
    const bfloat16* __restrict__ k,
    Strides<3> k_strides,
    const bfloat16* __restrict__ v,
    Strides<3> v_strides,
    const bool* __restrict__ mask,
    Strides<2> mask_strides,
    bfloat16* __restrict__ y,
    int64_t batch,
    int64_t time) {
    wait_for_earlier_kernels();
    constexpr bool packed = key_vector > 1;
    using Queries = MmaTile<bfloat16, 128, 64, Neighbours::in_depth>;
    using Keys = MmaTile<bfloat16, 64, 64, Neighbours::in_depth, RowOrder::by_lanes>;
    using Values = MmaTile<bfloat16, 64, 64, Neighbours::in_columns, RowOrder::by_lanes>;
    constexpr int stage_size = Keys::size + Values::size;
    static_assert((Queries::size + 2 * stage_size) * sizeof(bfloat16) == 55296,
                  "the shared memory of the launch");
    constexpr int column_vector = packed ? 2 : 1;
    constexpr int tile_rows = 128;
    const int64_t rows = time;
    const int64_t keys = time;
    const int64_t depths = 64;
    const int64_t columns = 64;
    const int64_t row_tiles = (rows + tile_rows - 1) / tile_rows;
    const int64_t tiles = batch * row_tiles;
    constexpr int threads = 128;
    FUSEGEN_DYNAMIC_SHARED(bfloat16, shared);
    // Neighbouring blocks share keys and values, which then stay in the L2 cache.
    for (int64_t block = blockIdx.x; block < tiles; block += gridDim.x) {
        const int64_t tile_first_row = block % row_tiles * tile_rows;
        [[maybe_unused]] const int64_t batch_index = block / row_tiles;
        const bfloat16* const query_matrix = computed_once(query_matrices + batch_index * query_batch_stride);
        const bfloat16* const key_matrix = computed_once(key_matrices + batch_index * key_batch_stride);
        const bfloat16* const value_matrix = computed_once(value_matrices + batch_index * value_batch_stride);
        const auto bring_queries = [&](bfloat16* tile) {
            if constexpr (whole) {
                Queries::template load<threads>(tile, query_matrix, static_cast<int>(query_stride),
                    tile_first_row, rows, 0, depths);
            } else {
                Queries::template load_each<threads>(tile, tile_first_row, rows, 0, depths,
                    [&](int64_t row, int64_t depth) { return q[packed
                        ? depth + row * 64 + batch_index * time * 64
                        : q_strides(batch_index, row, depth)]; });
            }
        };
        const auto bring_tiles = [&](bfloat16* stage, int64_t first_key) {
            if constexpr (whole) {
                Keys::template load<threads>(stage, key_matrix, static_cast<int>(key_stride),
                    first_key, keys, 0, depths);
            } else {
                Keys::template load_each<threads>(stage, first_key, keys, 0, depths,
                    [&](int64_t key, int64_t depth) { return k[packed
                        ? depth + key * 64 + batch_index * time * 64
                        : k_strides(batch_index, key, depth)]; });
            }
            if constexpr (whole) {
                Values::template load<threads>(stage
                    + Keys::size, value_matrix, static_cast<int>(value_stride),
                    0, columns, first_key, keys);
            } else {
                Values::template load_each<threads>(stage + Keys::size, 0, columns, first_key, keys,
                    [&](int64_t column, int64_t key) { return v[packed
                        ? column + key * 64 + batch_index * time * 64
                        : v_strides(batch_index, key, column)]; });
            }
        };
        // What neighbouring products meet at their place, and what the softmax takes of them.
        struct Met {
            enum {
                registers = registers_of<
                    Vector<bool, key_vector>>
            };
            Vector<bool, key_vector> mask_vector;
        };
        const auto meet = [&]([[maybe_unused]] int row_in_tile, [[maybe_unused]] int64_t first_key) {
            constexpr int vector = key_vector;
            const int64_t row = tile_first_row + row_in_tile;
            return Met{load_vector<bool, vector>(mask + (packed
                ? first_key + row * time : mask_strides(row, first_key)))};
        };
        const auto score = [&]([[maybe_unused]] int row_in_tile, [[maybe_unused]] int64_t first_key,
                               [[maybe_unused]] const Met& met, [[maybe_unused]] float* scores) {
            constexpr int vector = key_vector;
#pragma unroll
            for (int element = 0; element < vector; ++element) {
                const bool mask_value = value_at(met.mask_vector, element);
                const float where = mask_value ? scores[element] : (-fusegen::infinity<float>());
                scores[element] = where;
            }
        };
        // What is done with neighbouring results.
        const auto keep = [&](int row_in_tile, int first_column, const float* results) {
            constexpr int vector = column_vector;
            const int64_t row = tile_first_row + row_in_tile;
            Vector<bfloat16, vector> y_vector;
#pragma unroll
            for (int element = 0; element < vector; ++element) {
                y_vector[element] = convert<bfloat16>(results[element]);
            }
            store_vector(y + first_column + row * 64 + batch_index * time * 64, y_vector);
        };
        const auto keep_statistics = [&]([[maybe_unused]] int row_in_tile, [[maybe_unused]] float greatest,
                                         [[maybe_unused]] float weight_total) {
        };
        mma_attention<key_vector, column_vector, 2, 4, 64, Met, Queries, Keys, Values>(
            shared, within(rows, tile_first_row, tile_rows), keys, 0.125f, bring_queries, bring_tiles,
            meet, score, keep, keep_statistics);
    }
}

FUSEGEN_EXPORT int launch_matmul_mul_where(
    const bfloat16* q,
    const int64_t* q_strides,
    const bfloat16* k,
    const int64_t* k_strides,
    const bfloat16* v,
    const int64_t* v_strides,
    const bool* mask,
    const int64_t* mask_strides,
    bfloat16* y,
    int64_t batch,
    int64_t time,
    void* stream) {
    const int64_t rows = time;
    if (batch * rows == 0) {
        return 0;
    }
    int64_t query_run[3];
    int64_t key_run[3];
    int64_t value_run[3];
    // Operands are read 16 bytes at a time, and all else in vectors, if they lie so.
    if (merge_dims(q_strides, {batch, time, 64}, {1, 2, 3}, query_run) &&
        query_run[2] == 1 &&
        is_aligned(q, 16) &&
        (query_run[1]) % 8 == 0 &&
        (query_run[0]) % 8 == 0 &&
        query_run[1] < stride_limit &&
        merge_dims(k_strides, {batch, time, 64}, {1, 2, 3}, key_run) &&
        key_run[2] == 1 &&
        is_aligned(k, 16) &&
        (key_run[1]) % 8 == 0 &&
        (key_run[0]) % 8 == 0 &&
        key_run[1] < stride_limit &&
        merge_dims(v_strides, {batch, time, 64}, {1, 2, 3}, value_run) &&
        value_run[2] == 1 &&
        is_aligned(v, 16) &&
        (value_run[1]) % 8 == 0 &&
        (value_run[0]) % 8 == 0 &&
        value_run[1] < stride_limit) {
        const bool in_vectors = is_contiguous(mask_strides, {time, time}) && is_aligned(mask, 8) &&
                                is_aligned(y, 4) && time % 8 == 0;
        MatrixMap<1> query_map;
        MatrixMap<1> key_map;
        MatrixMap<1> value_map;
        if (has_wgmma() &&
            map_matrices<WgmmaTile<bfloat16, 128, 64, Neighbours::in_depth>>(
                &query_map, q, time, 64, query_run[1],
                {batch}, {query_run[0]}) &&
            map_matrices<WgmmaTile<bfloat16, 64, 64, Neighbours::in_depth, RowOrder::by_lanes>>(
                &key_map, k, time, 64, key_run[1],
                {batch}, {key_run[0]}) &&
            map_matrices<WgmmaTile<bfloat16, 64, 64, Neighbours::in_columns, RowOrder::by_lanes>>(
                &value_map, v, 64, time, value_run[1],
                {batch}, {value_run[0]})) {
            const int64_t resident = processor_count() * 2;
            const int64_t tiles = batch * divide_up(rows, 128);
            if (in_vectors) {
                FUSEGEN_LAUNCH((matmul_mul_where_warpgroup_kernel<8>),
                               grid_of(tiles < resident ? tiles : resident), dim3(384), 49152, stream,
                               query_map, key_map, value_map,
                               k, key_run[1], key_run[0],
                               v, value_run[1], value_run[0],
                               mask, Strides<2>(mask_strides), y, batch, time);
                return FUSEGEN_LAST_ERROR();
            }
            FUSEGEN_LAUNCH((matmul_mul_where_warpgroup_kernel<1>),
                           grid_of(tiles < resident ? tiles : resident), dim3(384), 49152, stream,
                           query_map, key_map, value_map,
                           k, key_run[1], key_run[0],
                           v, value_run[1], value_run[0],
                           mask, Strides<2>(mask_strides), y, batch, time);
            return FUSEGEN_LAST_ERROR();
        }
        if (in_vectors) {
            FUSEGEN_LAUNCH((matmul_mul_where_kernel<8, true>),
                           grid_of(batch * divide_up(rows, 128)), dim3(128), 55296, stream,
                           q, query_run[1], query_run[0],
                           k, key_run[1], key_run[0],
                           v, value_run[1], value_run[0],
                           q, Strides<3>(q_strides), k, Strides<3>(k_strides), v, Strides<3>(v_strides), mask,
                           Strides<2>(mask_strides), y, batch, time);
            return FUSEGEN_LAST_ERROR();
        }
        FUSEGEN_LAUNCH((matmul_mul_where_kernel<1, true>),
                       grid_of(batch * divide_up(rows, 128)), dim3(128), 55296, stream,
                       q, query_run[1], query_run[0],
                       k, key_run[1], key_run[0],
                       v, value_run[1], value_run[0],
                       q, Strides<3>(q_strides), k, Strides<3>(k_strides), v, Strides<3>(v_strides), mask,
                       Strides<2>(mask_strides), y, batch, time);
        return FUSEGEN_LAST_ERROR();
    }
    FUSEGEN_LAUNCH((matmul_mul_where_kernel<1, false>),
                   grid_of(batch * divide_up(rows, 128)), dim3(128), 55296, stream,
                   nullptr, 0, 0,
                   nullptr, 0, 0,
                   nullptr, 0, 0,
                   q, Strides<3>(q_strides), k, Strides<3>(k_strides), v, Strides<3>(v_strides), mask,
                   Strides<2>(mask_strides), y, batch, time);
    return FUSEGEN_LAST_ERROR();
}
}  // namespace fusegen
