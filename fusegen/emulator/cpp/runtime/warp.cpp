#include "warp.h"

#include <cstring>

#include "emulator.h"
#include "site.h"

namespace fusegen_emulator {

void Emulator::join_warp(Site site, std::uint32_t mask, WarpRequest& request) {
    Thread& self = current();
    Warp& warp = warps_[self.warp];
    const std::uint32_t own_bit = 1u << self.lane;
    if ((mask & own_bit) == 0) {
        fail(self, "%s: the mask 0x%08x leaves out lane %u, which calls it", SiteText(site).text,
             mask, self.lane);
    }
    Rendezvous& rendezvous = warp.rendezvous_of(mask);
    if (rendezvous.arrived == 0) {
        rendezvous.site = site;
    } else if (!same_site(rendezvous.site, site)) {
        fail(self,
             "%s meets lanes that wait in %s: the lanes of one warp operation must not diverge",
             SiteText(site).text, SiteText(rendezvous.site).text);
    }
    rendezvous.arrived |= own_bit;
    warp.requests[self.lane] = &request;
    self.mask = mask;
    if (rendezvous.arrived == (mask & warp.alive)) {
        complete(warp, self.warp, rendezvous);
    }
    wait(Waiting::in_warp, site);
}

void Emulator::complete(Warp& warp, unsigned warp_index, Rendezvous& rendezvous) {
    const std::uint32_t lanes = rendezvous.arrived;
    std::uint32_t ballot = 0;
    for (std::uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
        const unsigned lane = static_cast<unsigned>(__builtin_ctz(rest));
        ballot |= static_cast<std::uint32_t>(warp.requests[lane]->predicate) << lane;
    }
    for (std::uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
        const unsigned lane = static_cast<unsigned>(__builtin_ctz(rest));
        WarpRequest& request = *warp.requests[lane];
        request.ballot = ballot;
        const ShuffleOperands& operands = request.shuffle;
        if (operands.value == nullptr) {
            continue;
        }
        if ((lanes >> operands.source_lane & 1) == 0) {
            const bool named = rendezvous.mask >> operands.source_lane & 1;
            fail(threads_[warp_index * warp_lanes + lane],
                 "%s: lane %u of warp %u reads from lane %u, which %s",
                 SiteText(rendezvous.site).text, lane, warp_index, operands.source_lane,
                 named ? "has exited or lies beyond the block" : "is not in the mask");
        }
        std::memcpy(operands.result, warp.requests[operands.source_lane]->shuffle.value,
                    operands.bytes);
    }
    // Of the warp's operations only __syncwarp orders memory accesses.
    if (checker_.on && rendezvous.site.operation == Operation::sync_warp) {
        checker_.clocks().join_warp(warp_index, lanes);
    }
    rendezvous.arrived = 0;
    scheduler_.make_ready(warp_index, lanes);
}

void Emulator::sync_warp(Site site, std::uint32_t mask) {
    WarpRequest request{};
    join_warp(site, mask, request);
}

void Emulator::shuffle(Site site, std::uint32_t mask, const ShuffleOperands& operands) {
    WarpRequest request{operands, false, 0};
    join_warp(site, mask, request);
}

unsigned Emulator::vote(Site site, std::uint32_t mask, int predicate) {
    WarpRequest request{{}, predicate != 0, 0};
    join_warp(site, mask, request);
    return request.ballot;
}

}  // namespace fusegen_emulator
