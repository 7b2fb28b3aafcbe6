// The 16-bit floating-point types without CUDA's headers, converted bit by bit (IEEE 754 binary16,
// and bfloat16 as the upper half of binary32). No arithmetic: kernels compute in float.
#pragma once

#include <cstdint>

namespace fusegen_emulator {

struct float16 {
    std::uint16_t bits;
};

struct bfloat16 {
    std::uint16_t bits;
};

inline std::uint32_t bits_of(float x) {
    std::uint32_t bits;
    __builtin_memcpy(&bits, &x, sizeof bits);
    return bits;
}

inline float float_of(std::uint32_t bits) {
    float x;
    __builtin_memcpy(&x, &bits, sizeof x);
    return x;
}

inline float to_float(bfloat16 x) { return float_of(static_cast<std::uint32_t>(x.bits) << 16); }

inline bfloat16 round_to(float x, bfloat16) {
    const std::uint32_t bits = bits_of(x);
    if ((bits & 0x7fffffffu) > 0x7f800000u) {
        return {static_cast<std::uint16_t>(bits >> 16 | 0x40u)};  // NaN, made quiet
    }
    const std::uint32_t last_kept_bit = bits >> 16 & 1u;
    return {static_cast<std::uint16_t>((bits + 0x7fffu + last_kept_bit) >> 16)};
}

inline float to_float(float16 x) {
    const std::uint32_t sign = (x.bits & 0x8000u) << 16;
    const std::uint32_t magnitude = x.bits & 0x7fffu;
    if (magnitude >= 0x7c00u) {  // infinity and NaN: the largest exponent stays the largest
        return float_of(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
    }
    // Shifted to float's place the exponent is 112 too small; the product corrects it exactly, and
    // turns subnormals into the normal numbers they are in float.
    constexpr float two_to_the_112 = 0x1p112f;
    return float_of(sign | bits_of(float_of(magnitude << 13) * two_to_the_112));
}

inline float16 round_to(float x, float16) {
    const std::uint32_t bits = bits_of(x);
    const std::uint32_t sign = bits >> 16 & 0x8000u;
    const std::uint32_t magnitude = bits & 0x7fffffffu;
    constexpr std::uint32_t first_overflow = 0x477ff000u;  // 65520, halfway past the largest
    constexpr std::uint32_t least_normal = 0x38800000u;    // 2^-14
    std::uint32_t rounded;
    if (magnitude > 0x7f800000u) {
        rounded = 0x7e00u | (magnitude >> 13 & 0x3ffu);  // NaN, made quiet
    } else if (magnitude >= first_overflow) {
        rounded = 0x7c00u;
    } else if (magnitude >= least_normal) {
        const std::uint32_t last_kept_bit = magnitude >> 13 & 1u;
        rounded = (magnitude - 0x38000000u + 0xfffu + last_kept_bit) >> 13;
    } else {
        // One unit in the last place of 0.5 is 2^-24, float16's least subnormal: the addition
        // rounds to a whole number of them, to the nearest and ties to even.
        rounded = bits_of(float_of(magnitude) + 0.5f) - bits_of(0.5f);
    }
    return {static_cast<std::uint16_t>(sign | rounded)};
}

}  // namespace fusegen_emulator
