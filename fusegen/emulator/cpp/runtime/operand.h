// An operand of wgmma in shared memory, as its descriptor tells (PTX ISA, "Matrix Descriptor
// Format" and "Canonical Layouts", with the 128-byte swizzle).
#pragma once

#include <cstdint>

#include "tile.h"

namespace fusegen_emulator {

struct Operand {
    static constexpr std::uint64_t swizzle_128_bytes = 1;
    static constexpr unsigned rows_per_pattern = 8;

    std::size_t start;
    std::size_t leading_bytes;
    std::size_t stride_bytes;
    unsigned base_offset;
    std::uint64_t swizzle_mode;
    bool mn_major;

    Operand(std::uint64_t descriptor, bool mn_major)
        : start((descriptor & 0x3fff) << 4),
          leading_bytes((descriptor >> 16 & 0x3fff) << 4),
          stride_bytes((descriptor >> 32 & 0x3fff) << 4),
          base_offset(descriptor >> 49 & 7),
          swizzle_mode(descriptor >> 62),
          mn_major(mn_major) {}

    // What is wrong with the descriptor, or null.
    const char* fault() const {
        if (swizzle_mode != swizzle_128_bytes) {
            return "the emulator knows operands with the 128-byte swizzle alone";
        }
        if (base_offset != 0 || start / swizzled_row_bytes % rows_per_pattern != 0) {
            return "an operand must begin in the first row of a 1024-byte aligned tile";
        }
        return nullptr;
    }

    // Calls visit(address, first_mn, first_k) for each 16-byte piece of an operand of `extent`
    // elements of `element_bytes` along M or N, and of 32 bytes along K.
    template <class Visit>
    void for_each_piece(unsigned extent, std::size_t element_bytes, Visit visit) const {
        const auto piece_elements = static_cast<unsigned>(piece_bytes / element_bytes);
        const unsigned k_extent = 2 * piece_elements;
        if (mn_major) {
            const auto chunk = static_cast<unsigned>(swizzled_row_bytes / element_bytes);
            for (unsigned k = 0; k < k_extent; ++k) {
                for (unsigned mn = 0; mn < extent; mn += piece_elements) {
                    visit(swizzle(start + mn / chunk * leading_bytes +
                                  k / rows_per_pattern * stride_bytes +
                                  k % rows_per_pattern * swizzled_row_bytes +
                                  mn % chunk * element_bytes),
                          mn, k);
                }
            }
        } else {
            for (unsigned mn = 0; mn < extent; ++mn) {
                for (unsigned k = 0; k < k_extent; k += piece_elements) {
                    visit(swizzle(start + mn / rows_per_pattern * stride_bytes +
                                  mn % rows_per_pattern * swizzled_row_bytes + k * element_bytes),
                          mn, k);
                }
            }
        }
    }
};

}  // namespace fusegen_emulator
