// The emulated device: its settings, the launch and the blocks in progress, and their threads.
#pragma once

#include <cstdarg>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "../include/fusegen_emulator/interface.h"
#include "../checker/checker.h"
#include "block.h"
#include "bulk_copy.h"
#include "fiber.h"
#include "limits.h"
#include "mbarrier.h"
#include "scheduler.h"
#include "thread_copies.h"
#include "warp.h"
#include "warpgroup.h"

namespace fusegen_emulator {

enum class Waiting : std::uint8_t {
    no,
    at_barrier,
    at_named_barrier,
    at_cluster_barrier,
    at_mbarrier,
    in_warp,
    in_warpgroup,
    exited
};

struct Thread : ThreadContext {
    Fiber fiber;
    Block* block;
    unsigned number;  // in its cluster, whose blocks begin with whole warps
    unsigned warp;    // in its cluster
    unsigned cluster_blocks;
    Waiting waiting;
    Site site;                 // where it waits
    std::uint32_t mask;        // the lanes it waits for, in a warp operation
    const Mbarrier* mbarrier;  // that it waits for
    WgmmaProgress wgmma;
    unsigned registers;
};

// What FUSEGEN_LAST_ERROR() tells; the text outlives the code.
enum class ErrorCode : int { none = 0, refused_launch = 1, kernel_fault = 2 };

class Emulator {
public:
    void configure(std::uint64_t seed, bool check);
    void launch(const LaunchRequest& request);
    int take_error();
    const char* error_text() const { return error_text_; }
    // The kernels launched since the last call, each with a newline; the text holds until the next.
    // The oldest are forgotten when nobody asks.
    const char* take_launched();

    // For the thread that runs: see interface.h.
    unsigned sync_threads(Site site, int predicate);
    void named_barrier(Site site, int id, int threads, bool waits);
    void set_registers(Site site, unsigned count);
    void cluster_sync(Site site);
    void sync_warp(Site site, std::uint32_t mask);
    void shuffle(Site site, std::uint32_t mask, const ShuffleOperands& operands);
    unsigned vote(Site site, std::uint32_t mask, int predicate);
    void* shared_array(SharedSlot& slot, const char* name, std::size_t bytes,
                       std::size_t alignment);
    void* dynamic_shared() const { return current().block->shared_memory.dynamic(); }
    // The counterpart of a variable in the running thread's shared memory in a block of the
    // cluster.
    void* cluster_shared(Site site, void* shared, unsigned rank);

    // The running thread waits for something until it is woken.
    void wait(Waiting what, Site site);
    void wake(const Thread& thread) { scheduler_.make_ready(thread.warp, 1u << thread.lane); }

    // Ends the launch with a report that names the kernel, the block and `thread`. The text is the
    // kernel's fault, in its author's terms. To be called by a thread of the launch.
    [[noreturn]] void fail(const Thread& thread, const char* format, ...)
        __attribute__((format(printf, 3, 4)));

    [[noreturn]] void report_misaligned(const void* address, std::size_t bytes, const void* code);

    Checker& checker() { return checker_; }
    Mbarriers& mbarriers() { return mbarriers_; }
    BulkCopies& bulk_copies() { return bulk_copies_; }
    ThreadCopies& thread_copies() { return thread_copies_; }
    Warpgroups& warpgroups() { return warpgroups_; }

    Thread& thread(unsigned number) { return threads_[number]; }
    Block& block(unsigned rank) { return *blocks_[rank]; }
    unsigned cluster_blocks() const { return request_->cluster_blocks; }
    unsigned thread_count() const { return thread_count_; }

    // Calls visit for each thread of the cluster.
    template <class Visit>
    void for_each_thread(Visit visit) {
        for (unsigned rank = 0; rank < cluster_blocks(); ++rank) {
            for (unsigned i = 0; i < thread_count_; ++i) {
                visit(threads_[blocks_[rank]->first_thread + i]);
            }
        }
    }

    // Whether this host thread is running a kernel.
    static thread_local bool runs_kernel __attribute__((tls_model("initial-exec")));

    static Thread& current() { return *static_cast<Thread*>(fusegen_emulator_thread); }

    // What launchers see of the device: the major number of its compute capability.
    int capability = 9;

private:
    bool accept(const LaunchRequest& request);
    void run_cluster(std::uint64_t index, Random random);
    void start_block(unsigned rank, std::uint64_t index);
    void start_report(ErrorCode code, const Block& block);
    void report_stuck_cluster();
    static void run_thread();
    [[noreturn]] void finish_thread();

    // Gives way to another thread until this one is ready again.
    void suspend();
    // Lets copies and products that run by themselves get on, some of the time.
    void make_progress();
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

    std::string launched_, taken_;

    const LaunchRequest* request_ = nullptr;
    unsigned thread_count_ = 0;  // of a block
    unsigned warp_count_ = 0;    // of a block
    unsigned finished_ = 0;
    Barrier cluster_barrier_;
    Clock cluster_clock_;
    Warp warps_[max_cluster_warps];
    Scheduler scheduler_;
    Random progress_random_;
    std::uint64_t progress_period_ = 0;  // 0: only when no thread can go on
    Checker checker_;
    Mbarriers mbarriers_;
    BulkCopies bulk_copies_;
    ThreadCopies thread_copies_;
    Warpgroups warpgroups_;
    int slot_count_ = 0;
    Fiber home_;                                         // the host thread that launched
    std::unique_ptr<Block> blocks_[max_cluster_blocks];  // of the cluster, by rank
    std::unique_ptr<Thread[]> threads_;
    bool has_stack_[max_cluster_threads] = {};
};

Emulator& emulator();

}  // namespace fusegen_emulator
