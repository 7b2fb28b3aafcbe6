// How a tile of a tensor lies in shared memory.
#pragma once

#include <algorithm>
#include <cstdint>

#include "../include/fusegen_emulator/asynchronous.h"

namespace fusegen_emulator {

constexpr std::size_t piece_bytes = 16;  // what the swizzle moves about
constexpr std::size_t swizzled_row_bytes = 128;
constexpr std::size_t swizzled_tile_alignment = 1024;
constexpr std::size_t plain_tile_alignment = 128;

// The 128-byte swizzle of an address in shared memory: the number of the 128-byte row modulo 8 is
// added, without carry, to the number of the piece within the row.
constexpr std::size_t swizzle(std::size_t address) { return address ^ (address >> 7 & 7) << 4; }

inline std::size_t tile_bytes(const TileCopy& copy) {
    std::size_t bytes = copy.map->element_bytes;
    for (unsigned i = 0; i < copy.rank; ++i) {
        bytes *= static_cast<std::size_t>(copy.map->box[i]);
    }
    return bytes;
}

// A stretch of a tile's row: `bytes` of the tensor from `global`, which lie `offset` bytes into the
// tile before the swizzle. The rest of the row lies outside the tensor.
struct TileRow {
    std::size_t offset;   // of the row
    std::size_t skipped;  // from the row's start to what lies inside the tensor
    std::size_t bytes;    // inside the tensor; may be 0
    char* global;
};

template <class Visit>
void for_each_row(const TileCopy& copy, Visit visit) {
    const TensorMap& map = *copy.map;
    const std::int64_t element_bytes = map.element_bytes;
    const std::int64_t first = std::max(0, -copy.at[0]);
    const std::int64_t last = std::min<std::int64_t>(map.box[0], map.sizes[0] - copy.at[0]);
    const int depth = copy.rank == 3 ? map.box[2] : 1;
    std::size_t offset = 0;
    for (int z = 0; z < depth; ++z) {
        for (int y = 0; y < map.box[1]; ++y) {
            const std::int64_t at_y = std::int64_t{copy.at[1]} + y;
            const std::int64_t at_z = std::int64_t{copy.at[2]} + z;
            const bool inside = first < last && at_y >= 0 && at_y < map.sizes[1] &&
                                (copy.rank == 2 || (at_z >= 0 && at_z < map.sizes[2]));
            TileRow row{offset, 0, 0, nullptr};
            if (inside) {
                row.skipped = static_cast<std::size_t>(first * element_bytes);
                row.bytes = static_cast<std::size_t>((last - first) * element_bytes);
                row.global = static_cast<char*>(map.address) +
                             (copy.at[0] + first) * element_bytes + at_y * map.strides[1] +
                             (copy.rank == 3 ? at_z * map.strides[2] : 0);
            }
            visit(row);
            offset += static_cast<std::size_t>(map.box[0] * element_bytes);
        }
    }
}

}  // namespace fusegen_emulator
