// Attention by Hopper's tensor cores.
#pragma once

#include "attention.cuh"
#include "matrix_map.cuh"
#include "stages.cuh"
#include "wgmma_tile.cuh"

namespace fusegen {

// The same as `mma_attention`, with 64 rows for each warpgroup. The tile of the queries comes to
// `queries`, a stage by itself, those of keys and behind them values to the stages of `ring`. Where it
// `overlaps`, a step's scores are multiplied while the values of the step before are.
template <int vector, int column_vector, bool overlaps, int met_registers, class Met,
          class Queries, class Keys, class Values, class T, int stages, class Meet, class Score,
          class Keep, class KeepStatistics>
__device__ __forceinline__ void wgmma_attention(const T* queries, Stages<1>& query_stage,
                                                const T* ring, Stages<stages>& key_stages,
                                                int rows_here, int64_t key_count, float factor,
                                                const Meet& meet, const Score& score,
                                                const Keep& keep,
                                                const KeepStatistics& keep_statistics) {
    constexpr int keys = Keys::tile_lines;
    constexpr int depth = Queries::tile_depth;
    constexpr int columns = Values::tile_lines;
    constexpr int run = Keys::lane_run;
    constexpr int stage_size = Keys::size + Values::size;
    static_assert(keys == Values::tile_depth && depth == Keys::tile_depth, "tiles that meet");
    const int first_line = multiplying_warpgroup() * wgmma_m;
    const int own_row = first_line + static_cast<int>(threadIdx.x) % 128 / 32 * 16;
    const int64_t steps = (key_count + keys - 1) / keys;
    AttendedRows<keys, columns> own;
    own.begin(factor, headroom_of<T>(key_count));
    std::uint32_t weights[keys / wgmma_k<T>][4];
    const auto begin_scores = [&] {
        const T* const tile = ring + key_stages.stage * stage_size;
        key_stages.await();
        wgmma_fence(own.scores);
#pragma unroll
        for (int at_depth = 0; at_depth < depth; at_depth += wgmma_k<T>) {
            wgmma<T, keys, Queries::major, Keys::major>(
                own.scores, Queries::descriptor(queries, first_line, at_depth),
                Keys::descriptor(tile, 0, at_depth), at_depth > 0);
        }
        wgmma_commit();
    };
    const auto begin_results = [&](int stage) {
        const T* const tile = ring + stage * stage_size + Keys::size;
        wgmma_fence(own.results, weights);
#pragma unroll
        for (int i = 0; i < keys / wgmma_k<T>; ++i) {
            wgmma<T, columns, Values::major>(own.results, weights[i],
                                             Values::descriptor(tile, 0, i * wgmma_k<T>));
        }
        wgmma_commit();
    };
    using Places = HeldPlaces<keys, run, vector>;
    const auto places_of = [&](int64_t step) {
        return Places{own_row, rows_here, step * keys, within(key_count, step * keys, keys)};
    };
    // What a step meets is loaded while products are under way, where registers are left.
    MetThere<Met, Places, met_registers, Meet> met(meet);
    const auto make_scores = [&](int64_t step) {
        own.make_scores(places_of(step), met, score);
    };
    const auto hold_weights = [&] {
        own.rescale_results();
#pragma unroll
        for (int i = 0; i < keys / wgmma_k<T>; ++i) {
            left_fragments<T>(weights[i], own.scores, i * wgmma_k<T>);
        }
    };
    query_stage.await();
    if (steps > 0) {
        met.load(places_of(0));
    }
    if constexpr (overlaps) {
        if (steps > 0) {
            begin_scores();
            wgmma_wait<0>(own.scores);
            make_scores(0);
            own.weigh();
            hold_weights();
        }
        for (int64_t step = 1; step < steps; ++step) {
            const Stages<stages> before = key_stages;
            key_stages.next();
            begin_scores();
            begin_results(before.stage);
            met.load(places_of(step));
            wgmma_wait<1>(own.scores);
            make_scores(step);
            own.weigh();
            wgmma_wait<0>(own.results, weights);
            before.release();
            hold_weights();
        }
        if (steps > 0) {
            begin_results(key_stages.stage);
            wgmma_wait<0>(own.results, weights);
            key_stages.release();
            key_stages.next();
        }
    } else {
        for (int64_t step = 0; step < steps; ++step) {
            begin_scores();
            wgmma_wait<0>(own.scores);
            make_scores(step);
            own.weigh();
            hold_weights();
            begin_results(key_stages.stage);
            if (step + 1 < steps) {
                met.load(places_of(step + 1));
            }
            wgmma_wait<0>(own.results, weights);
            key_stages.release();
            key_stages.next();
        }
    }
    query_stage.release();
    query_stage.next();
    if (key_count > 0) {  // of no keys the sums are 0
        own.divide();
    }
    hand_over<column_vector>(own.results, own_row, rows_here, keep);
    own.hand_over_statistics(own_row, rows_here, keep_statistics);
}

}  // namespace fusegen
