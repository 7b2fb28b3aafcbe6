// Matrix products outside the tensor cores, tile by tile through shared memory: of any type, size
// and layout, as they take their operands' elements one by one.
#pragma once

#include "dtypes.cuh"
#include "neighbours.cuh"

#include <type_traits>
#include <utility>

namespace fusegen {

// Which elements of an operand `threads` threads bring for a step: `lines` of it (rows of the left
// operand, columns of the right one), `depth` of K each. In shared memory lines lie side by side.
template <class T, int lines, int depth_, int threads, Neighbours neighbours>
struct TileOperand {
    static constexpr int depth = depth_;
    static constexpr bool in_depth = neighbours == Neighbours::in_depth;
    // Neighbours in depth are brought in runs of 8, 4 lines a warp: the 16 bytes behind the lines
    // then spread what a warp stores over all banks.
    static constexpr int pitch = lines + access_bytes / static_cast<int>(sizeof(T));
    static constexpr int size = depth * pitch;
    static constexpr int run = in_depth ? 8 : lines;
    static constexpr int runs = threads / run;
    // A thread's elements lie on so many lines, and on each so far apart.
    static constexpr int own_lines = in_depth ? lines / runs : 1;
    static constexpr int distance = in_depth ? run : runs;
    static constexpr int count = lines * depth / threads;
    static_assert(threads % run == 0 && count * threads == lines * depth, "no thread is idle");
    static_assert(count % own_lines == 0 && own_lines * (in_depth ? runs : run) == lines &&
                      count / own_lines * distance == depth,
                  "whole runs");

    // The line of its i-th element, and the depth.
    static __device__ __forceinline__ int line(int i) {
        const int thread = threadIdx.x;
        return in_depth ? thread / run + i % own_lines * runs : thread % run;
    }
    static __device__ __forceinline__ int at_depth(int i) {
        const int thread = threadIdx.x;
        return (in_depth ? thread % run : thread / run) + i / own_lines * distance;
    }
};

// A thread's way along K through an operand, of which `source(line, depth)` are the elements. In
// place of lines that do not exist it has the last one, as nobody reads their sums.
template <class T, class Operand, class Source>
class TileElements {
public:
    __device__ __forceinline__ TileElements(const Source& source, int64_t first_line,
                                            int64_t all_lines, int64_t first_depth)
        : source_(source), first_depth_(first_depth) {
#pragma unroll
        for (int i = 0; i < Operand::own_lines; ++i) {
            const int64_t line = first_line + Operand::line(i);
            lines_[i] = line < all_lines ? line : all_lines - 1;
        }
    }
    __device__ __forceinline__ T load(int i) const {
        return source_(lines_[i % Operand::own_lines], first_depth_ + Operand::at_depth(i));
    }
    __device__ __forceinline__ void advance() { first_depth_ += Operand::depth; }

private:
    const Source& source_;
    int64_t first_depth_;
    int64_t lines_[Operand::own_lines];
};

// The same where `place(line, depth)` points to them, and they lie evenly apart in depth: so their
// places are not told anew for each.
template <class T, class Operand, class Place>
class EvenTileElements {
public:
    __device__ __forceinline__ EvenTileElements(const Place& place, int64_t first_line,
                                                int64_t all_lines, int64_t first_depth)
        : stride_(place(first_line, 1) - place(first_line, 0)) {
#pragma unroll
        for (int i = 0; i < Operand::own_lines; ++i) {
            const int64_t line = first_line + Operand::line(i);
            places_[i] = place(line < all_lines ? line : all_lines - 1,
                               first_depth + Operand::at_depth(0));
        }
    }
    __device__ __forceinline__ T load(int i) const {
        const int64_t before = i / Operand::own_lines * Operand::distance;
        return convert<T>(places_[i % Operand::own_lines][before * stride_]);
    }
    __device__ __forceinline__ void advance() {
#pragma unroll
        for (int i = 0; i < Operand::own_lines; ++i) {
            places_[i] += Operand::depth * stride_;
        }
    }

private:
    decltype(std::declval<Place>()(0, 0)) places_[Operand::own_lines];
    int64_t stride_;
};

// Brings a thread's elements of an operand, step after step.
template <class T, class Operand, class Source>
class TileLoader {
public:
    __device__ __forceinline__ TileLoader(const Source& source, int64_t first_line,
                                          int64_t all_lines, int64_t first_depth)
        : elements_(source, first_line, all_lines, first_depth) {}

    // Loads the next step's elements, of which `depth_left` of K exist. Beyond them are zeros.
    __device__ __forceinline__ void bring(int64_t depth_left) {
        if (depth_left >= Operand::depth) {
#pragma unroll
            for (int i = 0; i < Operand::count; ++i) {
                brought_[i] = elements_.load(i);
            }
        } else {
            const int depth_here = static_cast<int>(depth_left);
#pragma unroll
            for (int i = 0; i < Operand::count; ++i) {
                brought_[i] = Operand::at_depth(i) < depth_here ? elements_.load(i) : T(0);
            }
        }
        elements_.advance();
    }

    // Stores them to shared memory.
    __device__ __forceinline__ void leave(T* tile) const {
#pragma unroll
        for (int i = 0; i < Operand::count; ++i) {
            tile[Operand::at_depth(i) * Operand::pitch + Operand::line(i)] = brought_[i];
        }
    }

private:
    static constexpr bool is_place =
        std::is_pointer<decltype(std::declval<Source>()(0, 0))>::value;

    std::conditional_t<is_place, EvenTileElements<T, Operand, Source>,
                       TileElements<T, Operand, Source>>
        elements_;
    T brought_[Operand::count];
};

// A block's tile of the result, `tile_rows` x `tile_columns`, for which it takes steps of `depth`
// of K. Each thread has `own_rows` x `own_columns` of it, in pieces of 16 bytes at most each way.
template <class T, int tile_rows, int tile_columns, int depth, int own_rows, int own_columns,
          Neighbours left_neighbours, Neighbours right_neighbours>
struct SharedTile {
    static constexpr int piece = sizeof(T) > 4 ? access_bytes / static_cast<int>(sizeof(T)) : 4;
    static constexpr int thread_rows = tile_rows / own_rows;
    static constexpr int thread_columns = tile_columns / own_columns;
    static constexpr int threads = thread_rows * thread_columns;
    static_assert(own_rows % piece == 0 && own_columns % piece == 0, "whole pieces");
    static_assert(thread_rows % 4 == 0 && thread_columns % 8 == 0, "whole warps of 4 x 8 threads");

    using Left = TileOperand<T, tile_rows, depth, threads, left_neighbours>;
    using Right = TileOperand<T, tile_columns, depth, threads, right_neighbours>;
    static constexpr int stage_size = Left::size + Right::size;
    static constexpr int shared_size = 2 * stage_size;
    using Sums = T[own_rows][own_columns];

    // Lanes 1 apart share rows and lanes 2 apart columns: loads of 16 bytes of which neither holds
    // take twice as long.
    static __device__ __forceinline__ int thread_row() {
        const int thread = threadIdx.x;
        return thread / 32 % (thread_rows / 4) * 4 + thread / 2 % 4;
    }
    static __device__ __forceinline__ int thread_column() {
        const int thread = threadIdx.x;
        return thread / 32 / (thread_rows / 4) * 8 + thread % 32 / 8 * 2 + thread % 2;
    }
    // The places in the tile of a thread's sums.
    static __device__ __forceinline__ int row(int i) {
        return (i / piece * thread_rows + thread_row()) * piece + i % piece;
    }
    static __device__ __forceinline__ int column(int j) {
        return (j / piece * thread_columns + thread_column()) * piece + j % piece;
    }

    // Adds the products of the K from `depth_start` to `depth_end` to a thread's `sums`. The
    // operands' elements are `left(row, depth)` and `right(column, depth)`, or the places of these,
    // if they lie evenly apart in depth.
    template <class LeftSource, class RightSource>
    static __device__ __forceinline__ void multiply(const LeftSource& left, int64_t first_row,
                                                    int64_t rows, const RightSource& right,
                                                    int64_t first_column, int64_t columns,
                                                    int64_t depth_start, int64_t depth_end,
                                                    T* shared, Sums& sums) {
        TileLoader<T, Left, LeftSource> next_left(left, first_row, rows, depth_start);
        TileLoader<T, Right, RightSource> next_right(right, first_column, columns, depth_start);
        int64_t depth_left = depth_end - depth_start;
        next_left.bring(depth_left);
        next_right.bring(depth_left);
        next_left.leave(shared);
        next_right.leave(shared + Left::size);
        __syncthreads();
        int stage = 0;  // where the step's elements begin
        for (; depth_left > 0; depth_left -= depth) {
            // The next step's elements are on their way during this one's products.
            const bool has_next = depth_left > depth;
            if (has_next) {
                next_left.bring(depth_left - depth);
                next_right.bring(depth_left - depth);
            }
            add_step(shared + stage, sums);
            stage = stage_size - stage;
            if (has_next) {
                next_left.leave(shared + stage);
                next_right.leave(shared + stage + Left::size);
            }
            __syncthreads();
        }
    }

    static __device__ __forceinline__ void add_step(const T* tiles, Sums& sums) {
        const T* const left = tiles + thread_row() * piece;
        const T* const right = tiles + Left::size + thread_column() * piece;
        // A short sum of its own for each step keeps the rounding error of long ones down.
        Sums step = {};
#pragma unroll
        for (int k = 0; k < depth; ++k) {
            Vector<T, piece> own_left[own_rows / piece];
            Vector<T, piece> own_right[own_columns / piece];
#pragma unroll
            for (int i = 0; i < own_rows / piece; ++i) {
                const int first_row = i * thread_rows * piece;
                own_left[i] = load_vector<T, piece>(left + k * Left::pitch + first_row);
            }
#pragma unroll
            for (int j = 0; j < own_columns / piece; ++j) {
                const int first_column = j * thread_columns * piece;
                own_right[j] = load_vector<T, piece>(right + k * Right::pitch + first_column);
            }
#pragma unroll
            for (int i = 0; i < own_rows; ++i) {
#pragma unroll
                for (int j = 0; j < own_columns; ++j) {
                    step[i][j] += own_left[i / piece][i % piece] * own_right[j / piece][j % piece];
                }
            }
        }
#pragma unroll
        for (int i = 0; i < own_rows; ++i) {
#pragma unroll
            for (int j = 0; j < own_columns; ++j) {
                sums[i][j] += step[i][j];
            }
        }
    }
};

}  // namespace fusegen
