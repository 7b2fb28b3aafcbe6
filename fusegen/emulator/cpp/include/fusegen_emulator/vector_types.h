// dim3, uint3 and the short vectors, with CUDA's sizes and alignments (CUDA programming guide,
// built-in vector types).
#pragma once

struct uint3 {
    unsigned x, y, z;
};

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

#define FUSEGEN_EMULATOR_VECTOR_TYPES(scalar, name)                                              \
    struct alignas(2 * sizeof(scalar)) name##2 { scalar x, y; };                                 \
    struct alignas(sizeof(scalar) < 4 ? 4 * sizeof(scalar) : 16) name##4 { scalar x, y, z, w; }; \
    inline name##2 make_##name##2(scalar x, scalar y) { return {x, y}; }                         \
    inline name##4 make_##name##4(scalar x, scalar y, scalar z, scalar w) { return {x, y, z, w}; }

FUSEGEN_EMULATOR_VECTOR_TYPES(signed char, char)
FUSEGEN_EMULATOR_VECTOR_TYPES(unsigned char, uchar)
FUSEGEN_EMULATOR_VECTOR_TYPES(short, short)
FUSEGEN_EMULATOR_VECTOR_TYPES(unsigned short, ushort)
FUSEGEN_EMULATOR_VECTOR_TYPES(int, int)
FUSEGEN_EMULATOR_VECTOR_TYPES(unsigned, uint)
FUSEGEN_EMULATOR_VECTOR_TYPES(long long, longlong)
FUSEGEN_EMULATOR_VECTOR_TYPES(unsigned long long, ulonglong)
FUSEGEN_EMULATOR_VECTOR_TYPES(float, float)
FUSEGEN_EMULATOR_VECTOR_TYPES(double, double)

#undef FUSEGEN_EMULATOR_VECTOR_TYPES
