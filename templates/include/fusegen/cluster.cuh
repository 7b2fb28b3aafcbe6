// Clusters of thread blocks, which run at the same time and reach each other's shared memory (PTX
// ISA, "Cluster of Cooperative Thread Arrays"). Compute capability 9.0. Clusters lie along the
// grid's x.
#pragma once

#include "tma.cuh"

// Whether this compilation can use clusters: for compute capability 9.0 and later, or emulated.
#if defined(FUSEGEN_EMULATE) || !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
#define FUSEGEN_HAS_CLUSTERS 1
#else
#define FUSEGEN_HAS_CLUSTERS 0
#endif

#ifdef FUSEGEN_EMULATE

#include <fusegen_emulator/cluster.h>

// FUSEGEN_LAUNCH with clusters of `cluster_blocks` blocks, 1 to 8, which must divide the grid's x.
#define FUSEGEN_LAUNCH_CLUSTERS(kernel, grid, block, cluster_blocks, shared_bytes, stream, ...) \
    ::fusegen_emulator::launch_clusters(kernel, #kernel, grid, block, cluster_blocks,           \
                                        shared_bytes, stream __VA_OPT__(, ) __VA_ARGS__)

#else

#define FUSEGEN_LAUNCH_CLUSTERS(kernel, grid, block, cluster_blocks, shared_bytes, stream, ...) \
    do {                                                                                        \
        static ::fusegen::KnownKernel known_kernel;                                             \
        ::fusegen::launch(known_kernel, kernel, grid, block, cluster_blocks, shared_bytes,      \
                          stream __VA_OPT__(, ) __VA_ARGS__);                                   \
    } while (false)

namespace fusegen {

// The block's number in its cluster: %cluster_ctarank.
__device__ __forceinline__ unsigned cluster_rank() {
    unsigned rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

// Waits for every thread of the cluster, which then see what each other did: barrier.cluster. A
// block must not end while another of its cluster may still reach into its shared memory.
__device__ __forceinline__ void cluster_sync() {
    asm volatile(
        "barrier.cluster.arrive.release;\n"
        "barrier.cluster.wait.acquire;" ::
            : "memory");
}

// The same shared variable of block `rank` of the cluster, for ordinary accesses: mapa.
template <class T>
__device__ __forceinline__ T* cluster_shared(T* shared, unsigned rank) {
    T* remote;
    asm volatile("mapa.u64 %0, %1, %2;" : "=l"(remote) : "l"(shared), "r"(rank));
    return remote;
}

// Stores `value`, of whole words, to the same shared variable of block `rank` of the cluster. It
// runs by itself: the bytes count towards that block's barrier, whose waiters then see the value and
// what this thread did before (st.async). Nothing else needs to be waited for, as cluster_sync does.
template <class T>
__device__ __forceinline__ void cluster_send(T* shared, const T& value, std::uint64_t* barrier,
                                             unsigned rank) {
    static_assert(sizeof(T) % 4 == 0 && alignof(T) % 4 == 0, "whole words are sent");
    std::uint32_t words[sizeof(T) / 4];
    memcpy(words, &value, sizeof(T));
#pragma unroll
    for (unsigned i = 0; i < sizeof(T) / 4; ++i) {
        asm volatile(
            "{\n"
            ".reg .b32 target, counted;\n"
            "mapa.shared::cluster.u32 target, %0, %3;\n"
            "mapa.shared::cluster.u32 counted, %2, %3;\n"
            "st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [target], %1, [counted];\n"
            "}" ::"r"(shared_address(shared) + 4 * i),
            "r"(words[i]), "r"(shared_address(barrier)), "r"(rank)
            : "memory");
    }
}

// Counts one arrival at the same barrier of block `rank` of the cluster. It tells that block that
// copies and products this thread has waited for are complete, but orders no ordinary accesses.
__device__ __forceinline__ void mbarrier_arrive_remote(std::uint64_t* barrier, unsigned rank) {
    asm volatile(
        "{\n"
        ".reg .b32 remote;\n"
        "mapa.shared::cluster.u32 remote, %0, %1;\n"
        "mbarrier.arrive.shared::cluster.b64 _, [remote];\n"
        "}" ::"r"(shared_address(barrier)),
        "r"(rank)
        : "memory");
}

// tma_load_2d to the same place of every block in `mask` (bit r is block r); the bytes count
// towards each one's own barrier: cp.async.bulk.tensor with multicast::cluster.
__device__ __forceinline__ void tma_load_2d_multicast(void* shared, const TensorMap& map,
                                                      std::uint64_t* barrier, int x, int y,
                                                      std::uint16_t mask) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
        ".multicast::cluster [%0], [%1, {%3, %4}], [%2], %5;" ::"r"(shared_address(shared)),
        "l"(&map), "r"(shared_address(barrier)), "r"(x), "r"(y), "h"(mask)
        : "memory");
}

}  // namespace fusegen

#endif
