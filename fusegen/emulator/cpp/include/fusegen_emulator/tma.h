// Bulk copies of tiles; their meaning stands in fusegen/tma.cuh.
#pragma once

#include "asynchronous.h"

namespace fusegen {

inline void prefetch_tensor_map(const fusegen_emulator::TensorMap&) {}

__forceinline__ void tma_load_2d(void* shared, const fusegen_emulator::TensorMap& map,
                                 std::uint64_t* barrier, int x, int y,
                                 fusegen_emulator::Site site = fusegen_emulator::caller_site(
                                     fusegen_emulator::Operation::tma_load)) {
    const fusegen_emulator::TileCopy copy{shared, &map, {x, y, 0}, 2, barrier, 0};
    fusegen_emulator_tma_load(site, &copy);
}

__forceinline__ void tma_load_3d(void* shared, const fusegen_emulator::TensorMap& map,
                                 std::uint64_t* barrier, int x, int y, int z,
                                 fusegen_emulator::Site site = fusegen_emulator::caller_site(
                                     fusegen_emulator::Operation::tma_load)) {
    const fusegen_emulator::TileCopy copy{shared, &map, {x, y, z}, 3, barrier, 0};
    fusegen_emulator_tma_load(site, &copy);
}

__forceinline__ void tma_load_4d(void* shared, const fusegen_emulator::TensorMap& map,
                                 std::uint64_t* barrier, int x, int y, int z, int u,
                                 fusegen_emulator::Site site = fusegen_emulator::caller_site(
                                     fusegen_emulator::Operation::tma_load)) {
    const fusegen_emulator::TileCopy copy{shared, &map, {x, y, z, u}, 4, barrier, 0};
    fusegen_emulator_tma_load(site, &copy);
}

__forceinline__ void tma_load_5d(void* shared, const fusegen_emulator::TensorMap& map,
                                 std::uint64_t* barrier, int x, int y, int z, int u, int v,
                                 fusegen_emulator::Site site = fusegen_emulator::caller_site(
                                     fusegen_emulator::Operation::tma_load)) {
    const fusegen_emulator::TileCopy copy{shared, &map, {x, y, z, u, v}, 5, barrier, 0};
    fusegen_emulator_tma_load(site, &copy);
}

__forceinline__ void tma_load_window_4d(
    void* shared, const fusegen_emulator::TensorMap& map, std::uint64_t* barrier, int channel,
    int x, int y, int image, int offset_x, int offset_y,
    fusegen_emulator::Site site = fusegen_emulator::caller_site(
        fusegen_emulator::Operation::tma_load)) {
    const fusegen_emulator::TileCopy copy{shared,  &map, {channel, x, y, image}, 4,
                                          barrier, 0,    true, {offset_x, offset_y}};
    fusegen_emulator_tma_load(site, &copy);
}

__forceinline__ void tma_load_window_5d(
    void* shared, const fusegen_emulator::TensorMap& map, std::uint64_t* barrier, int channel,
    int x, int y, int z, int image, int offset_x, int offset_y, int offset_z,
    fusegen_emulator::Site site = fusegen_emulator::caller_site(
        fusegen_emulator::Operation::tma_load)) {
    const fusegen_emulator::TileCopy copy{shared,  &map, {channel, x, y, z, image},     5,
                                          barrier, 0,    true, {offset_x, offset_y, offset_z}};
    fusegen_emulator_tma_load(site, &copy);
}

__forceinline__ void fence_async_shared() { fusegen_emulator_fence_async_shared(); }

__forceinline__ void tma_store_2d(const fusegen_emulator::TensorMap& map, const void* shared, int x,
                                  int y,
                                  fusegen_emulator::Site site = fusegen_emulator::caller_site(
                                      fusegen_emulator::Operation::tma_store)) {
    const fusegen_emulator::TileCopy copy{
        const_cast<void*>(shared), &map, {x, y, 0}, 2, nullptr, 0};
    fusegen_emulator_tma_store(site, &copy);
}

__forceinline__ void tma_store_3d(const fusegen_emulator::TensorMap& map, const void* shared, int x,
                                  int y, int z,
                                  fusegen_emulator::Site site = fusegen_emulator::caller_site(
                                      fusegen_emulator::Operation::tma_store)) {
    const fusegen_emulator::TileCopy copy{
        const_cast<void*>(shared), &map, {x, y, z}, 3, nullptr, 0};
    fusegen_emulator_tma_store(site, &copy);
}

__forceinline__ void tma_store_commit() { fusegen_emulator_tma_store_commit(); }

template <int pending>
__forceinline__ void tma_store_wait_read() {
    fusegen_emulator_tma_store_wait(pending, 1);
}

template <int pending>
__forceinline__ void tma_store_wait() {
    fusegen_emulator_tma_store_wait(pending, 0);
}

}  // namespace fusegen
