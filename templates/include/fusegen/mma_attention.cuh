// Attention by the tensor cores of compute capability 8.0 and later.
#pragma once

#include "attention.cuh"
#include "mma_tile.cuh"

namespace fusegen {

// Hands the results of a block's tile of rows to `keep(row, first_column, elements)`, `column_vector`
// neighbours at a time: sums of the values of `key_count` keys, weighted by the softmax of scores.
// These are what `score(row, first_key, met, elements)` makes of `vector` neighbouring products in
// place, and of what `meet(row, first_key)` has found where they are. Each of `warps` has `parts`
// times 16 rows. `bring_queries(tile)` fills the tile of the queries, the others are as in `KeyTiles`.
// `rows_here` of the tile's rows are there; the others are not handed over.
template <int vector, int column_vector, int parts, int warps, class Met, class Queries, class Keys,
          class Values, class T, class BringQueries, class BringKeys, class BringValues, class Meet,
          class Score, class Keep>
__device__ __forceinline__ void mma_attention(T* shared, int rows_here, int64_t key_count,
                                              const BringQueries& bring_queries,
                                              const BringKeys& bring_keys,
                                              const BringValues& bring_values, const Meet& meet,
                                              const Score& score, const Keep& keep) {
    constexpr int keys = Keys::tile_lines;
    constexpr int depth = Queries::tile_depth;
    constexpr int columns = Values::tile_lines;
    static_assert(keys == Values::tile_depth && depth == Keys::tile_depth, "tiles that meet");
    static_assert(Queries::tile_lines == warps * parts * 16, "rows for every warp");
    const int own_row = threadIdx.x / 32 * (parts * 16);
    const KeyTiles<Keys, Values, T, BringKeys, BringValues> tiles{shared + Queries::size, key_count,
                                                                  bring_keys, bring_values};
    bring_queries(shared);
    tiles.bring(0);
    AttendedRows<keys, columns> own[parts];
    for (int64_t step = 0; step < tiles.steps(); ++step) {
        cp_async_wait<0>();
        __syncthreads();  // the step has arrived, and the one before it has been read
        tiles.bring(step + 1);
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
                Keys::right(right, tiles.keys(step), key, at_depth);
#pragma unroll
                for (int part = 0; part < parts; ++part) {
                    mma_pair<T>(&own[part].scores[key / 2], left[part], right);
                }
            }
        }
#pragma unroll
        for (int part = 0; part < parts; ++part) {
            const ScorePlaces<keys, Keys::lane_run, vector> places{
                own_row + part * 16, rows_here, step * keys, tiles.keys_here(step)};
            Met met[2][keys / 4 / vector];
            places.meet_all(met, meet);
            own[part].make_scores(places, met, score);
            own[part].weigh();
        }
#pragma unroll
        for (int key = 0; key < keys; key += 16) {
            std::uint32_t left[parts][4];
#pragma unroll
            for (int part = 0; part < parts; ++part) {
                weight_fragments<T>(left[part], own[part], key);
            }
#pragma unroll
            for (int column = 0; column < columns; column += 16) {
                std::uint32_t right[4];
                Values::right(right, tiles.values(step), column, key);
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
        own[part].template hand_over<column_vector>(own_row + part * 16, rows_here, keep);
    }
    __syncthreads();  // the next tile's copies may overwrite the shared memory
}

}  // namespace fusegen
