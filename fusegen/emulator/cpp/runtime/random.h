// A small, fast pseudo-random sequence: xorshift64 (Marsaglia, "Xorshift RNGs", 2003).
#pragma once

#include <cstdint>

namespace fusegen_emulator {

class Random {
public:
    explicit Random(std::uint64_t seed = 0)
        // An odd multiplier spreads neighbouring seeds; the state must not be zero.
        : state_((seed + 1) * 0x9e3779b97f4a7c15ull | 1) {}

    std::uint64_t next() {
        state_ ^= state_ << 13;
        state_ ^= state_ >> 7;
        state_ ^= state_ << 17;
        return state_ >> 16;  // the low bits are the weakest
    }

private:
    std::uint64_t state_;
};

}  // namespace fusegen_emulator
