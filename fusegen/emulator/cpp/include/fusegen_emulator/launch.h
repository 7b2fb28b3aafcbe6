// Kernel launches: packs the arguments so that the runtime can start each thread with its own copy.
#pragma once

#include "interface.h"

namespace fusegen_emulator {

#ifdef __SANITIZE_THREAD__
constexpr bool instrumented = true;
#else
constexpr bool instrumented = false;
#endif

template <class... Parameters, class... Arguments>
void launch_clusters(void (*kernel)(Parameters...), const char* kernel_name, dim3 grid, dim3 block,
                     unsigned cluster_blocks, std::size_t shared_bytes, void* /*stream*/,
                     Arguments... arguments) {
    auto body = [=]() FUSEGEN_EMULATOR_UNCHECKED { kernel(arguments...); };
    using Body = decltype(body);
    const LaunchRequest request{kernel_name,
                                grid,
                                block,
                                cluster_blocks,
                                shared_bytes,
                                [](const void* packed) FUSEGEN_EMULATOR_UNCHECKED {
                                    (*static_cast<const Body*>(packed))();
                                },
                                &body,
                                instrumented};
    fusegen_emulator_launch(&request);
}

template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), const char* kernel_name, dim3 grid, dim3 block,
            std::size_t shared_bytes, void* stream, Arguments... arguments) {
    launch_clusters(kernel, kernel_name, grid, block, 1, shared_bytes, stream, arguments...);
}

}  // namespace fusegen_emulator
