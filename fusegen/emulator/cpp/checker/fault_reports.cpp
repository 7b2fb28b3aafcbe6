// The checker's reports: what was done where, and to which memory.
#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "../runtime/emulator.h"
#include "checker.h"

namespace fusegen_emulator {

namespace {

const char* verb(AccessKind kind) {
    switch (kind) {
        case AccessKind::read:
            return "reads";
        case AccessKind::write:
            return "writes";
        case AccessKind::atomic:
            return "atomically updates";
    }
    return "?";
}

const char* past_participle(AccessKind kind) {
    switch (kind) {
        case AccessKind::read:
            return "read";
        case AccessKind::write:
            return "wrote";
        case AccessKind::atomic:
            return "atomically updated";
    }
    return "?";
}

// "byte 64 of 'partials', 128 bytes".
struct PlaceText {
    char text[256];

    PlaceText(std::uintptr_t address, const NamedRange* range) {
        if (range == nullptr) {
            std::snprintf(text, sizeof text, "memory at 0x%zx, and none was exposed",
                          static_cast<std::size_t>(address));
            return;
        }
        std::snprintf(text, sizeof text, "byte %td of '%s', %zu bytes",
                      static_cast<std::ptrdiff_t>(address - range->begin), range->name,
                      range->bytes);
    }
};

std::size_t distance(std::uintptr_t address, const NamedRange& range) {
    const std::uintptr_t end = range.begin + range.bytes;
    return address < range.begin ? range.begin - address : address < end ? 0 : address - end + 1;
}

uint3 unflatten(std::uint64_t index, dim3 size) {
    return {static_cast<unsigned>(index % size.x), static_cast<unsigned>(index / size.x % size.y),
            static_cast<unsigned>(index / size.x / size.y)};
}

}  // namespace

const NamedRange* Checker::nearest_range(std::uintptr_t address) const {
    const NamedRange* nearest = nullptr;
    for (const auto* ranges : {&shared_, &global_}) {
        for (const NamedRange& range : *ranges) {
            if (nearest == nullptr || distance(address, range) < distance(address, *nearest)) {
                nearest = &range;
            }
        }
    }
    return nearest;
}

void Checker::report_out_of_bounds(std::uintptr_t address, std::size_t bytes, AccessKind kind,
                                   std::uintptr_t code) const {
    emulator().fail(Emulator::current(), "out of bounds: %s %zu bytes at %s: %s", verb(kind), bytes,
                    CodeLine(code).text, PlaceText(address, nearest_range(address)).text);
}

void Checker::report_uninitialised(std::uintptr_t address, std::uintptr_t code) const {
    emulator().fail(Emulator::current(),
                    "uninitialised: reads what nothing has written yet, at %s: %s",
                    CodeLine(code).text, PlaceText(address, nearest_range(address)).text);
}

void Checker::report_race(std::uintptr_t address, const Access& now, const Access& earlier,
                          Order order) const {
    const Thread& self = Emulator::current();
    char other[128];
    if (order == Order::in_another_block) {
        // The last cluster that started before the access's time.
        const auto after = std::partition_point(
            clusters_.begin(), clusters_.end(),
            [&](const ClusterStart& cluster) { return cluster.time < earlier.time; });
        const bool by_agent = clocks_.is_agent(earlier.member);
        const unsigned rank = by_agent ? 0 : earlier.member / block_threads_;
        const uint3 block = unflatten(std::prev(after)->index + rank, self.grid_size);
        const uint3 thread = unflatten(earlier.member % block_threads_, self.block_size);
        const int length =
            std::snprintf(other, sizeof other, "block (%u, %u, %u), ", block.x, block.y, block.z);
        if (by_agent) {
            std::snprintf(other + length, sizeof other - length, "a bulk copy");
        } else {
            std::snprintf(other + length, sizeof other - length, "thread (%u, %u, %u)", thread.x,
                          thread.y, thread.z);
        }
    } else if (clocks_.is_agent(earlier.member)) {
        std::snprintf(other, sizeof other, "%s", agent(earlier.member).name);
    } else {
        const Thread& thread = emulator().thread(earlier.member);
        const uint3 index = thread.thread_index, block = thread.block_index;
        const int length = thread.cluster_rank == self.cluster_rank
                               ? 0
                               : std::snprintf(other, sizeof other, "block (%u, %u, %u), ", block.x,
                                               block.y, block.z);
        std::snprintf(other + length, sizeof other - length, "thread (%u, %u, %u)", index.x,
                      index.y, index.z);
    }
    emulator().fail(self, "race%s: %s at %s what %s %s at %s, and nothing orders the two: %s",
                    order == Order::in_another_block ? " between blocks" : "", verb(now.kind),
                    CodeLine(code_base_ + now.code_offset).text, other,
                    past_participle(earlier.kind), CodeLine(code_base_ + earlier.code_offset).text,
                    PlaceText(address, nearest_range(address)).text);
}

void Checker::report_early_end(std::uintptr_t address, const Access& remote) const {
    const uint3 block = emulator().thread(remote.member).block_index;
    emulator().fail(Emulator::current(),
                    "the block ends, and nothing orders its end after what block (%u, %u, %u) of "
                    "its cluster %s in its shared memory at %s: %s",
                    block.x, block.y, block.z, past_participle(remote.kind),
                    CodeLine(code_base_ + remote.code_offset).text,
                    PlaceText(address, nearest_range(address)).text);
}

void Checker::report_missing_fence(std::uintptr_t address, const Access& now,
                                   const Access& earlier) const {
    const uint3 thread = emulator().thread(earlier.member).thread_index;
    emulator().fail(Emulator::current(),
                    "missing fence_async_shared: %s at %s what thread (%u, %u, %u) %s at %s and "
                    "did not make visible to copies and wgmma before the barrier: %s",
                    verb(now.kind), CodeLine(code_base_ + now.code_offset).text, thread.x, thread.y,
                    thread.z, past_participle(earlier.kind),
                    CodeLine(code_base_ + earlier.code_offset).text,
                    PlaceText(address, nearest_range(address)).text);
}

}  // namespace fusegen_emulator
