// Sums of values weighted by the softmax of scores, which are products themselves and never in memory:
// keys come a tile at a time, and what has been summed by an earlier greatest score is scaled to the
// new one (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018; Dao et al.,
// "FlashAttention", 2022).
#pragma once

#include "math.cuh"
#include "numbers.cuh"
#include "operand_tile.cuh"
#include "reduce.cuh"
#include "row_fragments.cuh"

namespace fusegen {

// By which power of 2 weights are smaller than by the greatest score alone, so that sums of values,
// which are divided by those of weights in the end, do not overflow where the values do not: bfloat16
// has float32's range. float16 is far from it, and its small weights would be lost.
template <class T>
__device__ __forceinline__ int headroom_of(int64_t key_count) {
    int power = 0;
    while (std::is_same<T, bfloat16>::value && (int64_t{1} << power) < key_count) {
        ++power;
    }
    return power;
}

// What a thread has of 16 rows by `keys` scores and 16 rows by `columns` results, as the tensor cores
// leave a warp's sums: of every 8 columns a pair in the row lane / 4, and one in the row 8 further.
// Weights are powers of e of `factor`, above 0 and no more than 1, times the scores.
template <int keys, int columns>
struct AttendedRows {
    float factor;
    int headroom;
    float scores[keys / 2];
    float results[columns / 2] = {};
    float greatest[2] = {-infinity<float>(), -infinity<float>()};
    float starts[2];     // what is added to a score's half logarithm
    float sums[2] = {};  // of the weights that this thread has had
    float scale[2];      // what the results have to be multiplied by if the greatest have risen
    bool has_risen = false;
    bool has_far = false;

    __device__ __forceinline__ void begin(float factor_of_scores, int headroom_of_weights) {
        factor = factor_of_scores;
        headroom = headroom_of_weights;
        starts[0] = starts[1] = -half_headroom();
    }

    // Makes scores of the products: `score(row, key, met, elements)` does so for neighbours, with what
    // has been `met` at their place.
    template <class Places, class MetThere, class Score>
    __device__ __forceinline__ void make_scores(const Places& places, const MetThere& met,
                                                const Score& score) {
        constexpr int vector = Places::neighbours;
        places.for_each([&](int half, int at, int row, int64_t key) {
            float elements[vector];
#pragma unroll
            for (int element = 0; element < vector; ++element) {
                elements[element] = scores[held_at(at + element, half)];
            }
            score(row, key, met.at(half, at / vector, row, key), elements);
#pragma unroll
            for (int element = 0; element < vector; ++element) {
                scores[held_at(at + element, half)] = elements[element];
            }
        });
        places.fill_beyond(scores, -infinity<float>());
    }

    // Makes weights of the scores, relative to the greatest so far. Before they are multiplied, the
    // results have to be rescaled.
    __device__ __forceinline__ void weigh() {
        find_greatest();
        if (has_far) {
#pragma unroll
            for (int i = 0; i < keys / 2; ++i) {
                const float most = greatest[i / 2 % 2];
                scores[i] -= is_far(most) ? most : 0.0f;
            }
        }
        // Odd ones by themselves, so that neither waits for the other.
        float totals[2][2] = {};
#pragma unroll
        for (int i = 0; i < keys / 2; ++i) {
            const int half = i / 2 % 2;
            scores[i] = square(near_power_of_2(::fmaf(scores[i], half_log2_e(), starts[half])));
            totals[half][i % 2] += scores[i];
        }
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            sums[half] += totals[half][0] + totals[half][1];
        }
    }

    // Takes the greatest scores so far of the rows, and what follows from them.
    __device__ __forceinline__ void find_greatest() {
        float most[2][2];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            most[i / 2][i % 2] = scores[i];
        }
#pragma unroll
        for (int i = 4; i < keys / 2; ++i) {
            most[i / 2 % 2][i % 2] = ::fmaxf(most[i / 2 % 2][i % 2], scores[i]);
        }
        float now[2];
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            float own = ::fmaxf(most[half][0], most[half][1]);
            own = ::fmaxf(own, shuffle_xor(whole_warp, own, 1));
            own = ::fmaxf(own, shuffle_xor(whole_warp, own, 2));
            now[half] = ::fmaxf(own, greatest[half]);
        }
        has_risen = __any_sync(whole_warp, now[0] != greatest[0] || now[1] != greatest[1]);
        if (has_risen) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const float by = square(near_power_of_2(distance(greatest[half], now[half])));
                scale[half] = greatest[half] == -infinity<float>() ? 0.0f : by;
                sums[half] *= scale[half];
                greatest[half] = now[half];
                starts[half] = start_of(now[half]);
            }
            has_far = __any_sync(whole_warp, is_far(greatest[0]) || is_far(greatest[1]));
        }
    }

    __device__ __forceinline__ void rescale_results() {
        if (has_risen) {
#pragma unroll
            for (int i = 0; i < columns / 2; ++i) {
                results[i] *= scale[i / 2 % 2];
            }
        }
    }

    // Half the logarithm of a weight for each 1 of its score.
    __device__ __forceinline__ float half_log2_e() const { return 0.72134752f * factor; }

    __device__ __forceinline__ float half_headroom() const {
        return 0.5f * static_cast<float>(headroom);
    }

    // What is added to a score's half logarithm. Weights are squares of powers of half of it, so that
    // no factor makes an infinity of a score, and none that is small is lost before its time. Where
    // all scores were -inf so far it is no infinity: their weights are 0, not those of -inf - -inf.
    __device__ __forceinline__ float start_of(float most) const {
        const bool adds_nothing = most == -infinity<float>() || is_far(most);
        return (adds_nothing ? 0.0f : -half_log2_e() * most) - half_headroom();
    }

    // Whether the greatest score is so far from 0 that what it is rounded by when it is multiplied
    // would count, which is up to a sixteenth at 2^20, or infinite.
    __device__ __forceinline__ bool is_far(float most) const {
        return absolute(factor * most) > 0x1p20f && most != -infinity<float>();
    }

    // Half the logarithm of what weights are scaled by when the greatest score is another one, from
    // just where they were reckoned from to just where they will be.
    __device__ __forceinline__ float distance(float before, float now) const {
        if (is_far(before)) {
            return is_far(now) ? (before - now) * half_log2_e()
                               : ::fmaf(before, half_log2_e(), start_of(now)) + half_headroom();
        }
        return is_far(now) ? ::fmaf(now, -half_log2_e(), -start_of(before)) - half_headroom()
                           : start_of(now) - start_of(before);
    }

    // Divides the results by the sums of their weights. Where all scores are -inf these are 0, and
    // results become NaN, as those of PyTorch's softmax.
    __device__ __forceinline__ void divide() {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            sums[half] += shuffle_xor(whole_warp, sums[half], 1);
            sums[half] += shuffle_xor(whole_warp, sums[half], 2);
#pragma unroll
            for (int i = 0; i < columns / 4; ++i) {
                results[held_at(i, half)] = near_quotient(results[held_at(i, half)], sums[half]);
            }
        }
    }

    // Hands each row's greatest score, times the factor, and the sum of its weights by that to
    // `keep(row, greatest, sum)`.
    template <class Keep>
    __device__ __forceinline__ void hand_over_statistics(int first_row, int rows_here,
                                                         const Keep& keep) const {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int row = first_row + half * 8 + threadIdx.x % 32 / 4;
            if (threadIdx.x % 4 == 0 && row < rows_here) {
                const auto by = static_cast<float>(int64_t{1} << headroom);
                keep(row, factor * greatest[half], sums[half] * by);
            }
        }
    }
};

}  // namespace fusegen
