// Roles of warps; their meaning stands in fusegen/warp_roles.cuh.
#pragma once

#include "asynchronous.h"

namespace fusegen {

template <int count>
__forceinline__ void decrease_registers(fusegen_emulator::Site site = fusegen_emulator::caller_site(
                                            fusegen_emulator::Operation::set_registers)) {
    static_assert(count % 8 == 0 && count >= 24 && count <= 256, "not a number of registers");
    fusegen_emulator_set_registers(site, count);
}

template <int count>
__forceinline__ void increase_registers(fusegen_emulator::Site site = fusegen_emulator::caller_site(
                                            fusegen_emulator::Operation::set_registers)) {
    static_assert(count % 8 == 0 && count >= 24 && count <= 256, "not a number of registers");
    fusegen_emulator_set_registers(site, count);
}

__forceinline__ void named_barrier_sync(int id, int threads,
                                        fusegen_emulator::Site site = fusegen_emulator::caller_site(
                                            fusegen_emulator::Operation::named_barrier)) {
    fusegen_emulator_named_barrier(site, id, threads, 1);
}

__forceinline__ void named_barrier_arrive(
    int id, int threads,
    fusegen_emulator::Site site =
        fusegen_emulator::caller_site(fusegen_emulator::Operation::named_barrier)) {
    fusegen_emulator_named_barrier(site, id, threads, 0);
}

__forceinline__ bool elect_one(fusegen_emulator::Site site = fusegen_emulator::caller_site(
                                   fusegen_emulator::Operation::elect_one)) {
    fusegen_emulator_vote(site, 0xffffffffu, 0);
    return fusegen_emulator::lane() == 0;
}

}  // namespace fusegen
