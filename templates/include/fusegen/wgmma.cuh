// Matrix products by a warpgroup on the tensor cores (PTX ISA, "Asynchronous Warpgroup Level Matrix
// Instructions"). Compute capability 9.0a.
//
// A warpgroup is 4 neighbouring warps, the first of which has a number divisible by 4; all 128
// threads make every call. Products run by themselves: from wgmma() to the wgmma_wait() for its
// group, nobody may touch the sums `d` or overwrite the operands in shared memory.
#pragma once

#include "dtypes.cuh"
#include "shared_address.cuh"

// Whether this compilation can use warpgroup products: for sm_90a, or emulated.
#if defined(FUSEGEN_EMULATE) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define FUSEGEN_HAS_WGMMA 1
#else
#define FUSEGEN_HAS_WGMMA 0
#endif

namespace fusegen {

// Which of its two dimensions an operand has contiguous in memory: the one that is summed over (K),
// or the other (M of A, N of B).
enum class Major { k, mn };

// The product's extent in M, and in K: 32 bytes of either operand.
constexpr int wgmma_m = 64;
template <class T>
constexpr int wgmma_k = 32 / static_cast<int>(sizeof(T));

// A warpgroup's 64 x N sums: the row and the column that d[i] holds in thread 0 to 127 of the
// warpgroup (PTX ISA, "Register Fragments for wgmma.mma_async.m64nNk16", matrix D).
__device__ __forceinline__ int wgmma_row(int thread, int i) {
    return thread / 32 * 16 + thread % 32 / 4 + i / 2 % 2 * 8;
}
__device__ __forceinline__ int wgmma_column(int thread, int i) {
    return i / 4 * 8 + thread % 4 * 2 + i % 2;
}

// Describes a tile for wgmma (PTX ISA, "Matrix Descriptor Format"): its place, in units of 16 bytes,
// the two distances between its pieces, and the 128-byte swizzle. `shared` may point 32-byte steps
// into the first row of a 1024-byte aligned tile.
__device__ __forceinline__ std::uint64_t wgmma_descriptor_of(const void* shared,
                                                             unsigned leading_bytes,
                                                             unsigned stride_bytes) {
    constexpr std::uint64_t swizzle_128_bytes = std::uint64_t{1} << 62;
    const auto field = [](unsigned bytes) { return std::uint64_t{(bytes & 0x3ffffu) >> 4}; };
    return field(shared_address(shared)) | field(leading_bytes) << 16 | field(stride_bytes) << 32 |
           swizzle_128_bytes;
}

// An operand that is K-major: rows of 128 bytes along K, as tma_load_2d with a box of 128 bytes by
// the extent in M or N leaves them. The next K-step's operand begins 32 bytes further.
__device__ __forceinline__ std::uint64_t wgmma_descriptor(const void* shared) {
    constexpr unsigned eight_rows = 1024;
    return wgmma_descriptor_of(shared, 16, eight_rows);
}

// An operand that is MN-major, of a 16-bit type: chunks of 64 elements along M or N, each with rows
// of 128 bytes, one for every K; `chunk_bytes` lie between the chunks' starts. The next K-step's
// operand begins 16 rows further.
__device__ __forceinline__ std::uint64_t wgmma_descriptor_mn_major(const void* shared,
                                                                   unsigned chunk_bytes) {
    constexpr unsigned eight_rows = 1024;
    return wgmma_descriptor_of(shared, chunk_bytes, eight_rows);
}

}  // namespace fusegen

#ifdef FUSEGEN_EMULATE

#include <fusegen_emulator/wgmma.h>

#else

namespace fusegen {

// Keeps the compiler from moving uses of the sums across this point.
template <int count>
__device__ __forceinline__ void pin_registers(float (&d)[count]) {
#pragma unroll
    for (int i = 0; i < count; ++i) {
        asm volatile("" : "+f"(d[i])::"memory");
    }
}

// Orders this thread's register accesses before the products that follow: wgmma.fence. Needed
// before the first product, and again after the sums have been touched.
template <class... Sums>
__device__ __forceinline__ void wgmma_fence(Sums&... d) {
    (pin_registers(d), ...);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

// Closes the open group of products: wgmma.commit_group.
__device__ __forceinline__ void wgmma_commit() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

// Waits until at most the `pending` latest groups are unfinished: wgmma.wait_group. The finished
// groups' sums, which may be given to keep the compiler from using them earlier, can be read.
template <int pending, class... Sums>
__device__ __forceinline__ void wgmma_wait(Sums&... d) {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory");
    (pin_registers(d), ...);
}

// The instruction for each extent in N.
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

#define FUSEGEN_WGMMA(shape_and_types, count, a, b, accumulates, majors, ...)       \
    asm volatile(                                                                   \
        "{\n"                                                                       \
        ".reg .pred accumulate;\n"                                                  \
        "setp.ne.b32 accumulate, " accumulates ", 0;\n"                             \
        "wgmma.mma_async.sync.aligned." shape_and_types " {" FUSEGEN_REGISTERS_##count \
        "}, " a ", " b ", accumulate, 1, 1" majors ";\n"                            \
        "}"                                                                         \
        : FUSEGEN_SUMS_##count                                                      \
        : "l"(descriptor_a), "l"(descriptor_b), "r"(static_cast<int>(accumulate)) __VA_ARGS__)

#define FUSEGEN_WGMMA_SHAPE(n, count, a, b, accumulates, major_a, major_b)                       \
    template <>                                                                                  \
    struct Wgmma<n> {                                                                            \
        template <class T, int a_is_mn_major, int b_is_mn_major>                                 \
        static __device__ __forceinline__ void issue(float (&d)[count],                          \
                                                     std::uint64_t descriptor_a,                 \
                                                     std::uint64_t descriptor_b,                 \
                                                     bool accumulate) {                          \
            if constexpr (std::is_same<T, bfloat16>::value) {                                    \
                FUSEGEN_WGMMA("m64n" #n "k16.f32.bf16.bf16", count, a, b, accumulates,           \
                              ", " major_a ", " major_b, , "n"(a_is_mn_major),                   \
                              "n"(b_is_mn_major));                                               \
            } else if constexpr (std::is_same<T, float16>::value) {                              \
                FUSEGEN_WGMMA("m64n" #n "k16.f32.f16.f16", count, a, b, accumulates,             \
                              ", " major_a ", " major_b, , "n"(a_is_mn_major),                   \
                              "n"(b_is_mn_major));                                               \
            } else {                                                                             \
                FUSEGEN_WGMMA("m64n" #n "k8.f32.tf32.tf32", count, a, b, accumulates, "");       \
            }                                                                                    \
        }                                                                                        \
    };

FUSEGEN_WGMMA_SHAPE(16, 8, "%8", "%9", "%10", "%11", "%12")
FUSEGEN_WGMMA_SHAPE(32, 16, "%16", "%17", "%18", "%19", "%20")
FUSEGEN_WGMMA_SHAPE(48, 24, "%24", "%25", "%26", "%27", "%28")
FUSEGEN_WGMMA_SHAPE(64, 32, "%32", "%33", "%34", "%35", "%36")
FUSEGEN_WGMMA_SHAPE(80, 40, "%40", "%41", "%42", "%43", "%44")
FUSEGEN_WGMMA_SHAPE(96, 48, "%48", "%49", "%50", "%51", "%52")
FUSEGEN_WGMMA_SHAPE(112, 56, "%56", "%57", "%58", "%59", "%60")
FUSEGEN_WGMMA_SHAPE(128, 64, "%64", "%65", "%66", "%67", "%68")
FUSEGEN_WGMMA_SHAPE(144, 72, "%72", "%73", "%74", "%75", "%76")
FUSEGEN_WGMMA_SHAPE(160, 80, "%80", "%81", "%82", "%83", "%84")
FUSEGEN_WGMMA_SHAPE(176, 88, "%88", "%89", "%90", "%91", "%92")
FUSEGEN_WGMMA_SHAPE(192, 96, "%96", "%97", "%98", "%99", "%100")
FUSEGEN_WGMMA_SHAPE(208, 104, "%104", "%105", "%106", "%107", "%108")
FUSEGEN_WGMMA_SHAPE(224, 112, "%112", "%113", "%114", "%115", "%116")
FUSEGEN_WGMMA_SHAPE(240, 120, "%120", "%121", "%122", "%123", "%124")
FUSEGEN_WGMMA_SHAPE(256, 128, "%128", "%129", "%130", "%131", "%132")

#undef FUSEGEN_WGMMA_SHAPE
#undef FUSEGEN_WGMMA

// d = A B, added to d if `accumulate`: wgmma.mma_async. A is 64 x K and B is K x N, both in shared
// memory, of type float16, bfloat16, or float, which is read as TF32 (the low 13 bits are ignored).
// N is a multiple of 16 up to 256.
template <class T, int n, Major major_a = Major::k, Major major_b = Major::k>
__device__ __forceinline__ void wgmma(float (&d)[n / 2], std::uint64_t descriptor_a,
                                      std::uint64_t descriptor_b, bool accumulate) {
    static_assert(is_16_bit_float<T> || std::is_same<T, float>::value, "not a type of wgmma");
    static_assert(is_16_bit_float<T> || (major_a == Major::k && major_b == Major::k),
                  "TF32 operands must be K-major");
    Wgmma<n>::template issue<T, major_a == Major::mn, major_b == Major::mn>(
        d, descriptor_a, descriptor_b, accumulate);
}

}  // namespace fusegen

#endif
