// The host side of a launch: which form of a kernel fits the tensors at hand.
#pragma once

#include "device.cuh"

namespace fusegen {

// The most blocks a grid may have in x.
constexpr int64_t grid_limit = 2147483647;

// A tensor's strides, in elements, by value in a kernel's arguments.
template <int rank>
struct Strides {
    int64_t at[rank];

    explicit Strides(const int64_t* strides) {
        for (int i = 0; i < rank; ++i) {
            at[i] = strides[i];
        }
    }

    // The position, in elements, of the element with these coordinates.
    template <class... Coordinates>
    __device__ __forceinline__ int64_t operator()(Coordinates... coordinates) const {
        static_assert(sizeof...(coordinates) == rank, "one coordinate for each dim");
        const int64_t of[rank] = {static_cast<int64_t>(coordinates)...};
        int64_t position = 0;
#pragma unroll
        for (int i = 0; i < rank; ++i) {
            position += of[i] * at[i];
        }
        return position;
    }
};

// Whether elements lie in row-major order without gaps; dims of size 1 have no say.
template <int rank>
bool is_contiguous(const int64_t* strides, const int64_t (&sizes)[rank]) {
    int64_t expected = 1;
    for (int i = rank - 1; i >= 0; --i) {
        if (sizes[i] != 1 && strides[i] != expected) {
            return false;
        }
        expected *= sizes[i];
    }
    return true;
}

// Takes neighbouring dims as one: the i-th run of dims, which ends before dim `ends[i]`, moves
// through memory by `merged[i]` elements. False where a run's dims do not lie evenly. Dims of size 1
// have no say.
template <int rank, int runs>
bool merge_dims(const int64_t* strides, const int64_t (&sizes)[rank], const int (&ends)[runs],
                int64_t (&merged)[runs]) {
    int64_t contiguous = 1;
    for (int run = runs - 1, dim = rank - 1; run >= 0; --run) {
        merged[run] = contiguous;  // unless a dim has a say
        int64_t expected = -1;
        for (const int first = run == 0 ? 0 : ends[run - 1]; dim >= first; --dim) {
            if (sizes[dim] != 1) {
                if (expected < 0) {
                    merged[run] = strides[dim];
                } else if (strides[dim] != expected) {
                    return false;
                }
                expected = strides[dim] * sizes[dim];
            }
            contiguous *= sizes[dim];
        }
    }
    return true;
}

// Whether accesses of `bytes` at this address are aligned.
inline bool is_aligned(const void* pointer, std::size_t bytes) {
    return reinterpret_cast<std::uintptr_t>(pointer) % bytes == 0;
}

inline int64_t divide_up(int64_t count, int64_t by) { return (count + by - 1) / by; }

// How many parts of K, of `least_depths` each at least, so many tiles have for no more than `blocks`
// blocks.
inline int64_t parts_of_depth(int64_t blocks, int64_t tiles, int64_t depths, int64_t least_depths) {
    const int64_t most = blocks / tiles;
    const int64_t long_parts = depths / least_depths;
    const int64_t parts = most < long_parts ? most : long_parts;
    return parts > 1 ? parts : 1;
}

// A one-dimensional grid for `groups` of `blocks` each, or for as many groups as a grid can have.
inline dim3 grid_of(int64_t groups, int64_t blocks = 1) {
    const int64_t most = grid_limit / blocks;
    return dim3(static_cast<unsigned>((groups < most ? groups : most) * blocks));
}

// How many multiprocessors the current device has: as many blocks as a persistent kernel needs.
inline int64_t processor_count() {
#ifdef FUSEGEN_EMULATE
    return 3;  // so that small tests work through several tiles a block, too
#else
    int device = 0;
    int count = 1;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device);
    return count;
#endif
}

// The current device's compute capability, such as 9 of 9.0.
inline int compute_capability_major() {
#ifdef FUSEGEN_EMULATE
    return fusegen_emulator_capability();
#else
    int device = 0;
    int major = 0;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
    return major;
#endif
}

// Whether blocks can share memory in clusters on the current device.
inline bool has_clusters() { return compute_capability_major() >= 9; }

// Whether the current device has Hopper's warpgroup products.
inline bool has_wgmma() { return compute_capability_major() == 9; }

// Whether the current device has mma.sync for bfloat16 and copies that do not wait.
inline bool has_mma() { return compute_capability_major() >= 8; }

}  // namespace fusegen
