// Matrix products by a warpgroup; their meaning stands in fusegen/wgmma.cuh, which includes this.
#pragma once

#include "asynchronous.h"

namespace fusegen {

template <class... Sums>
__forceinline__ void wgmma_fence(Sums&...) {
    fusegen_emulator_wgmma_fence();
}

__forceinline__ void wgmma_commit() { fusegen_emulator_wgmma_commit(); }

template <int pending, class... Sums>
__forceinline__ void wgmma_wait(Sums&...) {
    fusegen_emulator_wgmma_wait(pending);
}

template <class T>
constexpr fusegen_emulator::OperandType wgmma_operand_type =
    std::is_same<T, float16>::value    ? fusegen_emulator::OperandType::float16
    : std::is_same<T, bfloat16>::value ? fusegen_emulator::OperandType::bfloat16
                                       : fusegen_emulator::OperandType::tf32;

template <class T, int n, Major major_a = Major::k, Major major_b = Major::k>
__forceinline__ void wgmma(float (&d)[n / 2], std::uint64_t descriptor_a,
                           std::uint64_t descriptor_b, bool accumulate,
                           fusegen_emulator::Site site =
                               fusegen_emulator::caller_site(fusegen_emulator::Operation::wgmma)) {
    static_assert(n % 16 == 0 && n >= 16 && n <= 256, "N is a multiple of 16 up to 256");
    static_assert(is_16_bit_float<T> || std::is_same<T, float>::value, "not a type of wgmma");
    static_assert(is_16_bit_float<T> || (major_a == Major::k && major_b == Major::k),
                  "TF32 operands must be K-major");
    const fusegen_emulator::WgmmaOperands operands{d,
                                                   descriptor_a,
                                                   descriptor_b,
                                                   n,
                                                   wgmma_operand_type<T>,
                                                   major_a == Major::mn,
                                                   major_b == Major::mn,
                                                   accumulate};
    fusegen_emulator_wgmma(site, &operands);
}

// Registers that are changed while the product is under way do not show.
template <class T, int n, Major major_b = Major::k>
__forceinline__ void wgmma(float (&d)[n / 2], const std::uint32_t (&registers_a)[4],
                           std::uint64_t descriptor_b,
                           fusegen_emulator::Site site =
                               fusegen_emulator::caller_site(fusegen_emulator::Operation::wgmma)) {
    static_assert(n % 16 == 0 && n >= 16 && n <= 256, "N is a multiple of 16 up to 256");
    static_assert(is_16_bit_float<T>, "float16 or bfloat16");
    const std::uint32_t own[4] = {registers_a[0], registers_a[1], registers_a[2], registers_a[3]};
    const fusegen_emulator::WgmmaOperands operands{
        d,    0,   descriptor_b, n, wgmma_operand_type<T>, false, major_b == Major::mn,
        true, own,
    };
    fusegen_emulator_wgmma(site, &operands);
}

}  // namespace fusegen
