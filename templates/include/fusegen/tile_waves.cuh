// Which of a product's kernels on tensor cores is the quickest for the sizes at hand.
#pragma once

#include "launch.cuh"

namespace fusegen {

// A form of a product on tiles of so many columns. One tile for each multiprocessor takes `fixed`
// nanoseconds, and `per_depth` for each of K.
struct TileWave {
    int columns;
    double fixed;
    double per_depth;
};

// The columns of the form whose tiles are done first; of those that are as quick, the one that stands
// first. A matrix of `columns` has `row_tiles` tiles along its rows, those of all batches together.
template <int forms>
inline int quickest_tile(const TileWave (&waves)[forms], int64_t row_tiles, int64_t columns,
                         int64_t depths, int64_t processors) {
    int quickest = waves[0].columns;
    double least = 0;
    for (const TileWave& wave : waves) {
        const int64_t tiles = row_tiles * divide_up(columns, wave.columns);
        const double time = static_cast<double>(divide_up(tiles, processors)) *
                            (wave.fixed + wave.per_depth * static_cast<double>(depths));
        if (&wave == waves || time < least) {
            quickest = wave.columns;
            least = time;
        }
    }
    return quickest;
}

// For `least` to `most` rows, tiles of so many columns were the quickest when they were timed.
struct TunedRows {
    int64_t least;
    int64_t most;
    int columns;
};

// The tuned columns for so many rows; 0 where there are none.
template <int ranges>
inline int tuned_tile(const TunedRows (&tuned)[ranges], int64_t rows) {
    for (const TunedRows& range : tuned) {
        if (range.least <= rows && rows <= range.most) {
            return range.columns;
        }
    }
    return 0;
}

}  // namespace fusegen
