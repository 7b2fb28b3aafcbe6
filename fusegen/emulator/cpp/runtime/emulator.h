// The emulated device: its settings, the launch and block in progress, and the threads that run.
#pragma once

#include <cstdarg>
#include <cstdint>
#include <memory>
#include <mutex>

#include "../include/fusegen_emulator/interface.h"
#include "../checker/checker.h"
#include "fiber.h"
#include "limits.h"
#include "scheduler.h"
#include "shared_memory.h"
#include "warp.h"

namespace fusegen_emulator {

enum class Waiting : std::uint8_t { no, at_barrier, in_warp, exited };

struct Thread : ThreadContext {
    Fiber fiber;
    unsigned warp;
    Waiting waiting;
    Site site;           // where it waits
    std::uint32_t mask;  // the lanes it waits for, in a warp operation
};

// The block-wide barrier. `trues` counts the predicates of those who came, `result` is the last
// round's count: it stands until every thread has come again, so all have read it by then.
struct Barrier {
    unsigned arrived = 0;
    unsigned trues = 0;
    unsigned result = 0;
    Site site{};
};

// What FUSEGEN_LAST_ERROR() tells; the text outlives the code.
enum class ErrorCode : int { none = 0, refused_launch = 1, kernel_fault = 2 };

class Emulator {
public:
    void configure(std::uint64_t seed, bool check);
    void launch(const LaunchRequest& request);
    int take_error();
    const char* error_text() const { return error_text_; }

    // For the thread that runs: see interface.h.
    unsigned sync_threads(Site site, int predicate);
    void sync_warp(Site site, std::uint32_t mask);
    void shuffle(Site site, std::uint32_t mask, const ShuffleOperands& operands);
    unsigned vote(Site site, std::uint32_t mask, int predicate);
    void* shared_array(SharedSlot& slot, const char* name, std::size_t bytes,
                       std::size_t alignment);
    void* dynamic_shared() const { return shared_memory_.dynamic(); }

    // Ends the launch with a report that names the kernel, the block and `thread`. The text is the
    // kernel's fault, in its author's terms. To be called by a thread of the launch.
    [[noreturn]] void fail(const Thread& thread, const char* format, ...)
        __attribute__((format(printf, 3, 4)));

    [[noreturn]] void report_misaligned(const void* address, std::size_t bytes, const void* code);

    Checker& checker() { return checker_; }

    // Whether this host thread is running a kernel.
    static thread_local bool runs_kernel __attribute__((tls_model("initial-exec")));

    static Thread& current() { return *static_cast<Thread*>(fusegen_emulator_thread); }

private:
    bool accept(const LaunchRequest& request);
    void run_block(std::uint64_t index, Random random);
    void report_stuck_block();
    static void run_thread();
    [[noreturn]] void finish_thread();

    // Gives way to another thread until this one is ready again.
    void suspend();
    void join_warp(Site site, std::uint32_t mask, WarpRequest& request);
    void complete(Warp& warp, unsigned warp_index, Rendezvous& rendezvous);

    // Write the error: its code, then the kernel's name, then what `format` says.
    void start_report(ErrorCode code);
    void report(const char* format, ...) __attribute__((format(printf, 2, 3)));
    void report_list(const char* format, va_list arguments);

    std::mutex mutex_;  // one launch at a time
    std::uint64_t seed_ = 0;
    ErrorCode error_ = ErrorCode::none;
    char error_text_[4096] = "no error";
    std::size_t error_length_ = 0;

    const LaunchRequest* request_ = nullptr;
    unsigned thread_count_ = 0;
    unsigned warp_count_ = 0;
    unsigned finished_ = 0;
    uint3 block_index_{};
    Barrier barrier_;
    Warp warps_[max_warps];
    Scheduler scheduler_;
    SharedMemory shared_memory_;
    Checker checker_;
    int slot_count_ = 0;
    Fiber home_;  // the host thread that launched
    std::unique_ptr<Thread[]> threads_;
    unsigned stacks_ = 0;  // threads that have one
};

Emulator& emulator();

}  // namespace fusegen_emulator
