// Which of a product's kernels on tensor cores is the quickest for the sizes at hand.
#pragma once

#include <limits>

#include "launch.cuh"

namespace fusegen {

// A form of a product on tiles of so many columns, each made by `parts` blocks, or by as many as there
// are among `sharing_blocks`, if any. One block for each multiprocessor takes `fixed` nanoseconds, and
// `per_depth` for each of K, of which there must be `least_depths`, for each part if it is shared.
struct TileWave {
    int columns;
    int parts;
    double fixed;
    double per_depth;
    int64_t least_depths;
    int64_t sharing_blocks;
};

// Which form's tiles are done first; of those that are as quick, the one that stands first. A matrix
// of `columns` has `row_tiles` tiles along its rows, those of all batches together.
template <int forms>
inline int quickest_tile(const TileWave (&waves)[forms], int64_t row_tiles, int64_t columns,
                         int64_t depths, int64_t processors) {
    int quickest = 0;
    double least = std::numeric_limits<double>::infinity();
    for (int form = 0; form < forms; ++form) {
        const TileWave& wave = waves[form];
        const int64_t tiles = row_tiles * divide_up(columns, wave.columns);
        const bool is_shared = wave.sharing_blocks > 0;
        const int64_t shares =
            is_shared ? parts_of_depth(wave.sharing_blocks, tiles, depths, wave.least_depths) : 1;
        if (is_shared ? shares == 1 : depths < wave.least_depths) {
            continue;
        }
        // Clusters of four do not fill the groups of 18 multiprocessors that they must lie in.
        const int64_t usable = wave.parts > 2 ? processors * 8 / 9 : processors;
        const int64_t at_once = usable < wave.parts ? 1 : usable / wave.parts;
        const int64_t turns = is_shared ? 1 : divide_up(tiles, at_once);
        const double depth_of_each = static_cast<double>(depths) / static_cast<double>(shares);
        const double time =
            static_cast<double>(turns) * (wave.fixed + wave.per_depth * depth_of_each);
        if (time < least) {
            quickest = form;
            least = time;
        }
    }
    return quickest;
}

// For `least` to `most` rows, this form was the quickest when all were timed.
struct TunedRows {
    int64_t least;
    int64_t most;
    int form;
};

// The tuned form for so many rows; -1 where there is none.
template <int ranges>
inline int tuned_tile(const TunedRows (&tuned)[ranges], int64_t rows) {
    for (const TunedRows& range : tuned) {
        if (range.least <= rows && rows <= range.most) {
            return range.form;
        }
    }
    return -1;
}

}  // namespace fusegen
