// Matrix products by a warp on the tensor cores, and what feeds them: copies that do not wait, and
// exchanges of 8 x 8 fragments with shared memory (PTX ISA, "Matrix multiply-accumulate operation
// using mma instruction", "cp.async", "ldmatrix", "stmatrix"). Compute capability 8.0;
// stmatrix 9.0. Before 8.0 copies wait, and lanes exchange what they multiply.
//
// A fragment register holds two 16-bit elements. Of an 8 x 8 fragment, lane i holds those of row
// i / 4 in columns 2 * (i % 4) and the next.
#pragma once

#include "dtypes.cuh"
#include "shared_address.cuh"

#ifdef FUSEGEN_EMULATE

#include <fusegen_emulator/mma.h>

#else

namespace fusegen {

// Copies 16 bytes from global to shared memory, both 16-byte aligned, without waiting: the first
// `valid` bytes, the rest becomes zero: cp.async.cg.
__device__ __forceinline__ void cp_async(void* shared, const void* global, int valid = 16) {
#if __CUDA_ARCH__ < 800
    uint4 piece{};
    memcpy(&piece, global, valid);
    *static_cast<uint4*>(shared) = piece;
#else
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(shared)),
                 "l"(global), "r"(valid)
                 : "memory");
#endif
}

// Closes this thread's open group of copies: cp.async.commit_group.
__device__ __forceinline__ void cp_async_commit() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// Waits until at most the `pending` latest groups of this thread's copies are under way:
// cp.async.wait_group. Other threads see the copies after a barrier.
template <int pending>
__device__ __forceinline__ void cp_async_wait() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
#endif
}

// Reads four 8 x 8 fragments of 16-bit elements: lane i gives the address of row i % 8 of fragment
// i / 8, `offset` bytes behind `row`, 16-byte aligned: ldmatrix.x4. Every lane must call it.
__device__ __forceinline__ void ldmatrix(std::uint32_t (&fragments)[4], const void* row,
                                         int offset = 0) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(fragments[0]), "=r"(fragments[1]), "=r"(fragments[2]), "=r"(fragments[3])
                 : "r"(shared_address(row) + offset)
                 : "memory");
}

// The same, and transposes each fragment.
__device__ __forceinline__ void ldmatrix_transposed(std::uint32_t (&fragments)[4],
                                                    const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(fragments[0]), "=r"(fragments[1]), "=r"(fragments[2]), "=r"(fragments[3])
                 : "r"(shared_address(row))
                 : "memory");
}

// Writes four 8 x 8 fragments: the reverse of ldmatrix: stmatrix.x4.
__device__ __forceinline__ void stmatrix(void* row, const std::uint32_t (&fragments)[4]) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(
                     shared_address(row)),
                 "r"(fragments[0]), "r"(fragments[1]), "r"(fragments[2]), "r"(fragments[3])
                 : "memory");
}

// d += a b for a 16 x 16 matrix a, a 16 x 8 matrix b and a 16 x 8 matrix d, by the warp: mma.sync
// m16n8k16. a holds the fragments (rows 0-7, k 0-7), (8-15, 0-7), (0-7, 8-15), (8-15, 8-15); b
// holds k 0-7 and 8-15, transposed; d[0] and d[1] are of row lane / 4, d[2] and d[3] of the row 8
// further, in columns 2 * (lane % 4) and the next.
template <class T>
__device__ __forceinline__ void mma_m16n8k16(float (&d)[4], const std::uint32_t (&a)[4],
                                             const std::uint32_t (&b)[2]) {
    static_assert(is_16_bit_float<T>, "float16 or bfloat16");
#if __CUDA_ARCH__ < 800
    const int lane = threadIdx.x % 32;
    const auto product = [](std::uint32_t row, std::uint32_t column) {
        Vector<T, 2> x, y;
        memcpy(&x, &row, sizeof(x));
        memcpy(&y, &column, sizeof(y));
        return to_float(x[0]) * to_float(y[0]) + to_float(x[1]) * to_float(y[1]);
    };
#pragma unroll 1
    for (int quarter = 0; quarter < 4; ++quarter) {  // of K: two columns of each 8 x 8 fragment
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            const std::uint32_t row = __shfl_sync(0xffffffffu, a[i / 4 * 2 + i / 2 % 2],
                                                  lane / 4 * 4 + quarter);
            const std::uint32_t column =
                __shfl_sync(0xffffffffu, b[i / 4], (lane % 4 * 2 + i % 2) * 4 + quarter);
            d[i % 4] += product(row, column);
        }
    }
#else
    if constexpr (std::is_same<T, bfloat16>::value) {
        asm volatile(
            "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
            "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    } else {
        asm volatile(
            "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
            "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    }
#endif
}

// The same for half of K, by the fragments of k 0-7 alone: mma.sync m16n8k8.
template <class T>
__device__ __forceinline__ void mma_m16n8k8(float (&d)[4], const std::uint32_t (&a)[2],
                                            std::uint32_t b) {
    static_assert(is_16_bit_float<T>, "float16 or bfloat16");
    if constexpr (std::is_same<T, bfloat16>::value) {
        asm volatile(
            "mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
            "{%4, %5}, {%6}, {%0, %1, %2, %3};"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
            : "r"(a[0]), "r"(a[1]), "r"(b));
    } else {
        asm volatile(
            "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
            "{%4, %5}, {%6}, {%0, %1, %2, %3};"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
            : "r"(a[0]), "r"(a[1]), "r"(b));
    }
}

}  // namespace fusegen

#endif
