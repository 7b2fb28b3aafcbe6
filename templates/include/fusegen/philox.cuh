// Random bits as a function of a key and a counter: Philox4x32-10 by Salmon et al., "Parallel random
// numbers: as easy as 1, 2, 3", 2011.
#pragma once

#include "device.cuh"

namespace fusegen {

// Four random numbers of 32 bits.
struct RandomWords {
    uint32_t at[4];
};

__device__ __forceinline__ RandomWords philox(RandomWords counter, uint64_t key) {
    uint32_t first = static_cast<uint32_t>(key);
    uint32_t second = static_cast<uint32_t>(key >> 32);
#pragma unroll
    for (int round = 0; round < 10; ++round) {
        const uint64_t a = static_cast<uint64_t>(counter.at[0]) * 0xD2511F53u;
        const uint64_t c = static_cast<uint64_t>(counter.at[2]) * 0xCD9E8D57u;
        counter = {{static_cast<uint32_t>(c >> 32) ^ counter.at[1] ^ first,
                    static_cast<uint32_t>(c),
                    static_cast<uint32_t>(a >> 32) ^ counter.at[3] ^ second,
                    static_cast<uint32_t>(a)}};
        first += 0x9E3779B9u;
        second += 0xBB67AE85u;
    }
    return counter;
}

// Whether dropout `number` of a model keeps the element at `position` in row-major order: one in
// 2^32 is dropped for each unit of `threshold`. Four neighbours share a counter.
__device__ __forceinline__ bool is_kept(int64_t seed, int64_t position, uint32_t threshold,
                                        uint32_t number) {
    const uint64_t block = static_cast<uint64_t>(position >> 2);
    const RandomWords words = philox(
        {{static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), number, 0u}},
        static_cast<uint64_t>(seed));
    const bool odd = (position & 1) != 0;
    const uint32_t lower = odd ? words.at[1] : words.at[0];
    const uint32_t upper = odd ? words.at[3] : words.at[2];
    return ((position & 2) != 0 ? upper : lower) >= threshold;
}

}  // namespace fusegen
