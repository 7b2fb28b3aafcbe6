// CUDA's math beyond the C library's. Approximate intrinsics are computed exactly: a test that
// needs their rounding must not rely on the emulator.
#pragma once

#include <math.h>

#include <type_traits>

#include "interface.h"

// Macros, because glibc declares functions of these reserved names.
#define __expf(x) expf(x)
#define __exp10f(x) powf(10.0f, x)
#define __logf(x) logf(x)
#define __log2f(x) log2f(x)
#define __log10f(x) log10f(x)
#define __powf(x, y) powf(x, y)
#define __sinf(x) sinf(x)
#define __cosf(x) cosf(x)
#define __tanf(x) tanf(x)

inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
inline double rsqrt(double x) { return 1.0 / sqrt(x); }
inline float __saturatef(float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }
inline float __fdividef(float x, float y) { return x / y; }
inline float __fdiv_rn(float x, float y) { return x / y; }
inline float __frcp_rn(float x) { return 1.0f / x; }
inline float __fsqrt_rn(float x) { return sqrtf(x); }
inline float __fmaf_rn(float x, float y, float z) { return fmaf(x, y, z); }

// These promise not to be contracted into a fused multiply-add.
__attribute__((optimize("fp-contract=off"), noinline)) inline float __fmul_rn(float x, float y) {
    return x * y;
}
__attribute__((optimize("fp-contract=off"), noinline)) inline float __fadd_rn(float x, float y) {
    return x + y;
}

namespace fusegen_emulator {

template <class To, class From>
inline To reinterpret_bits(From from) {
    static_assert(sizeof(To) == sizeof(From), "the sizes must agree");
    To to;
    __builtin_memcpy(&to, &from, sizeof(To));
    return to;
}

}  // namespace fusegen_emulator

inline int __float_as_int(float x) { return fusegen_emulator::reinterpret_bits<int>(x); }
inline unsigned __float_as_uint(float x) { return fusegen_emulator::reinterpret_bits<unsigned>(x); }
inline float __int_as_float(int x) { return fusegen_emulator::reinterpret_bits<float>(x); }
inline float __uint_as_float(unsigned x) { return fusegen_emulator::reinterpret_bits<float>(x); }
inline long long __double_as_longlong(double x) {
    return fusegen_emulator::reinterpret_bits<long long>(x);
}
inline double __longlong_as_double(long long x) {
    return fusegen_emulator::reinterpret_bits<double>(x);
}

inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz(static_cast<unsigned>(x)); }
inline int __ffs(int x) { return __builtin_ffs(x); }

template <class T>
__forceinline__ T __ldg(const T* address) {
    return *address;
}

// As CUDA's: of two floating-point numbers, the one that is not NaN.
template <class A, class B>
inline auto min(A a, B b) {
    using T = std::common_type_t<A, B>;
    if constexpr (std::is_same<T, float>::value) {
        return fminf(a, b);
    } else if constexpr (std::is_floating_point<T>::value) {
        return fmin(a, b);
    } else {
        return static_cast<T>(b) < static_cast<T>(a) ? static_cast<T>(b) : static_cast<T>(a);
    }
}

template <class A, class B>
inline auto max(A a, B b) {
    using T = std::common_type_t<A, B>;
    if constexpr (std::is_same<T, float>::value) {
        return fmaxf(a, b);
    } else if constexpr (std::is_floating_point<T>::value) {
        return fmax(a, b);
    } else {
        return static_cast<T>(a) < static_cast<T>(b) ? static_cast<T>(b) : static_cast<T>(a);
    }
}
