// Warp operations as rendezvous: the last of the named lanes to come does the work for all.
#pragma once

#include <cstdint>

#include "../include/fusegen_emulator/interface.h"
#include "limits.h"

namespace fusegen_emulator {

struct ShuffleOperands {
    const void* value;  // null where the operation moves none
    void* result;
    unsigned bytes;
    unsigned source_lane;
};

// What one lane brings and takes away; it lies on that lane's stack while the lane waits.
struct WarpRequest {
    ShuffleOperands shuffle;
    bool predicate;
    std::uint32_t ballot;
};

// The lanes of one mask that meet. Lanes of different masks meet apart.
struct Rendezvous {
    std::uint32_t mask;
    std::uint32_t arrived;  // 0: free for another mask
    Site site;
};

struct Warp {
    std::uint32_t alive;  // lanes that exist and have not exited
    unsigned rendezvous_count;
    Rendezvous rendezvous[warp_lanes];
    WarpRequest* requests[warp_lanes];

    void start_block(std::uint32_t lanes) {
        alive = lanes;
        rendezvous_count = 0;
    }

    // The rendezvous of a mask: the one in progress, or a free one. Every rendezvous in progress
    // holds a lane of its own and the caller waits in none, so there is always room.
    Rendezvous& rendezvous_of(std::uint32_t mask) {
        Rendezvous* unused = nullptr;
        for (unsigned i = 0; i < rendezvous_count; ++i) {
            if (rendezvous[i].arrived == 0) {
                unused = &rendezvous[i];
            } else if (rendezvous[i].mask == mask) {
                return rendezvous[i];
            }
        }
        if (unused == nullptr) {
            unused = &rendezvous[rendezvous_count++];
        }
        *unused = {mask, 0, {}};
        return *unused;
    }
};

}  // namespace fusegen_emulator
