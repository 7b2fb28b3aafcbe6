// Windows of a convolution over images: copies of one of each window's elements.
#include <fusegen/hopper.cuh>

using namespace fusegen;

constexpr int channels = 64, lines = 24;

// Brings to shared memory what `load` copies, and from there to `target`, without the swizzle.
template <class Load>
__device__ __forceinline__ void bring(std::uint16_t* target, Load load) {
    FUSEGEN_TILE_SHARED(std::uint16_t, shared);
    FUSEGEN_SHARED(std::uint64_t, loaded, 1);
    if (threadIdx.x == 0) {
        mbarrier_init(loaded, 1);
        mbarrier_fence_init();
        mbarrier_arrive_expect(loaded, lines * channels * sizeof(std::uint16_t));
#ifdef MISALIGNED_TILE
        load(shared + channels, loaded);
#else
        load(shared, loaded);
#endif
    }
    __syncthreads();
#ifndef LOAD_NOT_AWAITED
    mbarrier_wait(loaded, 0);
#endif
    for (int i = threadIdx.x; i < lines * channels; i += blockDim.x) {
        const int line = i / channels, piece = i % channels / 8 ^ line % 8;
        target[i] = shared[line * channels + piece * 8 + i % 8];  // found: LOAD_NOT_AWAITED
    }
}

// Of windows from (x, y) of an image on, what lies (offset_x, offset_y) into each.
__global__ void bring_of_images(const __grid_constant__ TensorMap images, std::uint16_t* target,
                                int channel, int x, int y, int image, int offset_x, int offset_y) {
    bring(target, [&](std::uint16_t* tile, std::uint64_t* loaded) {
#if defined(OTHER_DIMENSIONS)
        // found: OTHER_DIMENSIONS
        tma_load_window_5d(tile, images, loaded, channel, x, y, 0, image, offset_x, offset_y, 0);
#elif defined(OFFSET_OFF_BY_ONE)
        tma_load_window_4d(tile, images, loaded, channel, x, y, image, offset_x + 1, offset_y);
#else
        // found: MISALIGNED_TILE
        tma_load_window_4d(tile, images, loaded, channel, x, y, image, offset_x, offset_y);
#endif
    });
}

// The same of images with planes.
__global__ void bring_of_planes(const __grid_constant__ TensorMap images, std::uint16_t* target,
                                int channel, int x, int y, int z, int image, int offset_x,
                                int offset_y, int offset_z) {
    bring(target, [&](std::uint16_t* tile, std::uint64_t* loaded) {
        tma_load_window_5d(tile, images, loaded, channel, x, y, z, image, offset_x, offset_y,
                           offset_z);
    });
}

constexpr std::size_t tile_bytes = (lines + 1) * channels * sizeof(std::uint16_t);

// The sizes of contiguous images, innermost first, and where windows begin and how far apart.
template <int rank>
TensorMapError encode(TensorMap* map, const void* images, const std::int64_t* sizes,
                      const int* lower, const int* upper, const int* steps) {
    TensorWindow<rank> window{images, {}, {}, {}, {}, {}, channels, lines};
    std::int64_t stride = 1;
    for (int i = 0; i < rank; ++i) {
        window.sizes[i] = sizes[i];
        if (i > 0) {
            window.strides[i - 1] = stride;
        }
        stride *= sizes[i];
    }
    for (int i = 0; i < rank - 2; ++i) {
        window.lower[i] = lower[i];
        window.upper[i] = upper[i];
        window.steps[i] = steps[i];
    }
    return encode_window_map<float16>(map, window);
}

// The first window's place and the offset, innermost first.
FUSEGEN_EXPORT int run(const void* images, std::uint16_t* target, const std::int64_t* sizes,
                       const int* lower, const int* upper, const int* steps, const int* at,
                       const int* offsets, void* stream) {
    TensorMap map;
    const TensorMapError error = encode<4>(&map, images, sizes, lower, upper, steps);
    if (error != TensorMapError::none) {
        return -static_cast<int>(error);
    }
    FUSEGEN_LAUNCH(bring_of_images, dim3(1), dim3(32), tile_bytes, stream, map, target, at[0],
                   at[1], at[2], at[3], offsets[0], offsets[1]);
    return FUSEGEN_LAST_ERROR();
}

FUSEGEN_EXPORT int run_planes(const void* images, std::uint16_t* target, const std::int64_t* sizes,
                              const int* lower, const int* upper, const int* steps, const int* at,
                              const int* offsets, void* stream) {
    TensorMap map;
    const TensorMapError error = encode<5>(&map, images, sizes, lower, upper, steps);
    if (error != TensorMapError::none) {
        return -static_cast<int>(error);
    }
    FUSEGEN_LAUNCH(bring_of_planes, dim3(1), dim3(32), tile_bytes, stream, map, target, at[0],
                   at[1], at[2], at[3], at[4], offsets[0], offsets[1], offsets[2]);
    return FUSEGEN_LAST_ERROR();
}

// The error of images with so many channels and pixels at this address.
FUSEGEN_EXPORT int encode(const void* address, std::int64_t image_channels, std::int64_t pixels) {
    TensorMap map;
    const std::int64_t sizes[] = {image_channels, pixels, 1, 1};
    const int zeros[] = {0, 0}, ones[] = {1, 1};
    return static_cast<int>(encode<4>(&map, address, sizes, zeros, zeros, ones));
}
