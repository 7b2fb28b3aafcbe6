// Rows that come ahead: while a block works on one row, its threads copy the next ones to shared
// memory, each thread what it will read back itself, so that no barrier is needed.
#pragma once

#include "launch.cuh"
#include "mma.cuh"

// Whether this compilation can copy without waiting: for compute capability 8.0 and later.
#if defined(FUSEGEN_EMULATE) || !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
#define FUSEGEN_HAS_ROWS_AHEAD 1
#else
#define FUSEGEN_HAS_ROWS_AHEAD 0
#endif

#ifdef FUSEGEN_EMULATE

// How many blocks, or clusters of `cluster_blocks`, of `kernel` (parenthesise it when it has
// several template arguments) the current device runs at once: 0 where it cannot run even one, or
// has no copies that do not wait. `block` threads and `shared_bytes` of dynamic memory must be
// constants.
#define FUSEGEN_RESIDENT(kernel, block, cluster_blocks, shared_bytes) \
    (::fusegen::emulated_resident(block, cluster_blocks))

namespace fusegen {

// Few, so that small tests work through several rows a block.
inline int64_t emulated_resident(int64_t block, int64_t cluster_blocks) {
    constexpr int64_t most_threads = 4096;  // of a cluster, in the emulator
    const bool fits = block * cluster_blocks <= most_threads;
    return has_mma() && (cluster_blocks == 1 || has_clusters()) && fits ? 2 : 0;
}

}  // namespace fusegen

#else

#define FUSEGEN_RESIDENT(kernel, block, cluster_blocks, shared_bytes)           \
    ([] {                                                                       \
        static ::fusegen::Residency known;                                      \
        return known.of(kernel, block, cluster_blocks, shared_bytes);           \
    }())

namespace fusegen {

// How many blocks or clusters of one kernel each device runs at once. Remembered, since to ask
// takes as long as a launch.
class Residency {
public:
    template <class Kernel>
    int64_t of(Kernel* kernel, int block, int cluster_blocks, int shared_bytes) {
        int device = 0;
        if (cudaGetDevice(&device) != cudaSuccess) {
            return 0;
        }
        if (device < known_devices) {
            const int known = counts_[device].load(std::memory_order_relaxed);
            if (known > 0) {
                return known - 1;
            }
        }
        const int count = asked(kernel, device, block, cluster_blocks, shared_bytes);
        if (device < known_devices) {
            counts_[device].store(count + 1, std::memory_order_relaxed);
        }
        return count;
    }

private:
    template <class Kernel>
    static int asked(Kernel* kernel, int device, int block, int cluster_blocks, int shared_bytes) {
        if (!has_mma() || (cluster_blocks > 1 && !has_clusters())) {
            return 0;
        }
        int count = 0;
        cudaError_t error = cudaFuncSetAttribute(
            kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes);
        if (error == cudaSuccess) {
            error = cluster_blocks == 1
                        ? blocks(count, kernel, device, block, shared_bytes)
                        : clusters(count, kernel, block, cluster_blocks, shared_bytes);
        }
        if (error == cudaSuccess) {
            return count;
        }
        cudaGetLastError();  // takes the error back: a device with less memory is no fault
        return 0;
    }

    template <class Kernel>
    static cudaError_t blocks(int& count, Kernel* kernel, int device, int block, int shared_bytes) {
        int processors = 0;
        cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
        const cudaError_t error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(
            &count, kernel, block, static_cast<std::size_t>(shared_bytes));
        count *= processors;
        return error;
    }

    template <class Kernel>
    static cudaError_t clusters(int& count, Kernel* kernel, int block, int cluster_blocks,
                                int shared_bytes) {
        cudaLaunchAttribute cluster{};
        cluster.id = cudaLaunchAttributeClusterDimension;
        cluster.val.clusterDim = {static_cast<unsigned>(cluster_blocks), 1, 1};
        cudaLaunchConfig_t config{};
        config.gridDim = dim3(static_cast<unsigned>(cluster_blocks));
        config.blockDim = dim3(static_cast<unsigned>(block));
        config.dynamicSmemBytes = static_cast<std::size_t>(shared_bytes);
        config.attrs = &cluster;
        config.numAttrs = 1;
        return cudaOccupancyMaxActiveClusters(&count, kernel, &config);
    }

    static constexpr int known_devices = 16;
    std::atomic<int> counts_[known_devices] = {};  // one more than the count, 0 while it is unknown
};

}  // namespace fusegen

#endif

#if FUSEGEN_HAS_ROWS_AHEAD

namespace fusegen {

// A thread's vectors of the rows of one tensor that are under way, `steps` of each row: those of
// all threads lie side by side in shared memory.
template <class T, int vector, int steps, int threads>
class RowsAhead {
public:
    // In the shared memory at `staged`, behind `rows` rows of other tensors.
    __device__ __forceinline__ RowsAhead(std::uint8_t* staged, int rows)
        : own_(reinterpret_cast<Vector<T, vector>*>(staged) + rows * steps * threads +
               threadIdx.x) {
        static_assert(sizeof(Vector<T, vector>) == 16, "each copy brings 16 bytes");
    }

    // Begins to copy the vector `step` of the row at `place` from `source`.
    __device__ __forceinline__ void bring(int place, int step, const T* source) const {
        cp_async(own_ + (place * steps + step) * threads, source);
    }

    // The vector itself, once its copy has been waited for.
    __device__ __forceinline__ Vector<T, vector> take(int place, int step) const {
        return load_vector<T, vector>(
            reinterpret_cast<const T*>(own_ + (place * steps + step) * threads));
    }

private:
    Vector<T, vector>* own_;
};

}  // namespace fusegen

#endif
