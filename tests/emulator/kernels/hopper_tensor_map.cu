// Tensor maps: which tensors they can describe, and copies of tiles that reach beyond the tensor.
#include <fusegen/hopper.cuh>

using namespace fusegen;

constexpr int tile = 16;

// Brings the tile at (x, y) to shared memory and stores it at (to_x, to_y).
__global__ void move_tile(const __grid_constant__ TensorMap source,
                          const __grid_constant__ TensorMap target, int x, int y, int to_x,
                          int to_y) {
    FUSEGEN_TILE_SHARED(float, shared);
    FUSEGEN_SHARED(std::uint64_t, loaded, 1);
    if (threadIdx.x == 0) {
        mbarrier_init(loaded, 1);
        mbarrier_fence_init();
        mbarrier_arrive_expect(loaded, tile * tile * sizeof(float));
#ifdef OVERWRITTEN_BARRIER
        *loaded = 0;
#endif
#ifdef MISALIGNED_TILE
        ++shared;
#endif
        // found: OVERWRITTEN_BARRIER
        // found: MISALIGNED_TILE
        tma_load_2d(shared, source, loaded, x, y);
#ifndef LOAD_NOT_AWAITED
        mbarrier_wait(loaded, 0);
#endif
        // found: LOAD_NOT_AWAITED
        // found: NEGATIVE_STORE
        tma_store_2d(target, shared, to_x, to_y);
        tma_store_commit();
        tma_store_wait<0>();
    }
}

FUSEGEN_EXPORT int run(const float* source, float* target, int rows, int columns, int x, int y,
                       int to_x, int to_y, void* stream) {
    TensorMap maps[2];
    const void* addresses[2] = {source, target};
    for (int i = 0; i < 2; ++i) {
        const TensorTiles<2> tiles{
            addresses[i], {columns, rows}, {columns}, {tile, tile}, Swizzle::none};
        const TensorMapError error = encode_tensor_map<float>(&maps[i], tiles);
        if (error != TensorMapError::none) {
            return -static_cast<int>(error);
        }
    }
    FUSEGEN_LAUNCH(move_tile, dim3(1), dim3(32), tile * tile * sizeof(float), stream, maps[0],
                   maps[1], x, y, to_x, to_y);
    return FUSEGEN_LAST_ERROR();
}

constexpr int box[5] = {8, 2, 3, 2, 2};
constexpr int box_size = 8 * 2 * 3 * 2 * 2;

// Brings the tile at (x, y, z, u, v) to shared memory and from there to `target`.
__global__ void bring_tile(const __grid_constant__ TensorMap source, float* target, int x, int y,
                           int z, int u, int v) {
    FUSEGEN_TILE_SHARED(float, shared);
    FUSEGEN_SHARED(std::uint64_t, loaded, 1);
    if (threadIdx.x == 0) {
        mbarrier_init(loaded, 1);
        mbarrier_fence_init();
        mbarrier_arrive_expect(loaded, box_size * sizeof(float));
#ifdef FEWER_DIMENSIONS
        tma_load_3d(shared, source, loaded, x, y + u, z + v);  // found: FEWER_DIMENSIONS
#else
        tma_load_5d(shared, source, loaded, x, y, z, u, v);
#endif
    }
    __syncthreads();
#ifndef FIVE_NOT_AWAITED
    mbarrier_wait(loaded, 0);
#endif
    for (int i = threadIdx.x; i < box_size; i += blockDim.x) {
        target[i] = shared[i];  // found: FIVE_NOT_AWAITED
    }
}

// The tensor's sizes and, but for the first, its strides in elements.
FUSEGEN_EXPORT int bring(const float* source, float* target, const std::int64_t* sizes,
                         const std::int64_t* strides, int x, int y, int z, int u, int v,
                         void* stream) {
    TensorMap map;
    const TensorTiles<5> tiles{source,
                               {sizes[0], sizes[1], sizes[2], sizes[3], sizes[4]},
                               {strides[0], strides[1], strides[2], strides[3]},
                               {box[0], box[1], box[2], box[3], box[4]},
                               Swizzle::none};
    const TensorMapError error = encode_tensor_map<float>(&map, tiles);
    if (error != TensorMapError::none) {
        return -static_cast<int>(error);
    }
    FUSEGEN_LAUNCH(bring_tile, dim3(1), dim3(32), box_size * sizeof(float), stream, map, target, x,
                   y, z, u, v);
    return FUSEGEN_LAST_ERROR();
}

// The error of a tensor of float16 with 64 columns a tile, or another number of them.
FUSEGEN_EXPORT int encode(const void* address, std::int64_t columns, std::int64_t rows,
                          std::int64_t stride, int box_columns, int box_rows, int swizzled) {
    TensorMap map;
    const TensorTiles<2> tiles{address,
                               {columns, rows},
                               {stride},
                               {box_columns, box_rows},
                               swizzled ? Swizzle::bytes_128 : Swizzle::none};
    return static_cast<int>(encode_tensor_map<float16>(&map, tiles));
}
