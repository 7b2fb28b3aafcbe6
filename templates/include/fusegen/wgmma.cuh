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

// Describes a tile for wgmma (PTX ISA, "Matrix Descriptor Format"): its place, in units of 16
// bytes, the two distances between its pieces, and the 128-byte swizzle. `shared` may point 32-byte
// steps into the first row of a 1024-byte aligned tile.
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

#include "wgmma_instructions.cuh"

namespace fusegen {

// Keeps the compiler from moving uses of the sums across this point.
template <int count>
__device__ __forceinline__ void pin_registers(float (&d)[count]) {
#pragma unroll
    for (int i = 0; i < count; ++i) {
        asm volatile("" : "+f"(d[i])::"memory");
    }
}

// The same of what goes into a product.
template <int products>
__device__ __forceinline__ void pin_registers(std::uint32_t (&operands)[products][4]) {
#pragma unroll
    for (int i = 0; i < products * 4; ++i) {
        asm volatile("" : "+r"(operands[i / 4][i % 4])::"memory");
    }
}

// Orders this thread's register accesses before the products that follow: wgmma.fence. Needed
// before the first product, and again after the sums have been touched; the compiler does not move
// such accesses past it if the sums are given. Sums still in flight must not be given.
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
// groups' sums can then be used; the compiler does not do so earlier if they are given. Sums still
// in flight must not be given.
template <int pending, class... Sums>
__device__ __forceinline__ void wgmma_wait(Sums&... d) {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory");
    (pin_registers(d), ...);
}

// d = A B, added to d if `accumulate`: wgmma.mma_async. A is 64 x K and B is K x N, both in shared
// memory, of type float16, bfloat16, or float, which is read as TF32 (the low 13 bits are ignored).
// N is a multiple of 16 up to 256. Sums that a loop adds to should start as zeros: when the loop's
// first product sets them (`accumulate` false), ptxas copies them and serialises the products.
template <class T, int n, Major major_a = Major::k, Major major_b = Major::k>
__device__ __forceinline__ void wgmma(float (&d)[n / 2], std::uint64_t descriptor_a,
                                      std::uint64_t descriptor_b, bool accumulate) {
    static_assert(is_16_bit_float<T> || std::is_same<T, float>::value, "not a type of wgmma");
    static_assert(is_16_bit_float<T> || (major_a == Major::k && major_b == Major::k),
                  "TF32 operands must be K-major");
    Wgmma<n>::template issue<T, major_a == Major::mn, major_b == Major::mn>(
        d, descriptor_a, descriptor_b, accumulate);
}

// d += A B, with A in registers: of each warp's 16 rows a thread has, like `mma_m16n8k16` of its left
// operand, pairs of neighbours in K. Nobody may change them until the product is waited for.
template <class T, int n, Major major_b = Major::k>
__device__ __forceinline__ void wgmma(float (&d)[n / 2], const std::uint32_t (&registers_a)[4],
                                      std::uint64_t descriptor_b) {
    static_assert(is_16_bit_float<T>, "float16 or bfloat16");
    Wgmma<n>::template issue_registers<T, major_b == Major::mn>(d, registers_a, descriptor_b);
}

}  // namespace fusegen

#endif
