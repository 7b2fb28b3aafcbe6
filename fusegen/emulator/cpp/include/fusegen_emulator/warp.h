// Warp-level operations: shuffles, votes and __syncwarp. The line in a report is the caller's.
#pragma once

#include <type_traits>

#include "interface.h"

namespace fusegen_emulator {

template <class T>
inline T shuffle_from(Site site, unsigned mask, T value, unsigned source_lane) {
    static_assert(std::is_trivially_copyable<T>::value, "only plain data can be shuffled");
    alignas(T) unsigned char result[sizeof(T)];
    fusegen_emulator_shuffle(site, mask, &value, result, sizeof(T), source_lane);
    return *reinterpret_cast<T*>(result);
}

// The source lanes below follow the PTX manual's shfl.sync: a lane outside the caller's segment of
// `width` lanes gives the caller its own value.
template <class T>
inline T shuffle_index(Site site, unsigned mask, T value, int index, int width = 32) {
    const unsigned segment = lane() & ~(width - 1u);
    return shuffle_from(site, mask, value, segment + (index & (width - 1u)));
}

template <class T>
inline T shuffle_xor(Site site, unsigned mask, T value, int lane_mask, int width = 32) {
    const unsigned self = lane(), source = self ^ static_cast<unsigned>(lane_mask);
    const unsigned segment_end = (self & ~(width - 1u)) + width;
    return shuffle_from(site, mask, value, source < segment_end ? source : self);
}

template <class T>
inline T shuffle_down(Site site, unsigned mask, T value, unsigned delta, int width = 32) {
    const unsigned self = lane(), source = self + delta;
    const unsigned segment_end = (self & ~(width - 1u)) + width;
    return shuffle_from(site, mask, value, source < segment_end ? source : self);
}

template <class T>
inline T shuffle_up(Site site, unsigned mask, T value, unsigned delta, int width = 32) {
    const unsigned self = lane(), segment = self & ~(width - 1u);
    return shuffle_from(site, mask, value, self >= segment + delta ? self - delta : self);
}

inline void sync_warp(Site site, unsigned mask = 0xffffffffu) {
    fusegen_emulator_sync_warp(site, mask);
}

}  // namespace fusegen_emulator

#define __shfl_sync(...) \
    (::fusegen_emulator::shuffle_index(FUSEGEN_EMULATOR_SITE(shuffle), __VA_ARGS__))
#define __shfl_xor_sync(...) \
    (::fusegen_emulator::shuffle_xor(FUSEGEN_EMULATOR_SITE(shuffle), __VA_ARGS__))
#define __shfl_down_sync(...) \
    (::fusegen_emulator::shuffle_down(FUSEGEN_EMULATOR_SITE(shuffle), __VA_ARGS__))
#define __shfl_up_sync(...) \
    (::fusegen_emulator::shuffle_up(FUSEGEN_EMULATOR_SITE(shuffle), __VA_ARGS__))

#define __syncwarp(...) \
    (::fusegen_emulator::sync_warp(FUSEGEN_EMULATOR_SITE(sync_warp) __VA_OPT__(, ) __VA_ARGS__))

#define __ballot_sync(mask, predicate) \
    (fusegen_emulator_vote(FUSEGEN_EMULATOR_SITE(vote), mask, (predicate) != 0))
#define __any_sync(mask, predicate) ((int)(__ballot_sync(mask, predicate) != 0))
#define __all_sync(mask, predicate) \
    ((int)(fusegen_emulator_vote(FUSEGEN_EMULATOR_SITE(vote), mask, (predicate) == 0) == 0))

namespace fusegen {

// The value held by lane (own lane XOR lane_mask); every lane of `mask` must call it.
template <class T>
inline T shuffle_xor(unsigned mask, T value, int lane_mask,
                     fusegen_emulator::Site site =
                         fusegen_emulator::caller_site(fusegen_emulator::Operation::shuffle)) {
    return fusegen_emulator::shuffle_xor(site, mask, value, lane_mask);
}

// The value held by `lane`; every lane of `mask` must call it.
template <class T>
inline T shuffle(unsigned mask, T value, int lane,
                 fusegen_emulator::Site site =
                     fusegen_emulator::caller_site(fusegen_emulator::Operation::shuffle)) {
    return fusegen_emulator::shuffle_index(site, mask, value, lane);
}

}  // namespace fusegen
