// Functions for results of 16 bits whose reciprocals are multiplied out.
//
// The special-function unit does 16 lanes a cycle, the multipliers do 128: where a kernel has so many
// special functions that all else waits for them, a reciprocal costs less as five other instructions.
#pragma once

#include "math.cuh"

namespace fusegen {

// 1 / x to within 2^-18 of itself, for x from 2^-126 to 2^123.
//
// The bits of a float are nearly its logarithm: taken from a constant they give a guess that is off by
// up to 6.3 percent, which a Newton step with a constant of its own makes 0.2 percent, and a second one
// that little squared, downwards. Of all mantissas the worst are -3.64e-6 and, by rounding, 1.1e-7.
// The constants are such that a power of two has no error, and nothing from 1 on gives more than 1, so
// that what ends at 1 does so still. NaN gives NaN; what is greater than 2^126 gives at most 2^-126,
// a negative number, -infinity or NaN: callers take care of it.
__device__ __forceinline__ float multiplied_reciprocal(float x) {
    const float guess = __uint_as_float(0x7ef52000u - __float_as_uint(x));
    const float nearer = guess * ::fmaf(-x, guess, 2.0018847f);
    return nearer * ::fmaf(-x, nearer, 2.0f);
}

// Held between 0 and 1, and 0 for NaN: a modifier of the instruction that makes x.
__device__ __forceinline__ float saturated(float x) {
#ifdef FUSEGEN_EMULATE
    return x > 0.0f ? ::fminf(x, 1.0f) : 0.0f;
#else
    return __saturatef(x);
#endif
}

// To within (4 + |x|) 2^-22 + 2^-18 of itself. Beyond 2^126 the quotient is less than any float.
__device__ __forceinline__ float multiplied_sigmoid(float x) {
    const float divisor = minimum(sigmoid_divisor(x), 0x1p126f);
    return multiplied_reciprocal(divisor) * (1.0f / 16777216.0f);
}

// As close. A quotient that is less than any float is saturated to 0; NaN comes back with x.
__device__ __forceinline__ float multiplied_silu(float x) {
    return x * saturated(multiplied_reciprocal(sigmoid_divisor(x)) * (1.0f / 16777216.0f));
}

// To within 2^-16 of itself, as `near_tanh`: the series goes on to where the reciprocal's error is no
// longer several times as great beside the result. The sum is scaled so that saturation ends it where
// the result is 1. NaN takes the series.
__device__ __forceinline__ float multiplied_tanh(float x) {
    constexpr float scale = 0x1p-64f;
    const float series = tanh_series(x);
    const float power = near_power_of_2(x * 2.88539008f);
    const float sum = saturated(::fmaf(power, scale, scale));
    const float whole = ::fmaf(-2.0f * scale, multiplied_reciprocal(sum), 1.0f);
    return absolute(x) >= 0.25f ? whole : series;
}

// As `near_mish`, to within 2^-18 more.
__device__ __forceinline__ float multiplied_mish(float x) {
    const float part = mish_part(x);
    return x * (part * multiplied_reciprocal(part + 2.0f));
}

}  // namespace fusegen
