// Attention by Hopper's tensor cores.
#pragma once

#include "attention.cuh"
#include "tma.cuh"
#include "wgmma_tile.cuh"

namespace fusegen {

// The same as `mma_attention`, with 64 rows for each of `warpgroups`.
template <int vector, int column_vector, int warpgroups, class Met, class Queries, class Keys,
          class Values, class T, class BringQueries, class BringKeys, class BringValues, class Meet,
          class Score, class Keep>
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
    static_assert(keys == Values::tile_depth && depth == Keys::tile_depth, "tiles that meet");
    static_assert(Queries::tile_lines == warpgroups * wgmma_m, "rows for every warpgroup");
    // The same for all lanes, which the compiler is told this way.
    const int warpgroup = shuffle(whole_warp, static_cast<int>(threadIdx.x) / 128, 0);
    const int own_row = warpgroup * wgmma_m + static_cast<int>(threadIdx.x) % 128 / 32 * 16;
    const KeyTiles<Keys, Values, T, BringKeys, BringValues> tiles{shared + Queries::size, key_count,
                                                                  bring_keys, bring_values};
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
        std::uint32_t weights[keys / wgmma_k<T>][4];
#pragma unroll
        for (int i = 0; i < keys / wgmma_k<T>; ++i) {
            weight_fragments<T>(weights[i], own, i * wgmma_k<T>);
        }
        wgmma_fence(own.results, weights);
#pragma unroll
        for (int i = 0; i < keys / wgmma_k<T>; ++i) {
            wgmma<T, columns, Values::major>(
                own.results, weights[i],
                Values::descriptor(tiles.values(step), 0, i * wgmma_k<T>));
        }
        wgmma_commit();
        wgmma_wait<0>(own.results, weights);
    }
    if (key_count > 0) {  // of no keys the sums are 0
        own.divide();
    }
    own.template hand_over<column_vector>(own_row, rows_here, keep);
    __syncthreads();  // the next tile's copies may overwrite the shared memory
}

}  // namespace fusegen
