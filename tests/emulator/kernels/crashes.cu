// Ways to crash a process.
#include <fusegen/device.cuh>

__global__ void crash(int* y, const int* unmapped, int zero, int choice) {
    if (choice == 0) {
        y[0] = *unmapped;  // found: UNMAPPED_READ
    } else if (choice == 1) {
        y[0] = threadIdx.x / zero;  // found: DIVISION_BY_ZERO
    } else {
        y[0] = 1;
    }
}

FUSEGEN_EXPORT int run(int* y, int zero, int choice) {
    // No process has memory at its lowest addresses.
    const int* unmapped = reinterpret_cast<const int*>(static_cast<std::uintptr_t>(64));
    FUSEGEN_LAUNCH(crash, 1, 32, 0, nullptr, y, unmapped, zero, choice);
    return FUSEGEN_LAST_ERROR();
}
