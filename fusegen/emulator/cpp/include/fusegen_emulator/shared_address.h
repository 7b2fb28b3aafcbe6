// Addresses within a block's shared memory.
#pragma once

#include "interface.h"

#define FUSEGEN_TILE_SHARED(type, name) \
    type* name = static_cast<type*>(fusegen_emulator_dynamic_shared())

namespace fusegen {

__forceinline__ std::uint32_t shared_address(const void* shared) {
    return fusegen_emulator_shared_address(shared);
}

}  // namespace fusegen
