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

// How many windows lie along a spatial dim of images.
inline std::int64_t window_count(const TensorMap& map, unsigned dim) {
    const std::int64_t last = map.sizes[dim + 1] - 1 + map.upper[dim];
    return (last - map.lower[dim]) / map.steps[dim] + 1;
}

// Where the element lies that a copy reads of its window with this number: its bytes from the images'
// start, or -1 where it is outside of its image or there is no such window.
inline std::int64_t window_start(const TileCopy& copy, std::int64_t number) {
    const TensorMap& map = *copy.map;
    std::int64_t start = 0;
    bool is_inside = true;
    for (unsigned dim = 0; dim < copy.rank - 2; ++dim) {
        const std::int64_t count = window_count(map, dim);
        number += (copy.at[dim + 1] - map.lower[dim]) / map.steps[dim];
        const std::int64_t begin = map.lower[dim] + number % count * map.steps[dim];
        const std::int64_t at = begin + copy.offsets[dim];
        number /= count;
        is_inside = is_inside && at >= 0 && at < map.sizes[dim + 1];
        start += at * map.strides[dim + 1];
    }
    const std::int64_t image = copy.at[copy.rank - 1] + number;
    is_inside = is_inside && image >= 0 && image < map.sizes[copy.rank - 1];
    return is_inside ? start + image * map.strides[copy.rank - 1] : -1;
}

// Where the tile's row with this number lies: its bytes from the tensor's start, or -1 where it is
// outside of the tensor.
inline std::int64_t row_start(const TileCopy& copy, int row) {
    const TensorMap& map = *copy.map;
    if (map.is_window) {
        return window_start(copy, row);
    }
    std::int64_t start = 0;
    for (unsigned i = 1; i < copy.rank; ++i) {
        const std::int64_t at = std::int64_t{copy.at[i]} + row % map.box[i];
        row /= map.box[i];
        if (at < 0 || at >= map.sizes[i]) {
            return -1;
        }
        start += at * map.strides[i];
    }
    return start;
}

template <class Visit>
void for_each_row(const TileCopy& copy, Visit visit) {
    const TensorMap& map = *copy.map;
    const std::int64_t element_bytes = map.element_bytes;
    const std::int64_t first = std::max(0, -copy.at[0]);
    const std::int64_t last = std::min<std::int64_t>(map.box[0], map.sizes[0] - copy.at[0]);
    const std::size_t row_bytes = static_cast<std::size_t>(map.box[0] * element_bytes);
    const int rows = static_cast<int>(tile_bytes(copy) / row_bytes);
    for (int i = 0; i < rows; ++i) {
        TileRow row{static_cast<std::size_t>(i) * row_bytes, 0, 0, nullptr};
        const std::int64_t start = row_start(copy, i);
        if (start >= 0 && first < last) {
            row.skipped = static_cast<std::size_t>(first * element_bytes);
            row.bytes = static_cast<std::size_t>((last - first) * element_bytes);
            row.global =
                static_cast<char*>(map.address) + start + (copy.at[0] + first) * element_bytes;
        }
        visit(row);
    }
}

}  // namespace fusegen_emulator
