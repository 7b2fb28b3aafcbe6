// Bulk copies of tensor tiles between global and shared memory by the tensor memory accelerator
// (PTX ISA, "Data Movement and Conversion Instructions: Tensor copy"). Compute capability 9.0.
//
// One thread issues a copy; it runs by itself. Coordinates count elements, innermost dimension (x)
// first. Where a tile reaches beyond the tensor, loads bring zeros and stores write nothing; a
// load's tile may begin before the tensor, a store's must not (CUDA programming guide, tensor
// copies). A tile in shared memory must be 1024-byte aligned when its tensor map swizzles, else
// 128-byte.
#pragma once

#include "mbarrier.cuh"
#include "tensor_map.cuh"

#ifdef FUSEGEN_EMULATE

#include <fusegen_emulator/tma.h>

#else

namespace fusegen {

// Brings the tensor map closer, so that the first copy need not wait for it: prefetch.tensormap.
__device__ __forceinline__ void prefetch_tensor_map(const TensorMap& map) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

// Copies the tile at (x, y) to shared memory; its bytes count towards the barrier's phase:
// cp.async.bulk.tensor.2d.
__device__ __forceinline__ void tma_load_2d(void* shared, const TensorMap& map,
                                            std::uint64_t* barrier, int x, int y) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
        "[%0], [%1, {%3, %4}], [%2];" ::"r"(shared_address(shared)),
        "l"(&map), "r"(shared_address(barrier)), "r"(x), "r"(y)
        : "memory");
}

// The same for a tensor of three dimensions: cp.async.bulk.tensor.3d.
__device__ __forceinline__ void tma_load_3d(void* shared, const TensorMap& map,
                                            std::uint64_t* barrier, int x, int y, int z) {
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
        "[%0], [%1, {%3, %4, %5}], [%2];" ::"r"(shared_address(shared)),
        "l"(&map), "r"(shared_address(barrier)), "r"(x), "r"(y), "r"(z)
        : "memory");
}

// The same for a tensor of four dimensions: cp.async.bulk.tensor.4d.
__device__ __forceinline__ void tma_load_4d(void* shared, const TensorMap& map,
                                            std::uint64_t* barrier, int x, int y, int z, int u) {
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
        "[%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(shared_address(shared)),
        "l"(&map), "r"(shared_address(barrier)), "r"(x), "r"(y), "r"(z), "r"(u)
        : "memory");
}

// The same for a tensor of five dimensions: cp.async.bulk.tensor.5d.
__device__ __forceinline__ void tma_load_5d(void* shared, const TensorMap& map,
                                            std::uint64_t* barrier, int x, int y, int z, int u,
                                            int v) {
    asm volatile(
        "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
        "[%0], [%1, {%3, %4, %5, %6, %7}], [%2];" ::"r"(shared_address(shared)),
        "l"(&map), "r"(shared_address(barrier)), "r"(x), "r"(y), "r"(z), "r"(u), "r"(v)
        : "memory");
}

// Copies elements of neighbouring windows over images, by a map of `window_map.cuh`: of each window
// the channels from `channel` on of the element that lies (offset_x, offset_y) into it. The first
// window begins at (x, y) of an image: cp.async.bulk.tensor.4d, im2col.
__device__ __forceinline__ void tma_load_window_4d(void* shared, const TensorMap& map,
                                                   std::uint64_t* barrier, int channel, int x,
                                                   int y, int image, int offset_x, int offset_y) {
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes "
        "[%0], [%1, {%3, %4, %5, %6}], [%2], {%7, %8};" ::"r"(shared_address(shared)),
        "l"(&map), "r"(shared_address(barrier)), "r"(channel), "r"(x), "r"(y), "r"(image),
        "h"(static_cast<std::uint16_t>(offset_x)), "h"(static_cast<std::uint16_t>(offset_y))
        : "memory");
}

// The same for images of three dimensions: cp.async.bulk.tensor.5d, im2col.
__device__ __forceinline__ void tma_load_window_5d(void* shared, const TensorMap& map,
                                                   std::uint64_t* barrier, int channel, int x,
                                                   int y, int z, int image, int offset_x,
                                                   int offset_y, int offset_z) {
    asm volatile(
        "cp.async.bulk.tensor.5d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes "
        "[%0], [%1, {%3, %4, %5, %6, %7}], [%2], {%8, %9, %10};" ::"r"(shared_address(shared)),
        "l"(&map), "r"(shared_address(barrier)), "r"(channel), "r"(x), "r"(y), "r"(z), "r"(image),
        "h"(static_cast<std::uint16_t>(offset_x)), "h"(static_cast<std::uint16_t>(offset_y)),
        "h"(static_cast<std::uint16_t>(offset_z))
        : "memory");
}

// Makes this thread's ordinary writes to shared memory visible to bulk copies and wgmma that are
// issued after a barrier which follows: fence.proxy.async.
__device__ __forceinline__ void fence_async_shared() {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// Copies a tile from shared memory to (x, y), as part of this thread's open group:
// cp.async.bulk.tensor.2d with bulk_group.
__device__ __forceinline__ void tma_store_2d(const TensorMap& map, const void* shared, int x,
                                             int y) {
    asm volatile(
        "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%2, %3}], [%1];" ::"l"(
            &map),
        "r"(shared_address(shared)), "r"(x), "r"(y)
        : "memory");
}

// The same for a tensor of three dimensions.
__device__ __forceinline__ void tma_store_3d(const TensorMap& map, const void* shared, int x, int y,
                                             int z) {
    asm volatile(
        "cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4}], [%1];" ::
            "l"(&map),
        "r"(shared_address(shared)), "r"(x), "r"(y), "r"(z)
        : "memory");
}

// Closes this thread's open group of stores: cp.async.bulk.commit_group.
__device__ __forceinline__ void tma_store_commit() {
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// Waits until at most the `pending` latest groups of this thread's stores still read shared memory,
// which may then be overwritten: cp.async.bulk.wait_group.read. Needed before the block ends.
template <int pending>
__device__ __forceinline__ void tma_store_wait_read() {
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(pending) : "memory");
}

// Waits until at most the `pending` latest groups of this thread's stores are unfinished: what the
// others wrote can be read by this thread: cp.async.bulk.wait_group.
template <int pending>
__device__ __forceinline__ void tma_store_wait() {
    asm volatile("cp.async.bulk.wait_group %0;" ::"n"(pending) : "memory");
}

}  // namespace fusegen

#endif
