// A fiber: a stack of its own and a saved point of execution to come back to.
#pragma once

#include <cstddef>

#if !defined(__x86_64__) || defined(FUSEGEN_EMULATOR_PORTABLE_SWITCH)
#define FUSEGEN_EMULATOR_UCONTEXT 1
#include <ucontext.h>
#endif

namespace fusegen_emulator {

class Fiber {
public:
    // Gives the fiber a stack. `index` staggers the stacks' tops over the cache's sets:
    // page-aligned tops would all fall into the same few lines.
    void allocate_stack(unsigned index);

    // The next switch to this fiber calls `entry` on an empty stack; `entry` must not return.
    void prepare(void (*entry)());

    // Saves this fiber, which must be the one that runs, and continues `next`.
    void switch_to(Fiber& next);

    bool stack_contains(const void* address) const {
        return static_cast<std::size_t>(static_cast<const char*>(address) - stack_) < stack_bytes;
    }

private:
    // Kernels keep their large arrays in shared memory; reports need room too.
    static constexpr std::size_t stack_bytes = 256 * 1024;

    char* stack_ = nullptr;
    char* stack_top_ = nullptr;
#ifdef FUSEGEN_EMULATOR_UCONTEXT
    ucontext_t context_;
#else
    void* saved_stack_pointer_ = nullptr;
#endif
};

}  // namespace fusegen_emulator
