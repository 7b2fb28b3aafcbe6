#include "crash_guard.h"

#include <ucontext.h>

#include <cstdint>

#include "../checker/loaded_code.h"
#include "emulator.h"

namespace fusegen_emulator {

namespace {

// A crash may be a stack overflow, so it is handled on a stack of its own. One launch runs at a
// time.
alignas(64) char crash_stack[128 * 1024];

std::uintptr_t crashed_at(const void* context) {
    const auto& registers = static_cast<const ucontext_t*>(context)->uc_mcontext;
#if defined(__x86_64__)
    return static_cast<std::uintptr_t>(registers.gregs[REG_RIP]);
#elif defined(__aarch64__)
    return registers.pc;
#else
    (void)registers;
    return 0;
#endif
}

void handle(int signal, siginfo_t* info, void* context) {
    if (!Emulator::runs_kernel) {
        std::signal(signal, SIG_DFL);  // returning repeats the crash, now with the usual end
        return;
    }
    const CodeLine line(crashed_at(context));
    // Leaving the handler by a switch of stacks is sound: the crashed thread never runs again, and
    // the handler is installed so that no signal stays blocked.
    if (signal == SIGFPE) {
        emulator().fail(Emulator::current(), "divides an integer by zero at %s", line.text);
    }
    emulator().fail(Emulator::current(),
                    "crashed at %s: it touched memory at %p that does not "
                    "exist, is not aligned, or is not its own",
                    line.text, info->si_addr);
}

}  // namespace

CrashGuard::CrashGuard() {
    stack_t stack{};
    stack.ss_sp = crash_stack;
    stack.ss_size = sizeof crash_stack;
    sigaltstack(&stack, &previous_stack_);
    struct sigaction action{};
    action.sa_sigaction = handle;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    for (std::size_t i = 0; i < signal_count; ++i) {
        sigaction(signals[i], &action, &previous_[i]);
    }
}

CrashGuard::~CrashGuard() {
    for (std::size_t i = 0; i < signal_count; ++i) {
        sigaction(signals[i], &previous_[i], nullptr);
    }
    sigaltstack(&previous_stack_, nullptr);
}

}  // namespace fusegen_emulator
