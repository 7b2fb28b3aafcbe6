// The order in which the blocks of a matrix product take the tiles of the result.
#pragma once

#include "device.cuh"

namespace fusegen {

// Tiles in bands of rows, column by column within a band: those in flight at the same time then
// share rows of the left operand and columns of the right one in the L2 cache.
struct TileOrder {
    static constexpr int band_rows = 8;
    // The most tiles a product may have. Numbers of 32 bits divide several times faster.
    static constexpr int64_t limit = 1 << 30;

    int rows;     // of tiles in a matrix
    int columns;  // of tiles in a matrix

    // Where the tile of this number stands.
    __device__ __forceinline__ void find(int tile, int& batch, int& row, int& column) const {
        batch = tile / (rows * columns);
        const int in_matrix = tile % (rows * columns);
        const int first_row = in_matrix / (band_rows * columns) * band_rows;
        const int height = rows - first_row < band_rows ? rows - first_row : band_rows;
        const int in_band = in_matrix - first_row * columns;
        row = first_row + in_band % height;
        column = in_band / height;
#ifndef FUSEGEN_EMULATE
        // Divided here and now: the compiler would move the divisions behind a tile's products, where
        // nothing else is under way.
        asm volatile("" : "+r"(batch), "+r"(row), "+r"(column));
#endif
    }
};

}  // namespace fusegen
