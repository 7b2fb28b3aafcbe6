// Reports: one text for each fault, in the terms of the kernel's author.
#include <cstdio>
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
    report("block (%u, %u, %u), thread (%u, %u, %u): ", block_index_.x, block_index_.y,
           block_index_.z, index.x, index.y, index.z);
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

void Emulator::report_stuck_block() {
    bool all_at_barrier = true;
    for (unsigned i = 0; i < thread_count_; ++i) {
        all_at_barrier &= threads_[i].waiting != Waiting::in_warp;
    }
    start_report(ErrorCode::kernel_fault);
    report("block (%u, %u, %u): %s: ", block_index_.x, block_index_.y, block_index_.z,
           all_at_barrier ? "not all threads reach the barrier" : "deadlock");
    if (finished_ != 0) {
        report("%u threads have returned; ", finished_);
    }
    // Each group of threads that wait for the same thing is told once, by its first member.
    const auto wait_together = [](const Thread& a, const Thread& b) {
        return a.waiting == b.waiting && a.waiting != Waiting::exited && a.mask == b.mask &&
               same_site(a.site, b.site);
    };
    for (unsigned i = 0; i < thread_count_; ++i) {
        const Thread& thread = threads_[i];
        unsigned before = 0, together = 0;
        for (unsigned j = 0; j < thread_count_; ++j) {
            if (wait_together(thread, threads_[j])) {
                before += j < i;
                ++together;
            }
        }
        if (together == 0 || before != 0) {
            continue;
        }
        report("%u wait in %s", together, SiteText(thread.site).text);
        if (thread.waiting == Waiting::in_warp) {
            report(" for the lanes 0x%08x", thread.mask);
        }
        report(", thread (%u, %u, %u) the first; ", thread.thread_index.x, thread.thread_index.y,
               thread.thread_index.z);
    }
    error_length_ -= 2;  // the last separator
    error_text_[error_length_] = '\0';
}

}  // namespace fusegen_emulator
