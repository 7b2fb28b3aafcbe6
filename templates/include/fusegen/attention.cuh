// Sums of values weighted by the softmax of scores, which are products themselves and never in memory:
// keys come a tile at a time, and what has been summed by an earlier greatest score is scaled to the
// new one (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018; Dao et al.,
// "FlashAttention", 2022).
#pragma once

#include "addressing.cuh"
#include "math.cuh"
#include "numbers.cuh"
#include "operand_tile.cuh"
#include "reduce.cuh"

namespace fusegen {

// The places of the scores that a thread has of a tile of keys, as the tensor cores leave a warp's
// sums: a pair of every 8 columns in the row lane / 4, and one in the row 8 further. They come in runs
// of neighbours in memory. `rows_here` of the block's rows are there, of which the warp's begin at
// `first_row`, and of the keys from `first_key` on `keys_here`: the places of those beyond are those
// of the last ones.
template <int keys, int run, int vector>
struct ScorePlaces {
    static constexpr int neighbours = vector;

    int first_row;
    int rows_here;
    int64_t first_key;
    int keys_here;

    // The place in the tile of the `at`-th of those that a thread has in a row.
    static __device__ __forceinline__ int own_key(int at) {
        return at / run * run * 4 + threadIdx.x % 4 * run + at % run;
    }

    __device__ __forceinline__ bool are_whole() const { return keys_here == keys; }

    // Calls visit(half, at, row, key) for each `vector` of neighbours.
    template <class Visit>
    __device__ __forceinline__ void for_each(const Visit& visit) const {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int own_row = first_row + half * 8 + threadIdx.x % 32 / 4;
            const int row = own_row < rows_here ? own_row : rows_here - 1;
#pragma unroll
            for (int at = 0; at < keys / 4; at += vector) {
                const int key = own_key(at);
                const int last = keys_here - vector;
                visit(half, at, row, first_key + (key < last ? key : last));
            }
        }
    }

    // What `meet(row, key)` finds at each place.
    template <class Met, class Meet>
    __device__ __forceinline__ void meet_all(Met (&met)[2][keys / 4 / vector],
                                             const Meet& meet) const {
        for_each([&](int half, int at, int row, int64_t key) {
            met[half][at / vector] = meet(row, key);
        });
    }
};

// What a thread has of 16 rows by `keys` scores and 16 rows by `columns` results, as the tensor cores
// leave a warp's sums: of every 8 columns a pair in the row lane / 4, and one in the row 8 further.
template <int keys, int columns>
struct AttendedRows {
    static constexpr float half_log2_e = 0.72134752f;

    float scores[keys / 2];
    float results[columns / 2] = {};
    float greatest[2] = {-infinity<float>(), -infinity<float>()};
    float sums[2] = {};  // of the weights that this thread has had

    // Where the element `at` of those that a thread has in one of its two rows is held.
    static __device__ __forceinline__ constexpr int held(int at, int half) {
        return at / 2 * 4 + half * 2 + at % 2;
    }

    // Makes scores of the products: `score(row, key, met, elements)` does so for neighbours, with what
    // has been `met` at their place.
    template <class Places, class Met, class Score>
    __device__ __forceinline__ void make_scores(const Places& places, const Met& met,
                                                const Score& score) {
        constexpr int vector = Places::neighbours;
        places.for_each([&](int half, int at, int row, int64_t key) {
            float elements[vector];
#pragma unroll
            for (int element = 0; element < vector; ++element) {
                elements[element] = scores[held(at + element, half)];
            }
            score(row, key, met[half][at / vector], elements);
#pragma unroll
            for (int element = 0; element < vector; ++element) {
                scores[held(at + element, half)] = elements[element];
            }
        });
        if (!places.are_whole()) {
#pragma unroll
            for (int i = 0; i < keys / 4; ++i) {
                if (places.own_key(i) >= places.keys_here) {
                    scores[held(i, 0)] = scores[held(i, 1)] = -infinity<float>();
                }
            }
        }
    }

    // Makes weights of the scores, relative to the greatest so far.
    __device__ __forceinline__ void weigh() {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            // Odd ones by themselves, so that neither waits for the other.
            float even = scores[held(0, half)], odd = scores[held(1, half)];
#pragma unroll
            for (int i = 2; i < keys / 4; i += 2) {
                even = ::fmaxf(even, scores[held(i, half)]);
                odd = ::fmaxf(odd, scores[held(i + 1, half)]);
            }
            float own = ::fmaxf(even, odd);
            own = ::fmaxf(own, shuffle_xor(whole_warp, own, 1));
            own = ::fmaxf(own, shuffle_xor(whole_warp, own, 2));
            const float before = greatest[half];
            greatest[half] = ::fmaxf(own, before);
            float start = start_of(greatest[half]);
            if (__any_sync(whole_warp, greatest[half] != before)) {
                const float by = square(near_power_of_2(distance(before, greatest[half])));
                scale(half, before == -infinity<float>() ? 0.0f : by);
            }
            if (__any_sync(whole_warp, is_far(greatest[half]))) {
                const float shift = is_far(greatest[half]) ? greatest[half] : 0.0f;
                start = is_far(greatest[half]) ? 0.0f : start;
#pragma unroll
                for (int i = 0; i < keys / 4; ++i) {
                    scores[held(i, half)] -= shift;
                }
            }
            even = odd = 0.0f;
#pragma unroll
            for (int i = 0; i < keys / 4; ++i) {
                float& weight = scores[held(i, half)];
                weight = square(near_power_of_2(::fmaf(weight, half_log2_e, start)));
                (i % 2 == 0 ? even : odd) += weight;
            }
            sums[half] += even + odd;
        }
    }

    // What is added to a score's half logarithm. Weights are squares of powers of half of it, so that
    // no factor makes an infinity of a score, and none that is small is lost before its time. Where
    // all scores were -inf so far it is 0: their weights are 0, not those of -inf - -inf.
    static __device__ __forceinline__ float start_of(float greatest) {
        return greatest == -infinity<float>() ? 0.0f : -half_log2_e * greatest;
    }

    // Whether the greatest score is so far from 0 that what it is rounded by when it is multiplied
    // would count, which is up to a sixteenth at 2^20, or infinite.
    static __device__ __forceinline__ bool is_far(float greatest) {
        return absolute(greatest) > 0x1p20f && greatest != -infinity<float>();
    }

    // Half the logarithm of what weights are scaled by when the greatest score is another one, from
    // just where they were reckoned from to just where they will be.
    static __device__ __forceinline__ float distance(float before, float now) {
        if (is_far(before)) {
            return is_far(now) ? (before - now) * half_log2_e
                               : ::fmaf(before, half_log2_e, start_of(now));
        }
        return is_far(now) ? ::fmaf(now, -half_log2_e, -start_of(before))
                           : start_of(now) - start_of(before);
    }

    // Scales what has been summed in a row.
    __device__ __forceinline__ void scale(int half, float by) {
        sums[half] *= by;
#pragma unroll
        for (int i = 0; i < columns / 4; ++i) {
            results[held(i, half)] *= by;
        }
    }

    // Divides the results by the sums of their weights. Where all scores are -inf these are 0, and
    // results become NaN, as those of PyTorch's softmax.
    __device__ __forceinline__ void divide() {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            float sum = sums[half] + shuffle_xor(whole_warp, sums[half], 1);
            sum += shuffle_xor(whole_warp, sum, 2);
#pragma unroll
            for (int i = 0; i < columns / 4; ++i) {
                results[held(i, half)] = near_quotient(results[held(i, half)], sum);
            }
        }
    }

    // Hands the results to `keep(row, column, elements)`, `vector` neighbours at a time.
    template <int vector, class Keep>
    __device__ __forceinline__ void hand_over(int first_row, int rows_here, const Keep& keep) const {
        const int lane = threadIdx.x % 32;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int row = first_row + half * 8 + lane / 4;
#pragma unroll
            for (int i = 0; i < columns / 4; i += vector) {
                if (row < rows_here) {
                    keep(row, i / 2 * 8 + lane % 4 * 2 + i % 2, &results[held(i, half)]);
                }
            }
        }
    }
};

// The weights of the 16 keys from `first` on, as a left operand in registers.
template <class T, int keys, int columns>
__device__ __forceinline__ void weight_fragments(std::uint32_t (&fragments)[4],
                                                 const AttendedRows<keys, columns>& rows,
                                                 int first) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const float* const weights = &rows.scores[(first / 8 + i / 2) * 4 + i % 2 * 2];
        Vector<T, 2> pair;
        round_pair(pair, 0, weights[0], weights[1]);
        fragments[i] = *reinterpret_cast<const std::uint32_t*>(&pair);
    }
}

// The tiles of keys and of values, which take turns in shared memory: one of each is multiplied while
// the next is brought. `bring_keys(tile, first_key)` and `bring_values(tile, first_key)` fill them,
// with zeros beyond the operands.
template <class Keys, class Values, class T, class BringKeys, class BringValues>
struct KeyTiles {
    T* ring;
    int64_t key_count;
    const BringKeys& bring_keys;
    const BringValues& bring_values;

    __device__ __forceinline__ int64_t steps() const {
        return (key_count + Keys::tile_lines - 1) / Keys::tile_lines;
    }
    __device__ __forceinline__ T* keys(int64_t step) const {
        return ring + static_cast<int>(step % 2) * (Keys::size + Values::size);
    }
    __device__ __forceinline__ T* values(int64_t step) const { return keys(step) + Keys::size; }
    __device__ __forceinline__ int keys_here(int64_t step) const {
        return within(key_count, step * Keys::tile_lines, Keys::tile_lines);
    }
    __device__ __forceinline__ void bring(int64_t step) const {
        if (step < steps()) {
            bring_keys(keys(step), step * Keys::tile_lines);
            bring_values(values(step), step * Keys::tile_lines);
        }
        cp_async_commit();
    }
};

}  // namespace fusegen
