// Barriers in shared memory that count arrivals and copied bytes (PTX ISA, "mbarrier").
#pragma once

#include <cstdint>
#include <unordered_map>

#include "../checker/vector_clocks.h"
#include "../include/fusegen_emulator/asynchronous.h"

namespace fusegen_emulator {

struct Thread;

// What the eight bytes of a barrier stand for. Arrivals hand on what the threads have seen; the
// copies that complete on the barrier are one agent of the checker, whose time is the phase's.
struct Mbarrier {
    const std::uint64_t* address;
    unsigned count;              // arrivals that end a phase
    unsigned missing;            // of this phase
    std::int64_t bytes_to_come;  // of this phase
    std::uint64_t phase;         // how many are complete
    unsigned initialised_by;     // the thread's number
    bool visible_to_copies;
    unsigned agent;
    std::uint32_t phase_time;
    Clock released;   // by those who have arrived
    Clock completed;  // up to the last complete phase
};

class Mbarriers {
public:
    void start_cluster() { barriers_.clear(); }

    // For the thread that runs: see asynchronous.h. `code` is where in the kernel it is called.
    void init(Site site, std::uint64_t* address, unsigned count, const void* code);
    void fence_init();
    void arrive(Site site, std::uint64_t* address, unsigned bytes, const void* code);
    void arrive_remote(Site site, std::uint64_t* address, unsigned rank, const void* code);
    void wait(Site site, std::uint64_t* address, unsigned parity, const void* code);

    // The barrier at `address`, which must have been initialised and left alone since.
    Mbarrier& find(Site site, const std::uint64_t* address);

    // A copy has brought bytes of the barrier's present phase.
    void bring(Mbarrier& barrier, std::int64_t bytes);

private:
    void note(const std::uint64_t* address, const void* code);
    void count_arrival(Site site, Mbarrier& barrier, unsigned bytes);
    void complete_phase_if_due(Mbarrier& barrier);

    std::unordered_map<const std::uint64_t*, Mbarrier> barriers_;
};

}  // namespace fusegen_emulator
