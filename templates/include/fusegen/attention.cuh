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
template <int keys, int columns>
struct AttendedRows {
    static constexpr float half_log2_e = 0.72134752f;

    int headroom;
    float scores[keys / 2];
    float results[columns / 2] = {};
    float greatest[2] = {-infinity<float>(), -infinity<float>()};
    float sums[2] = {};  // of the weights that this thread has had

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
                elements[element] = scores[held_at(at + element, half)];
            }
            score(row, key, met[half][at / vector], elements);
#pragma unroll
            for (int element = 0; element < vector; ++element) {
                scores[held_at(at + element, half)] = elements[element];
            }
        });
        places.fill_beyond(scores, -infinity<float>());
    }

    // Makes weights of the scores, relative to the greatest so far.
    __device__ __forceinline__ void weigh() {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            // Odd ones by themselves, so that neither waits for the other.
            float even = scores[held_at(0, half)], odd = scores[held_at(1, half)];
#pragma unroll
            for (int i = 2; i < keys / 4; i += 2) {
                even = ::fmaxf(even, scores[held_at(i, half)]);
                odd = ::fmaxf(odd, scores[held_at(i + 1, half)]);
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
                start = is_far(greatest[half]) ? -half_headroom() : start;
#pragma unroll
                for (int i = 0; i < keys / 4; ++i) {
                    scores[held_at(i, half)] -= shift;
                }
            }
            even = odd = 0.0f;
#pragma unroll
            for (int i = 0; i < keys / 4; ++i) {
                float& weight = scores[held_at(i, half)];
                weight = square(near_power_of_2(::fmaf(weight, half_log2_e, start)));
                (i % 2 == 0 ? even : odd) += weight;
            }
            sums[half] += even + odd;
        }
    }

    // What is added to a score's half logarithm. Weights are squares of powers of half of it, so that
    // no factor makes an infinity of a score, and none that is small is lost before its time. Where
    // all scores were -inf so far it is no infinity: their weights are 0, not those of -inf - -inf.
    __device__ __forceinline__ float start_of(float greatest) const {
        const float of_greatest = greatest == -infinity<float>() ? 0.0f : -half_log2_e * greatest;
        return of_greatest - half_headroom();
    }

    __device__ __forceinline__ float half_headroom() const {
        return 0.5f * static_cast<float>(headroom);
    }

    // Whether the greatest score is so far from 0 that what it is rounded by when it is multiplied
    // would count, which is up to a sixteenth at 2^20, or infinite.
    static __device__ __forceinline__ bool is_far(float greatest) {
        return absolute(greatest) > 0x1p20f && greatest != -infinity<float>();
    }

    // Half the logarithm of what weights are scaled by when the greatest score is another one, from
    // just where they were reckoned from to just where they will be.
    __device__ __forceinline__ float distance(float before, float now) const {
        if (is_far(before)) {
            return is_far(now) ? (before - now) * half_log2_e
                               : ::fmaf(before, half_log2_e, start_of(now)) + half_headroom();
        }
        return is_far(now) ? ::fmaf(now, -half_log2_e, -start_of(before)) - half_headroom()
                           : start_of(now) - start_of(before);
    }

    // Scales what has been summed in a row.
    __device__ __forceinline__ void scale(int half, float by) {
        sums[half] *= by;
#pragma unroll
        for (int i = 0; i < columns / 4; ++i) {
            results[held_at(i, half)] *= by;
        }
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

    // Hands each row's greatest score and the sum of its weights by that to
    // `keep(row, greatest, sum)`.
    template <class Keep>
    __device__ __forceinline__ void hand_over_statistics(int first_row, int rows_here,
                                                         const Keep& keep) const {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int row = first_row + half * 8 + threadIdx.x % 32 / 4;
            if (threadIdx.x % 4 == 0 && row < rows_here) {
                const auto by = static_cast<float>(int64_t{1} << headroom);
                keep(row, greatest[half], sums[half] * by);
            }
        }
    }
};

}  // namespace fusegen
