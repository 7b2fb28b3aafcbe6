// A block that runs: what its threads share.
#pragma once

#include "../checker/vector_clocks.h"
#include "../include/fusegen_emulator/interface.h"
#include "shared_memory.h"

namespace fusegen_emulator {

struct Thread;

// The block-wide barrier. `trues` counts the predicates of those who came, `result` is the last
// round's count: it stands until every thread has come again, so all have read it by then.
struct Barrier {
    unsigned arrived = 0;
    unsigned trues = 0;
    unsigned result = 0;
    Site site{};
};

// A barrier of some of the block's threads, by number (PTX ISA, "barrier").
struct NamedBarrier {
    unsigned threads = 0;  // that it waits for
    unsigned arrived = 0;
    Site site{};
    std::vector<Thread*> waiting;
    Clock released;
};

constexpr unsigned named_barrier_count = 16;

struct Block {
    uint3 index{};
    unsigned rank = 0;          // in its cluster
    unsigned first_thread = 0;  // in its cluster
    unsigned finished = 0;      // threads that have returned
    unsigned registers = 0;     // that its threads have asked for, all together
    Site registers_site{};      // where they last did
    Barrier barrier;
    NamedBarrier named_barriers[named_barrier_count];
    SharedMemory shared_memory;
};

}  // namespace fusegen_emulator
