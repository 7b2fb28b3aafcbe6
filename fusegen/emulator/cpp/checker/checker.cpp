#include "checker.h"

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

unsigned linear_index(const Thread& thread) { return thread.warp * warp_lanes + thread.lane; }

}  // namespace

void Checker::expose(const void* begin, std::size_t bytes, bool initialised) {
    if (on) {
        global_.push_back({"global memory", reinterpret_cast<std::uintptr_t>(begin), bytes});
        shadow_.expose(begin, bytes, initialised);
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
    blocks_.clear();
}

void Checker::start_block(std::uint64_t index, unsigned thread_count) {
    clocks_.start_block(thread_count);
    blocks_.push_back({clocks_.block_start(), index});
}

void Checker::end_block() {
    for (const NamedRange& range : shared_) {
        shadow_.withdraw(reinterpret_cast<const void*>(range.begin), range.bytes);
    }
    shared_.clear();
}

void Checker::add_shared_array(const char* name, const void* begin, std::size_t bytes) {
    shared_.push_back({name, reinterpret_cast<std::uintptr_t>(begin), bytes});
    shadow_.expose(begin, bytes, false);
}

void Checker::access(const void* address, std::size_t bytes, AccessKind kind, bool reads,
                     const void* return_address) {
    const Thread& self = Emulator::current();
    if (self.fiber.stack_contains(address)) {
        return;
    }
    const auto begin = reinterpret_cast<std::uintptr_t>(address);
    const std::uintptr_t end = begin + bytes;
    const std::uintptr_t code = reinterpret_cast<std::uintptr_t>(return_address) - 1;
    const unsigned thread = linear_index(self);
    Access access{clocks_.now(thread), static_cast<std::uint32_t>(code - code_base_),
                  static_cast<std::uint16_t>(thread), 0, kind};
    for (std::uintptr_t word = begin - begin % word_bytes; word < end; word += word_bytes) {
        access.bytes = bytes_in_word(word, begin, end);
        Cell* cell = shadow_.find(word);
        if (cell == nullptr || (access.bytes & ~cell->exposed) != 0) {
            if (loaded_data_.contains(address)) {
                return;
            }
            report_out_of_bounds(begin, bytes, kind, code);
        }
        if (reads && (access.bytes & ~cell->initialised) != 0) {
            report_uninitialised(word, code);
        }
        for (const Access& earlier : cell->accesses) {
            if (conflict(access, earlier)) {
                const Order order = clocks_.order(earlier.thread, earlier.time, thread);
                if (order != Order::before) {
                    report_race(word, access, earlier, order);
                }
            }
        }
        if (kind != AccessKind::read) {
            cell->initialised |= access.bytes;
            cell->written |= access.bytes;
        }
        record(*cell, access);
    }
}

// Keeps the access in place of one that it makes needless, or in an empty place, or else in place
// of a read: first one of the same warp, since a warp's lanes are mostly ordered alike.
void Checker::record(Cell& cell, const Access& access) {
    Access* place = nullptr;
    for (Access& earlier : cell.accesses) {
        if (earlier.bytes == 0) {
            place = place == nullptr ? &earlier : place;
            continue;
        }
        const bool stale = earlier.time <= clocks_.launch_start();
        if (stale ||
            (supersedes(access, earlier) &&
             clocks_.order(earlier.thread, earlier.time, access.thread) == Order::before)) {
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
            if (earlier.kind == AccessKind::read && earlier.time > clocks_.block_start()) {
                read = &earlier;
                if (earlier.thread / warp_lanes == access.thread / warp_lanes) {
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
