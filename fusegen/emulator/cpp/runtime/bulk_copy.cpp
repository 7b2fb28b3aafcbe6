#include "bulk_copy.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "emulator.h"
#include "site.h"
#include "tile.h"

namespace fusegen_emulator {

namespace {

// Where a byte of the tile lies, `offset` bytes on before the swizzle.
char* place(const TileCopy& copy, std::size_t offset) {
    return static_cast<char*>(copy.shared) + (copy.map->swizzled ? swizzle(offset) : offset);
}

// Brings a row of the tile to shared memory or from there, piece by piece.
template <class Move>
void for_each_part(const TileCopy& copy, std::size_t offset, std::size_t bytes, Move move) {
    for (std::size_t done = 0; done < bytes;) {
        const std::size_t at = offset + done;
        const std::size_t part = std::min(bytes - done, piece_bytes - at % piece_bytes);
        move(place(copy, at), done, part);
        done += part;
    }
}

// Rounds floats to the nearest value of TF32, which has 13 bits less, ties away from zero; infinities
// and NaN stay.
void round_to_tf32(char* floats, std::size_t bytes) {
    constexpr std::uint32_t exponent = 0x7f800000u, half = 1u << 12, dropped = (1u << 13) - 1;
    for (std::size_t at = 0; at < bytes; at += sizeof(std::uint32_t)) {
        std::uint32_t bits;
        std::memcpy(&bits, floats + at, sizeof bits);
        if ((bits & exponent) != exponent) {
            bits = (bits + half) & ~dropped;
            std::memcpy(floats + at, &bits, sizeof bits);
        }
    }
}

void copy_to_shared(const TileCopy& copy) {
    std::memset(copy.shared, 0, tile_bytes(copy));
    for_each_row(copy, [&](const TileRow& row) {
        for_each_part(copy, row.offset + row.skipped, row.bytes,
                      [&](char* shared, std::size_t done, std::size_t part) {
                          std::memcpy(shared, row.global + done, part);
                          if (copy.map->rounds_to_tf32) {
                              round_to_tf32(shared, part);
                          }
                      });
    });
}

void copy_to_global(const TileCopy& copy) {
    for_each_row(copy, [&](const TileRow& row) {
        for_each_part(copy, row.offset + row.skipped, row.bytes,
                      [&](char* shared, std::size_t done, std::size_t part) {
                          std::memcpy(row.global + done, shared, part);
                      });
    });
}

}  // namespace

void BulkCopies::check_copy(Site site, const TileCopy& copy) const {
    const Thread& self = Emulator::current();
    const SiteText text(site);
    if (copy.map->rank != copy.rank) {
        emulator().fail(self, "%s: a copy of %u dimensions by a tensor map of %u", text.text,
                        copy.rank, copy.map->rank);
    }
    if (copy.map->is_window != copy.is_of_windows) {
        emulator().fail(self, "%s: a copy of %s by a tensor map of %s", text.text,
                        copy.is_of_windows ? "windows" : "a tile",
                        copy.map->is_window ? "windows" : "tiles");
    }
    for (unsigned dim = 0; copy.map->is_window && dim < copy.rank - 2; ++dim) {
        const std::int64_t from = copy.at[dim + 1] - copy.map->lower[dim];
        const int limit = copy.rank == 4 ? 255 : 31;
        if (from < 0 || from % copy.map->steps[dim] != 0 ||
            from / copy.map->steps[dim] >= window_count(*copy.map, dim)) {
            emulator().fail(self, "%s: no window begins at %d along dimension %u", text.text,
                            copy.at[dim + 1], dim + 1);
        }
        if (copy.offsets[dim] < 0 || copy.offsets[dim] > limit) {
            emulator().fail(self, "%s: an offset of %d, and it must be 0 to %d", text.text,
                            copy.offsets[dim], limit);
        }
    }
    const SharedMemory& memory = self.block->shared_memory;
    const std::size_t alignment =
        copy.map->swizzled ? swizzled_tile_alignment : plain_tile_alignment;
    if (!memory.contains(copy.shared) || memory.address_of(copy.shared) % alignment != 0) {
        emulator().fail(self, "%s: the tile must lie in shared memory, at a multiple of %zu bytes",
                        text.text, alignment);
    }
}

void BulkCopies::remember_layout(const TileCopy& copy, void* tile) {
    const char* begin = static_cast<const char*>(tile);
    for (LoadedTile& loaded : loaded_tiles_) {
        if (loaded.begin == begin) {
            loaded = {begin, tile_bytes(copy), copy.map->swizzled};
            return;
        }
    }
    loaded_tiles_.push_back({begin, tile_bytes(copy), copy.map->swizzled});
}

bool BulkCopies::lies_unswizzled(const void* address) const {
    for (const LoadedTile& tile : loaded_tiles_) {
        if (static_cast<std::size_t>(static_cast<const char*>(address) - tile.begin) < tile.bytes) {
            return !tile.swizzled;
        }
    }
    return false;
}

Mbarrier& BulkCopies::barrier_at(Site site, const std::uint64_t* address) const {
    Mbarrier& barrier = emulator().mbarriers().find(site, address);
    if (!barrier.visible_to_copies) {
        emulator().fail(Emulator::current(),
                        "%s: the thread that initialised the barrier has not called "
                        "mbarrier_fence_init since",
                        SiteText(site).text);
    }
    return barrier;
}

void BulkCopies::load(Site site, const TileCopy& copy, const void* code) {
    const Thread& self = Emulator::current();
    Checker& checker = emulator().checker();
    check_copy(site, copy);
    const unsigned own = 1u << self.cluster_rank;
    const unsigned mask = copy.cluster_mask == 0 ? own : copy.cluster_mask;
    if (mask >> self.cluster_blocks != 0) {
        emulator().fail(self, "%s: the mask 0x%x names blocks that the cluster does not have",
                        SiteText(site).text, mask);
    }
    for (unsigned rank = 0; rank < self.cluster_blocks; ++rank) {
        if ((mask >> rank & 1) == 0) {
            continue;
        }
        TileCopy part = copy;
        if (rank != self.cluster_rank) {
            part.shared = emulator().cluster_shared(site, copy.shared, rank);
            part.barrier =
                static_cast<std::uint64_t*>(emulator().cluster_shared(site, copy.barrier, rank));
        }
        Mbarrier& barrier = barrier_at(site, part.barrier);
        if (checker.on) {
            const VectorClocks::View view = checker.clocks().view_of(self.number);
            const Actor agent{barrier.agent, barrier.phase_time};
            if (rank == self.cluster_rank) {
                checker.access(part.barrier, sizeof *part.barrier, AccessKind::atomic, true, code);
            }
            for_each_row(copy, [&](const TileRow& row) {
                if (row.bytes != 0) {
                    checker.access_by_agent(agent, view, row.global, row.bytes, AccessKind::read,
                                            code);
                }
            });
            checker.access_by_agent(agent, view, part.shared, tile_bytes(copy), AccessKind::write,
                                    code);
        }
        remember_layout(copy, part.shared);
        in_flight_.push_back({part, *copy.map, site, &self, &barrier, barrier.phase, 0, {}, {}});
    }
}

void BulkCopies::send(Site site, void* shared, const void* value, std::size_t bytes,
                      std::uint64_t* barrier_address, unsigned rank, const void* code) {
    const Thread& self = Emulator::current();
    Checker& checker = emulator().checker();
    TileCopy copy{};
    copy.shared = emulator().cluster_shared(site, shared, rank);
    copy.barrier =
        static_cast<std::uint64_t*>(emulator().cluster_shared(site, barrier_address, rank));
    Mbarrier& barrier = barrier_at(site, copy.barrier);
    const char* begin = static_cast<const char*>(value);
    InFlight sent{copy, {}, site, &self, &barrier, barrier.phase, 0, {begin, begin + bytes}, {}};
    if (checker.on) {
        checker.access_by_agent({barrier.agent, barrier.phase_time},
                                checker.clocks().view_of(self.number), copy.shared, bytes,
                                AccessKind::write, code);
        // Its completion releases what the thread did before.
        checker.clocks().release(self.number, sent.known);
    }
    in_flight_.push_back(std::move(sent));
}

BulkCopies::Stores& BulkCopies::stores_of(const Thread& thread) {
    const auto [found, is_new] = stores_.try_emplace(thread.number);
    Checker& checker = emulator().checker();
    if (is_new && checker.on) {
        found->second.reader = checker.add_agent({"a bulk store", true});
        found->second.writer = checker.add_agent({"a bulk store", true});
    }
    return found->second;
}

void BulkCopies::store(Site site, const TileCopy& copy, const void* code) {
    const Thread& self = Emulator::current();
    check_copy(site, copy);
    for (unsigned i = 0; i < copy.rank; ++i) {
        if (copy.at[i] < 0) {
            emulator().fail(self,
                            "%s: the tile begins at %d, and a store's must not begin before "
                            "the tensor",
                            SiteText(site).text, copy.at[i]);
        }
    }
    Stores& stores = stores_of(self);
    stores.open = true;
    stores.site = site;
    stores.last_times.resize(stores.committed + 1);
    Checker& checker = emulator().checker();
    if (checker.on) {
        const VectorClocks::View view = checker.clocks().view_of(self.number);
        const std::uint32_t time = stores.last_times.back() = checker.clocks().tick();
        checker.access_by_agent({stores.reader, time}, view, copy.shared, tile_bytes(copy),
                                AccessKind::read, code);
        for_each_row(copy, [&](const TileRow& row) {
            if (row.bytes != 0) {
                checker.access_by_agent({stores.writer, time}, view, row.global, row.bytes,
                                        AccessKind::write, code);
            }
        });
    }
    in_flight_.push_back({copy, *copy.map, site, &self, nullptr, 0, stores.committed, {}, {}});
}

void BulkCopies::commit_stores() {
    Stores& stores = stores_of(Emulator::current());
    stores.last_times.resize(stores.committed + 1);
    ++stores.committed;
    stores.open = false;
}

void BulkCopies::wait_for_stores(unsigned pending, bool only_reads) {
    const Thread& self = Emulator::current();
    Stores& stores = stores_of(self);
    if (stores.committed <= pending) {
        return;
    }
    const unsigned finished = stores.committed - pending;  // groups
    stores.awaited = std::max(stores.awaited, finished);
    for (std::size_t i = 0; i < in_flight_.size();) {
        const InFlight& copy = in_flight_[i];
        if (copy.barrier == nullptr && copy.thread == &self && copy.group < finished) {
            complete(i);
        } else {
            ++i;
        }
    }
    if (emulator().checker().on) {
        VectorClocks& clocks = emulator().checker().clocks();
        for (unsigned group = 0; group < finished; ++group) {
            clocks.learn(self.number, stores.reader, stores.last_times[group]);
            if (!only_reads) {
                clocks.learn(self.number, stores.writer, stores.last_times[group]);
            }
        }
    }
}

void BulkCopies::complete(std::size_t i) {
    InFlight done = in_flight_[i];
    in_flight_.erase(in_flight_.begin() + static_cast<std::ptrdiff_t>(i));
    done.copy.map = &done.map;
    if (done.barrier == nullptr) {
        copy_to_global(done.copy);
        return;
    }
    const std::size_t bytes = bring(done);
    if (done.barrier->phase != done.phase) {
        emulator().fail(*done.thread,
                        "%s: the barrier's phase was complete before the copy's %zu bytes came: "
                        "too few were announced",
                        SiteText(done.site).text, bytes);
    }
    emulator().mbarriers().bring(*done.barrier, static_cast<std::int64_t>(bytes));
}

std::size_t BulkCopies::bring(const InFlight& done) {
    if (done.sent.empty()) {
        copy_to_shared(done.copy);
        return tile_bytes(done.copy);
    }
    std::memcpy(done.copy.shared, done.sent.data(), done.sent.size());
    Clock& released = done.barrier->released;
    released.resize(std::max(released.size(), done.known.size()));
    for (std::size_t member = 0; member < done.known.size(); ++member) {
        released[member] = std::max(released[member], done.known[member]);
    }
    return done.sent.size();
}

void BulkCopies::check_finished_thread(const Thread& thread) const {
    const auto found = stores_.find(thread.number);
    if (found == stores_.end()) {
        return;
    }
    const Stores& stores = found->second;
    if (stores.open || stores.awaited < stores.committed) {
        emulator().fail(thread,
                        "%s: the thread returns without waiting until the store has read shared "
                        "memory",
                        SiteText(stores.site).text);
    }
}

void BulkCopies::check_finished_cluster() const {
    for (const InFlight& copy : in_flight_) {
        if (copy.barrier != nullptr) {
            emulator().fail(*copy.thread, "%s: the block ends before the copy is complete",
                            SiteText(copy.site).text);
        }
    }
}

}  // namespace fusegen_emulator
