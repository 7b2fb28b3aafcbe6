// Turns a kernel's crash (unmapped memory, integer division by zero) into a report.
#pragma once

#include <csignal>
#include <cstddef>

namespace fusegen_emulator {

// While one exists, a crash of the kernel that this host thread runs ends the launch with a report.
// Crashes elsewhere in the process go the way they went before.
class CrashGuard {
public:
    CrashGuard();
    ~CrashGuard();
    CrashGuard(const CrashGuard&) = delete;
    CrashGuard& operator=(const CrashGuard&) = delete;

private:
    static constexpr int signals[] = {SIGSEGV, SIGBUS, SIGFPE};
    static constexpr std::size_t signal_count = sizeof signals / sizeof signals[0];

    struct sigaction previous_[signal_count];
    stack_t previous_stack_;
};

}  // namespace fusegen_emulator
