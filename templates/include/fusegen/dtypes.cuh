// Element types and their conversions, and vectors of elements moved by one aligned access.
#pragma once

#include "device.cuh"

#ifdef FUSEGEN_EMULATE
#include <fusegen_emulator/float16.h>
#else
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif

namespace fusegen {

#ifdef FUSEGEN_EMULATE

using float16 = fusegen_emulator::float16;
using bfloat16 = fusegen_emulator::bfloat16;

using fusegen_emulator::to_float;

template <class To>
inline To round_to(float x) {
    return fusegen_emulator::round_to(x, To{});
}

#else

using float16 = __half;
using bfloat16 = __nv_bfloat16;

__device__ __forceinline__ float to_float(float16 x) { return __half2float(x); }
// The upper half of the float: by a shift, which the compiler can merge with taking a vector apart.
__device__ __forceinline__ float to_float(bfloat16 x) {
    return __uint_as_float(static_cast<unsigned>(__bfloat16_as_ushort(x)) << 16);
}
template <class To>
__device__ __forceinline__ To round_to(float x) {
    if constexpr (std::is_same<To, float16>::value) {
        return __float2half_rn(x);
    } else {
        return __float2bfloat16_rn(x);
    }
}

#endif

template <class T>
constexpr bool is_16_bit_float =
    std::is_same<T, float16>::value || std::is_same<T, bfloat16>::value;

// A value in another element type, as PyTorch converts it:
// - to float16 and bfloat16 through float32, to the nearest, ties to even, overflow to infinity;
// - to bool, whether it differs from zero, which NaN does;
// - from floating point to integers towards zero; undefined outside the integer's range, except
//   that a uint8 takes the low byte of the whole number.
template <class To, class From>
__device__ __forceinline__ To convert(From value) {
    if constexpr (std::is_same<To, From>::value) {
        return value;
    } else if constexpr (is_16_bit_float<From>) {
        return convert<To>(to_float(value));
    } else if constexpr (is_16_bit_float<To>) {
        return round_to<To>(static_cast<float>(value));
    } else if constexpr (std::is_same<To, bool>::value) {
        return value != static_cast<From>(0);
    } else if constexpr (std::is_same<To, std::uint8_t>::value &&
                         std::is_floating_point<From>::value) {
        return static_cast<std::uint8_t>(static_cast<std::int64_t>(value));
    } else {
        return static_cast<To>(value);
    }
}

// The widest access a thread can make.
constexpr int access_bytes = 16;

// N elements with the alignment that lets them be moved by accesses of up to 16 bytes.
template <class T, int N>
struct alignas(N * sizeof(T) < access_bytes ? N * sizeof(T) : access_bytes) Vector {
    static_assert(N > 0 && (N & (N - 1)) == 0, "a vector has a power of two of elements");

    T elements[N];

    __device__ __forceinline__ T& operator[](int i) { return elements[i]; }
    __device__ __forceinline__ T operator[](int i) const {
#ifndef FUSEGEN_EMULATE
        if constexpr (std::is_same<T, bfloat16>::value && N > 1) {
            // Out of its pair: the upper one is a float but for a mask. Left to itself the compiler
            // moves it down and up again.
            const std::uint32_t pair = reinterpret_cast<const std::uint32_t*>(elements)[i / 2];
            const std::uint32_t bits = i % 2 == 0 ? pair : pair >> 16;
            return __ushort_as_bfloat16(static_cast<unsigned short>(bits));
        } else if constexpr (std::is_same<T, bool>::value && N % 4 == 0) {
            // Out of its word: left to itself the compiler keeps each truth value in a register.
            const std::uint32_t word = reinterpret_cast<const std::uint32_t*>(elements)[i / 4];
            return (word >> i % 4 * 8 & 0xff) != 0;
        } else {
            return elements[i];
        }
#else
        return elements[i];
#endif
    }
};

// An element of a vector in the type that arithmetic on it is done in. `i` must be known when loops
// are unrolled.
template <class T, int N>
__device__ __forceinline__ auto value_at(const Vector<T, N>& vector, int i) {
    if constexpr (is_16_bit_float<T>) {
#ifndef FUSEGEN_EMULATE
        if constexpr (std::is_same<T, bfloat16>::value && N > 1) {
            // One instruction for either half of a word; nvcc takes two for the upper one.
            const unsigned pair = reinterpret_cast<const unsigned*>(&vector)[i / 2];
            return __uint_as_float(i % 2 == 0 ? pair << 16 : pair & 0xffff0000u);
        }
#endif
        return to_float(vector[i]);
    } else {
        return vector[i];
    }
}

// Rounds two numbers to neighbouring elements of a vector: with one instruction, where each by itself
// would take a slower one.
template <class T, int N>
__device__ __forceinline__ void round_pair(Vector<T, N>& vector, int first, float x, float y) {
    static_assert(is_16_bit_float<T>, "elements of 16 bits");
#ifdef FUSEGEN_EMULATE
    vector[first] = round_to<T>(x);
    vector[first + 1] = round_to<T>(y);
#else
    if constexpr (std::is_same<T, float16>::value) {
        const __half2 pair = __floats2half2_rn(x, y);
        vector[first] = pair.x;
        vector[first + 1] = pair.y;
    } else {
        const __nv_bfloat162 pair = __floats2bfloat162_rn(x, y);
        vector[first] = pair.x;
        vector[first + 1] = pair.y;
    }
#endif
}

// What one access moves.
template <int bytes>
using AccessWord = std::conditional_t<
    bytes == 16, uint4,
    std::conditional_t<bytes == 8, uint2,
                       std::conditional_t<bytes == 4, std::uint32_t,
                                          std::conditional_t<bytes == 2, std::uint16_t,
                                                             std::uint8_t>>>>;

// Reads N elements from `source`, which must be aligned to min(16, N * sizeof(T)) bytes.
template <class T, int N>
__device__ __forceinline__ Vector<T, N> load_vector(const T* source) {
    using Word = AccessWord<alignof(Vector<T, N>)>;
    FUSEGEN_REQUIRE_ALIGNED(source, sizeof(Word));
    Vector<T, N> vector;
#pragma unroll
    for (int i = 0; i < static_cast<int>(sizeof(vector) / sizeof(Word)); ++i) {
        reinterpret_cast<Word*>(&vector)[i] = reinterpret_cast<const Word*>(source)[i];
    }
    return vector;
}

#ifndef FUSEGEN_EMULATE
// The bits of the elements from `first` on that fill 8 bytes, packed out of reach of the optimizer.
template <class T, int N>
__device__ __forceinline__ std::uint64_t packed_bits(const Vector<T, N>& vector, int first) {
    static_assert(sizeof(T) == 2 || sizeof(T) == 4, "elements of 2 or 4 bytes");
    std::uint64_t bits;
    if constexpr (sizeof(T) == 2) {
        const auto* each = reinterpret_cast<const std::uint16_t*>(vector.elements + first);
        asm("mov.b64 %0, {%1, %2, %3, %4};"
            : "=l"(bits)
            : "h"(each[0]), "h"(each[1]), "h"(each[2]), "h"(each[3]));
    } else {
        const auto* each = reinterpret_cast<const std::uint32_t*>(vector.elements + first);
        asm("mov.b64 %0, {%1, %2};" : "=l"(bits) : "r"(each[0]), "r"(each[1]));
    }
    return bits;
}
#endif

// Writes N elements to `target`, which must be aligned to min(16, N * sizeof(T)) bytes.
template <class T, int N>
__device__ __forceinline__ void store_vector(T* target, const Vector<T, N>& vector) {
    using Word = AccessWord<alignof(Vector<T, N>)>;
    FUSEGEN_REQUIRE_ALIGNED(target, sizeof(Word));
#pragma unroll
    for (int i = 0; i < static_cast<int>(sizeof(vector) / sizeof(Word)); ++i) {
#ifndef FUSEGEN_EMULATE
        if constexpr (sizeof(Word) == 16 && (sizeof(T) == 2 || sizeof(T) == 4)) {
            // One number, which nvcc stores whole. A uint4 it took apart again in part of the
            // unrolled loops (seen in CUDA 13.0), into four stores.
            using Whole = unsigned __int128;
            constexpr int half = 8 / static_cast<int>(sizeof(T));
            const Whole low = packed_bits(vector, 2 * half * i);
            const Whole high = packed_bits(vector, 2 * half * i + half);
            reinterpret_cast<Whole*>(target)[i] = high << 64 | low;
            continue;
        }
#endif
        reinterpret_cast<Word*>(target)[i] = reinterpret_cast<const Word*>(&vector)[i];
    }
}

#ifndef FUSEGEN_EMULATE
// Stores of 16 or 8 bytes each under a predicate.
template <class T, int N>
__device__ __forceinline__ void store_halves_if(unsigned active, T* target,
                                                const Vector<T, N>& vector) {
    constexpr int half = 8 / static_cast<int>(sizeof(T));
    if constexpr (N == half) {
        asm volatile(
            "{\n"
            ".reg .pred active;\n"
            "setp.ne.u32 active, %0, 0;\n"
            "@active st.global.b64 [%1], %2;\n"
            "}" ::"r"(active),
            "l"(target), "l"(packed_bits(vector, 0)));
    } else {
#pragma unroll
        for (int i = 0; i < N; i += 2 * half) {
            asm volatile(
                "{\n"
                ".reg .pred active;\n"
                ".reg .b32 a, b, c, d;\n"
                "setp.ne.u32 active, %0, 0;\n"
                "mov.b64 {a, b}, %2;\n"
                "mov.b64 {c, d}, %3;\n"
                "@active st.global.v4.b32 [%1], {a, b, c, d};\n"
                "}" ::"r"(active),
                "l"(target + i), "l"(packed_bits(vector, i)), "l"(packed_bits(vector, i + half)));
        }
    }
}
#endif

// The same, or nothing where not `active`, by instructions under a predicate: a branch would keep
// the compiler from working on what follows while this is under way. No memory that the kernel
// reads may be written this way.
template <class T, int N>
__device__ __forceinline__ void store_vector_if(bool active, T* target,
                                                const Vector<T, N>& vector) {
#ifdef FUSEGEN_EMULATE
    constexpr bool in_halves = false;
#else
    constexpr bool in_halves = sizeof(vector) % 8 == 0 && (sizeof(T) == 2 || sizeof(T) == 4);
#endif
    if constexpr (in_halves) {
        store_halves_if(static_cast<unsigned>(active), target, vector);
    } else if (active) {
        store_vector(target, vector);
    }
}

}  // namespace fusegen
