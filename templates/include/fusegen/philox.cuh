// Random choices as functions of a seed and of where an element stands, by Philox4x32-10 (Salmon et
// al., "Parallel random numbers: as easy as 1, 2, 3", 2011).
#pragma once

#include "dtypes.cuh"

namespace fusegen {

// Four random numbers of 32 bits.
struct RandomWords {
    std::uint32_t at[4];
};

__device__ __forceinline__ RandomWords philox(RandomWords counter, std::uint64_t key) {
    std::uint32_t first = static_cast<std::uint32_t>(key);
    std::uint32_t second = static_cast<std::uint32_t>(key >> 32);
#pragma unroll
    for (int round = 0; round < 10; ++round) {
        const std::uint64_t a = static_cast<std::uint64_t>(counter.at[0]) * 0xD2511F53u;
        const std::uint64_t c = static_cast<std::uint64_t>(counter.at[2]) * 0xCD9E8D57u;
        counter = {{static_cast<std::uint32_t>(c >> 32) ^ counter.at[1] ^ first,
                    static_cast<std::uint32_t>(c),
                    static_cast<std::uint32_t>(a >> 32) ^ counter.at[3] ^ second,
                    static_cast<std::uint32_t>(a)}};
        first += 0x9E3779B9u;
        second += 0xBB67AE85u;
    }
    return counter;
}

// The numbers of the four elements from position 4 * block on, for dropout `number` of a model.
__device__ __forceinline__ RandomWords words_of(std::int64_t seed, std::int64_t block,
                                                std::uint32_t number) {
    const std::uint64_t bits = static_cast<std::uint64_t>(block);
    return philox({{static_cast<std::uint32_t>(bits), static_cast<std::uint32_t>(bits >> 32), number,
                    0u}},
                  static_cast<std::uint64_t>(seed));
}

// Whether dropout `number` of a model keeps the element at `position` in row-major order: one in
// 2^32 is dropped for each unit of `threshold`.
__device__ __forceinline__ bool is_kept(std::int64_t seed, std::int64_t position,
                                        std::uint32_t threshold, std::uint32_t number) {
    const RandomWords words = words_of(seed, position >> 2, number);
    const bool odd = (position & 1) != 0;
    const std::uint32_t lower = odd ? words.at[1] : words.at[0];
    const std::uint32_t upper = odd ? words.at[3] : words.at[2];
    return ((position & 2) != 0 ? upper : lower) >= threshold;
}

// The same for `count` neighbours, of which the first stands at a multiple of `count`.
template <int count>
__device__ __forceinline__ Vector<bool, count> are_kept(std::int64_t seed, std::int64_t first,
                                                        std::uint32_t threshold,
                                                        std::uint32_t number) {
    Vector<bool, count> kept;
    constexpr int together = count < 4 ? count : 4;
#pragma unroll
    for (int start = 0; start < count; start += together) {
        if constexpr (together == 1) {
            kept[0] = is_kept(seed, first, threshold, number);
        } else {
            const RandomWords words = words_of(seed, (first + start) >> 2, number);
            const bool is_second_half = together == 2 && (first & 2) != 0;
#pragma unroll
            for (int i = 0; i < together; ++i) {
                const std::uint32_t word = is_second_half ? words.at[2 + i % 2] : words.at[i];
                kept[start + i] = word >= threshold;
            }
        }
    }
    return kept;
}

}  // namespace fusegen
