#include "thread_copies.h"

#include <cstring>
#include <iterator>

#include "emulator.h"
#include "site.h"
#include "tile.h"

namespace fusegen_emulator {

ThreadCopies::OfThread& ThreadCopies::of_current_thread() {
    const auto [found, is_new] = copies_.try_emplace(Emulator::current().number);
    if (is_new && emulator().checker().on) {
        found->second.agent = emulator().checker().add_agent({"a cp_async", false});
    }
    return found->second;
}

void ThreadCopies::start(Site site, void* shared, const void* global, int valid, const void* code) {
    const Thread& self = Emulator::current();
    const auto misaligned = [](const void* address) {
        return reinterpret_cast<std::uintptr_t>(address) % piece_bytes != 0;
    };
    if (!self.block->shared_memory.contains(shared) || misaligned(shared) || misaligned(global)) {
        emulator().fail(self,
                        "%s: it copies to shared memory, and both places must be multiples "
                        "of 16 bytes",
                        SiteText(site).text);
    }
    if (valid < 0 || valid > static_cast<int>(piece_bytes)) {
        emulator().fail(self, "%s: %d valid bytes; allowed are 0 to 16", SiteText(site).text,
                        valid);
    }
    OfThread& copies = of_current_thread();
    copies.last_times.resize(copies.committed + 1);
    const auto bytes = static_cast<std::size_t>(valid);
    Checker& checker = emulator().checker();
    if (checker.on) {
        const VectorClocks::View view = checker.clocks().view_of(self.number);
        const Actor agent{copies.agent, copies.last_times.back() = checker.clocks().tick()};
        checker.access_by_agent(agent, view, global, bytes, AccessKind::read, code);
        checker.access_by_agent(agent, view, shared, piece_bytes, AccessKind::write, code);
    }
    copies.in_flight.push_back({shared, global, bytes, copies.committed});
}

void ThreadCopies::commit() {
    OfThread& copies = of_current_thread();
    copies.last_times.resize(++copies.committed);
}

namespace {

template <class Copy>
void complete(const Copy& copy) {
    std::memset(copy.shared, 0, piece_bytes);
    std::memcpy(copy.shared, copy.global, copy.valid);
}

}  // namespace

void ThreadCopies::wait(unsigned pending) {
    OfThread& copies = of_current_thread();
    if (copies.committed <= pending) {
        return;
    }
    const unsigned finished = copies.committed - pending;  // groups
    auto copy = copies.in_flight.begin();
    for (; copy != copies.in_flight.end() && copy->group < finished; ++copy) {
        complete(*copy);
    }
    copies.in_flight.erase(copies.in_flight.begin(), copy);
    if (emulator().checker().on) {
        for (unsigned group = 0; group < finished; ++group) {
            emulator().checker().clocks().learn(Emulator::current().number, copies.agent,
                                                copies.last_times[group]);
        }
    }
}

void ThreadCopies::make_progress(Random& random) {
    if (copies_.empty()) {
        return;
    }
    const auto some = static_cast<std::ptrdiff_t>(random.next() % copies_.size());
    auto& in_flight = std::next(copies_.begin(), some)->second.in_flight;
    if (!in_flight.empty()) {
        complete(in_flight.front());
        in_flight.erase(in_flight.begin());
    }
}

}  // namespace fusegen_emulator
