// Extreme and special numbers of each type.
#pragma once

#include <type_traits>

#include "device.cuh"

namespace fusegen {

template <class T>
__device__ __forceinline__ T infinity() {
    static_assert(std::is_floating_point<T>::value, "only floating-point types have an infinity");
    return static_cast<T>(INFINITY);
}

template <class T>
__device__ __forceinline__ T not_a_number() {
    static_assert(std::is_floating_point<T>::value, "only floating-point types have a NaN");
    return static_cast<T>(NAN);
}

// The greatest number below infinity.
template <class T>
__device__ __forceinline__ T greatest_finite() {
    if constexpr (std::is_same<T, float>::value) {
        return 0x1.fffffep127f;
    } else {
        static_assert(std::is_same<T, double>::value, "only float and double are known here");
        return 0x1.fffffffffffffp1023;
    }
}

// Less than or equal to every other number of the type.
template <class T>
__device__ __forceinline__ T lowest() {
    if constexpr (std::is_floating_point<T>::value) {
        return -infinity<T>();
    } else if constexpr (std::is_signed<T>::value) {
        return static_cast<T>(T(1) << (8 * sizeof(T) - 1));
    } else {
        return T(0);
    }
}

// Greater than or equal to every other number of the type.
template <class T>
__device__ __forceinline__ T highest() {
    if constexpr (std::is_floating_point<T>::value) {
        return infinity<T>();
    } else if constexpr (std::is_same<T, bool>::value) {
        return true;
    } else {
        return static_cast<T>(~lowest<T>());
    }
}

// 2^exponent, for exponents of normal numbers: -126 to 127.
__device__ __forceinline__ float power_of_two(int exponent) {
    return __int_as_float((exponent + 127) << 23);
}

}  // namespace fusegen
