// What a convolution on the tensor cores is made of: pixels of 8 channels as rows of fragments, and
// float32 numbers as pairs of float16.
#pragma once

#include "addressing.cuh"
#include "dtypes.cuh"
#include "mma.cuh"
#include "reduce.cuh"

namespace fusegen {

// 8 channels of a pixel: a row of an 8 x 8 fragment.
template <class T>
using Pixel = Vector<T, 8>;

// The registers of one lane for a 16 x 16 fragment of weights.
using WeightFragment = Vector<std::uint32_t, 4>;

// Of the pixels that a warp works on together, 16 by 16, a lane holds runs of 4 neighbours: that is
// the place of its pixel `i`.
__device__ __forceinline__ int lane_pixel(int lane, int i) {
    return i / 4 * 16 + lane % 4 * 4 + i % 4;
}

// The place among 16 pixels of the one whose channels `lane` brings to the fragments: two 8 x 8
// fragments of it make the lanes' runs of 4.
__device__ __forceinline__ int brought_pixel(int lane) {
    return lane % 8 / 2 * 4 + lane / 16 * 2 + lane % 2;
}

// An element of a tensor that the kernel only reads, where the compiler does not see that it is one.
template <class T>
__device__ __forceinline__ T read_only(const T* source) {
#ifdef FUSEGEN_EMULATE
    return *source;
#else
    return __ldg(source);
#endif
}

// The magnitudes of float32 numbers as their bits, which are ordered as they are: the greatest, and
// the least but for zeros. NaN counts as greater than infinity.
struct Magnitudes {
    std::uint32_t greatest;
    std::uint32_t least_minus_one;  // a zero wraps around and becomes the greatest

    static __device__ __forceinline__ Magnitudes identity() { return {0u, 0xffffffffu}; }
    __device__ __forceinline__ void push(float x, int64_t) {
        const std::uint32_t bits = __float_as_uint(x) & 0x7fffffffu;
        merge({bits, bits - 1u});
    }
    __device__ __forceinline__ void merge(const Magnitudes& other) {
        greatest = other.greatest > greatest ? other.greatest : greatest;
        least_minus_one =
            other.least_minus_one < least_minus_one ? other.least_minus_one : least_minus_one;
    }
    __device__ __forceinline__ bool are_finite() const { return greatest < 0x7f800000u; }
};

// The power of two that brings the greatest of some numbers to between 2^14 and 2^15, where float16
// ends. They fit if none is below 2^-14 then, float16's least normal number, so that `Parts` keeps
// the leading 22 bits of each; infinities and NaN never fit. Exponents beyond 60 are left out, so
// that the product of two scales, and its inverse, is a normal number.
struct Scaling {
    bool fits;
    int exponent;

    static __device__ __forceinline__ Scaling of(const Magnitudes& magnitudes) {
        if (magnitudes.greatest == 0) {
            return {true, 0};
        }
        const int exponent = 14 + 127 - static_cast<int>(magnitudes.greatest >> 23);
        const int least = static_cast<int>((magnitudes.least_minus_one + 1u) >> 23) - 127;
        const bool fits = exponent >= -60 && exponent <= 60 && least + exponent >= -14;
        return {fits, fits ? exponent : 0};
    }
};

// What the low part of a number is scaled by, which makes it as large as the high part at most.
constexpr float low_scale = 2048.0f;

// A float32 below 2^15 as the sum of a float16 and, scaled, what is left of it.
struct Parts {
    float16 high;
    float16 low;

    static __device__ __forceinline__ Parts of(float x) {
        const float16 high = convert<float16>(x);
        return {high, convert<float16>((x - to_float(high)) * low_scale)};
    }
};

// d += a b for a fragment of weights and the 8-column fragments of one or of `both` entries, each 8
// deep.
template <class T>
__device__ __forceinline__ void multiply_entries(bool both, float (&d)[4], const WeightFragment& a,
                                                 std::uint32_t first, std::uint32_t second) {
    if (both) {
        const std::uint32_t rows[4] = {a[0], a[1], a[2], a[3]};
        const std::uint32_t columns[2] = {first, second};
        mma_m16n8k16<T>(d, rows, columns);
    } else {
        const std::uint32_t rows[2] = {a[0], a[1]};
        mma_m16n8k8<T>(d, rows, first);
    }
}

// Which of a lane's `most` pixels lie inside the tile, the first `taken`, and how many were `before`
// them: the same for all channels that the lane has states of, so that it is reckoned with once.
template <int most>
struct Run {
    int taken;
    float before;
    float share;  // of `most` pixels in all

    __device__ __forceinline__ Run(int taken, float before)
        : taken(taken), before(before), share(most * near_reciprocal(before + most)) {}
};

// Takes a run of values into a state: moments take them together where the run is `whole`.
template <bool whole, int most, class State>
__device__ __forceinline__ void push_run(State& state, const float (&values)[most],
                                         const Run<most>& run) {
    constexpr bool are_moments = std::is_base_of<Moments<float>, State>::value;
    if constexpr (are_moments) {
        state.count = run.before;
    }
    if constexpr (are_moments && whole) {
        Vector<float, most> all;
#pragma unroll
        for (int i = 0; i < most; ++i) {
            all[i] = values[i];
        }
        state.push(all, run.share);
    } else {
#pragma unroll
        for (int i = 0; i < most; ++i) {
            if (whole || i < run.taken) {
                state.push(values[i], 0);
            }
        }
    }
}

}  // namespace fusegen
