// Clusters of blocks; their meaning stands in fusegen/cluster.cuh.
#pragma once

#include "asynchronous.h"

namespace fusegen {

FUSEGEN_EMULATOR_UNCHECKED inline unsigned cluster_rank() {
    return fusegen_emulator_thread->cluster_rank;
}

__forceinline__ void cluster_sync(fusegen_emulator::Site site = fusegen_emulator::caller_site(
                                      fusegen_emulator::Operation::cluster_sync)) {
    fusegen_emulator_cluster_sync(site);
}

template <class T>
__forceinline__ T* cluster_shared(T* shared, unsigned rank,
                                  fusegen_emulator::Site site = fusegen_emulator::caller_site(
                                      fusegen_emulator::Operation::cluster_shared)) {
    return static_cast<T*>(fusegen_emulator_cluster_shared(site, shared, rank));
}

template <class T>
__forceinline__ void cluster_send(T* shared, const T& value, std::uint64_t* barrier, unsigned rank,
                                  fusegen_emulator::Site site = fusegen_emulator::caller_site(
                                      fusegen_emulator::Operation::cluster_send)) {
    static_assert(sizeof(T) % 4 == 0 && alignof(T) % 4 == 0, "whole words are sent");
    fusegen_emulator_cluster_send(site, shared, &value, sizeof(T), barrier, rank);
}

__forceinline__ void mbarrier_arrive_remote(
    std::uint64_t* barrier, unsigned rank,
    fusegen_emulator::Site site =
        fusegen_emulator::caller_site(fusegen_emulator::Operation::mbarrier_arrive)) {
    fusegen_emulator_mbarrier_arrive_remote(site, barrier, rank);
}

__forceinline__ void tma_load_2d_multicast(
    void* shared, const fusegen_emulator::TensorMap& map, std::uint64_t* barrier, int x, int y,
    std::uint16_t mask,
    fusegen_emulator::Site site =
        fusegen_emulator::caller_site(fusegen_emulator::Operation::tma_load)) {
    const fusegen_emulator::TileCopy copy{shared, &map, {x, y, 0}, 2, barrier, mask};
    fusegen_emulator_tma_load(site, &copy);
}

}  // namespace fusegen
