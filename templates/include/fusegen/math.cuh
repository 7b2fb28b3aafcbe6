// The functions that the operations' expressions call, on float, double, integers and bool.
//
// Special values are as in PyTorch: NaN goes through every function of floating-point numbers but
// `sign`, and formulas are chosen so that no intermediate overflows or cancels.
#pragma once

#include <math.h>

#include "device.cuh"
#include "dtypes.cuh"
#include "philox.cuh"

namespace fusegen {

// CUDA's accurate functions under one name for both floating-point types.
#define FUSEGEN_MATH_FUNCTION(name, on_float, on_double)                                \
    __device__ __forceinline__ float name(float x) { return ::on_float(x); }            \
    __device__ __forceinline__ double name(double x) { return ::on_double(x); }

FUSEGEN_MATH_FUNCTION(exponential, expf, exp)
FUSEGEN_MATH_FUNCTION(exp2, exp2f, exp2)
FUSEGEN_MATH_FUNCTION(expm1, expm1f, expm1)
FUSEGEN_MATH_FUNCTION(logarithm, logf, log)
FUSEGEN_MATH_FUNCTION(log1p, log1pf, log1p)
FUSEGEN_MATH_FUNCTION(log2, log2f, log2)
FUSEGEN_MATH_FUNCTION(log10, log10f, log10)
FUSEGEN_MATH_FUNCTION(sin, sinf, sin)
FUSEGEN_MATH_FUNCTION(cos, cosf, cos)
FUSEGEN_MATH_FUNCTION(tan, tanf, tan)
FUSEGEN_MATH_FUNCTION(tanh, tanhf, tanh)
FUSEGEN_MATH_FUNCTION(erf, erff, erf)
FUSEGEN_MATH_FUNCTION(erfc, erfcf, erfc)
FUSEGEN_MATH_FUNCTION(sqrt, sqrtf, sqrt)
FUSEGEN_MATH_FUNCTION(rsqrt, rsqrtf, rsqrt)

#undef FUSEGEN_MATH_FUNCTION

// A value as if it were stored in another element type: rounded to it, then in the type that
// arithmetic on it is done in.
template <class To, class From>
__device__ __forceinline__ auto cast(From x) {
    if constexpr (is_16_bit_float<To>) {
        return to_float(convert<To>(x));
    } else {
        return convert<To>(x);
    }
}

// A value as any other kernel computes it: a product is rounded before it is added to something.
__device__ __forceinline__ float rounded(float x) {
#ifdef FUSEGEN_EMULATE
    volatile float result = x;
    return result;
#else
    asm volatile("" : "+f"(x));
    return x;
#endif
}

template <class T>
__device__ __forceinline__ bool is_nan(T x) {
    if constexpr (std::is_floating_point<T>::value) {
        return x != x;
    } else {
        return false;
    }
}

template <class T>
__device__ __forceinline__ bool is_negative(T x) {
    if constexpr (std::is_unsigned<T>::value) {  // bool too
        return false;
    } else {
        return x < T(0);
    }
}

template <class T>
__device__ __forceinline__ T absolute(T x) {
    if constexpr (std::is_same<T, float>::value) {
        return ::fabsf(x);
    } else if constexpr (std::is_same<T, double>::value) {
        return ::fabs(x);
    } else {
        return is_negative(x) ? T(-x) : x;
    }
}

template <class T>
__device__ __forceinline__ bool is_infinite(T x) {
    if constexpr (std::is_floating_point<T>::value) {
        return absolute(x) == T(INFINITY);
    } else {
        return false;
    }
}

template <class T>
__device__ __forceinline__ bool is_finite(T x) {
    if constexpr (std::is_floating_point<T>::value) {
        return absolute(x) < T(INFINITY);
    } else {
        return true;
    }
}

template <class T>
__device__ __forceinline__ T maximum(T a, T b) {
    return a > b || is_nan(a) ? a : b;
}

template <class T>
__device__ __forceinline__ T minimum(T a, T b) {
    return a < b || is_nan(a) ? a : b;
}

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
// One instruction each (PTX ISA, max.NaN).
__device__ __forceinline__ float maximum(float a, float b) {
    float result;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
    return result;
}

__device__ __forceinline__ float minimum(float a, float b) {
    float result;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
    return result;
}
#endif

// 0 for NaN.
template <class T>
__device__ __forceinline__ T sign(T x) {
    return is_negative(x) ? T(-1) : T(x > T(0));
}

template <class T>
__device__ __forceinline__ T square(T x) {
    return T(x * x);
}

template <class T>
__device__ __forceinline__ T bitwise_not(T x) {
    if constexpr (std::is_same<T, bool>::value) {
        return !x;
    } else {
        return T(~x);
    }
}

// Rounding leaves integers as they are.
template <class T>
__device__ __forceinline__ T floor(T x) {
    if constexpr (std::is_same<T, float>::value) {
        return ::floorf(x);
    } else if constexpr (std::is_same<T, double>::value) {
        return ::floor(x);
    } else {
        return x;
    }
}

template <class T>
__device__ __forceinline__ T ceil(T x) {
    if constexpr (std::is_same<T, float>::value) {
        return ::ceilf(x);
    } else if constexpr (std::is_same<T, double>::value) {
        return ::ceil(x);
    } else {
        return x;
    }
}

template <class T>
__device__ __forceinline__ T trunc(T x) {
    if constexpr (std::is_same<T, float>::value) {
        return ::truncf(x);
    } else if constexpr (std::is_same<T, double>::value) {
        return ::trunc(x);
    } else {
        return x;
    }
}

// Halves go to the even neighbour.
template <class T>
__device__ __forceinline__ T round(T x) {
    if constexpr (std::is_same<T, float>::value) {
        return ::rintf(x);
    } else if constexpr (std::is_same<T, double>::value) {
        return ::rint(x);
    } else {
        return x;
    }
}

// Exact: the remainder of a division rounded towards zero.
__device__ __forceinline__ float truncated_remainder(float a, float b) { return ::fmodf(a, b); }
__device__ __forceinline__ double truncated_remainder(double a, double b) { return ::fmod(a, b); }

// Integers divided by 0 give 0, where the hardware leaves it open.
template <class T>
__device__ __forceinline__ T truncate_divide(T a, T b) {
    if constexpr (std::is_floating_point<T>::value) {
        return trunc(a / b);
    } else {
        if (b == T(0)) {
            return T(0);
        }
        if constexpr (std::is_signed<T>::value) {
            if (b == T(-1)) {  // the least integer has no opposite
                return T(0 - static_cast<std::make_unsigned_t<T>>(a));
            }
        }
        return T(a / b);
    }
}

// The remainder has the sign of the divisor, as in Python.
template <class T>
__device__ __forceinline__ T remainder(T a, T b) {
    if constexpr (std::is_floating_point<T>::value) {
        const T rest = truncated_remainder(a, b);
        return rest != T(0) && is_negative(b) != is_negative(rest) ? rest + b : rest;
    } else {
        const T rest = T(a - T(truncate_divide(a, b) * b));
        return rest != T(0) && is_negative(b) != is_negative(rest) ? T(rest + b) : rest;
    }
}

// As Python's //: exact where the rounded quotient would cross an integer.
template <class T>
__device__ __forceinline__ T floor_divide(T a, T b) {
    if constexpr (std::is_floating_point<T>::value) {
        if (b == T(0)) {
            return a / b;
        }
        const T rest = truncated_remainder(a, b);
        T quotient = (a - rest) / b;
        if (rest != T(0) && is_negative(b) != is_negative(rest)) {
            quotient -= T(1);
        }
        if (quotient == T(0)) {
            return is_negative(a) != is_negative(b) ? -T(0) : T(0);
        }
        const T whole = floor(quotient);
        return quotient - whole > T(0.5) ? whole + T(1) : whole;
    } else {
        const T quotient = truncate_divide(a, b);
        const T rest = T(a - T(quotient * b));
        return rest != T(0) && is_negative(b) != is_negative(rest) ? T(quotient - 1) : quotient;
    }
}

// Integers by repeated squaring, wrapping around; a negative exponent leaves only powers of 1 and
// -1 different from 0.
template <class T>
__device__ __forceinline__ T power(T base, T exponent) {
    if constexpr (std::is_same<T, float>::value) {
        return ::powf(base, exponent);
    } else if constexpr (std::is_same<T, double>::value) {
        return ::pow(base, exponent);
    } else {
        if (is_negative(exponent)) {
            const T odd_power = exponent % T(2) == T(0) ? T(1) : T(-1);
            return base == T(1) ? T(1) : base == T(-1) ? odd_power : T(0);
        }
        uint64_t result = 1;
        uint64_t factor = static_cast<uint64_t>(base);
        for (; exponent != T(0); exponent = T(exponent / 2)) {
            if (exponent % T(2) != T(0)) {
                result *= factor;
            }
            factor *= factor;
        }
        return static_cast<T>(result);
    }
}

// 1 / x to within one unit in the last place, for a normal x whose reciprocal is normal. It has no
// branch, as a division has, so that several can be under way at once (PTX ISA, rcp.approx.ftz).
__device__ __forceinline__ float near_reciprocal(float x) {
#ifdef FUSEGEN_EMULATE
    return 1.0f / x;
#else
    float result;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
#endif
}
__device__ __forceinline__ double near_reciprocal(double x) { return 1.0 / x; }

// Divides many numbers by the same one without a branch, rounded as a division is: the quotient by
// the reciprocal is mended by its remainder (Markstein). Numbers so great or small that this would
// leave the normal range are scaled by a power of two on both sides. Only where the numerator or the
// quotient is near or below the least normal number may it differ, by one unit in the last place.
struct Divisor {
    float scale;
    float scaled;
    float reciprocal;

    __device__ __forceinline__ explicit Divisor(float by) {
        const float size = absolute(by);
        scale = size > 0x1p100f ? 0x1p-64f : size < 0x1p-100f ? 0x1p64f : 1.0f;
        scaled = by * scale;
        reciprocal = 1.0f / scaled;
    }
    __device__ __forceinline__ float quotient(float x) const {
        const float near = x * scale * reciprocal;
        const float rest = ::fmaf(-near, scaled, x * scale);
        const float mended = ::fmaf(rest, reciprocal, near);
        return is_nan(mended) ? near : mended;  // zeros, infinities, overflow
    }
    // To within two units in the last place.
    __device__ __forceinline__ float near_quotient(float x) const { return x * scale * reciprocal; }
};

// a / b to within two units in the last place, without a branch (PTX ISA, div.full).
__device__ __forceinline__ float near_quotient(float a, float b) {
#ifdef FUSEGEN_EMULATE
    return a / b;
#else
    float result;
    asm("div.full.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
    return result;
#endif
}

// 2^x for results of 16 bits. What is below 2^-126 becomes 0 (PTX ISA, ex2.approx.ftz).
__device__ __forceinline__ float near_power_of_2(float x) {
#ifdef FUSEGEN_EMULATE
    const float result = ::exp2f(x);
    return result < 1.17549435e-38f ? 0.0f : result;
#else
    float result;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
#endif
}

// The logarithm of x to base 2 to within 2^-22 for x from 1 to 2 (PTX ISA, lg2.approx).
__device__ __forceinline__ float near_log2(float x) {
#ifdef FUSEGEN_EMULATE
    return ::log2f(x);
#else
    float result;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
#endif
}

// exp(x) to within (4 + |x|) 2^-22 of itself, for results of 16 bits and x up to 70: 2^24 times as
// great at first, so that what is small is not lost before it is multiplied.
__device__ __forceinline__ float near_exponential(float x) {
    return near_power_of_2(::fmaf(x, 1.44269504f, 24.0f)) * (1.0f / 16777216.0f);
}

__device__ __forceinline__ double near_exponential(double x) { return ::exp(x); }

// exp(x) to within (2 + |x|) 2^-22 of itself, for all x: the square of exp(x / 2).
__device__ __forceinline__ float near_exp(float x) {
    const float root = near_power_of_2(x * 0.72134752f);
    return root * root;
}

// tanh(x) to within 2^-21 of itself up to 0.125, and 2^-16 up to 0.25. A zero keeps its sign.
__device__ __forceinline__ float tanh_series(float x) {
    const float squared = x * x;
    return x * ::fmaf(squared, ::fmaf(squared, 2.0f / 15.0f, -1.0f / 3.0f), 1.0f);
}

// tanh(x) to within 2^-16 of itself, for results of 16 bits: the series where 1 - 2 / (1 + exp(2x))
// cancels.
__device__ __forceinline__ float near_tanh(float x) {
    const float series = tanh_series(x);  // here, and not under the condition: that takes longer
    const float reciprocal = near_reciprocal(1.0f + near_power_of_2(x * 2.88539008f));
    const float whole = ::fmaf(-2.0f, reciprocal, 1.0f);
    return absolute(x) < 0.125f ? series : whole;
}

// (1 + exp(-x)) 2^-24, whose reciprocal is not subnormal.
__device__ __forceinline__ float sigmoid_divisor(float x) {
    return 1.0f / 16777216.0f + near_power_of_2(::fmaf(x, -1.44269504f, -24.0f));
}

// As close as `near_exponential`, and 2^24 times as great at first, too.
__device__ __forceinline__ float near_sigmoid(float x) {
    return near_reciprocal(sigmoid_divisor(x)) * (1.0f / 16777216.0f);
}

// By exp(-|x|), which cannot overflow and keeps the small values of the left tail.
template <class T>
__device__ __forceinline__ T sigmoid(T x) {
    const T small = exponential(-absolute(x));
    return (is_negative(x) ? small : T(1)) * near_reciprocal(T(1) + small);
}

#ifndef FUSEGEN_EMULATE

// 1 / (1 + exp(-x)), half as many instructions. exp(-x) is 2^t times 1 - rest, where t is -x log2(e)
// rounded up and `rest` what that added, to be taken off; it is at least 0, saturation makes it 0 at
// infinities, where it would be NaN, and 1 at numbers so large that only the sign of 1 - rest counts,
// which is therefore a little more. Sum and quotient are scaled so that neither is subnormal.
__device__ __forceinline__ float sigmoid(float x) {
    constexpr float scale = 1.0f / 16777216.0f;
    float t, rest, power;
    asm("mul.rp.f32 %0, %1, %2;" : "=f"(t) : "f"(x), "f"(-1.44269516f));  // log2(e), rounded up
    const float nearly = __fmaf_rn(t, 0.693147182f, x);  // ln(2) is 0.693147182 - 1.90465421e-9
    asm("fma.rn.sat.f32 %0, %1, %2, %3;" : "=f"(rest) : "f"(t), "f"(-1.90465421e-9f), "f"(nearly));
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(t));
    const float sum = __fmaf_rn(power, __fmaf_rn(-rest, 0.9999f * scale, scale), scale);
    return near_reciprocal(sum) * scale;
}

#endif

template <class T>
__device__ __forceinline__ T logsigmoid(T x) {
    return minimum(x, T(0)) - log1p(exponential(-absolute(x)));
}

template <class T>
__device__ __forceinline__ T relu(T x) {
    return is_negative(x) ? T(0) : x;
}

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
// One instruction; of the zeros it takes the positive one, as PyTorch's does there.
__device__ __forceinline__ float relu(float x) { return maximum(x, 0.0f); }
#endif

template <class T>
__device__ __forceinline__ T hardtanh(T x, T least, T greatest) {
    return x < least ? least : x > greatest ? greatest : x;
}

// Two instructions, but for bounds of 0: there a zero keeps its sign.
__device__ __forceinline__ float hardtanh(float x, float least, float greatest) {
    if (least < greatest && least != 0.0f && greatest != 0.0f) {
        return minimum(maximum(x, least), greatest);
    }
    return hardtanh<float>(x, least, greatest);
}

template <class T>
__device__ __forceinline__ T relu6(T x) {
    return hardtanh(x, T(0), T(6));
}

template <class T>
__device__ __forceinline__ T leaky_relu(T x, T negative_slope) {
    return x > T(0) ? x : x * negative_slope;
}

template <class T>
__device__ __forceinline__ T elu(T x, T alpha) {
    return x > T(0) ? x : alpha * expm1(x);
}

// The constants of Klambauer et al., "Self-Normalizing Neural Networks" (2017).
template <class T>
__device__ __forceinline__ T selu(T x) {
    return T(1.0507009873554804934193349852946) * elu(x, T(1.6732632423543772848170429916717));
}

template <class T>
__device__ __forceinline__ T celu(T x, T alpha) {
    return x > T(0) ? x : alpha * expm1(x / alpha);
}

// By erfc, which keeps the digits that 1 + erf cancels where x is negative.
template <class T>
__device__ __forceinline__ T gelu_none(T x) {
    const T sqrt_half = T(0.70710678118654752440084436210485);
    return T(0.5) * x * erfc(-x * sqrt_half);
}

// To within 2^-16 of itself, for results of 16 bits: x times the normal distribution, one of whose
// tails is 2^-24 times 2 to the power of a polynomial in |x|, fitted up to 14.4 with an error of at
// most 2^-16.5, about the middle, so that its terms do not cancel. Beyond that x times the tail is
// less than any float. NaN comes back with x.
__device__ __forceinline__ float near_gelu_none(float x) {
    const float from_middle = ::fminf(absolute(x), 14.5f) - 7.0f;
    float power = ::fmaf(from_middle, 7.3219791e-11f, -1.6116175e-9f);
    power = ::fmaf(from_middle, power, 1.2116938e-8f);
    power = ::fmaf(from_middle, power, -6.2539364e-8f);
    power = ::fmaf(from_middle, power, 8.28999e-7f);
    power = ::fmaf(from_middle, power, -1.0670854e-5f);
    power = ::fmaf(from_middle, power, 1.0749648e-4f);
    power = ::fmaf(from_middle, power, -1.1229643e-3f);
    power = ::fmaf(from_middle, power, -0.70818782f);
    power = ::fmaf(from_middle, power, -10.297312f);
    power = ::fmaf(from_middle, power, -15.507193f);
    const float from = x < 0.0f ? 0.0f : 1.0f;
    return x * absolute(::fmaf(near_power_of_2(power), -1.0f / 16777216.0f, from));
}

// The slope of the exact gelu: the normal distribution, and x times its density.
__device__ __forceinline__ double gelu_slope(double x) {
    const double density = exponential(-0.5 * x * x) * 0.3989422804014326779;
    return 0.5 * erfc(-x * 0.70710678118654752440) + x * density;
}

// For x < 0 it is exp(-x x / 2) (1 / 2 - |x| v(|x|)), else 1 less that. v falls from 0.8 to 0.4: a
// polynomial in 1 / (1 + 0.275 |x|), fitted so that the sum errs by 2^-26, and by 2^-22 of itself. So
// nothing cancels but at the zero itself, at -0.75. The exponential is a square, of what does not
// underflow; what rounding took off its exponent is made up for to first order. It errs by less than
// 2^-21, below -1.2 by 2^-19 of itself. Far out the power is 0, at infinities the result is NaN, as
// PyTorch's.
__device__ __forceinline__ float gelu_slope(float x) {
    const float size = absolute(x);
    const float t = near_reciprocal(::fmaf(size, 0.275f, 1.0f));
    float v = ::fmaf(t, -0.033896957f, 0.10203519f);
    v = ::fmaf(t, v, -0.013384162f);
    v = ::fmaf(t, v, 0.10585004f);
    v = ::fmaf(t, v, 0.099872664f);
    v = ::fmaf(t, v, 0.13852231f);
    v = ::fmaf(t, v, 0.39888528f);
    const float sum = ::fmaf(-size, v, 0.5f);
    const float held = ::fminf(size, 24.0f);
    const float half = held * 0.5f;
    const float s = half * held;  // x x / 2, and what its rounding takes off
    const float rest = ::fmaf(half, held, -s);
    const float exponent = s * -0.72134752f;
    const float root = near_power_of_2(exponent);
    const float missing = ::fmaf(exponent, -1.38629436f, -s) - rest;
    const float left = root * ::fmaf(sum, missing, sum) * root;
    return x < 0.0f ? left : 1.0f - left;
}

// (1 + tanh(u)) / 2 is sigmoid(2 u), which does not cancel where u is negative.
template <class T>
__device__ __forceinline__ T gelu_tanh(T x) {
    const T sqrt_2_by_pi = T(0.79788456080286535587989211986876);
    const T inner = sqrt_2_by_pi * (x + T(0.044715) * x * x * x);
    return x * sigmoid(T(2) * inner);
}

// As close as `near_sigmoid` of 2 u, whose factors are in the exponential's.
__device__ __forceinline__ float near_gelu_tanh(float x) {
    const float factor = ::fmaf(x * x, -0.10294324f, -2.3022082f);
    const float divisor = 1.0f / 16777216.0f + near_power_of_2(::fmaf(x, factor, -24.0f));
    return x * (near_reciprocal(divisor) * (1.0f / 16777216.0f));
}

template <class T>
__device__ __forceinline__ T silu(T x) {
    return x * sigmoid(x);
}

template <class T>
__device__ __forceinline__ T softplus(T x, T beta, T threshold) {
    const T scaled = x * beta;
    return scaled > threshold ? x : log1p(exponential(scaled)) / beta;
}

// The same to within 2^-16 of itself for scaled x of more than -30, for results of 16 bits: the greater
// of x and 0, and log(1 + e) of e = exp(-|x|), by a series where 1 + e would lose what is small.
__device__ __forceinline__ float near_softplus(float x, float beta, float threshold) {
    const float scaled = x * beta;
    const float power = near_exponential(-absolute(scaled));
    const float ahead = ::fmaf(power, ::fmaf(power, 1.0f / 3.0f, -0.5f), 1.0f);
    const float series = power * ::fmaf(power * power * power, -0.25f, ahead);
    const float whole = 0.69314718f * near_log2(1.0f + power);
    const float added = power < 0.0625f ? series : whole;
    const float sum = (scaled > 0.0f ? scaled : 0.0f) + added;
    return scaled > threshold ? x : near_quotient(sum, beta);
}

// tanh(log(1 + e)) is e (e + 2) / (e (e + 2) + 2); above 20 it is 1 to double precision.
template <class T>
__device__ __forceinline__ T mish(T x) {
    const T power = exponential(x < T(20) ? x : T(20));
    const T part = power * (power + T(2));
    return x * (part * near_reciprocal(part + T(2)));
}

// e (e + 2) of `mish`, as close as `near_exponential`.
__device__ __forceinline__ float mish_part(float x) {
    const float power = near_exponential(::fminf(x, 20.0f));
    return power * (power + 2.0f);
}

__device__ __forceinline__ float near_mish(float x) {
    const float part = mish_part(x);
    return x * (part * near_reciprocal(part + 2.0f));
}

template <class T>
__device__ __forceinline__ T softsign(T x) {
    return x / (T(1) + absolute(x));
}

// The product with 0 keeps NaN.
template <class T>
__device__ __forceinline__ T softshrink(T x, T lambd) {
    return x > lambd ? x - lambd : x < -lambd ? x + lambd : x * T(0);
}

template <class T>
__device__ __forceinline__ T hardshrink(T x, T lambd) {
    return x >= -lambd && x <= lambd ? T(0) : x;
}

template <class T>
__device__ __forceinline__ T tanhshrink(T x) {
    return x - tanh(x);
}

template <class T>
__device__ __forceinline__ T threshold(T x, T threshold, T value) {
    return x <= threshold ? value : x;
}

template <class T>
__device__ __forceinline__ T hardsigmoid(T x) {
    return relu6(x + T(3)) / T(6);
}

template <class T>
__device__ __forceinline__ T hardswish(T x) {
    return x * relu6(x + T(3)) / T(6);
}

}  // namespace fusegen
