// Launches of any shape, to see what is refused.
#include <fusegen/device.cuh>

__device__ __constant__ float table[4] = {1.0f, 2.0f, 3.0f, 4.0f};

__global__ void write_block_index(float* y) {
    if (threadIdx.x == 0 && threadIdx.y == 0 && threadIdx.z == 0) {
        const int64_t block =
            blockIdx.x + static_cast<int64_t>(gridDim.x) * (blockIdx.y + gridDim.y * blockIdx.z);
        y[block] = block + table[block % 4];
    }
}

// Two arrays that fit apart but not together with much dynamic memory.
__global__ void use_static_arrays(float* y) {
    FUSEGEN_SHARED(float, first, 4096);
    FUSEGEN_SHARED(double, second, 2048);
    FUSEGEN_DYNAMIC_SHARED(float, dynamic);
    dynamic[0] = first[0] = 1.0f;
    second[0] = 2.0;
    y[0] = first[0] + static_cast<float>(second[0]) + dynamic[0];
}

FUSEGEN_EXPORT int run(float* y, const int* grid, const int* block, int shared_bytes) {
    FUSEGEN_LAUNCH(write_block_index, dim3(grid[0], grid[1], grid[2]),
                   dim3(block[0], block[1], block[2]), shared_bytes, nullptr, y);
    return FUSEGEN_LAST_ERROR();
}

FUSEGEN_EXPORT int run_static_arrays(float* y, int shared_bytes) {
    FUSEGEN_LAUNCH(use_static_arrays, 1, 1, shared_bytes, nullptr, y);
    return FUSEGEN_LAST_ERROR();
}
