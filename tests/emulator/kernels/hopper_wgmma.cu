// One wgmma product for each block of a batch, in every type and layout, A also in registers: d (64 x n) = a (64 x K)
// times b (K x n), where K is 128 bytes. Tiles come and go by bulk copies of three dimensions.
#include <fusegen/hopper.cuh>
#include <fusegen/wgmma_tile.cuh>

using namespace fusegen;

constexpr int warpgroup_threads = 128, row_bytes = 128, chunk_elements = 64;

template <class T>
constexpr int tile_k = row_bytes / static_cast<int>(sizeof(T));

// MN-major operands come in chunks of 64 elements along M or N.
template <Major major, int extent>
constexpr int chunks = major == Major::mn ? (extent + chunk_elements - 1) / chunk_elements : 1;

template <class T, int n, Major major_b>
struct Shared {
    T a[wgmma_m * tile_k<T>];
    T b[(major_b == Major::mn ? chunks<major_b, n> * chunk_elements : n) * tile_k<T>];
    alignas(128) float d[wgmma_m * n];
    std::uint64_t loaded;
};

template <class T, Major major>
__device__ __forceinline__ std::uint64_t operand(const T* tile, int k) {
    constexpr int chunk_size = chunk_elements * tile_k<T>;
    return major == Major::k
               ? wgmma_descriptor(tile + k)
               : wgmma_descriptor_mn_major(tile + k * chunk_elements, chunk_size * sizeof(T));
}

// What this thread holds of the 64 x 16 elements of A from `k` on, if they go through registers.
template <class T>
__device__ __forceinline__ void load_registers(std::uint32_t (&registers)[4], const T* tile,
                                               int k) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const int row = static_cast<int>(threadIdx.x) / 32 * 16 + i % 2 * 8 + lane / 4;
        const int column = k + i / 2 * 8 + lane % 4 * 2;
        const auto pair = load_vector<T, 2>(tile + SwizzledRows<T, wgmma_m, tile_k<T>>::at(row, column));
        memcpy(&registers[i], &pair, sizeof(pair));
    }
}

template <class T, int n, Major major_a, Major major_b, bool a_in_registers>
__global__ void __launch_bounds__(warpgroup_threads)
    multiply(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b,
             const __grid_constant__ TensorMap map_d) {
    using Tiles = Shared<T, n, major_b>;
    FUSEGEN_TILE_SHARED(Tiles, shared);
    const int batch = blockIdx.x, thread = threadIdx.x;
    if (thread == 0) {
        prefetch_tensor_map(map_a);
        mbarrier_init(&shared->loaded, 1);
        mbarrier_fence_init();
    }
    __syncthreads();
    if (thread == 0) {
        mbarrier_arrive_expect(&shared->loaded, sizeof(shared->a) + sizeof(shared->b));
        tma_load_3d(shared->a, map_a, &shared->loaded, 0, 0, batch);
        for (int chunk = 0; chunk < chunks<major_b, n>; ++chunk) {
            tma_load_3d(shared->b + chunk * chunk_elements * tile_k<T>, map_b, &shared->loaded,
                        chunk * chunk_elements, 0, batch);
        }
    }
    mbarrier_wait(&shared->loaded, 0);

    float sums[n / 2] = {};
    std::uint32_t registers[tile_k<T> / wgmma_k<T>][4];
    if constexpr (a_in_registers) {
#pragma unroll
        for (int k = 0; k < tile_k<T>; k += wgmma_k<T>) {
            load_registers(registers[k / wgmma_k<T>], shared->a, k);
        }
    }
    wgmma_fence(sums);
#pragma unroll
    for (int k = 0; k < tile_k<T>; k += wgmma_k<T>) {
        if constexpr (a_in_registers) {
            wgmma<T, n, major_b>(sums, registers[k / wgmma_k<T>],
                                 operand<T, major_b>(shared->b, k));
            continue;
        }
        std::uint64_t a = operand<T, major_a>(shared->a, k);
#ifdef DIFFERENT_DESCRIPTORS
        a += thread / 64;
#endif
        // found: DIFFERENT_DESCRIPTORS
        // found: UNSWIZZLED_TILE
        wgmma<T, n, major_a, major_b>(sums, a, operand<T, major_b>(shared->b, k), k > 0);
    }
#ifndef MISSING_COMMIT
    wgmma_commit();
#endif
#ifdef SUMS_READ_EARLY
    shared->d[thread] = sums[0];  // found: SUMS_READ_EARLY
#endif
#ifdef SUMS_WRITTEN_EARLY
    sums[1] = 0.0f;  // found: SUMS_WRITTEN_EARLY
#endif
    wgmma_wait<0>(sums);

#pragma unroll
    for (int i = 0; i < n / 2; ++i) {
        // found: MISSING_COMMIT
        // found: MISSING_ASYNC_FENCE
        // found: ASYNC_FENCE_AFTER_BARRIER
        shared->d[wgmma_row(thread, i) * n + wgmma_column(thread, i)] = sums[i];
    }
#if !defined(MISSING_ASYNC_FENCE) && !defined(ASYNC_FENCE_AFTER_BARRIER)
    fence_async_shared();
#endif
    named_barrier_sync(1, warpgroup_threads);
#ifdef ASYNC_FENCE_AFTER_BARRIER
    if (thread == 1) fence_async_shared();
#endif
    if (thread == 0) {
        // found: MISSING_STORE_WAIT
        // found: MISSING_STORE_COMMIT
        tma_store_3d(map_d, shared->d, 0, 0, batch);
#ifndef MISSING_STORE_COMMIT
        tma_store_commit();
#endif
#ifdef STORED_TILE_OVERWRITTEN
        shared->d[0] = 0.0f;  // found: STORED_TILE_OVERWRITTEN
#endif
#ifndef MISSING_STORE_WAIT
        tma_store_wait_read<0>();
#endif
    }
}

template <class T, int n, Major major_a, Major major_b, bool a_in_registers = false>
int launch_multiply(const void* a, const void* b, float* d, int batches, void* stream) {
    constexpr int k = tile_k<T>;
#ifdef UNSWIZZLED_TILE
    constexpr Swizzle swizzle = Swizzle::none;
#else
    constexpr Swizzle swizzle = Swizzle::bytes_128;
#endif
    constexpr bool a_mn = major_a == Major::mn, b_mn = major_b == Major::mn;
    constexpr int a_inner = a_mn ? wgmma_m : k, a_outer = a_mn ? k : wgmma_m;
    constexpr int b_inner = b_mn ? n : k, b_outer = b_mn ? k : n;
    const TensorTiles<3> tiles_a{a,
                                 {a_inner, a_outer, batches},
                                 {a_inner, a_inner * a_outer},
                                 {a_mn ? chunk_elements : k, a_outer, 1},
                                 swizzle};
    const TensorTiles<3> tiles_b{b,
                                 {b_inner, b_outer, batches},
                                 {b_inner, b_inner * b_outer},
                                 {b_mn ? chunk_elements : k, b_outer, 1},
                                 Swizzle::bytes_128};
    const TensorTiles<3> tiles_d{
        d, {n, wgmma_m, batches}, {n, n * wgmma_m}, {n, wgmma_m, 1}, Swizzle::none};
    TensorMap map_a, map_b, map_d;
    const TensorMapError errors[] = {encode_tensor_map<T>(&map_a, tiles_a),
                                     encode_tensor_map<T>(&map_b, tiles_b),
                                     encode_tensor_map<float>(&map_d, tiles_d)};
    for (const TensorMapError error : errors) {
        if (error != TensorMapError::none) {
            return -static_cast<int>(error);
        }
    }
    FUSEGEN_LAUNCH((multiply<T, n, major_a, major_b, a_in_registers>), dim3(batches),
                   dim3(warpgroup_threads), sizeof(Shared<T, n, major_b>), stream, map_a, map_b, map_d);
    return FUSEGEN_LAST_ERROR();
}

// Operands lie as [batch][rows][columns], the major dimension last; `choice` is type and layouts.
FUSEGEN_EXPORT int run(int choice, const void* a, const void* b, float* d, int batches,
                       void* stream) {
    constexpr Major k = Major::k, mn = Major::mn;
    switch (choice) {
        case 0:
            return launch_multiply<bfloat16, 16, k, k>(a, b, d, batches, stream);
        case 1:
            return launch_multiply<bfloat16, 96, k, k>(a, b, d, batches, stream);
        case 2:
            return launch_multiply<bfloat16, 256, k, k>(a, b, d, batches, stream);
        case 3:
            return launch_multiply<float16, 128, k, k>(a, b, d, batches, stream);
        case 4:
            return launch_multiply<bfloat16, 64, k, mn>(a, b, d, batches, stream);
        case 5:
            return launch_multiply<bfloat16, 192, k, mn>(a, b, d, batches, stream);
        case 6:
            return launch_multiply<float16, 256, mn, mn>(a, b, d, batches, stream);
        case 7:
            return launch_multiply<bfloat16, 96, mn, k>(a, b, d, batches, stream);
        case 8:
            return launch_multiply<float, 64, k, k>(a, b, d, batches, stream);
        case 9:
            return launch_multiply<float, 240, k, k>(a, b, d, batches, stream);
        case 10:
            return launch_multiply<bfloat16, 64, k, mn, true>(a, b, d, batches, stream);
        case 11:
            return launch_multiply<float16, 144, k, k, true>(a, b, d, batches, stream);
        default:
            return -100;
    }
}
