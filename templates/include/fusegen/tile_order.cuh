// The order in which the blocks of a matrix product take the tiles of the result.
#pragma once

#include "device.cuh"

namespace fusegen {

// Tiles in bands of rows, column by column within a band: those in flight at the same time then
// share rows of the left operand and columns of the right one in the L2 cache.
struct TileOrder {
    static constexpr int64_t band_rows = 8;

    int64_t rows;     // of tiles in a matrix
    int64_t columns;  // of tiles in a matrix

    // Where the tile of this number stands.
    __device__ __forceinline__ void find(int64_t tile, int64_t& batch, int64_t& row,
                                         int64_t& column) const {
        batch = tile / (rows * columns);
        const int64_t in_matrix = tile % (rows * columns);
        const int64_t first_row = in_matrix / (band_rows * columns) * band_rows;
        const int64_t height = rows - first_row < band_rows ? rows - first_row : band_rows;
        const int64_t in_band = in_matrix - first_row * columns;
        row = first_row + in_band % height;
        column = in_band / height;
    }
};

}  // namespace fusegen
