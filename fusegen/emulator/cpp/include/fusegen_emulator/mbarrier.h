// Barriers in shared memory; their meaning stands in fusegen/mbarrier.cuh.
#pragma once

#include "asynchronous.h"

namespace fusegen {

__forceinline__ void mbarrier_init(std::uint64_t* barrier, unsigned count,
                                   fusegen_emulator::Site site = fusegen_emulator::caller_site(
                                       fusegen_emulator::Operation::mbarrier_init)) {
    fusegen_emulator_mbarrier_init(site, barrier, count);
}

__forceinline__ void mbarrier_fence_init() { fusegen_emulator_mbarrier_fence_init(); }

__forceinline__ void mbarrier_arrive(std::uint64_t* barrier,
                                     fusegen_emulator::Site site = fusegen_emulator::caller_site(
                                         fusegen_emulator::Operation::mbarrier_arrive)) {
    fusegen_emulator_mbarrier_arrive(site, barrier, 0);
}

__forceinline__ void mbarrier_arrive_expect(
    std::uint64_t* barrier, unsigned bytes,
    fusegen_emulator::Site site =
        fusegen_emulator::caller_site(fusegen_emulator::Operation::mbarrier_arrive)) {
    fusegen_emulator_mbarrier_arrive(site, barrier, bytes);
}

__forceinline__ void mbarrier_wait(std::uint64_t* barrier, unsigned parity,
                                   fusegen_emulator::Site site = fusegen_emulator::caller_site(
                                       fusegen_emulator::Operation::mbarrier_wait)) {
    fusegen_emulator_mbarrier_wait(site, barrier, parity);
}

}  // namespace fusegen
