#include "shared_memory.h"

#include <cstdlib>
#include <cstring>

#include "limits.h"

namespace fusegen_emulator {

namespace {

constexpr int no_slot = -1;
constexpr unsigned char guard_byte = 0xa5;
constexpr unsigned char fill_byte = 0xff;  // 0xffff... is NaN in every floating-point type

std::size_t round_up(std::size_t value, std::size_t multiple) {
    return (value + multiple - 1) / multiple * multiple;
}

bool is_intact(const char* guard, std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; ++i) {
        if (static_cast<unsigned char>(guard[i]) != guard_byte) {
            return false;
        }
    }
    return true;
}

}  // namespace

SharedMemory::SharedMemory() : arena_(static_cast<char*>(std::aligned_alloc(4096, arena_bytes))) {}

void SharedMemory::start_block(std::size_t dynamic_bytes) {
    for (const Array& array : arrays_) {
        if (array.slot != no_slot) {
            by_slot_[array.slot] = nullptr;
        }
    }
    arrays_.clear();
    used_bytes_ = payload_bytes_ = static_bytes_ = 0;
    place(no_slot, "dynamic", dynamic_bytes, dynamic_alignment);
}

const SharedMemory::Array* SharedMemory::place(int slot, const char* name, std::size_t bytes,
                                               std::size_t alignment) {
    const std::size_t begin = round_up(used_bytes_ + guard_bytes, alignment);
    payload_bytes_ = round_up(payload_bytes_, alignment) + bytes;
    if (slot != no_slot) {
        static_bytes_ = round_up(static_bytes_, alignment) + bytes;
    }
    if (payload_bytes_ > max_shared_bytes || static_bytes_ > max_static_shared_bytes ||
        begin + bytes + guard_bytes > arena_bytes) {
        return nullptr;
    }
    std::memset(arena_ + used_bytes_, guard_byte, begin - used_bytes_);
    std::memset(arena_ + begin, fill_byte, bytes);
    std::memset(arena_ + begin + bytes, guard_byte, guard_bytes);
    used_bytes_ = begin + bytes;
    if (slot != no_slot) {
        if (static_cast<std::size_t>(slot) >= by_slot_.size()) {
            by_slot_.resize(slot + 1, nullptr);
        }
        by_slot_[slot] = arena_ + begin;
    }
    arrays_.push_back({name, arena_ + begin, bytes, slot});
    return &arrays_.back();
}

const SharedMemory::Array* SharedMemory::array_of(const void* address) const {
    for (const Array& array : arrays_) {
        if (static_cast<std::size_t>(static_cast<const char*>(address) - array.begin) <
            array.bytes) {
            return &array;
        }
    }
    return nullptr;
}

const SharedMemory::Array* SharedMemory::find_damaged() const {
    for (const Array& array : arrays_) {
        if (!is_intact(array.begin - guard_bytes, guard_bytes) ||
            !is_intact(array.begin + array.bytes, guard_bytes)) {
            return &array;
        }
    }
    return nullptr;
}

}  // namespace fusegen_emulator
