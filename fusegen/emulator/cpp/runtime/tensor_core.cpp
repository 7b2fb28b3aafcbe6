// The arithmetic of a wgmma, with sums in float32.
#include <cstring>

#include "../include/fusegen_emulator/float16.h"
#include "operand.h"
#include "warpgroup.h"

namespace fusegen_emulator {

namespace {

constexpr unsigned max_k = 16;

float element(OperandType type, const char* address) {
    if (type == OperandType::tf32) {
        std::uint32_t bits;
        std::memcpy(&bits, address, sizeof bits);
        return float_of(bits & 0xffffe000u);  // the low 13 bits are ignored
    }
    std::uint16_t bits;
    std::memcpy(&bits, address, sizeof bits);
    return type == OperandType::float16 ? to_float(float16{bits}) : to_float(bfloat16{bits});
}

// Decodes an operand to set(mn, k, value).
template <class Set>
void decode(const Operand& operand, OperandType type, unsigned extent, const char* window,
            Set set) {
    const std::size_t bytes = type == OperandType::tf32 ? 4 : 2;
    operand.for_each_piece(extent, bytes, [&](std::size_t address, unsigned mn, unsigned k) {
        for (unsigned i = 0; i < piece_bytes / bytes; ++i) {
            set(operand.mn_major ? mn + i : mn, operand.mn_major ? k : k + i,
                element(type, window + address + i * bytes));
        }
    });
}

}  // namespace

void multiply_tiles(const WgmmaOperands& operands, const char* window, WgmmaSums& sums) {
    float a[64][max_k] = {}, b[max_k][256] = {};
    decode(Operand(operands.descriptor_a, operands.a_is_mn_major), operands.type, 64, window,
           [&](unsigned m, unsigned k, float value) { a[m][k] = value; });
    decode(Operand(operands.descriptor_b, operands.b_is_mn_major), operands.type, operands.n,
           window, [&](unsigned n, unsigned k, float value) { b[k][n] = value; });
    const unsigned k_extent = operands.type == OperandType::tf32 ? 8 : 16;
    for (unsigned m = 0; m < 64; ++m) {
        float* row = sums.values[m];
        if (!operands.accumulate) {
            std::fill_n(row, operands.n, 0.0f);
        }
        for (unsigned k = 0; k < k_extent; ++k) {
            const float factor = a[m][k];
            for (unsigned n = 0; n < operands.n; ++n) {
                row[n] += factor * b[k][n];
            }
        }
    }
}

}  // namespace fusegen_emulator
