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

// The same of an operand in registers (PTX ISA, "Register Fragments for wgmma.mma_async.m64nNk16",
// matrix A): each holds a pair of neighbours in K.
template <class Set>
void decode_registers(const RegistersA& registers, OperandType type, Set set) {
    for (unsigned thread = 0; thread < registers.size(); ++thread) {
        for (unsigned i = 0; i < 8; ++i) {
            const char* pair = reinterpret_cast<const char*>(&registers[thread][i / 2]);
            set(thread / 32 * 16 + thread % 32 / 4 + i / 2 % 2 * 8,
                thread % 4 * 2 + i % 2 + i / 4 * 8, element(type, pair + i % 2 * 2));
        }
    }
}

}  // namespace

void multiply_tiles(const WgmmaOperands& operands, const RegistersA& registers_a,
                    const char* window, WgmmaSums& sums) {
    float a[64][max_k] = {}, b[max_k][256] = {};
    const auto set = [&](unsigned m, unsigned k, float value) { a[m][k] = value; };
    if (registers_a.empty()) {
        decode(Operand(operands.descriptor_a, operands.a_is_mn_major), operands.type, 64, window,
               set);
    } else {
        decode_registers(registers_a, operands.type, set);
    }
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
