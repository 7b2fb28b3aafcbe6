#include "mbarrier.h"

#include "emulator.h"
#include "site.h"

namespace fusegen_emulator {

namespace {

// The largest count a barrier can have, and the most bytes a phase (PTX ISA, "Valid range of each
// component of an mbarrier").
constexpr unsigned max_count = (1u << 20) - 1;
constexpr std::int64_t max_bytes = (1 << 20) - 1;

// What an initialised barrier holds, so that an overwritten one is noticed.
std::uint64_t mark_of(const std::uint64_t* address) {
    return ~reinterpret_cast<std::uintptr_t>(address);
}

}  // namespace

void Mbarriers::note(const std::uint64_t* address, const void* code) {
    if (emulator().checker().on) {
        emulator().checker().access(address, sizeof *address, AccessKind::atomic, true, code);
    }
}

Mbarrier& Mbarriers::find(Site site, const std::uint64_t* address) {
    const auto found = barriers_.find(address);
    if (found == barriers_.end()) {
        emulator().fail(Emulator::current(), "%s: the barrier has not been initialised",
                        SiteText(site).text);
    }
    if (*address != mark_of(address)) {
        emulator().fail(Emulator::current(),
                        "%s: the barrier has been overwritten since it was initialised",
                        SiteText(site).text);
    }
    return found->second;
}

void Mbarriers::init(Site site, std::uint64_t* address, unsigned count, const void* code) {
    const Thread& self = Emulator::current();
    if (!self.block->shared_memory.contains(address) ||
        reinterpret_cast<std::uintptr_t>(address) % sizeof *address != 0) {
        emulator().fail(self, "%s: a barrier lies in shared memory, at a multiple of 8 bytes",
                        SiteText(site).text);
    }
    if (count == 0 || count > max_count) {
        emulator().fail(self, "%s: a barrier of %u arrivals; allowed are 1 to %u",
                        SiteText(site).text, count, max_count);
    }
    Checker& checker = emulator().checker();
    Mbarrier barrier{};
    barrier.address = address;
    barrier.count = barrier.missing = count;
    barrier.initialised_by = self.number;
    if (checker.on) {
        checker.access(address, sizeof *address, AccessKind::write, false, code);
        barrier.agent = checker.add_agent({"a bulk copy", true});
        barrier.phase_time = checker.clocks().tick();
    }
    *address = mark_of(address);
    barriers_[address] = std::move(barrier);
}

void Mbarriers::fence_init() {
    const Thread& self = Emulator::current();
    for (auto& [address, barrier] : barriers_) {
        barrier.visible_to_copies |= barrier.initialised_by == self.number;
    }
}

void Mbarriers::arrive(Site site, std::uint64_t* address, unsigned bytes, const void* code) {
    note(address, code);
    Mbarrier& barrier = find(site, address);
    if (emulator().checker().on) {
        emulator().checker().clocks().release(Emulator::current().number, barrier.released);
    }
    count_arrival(site, barrier, bytes);
}

void Mbarriers::arrive_remote(Site site, std::uint64_t* address, unsigned rank, const void* code) {
    auto* remote = static_cast<std::uint64_t*>(emulator().cluster_shared(site, address, rank));
    note(remote, code);
    Mbarrier& barrier = find(site, remote);
    if (emulator().checker().on) {
        const unsigned self = Emulator::current().number;
        emulator().checker().clocks().release_agents(self, barrier.released);
    }
    count_arrival(site, barrier, 0);
}

void Mbarriers::count_arrival(Site site, Mbarrier& barrier, unsigned bytes) {
    const Thread& self = Emulator::current();
    if (barrier.missing == 0) {
        emulator().fail(self, "%s: the phase already has its %u arrivals and waits for %lld bytes",
                        SiteText(site).text, barrier.count,
                        static_cast<long long>(barrier.bytes_to_come));
    }
    barrier.bytes_to_come += bytes;
    if (barrier.bytes_to_come > max_bytes) {
        emulator().fail(self, "%s: a phase of %lld bytes; a barrier counts up to %lld",
                        SiteText(site).text, static_cast<long long>(barrier.bytes_to_come),
                        static_cast<long long>(max_bytes));
    }
    --barrier.missing;
    complete_phase_if_due(barrier);
}

void Mbarriers::bring(Mbarrier& barrier, std::int64_t bytes) {
    barrier.bytes_to_come -= bytes;
    complete_phase_if_due(barrier);
}

void Mbarriers::complete_phase_if_due(Mbarrier& barrier) {
    if (barrier.missing != 0 || barrier.bytes_to_come != 0) {
        return;
    }
    ++barrier.phase;
    barrier.missing = barrier.count;
    if (emulator().checker().on) {
        barrier.completed = barrier.released;
        barrier.completed[barrier.agent] = barrier.phase_time;
        barrier.phase_time = emulator().checker().clocks().tick();
    }
    emulator().for_each_thread([&](Thread& thread) {
        if (thread.waiting == Waiting::at_mbarrier && thread.mbarrier == &barrier) {
            thread.waiting = Waiting::no;
            emulator().wake(thread);
        }
    });
}

void Mbarriers::wait(Site site, std::uint64_t* address, unsigned parity, const void* code) {
    Thread& self = Emulator::current();
    if (parity > 1) {
        emulator().fail(self, "%s: a parity of %u; it is 0 or 1", SiteText(site).text, parity);
    }
    note(address, code);
    Mbarrier& barrier = find(site, address);
    while (barrier.phase % 2 == parity) {
        self.mbarrier = &barrier;
        emulator().wait(Waiting::at_mbarrier, site);
    }
    if (emulator().checker().on) {
        emulator().checker().clocks().acquire(self.number, barrier.completed);
    }
}

}  // namespace fusegen_emulator
