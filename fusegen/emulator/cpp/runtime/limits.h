// What a device allows, from the CUDA programming guide's table of compute capabilities.
#pragma once

#include <cstddef>

namespace fusegen_emulator {

constexpr unsigned warp_lanes = 32;
constexpr unsigned max_block_threads = 1024;
constexpr unsigned max_warps = max_block_threads / warp_lanes;
constexpr unsigned max_block_z = 64;
constexpr unsigned max_grid_x = 0x7fffffff;
constexpr unsigned max_grid_yz = 65535;

// Per block, static and dynamic together: compute capability 9.0, the largest there is.
constexpr std::size_t max_shared_bytes = 227 * 1024;
// Static arrays alone, on every device.
constexpr std::size_t max_static_shared_bytes = 48 * 1024;

}  // namespace fusegen_emulator
