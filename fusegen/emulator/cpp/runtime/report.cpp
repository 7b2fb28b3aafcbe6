// Reports: one text for each fault, in the terms of the kernel's author.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "emulator.h"
#include "site.h"

namespace fusegen_emulator {

void Emulator::start_report(ErrorCode code) {
    error_ = code;
    error_length_ = 0;
    // The launch macro hands over "(softmax_kernel<true, 4>)" where the name needed parentheses.
    const char* name = request_->kernel_name;
    const std::size_t length = std::strlen(name);
    const bool parenthesised = length > 1 && name[0] == '(' && name[length - 1] == ')';
    report("%.*s: ", static_cast<int>(parenthesised ? length - 2 : length), name + parenthesised);
}

void Emulator::start_report(ErrorCode code, const Block& block) {
    start_report(code);
    report("block (%u, %u, %u) ", block.index.x, block.index.y, block.index.z);
}

void Emulator::report(const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    report_list(format, arguments);
    va_end(arguments);
}

void Emulator::report_list(const char* format, va_list arguments) {
    const std::size_t room = sizeof error_text_ - error_length_;
    const int written = std::vsnprintf(error_text_ + error_length_, room, format, arguments);
    if (written > 0) {
        error_length_ += static_cast<std::size_t>(written) < room ? written : room - 1;
    }
}

void Emulator::fail(const Thread& thread, const char* format, ...) {
    const uint3 index = thread.thread_index;
    start_report(ErrorCode::kernel_fault);
    report("block (%u, %u, %u), thread (%u, %u, %u): ", thread.block_index.x, thread.block_index.y,
           thread.block_index.z, index.x, index.y, index.z);
    va_list arguments;
    va_start(arguments, format);
    report_list(format, arguments);
    va_end(arguments);
    current().fiber.switch_to(home_);  // the launch is over: no thread of it runs again
    __builtin_unreachable();
}

void Emulator::report_misaligned(const void* address, std::size_t bytes, const void* code) {
    fail(current(),
         "misaligned: an access of %zu bytes at %s to address %p, which must be a multiple of %zu",
         bytes, CodeLine(reinterpret_cast<std::uintptr_t>(code) - 1).text, address, bytes);
}

void Emulator::report_stuck_cluster() {
    bool all_at_barrier = true;
    for_each_thread([&](const Thread& thread) {
        all_at_barrier &=
            thread.waiting == Waiting::at_barrier || thread.waiting == Waiting::exited;
    });
    const uint3 index = blocks_[0]->index;
    start_report(ErrorCode::kernel_fault);
    report("block (%u, %u, %u)%s: %s: ", index.x, index.y, index.z,
           cluster_blocks() > 1 ? " and the others of its cluster" : "",
           all_at_barrier ? "not all threads reach the barrier" : "deadlock");
    if (finished_ != 0) {
        report("%u threads have returned; ", finished_);
    }
    // Each group of threads that wait for the same thing is told once, by its first member.
    const auto wait_together = [](const Thread& a, const Thread& b) {
        return a.waiting == b.waiting && a.waiting != Waiting::exited && a.mask == b.mask &&
               (a.waiting != Waiting::at_mbarrier || a.mbarrier == b.mbarrier) &&
               same_site(a.site, b.site);
    };
    for_each_thread([&](const Thread& thread) {
        unsigned before = 0, together = 0;
        for_each_thread([&](const Thread& other) {
            if (wait_together(thread, other)) {
                before += other.number < thread.number;
                ++together;
            }
        });
        if (together == 0 || before != 0) {
            return;
        }
        report("%u wait in %s", together, SiteText(thread.site).text);
        if (thread.waiting == Waiting::in_warp) {
            report(" for the lanes 0x%08x", thread.mask);
        }
        if (thread.waiting == Waiting::at_mbarrier) {
            const Mbarrier& barrier = *thread.mbarrier;
            report(" for a phase of parity %u that lacks %u of %u arrivals",
                   static_cast<unsigned>(barrier.phase % 2), barrier.missing, barrier.count);
            if (barrier.bytes_to_come != 0) {
                report(" and for which %lld bytes more %s", std::llabs(barrier.bytes_to_come),
                       barrier.bytes_to_come > 0 ? "were announced than came"
                                                 : "came than were announced");
            }
        }
        report(", thread (%u, %u, %u) the first; ", thread.thread_index.x, thread.thread_index.y,
               thread.thread_index.z);
    });
    error_length_ -= 2;  // the last separator
    error_text_[error_length_] = '\0';
}

}  // namespace fusegen_emulator
