// Copies of 16 bytes that a thread starts and later waits for (PTX ISA, "cp.async").
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "../include/fusegen_emulator/asynchronous.h"
#include "random.h"

namespace fusegen_emulator {

class ThreadCopies {
public:
    void start_cluster() { copies_.clear(); }

    // For the thread that runs: see asynchronous.h. `code` is where in the kernel it is called.
    void start(Site site, void* shared, const void* global, int valid, const void* code);
    void commit();
    void wait(unsigned pending);

    // Completes a copy of some thread, if there is one.
    void make_progress(Random& random);

private:
    struct Copy {
        void* shared;
        const void* global;
        std::size_t valid;  // bytes; the rest is zero
        unsigned group;
    };

    // One thread's. Group g is committed if g < committed.
    struct OfThread {
        unsigned committed = 0;
        unsigned agent = 0;                     // the checker's
        std::vector<Copy> in_flight;            // the oldest first
        std::vector<std::uint32_t> last_times;  // of each group, in the checker's clock
    };

    OfThread& of_current_thread();

    std::unordered_map<unsigned, OfThread> copies_;  // by the thread's number
};

}  // namespace fusegen_emulator
