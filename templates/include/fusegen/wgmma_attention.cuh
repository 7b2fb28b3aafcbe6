// Attention by Hopper's tensor cores.
#pragma once

#include "attention.cuh"
#include "tma.cuh"
#include "warp_roles.cuh"
#include "wgmma_tile.cuh"

namespace fusegen {

// The same as `mma_attention`, with 64 rows for each of `warpgroups`: weights go through shared memory,
// where products find their operands.
template <int vector, int column_vector, int warpgroups, class Met, class Queries, class Keys, class Values, class T,
          class BringQueries, class BringKeys, class BringValues, class Meet, class Score,
          class Keep>
__device__ __forceinline__ void wgmma_attention(T* shared, int rows_here, int64_t key_count,
                                                const BringQueries& bring_queries,
                                                const BringKeys& bring_keys,
                                                const BringValues& bring_values,
                                                const Meet& meet, const Score& score,
                                                const Keep& keep) {
    constexpr int keys = Keys::tile_lines;
    constexpr int depth = Queries::tile_depth;
    constexpr int columns = Values::tile_lines;
    constexpr int run = Keys::lane_run;
    constexpr int store = run < 8 ? run : 8;
    using Weights = WgmmaTile<T, wgmma_m, keys, Neighbours::in_depth>;
    static_assert(keys == Values::tile_depth && depth == Keys::tile_depth, "tiles that meet");
    static_assert(Queries::tile_lines == warpgroups * wgmma_m, "rows for every warpgroup");
    // The same for all lanes, which the compiler is told this way.
    const int warpgroup = shuffle(whole_warp, static_cast<int>(threadIdx.x) / 128, 0);
    const int row_in_group = threadIdx.x % 128 / 32 * 16;
    const int own_row = warpgroup * wgmma_m + row_in_group;
    const int lane = threadIdx.x % 32;
    const KeyTiles<Keys, Values, T, BringKeys, BringValues> tiles{shared + Queries::size, key_count,
                                                                  bring_keys, bring_values};
    T* const weights = tiles.keys(0) + 2 * (Keys::size + Values::size) + warpgroup * Weights::size;
    bring_queries(shared);
    tiles.bring(0);
    AttendedRows<keys, columns> own;
    for (int64_t step = 0; step < tiles.steps(); ++step) {
        cp_async_wait<0>();
        fence_async_shared();
        __syncthreads();  // the step has arrived, and the one before it has been multiplied
        tiles.bring(step + 1);
        wgmma_fence(own.scores);
#pragma unroll
        for (int at_depth = 0; at_depth < depth; at_depth += wgmma_k<T>) {
            wgmma<T, keys, Queries::major, Keys::major>(
                own.scores, Queries::descriptor(shared, warpgroup * wgmma_m, at_depth),
                Keys::descriptor(tiles.keys(step), 0, at_depth), at_depth > 0);
        }
        wgmma_commit();
        const ScorePlaces<keys, run, vector> places{own_row, rows_here, step * keys,
                                                    tiles.keys_here(step)};
        Met met[2][keys / 4 / vector];
        places.meet_all(met, meet);
        wgmma_wait<0>(own.scores);
        own.make_scores(places, met, score);
        own.weigh();
#pragma unroll
        for (int half = 0; half < 2; ++half) {
#pragma unroll
            for (int i = 0; i < keys / 4; i += store) {
                Vector<T, store> neighbours;
#pragma unroll
                for (int element = 0; element < store; element += 2) {
                    const int held = own.held(i + element, half);
                    round_pair(neighbours, element, own.scores[held], own.scores[held + 1]);
                }
                store_vector(weights + Weights::place(row_in_group + half * 8 + lane / 4,
                                                      places.own_key(i)),
                             neighbours);
            }
        }
        fence_async_shared();
        named_barrier_sync(1 + warpgroup, 128);
        wgmma_fence(own.results);
#pragma unroll
        for (int key = 0; key < keys; key += wgmma_k<T>) {
            wgmma<T, columns, Weights::major, Values::major>(
                own.results, Weights::descriptor(weights, 0, key),
                Values::descriptor(tiles.values(step), 0, key), true);
        }
        wgmma_commit();
        wgmma_wait<0>(own.results);
    }
    if (key_count > 0) {  // of no keys the sums are 0
        own.divide();
    }
    own.template hand_over<column_vector>(own_row, rows_here, keep);
    __syncthreads();  // the next tile's copies may overwrite the shared memory
}

}  // namespace fusegen
