// The running block's shared memory: arrays at their declared sizes with guard bytes between them.
#pragma once

#include <cstddef>
#include <vector>

#include "../include/fusegen_emulator/interface.h"

namespace fusegen_emulator {

class SharedMemory {
public:
    struct Array {
        const char* name;
        char* begin;
        std::size_t bytes;
        int slot;  // its number in the program text; none for the dynamic array
    };

    SharedMemory();

    // Forgets the last block's arrays and places the dynamic one.
    void start_block(std::size_t dynamic_bytes);

    // The array of a slot, or null if the block has not met it yet.
    void* find(int slot) const {
        return static_cast<std::size_t>(slot) < by_slot_.size() ? by_slot_[slot] : nullptr;
    }

    // Places a new array, filled with bytes that read as NaN. Null if the device's limits forbid
    // it.
    const Array* place(int slot, const char* name, std::size_t bytes, std::size_t alignment);

    // The start of the addresses that a block's shared memory can have, 0 for matrix descriptors.
    const char* window() const { return arena_; }
    std::size_t address_of(const void* shared) const {
        return static_cast<std::size_t>(static_cast<const char*>(shared) - arena_);
    }
    // The array that holds the address, or null.
    const Array* array_of(const void* address) const;

    void* dynamic() const { return arrays_.front().begin; }
    const std::vector<Array>& arrays() const { return arrays_; }
    bool contains(const void* address) const {
        return static_cast<std::size_t>(static_cast<const char*>(address) - arena_) < arena_bytes;
    }

    // The first array with a changed guard byte beside it, or null.
    const Array* find_damaged() const;

private:
    // The device's limit, and room for the guards and alignment of some hundreds of arrays.
    static constexpr std::size_t arena_bytes = 512 * 1024;
    static constexpr std::size_t guard_bytes = 128;
    // As FUSEGEN_TILE_SHARED promises.
    static constexpr std::size_t dynamic_alignment = 1024;

    char* arena_;
    std::size_t used_bytes_ = 0;     // of the arena
    std::size_t payload_bytes_ = 0;  // of the arrays
    std::size_t static_bytes_ = 0;   // of the static arrays
    std::vector<Array> arrays_;      // the dynamic one first
    std::vector<void*> by_slot_;
};

}  // namespace fusegen_emulator
