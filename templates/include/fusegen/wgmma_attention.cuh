// Attention by Hopper's tensor cores.
#pragma once

#include "attention.cuh"
#include "tma.cuh"
#include "wgmma_tile.cuh"

namespace fusegen {

// The same as `mma_attention`, with 64 rows for each of `warpgroups`.
template <int vector, int column_vector, int warpgroups, class Met, class Queries, class Keys,
          class Values, class T, class BringQueries, class BringTiles, class Meet, class Score,
          class Keep, class KeepStatistics>
__device__ __forceinline__ void wgmma_attention(T* shared, int rows_here, int64_t key_count,
                                                const BringQueries& bring_queries,
                                                const BringTiles& bring_tiles, const Meet& meet,
                                                const Score& score, const Keep& keep,
                                                const KeepStatistics& keep_statistics) {
    constexpr int keys = Keys::tile_lines;
    constexpr int depth = Queries::tile_depth;
    constexpr int columns = Values::tile_lines;
    constexpr int run = Keys::lane_run;
    static_assert(keys == Values::tile_depth && depth == Keys::tile_depth, "tiles that meet");
    static_assert(Queries::tile_lines == warpgroups * wgmma_m, "rows for every warpgroup");
    // The same for all lanes, which the compiler is told this way.
    const int warpgroup = shuffle(whole_warp, static_cast<int>(threadIdx.x) / 128, 0);
    const int own_row = warpgroup * wgmma_m + static_cast<int>(threadIdx.x) % 128 / 32 * 16;
    const TileRing<2, Keys::size + Values::size, keys, T, BringTiles> tiles{shared + Queries::size,
                                                                            key_count, bring_tiles};
    bring_queries(shared);
    tiles.bring(0);
    AttendedRows<keys, columns> own;
    own.headroom = headroom_of<T>(key_count);
    for (int64_t step = 0; step < tiles.steps(); ++step) {
        cp_async_wait<0>();
        fence_async_shared();
        __syncthreads();  // the step has arrived, and the one before it has been multiplied
        tiles.bring(step + 1);
        const T* const keys_of_step = tiles.stage(step);
        wgmma_fence(own.scores);
#pragma unroll
        for (int at_depth = 0; at_depth < depth; at_depth += wgmma_k<T>) {
            wgmma<T, keys, Queries::major, Keys::major>(
                own.scores, Queries::descriptor(shared, warpgroup * wgmma_m, at_depth),
                Keys::descriptor(keys_of_step, 0, at_depth), at_depth > 0);
        }
        wgmma_commit();
        const HeldPlaces<keys, run, vector> places{own_row, rows_here, step * keys,
                                                    tiles.depth_here(step)};
        Met met[2][keys / 4 / vector];
        places.meet_all(met, meet);
        wgmma_wait<0>(own.scores);
        own.make_scores(places, met, score);
        own.weigh();
        std::uint32_t weights[keys / wgmma_k<T>][4];
#pragma unroll
        for (int i = 0; i < keys / wgmma_k<T>; ++i) {
            left_fragments<T>(weights[i], own.scores, i * wgmma_k<T>);
        }
        wgmma_fence(own.results, weights);
#pragma unroll
        for (int i = 0; i < keys / wgmma_k<T>; ++i) {
            wgmma<T, columns, Values::major>(
                own.results, weights[i],
                Values::descriptor(keys_of_step + Keys::size, 0, i * wgmma_k<T>));
        }
        wgmma_commit();
        wgmma_wait<0>(own.results, weights);
    }
    if (key_count > 0) {  // of no keys the sums are 0
        own.divide();
    }
    hand_over<column_vector>(own.results, own_row, rows_here, keep);
    own.hand_over_statistics(own_row, rows_here, keep_statistics);
    __syncthreads();  // the next tile's copies may overwrite the shared memory
}

}  // namespace fusegen
