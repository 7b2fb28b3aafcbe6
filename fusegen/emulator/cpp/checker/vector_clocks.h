// Which memory accesses are ordered: vector clocks (Lamport; Fidge and Mattern).
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

#include "../runtime/limits.h"

namespace fusegen_emulator {

enum class Order { before, concurrent, in_another_block };

// For each member the time up to which something of it is known.
using Clock = std::vector<std::uint32_t>;

// The members of the running cluster are its threads and its agents: what acts by itself, such as
// the copies that complete on one barrier. Every member counts its own time, and every thread knows
// how far it has seen the others'. Times only grow, over clusters and launches too, so a time also
// tells which cluster and launch it belongs to. A cluster is most often a single block.
class VectorClocks {
public:
    // Agents that the blocks of a cluster may have together.
    static constexpr unsigned max_agents = max_cluster_threads + 1024;

    // What one thread has seen, or all of several: the later of two tables.
    struct View {
        static constexpr unsigned nobody = ~0u;

        unsigned self;  // a thread has seen all that it did itself
        const std::uint32_t* seen;
        const std::uint32_t* met;
    };

    // Everything so far happened before the launch.
    void start_launch() { launch_start_ = latest_; }

    // Starts the blocks of a cluster, which are ordered with nothing else of the launch.
    void start_cluster(unsigned blocks, unsigned block_threads);

    // A new agent's member number.
    unsigned add_agent();
    unsigned thread_count() const { return thread_count_; }
    bool is_agent(unsigned member) const { return member >= thread_count_; }

    // The launch's and the cluster's times are those after these.
    std::uint32_t launch_start() const { return launch_start_; }
    std::uint32_t cluster_start() const { return cluster_start_; }

    std::uint32_t now(unsigned thread) const { return own_[thread]; }
    // A time later than all before it, for an agent.
    std::uint32_t tick() { return ++latest_; }
    // Begins a new time of the thread and returns the one that ended.
    std::uint32_t step(unsigned thread);

    View view_of(unsigned thread) const {
        return {thread, seen_by(thread), met_[thread / block_threads_].data()};
    }
    // What each of `count` threads of one block has seen. It holds until the next call.
    View common_view(unsigned first, unsigned count);

    // How `other`'s access at `time` stands to what someone does now who has seen `view`.
    Order order(unsigned other, std::uint32_t time, const View& view) const {
        if (time <= launch_start_) {
            return Order::before;
        }
        if (time <= cluster_start_) {
            return Order::in_another_block;
        }
        if (other == view.self || time <= view.seen[other] || time <= view.met[other]) {
            return Order::before;
        }
        return Order::concurrent;
    }

    // All threads of a block have met: each now comes after all that any has done.
    void join_block(unsigned block);

    // The same for the lanes of one warp.
    void join_warp(unsigned warp, std::uint32_t lanes);

    // Adds to `clock` what the thread has done and seen.
    void release(unsigned thread, Clock& clock);
    // The same of the agents alone.
    void release_agents(unsigned thread, Clock& clock) const;
    // The thread now comes after all that `clock` tells.
    void acquire(unsigned thread, const Clock& clock);
    // The thread now comes after what the agent did up to `time`.
    void learn(unsigned thread, unsigned agent, std::uint32_t time);

private:
    static constexpr unsigned max_members = max_cluster_threads + max_agents;

    void add_seen(unsigned thread, unsigned first_member, Clock& clock) const;
    std::uint32_t* seen_by(unsigned thread) const { return seen_.get() + thread * max_members; }

    unsigned block_threads_ = 1;
    unsigned thread_count_ = 0;
    unsigned member_count_ = 0;
    std::uint32_t latest_ = 0;
    std::uint32_t launch_start_ = 0;
    std::uint32_t cluster_start_ = 0;
    std::uint32_t own_[max_cluster_threads] = {};
    // Row by thread, column by member. Rows keep the times of past clusters: these are not above
    // `cluster_start_`, so they need no clearing.
    std::unique_ptr<std::uint32_t[], decltype(&std::free)> seen_{nullptr, std::free};
    // Row by block: what all its threads know since they last met.
    Clock met_[max_cluster_blocks];
    Clock common_;
};

}  // namespace fusegen_emulator
