// Copies with one vector access a thread, for vectors from 1 to 64 bytes.
#include <fusegen/dtypes.cuh>

template <class T, int width>
__global__ void copy(const T* x, T* y, int count) {
    const int i = (blockIdx.x * blockDim.x + threadIdx.x) * width;
    if (i < count) {
        fusegen::store_vector(y + i, fusegen::load_vector<T, width>(x + i));
    }
}

template <class T, int width>
int launch(const void* x, void* y, int bytes) {
    const int count = bytes / static_cast<int>(sizeof(T));
    FUSEGEN_LAUNCH((copy<T, width>), (count / width + 31) / 32, 32, 0, nullptr,
                   static_cast<const T*>(x), static_cast<T*>(y), count);
    return FUSEGEN_LAST_ERROR();
}

// Copies `bytes` bytes in vectors of the `choice`-th kind.
FUSEGEN_EXPORT int run(int choice, const void* x, void* y, int bytes) {
    switch (choice) {
        case 0:
            return launch<bool, 1>(x, y, bytes);
        case 1:
            return launch<fusegen::bfloat16, 1>(x, y, bytes);
        case 2:
            return launch<std::uint8_t, 4>(x, y, bytes);
        case 3:
            return launch<fusegen::float16, 4>(x, y, bytes);
        case 4:
            return launch<fusegen::bfloat16, 8>(x, y, bytes);
        case 5:
            return launch<float, 8>(x, y, bytes);
        default:
            return launch<double, 8>(x, y, bytes);
    }
}
