// Copies that run by themselves: of tiles between global and shared memory (PTX ISA,
// "cp.async.bulk.tensor"), and of values to another block's shared memory ("st.async").
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "../checker/vector_clocks.h"
#include "../include/fusegen_emulator/asynchronous.h"
#include "random.h"

namespace fusegen_emulator {

struct Mbarrier;
struct Thread;

class BulkCopies {
public:
    void start_cluster() {
        in_flight_.clear();
        stores_.clear();
        loaded_tiles_.clear();
    }

    // For the thread that runs: see asynchronous.h. `code` is where in the kernel it is called.
    void load(Site site, const TileCopy& copy, const void* code);
    void send(Site site, void* shared, const void* value, std::size_t bytes, std::uint64_t* barrier,
              unsigned rank, const void* code);
    void store(Site site, const TileCopy& copy, const void* code);
    void commit_stores();
    void wait_for_stores(unsigned pending, bool only_reads);

    bool any_in_flight() const { return !in_flight_.empty(); }
    void complete_oldest() { complete(0); }
    void complete_any(Random& random) { complete(random.next() % in_flight_.size()); }

    // Faults that show when a thread, or the last thread of the cluster, has returned.
    void check_finished_thread(const Thread& thread) const;
    void check_finished_cluster() const;

    // Whether the tile that holds `address` was loaded without the swizzle.
    bool lies_unswizzled(const void* address) const;

private:
    struct InFlight {
        TileCopy copy;
        TensorMap map;
        Site site;
        const Thread* thread;
        Mbarrier* barrier;    // of a load, or of what is sent
        std::uint64_t phase;  // the barrier's when the load was issued
        unsigned group;       // of a store
        std::vector<char> sent;  // what is sent, instead of a tile
        Clock known;             // by the sender
    };

    // A thread's stores. Group g is committed if g < committed; the times are the checker's.
    struct Stores {
        unsigned committed = 0;
        unsigned awaited = 0;             // groups that have at least read shared memory
        bool open = false;                // the group `committed` has stores
        Site site{};                      // of the last store
        unsigned reader = 0, writer = 0;  // the checker's agents
        std::vector<std::uint32_t> last_times;
    };

    struct LoadedTile {
        const char* begin;
        std::size_t bytes;
        bool swizzled;
    };

    void complete(std::size_t i);
    static std::size_t bring(const InFlight& done);  // to shared memory; how many bytes
    Mbarrier& barrier_at(Site site, const std::uint64_t* address) const;
    void check_copy(Site site, const TileCopy& copy) const;
    void remember_layout(const TileCopy& copy, void* tile);
    Stores& stores_of(const Thread& thread);

    std::vector<InFlight> in_flight_;              // the oldest first
    std::unordered_map<unsigned, Stores> stores_;  // by the thread's number
    std::vector<LoadedTile> loaded_tiles_;
};

}  // namespace fusegen_emulator
