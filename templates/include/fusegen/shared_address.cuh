// Addresses within shared memory, as PTX instructions and matrix descriptors take them.
#pragma once

#include "device.cuh"

#ifdef FUSEGEN_EMULATE

#include <fusegen_emulator/shared_address.h>

#else

// The launch's dynamic shared memory as `type* name`, 1024-byte aligned, as tiles with the 128-byte
// swizzle need it.
#define FUSEGEN_TILE_SHARED(type, name)                                    \
    extern __shared__ __align__(1024) unsigned char fusegen_tile_shared[]; \
    type* name = reinterpret_cast<type*>(fusegen_tile_shared)

namespace fusegen {

// Where a shared variable lies in its block's shared memory.
__device__ __forceinline__ std::uint32_t shared_address(const void* shared) {
    return static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
}

}  // namespace fusegen

#endif
