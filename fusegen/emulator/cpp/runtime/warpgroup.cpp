#include "warpgroup.h"

#include <algorithm>
#include <cstring>

#include "emulator.h"
#include "operand.h"
#include "site.h"

namespace fusegen_emulator {

namespace {

constexpr unsigned product_m = 64;

// The row and column of the sum that a thread of the warpgroup keeps in d[i] (PTX ISA, "Register
// Fragments for wgmma.mma_async.m64nNk16", matrix D).
unsigned row_of(unsigned thread, unsigned i) {
    return thread / 32 * 16 + thread % 32 / 4 + i / 2 % 2 * 8;
}
unsigned column_of(unsigned thread, unsigned i) { return i / 4 * 8 + thread % 4 * 2 + i % 2; }

bool is_poison(float value) {
    std::uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    return bits == WgmmaSums::poison;
}

}  // namespace

Warpgroups::Warpgroup& Warpgroups::group_of(const Thread& thread) {
    const unsigned in_block = thread.number - thread.block->first_thread;
    const unsigned per_block =
        (emulator().thread_count() + warpgroup_threads - 1) / warpgroup_threads;
    const unsigned i = thread.cluster_rank * per_block + in_block / warpgroup_threads;
    if (groups_.size() <= i) {
        groups_.resize(i + 1);
    }
    if (groups_[i] == nullptr) {
        groups_[i] = std::make_unique<Warpgroup>();
        groups_[i]->first_thread =
            thread.block->first_thread + in_block / warpgroup_threads * warpgroup_threads;
        if (emulator().checker().on) {
            groups_[i]->agent = emulator().checker().add_agent({"a matrix product (wgmma)", true});
        }
    }
    return *groups_[i];
}

void Warpgroups::compare(Site site, const Thread& self, const WgmmaOperands& mine,
                         const WgmmaOperands& others) const {
    const char* differs = mine.descriptor_a != others.descriptor_a   ? "descriptor of A"
                          : mine.descriptor_b != others.descriptor_b ? "descriptor of B"
                          : mine.accumulate != others.accumulate     ? "choice to accumulate"
                                                                     : nullptr;
    if (differs != nullptr) {
        emulator().fail(self, "%s: the threads of the warpgroup do not agree in the %s",
                        SiteText(site).text, differs);
    }
}

void Warpgroups::multiply(Site site, const WgmmaOperands& operands, const void* code) {
    Thread& self = Emulator::current();
    const SiteText text(site);
    Warpgroup& group = group_of(self);
    const unsigned first_in_block = group.first_thread - self.block->first_thread;
    if (first_in_block + warpgroup_threads > emulator().thread_count()) {
        emulator().fail(self, "%s: the block's last warps are less than a warpgroup", text.text);
    }
    if (!self.wgmma.fenced) {
        emulator().fail(self, "%s: a wgmma_fence is missing since the sums could last be touched",
                        text.text);
    }
    if (group.arrived == 0) {
        group.site = site;
    } else if (!same_site(group.site, site)) {
        emulator().fail(self, "%s meets threads of its warpgroup that wait in %s", text.text,
                        SiteText(group.site).text);
    } else {
        const Thread* first = nullptr;
        for (unsigned i = 0; first == nullptr; ++i) {
            if (group.operands[i] != nullptr) {
                first = &emulator().thread(group.first_thread + i);
                compare(site, self, operands, *group.operands[i]);
            }
        }
        if (first->wgmma.committed != self.wgmma.committed) {
            emulator().fail(self,
                            "%s: the threads of the warpgroup have committed %u and %u groups",
                            text.text, self.wgmma.committed, first->wgmma.committed);
        }
    }
    group.operands[self.number - group.first_thread] = &operands;
    if (++group.arrived == warpgroup_threads) {
        issue(site, group, code);
        group.arrived = 0;
        std::fill_n(group.operands, warpgroup_threads, nullptr);
        for (unsigned i = 0; i < warpgroup_threads; ++i) {
            emulator().wake(emulator().thread(group.first_thread + i));
        }
    }
    emulator().wait(Waiting::in_warpgroup, site);
}

// The sums that the product adds to: those in flight, or else the threads' own.
std::shared_ptr<WgmmaSums> Warpgroups::sums_of(Site site, Warpgroup& group) {
    const WgmmaOperands& first = *group.operands[0];
    for (const auto& sums : group.sums) {
        if (sums->of_thread[0] == first.d) {
            if (sums->n != first.n) {
                emulator().fail(Emulator::current(),
                                "%s: its sums are still in use by a product of another shape",
                                SiteText(site).text);
            }
            return sums;
        }
    }
    auto sums = std::make_shared<WgmmaSums>();
    sums->n = first.n;
    float poison;
    std::memcpy(&poison, &WgmmaSums::poison, sizeof poison);
    for (unsigned thread = 0; thread < warpgroup_threads; ++thread) {
        float* d = sums->of_thread[thread] = group.operands[thread]->d;
        for (unsigned i = 0; i < sums->n / 2; ++i) {
            sums->values[row_of(thread, i)][column_of(thread, i)] = d[i];
            d[i] = poison;
        }
        ++emulator().thread(group.first_thread + thread).wgmma.sums_in_flight;
    }
    group.sums.push_back(sums);
    return sums;
}

// Puts the product that all threads have come to on its way. Its effect comes later, but what it
// reads must be there by now.
void Warpgroups::issue(Site site, Warpgroup& group, const void* code) {
    const Thread& self = Emulator::current();
    const WgmmaOperands& operands = *group.operands[0];
    const SharedMemory& memory = self.block->shared_memory;
    Checker& checker = emulator().checker();
    const unsigned number = self.wgmma.committed;
    group.last_times.resize(number + 1);
    if (checker.on) {
        group.last_times.back() = checker.clocks().tick();
    }
    const Actor agent{group.agent, group.last_times.back()};
    const std::size_t element_bytes = operands.type == OperandType::tf32 ? 4 : 2;
    const auto check = [&](const char* name, const Operand& operand, unsigned extent) {
        if (const char* fault = operand.fault()) {
            emulator().fail(self, "%s: operand %s: %s", SiteText(site).text, name, fault);
        }
        VectorClocks::View view{};
        if (checker.on) {
            view = checker.clocks().common_view(group.first_thread, warpgroup_threads);
        }
        operand.for_each_piece(extent, element_bytes, [&](std::size_t address, unsigned, unsigned) {
            const char* piece = memory.window() + address;
            if (!memory.contains(piece)) {
                emulator().fail(self, "%s: operand %s reaches beyond shared memory",
                                SiteText(site).text, name);
            }
            if (checker.on) {
                checker.access_by_agent(agent, view, piece, piece_bytes, AccessKind::read, code);
            }
        });
        if (emulator().bulk_copies().lies_unswizzled(memory.window() + operand.start)) {
            emulator().fail(self, "%s: operand %s was loaded without the 128-byte swizzle",
                            SiteText(site).text, name);
        }
    };
    RegistersA registers_a;
    if (operands.registers_a == nullptr) {
        check("A", Operand(operands.descriptor_a, operands.a_is_mn_major), product_m);
    } else {
        for (const WgmmaOperands* own : group.operands) {
            const std::uint32_t* a = own->registers_a;
            registers_a.push_back({a[0], a[1], a[2], a[3]});
        }
    }
    check("B", Operand(operands.descriptor_b, operands.b_is_mn_major), operands.n);
    const auto sums = sums_of(site, group);
    sums->last_group = number;
    group.products.push_back({operands, std::move(registers_a), site, number, sums});
}

void Warpgroups::fence() { Emulator::current().wgmma.fenced = true; }

void Warpgroups::commit() {
    Thread& self = Emulator::current();
    group_of(self).last_times.resize(++self.wgmma.committed);
}

void Warpgroups::compute_first(Warpgroup& group) {
    const Product product = std::move(group.products.front());
    group.products.pop_front();
    const Block& block = *emulator().thread(group.first_thread).block;
    multiply_tiles(product.operands, product.registers_a, block.shared_memory.window(),
                   *product.sums);
}

void Warpgroups::hand_over(Warpgroup& group, Thread& thread, WgmmaSums& sums) {
    const unsigned index = thread.number - group.first_thread;
    float*& d = sums.of_thread[index];
    for (unsigned i = 0; i < sums.n / 2; ++i) {
        if (!is_poison(d[i])) {
            emulator().fail(thread, "%s: its sums were written to before wgmma_wait",
                            SiteText(group.site).text);
        }
        d[i] = sums.values[row_of(index, i)][column_of(index, i)];
    }
    d = nullptr;
    --thread.wgmma.sums_in_flight;
    thread.wgmma.fenced = false;
}

void Warpgroups::wait(unsigned pending) {
    Thread& self = Emulator::current();
    if (self.wgmma.committed <= pending) {
        return;
    }
    Warpgroup& group = group_of(self);
    const unsigned finished = self.wgmma.committed - pending;  // groups
    while (!group.products.empty() && group.products.front().group < finished) {
        compute_first(group);
    }
    const unsigned index = self.number - group.first_thread;
    for (std::size_t i = 0; i < group.sums.size();) {
        WgmmaSums& sums = *group.sums[i];
        if (sums.last_group < finished && sums.of_thread[index] != nullptr) {
            hand_over(group, self, sums);
            if (++sums.handed_over == warpgroup_threads) {
                group.sums.erase(group.sums.begin() + static_cast<std::ptrdiff_t>(i));
                continue;
            }
        }
        ++i;
    }
    if (emulator().checker().on) {
        // A later group may have had no products.
        const auto end = group.last_times.begin() + finished;
        const std::uint32_t time = *std::max_element(group.last_times.begin(), end);
        emulator().checker().clocks().learn(self.number, group.agent, time);
    }
}

void Warpgroups::touch(const Thread& thread, const void* address, std::size_t bytes,
                       std::uintptr_t code) {
    if (thread.wgmma.sums_in_flight == 0) {
        return;
    }
    const char* last = static_cast<const char*>(address) + bytes - 1;
    const Warpgroup& group = group_of(thread);
    for (const auto& sums : group.sums) {
        const unsigned index = thread.number - group.first_thread;
        if (sums->contains(index, address) || sums->contains(index, last)) {
            emulator().fail(thread, "the sums of %s are used at %s before wgmma_wait",
                            SiteText(group.site).text, CodeLine(code).text);
        }
    }
}

void Warpgroups::make_progress(Random& random) {
    if (groups_.empty()) {
        return;
    }
    const auto& group = groups_[random.next() % groups_.size()];
    if (group == nullptr || group->products.empty()) {
        return;
    }
    for (unsigned i = 0; i < warpgroup_threads; ++i) {
        const Thread& thread = emulator().thread(group->first_thread + i);
        if (thread.wgmma.committed <= group->products.front().group) {
            return;
        }
    }
    compute_first(*group);
}

void Warpgroups::check_finished_thread(const Thread& thread) {
    if (thread.wgmma.sums_in_flight != 0) {
        emulator().fail(thread, "%s: the thread returns without a wgmma_wait for it",
                        SiteText(group_of(thread).site).text);
    }
}

}  // namespace fusegen_emulator
