// The first include of every generated .cu: one text for nvcc, and for the emulator, which is g++
// with -DFUSEGEN_EMULATE.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#ifdef FUSEGEN_EMULATE
#include <fusegen_emulator.h>
#else
#include <cuda_runtime.h>

#include <atomic>
#include <cstdio>
#include <mutex>

#include "early_start.cuh"
#endif

// Marks what the loader looks up by name.
#define FUSEGEN_EXPORT extern "C" __attribute__((visibility("default")))

#ifdef FUSEGEN_EMULATE

// A static shared array: `type name[count]`, at least 16-byte aligned. A function has one, each
// instantiation of a template its own.
#define FUSEGEN_SHARED(type, name, count)                  \
    static ::fusegen_emulator::SharedSlot name##_slot{-1}; \
    type(&name)[count] = ::fusegen_emulator::shared_array<type, (count)>(name##_slot, #name)

// The launch's dynamic shared memory as `type* name`, 128-byte aligned.
#define FUSEGEN_DYNAMIC_SHARED(type, name) \
    type* name = static_cast<type*>(fusegen_emulator_dynamic_shared())

// Launches `kernel` (parenthesise it when it has several template arguments) with the given grid,
// block, dynamic shared bytes and stream. The kernel must begin with wait_for_earlier_kernels(). A
// refused launch shows in FUSEGEN_LAST_ERROR().
#define FUSEGEN_LAUNCH(kernel, grid, block, shared_bytes, stream, ...) \
    ::fusegen_emulator::launch(                                        \
        kernel, #kernel, grid, block, shared_bytes, stream __VA_OPT__(, ) __VA_ARGS__)

namespace fusegen {

// The emulator runs one kernel after the other.
__device__ __forceinline__ void wait_for_earlier_kernels() {}

}  // namespace fusegen

// The pending error's code, 0 if there is none; asking clears it.
#define FUSEGEN_LAST_ERROR() (fusegen_emulator_take_error())

// Refuses an access that the GPU would refuse: `bytes` must divide the address.
#define FUSEGEN_REQUIRE_ALIGNED(pointer, bytes)                   \
    if (reinterpret_cast<std::uintptr_t>(pointer) % (bytes) != 0) \
    fusegen_emulator_report_misaligned(pointer, bytes)

#else

#define FUSEGEN_SHARED(type, name, count) __shared__ __align__(16) type name[count]

#define FUSEGEN_DYNAMIC_SHARED(type, name)                                   \
    extern __shared__ __align__(128) unsigned char fusegen_dynamic_shared[]; \
    type* name = reinterpret_cast<type*>(fusegen_dynamic_shared)

#define FUSEGEN_LAUNCH(kernel, grid, block, shared_bytes, stream, ...)             \
    do {                                                                           \
        static ::fusegen::KnownKernel known_kernel;                                \
        ::fusegen::launch(known_kernel, kernel, grid, block, 1, shared_bytes,      \
                          stream __VA_OPT__(, ) __VA_ARGS__);                      \
    } while (false)

#define FUSEGEN_LAST_ERROR() (::fusegen::take_error())

#define FUSEGEN_REQUIRE_ALIGNED(pointer, bytes)

namespace fusegen {

// More shared memory than 48 KB must be asked for kernel by kernel (CUDA programming guide); static
// arrays count too, for which this leaves room.
constexpr std::size_t default_shared_limit = 32 * 1024;

// How much dynamic shared memory one kernel has been granted on each device. Remembered, since to
// ask takes a tenth of a launch's time.
class SharedMemoryGrants {
public:
    // Whether `kernel` may have this much on the current device; cudaGetLastError tells why not.
    template <class Kernel>
    bool cover(Kernel* kernel, std::size_t bytes) {
        if (bytes <= default_shared_limit) {
            return true;
        }
        int device = 0;
        if (cudaGetDevice(&device) != cudaSuccess) {
            return false;
        }
        if (device < known_devices && bytes <= granted_[device].load()) {
            return true;
        }
        const std::lock_guard<std::mutex> one_at_a_time(asking_);  // so that a grant only grows
        if (device < known_devices && bytes <= granted_[device].load()) {
            return true;
        }
        if (cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 static_cast<int>(bytes)) != cudaSuccess) {
            return false;
        }
        if (device < known_devices) {
            granted_[device].store(bytes);
        }
        return true;
    }

private:
    static constexpr int known_devices = 16;
    std::atomic<std::size_t> granted_[known_devices] = {};
    std::mutex asking_;
};

// What a launch asked for in vain, until FUSEGEN_LAST_ERROR() tells of it: more shared memory for a
// block than the device has.
struct SharedMemoryRefusal {
    static constexpr int code = -1;  // no error of CUDA's

    bool pending;
    std::size_t needed;
    std::size_t limit;

    // Takes CUDA's own error, "invalid argument", back if that was the reason.
    void note(std::size_t bytes) {
        int device = 0;
        int most = 0;
        cudaGetDevice(&device);
        cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
        if (most > 0 && bytes > static_cast<std::size_t>(most)) {
            cudaGetLastError();
            *this = {true, bytes, static_cast<std::size_t>(most)};
        }
    }
};
inline thread_local SharedMemoryRefusal shared_memory_refusal{};

// The pending error's code, 0 if there is none; asking clears it.
inline int take_error() {
    if (shared_memory_refusal.pending) {
        shared_memory_refusal.pending = false;
        return SharedMemoryRefusal::code;
    }
    return static_cast<int>(cudaGetLastError());
}

inline const char* error_text(int code) {
    if (code != SharedMemoryRefusal::code) {
        return cudaGetErrorString(static_cast<cudaError_t>(code));
    }
    static thread_local char text[160];
    std::snprintf(text, sizeof text,
                  "a block needs %zu bytes of shared memory, of which this GPU has %zu; use the "
                  "module on a larger GPU, or PyTorch's own operations on this one",
                  shared_memory_refusal.needed, shared_memory_refusal.limit);
    return text;
}

// What a launch remembers of its kernel.
struct KnownKernel {
    SharedMemoryGrants grants;
    EarlyStarts early_starts;
};

template <class... Parameters, class... Arguments>
void launch(KnownKernel& known, void (*kernel)(Parameters...), dim3 grid, dim3 block,
            unsigned cluster_blocks, std::size_t shared_bytes, void* stream,
            const Arguments&... arguments) {
    if (!known.grants.cover(kernel, shared_bytes)) {
        shared_memory_refusal.note(shared_bytes);
        return;
    }
    cudaLaunchAttribute attributes[2]{};
    cudaLaunchConfig_t config{};
    config.gridDim = grid;
    config.blockDim = block;
    config.dynamicSmemBytes = shared_bytes;
    config.stream = static_cast<cudaStream_t>(stream);
    config.attrs = attributes;
    if (cluster_blocks > 1) {
        cudaLaunchAttribute& cluster = attributes[config.numAttrs++];
        cluster.id = cudaLaunchAttributeClusterDimension;
        cluster.val.clusterDim = {cluster_blocks, 1, 1};
    }
    if (known.early_starts.allow(kernel)) {
        cudaLaunchAttribute& early = attributes[config.numAttrs++];
        early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
        early.val.programmaticStreamSerializationAllowed = 1;
    }
    cudaLaunchKernelEx(&config, kernel, Parameters(arguments)...);
}

// Applies a 4-byte shuffle to each word of a trivially copyable value: CUDA itself moves only 4 or
// 8 bytes.
template <class T, class ShuffleWord>
__device__ __forceinline__ T shuffle_words(T value, ShuffleWord shuffle_word) {
    static_assert(std::is_trivially_copyable<T>::value, "only plain data can be shuffled");
    constexpr int word_count = (sizeof(T) + 3) / 4;
    unsigned words[word_count] = {};
    memcpy(words, &value, sizeof(T));
#pragma unroll
    for (int i = 0; i < word_count; ++i) {
        words[i] = shuffle_word(words[i]);
    }
    memcpy(&value, words, sizeof(T));
    return value;
}

// The value held by lane (own lane XOR lane_mask); every lane of `mask` must call it.
template <class T>
__device__ __forceinline__ T shuffle_xor(unsigned mask, T value, int lane_mask) {
    return shuffle_words(
        value, [=](unsigned word) { return __shfl_xor_sync(mask, word, lane_mask); });
}

// The value held by `lane`; every lane of `mask` must call it.
template <class T>
__device__ __forceinline__ T shuffle(unsigned mask, T value, int lane) {
    return shuffle_words(value, [=](unsigned word) { return __shfl_sync(mask, word, lane); });
}

}  // namespace fusegen

#endif

// The text of an error code from FUSEGEN_LAST_ERROR(), exported by every kernel library.
extern "C" __attribute__((visibility("default"), used)) inline const char* fusegen_error_text(
    int code) {
#ifdef FUSEGEN_EMULATE
    return code == 0 ? "no error" : fusegen_emulator_error_text();
#else
    return fusegen::error_text(code);
#endif
}
