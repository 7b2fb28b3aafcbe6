// Tensor maps: what the tensor memory accelerator must know of a tensor in global memory and of the
// tiles it copies (CUDA driver API, cuTensorMapEncodeTiled). Encoded by the host, passed to kernels
// as `const __grid_constant__ TensorMap`.
#pragma once

#include <limits>

#include "dtypes.cuh"

#ifdef FUSEGEN_EMULATE
#include <fusegen_emulator/tensor_map.h>
#else
#include <cuda.h>
#endif

namespace fusegen {

#ifdef FUSEGEN_EMULATE
using TensorMap = fusegen_emulator::TensorMap;
#else
using TensorMap = CUtensorMap;
#endif

// An element that is a float in memory and that a load rounds to the nearest value of TF32, which
// wgmma by itself would cut off.
struct Tf32 {
    float value;
};

// How a tile lies in shared memory: row by row, or with the 16-byte pieces of each 128-byte row
// exchanged by the row's number modulo 8, which spares wgmma and stmatrix bank conflicts.
enum class Swizzle { none, bytes_128 };

// Why a tensor cannot be copied by the tensor memory accelerator; `none` is success.
enum class TensorMapError : int {
    none = 0,
    misaligned_address,  // not a multiple of 16 bytes
    misaligned_stride,   // not a multiple of 16 bytes, or 2^40 bytes and more
    size,                // a size of 0, or one that a coordinate, an int, does not reach
    box,                 // a tile's side of 0 or above 256, or a row not a multiple of 16 bytes
    swizzle,             // rows that are not 128 bytes with the 128-byte swizzle
    driver,              // there is no driver to encode it, or it refuses
};

// A tensor and its tiles, dimensions innermost first. Sizes and strides count elements; the
// innermost stride is 1 and has no place in `strides`.
template <int rank>
struct TensorTiles {
    static_assert(rank >= 2 && rank <= 5, "tiles have two to five dimensions");

    const void* address;
    std::int64_t sizes[rank];
    std::int64_t strides[rank - 1];
    int box[rank];
    Swizzle swizzle;
};

// What cuTensorMapEncodeTiled and the copies' coordinates demand of a tensor.
template <class T, int rank>
TensorMapError check_tensor_tiles(const TensorTiles<rank>& tiles) {
    constexpr std::int64_t alignment = 16, size_limit = std::numeric_limits<int>::max(),
                           stride_limit = std::int64_t{1} << 40, box_limit = 256;
    if (reinterpret_cast<std::uintptr_t>(tiles.address) % alignment != 0) {
        return TensorMapError::misaligned_address;
    }
    for (int i = 0; i < rank - 1; ++i) {
        const std::int64_t bytes = tiles.strides[i] * static_cast<std::int64_t>(sizeof(T));
        if (bytes < 0 || bytes % alignment != 0 || bytes >= stride_limit) {
            return TensorMapError::misaligned_stride;
        }
    }
    for (int i = 0; i < rank; ++i) {
        if (tiles.sizes[i] < 1 || tiles.sizes[i] > size_limit) {
            return TensorMapError::size;
        }
        if (tiles.box[i] < 1 || tiles.box[i] > box_limit) {
            return TensorMapError::box;
        }
    }
    const std::int64_t row_bytes = tiles.box[0] * static_cast<std::int64_t>(sizeof(T));
    if (row_bytes % alignment != 0) {
        return TensorMapError::box;
    }
    if (tiles.swizzle == Swizzle::bytes_128 && row_bytes != 128) {
        return TensorMapError::swizzle;
    }
    return TensorMapError::none;
}

#ifdef FUSEGEN_EMULATE

// Writes the tensor map of `tiles`, whose elements are of type T (float16, bfloat16, float or Tf32).
template <class T, int rank>
TensorMapError encode_tensor_map(TensorMap* map, const TensorTiles<rank>& tiles) {
    const TensorMapError error = check_tensor_tiles<T>(tiles);
    if (error != TensorMapError::none) {
        return error;
    }
    *map = {};
    map->address = const_cast<void*>(tiles.address);
    map->element_bytes = sizeof(T);
    map->swizzled = tiles.swizzle == Swizzle::bytes_128;
    map->rounds_to_tf32 = std::is_same<T, Tf32>::value;
    for (int i = 0; i < rank; ++i) {
        map->sizes[i] = tiles.sizes[i];
        map->strides[i] = (i == 0 ? 1 : tiles.strides[i - 1]) * sizeof(T);
        map->box[i] = tiles.box[i];
    }
    map->rank = rank;
    return TensorMapError::none;
}

#else

// A function of the driver that encodes tensor maps, found without linking to the driver; null if
// there is no driver.
template <class Encoder>
Encoder tensor_map_encoder(const char* name) {
    constexpr unsigned introduced_in = 12000;
    void* function = nullptr;
    cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
    const cudaError_t error = cudaGetDriverEntryPointByVersion(
        name, &function, introduced_in, cudaEnableDefault, &found);
    const bool usable = error == cudaSuccess && found == cudaDriverEntryPointSuccess;
    return usable ? reinterpret_cast<Encoder>(function) : nullptr;
}

template <class T>
constexpr CUtensorMapDataType tensor_map_type =
    std::is_same<T, float16>::value    ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
    : std::is_same<T, bfloat16>::value ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
    : std::is_same<T, Tf32>::value     ? CU_TENSOR_MAP_DATA_TYPE_TFLOAT32
                                       : CU_TENSOR_MAP_DATA_TYPE_FLOAT32;

// Whether the driver has encoded a map. A thread that has not used the device yet, such as that of a
// first backward, has no context, which the driver may ask for; without the map a form with other bits
// would take the tensor, in the first call only. So it is tried again with one.
template <class Encode>
TensorMapError encoded_by_driver(Encode encode) {
    if (encode() == CUDA_SUCCESS) {
        return TensorMapError::none;
    }
    int device = 0;
    const bool has_context =
        cudaGetDevice(&device) == cudaSuccess && cudaSetDevice(device) == cudaSuccess;
    return has_context && encode() == CUDA_SUCCESS ? TensorMapError::none : TensorMapError::driver;
}

template <class T, int rank>
TensorMapError encode_tensor_map(TensorMap* map, const TensorTiles<rank>& tiles) {
    static_assert(is_16_bit_float<T> || std::is_same<T, float>::value || std::is_same<T, Tf32>::value,
                  "not a type of tensor maps");
    static const auto encode =
        tensor_map_encoder<decltype(&cuTensorMapEncodeTiled)>("cuTensorMapEncodeTiled");
    const TensorMapError error = check_tensor_tiles<T>(tiles);
    if (error != TensorMapError::none) {
        return error;
    }
    if (encode == nullptr) {
        return TensorMapError::driver;
    }
    cuuint64_t sizes[rank], stride_bytes[rank - 1];
    cuuint32_t box[rank], element_steps[rank];
    for (int i = 0; i < rank; ++i) {
        sizes[i] = static_cast<cuuint64_t>(tiles.sizes[i]);
        box[i] = static_cast<cuuint32_t>(tiles.box[i]);
        element_steps[i] = 1;
        if (i > 0) {
            stride_bytes[i - 1] = static_cast<cuuint64_t>(tiles.strides[i - 1]) * sizeof(T);
        }
    }
    return encoded_by_driver([&] {
        return encode(map, tensor_map_type<T>, rank, const_cast<void*>(tiles.address), sizes,
                      stride_bytes, box, element_steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                      tiles.swizzle == Swizzle::bytes_128 ? CU_TENSOR_MAP_SWIZZLE_128B
                                                          : CU_TENSOR_MAP_SWIZZLE_NONE,
                      CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    });
}

#endif

}  // namespace fusegen
