// float32 operands of a matrix product as float16 parts, so that the tensor cores multiply them as
// accurately as float32 arithmetic does.
//
// A line of an operand (a row of the left one, a column of the right one) is multiplied by the power
// of two that brings its greatest magnitude to [2^14, 2^15). The high part is the value rounded to
// float16; the low part is what that lacks, times 2^11, in float16 again. With 11 bits each they
// have 22 bits of the value and its sign, for elements down to 2^-28 of the greatest. The product is
// high x high + (high x low + low x high) / 2^11.
//
// What smaller elements lose is bounded line by line. `loss` is the least magnitude that a product
// with the line may have for what was lost to be below 2^-24 of it, infinite for a line that must
// not be split at all. A product below it is still right if the line's greatest element adds more
// than that to it, before others cancel it: float32 would round that away. Others are computed again
// from three bfloat16 parts each (wide_split.cuh) or in float32. So are lines of few elements, whose sums
// have fewer rounding errors in float32 than the parts have; where the epilogue takes each element by
// itself, a kernel of their own multiplies what is not 0 of them.
#pragma once

#include "cluster.cuh"
#include "launch.cuh"
#include "reduce.cuh"

namespace fusegen {

// Whether the split form is quicker than the shared-memory tile, of which each is one block's where
// there is a split form, too: it has a tenth of the work, but the operands are written and read once
// more (3 TB/s on an H100, against the 18 Tflop/s that the tile had when this was fitted), three kernels
// are launched, and below 512 of K the parts' rounding shows beside the sum's.
inline bool split_pays(int64_t batches, int64_t rows, int64_t columns, int64_t depths) {
#ifdef FUSEGEN_EMULATE
    return batches * rows * columns * depths > 0;  // so that small tests take it
#else
    return depths >= 512 && rows * columns >= 48 * (rows + columns) &&
           batches * rows * columns >= (int64_t{1} << 27) / depths;
#endif
}

// The number, or the odd one before it.
inline int64_t odd(int64_t number) { return number - (number + 1) % 2; }

// Lines of float16 parts begin at multiples of 16 bytes, as bulk copies demand.
constexpr int part_alignment = 8;
constexpr float low_part_scale = 2048.0f;  // 2^11
// A line has few elements if fewer than these are not 0.
constexpr int few_elements = 32;

// What a line of the parts is to be multiplied by, in two factors that are powers of 2, its loss, and
// where its greatest element is. `place` is that, or its complement where the line has elements that
// three bfloat16 parts would not have all bits of either.
struct alignas(16) LineScale {
    static constexpr float few_elements_loss = -3.40282347e38f;  // outweighed by all but an infinite one

    float first;
    float second;
    float loss;
    std::int32_t place;

    // Of a line that was multiplied by 2^exponent.
    static __device__ __forceinline__ LineScale of(int exponent, float loss, std::int32_t place) {
        const int half = exponent / 2;
        return {power_of_two(-half), power_of_two(half - exponent), loss, place};
    }

    // What the line was multiplied by.
    __device__ __forceinline__ float scale() const {
        const auto biased = [](float power) { return static_cast<int>(__float_as_uint(power) >> 23); };
        return power_of_two(254 - biased(first) - biased(second));
    }
    __device__ __forceinline__ bool must_not_be_split() const {
        return loss == __int_as_float(0x7f800000);
    }
    // Whether a kernel of its own computes the line's products.
    __device__ __forceinline__ bool has_few_elements() const { return loss == few_elements_loss; }
    __device__ __forceinline__ bool has_tiny_elements() const { return place < 0; }
    __device__ __forceinline__ std::int32_t greatest_at() const {
        return place < 0 ? ~place : place;
    }
};

// The scale of a line of zeros, which loses nothing whatever the other line has lost.
__device__ __forceinline__ LineScale zero_line() {
    return LineScale::of(0, __int_as_float(0xff800000u), 0);
}

// Adds `sums` to `totals` and leaves in `sums` what rounding these loses, so that the next products are
// added to that and rounding errors do not add up (Fast2Sum: Dekker 1971). `taken` is exact, and so is
// the last sum, for which `totals` need no second set of registers.
template <int count>
__device__ __forceinline__ void promote(float (&totals)[count], float (&sums)[count]) {
#pragma unroll
    for (int i = 0; i < count; ++i) {
        const float taken = (totals[i] + sums[i]) - totals[i];
        sums[i] -= taken;
        totals[i] += taken;
    }
}

// A product of two lines' parts without their powers of two, rounded once: either factor, of two
// lines' halves, is a normal number.
__device__ __forceinline__ float without_scale(float product, const LineScale& left,
                                               const LineScale& right) {
    return product * (left.first * right.first) * (left.second * right.second);
}

// The greatest magnitude of a line by its bits, which order NaN and infinity above all numbers, and
// where it is.
struct GreatestBits {
    unsigned bits;
    std::int32_t position;

    static __device__ __forceinline__ GreatestBits identity() { return {0, 0}; }
    __device__ __forceinline__ void push(float x, int64_t at) {
        merge({__float_as_uint(x) & 0x7fffffffu, static_cast<std::int32_t>(at)});
    }
    __device__ __forceinline__ void merge(const GreatestBits& other) {
        position = other.bits > bits ? other.position : position;
        bits = other.bits > bits ? other.bits : bits;
    }

    // Whether the line is finite and not so small that its scale would overflow.
    __device__ __forceinline__ bool can_be_scaled() const {
        constexpr unsigned least = (127 - 100) << 23;
        return bits >= least && bits < infinity;
    }
    __device__ __forceinline__ bool is_finite() const { return bits < infinity; }
    // That of the greatest power of two for smaller lines, none for others.
    __device__ __forceinline__ int scale_exponent() const {
        const int exponent = 14 + 127 - static_cast<int>(bits >> 23);
        return bits >= infinity ? 0 : exponent < 127 ? exponent : 127;
    }

private:
    static constexpr unsigned infinity = 255u << 23;
};

// How many elements have all their bits, how many would not have them in three bfloat16 parts either,
// and what those that have not have lost together: 0 if there are none.
struct SplitLoss {
    int whole;
    int tiny;
    float lost;

    static __device__ __forceinline__ SplitLoss identity() { return {0, 0, 0.0f}; }
    __device__ __forceinline__ void merge(const SplitLoss& other) {
        whole += other.whole;
        tiny += other.tiny;
        lost += other.lost;
    }

    // The line's scale and loss. A sum of few products has fewer rounding errors in float32 than
    // the parts have; with `few_apart`, a line of few elements is for a kernel of its own.
    template <bool few_apart>
    __device__ __forceinline__ LineScale of_line(const GreatestBits& greatest) const {
        constexpr float per_lost = 549755813888.0f;  // 2^39: 2^24, and elements are below 2^15
        if (greatest.bits == 0) {
            return zero_line();
        }
        const bool is_split = greatest.can_be_scaled() && whole >= few_elements;
        const bool is_apart = few_apart && greatest.is_finite() && whole < few_elements && lost == 0;
        return LineScale::of(greatest.scale_exponent(),
                             is_apart   ? LineScale::few_elements_loss
                             : is_split ? lost * per_lost
                                        : __int_as_float(0x7f800000),
                             tiny > 0 ? ~greatest.position : greatest.position);
    }
};

// Splits one element of a line that is multiplied by `scale`.
__device__ __forceinline__ void split_element(float x, float scale, float16& high, float16& low,
                                              SplitLoss& loss) {
    constexpr float least_whole = 1.0f / 4096, least_normal = 1.17549435e-38f;
    constexpr float least_of_three_parts = least_normal * 131072.0f;  // the last is 2^-17 of it
    const float scaled = x * scale;
    high = round_to<float16>(scaled);
    const float rest = scaled - to_float(high);
    low = round_to<float16>(rest * low_part_scale);
    if (fabsf(scaled) >= least_whole) {
        ++loss.whole;
    } else if (x != 0.0f) {  // the scale itself may have made it 0
        loss.tiny += fabsf(scaled) < least_of_three_parts;
        loss.lost += fmaxf(fabsf(rest - to_float(low) * (1 / low_part_scale)), least_normal);
    }
}

// Whether a product of two lines' parts is below what these may have lost, or not a number.
__device__ __forceinline__ bool is_below_loss(float product, const LineScale& left,
                                              const LineScale& right) {
    return !(fabsf(product) >= left.loss + right.loss);
}

// Whether a product that is below the sum of its lines' losses is right all the same: `left` and
// `right` are the high parts of the two lines. Nothing outweighs an infinite loss, not even an
// infinity in the line: its low part is no number.
__device__ __forceinline__ bool outweighs_loss(const LineScale& left_scale,
                                               const LineScale& right_scale, const float16* left,
                                               const float16* right) {
    constexpr float least_greatest = 16384.0f;  // 2^14
    const float loss = left_scale.loss + right_scale.loss;
    return least_greatest * fabsf(to_float(right[left_scale.greatest_at()])) > loss ||
           least_greatest * fabsf(to_float(left[right_scale.greatest_at()])) > loss;
}

// The tile of the split form. It has marks that tell which of its products are to be computed again:
// each is for the rows of a warp and the columns of a tile of those forms.
constexpr int split_tile = 128;
constexpr int flag_rows = 16;
constexpr int flag_columns = 64;

// Where the mark is.
__device__ __forceinline__ int64_t flag_position(int64_t rows, int64_t columns, int64_t batch,
                                                 int64_t row, int64_t column) {
    const int64_t row_flags = (rows + split_tile - 1) / split_tile * (split_tile / flag_rows);
    const int64_t column_flags =
        (columns + split_tile - 1) / split_tile * (split_tile / flag_columns);
    return (batch * row_flags + row / flag_rows) * column_flags + column / flag_columns;
}

// Whether a tile of `height` rows and `width` columns from there on has one; it lies in one tile of
// the split form.
__device__ __forceinline__ bool is_flagged(const std::uint8_t* flags, int64_t rows, int64_t columns,
                                           int64_t batch, int64_t first_row, int height,
                                           int64_t first_column, int width) {
    bool is_any = false;
    for (int row = 0; row < height; row += flag_rows) {
        for (int column = 0; column < width; column += flag_columns) {
            is_any |= flags[flag_position(rows, columns, batch, first_row + row,
                                          first_column + column)] != 0;
        }
    }
    return is_any;
}

// Whether all of a tile is to be computed again for the lines alone that go through it: one that
// must not be split for each of its marks. A warp's lanes decide together; lines are counted from
// the tile's first ones.
__device__ __forceinline__ bool is_beyond_parts(const LineScale* left, int rows,
                                                const LineScale* right, int columns) {
    constexpr int warp = 32;
    const int lane = threadIdx.x % warp;
    bool by_rows = true, by_columns[split_tile / flag_columns] = {};
#pragma unroll
    for (int first = 0; first < split_tile; first += warp) {
        const int line = first + lane;
        const unsigned marked =
            __ballot_sync(whole_warp, line < rows && left[line].must_not_be_split());
        const unsigned upper = marked >> flag_rows, lower = marked & ((1u << flag_rows) - 1);
        by_rows &= (first >= rows || lower != 0) && (first + flag_rows >= rows || upper != 0);
        by_columns[first / flag_columns] |=
            __any_sync(whole_warp, line < columns && right[line].must_not_be_split()) != 0;
    }
    return by_rows || (by_columns[0] && (by_columns[1] || columns <= flag_columns));
}

// Elements that a thread reads and writes at a time, and the threads of a block that splits a line, or
// several.
constexpr int split_vector = 4;
constexpr int split_line_threads = 256, split_lines_threads = 512;

// Four neighbours of a line, zeros behind its end. `contiguous` is the line in memory if it can be
// read by wide accesses, else null; `element(depth)` is one of its elements.
template <class Element>
__device__ __forceinline__ Vector<float, split_vector> read_line(const float* contiguous,
                                                                 Element element, int64_t depth,
                                                                 int64_t depths) {
    if (contiguous != nullptr && depth + split_vector <= depths) {
        return load_vector<float, split_vector>(contiguous + depth);
    }
    Vector<float, split_vector> x;
#pragma unroll
    for (int i = 0; i < split_vector; ++i) {
        x[i] = depth + i < depths ? element(depth + i) : 0.0f;
    }
    return x;
}

// Splits four elements and writes their parts.
__device__ __forceinline__ void split_four(const Vector<float, split_vector>& x, float scale,
                                           float16* high, float16* low, SplitLoss& loss) {
    Vector<float16, split_vector> high_parts, low_parts;
#pragma unroll
    for (int i = 0; i < split_vector; ++i) {
        split_element(x[i], scale, high_parts[i], low_parts[i], loss);
    }
    store_vector(high, high_parts);
    store_vector(low, low_parts);
}

// A block of `threads` splits a line of `depths` elements into parts of `pitch`, a multiple of
// part_alignment. The line's first elements wait in registers while its greatest is found. `turn` is
// that of reduce_block.
template <int threads, bool few_apart, class Element>
__device__ __forceinline__ void split_line(const float* contiguous, Element element, int64_t depths,
                                           int64_t pitch, float16* high, float16* low,
                                           LineScale* scale_of_line, int& turn) {
    constexpr int kept = 8, step = threads * split_vector;
    const int64_t own = static_cast<int64_t>(threadIdx.x) * split_vector;
    Vector<float, split_vector> first[kept];
    GreatestBits greatest = GreatestBits::identity();
#pragma unroll
    for (int i = 0; i < kept; ++i) {
        first[i] = read_line(contiguous, element, own + i * step, depths);
    }
#pragma unroll
    for (int i = 0; i < kept; ++i) {
#pragma unroll
        for (int j = 0; j < split_vector; ++j) {
            greatest.push(first[i][j], own + i * step + j);
        }
    }
    for (int64_t depth = own + kept * step; depth < depths; depth += step) {
        const Vector<float, split_vector> x = read_line(contiguous, element, depth, depths);
#pragma unroll
        for (int j = 0; j < split_vector; ++j) {
            greatest.push(x[j], depth + j);
        }
    }
    greatest = reduce_block<threads>(greatest, turn);
    const float scale = power_of_two(greatest.scale_exponent());
    SplitLoss loss = SplitLoss::identity();
#pragma unroll
    for (int i = 0; i < kept; ++i) {
        const int64_t depth = own + i * step;
        if (depth < pitch) {
            split_four(first[i], scale, high + depth, low + depth, loss);
        }
    }
    for (int64_t depth = own + kept * step; depth < pitch; depth += step) {
        split_four(read_line(contiguous, element, depth, depths), scale, high + depth, low + depth,
                   loss);
    }
    loss = reduce_block<threads>(loss, turn);
    if (threadIdx.x == 0) {
        *scale_of_line = loss.template of_line<few_apart>(greatest);
    }
}

// The same for up to 32 neighbouring lines of which `element(line, depth)` is an element, where
// neighbouring lines are neighbours in memory: parts are turned around in shared memory. The lines are
// read twice, the second time from the end, of which the cache still has something. Where there are
// few lines the blocks of a cluster share their depth.
constexpr int split_lines_count = 32;

// How many blocks share each of so many chunks of lines: about one for each multiprocessor of an H100
// in all, with some steps each.
inline int64_t split_shares(int64_t chunks, int64_t depths) {
    constexpr int64_t blocks = 128, most = 8, least_depths = 1024;
    const int64_t shares = parts_of_depth(blocks, chunks, depths, least_depths);
    return shares < most ? shares : most;
}

// The merged state of the blocks that share a chunk of lines, in their order, for each line.
template <int count, class State>
__device__ __forceinline__ State merge_shares(State state, int shares) {
#if FUSEGEN_HAS_CLUSTERS
    if (shares > 1) {
        FUSEGEN_SHARED(State, own_states, count);
        const int line = threadIdx.x % count;
        if (threadIdx.x < count) {
            own_states[line] = state;
        }
        cluster_sync();
        state = *cluster_shared(&own_states[line], 0);
        for (int share = 1; share < shares; ++share) {
            state.merge(*cluster_shared(&own_states[line], share));
        }
        cluster_sync();  // nobody ends, or writes again, while another reads
    }
#endif
    return state;
}

template <int threads, bool few_apart, class Element>
__device__ __forceinline__ void split_lines(Element element, int64_t lines, int64_t depths,
                                            int64_t pitch, float16* high, float16* low,
                                            LineScale* scales, int share, int shares) {
    constexpr int count = split_lines_count, ways = threads / count, vectors = 4;
    constexpr int tile_depth = vectors * ways * split_vector, tile_pitch = tile_depth + split_vector;
    constexpr int runs = tile_depth / split_vector;
    FUSEGEN_SHARED(float16, high_tile, count * tile_pitch);
    FUSEGEN_SHARED(float16, low_tile, count * tile_pitch);
    const int line = threadIdx.x % count;
    const int way = threadIdx.x / count;
    const int64_t tiles = (pitch + tile_depth - 1) / tile_depth;
    const int64_t first_tile = tiles * share / shares, last_tile = tiles * (share + 1) / shares;
    const int64_t end = last_tile * tile_depth < depths ? last_tile * tile_depth : depths;
    GreatestBits greatest = GreatestBits::identity();
#pragma unroll 16
    for (int64_t depth = first_tile * tile_depth + way; depth < end; depth += ways) {
        greatest.push(line < lines ? element(line, depth) : 0.0f, depth);
    }
    greatest = merge_shares<count>(reduce_outer<count, ways>(greatest), shares);
    const float scale = power_of_two(greatest.scale_exponent());
    SplitLoss loss = SplitLoss::identity();
    for (int64_t tile = last_tile - 1; tile >= first_tile; --tile) {
        const int64_t first_depth = tile * tile_depth;
        Vector<float, split_vector> x[vectors];
#pragma unroll
        for (int i = 0; i < vectors; ++i) {
#pragma unroll
            for (int j = 0; j < split_vector; ++j) {
                const int64_t depth = first_depth + (way + i * ways) * split_vector + j;
                x[i][j] = line < lines && depth < depths ? element(line, depth) : 0.0f;
            }
        }
        __syncthreads();  // the tile before this one has been written
#pragma unroll
        for (int i = 0; i < vectors; ++i) {
            const int place = line * tile_pitch + (way + i * ways) * split_vector;
            split_four(x[i], scale, high_tile + place, low_tile + place, loss);
        }
        __syncthreads();
        for (int i = threadIdx.x; i < count * runs; i += threads) {
            const int row = i / runs, run = i % runs * split_vector;
            const int64_t depth = first_depth + run;
            if (row < lines && depth < pitch) {
                const int place = row * tile_pitch + run;
                store_vector(high + row * pitch + depth,
                             load_vector<float16, split_vector>(high_tile + place));
                store_vector(low + row * pitch + depth,
                             load_vector<float16, split_vector>(low_tile + place));
            }
        }
    }
    loss = merge_shares<count>(reduce_outer<count, ways>(loss), shares);
    if (share == 0 && way == 0 && line < lines) {
        scales[line] = loss.template of_line<few_apart>(greatest);
    }
}

// The elements of a line that are not 0, in their order, and where they are. A block of `threads` finds
// them together and returns how many there are, fewer than few_elements.
template <int threads, class Element>
__device__ __forceinline__ int find_few_elements(Element element, int64_t depths,
                                                 float (&values)[few_elements],
                                                 int64_t (&places)[few_elements]) {
    constexpr int warps = threads / 32;
    FUSEGEN_SHARED(int, found_in, warps);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int count = 0;
    for (int64_t first = 0; first < depths; first += threads) {
        const int64_t depth = first + threadIdx.x;
        const float x = depth < depths ? element(depth) : 0.0f;
        const unsigned found = __ballot_sync(whole_warp, x != 0.0f);
        if (lane == 0) {
            found_in[warp] = __popc(found);
        }
        __syncthreads();
        int place = count + __popc(found & ((1u << lane) - 1));
        for (int i = 0; i < warps; ++i) {
            place += i < warp ? found_in[i] : 0;
            count += found_in[i];
        }
        if (x != 0.0f) {
            values[place] = x;
            places[place] = depth;
        }
        __syncthreads();  // the next elements' counts overwrite these
    }
    return count;
}

}  // namespace fusegen
