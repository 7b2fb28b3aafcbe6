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

class Checker {
public:
    // Answers of first_unwritten.
    static constexpr std::int64_t all_written = -1;
    static constexpr std::int64_t not_exposed = -2;

    bool on = false;

    void expose(const void* begin, std::size_t bytes, bool initialised);
    void forget_all();
    std::int64_t first_unwritten(const void* begin, std::size_t bytes);

    // `code` lies in the kernel's library.
    void start_launch(const void* code);
    void start_block(std::uint64_t index, unsigned thread_count);
    void end_block();
    void add_shared_array(const char* name, const void* begin, std::size_t bytes);
    void join_block() { clocks_.join_block(); }
    void join_warp(unsigned warp, std::uint32_t lanes) { clocks_.join_warp(warp, lanes); }

    // An access by the thread that runs, from the code before `return_address`. Does not return if
    // it is a fault.
    void access(const void* address, std::size_t bytes, AccessKind kind, bool reads,
                const void* return_address);

private:
    struct BlockStart {
        std::uint32_t time;
        std::uint64_t index;
    };

    void record(Cell& cell, const Access& access);
    [[noreturn]] void report_out_of_bounds(std::uintptr_t address, std::size_t bytes,
                                           AccessKind kind, std::uintptr_t code) const;
    [[noreturn]] void report_uninitialised(std::uintptr_t address, std::uintptr_t code) const;
    [[noreturn]] void report_race(std::uintptr_t address, const Access& now, const Access& earlier,
                                  Order order) const;
    // The range that holds the address, or else the one that ends or begins nearest; may be null.
    const NamedRange* nearest_range(std::uintptr_t address) const;

    VectorClocks clocks_;
    ShadowMemory shadow_;
    LoadedData loaded_data_;
    std::vector<NamedRange> global_;
    std::vector<NamedRange> shared_;
    std::vector<BlockStart> blocks_;  // of this launch, in the order they ran
    std::uintptr_t code_base_ = 0;
};

}  // namespace fusegen_emulator
