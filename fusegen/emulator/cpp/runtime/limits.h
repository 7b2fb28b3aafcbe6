// What a device allows, from the CUDA programming guide's table of compute capabilities.
#pragma once

#include <cstddef>

namespace fusegen_emulator {

constexpr unsigned warp_lanes = 32;
constexpr unsigned max_block_threads = 1024;
// Blocks of a cluster, on every device that has clusters.
constexpr unsigned max_cluster_blocks = 8;
// Threads of a cluster's blocks together. A device has no such limit; the emulator's tables do.
constexpr unsigned max_cluster_threads = 4096;
constexpr unsigned max_cluster_warps = max_cluster_threads / warp_lanes;
constexpr unsigned warpgroup_threads = 4 * warp_lanes;
constexpr unsigned max_block_z = 64;
// Of a multiprocessor, and the most that a thread is compiled for, in eights.
constexpr unsigned processor_registers = 65536;
constexpr unsigned max_thread_registers = 248;
constexpr unsigned max_grid_x = 0x7fffffff;
constexpr unsigned max_grid_yz = 65535;

// Per block, static and dynamic together: compute capability 9.0, the largest there is.
constexpr std::size_t max_shared_bytes = 227 * 1024;
// Static arrays alone, on every device.
constexpr std::size_t max_static_shared_bytes = 48 * 1024;

// Characters of launched kernels' names that are remembered.
constexpr std::size_t max_launched_text = 1 << 20;

}  // namespace fusegen_emulator
