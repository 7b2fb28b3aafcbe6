// Static shared arrays: found in the running block's shared memory by their place in the text.
#pragma once

#include "interface.h"

namespace fusegen_emulator {

// Kernels may read whole 16-byte vectors from any shared array.
constexpr std::size_t least_shared_alignment = 16;

template <class T, std::size_t count>
inline T (&shared_array(SharedSlot& slot, const char* name)) [count] {
    constexpr std::size_t alignment =
        alignof(T) > least_shared_alignment ? alignof(T) : least_shared_alignment;
    return *static_cast<T(*)[count]>(
        fusegen_emulator_shared_array(&slot, name, sizeof(T) * count, alignment));
}

}  // namespace fusegen_emulator
