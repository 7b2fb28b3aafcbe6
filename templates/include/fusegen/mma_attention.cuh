// Attention by the tensor cores of compute capability 8.0 and later.
#pragma once

#include "attention.cuh"
#include "mma_tile.cuh"

namespace fusegen {

// Hands the results of a block's tile of rows to `keep(row, first_column, elements)`, `column_vector`
// neighbours at a time, and their softmax's statistics to `keep_statistics(row, greatest, sum)`:
// results are sums of the values of `key_count` keys, weighted by the softmax of `factor` times scores,
// a factor above 0 and no more than 1. Scores are what `score(row, first_key, met, elements)` makes of
// `vector` neighbouring products in place, and of what `meet(row, first_key)` has found where they are.
// Each of `warps` has `parts` times 16 rows. `bring_queries(tile)` fills the tile of the queries,
// `bring_tiles(tiles, first_key)` those of keys and behind them values. `rows_here` of the tile's rows
// are there; the others are not handed over.
template <int vector, int column_vector, int parts, int warps, int met_registers, class Met,
          class Queries, class Keys, class Values, class T, class BringQueries, class BringTiles,
          class Meet, class Score, class Keep, class KeepStatistics>
__device__ __forceinline__ void mma_attention(T* shared, int rows_here, int64_t key_count,
                                              float factor, const BringQueries& bring_queries,
                                              const BringTiles& bring_tiles, const Meet& meet,
                                              const Score& score, const Keep& keep,
                                              const KeepStatistics& keep_statistics) {
    constexpr int keys = Keys::tile_lines;
    constexpr int depth = Queries::tile_depth;
    constexpr int columns = Values::tile_lines;
    static_assert(keys == Values::tile_depth && depth == Keys::tile_depth, "tiles that meet");
    static_assert(Queries::tile_lines == warps * parts * 16, "rows for every warp");
    const int own_row = threadIdx.x / 32 * (parts * 16);
    const TileRing<2, Keys::size + Values::size, keys, T, BringTiles> tiles{shared + Queries::size,
                                                                            key_count, bring_tiles};
    bring_queries(shared);
    tiles.bring(0);
    AttendedRows<keys, columns> own[parts];
#pragma unroll
    for (int part = 0; part < parts; ++part) {
        own[part].begin(factor, headroom_of<T>(key_count));
    }
    for (int64_t step = 0; step < tiles.steps(); ++step) {
        cp_async_wait<0>();
        __syncthreads();  // the step has arrived, and the one before it has been read
        tiles.bring(step + 1);
        const T* const keys_of_step = tiles.stage(step);
#pragma unroll
        for (int part = 0; part < parts; ++part) {
#pragma unroll
            for (int i = 0; i < keys / 2; ++i) {
                own[part].scores[i] = 0.0f;
            }
        }
#pragma unroll
        for (int at_depth = 0; at_depth < depth; at_depth += 16) {
            std::uint32_t left[parts][4];
#pragma unroll
            for (int part = 0; part < parts; ++part) {
                Queries::left(left[part], shared, own_row + part * 16, at_depth);
            }
#pragma unroll
            for (int key = 0; key < keys; key += 16) {
                std::uint32_t right[4];
                Keys::right(right, keys_of_step, key, at_depth);
#pragma unroll
                for (int part = 0; part < parts; ++part) {
                    mma_pair<T>(&own[part].scores[key / 2], left[part], right);
                }
            }
        }
#pragma unroll
        for (int part = 0; part < parts; ++part) {
            using Places = HeldPlaces<keys, Keys::lane_run, vector>;
            const Places places{own_row + part * 16, rows_here, step * keys,
                                tiles.depth_here(step)};
            MetThere<Met, Places, met_registers, Meet> met(meet);
            met.load(places);
            own[part].make_scores(places, met, score);
            own[part].weigh();
            own[part].rescale_results();
        }
#pragma unroll
        for (int key = 0; key < keys; key += 16) {
            std::uint32_t left[parts][4];
#pragma unroll
            for (int part = 0; part < parts; ++part) {
                left_fragments<T>(left[part], own[part].scores, key);
            }
#pragma unroll
            for (int column = 0; column < columns; column += 16) {
                std::uint32_t right[4];
                Values::right(right, keys_of_step + Keys::size, column, key);
#pragma unroll
                for (int part = 0; part < parts; ++part) {
                    mma_pair<T>(&own[part].results[column / 2], left[part], right);
                }
            }
        }
    }
#pragma unroll
    for (int part = 0; part < parts; ++part) {
        if (key_count > 0) {  // of no keys the sums are 0
            own[part].divide();
        }
        hand_over<column_vector>(own[part].results, own_row + part * 16, rows_here, keep);
        own[part].hand_over_statistics(own_row + part * 16, rows_here, keep_statistics);
    }
    __syncthreads();  // the next tile's copies may overwrite the shared memory
}

}  // namespace fusegen
