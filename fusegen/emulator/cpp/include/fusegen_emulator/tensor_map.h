// A tensor in global memory and its tiles, as bulk copies need them.
#pragma once

#include <cstdint>

namespace fusegen_emulator {

constexpr int max_tile_rank = 5;
constexpr int max_window_rank = 3;

// Dimensions innermost first.
struct TensorMap {
    void* address;
    std::uint32_t rank;  // 0: not encoded
    std::uint32_t element_bytes;
    std::int64_t sizes[max_tile_rank];
    std::int64_t strides[max_tile_rank];  // in bytes
    std::int32_t box[max_tile_rank];
    bool swizzled;
    bool rounds_to_tf32;  // float elements, on their way to shared memory
    // Of windows over images, whose spatial dims are neither the first nor the last: where along
    // each the first one begins, from an image's first element, and the last one, from its last.
    bool is_window;
    std::int32_t lower[max_window_rank];
    std::int32_t upper[max_window_rank];
    std::int32_t steps[max_window_rank];
};

}  // namespace fusegen_emulator
