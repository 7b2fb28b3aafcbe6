// Watches every memory access of a kernel for races, bounds and uninitialised reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "loaded_code.h"
#include "shadow_memory.h"
#include "vector_clocks.h"

namespace fusegen_emulator {

// A stretch of memory with the name that reports give it.
struct NamedRange {
    const char* name;
    std::uintptr_t begin;
    std::size_t bytes;
};

// Who makes an access, a thread or an agent, and when.
struct Actor {
    unsigned member;
    std::uint32_t time;
};

// Something that accesses memory by itself: what reports call it, and whether it sees threads'
// writes to shared memory only once they are fenced for it (PTX ISA, "Proxies").
struct Agent {
    const char* name;
    bool needs_fence;
};

class SharedMemory;

class Checker {
public:
    // Answers of first_unwritten.
    static constexpr std::int64_t all_written = -1;
    static constexpr std::int64_t not_exposed = -2;

    bool on = false;

    void expose(const void* begin, std::size_t bytes, bool initialised);
    void forget(const void* begin, std::size_t bytes);
    void forget_all();
    std::int64_t first_unwritten(const void* begin, std::size_t bytes);

    // `code` lies in the kernel's library.
    void start_launch(const void* code);
    // Starts `blocks` blocks, the first of which has this index in the grid. `block_threads` counts
    // whole warps.
    void start_cluster(std::uint64_t index, unsigned blocks, unsigned block_threads);
    void end_cluster();
    void add_shared_array(const char* name, const void* begin, std::size_t bytes);
    VectorClocks& clocks() { return clocks_; }

    unsigned add_agent(Agent agent);

    // An access by the thread that runs, from the code before `return_address`. Does not return if
    // it is a fault.
    void access(const void* address, std::size_t bytes, AccessKind kind, bool reads,
                const void* return_address);

    // An access that `agent` makes some time after someone who has seen `view` has asked for it.
    void access_by_agent(Actor agent, const VectorClocks::View& view, const void* address,
                         std::size_t bytes, AccessKind kind, const void* return_address);

    // The last thread of a block of several returns: the others must be done with its memory.
    void end_block(const SharedMemory& memory);

    // What the thread has written to shared memory so far is visible to agents too.
    void fence_for_agents(unsigned thread) { fenced_[thread] = clocks_.step(thread); }

private:
    struct ClusterStart {
        std::uint32_t time;
        std::uint64_t index;  // of its first block
    };

    void check(Actor actor, const VectorClocks::View& view, std::uintptr_t begin, std::size_t bytes,
               AccessKind kind, bool reads, std::uintptr_t code);
    void record(Cell& cell, const Access& access, const VectorClocks::View& view);
    [[noreturn]] void report_out_of_bounds(std::uintptr_t address, std::size_t bytes,
                                           AccessKind kind, std::uintptr_t code) const;
    [[noreturn]] void report_uninitialised(std::uintptr_t address, std::uintptr_t code) const;
    [[noreturn]] void report_race(std::uintptr_t address, const Access& now, const Access& earlier,
                                  Order order) const;
    [[noreturn]] void report_missing_fence(std::uintptr_t address, const Access& now,
                                           const Access& earlier) const;
    const Agent& agent(unsigned member) const { return agents_[member - clocks_.thread_count()]; }
    [[noreturn]] void report_early_end(std::uintptr_t address, const Access& remote) const;
    bool is_shared(std::uintptr_t address) const;
    // The range that holds the address, or else the one that ends or begins nearest; may be null.
    const NamedRange* nearest_range(std::uintptr_t address) const;

    VectorClocks clocks_;
    ShadowMemory shadow_;
    LoadedData loaded_data_;
    std::vector<NamedRange> global_;
    std::vector<NamedRange> shared_;
    std::vector<ClusterStart> clusters_;  // of this launch, in the order they ran
    unsigned block_threads_ = 0;
    std::vector<Agent> agents_;  // the first has the first number after the threads
    std::uint32_t fenced_[max_cluster_threads] = {};
    std::uintptr_t code_base_ = 0;
};

}  // namespace fusegen_emulator
