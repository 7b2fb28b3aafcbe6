// Products by a warp and what feeds them; their meaning stands in fusegen/mma.cuh, which includes
// this. Lanes hand each other addresses and registers by shuffles, and each reads and writes memory
// itself, so that the checker sees whose access it is.
#pragma once

#include "asynchronous.h"
#include "float16.h"
#include "warp.h"

namespace fusegen_emulator {

constexpr unsigned all_lanes = 0xffffffffu;

// The address of row `row` of fragment `fragment`, which the lane 8 * fragment + row brought.
template <class Byte>
__forceinline__ Byte* fragment_row(Site site, Byte* own, int fragment, unsigned row) {
    Byte* const address = shuffle_index(site, all_lanes, own, fragment * 8 + static_cast<int>(row));
    if (reinterpret_cast<std::uintptr_t>(address) % 16 != 0) {
        fusegen_emulator_report_misaligned(address, 16);
    }
    return address;
}

__forceinline__ std::uint32_t halves(std::uint16_t low, std::uint16_t high) {
    return low | static_cast<std::uint32_t>(high) << 16;
}

// The registers of one lane.
struct MmaOperands {
    std::uint32_t a[4];
    std::uint32_t b[2];
};

template <class T>
inline float half_of(std::uint32_t word, int i) {
    return to_float(T{static_cast<std::uint16_t>(word >> 16 * i)});
}

}  // namespace fusegen_emulator

namespace fusegen {

__forceinline__ void cp_async(void* shared, const void* global, int valid = 16,
                              fusegen_emulator::Site site = fusegen_emulator::caller_site(
                                  fusegen_emulator::Operation::cp_async)) {
    fusegen_emulator_cp_async(site, shared, global, valid);
}

__forceinline__ void cp_async_commit() { fusegen_emulator_cp_async_commit(); }

template <int pending>
__forceinline__ void cp_async_wait() {
    fusegen_emulator_cp_async_wait(pending);
}

__forceinline__ void ldmatrix(std::uint32_t (&fragments)[4], const void* row, int offset = 0,
                              fusegen_emulator::Site site = fusegen_emulator::caller_site(
                                  fusegen_emulator::Operation::ldmatrix)) {
    const unsigned lane = fusegen_emulator::lane();
    for (int i = 0; i < 4; ++i) {
        const auto* words = fusegen_emulator::fragment_row(
            site, static_cast<const std::uint32_t*>(row) + offset / 4, i, lane / 4);
        fragments[i] = words[lane % 4];
    }
}

__forceinline__ void ldmatrix_transposed(
    std::uint32_t (&fragments)[4], const void* row,
    fusegen_emulator::Site site =
        fusegen_emulator::caller_site(fusegen_emulator::Operation::ldmatrix)) {
    const unsigned lane = fusegen_emulator::lane();
    for (int i = 0; i < 4; ++i) {
        const auto* own = static_cast<const std::uint16_t*>(row);
        const auto* low = fusegen_emulator::fragment_row(site, own, i, lane % 4 * 2);
        const auto* high = fusegen_emulator::fragment_row(site, own, i, lane % 4 * 2 + 1);
        fragments[i] = fusegen_emulator::halves(low[lane / 4], high[lane / 4]);
    }
}

__forceinline__ void stmatrix(void* row, const std::uint32_t (&fragments)[4],
                              fusegen_emulator::Site site = fusegen_emulator::caller_site(
                                  fusegen_emulator::Operation::stmatrix)) {
    const unsigned lane = fusegen_emulator::lane();
    for (int i = 0; i < 4; ++i) {
        auto* words =
            fusegen_emulator::fragment_row(site, static_cast<std::uint32_t*>(row), i, lane / 4);
        words[lane % 4] = fragments[i];
    }
}

template <class T>
inline void mma_m16n8k16(
    float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
    fusegen_emulator::Site site = fusegen_emulator::caller_site(fusegen_emulator::Operation::mma)) {
    using fusegen_emulator::half_of;
    using fusegen_emulator::MmaOperands;
    static_assert(is_16_bit_float<T>, "float16 or bfloat16");
    const int lane = static_cast<int>(fusegen_emulator::lane());
    const MmaOperands own{{a[0], a[1], a[2], a[3]}, {b[0], b[1]}};
    for (int quarter = 0; quarter < 4; ++quarter) {  // of K: two columns of each 8 x 8 fragment
        const auto from = [&](int row) {
            return fusegen_emulator::shuffle_index(site, fusegen_emulator::all_lanes, own,
                                                   row * 4 + quarter);
        };
        const MmaOperands left = from(lane / 4);
        const MmaOperands right[2] = {from(lane % 4 * 2), from(lane % 4 * 2 + 1)};
        for (int i = 0; i < 4; ++i) {
            for (int half = 0; half < 2; ++half) {  // of K
                const std::uint32_t row = left.a[half * 2 + i / 2];
                const std::uint32_t column = right[i % 2].b[half];
                d[i] += half_of<T>(row, 0) * half_of<T>(column, 0) +
                        half_of<T>(row, 1) * half_of<T>(column, 1);
            }
        }
    }
}

// As the whole of K, of which the other half adds nothing.
template <class T>
inline void mma_m16n8k8(
    float (&d)[4], const std::uint32_t (&a)[2], std::uint32_t b,
    fusegen_emulator::Site site = fusegen_emulator::caller_site(fusegen_emulator::Operation::mma)) {
    const std::uint32_t left[4] = {a[0], a[1], 0, 0};
    const std::uint32_t right[2] = {b, 0};
    mma_m16n8k16<T>(d, left, right, site);
}

}  // namespace fusegen
