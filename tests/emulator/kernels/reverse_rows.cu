// Reverses each row through dynamic shared memory; 16-byte accesses where `width` is 4.
#include <fusegen/dtypes.cuh>

template <int width>
__global__ void reverse_rows(const float* x, float* y, int columns) {
    FUSEGEN_DYNAMIC_SHARED(float, row);
    const int64_t start = static_cast<int64_t>(blockIdx.x) * columns;
    for (int i = threadIdx.x * width; i < columns; i += blockDim.x * width) {
        fusegen::store_vector(row + i, fusegen::load_vector<float, width>(x + start + i));
    }
    __syncthreads();
    for (int i = threadIdx.x * width; i < columns; i += blockDim.x * width) {
        fusegen::Vector<float, width> reversed;
        for (int j = 0; j < width; ++j) {
#ifdef SHARED_READ_PAST_END
            reversed[j] = row[columns - i - j];  // found: SHARED_READ_PAST_END
#else
            reversed[j] = row[columns - 1 - i - j];
#endif
        }
        fusegen::store_vector(y + start + i, reversed);  // found: MISALIGNED
    }
}

FUSEGEN_EXPORT int run(const float* x, float* y, int rows, int columns, int shared_bytes) {
    if (columns % 4 == 0) {
        FUSEGEN_LAUNCH((reverse_rows<4>), rows, 32, shared_bytes, nullptr, x, y, columns);
    } else {
        FUSEGEN_LAUNCH((reverse_rows<1>), rows, 32, shared_bytes, nullptr, x, y, columns);
    }
    return FUSEGEN_LAST_ERROR();
}
