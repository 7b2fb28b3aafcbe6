// wgmma.mma_async for every extent in N, as Wgmma<n>::issue: one instruction each.
#pragma once

#include "dtypes.cuh"

namespace fusegen {

template <int n>
struct Wgmma;

// The asm statements name their operands by number: first the sums, then what each shape's line at
// the end of this file spells out.
// clang-format off
#define FUSEGEN_REGISTERS_8 "%0,%1,%2,%3,%4,%5,%6,%7"
#define FUSEGEN_REGISTERS_16 FUSEGEN_REGISTERS_8 "," "%8,%9,%10,%11,%12,%13,%14,%15"
#define FUSEGEN_REGISTERS_24 FUSEGEN_REGISTERS_16 "," "%16,%17,%18,%19,%20,%21,%22,%23"
#define FUSEGEN_REGISTERS_32 FUSEGEN_REGISTERS_24 "," "%24,%25,%26,%27,%28,%29,%30,%31"
#define FUSEGEN_REGISTERS_40 FUSEGEN_REGISTERS_32 "," "%32,%33,%34,%35,%36,%37,%38,%39"
#define FUSEGEN_REGISTERS_48 FUSEGEN_REGISTERS_40 "," "%40,%41,%42,%43,%44,%45,%46,%47"
#define FUSEGEN_REGISTERS_56 FUSEGEN_REGISTERS_48 "," "%48,%49,%50,%51,%52,%53,%54,%55"
#define FUSEGEN_REGISTERS_64 FUSEGEN_REGISTERS_56 "," "%56,%57,%58,%59,%60,%61,%62,%63"
#define FUSEGEN_REGISTERS_72 FUSEGEN_REGISTERS_64 "," "%64,%65,%66,%67,%68,%69,%70,%71"
#define FUSEGEN_REGISTERS_80 FUSEGEN_REGISTERS_72 "," "%72,%73,%74,%75,%76,%77,%78,%79"
#define FUSEGEN_REGISTERS_88 FUSEGEN_REGISTERS_80 "," "%80,%81,%82,%83,%84,%85,%86,%87"
#define FUSEGEN_REGISTERS_96 FUSEGEN_REGISTERS_88 "," "%88,%89,%90,%91,%92,%93,%94,%95"
#define FUSEGEN_REGISTERS_104 FUSEGEN_REGISTERS_96 "," "%96,%97,%98,%99,%100,%101,%102,%103"
#define FUSEGEN_REGISTERS_112 FUSEGEN_REGISTERS_104 "," "%104,%105,%106,%107,%108,%109,%110,%111"
#define FUSEGEN_REGISTERS_120 FUSEGEN_REGISTERS_112 "," "%112,%113,%114,%115,%116,%117,%118,%119"
#define FUSEGEN_REGISTERS_128 FUSEGEN_REGISTERS_120 "," "%120,%121,%122,%123,%124,%125,%126,%127"

#define FUSEGEN_EIGHT_SUMS(i)                                                                \
    "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
        "+f"(d[i + 6]), "+f"(d[i + 7])
#define FUSEGEN_SUMS_8 FUSEGEN_EIGHT_SUMS(0)
#define FUSEGEN_SUMS_16 FUSEGEN_SUMS_8, FUSEGEN_EIGHT_SUMS(8)
#define FUSEGEN_SUMS_24 FUSEGEN_SUMS_16, FUSEGEN_EIGHT_SUMS(16)
#define FUSEGEN_SUMS_32 FUSEGEN_SUMS_24, FUSEGEN_EIGHT_SUMS(24)
#define FUSEGEN_SUMS_40 FUSEGEN_SUMS_32, FUSEGEN_EIGHT_SUMS(32)
#define FUSEGEN_SUMS_48 FUSEGEN_SUMS_40, FUSEGEN_EIGHT_SUMS(40)
#define FUSEGEN_SUMS_56 FUSEGEN_SUMS_48, FUSEGEN_EIGHT_SUMS(48)
#define FUSEGEN_SUMS_64 FUSEGEN_SUMS_56, FUSEGEN_EIGHT_SUMS(56)
#define FUSEGEN_SUMS_72 FUSEGEN_SUMS_64, FUSEGEN_EIGHT_SUMS(64)
#define FUSEGEN_SUMS_80 FUSEGEN_SUMS_72, FUSEGEN_EIGHT_SUMS(72)
#define FUSEGEN_SUMS_88 FUSEGEN_SUMS_80, FUSEGEN_EIGHT_SUMS(80)
#define FUSEGEN_SUMS_96 FUSEGEN_SUMS_88, FUSEGEN_EIGHT_SUMS(88)
#define FUSEGEN_SUMS_104 FUSEGEN_SUMS_96, FUSEGEN_EIGHT_SUMS(96)
#define FUSEGEN_SUMS_112 FUSEGEN_SUMS_104, FUSEGEN_EIGHT_SUMS(104)
#define FUSEGEN_SUMS_120 FUSEGEN_SUMS_112, FUSEGEN_EIGHT_SUMS(112)
#define FUSEGEN_SUMS_128 FUSEGEN_SUMS_120, FUSEGEN_EIGHT_SUMS(120)
// clang-format on

#define FUSEGEN_WGMMA(shape_and_types, count, a, b, accumulates, majors, ...)          \
    asm volatile(                                                                      \
        "{\n"                                                                          \
        ".reg .pred accumulate;\n"                                                     \
        "setp.ne.b32 accumulate, " accumulates                                         \
        ", 0;\n"                                                                       \
        "wgmma.mma_async.sync.aligned." shape_and_types " {" FUSEGEN_REGISTERS_##count \
        "}, " a ", " b ", accumulate, 1, 1" majors                                     \
        ";\n"                                                                          \
        "}"                                                                            \
        : FUSEGEN_SUMS_##count                                                         \
        : "l"(descriptor_a), "l"(descriptor_b), "r"(static_cast<int>(accumulate))__VA_ARGS__)

#define FUSEGEN_WGMMA_REGISTERS(shape_and_types, count, a, b, major)                          \
    asm volatile(                                                                             \
        "{\n"                                                                                 \
        ".reg .pred accumulate;\n"                                                            \
        "setp.eq.b32 accumulate, 0, 0;\n"                                                     \
        "wgmma.mma_async.sync.aligned." shape_and_types " {" FUSEGEN_REGISTERS_##count        \
        "}, {" a "}, " b ", accumulate, 1, 1, " major                                         \
        ";\n"                                                                                 \
        "}"                                                                                   \
        : FUSEGEN_SUMS_##count                                                                \
        : "r"(registers_a[0]), "r"(registers_a[1]), "r"(registers_a[2]), "r"(registers_a[3]), \
          "l"(descriptor_b), "n"(b_is_mn_major))

#define FUSEGEN_WGMMA_SHAPE(n, count, a, b, accumulates, major_a, major_b, third)          \
    template <>                                                                            \
    struct Wgmma<n> {                                                                      \
        template <class T, int a_is_mn_major, int b_is_mn_major>                           \
        static __device__ __forceinline__ void issue(float (&d)[count],                    \
                                                     std::uint64_t descriptor_a,           \
                                                     std::uint64_t descriptor_b,           \
                                                     bool accumulate) {                    \
            if constexpr (std::is_same<T, bfloat16>::value) {                              \
                FUSEGEN_WGMMA("m64n" #n "k16.f32.bf16.bf16", count, a, b, accumulates,     \
                              ", " major_a ", " major_b, , "n"(a_is_mn_major),             \
                              "n"(b_is_mn_major));                                         \
            } else if constexpr (std::is_same<T, float16>::value) {                        \
                FUSEGEN_WGMMA("m64n" #n "k16.f32.f16.f16", count, a, b, accumulates,       \
                              ", " major_a ", " major_b, , "n"(a_is_mn_major),             \
                              "n"(b_is_mn_major));                                         \
            } else {                                                                       \
                FUSEGEN_WGMMA("m64n" #n "k8.f32.tf32.tf32", count, a, b, accumulates, ""); \
            }                                                                              \
        }                                                                                  \
        template <class T, int b_is_mn_major>                                              \
        static __device__ __forceinline__ void issue_registers(                            \
            float (&d)[count], const std::uint32_t (&registers_a)[4],                      \
            std::uint64_t descriptor_b) {                                                  \
            if constexpr (std::is_same<T, bfloat16>::value) {                              \
                FUSEGEN_WGMMA_REGISTERS("m64n" #n "k16.f32.bf16.bf16", count,              \
                                        a ", " b ", " accumulates ", " major_a, major_b,   \
                                        third);                                            \
            } else {                                                                       \
                FUSEGEN_WGMMA_REGISTERS("m64n" #n "k16.f32.f16.f16", count,                \
                                        a ", " b ", " accumulates ", " major_a, major_b,   \
                                        third);                                            \
            }                                                                              \
        }                                                                                  \
    };

FUSEGEN_WGMMA_SHAPE(16, 8, "%8", "%9", "%10", "%11", "%12", "%13")
FUSEGEN_WGMMA_SHAPE(32, 16, "%16", "%17", "%18", "%19", "%20", "%21")
FUSEGEN_WGMMA_SHAPE(48, 24, "%24", "%25", "%26", "%27", "%28", "%29")
FUSEGEN_WGMMA_SHAPE(64, 32, "%32", "%33", "%34", "%35", "%36", "%37")
FUSEGEN_WGMMA_SHAPE(80, 40, "%40", "%41", "%42", "%43", "%44", "%45")
FUSEGEN_WGMMA_SHAPE(96, 48, "%48", "%49", "%50", "%51", "%52", "%53")
FUSEGEN_WGMMA_SHAPE(112, 56, "%56", "%57", "%58", "%59", "%60", "%61")
FUSEGEN_WGMMA_SHAPE(128, 64, "%64", "%65", "%66", "%67", "%68", "%69")
FUSEGEN_WGMMA_SHAPE(144, 72, "%72", "%73", "%74", "%75", "%76", "%77")
FUSEGEN_WGMMA_SHAPE(160, 80, "%80", "%81", "%82", "%83", "%84", "%85")
FUSEGEN_WGMMA_SHAPE(176, 88, "%88", "%89", "%90", "%91", "%92", "%93")
FUSEGEN_WGMMA_SHAPE(192, 96, "%96", "%97", "%98", "%99", "%100", "%101")
FUSEGEN_WGMMA_SHAPE(208, 104, "%104", "%105", "%106", "%107", "%108", "%109")
FUSEGEN_WGMMA_SHAPE(224, 112, "%112", "%113", "%114", "%115", "%116", "%117")
FUSEGEN_WGMMA_SHAPE(240, 120, "%120", "%121", "%122", "%123", "%124", "%125")
FUSEGEN_WGMMA_SHAPE(256, 128, "%128", "%129", "%130", "%131", "%132", "%133")

#undef FUSEGEN_WGMMA_SHAPE
#undef FUSEGEN_WGMMA_REGISTERS
#undef FUSEGEN_WGMMA

}  // namespace fusegen
