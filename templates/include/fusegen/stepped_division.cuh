// Divisions of neighbouring numbers by the same number, of which only the first costs a division.
#pragma once

#include "device.cuh"

namespace fusegen {

// Quotients and remainders of `start`, `start + 1`, ... by `divisor`, all positive.
struct SteppedDivision {
    int64_t whole;
    int64_t rest;
    int64_t divisor;

    __device__ __forceinline__ SteppedDivision(int64_t start, int64_t by)
        : whole(start / by), rest(start - whole * by), divisor(by) {}

    // (start + step) / divisor
    __device__ __forceinline__ int64_t quotient(int step) const {
        const int64_t beyond = rest + step;
        return beyond < divisor ? whole : whole + beyond / divisor;
    }

    // (start + step) % divisor
    __device__ __forceinline__ int64_t remainder(int step) const {
        const int64_t beyond = rest + step;
        return beyond < divisor ? beyond : beyond % divisor;
    }
};

}  // namespace fusegen
