// Barriers of a block, of some of its threads, and of a cluster.
#include "emulator.h"
#include "site.h"

namespace fusegen_emulator {

unsigned Emulator::sync_threads(Site site, int predicate) {
    Thread& self = current();
    Block& block = *self.block;
    Barrier& barrier = block.barrier;
    if (barrier.arrived == 0) {
        barrier.site = site;
    } else if (!same_site(barrier.site, site)) {
        fail(self,
             "%s meets threads that wait in %s: all threads of a block must reach the same barrier",
             SiteText(site).text, SiteText(barrier.site).text);
    }
    barrier.trues += predicate != 0;
    if (++barrier.arrived == thread_count_) {
        barrier.result = barrier.trues;
        barrier.arrived = barrier.trues = 0;
        if (checker_.on) {
            checker_.clocks().join_block(block.rank);
        }
        const unsigned first_warp = block.first_thread / warp_lanes;
        for (unsigned warp = first_warp; warp < first_warp + warp_count_; ++warp) {
            scheduler_.make_ready(warp, warps_[warp].alive);
        }
    }
    wait(Waiting::at_barrier, site);
    return barrier.result;
}

void Emulator::named_barrier(Site site, int id, int threads, bool waits) {
    Thread& self = current();
    const SiteText text(site);
    if (id < 1 || id >= static_cast<int>(named_barrier_count)) {
        fail(self, "%s: a barrier of number %d; allowed are 1 to %u (0 is __syncthreads)",
             text.text, id, named_barrier_count - 1);
    }
    if (threads <= 0 || threads % static_cast<int>(warp_lanes) != 0 ||
        threads > static_cast<int>(thread_count_)) {
        fail(self, "%s: a barrier of %d threads; it must be whole warps of the block", text.text,
             threads);
    }
    NamedBarrier& barrier = self.block->named_barriers[id];
    if (barrier.arrived == 0) {
        barrier.threads = static_cast<unsigned>(threads);
        barrier.site = site;
        barrier.released.clear();
    } else if (barrier.threads != static_cast<unsigned>(threads)) {
        fail(self, "%s: barrier %d of %d threads meets threads that came for one of %u in %s",
             text.text, id, threads, barrier.threads, SiteText(barrier.site).text);
    }
    if (checker_.on) {
        checker_.clocks().release(self.number, barrier.released);
    }
    if (waits) {
        barrier.waiting.push_back(&self);
    }
    if (++barrier.arrived == barrier.threads) {
        for (const Thread* thread : barrier.waiting) {
            if (checker_.on) {
                checker_.clocks().acquire(thread->number, barrier.released);
            }
            wake(*thread);
        }
        barrier.waiting.clear();
        barrier.arrived = 0;
    }
    if (waits) {
        wait(Waiting::at_named_barrier, site);
    }
}

void Emulator::cluster_sync(Site site) {
    Thread& self = current();
    Barrier& barrier = cluster_barrier_;
    if (barrier.arrived == 0) {
        barrier.site = site;
        cluster_clock_.clear();
    } else if (!same_site(barrier.site, site)) {
        fail(self, "%s meets threads of its cluster that wait in %s", SiteText(site).text,
             SiteText(barrier.site).text);
    }
    if (checker_.on) {
        checker_.clocks().release(self.number, cluster_clock_);
    }
    if (++barrier.arrived == thread_count_ * cluster_blocks()) {
        barrier.arrived = 0;
        for_each_thread([&](const Thread& thread) {
            if (checker_.on) {
                checker_.clocks().acquire(thread.number, cluster_clock_);
            }
            wake(thread);
        });
    }
    wait(Waiting::at_cluster_barrier, site);
}

}  // namespace fusegen_emulator
