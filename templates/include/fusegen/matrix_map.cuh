// Matrices of 16-bit elements of which bulk copies bring whole tiles.
#pragma once

#include <limits>
#include <numeric>

#include "operand_tile.cuh"
#include "tma.cuh"

namespace fusegen {

// What bulk copies must know of matrices that lie apart in `batches` dims. The map's last dim counts
// units: the most elements of which the matrices' strides are multiples, and where tiles' rows come by
// lanes, whose places take three dims, those of rows. So one coordinate tells of each matrix.
template <int batches>
struct MatrixMap {
    TensorMap map;
    int row_units;
    int batch_units[batches];

    // The coordinate of a matrix.
    template <class... Indices>
    __device__ __forceinline__ int place(Indices... indices) const {
        static_assert(sizeof...(indices) == batches, "one index for each dim");
        const int64_t of[batches] = {static_cast<int64_t>(indices)...};
        int found = 0;
#pragma unroll
        for (int i = 0; i < batches; ++i) {
            found += static_cast<int>(of[i]) * batch_units[i];
        }
        return found;
    }
};

// Brings the tile that begins at a line and a depth of the matrix at `place`; its bytes count towards
// the barrier's phase. Its rows are all there; beyond its columns come zeros. One thread does it.
template <class Tile, class T, int batches>
__device__ __forceinline__ void bring_whole(T* tile, const MatrixMap<batches>& matrices,
                                            std::uint64_t* barrier, int place, int64_t first_line,
                                            int64_t first_depth) {
    const int first_row = static_cast<int>(Tile::in_depth ? first_line : first_depth);
    const int first_column = static_cast<int>(Tile::in_depth ? first_depth : first_line);
#pragma unroll
    for (int column = 0; column < Tile::width; column += Tile::Rows::row_size) {
        T* const chunk = tile + column / Tile::Rows::row_size * Tile::Rows::chunk_size;
        if constexpr (Tile::row_order == RowOrder::by_lanes) {
            tma_load_5d(chunk, matrices.map, barrier, first_column + column, 0, 0, 0,
                        place + first_row * matrices.row_units);
        } else {
            tma_load_3d(chunk, matrices.map, barrier, first_column + column, first_row, place);
        }
    }
}

// Describes matrices of `lines` by `depths` for copies of tiles: `stride` elements lie between runs of
// neighbours, and `strides` between the `counts` of matrices in each dim. False where bulk copies do
// not reach them.
template <class Tile, class T, int batches>
bool map_matrices(MatrixMap<batches>* made, const T* first, int64_t lines, int64_t depths,
                  int64_t stride, const int64_t (&counts)[batches],
                  const int64_t (&strides)[batches]) {
    constexpr bool by_lanes = Tile::row_order == RowOrder::by_lanes;
    const int64_t rows = Tile::in_depth ? lines : depths;
    const int64_t columns = Tile::in_depth ? depths : lines;
    int64_t unit = by_lanes ? stride : 0;
    for (int i = 0; i < batches; ++i) {
        unit = std::gcd(unit, counts[i] > 1 ? strides[i] : int64_t{0});
    }
    unit = unit == 0 ? Tile::piece : unit;
    int64_t last = by_lanes ? (rows - 1) * (stride / unit) : 0;
    for (int i = 0; i < batches; ++i) {
        last += (counts[i] - 1) * (strides[i] / unit);
    }
    if (rows < 1 || last >= std::numeric_limits<int>::max()) {
        return false;
    }
    made->row_units = static_cast<int>(stride / unit);
    for (int i = 0; i < batches; ++i) {
        made->batch_units[i] = counts[i] > 1 ? static_cast<int>(strides[i] / unit) : 0;
    }
    constexpr int width = Tile::Rows::row_size;
    if constexpr (by_lanes) {
        // Every lane's rows are neighbours in memory, and come pair by pair.
        constexpr int run = Tile::lane_run;
        return encode_tensor_map<T>(
                   &made->map, TensorTiles<5>{first,
                                              {columns, 2, 4, run / 2, last + 1},
                                              {stride, run * stride, 2 * stride, unit},
                                              {width, 2, 4, run / 2, 1},
                                              Swizzle::bytes_128}) == TensorMapError::none;
    } else {
        return encode_tensor_map<T>(&made->map, TensorTiles<3>{first,
                                                               {columns, rows, last + 1},
                                                               {stride, unit},
                                                               {width, Tile::height, 1},
                                                               Swizzle::bytes_128}) ==
               TensorMapError::none;
    }
}

}  // namespace fusegen
