#include "vector_clocks.h"

#include <algorithm>

namespace fusegen_emulator {

void VectorClocks::start_block(unsigned thread_count) {
    if (seen_ == nullptr) {
        seen_ = std::make_unique<std::uint32_t[]>(max_block_threads * max_block_threads);
    }
    thread_count_ = thread_count;
    block_start_ = latest_;
    join_block();
}

void VectorClocks::join_block() {
    barrier_ = latest_++;
    std::fill_n(own_, thread_count_, latest_);
}

void VectorClocks::join_warp(unsigned warp, std::uint32_t lanes) {
    std::uint32_t joined[max_block_threads] = {};
    const auto for_each_thread = [&](auto visit) {
        for (std::uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
            visit(warp * warp_lanes + static_cast<unsigned>(__builtin_ctz(rest)));
        }
    };
    for_each_thread([&](unsigned thread) {
        seen_by(thread)[thread] = own_[thread];
        for (unsigned other = 0; other < thread_count_; ++other) {
            joined[other] = std::max(joined[other], seen_by(thread)[other]);
        }
    });
    for_each_thread([&](unsigned thread) {
        std::copy_n(joined, thread_count_, seen_by(thread));
        latest_ = std::max(latest_, ++own_[thread]);
    });
}

}  // namespace fusegen_emulator
