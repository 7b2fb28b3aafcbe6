// Which memory accesses of a block's threads are ordered: vector clocks (Lamport; Fidge and
// Mattern).
#pragma once

#include <cstdint>
#include <memory>

#include "../runtime/limits.h"

namespace fusegen_emulator {

enum class Order { before, concurrent, in_another_block };

// Every thread counts its own time, and knows how far it has seen the others'. Times only grow,
// over blocks and launches too, so a time also tells which block and launch it belongs to.
class VectorClocks {
public:
    // Everything so far happened before the launch.
    void start_launch() { launch_start_ = latest_; }

    // Starts a block that is ordered with no other block of the launch.
    void start_block(unsigned thread_count);

    // The launch's and the block's times are those after these.
    std::uint32_t launch_start() const { return launch_start_; }
    std::uint32_t block_start() const { return block_start_; }

    std::uint32_t now(unsigned thread) const { return own_[thread]; }

    // How `other`'s access at `time` stands to what `thread` does now.
    Order order(unsigned other, std::uint32_t time, unsigned thread) const {
        if (time <= launch_start_) {
            return Order::before;
        }
        if (time <= block_start_) {
            return Order::in_another_block;
        }
        if (other == thread || time <= barrier_ || time <= seen_by(thread)[other]) {
            return Order::before;
        }
        return Order::concurrent;
    }

    // All threads of the block have met: each now comes after all that any has done.
    void join_block();

    // The same for the lanes of one warp.
    void join_warp(unsigned warp, std::uint32_t lanes);

private:
    std::uint32_t* seen_by(unsigned thread) const {
        return seen_.get() + thread * max_block_threads;
    }

    unsigned thread_count_ = 0;
    std::uint32_t latest_ = 0;
    std::uint32_t launch_start_ = 0;
    std::uint32_t block_start_ = 0;
    std::uint32_t barrier_ = 0;  // every thread has seen all up to here
    std::uint32_t own_[max_block_threads] = {};
    // Row by thread, column by other thread. Rows keep the times of past blocks and barriers: these
    // are not above `barrier_`, so they need no clearing.
    std::unique_ptr<std::uint32_t[]> seen_;
};

}  // namespace fusegen_emulator
