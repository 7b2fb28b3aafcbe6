// What kernels and the runtime library know of each other for compute capability 9.0: barriers in
// shared memory, and the copies and matrix products that run by themselves.
#pragma once

#include "interface.h"
#include "tensor_map.h"

namespace fusegen_emulator {

// A bulk copy between a tile in shared memory and a tensor.
struct TileCopy {
    void* shared;
    const TensorMap* map;
    int at[max_tile_rank];  // the tile's first element
    unsigned rank;
    std::uint64_t* barrier;      // of a load
    std::uint16_t cluster_mask;  // of a load: bit r is the cluster's block r; 0 is the own block
    bool is_of_windows = false;
    int offsets[max_window_rank] = {};  // of windows: the element of each that is read
};

enum class OperandType : std::uint8_t { float16, bfloat16, tf32 };

// One wgmma, as one thread gives it.
struct WgmmaOperands {
    float* d;
    std::uint64_t descriptor_a;
    std::uint64_t descriptor_b;
    unsigned n;
    OperandType type;
    bool a_is_mn_major;
    bool b_is_mn_major;
    bool accumulate;
    const std::uint32_t* registers_a = nullptr;  // this thread's four, in place of a descriptor
};

}  // namespace fusegen_emulator

extern "C" {

void fusegen_emulator_mbarrier_init(fusegen_emulator::Site site, std::uint64_t* barrier,
                                    unsigned count);
void fusegen_emulator_mbarrier_fence_init();
// An arrival at this block's barrier, which announces `bytes`.
void fusegen_emulator_mbarrier_arrive(fusegen_emulator::Site site, std::uint64_t* barrier,
                                      unsigned bytes);
// An arrival at the same barrier of another block of the cluster.
void fusegen_emulator_mbarrier_arrive_remote(fusegen_emulator::Site site, std::uint64_t* barrier,
                                             unsigned rank);
void fusegen_emulator_mbarrier_wait(fusegen_emulator::Site site, std::uint64_t* barrier,
                                    unsigned parity);

// Stores `bytes` of `value` to the same shared variable of another block of the cluster; they count
// towards that block's barrier.
void fusegen_emulator_cluster_send(fusegen_emulator::Site site, void* shared, const void* value,
                                   std::size_t bytes, std::uint64_t* barrier, unsigned rank);

void fusegen_emulator_tma_load(fusegen_emulator::Site site, const fusegen_emulator::TileCopy* copy);
void fusegen_emulator_tma_store(fusegen_emulator::Site site,
                                const fusegen_emulator::TileCopy* copy);
void fusegen_emulator_tma_store_commit();
// Waits for all but the `pending` latest groups: that they have read shared memory, or, unless
// `only_reads`, that they are complete.
void fusegen_emulator_tma_store_wait(unsigned pending, int only_reads);
void fusegen_emulator_fence_async_shared();

// Copies 16 bytes, of which `valid` from `global`; the rest is zero.
void fusegen_emulator_cp_async(fusegen_emulator::Site site, void* shared, const void* global,
                               int valid);
void fusegen_emulator_cp_async_commit();
void fusegen_emulator_cp_async_wait(unsigned pending);

void fusegen_emulator_wgmma(fusegen_emulator::Site site,
                            const fusegen_emulator::WgmmaOperands* operands);
void fusegen_emulator_wgmma_fence();
void fusegen_emulator_wgmma_commit();
void fusegen_emulator_wgmma_wait(unsigned pending);

// The thread has `count` registers from now on.
void fusegen_emulator_set_registers(fusegen_emulator::Site site, unsigned count);
void fusegen_emulator_named_barrier(fusegen_emulator::Site site, int id, int threads, int waits);
void fusegen_emulator_cluster_sync(fusegen_emulator::Site site);
// The same shared variable of another block of the cluster.
void* fusegen_emulator_cluster_shared(fusegen_emulator::Site site, void* shared, unsigned rank);
}
