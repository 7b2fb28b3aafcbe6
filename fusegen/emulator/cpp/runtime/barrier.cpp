#include "emulator.h"
#include "site.h"

namespace fusegen_emulator {

unsigned Emulator::sync_threads(Site site, int predicate) {
    if (barrier_.arrived == 0) {
        barrier_.site = site;
    } else if (!same_site(barrier_.site, site)) {
        fail(current(),
             "%s meets threads that wait in %s: all threads of a block must reach the same barrier",
             SiteText(site).text, SiteText(barrier_.site).text);
    }
    Thread& self = current();
    self.waiting = Waiting::at_barrier;
    self.site = site;
    barrier_.trues += predicate != 0;
    if (++barrier_.arrived == thread_count_) {
        barrier_.result = barrier_.trues;
        barrier_.arrived = barrier_.trues = 0;
        if (checker_.on) {
            checker_.join_block();
        }
        for (unsigned warp = 0; warp < warp_count_; ++warp) {
            scheduler_.make_ready(warp, warps_[warp].alive);
        }
    }
    suspend();
    return barrier_.result;
}

}  // namespace fusegen_emulator
