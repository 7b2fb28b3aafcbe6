// Tensor maps of images that a convolution's kernel moves over: a copy brings some channels of many
// neighbouring windows' elements (CUDA driver API, cuTensorMapEncodeIm2col; PTX ISA, im2col mode).
#pragma once

#include "tensor_map.cuh"

namespace fusegen {

// Images with their channels innermost, and the windows of a convolution over them; dimensions
// innermost first. Along each spatial dim the first window begins `lower` from an image's first
// element, the last one at most `upper` from its last, and they lie `steps` apart. A copy brings
// `channels` of an element of each of `lines` windows, in rows of 128 bytes with the 128-byte
// swizzle: neighbours along a row, in the next row, and so on into the next image. An element outside
// of its image is zero.
template <int rank>
struct TensorWindow {
    static_assert(rank == 4 || rank == 5, "images have two or three dimensions, and channels");

    const void* address;
    std::int64_t sizes[rank];
    std::int64_t strides[rank - 1];  // in elements, the innermost left out
    int lower[rank - 2];
    int upper[rank - 2];
    int steps[rank - 2];
    int channels;
    int lines;
};

// What cuTensorMapEncodeIm2col demands of the images; the rest is known when a kernel is planned.
template <class T, int rank>
TensorMapError check_tensor_window(const TensorWindow<rank>& window) {
    TensorTiles<rank> images{window.address, {}, {}, {}, Swizzle::bytes_128};
    for (int i = 0; i < rank; ++i) {
        images.sizes[i] = window.sizes[i];
        images.box[i] = i == 0 ? window.channels : i == 1 ? window.lines : 1;
        if (i > 0) {
            images.strides[i - 1] = window.strides[i - 1];
        }
    }
    return check_tensor_tiles<T>(images);
}

#ifdef FUSEGEN_EMULATE

// Writes the tensor map of a window over images whose elements are of type T.
template <class T, int rank>
TensorMapError encode_window_map(TensorMap* map, const TensorWindow<rank>& window) {
    const TensorMapError error = check_tensor_window<T>(window);
    if (error != TensorMapError::none) {
        return error;
    }
    *map = {};
    map->address = const_cast<void*>(window.address);
    map->element_bytes = sizeof(T);
    map->swizzled = true;
    map->is_window = true;
    for (int i = 0; i < rank; ++i) {
        map->sizes[i] = window.sizes[i];
        map->strides[i] = (i == 0 ? 1 : window.strides[i - 1]) * sizeof(T);
        map->box[i] = i == 0 ? window.channels : i == 1 ? window.lines : 1;
    }
    for (int i = 0; i < rank - 2; ++i) {
        map->lower[i] = window.lower[i];
        map->upper[i] = window.upper[i];
        map->steps[i] = window.steps[i];
    }
    map->rank = rank;
    return TensorMapError::none;
}

#else

template <class T, int rank>
TensorMapError encode_window_map(TensorMap* map, const TensorWindow<rank>& window) {
    static_assert(is_16_bit_float<T>, "not a type of windows");
    static const auto encode =
        tensor_map_encoder<decltype(&cuTensorMapEncodeIm2col)>("cuTensorMapEncodeIm2col");
    const TensorMapError error = check_tensor_window<T>(window);
    if (error != TensorMapError::none) {
        return error;
    }
    if (encode == nullptr) {
        return TensorMapError::driver;
    }
    cuuint64_t sizes[rank], stride_bytes[rank - 1];
    cuuint32_t element_steps[rank];
    for (int i = 0; i < rank; ++i) {
        const bool is_spatial = i > 0 && i < rank - 1;
        sizes[i] = static_cast<cuuint64_t>(window.sizes[i]);
        element_steps[i] = is_spatial ? static_cast<cuuint32_t>(window.steps[i - 1]) : 1;
        if (i > 0) {
            stride_bytes[i - 1] = static_cast<cuuint64_t>(window.strides[i - 1]) * sizeof(T);
        }
    }
    return encoded_by_driver([&] {
        return encode(map, tensor_map_type<T>, rank, const_cast<void*>(window.address), sizes,
                      stride_bytes, window.lower, window.upper,
                      static_cast<cuuint32_t>(window.channels),
                      static_cast<cuuint32_t>(window.lines), element_steps,
                      CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                      CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    });
}

#endif

}  // namespace fusegen
