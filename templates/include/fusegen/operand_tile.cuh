// Tiles of 16-bit operands in shared memory, and what brings them there.
#pragma once

#include "addressing.cuh"
#include "mma.cuh"
#include "neighbours.cuh"

namespace fusegen {

// A tile's rows one after the other, padded by 16 bytes, which keeps those that a warp reads together
// in different banks.
template <class T, int height, int width>
struct PaddedRows {
    static constexpr int pitch = width + access_bytes / static_cast<int>(sizeof(T));
    static constexpr int size = height * pitch;

    static __device__ __forceinline__ int at(int row, int column) { return row * pitch + column; }
};

// Chunks of rows of 128 bytes, as wgmma reads them: the 16-byte pieces of a row are exchanged by the
// row's number modulo 8 (PTX ISA, 128-byte swizzle).
template <class T, int height, int width>
struct SwizzledRows {
    static constexpr int piece = access_bytes / static_cast<int>(sizeof(T));
    static constexpr int row_size = 8 * piece;
    static constexpr int chunk_size = height * row_size;
    static constexpr int size = (width + row_size - 1) / row_size * chunk_size;
    static_assert(height % 8 == 0, "chunks that begin with a swizzle's first row");

    static __device__ __forceinline__ int at(int row, int column) {
        return column / row_size * chunk_size + row * row_size +
               (column / piece % 8 ^ row % 8) * piece + column % piece;
    }
};

// A stride below this is one of 32 bits for all rows of a tile.
constexpr int64_t stride_limit = int64_t{1} << 24;

// Which rows of memory follow each other in a tile. Of every 8 neighbouring columns of a product the
// tensor cores leave a lane two. With `by_lanes` rows come in an order in which these are, pair by
// pair, neighbours in memory: a fourth of the tile's rows for each lane.
enum class RowOrder { as_is, by_lanes };

// A block's tile of an operand: `lines` rows of the left operand or columns of the right one by
// `depth` of what is summed over. Its rows are runs of neighbours in memory.
template <class T, int lines, int depth, Neighbours neighbours,
          template <class, int, int> class Layout, RowOrder order = RowOrder::as_is>
struct OperandTile {
    static constexpr bool in_depth = neighbours == Neighbours::in_depth;
    static constexpr int piece = access_bytes / static_cast<int>(sizeof(T));
    static constexpr int width = in_depth ? depth : lines;
    static constexpr int height = in_depth ? lines : depth;
    using Rows = Layout<T, height, width>;
    static constexpr int size = Rows::size;
    static constexpr int tile_lines = lines;
    static constexpr int tile_depth = depth;
    static constexpr RowOrder row_order = order;
    static constexpr int all_pieces = height * width / piece;  // of 16 bytes
    // How many rows that are neighbours in memory a lane is left.
    static constexpr int lane_run = order == RowOrder::by_lanes ? height / 4 : 2;

    // Where an element stands in the tile, by its place in memory.
    static __device__ __forceinline__ int place(int row, int column) {
        if constexpr (order == RowOrder::by_lanes) {
            row = row % lane_run / 2 * 8 + row / lane_run * 2 + row % 2;
        }
        return Rows::at(row, column);
    }

    // Brings the tile that begins at `first_line` and `first_depth` of a matrix of `line_count` by
    // `depth_count`, with zeros beyond it; `stride` elements lie between runs of neighbours, an int
    // if that is less than `stride_limit`. `together` pieces are copied at a time, which takes
    // registers.
    template <int threads, int together = all_pieces, class Stride>
    static __device__ __forceinline__ void load(T* tile, const T* matrix, Stride stride,
                                                int64_t first_line, int64_t line_count,
                                                int64_t first_depth, int64_t depth_count) {
        const int lines_here = within(line_count, first_line, lines);
        const int depth_here = within(depth_count, first_depth, depth);
        const int rows_here = in_depth ? lines_here : depth_here;
        const int columns_here = in_depth ? depth_here : lines_here;
        const T* const first = matrix + (in_depth ? first_line : first_depth) * int64_t{stride} +
                               (in_depth ? first_depth : first_line);
        if (rows_here == height && columns_here == width) {
            for_each_piece<threads, together>([&](int row, int column) {
                cp_async(tile + place(row, column), first + (row * stride + column));
            });
            return;
        }
        for_each_piece<threads, together>([&](int row, int column) {
            const int there = row < rows_here ? columns_here - column : 0;
            const int copied = there < 0 ? 0 : there < piece ? there : piece;
            cp_async(tile + place(row, column),
                     there > 0 ? first + (row * stride + column) : matrix,
                     copied * static_cast<int>(sizeof(T)));
        });
    }

    // The same by one element at a time, of which `element` gives that of a line and depth.
    template <int threads, class Element>
    static __device__ __forceinline__ void load_each(T* tile, int64_t first_line,
                                                     int64_t line_count, int64_t first_depth,
                                                     int64_t depth_count, const Element& element) {
        const int lines_here = within(line_count, first_line, lines);
        const int depth_here = within(depth_count, first_depth, depth);
        for (int i = threadIdx.x; i < height * width; i += threads) {
            const int line = in_depth ? i / width : i % width;
            const int at_depth = in_depth ? i % width : i / width;
            T brought = convert<T>(0.0f);
            if (line < lines_here && at_depth < depth_here) {
                brought = element(first_line + line, first_depth + at_depth);
            }
            tile[place(i / width, i % width)] = brought;
        }
    }

    // Replaces the pieces that this thread has brought of that tile, once they are there.
    template <int threads, class Prepare>
    static __device__ __forceinline__ void prepare(T* tile, int64_t first_line, int64_t line_count,
                                                   int64_t first_depth, int64_t depth_count,
                                                   const Prepare& prepare_piece) {
        const int lines_here = within(line_count, first_line, lines);
        const int depth_here = within(depth_count, first_depth, depth);
        for_each_piece<threads, all_pieces>([&](int row, int column) {
            const int line = in_depth ? row : column;
            const int at_depth = in_depth ? column : row;
            if (line < lines_here && at_depth < depth_here) {
                T* const brought_to = tile + place(row, column);
                auto brought = load_vector<T, piece>(brought_to);
                prepare_piece(first_depth + at_depth)(brought, first_line + line);
                store_vector(brought_to, brought);
            }
        });
    }

    // Calls visit(row, column) for each piece that this thread, one of `threads`, has to bring,
    // `together` at a time.
    template <int threads, int together, class Visit>
    static __device__ __forceinline__ void for_each_piece(const Visit& visit) {
        constexpr int turns = (all_pieces + threads - 1) / threads;
#pragma unroll(together)
        for (int turn = 0; turn < turns; ++turn) {
            const int i = turn * threads + static_cast<int>(threadIdx.x);
            if (all_pieces % threads == 0 || i < all_pieces) {
                visit(i / (width / piece), i % (width / piece) * piece);
            }
        }
    }
};

}  // namespace fusegen
