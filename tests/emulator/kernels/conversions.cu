// Converts arrays between any two element types, numbered in the order of TYPES.
#include <fusegen/dtypes.cuh>

template <class To, class From>
__global__ void convert_all(const From* x, To* y, int count) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) {
        y[i] = fusegen::convert<To>(x[i]);
    }
}

template <class To, class From>
void launch(const void* x, void* y, int count) {
    FUSEGEN_LAUNCH((convert_all<To, From>), (count + 255) / 256, 256, 0, nullptr,
                   static_cast<const From*>(x), static_cast<To*>(y), count);
}

#define TYPES(visit)       \
    visit(0, fusegen::float16) \
    visit(1, fusegen::bfloat16) \
    visit(2, float)        \
    visit(3, double)       \
    visit(4, std::int8_t)  \
    visit(5, std::int16_t) \
    visit(6, std::int32_t) \
    visit(7, std::int64_t) \
    visit(8, std::uint8_t) \
    visit(9, bool)

template <class From>
void launch_to(int to, const void* x, void* y, int count) {
    switch (to) {
#define CASE(number, To) \
    case number:         \
        return launch<To, From>(x, y, count);
        TYPES(CASE)
#undef CASE
    }
}

FUSEGEN_EXPORT int run(int to, int from, const void* x, void* y, int count) {
    switch (from) {
#define CASE(number, From)                    \
    case number:                              \
        launch_to<From>(to, x, y, count);     \
        break;
        TYPES(CASE)
#undef CASE
    }
    return FUSEGEN_LAST_ERROR();
}
