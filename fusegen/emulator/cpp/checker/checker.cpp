#include "checker.h"

#include <algorithm>

#include "../runtime/emulator.h"

namespace fusegen_emulator {

namespace {

bool conflict(const Access& a, const Access& b) {
    return (a.bytes & b.bytes) != 0 && (a.kind != AccessKind::read || b.kind != AccessKind::read) &&
           (a.kind != AccessKind::atomic || b.kind != AccessKind::atomic);
}

// Whether whatever races with `earlier`, which is ordered before `now`, also races with `now`.
bool supersedes(const Access& now, const Access& earlier) {
    return (earlier.bytes & ~now.bytes) == 0 &&
           (now.kind == AccessKind::write || now.kind == earlier.kind);
}

}  // namespace

void Checker::expose(const void* begin, std::size_t bytes, bool initialised) {
    if (on) {
        global_.push_back({"global memory", reinterpret_cast<std::uintptr_t>(begin), bytes});
        shadow_.expose(begin, bytes, initialised);
    }
}

void Checker::forget(const void* begin, std::size_t bytes) {
    if (on) {
        const auto first = reinterpret_cast<std::uintptr_t>(begin);
        const auto begins_there = [=](const NamedRange& range) { return range.begin == first; };
        global_.erase(std::remove_if(global_.begin(), global_.end(), begins_there), global_.end());
        shadow_.withdraw(begin, bytes);
    }
}

void Checker::forget_all() {
    global_.clear();
    shadow_.withdraw_all();
}

std::int64_t Checker::first_unwritten(const void* begin, std::size_t bytes) {
    const auto first = reinterpret_cast<std::uintptr_t>(begin);
    std::int64_t unwritten = all_written;
    for (std::size_t offset = 0; offset < bytes; ++offset) {
        const std::uintptr_t address = first + offset;
        const Cell* cell = shadow_.find(address);
        const unsigned byte = address % word_bytes;
        if (cell == nullptr || (cell->exposed >> byte & 1) == 0) {
            return not_exposed;
        }
        if (unwritten == all_written && (cell->written >> byte & 1) == 0) {
            unwritten = static_cast<std::int64_t>(offset);
        }
    }
    return unwritten;
}

void Checker::start_launch(const void* code) {
    code_base_ = base_of(code);
    clocks_.start_launch();
    clusters_.clear();
}

void Checker::start_cluster(std::uint64_t index, unsigned blocks, unsigned block_threads) {
    clocks_.start_cluster(blocks, block_threads);
    clusters_.push_back({clocks_.cluster_start(), index});
    block_threads_ = block_threads;
    agents_.clear();
}

void Checker::end_cluster() {
    for (const NamedRange& range : shared_) {
        shadow_.withdraw(reinterpret_cast<const void*>(range.begin), range.bytes);
    }
    shared_.clear();
}

void Checker::end_block(const SharedMemory& memory) {
    const Thread& self = Emulator::current();
    const VectorClocks::View view = clocks_.view_of(self.number);
    for (const NamedRange& range : shared_) {
        if (!memory.contains(reinterpret_cast<const void*>(range.begin))) {
            continue;
        }
        const std::uintptr_t end = range.begin + range.bytes;
        for (std::uintptr_t word = range.begin; word < end; word += word_bytes) {
            for (const Access& access : shadow_.find(word)->accesses) {
                const bool remote = access.bytes != 0 && !clocks_.is_agent(access.member) &&
                                    access.member / block_threads_ != self.cluster_rank;
                if (remote && clocks_.order(access.member, access.time, view) != Order::before) {
                    report_early_end(word, access);
                }
            }
        }
    }
}

unsigned Checker::add_agent(Agent agent) {
    agents_.push_back(agent);
    return clocks_.add_agent();
}

void Checker::add_shared_array(const char* name, const void* begin, std::size_t bytes) {
    shared_.push_back({name, reinterpret_cast<std::uintptr_t>(begin), bytes});
    shadow_.expose(begin, bytes, false);
}

void Checker::access(const void* address, std::size_t bytes, AccessKind kind, bool reads,
                     const void* return_address) {
    const Thread& self = Emulator::current();
    const std::uintptr_t code = reinterpret_cast<std::uintptr_t>(return_address) - 1;
    if (self.fiber.stack_contains(address)) {
        emulator().warpgroups().touch(self, address, bytes, code);
        return;
    }
    check({self.number, clocks_.now(self.number)}, clocks_.view_of(self.number),
          reinterpret_cast<std::uintptr_t>(address), bytes, kind, reads, code);
}

void Checker::access_by_agent(Actor agent, const VectorClocks::View& view, const void* address,
                              std::size_t bytes, AccessKind kind, const void* return_address) {
    check(agent, view, reinterpret_cast<std::uintptr_t>(address), bytes, kind,
          kind == AccessKind::read, reinterpret_cast<std::uintptr_t>(return_address) - 1);
}

bool Checker::is_shared(std::uintptr_t address) const {
    for (const NamedRange& range : shared_) {
        if (address - range.begin < range.bytes) {
            return true;
        }
    }
    return false;
}

void Checker::check(Actor actor, const VectorClocks::View& view, std::uintptr_t begin,
                    std::size_t bytes, AccessKind kind, bool reads, std::uintptr_t code) {
    const std::uintptr_t end = begin + bytes;
    const bool needs_fence =
        clocks_.is_agent(actor.member) && agent(actor.member).needs_fence && is_shared(begin);
    Access access{actor.time, static_cast<std::uint32_t>(code - code_base_),
                  static_cast<std::uint16_t>(actor.member), 0, kind};
    for (std::uintptr_t word = begin - begin % word_bytes; word < end; word += word_bytes) {
        access.bytes = bytes_in_word(word, begin, end);
        Cell* cell = shadow_.find(word);
        if (cell == nullptr || (access.bytes & ~cell->exposed) != 0) {
            if (loaded_data_.contains(reinterpret_cast<const void*>(begin))) {
                return;
            }
            report_out_of_bounds(begin, bytes, kind, code);
        }
        if (reads && (access.bytes & ~cell->initialised) != 0) {
            report_uninitialised(word, code);
        }
        for (const Access& earlier : cell->accesses) {
            if (!conflict(access, earlier)) {
                continue;
            }
            const Order order = clocks_.order(earlier.member, earlier.time, view);
            if (order != Order::before) {
                report_race(word, access, earlier, order);
            }
            if (needs_fence && earlier.kind != AccessKind::read &&
                !clocks_.is_agent(earlier.member) && earlier.time > fenced_[earlier.member]) {
                report_missing_fence(word, access, earlier);
            }
        }
        if (kind != AccessKind::read) {
            cell->initialised |= access.bytes;
            cell->written |= access.bytes;
        }
        record(*cell, access, view);
    }
}

// Keeps the access in place of one that it makes needless, or in an empty place, or else in place
// of a read: first one of the same warp, since a warp's lanes are mostly ordered alike.
void Checker::record(Cell& cell, const Access& access, const VectorClocks::View& view) {
    Access* place = nullptr;
    for (Access& earlier : cell.accesses) {
        if (earlier.bytes == 0) {
            place = place == nullptr ? &earlier : place;
            continue;
        }
        const bool stale = earlier.time <= clocks_.launch_start();
        if (stale || (supersedes(access, earlier) &&
                      clocks_.order(earlier.member, earlier.time, view) == Order::before)) {
            earlier = {};
            place = &earlier;
        }
    }
    if (place == nullptr) {
        const unsigned start = cell.next_evicted++;
        Access* same_warp_read = nullptr;
        Access* read = nullptr;
        for (unsigned i = 0; i < Cell::access_count; ++i) {
            Access& earlier = cell.accesses[(start + i) % Cell::access_count];
            if (earlier.kind == AccessKind::read && earlier.time > clocks_.cluster_start()) {
                read = &earlier;
                if (earlier.member / warp_lanes == access.member / warp_lanes) {
                    same_warp_read = &earlier;
                }
            }
        }
        place = same_warp_read != nullptr ? same_warp_read
                : read != nullptr         ? read
                                          : &cell.accesses[start % Cell::access_count];
    }
    *place = access;
}

}  // namespace fusegen_emulator
