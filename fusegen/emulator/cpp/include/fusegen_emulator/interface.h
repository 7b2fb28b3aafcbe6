// What a kernel library and the emulator's runtime library know of each other.
#pragma once

#include <cstddef>
#include <cstdint>

#include "vector_types.h"

// For the shim's own helpers: the checker must not see the emulator's bookkeeping as kernel
// accesses.
#define FUSEGEN_EMULATOR_UNCHECKED __attribute__((no_sanitize_thread))

namespace fusegen_emulator {

// What a thread can wait in; reports call it by its CUDA name.
enum class Operation : unsigned {
    sync_threads,
    sync_warp,
    shuffle,
    vote,
    elect_one,
    named_barrier,
    set_registers,
    cluster_sync,
    cluster_shared,
    cluster_send,
    mbarrier_init,
    mbarrier_arrive,
    mbarrier_wait,
    tma_load,
    tma_store,
    wgmma,
    cp_async,
    ldmatrix,
    stmatrix,
    mma,
};

// Where in the kernel's text a thread synchronises, and how.
struct Site {
    const char* file;
    unsigned line;
    Operation operation;
};

constexpr Site caller_site(Operation operation, const char* file = __builtin_FILE(),
                           unsigned line = __builtin_LINE()) {
    return {file, line, operation};
}

#define FUSEGEN_EMULATOR_SITE(name) \
    (::fusegen_emulator::Site{__FILE__, __LINE__, ::fusegen_emulator::Operation::name})

// CUDA's built-in variables of the thread that runs.
struct ThreadContext {
    uint3 thread_index;
    uint3 block_index;
    dim3 block_size;
    dim3 grid_size;
    unsigned lane;
    unsigned cluster_rank;
};

// A kernel launch; `run(arguments)` runs the kernel's body for the current thread.
struct LaunchRequest {
    const char* kernel_name;
    dim3 grid;
    dim3 block;
    unsigned cluster_blocks;  // in x
    std::size_t shared_bytes;
    void (*run)(const void* arguments);
    const void* arguments;
    bool instrumented;  // compiled with the checker's hooks
};

// The identity of a static shared array in the program text; the runtime numbers it on first use.
struct SharedSlot {
    int index;
};

}  // namespace fusegen_emulator

extern "C" {

extern fusegen_emulator::ThreadContext* fusegen_emulator_thread;

// The emulated device's compute capability, 9 unless it was set.
int fusegen_emulator_capability();
void fusegen_emulator_launch(const fusegen_emulator::LaunchRequest* request);
int fusegen_emulator_take_error();
const char* fusegen_emulator_error_text();

void* fusegen_emulator_shared_array(fusegen_emulator::SharedSlot* slot, const char* name,
                                    std::size_t bytes, std::size_t alignment);
void* fusegen_emulator_dynamic_shared();
// Where shared memory lies in its block's window of addresses.
unsigned fusegen_emulator_shared_address(const void* shared);

// Waits for every thread of the block; returns how many came with a predicate that is not zero.
unsigned fusegen_emulator_sync_threads(fusegen_emulator::Site site, int predicate);

// Waits for the lanes of `mask`, which then see each other's memory accesses.
void fusegen_emulator_sync_warp(fusegen_emulator::Site site, unsigned mask);
// Waits for the lanes of `mask`, then copies `bytes` from `source_lane`'s value to `result`.
void fusegen_emulator_shuffle(fusegen_emulator::Site site, unsigned mask, const void* value,
                              void* result, unsigned bytes, unsigned source_lane);
// Waits for the lanes of `mask`; returns the set of those whose predicate is not zero.
unsigned fusegen_emulator_vote(fusegen_emulator::Site site, unsigned mask, int predicate);

void fusegen_emulator_note_atomic(const void* address, unsigned bytes, bool reads);
void fusegen_emulator_report_misaligned(const void* address, unsigned bytes);
}

namespace fusegen_emulator {

// By value and unchecked, so that looking at threadIdx is no memory access in the checker's eyes.
FUSEGEN_EMULATOR_UNCHECKED inline uint3 thread_index() {
    return fusegen_emulator_thread->thread_index;
}
FUSEGEN_EMULATOR_UNCHECKED inline uint3 block_index() {
    return fusegen_emulator_thread->block_index;
}
FUSEGEN_EMULATOR_UNCHECKED inline dim3 block_size() { return fusegen_emulator_thread->block_size; }
FUSEGEN_EMULATOR_UNCHECKED inline dim3 grid_size() { return fusegen_emulator_thread->grid_size; }
FUSEGEN_EMULATOR_UNCHECKED inline unsigned lane() { return fusegen_emulator_thread->lane; }

}  // namespace fusegen_emulator

#define threadIdx (::fusegen_emulator::thread_index())
#define blockIdx (::fusegen_emulator::block_index())
#define blockDim (::fusegen_emulator::block_size())
#define gridDim (::fusegen_emulator::grid_size())
#define warpSize 32
