#include "vector_clocks.h"

#include <algorithm>
#include <cstdio>

namespace fusegen_emulator {

void VectorClocks::start_cluster(unsigned blocks, unsigned block_threads) {
    if (seen_ == nullptr) {
        // Zeroed by the system page by page, since most of it is never used.
        seen_.reset(static_cast<std::uint32_t*>(
            std::calloc(std::size_t{max_cluster_threads} * max_members, sizeof(std::uint32_t))));
        common_.resize(max_members);
        for (Clock& met : met_) {
            met.resize(max_members);
        }
    }
    block_threads_ = block_threads;
    thread_count_ = member_count_ = blocks * block_threads;
    cluster_start_ = latest_;
    for (unsigned block = 0; block < blocks; ++block) {
        join_block(block);
    }
}

unsigned VectorClocks::add_agent() {
    if (member_count_ == max_members) {
        std::fprintf(stderr, "fusegen emulator: a cluster has too many barriers and stores\n");
        std::abort();
    }
    return member_count_++;
}

std::uint32_t VectorClocks::step(unsigned thread) {
    const std::uint32_t ended = own_[thread]++;
    latest_ = std::max(latest_, own_[thread]);
    return ended;
}

VectorClocks::View VectorClocks::common_view(unsigned first, unsigned count) {
    std::copy_n(seen_by(first), member_count_, common_.begin());
    for (unsigned thread = first + 1; thread < first + count; ++thread) {
        const std::uint32_t* seen = seen_by(thread);
        for (unsigned member = 0; member < member_count_; ++member) {
            common_[member] = std::min(common_[member], seen[member]);
        }
    }
    // A thread's row says nothing of itself. What it did is seen by all if the others have seen it.
    for (unsigned thread = first; thread < first + count; ++thread) {
        std::uint32_t seen = own_[thread];
        for (unsigned other = first; other < first + count; ++other) {
            seen = other == thread ? seen : std::min(seen, seen_by(other)[thread]);
        }
        common_[thread] = seen;
    }
    return {View::nobody, common_.data(), met_[first / block_threads_].data()};
}

void VectorClocks::join_block(unsigned block) {
    const unsigned first = block * block_threads_, end = first + block_threads_;
    Clock& met = met_[block];
    for (unsigned thread = first; thread < end; ++thread) {
        const std::uint32_t* seen = seen_by(thread);
        for (unsigned member = 0; member < first; ++member) {
            met[member] = std::max(met[member], seen[member]);
        }
        for (unsigned member = end; member < member_count_; ++member) {
            met[member] = std::max(met[member], seen[member]);
        }
    }
    const std::uint32_t meeting = latest_++;
    std::fill(met.begin() + first, met.begin() + end, meeting);
    std::fill(own_ + first, own_ + end, latest_);
}

void VectorClocks::join_warp(unsigned warp, std::uint32_t lanes) {
    std::uint32_t joined[max_members];
    std::fill_n(joined, member_count_, 0);
    const auto for_each_thread = [&](auto visit) {
        for (std::uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
            visit(warp * warp_lanes + static_cast<unsigned>(__builtin_ctz(rest)));
        }
    };
    for_each_thread([&](unsigned thread) {
        seen_by(thread)[thread] = own_[thread];
        for (unsigned other = 0; other < member_count_; ++other) {
            joined[other] = std::max(joined[other], seen_by(thread)[other]);
        }
    });
    for_each_thread([&](unsigned thread) {
        std::copy_n(joined, member_count_, seen_by(thread));
        step(thread);
    });
}

void VectorClocks::release(unsigned thread, Clock& clock) {
    add_seen(thread, 0, clock);
    clock[thread] = step(thread);
}

void VectorClocks::release_agents(unsigned thread, Clock& clock) const {
    add_seen(thread, thread_count_, clock);
}

void VectorClocks::add_seen(unsigned thread, unsigned first_member, Clock& clock) const {
    clock.resize(max_members);
    const View view = view_of(thread);
    for (unsigned member = first_member; member < member_count_; ++member) {
        clock[member] = std::max({clock[member], view.seen[member], view.met[member]});
    }
}

void VectorClocks::acquire(unsigned thread, const Clock& clock) {
    std::uint32_t* seen = seen_by(thread);
    const unsigned known = std::min(member_count_, static_cast<unsigned>(clock.size()));
    for (unsigned member = 0; member < known; ++member) {
        seen[member] = std::max(seen[member], clock[member]);
    }
}

void VectorClocks::learn(unsigned thread, unsigned agent, std::uint32_t time) {
    std::uint32_t& seen = seen_by(thread)[agent];
    seen = std::max(seen, time);
}

}  // namespace fusegen_emulator
