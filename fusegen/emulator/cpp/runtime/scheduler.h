// Chooses which thread of the running blocks runs next.
#pragma once

#include <cstdint>
#include <utility>

#include "limits.h"
#include "random.h"

namespace fusegen_emulator {

// A set of warps' ranks, a bit for each.
class RankSet {
public:
    void add(unsigned rank) { words_[rank / word_bits] |= bit(rank); }
    void remove(unsigned rank) { words_[rank / word_bits] &= ~bit(rank); }
    bool is_empty() const { return (words_[0] | words_[1]) == 0; }

    // The lowest of a set that is not empty.
    unsigned first() const {
        const unsigned word = words_[0] == 0;
        return word * word_bits + static_cast<unsigned>(__builtin_ctzll(words_[word]));
    }

private:
    static constexpr unsigned word_bits = 64;
    static_assert(max_cluster_warps <= 2 * word_bits, "two words hold all ranks");

    static std::uint64_t bit(unsigned rank) { return std::uint64_t{1} << rank % word_bits; }

    std::uint64_t words_[2] = {};
};

// Seed 0 runs the lowest-numbered ready thread. Any other seed ranks the warps at random and always
// runs a lane of the highest-ranked warp that can go on, re-drawing a rank now and then. So one
// warp gets as far ahead of another as the barriers allow, which shows a missing barrier; a
// uniformly random order keeps the warps too close together for that.
class Scheduler {
public:
    static constexpr int none = -1;

    void start_cluster(unsigned warp_count, bool random_order, Random random) {
        warp_count_ = warp_count;
        random_order_ = random_order;
        random_ = random;
        ready_ranks_ = {};
        for (unsigned warp = 0; warp < warp_count; ++warp) {
            ready_lanes_[warp] = 0;
            warp_of_rank_[warp] = rank_of_warp_[warp] = static_cast<std::uint8_t>(warp);
        }
        if (random_order) {
            for (unsigned rank = warp_count; rank > 1; --rank) {
                swap_ranks(rank - 1, static_cast<unsigned>(random_.next() % rank));
            }
        }
    }

    void make_ready(unsigned warp, std::uint32_t lanes) {
        ready_lanes_[warp] |= lanes;
        ready_ranks_.add(rank_of_warp_[warp]);
    }

    // The linear index of the thread to run, no longer counted as ready, or `none`.
    int next() {
        if (ready_ranks_.is_empty()) {
            return none;
        }
        std::uint64_t draw = 0;
        if (random_order_) {
            draw = random_.next();
            if ((draw >> 8) % redraw_period == 0) {
                swap_ranks(static_cast<unsigned>((draw >> 16) % warp_count_),
                           static_cast<unsigned>((draw >> 24) % warp_count_));
            }
        }
        const unsigned rank = ready_ranks_.first();
        const unsigned warp = warp_of_rank_[rank];
        std::uint32_t& lanes = ready_lanes_[warp];
        const unsigned lane = first_lane_from(lanes, static_cast<unsigned>(draw % warp_lanes));
        lanes &= ~(1u << lane);
        if (lanes == 0) {
            ready_ranks_.remove(rank);
        }
        return static_cast<int>(warp * warp_lanes + lane);
    }

private:
    static constexpr unsigned redraw_period = 256;

    // The first ready lane at or after `start`, counting round.
    static unsigned first_lane_from(std::uint32_t lanes, unsigned start) {
        const std::uint32_t rotated = lanes >> start | lanes << (-start % warp_lanes);
        return (static_cast<unsigned>(__builtin_ctz(rotated)) + start) % warp_lanes;
    }

    void swap_ranks(unsigned a, unsigned b) {
        std::swap(warp_of_rank_[a], warp_of_rank_[b]);
        for (unsigned rank : {a, b}) {
            const unsigned warp = warp_of_rank_[rank];
            rank_of_warp_[warp] = static_cast<std::uint8_t>(rank);
            if (ready_lanes_[warp] != 0) {
                ready_ranks_.add(rank);
            } else {
                ready_ranks_.remove(rank);
            }
        }
    }

    unsigned warp_count_ = 0;
    bool random_order_ = false;
    Random random_;
    std::uint32_t ready_lanes_[max_cluster_warps] = {};
    RankSet ready_ranks_;  // those whose warp has a ready lane; rank 0 runs first
    std::uint8_t warp_of_rank_[max_cluster_warps] = {};
    std::uint8_t rank_of_warp_[max_cluster_warps] = {};
};

}  // namespace fusegen_emulator
