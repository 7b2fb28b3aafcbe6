// The runtime library's C interface: what kernels call (interface.h) and what the host calls.
#include "emulator.h"

using fusegen_emulator::Emulator;
using fusegen_emulator::emulator;

namespace fusegen_emulator {

namespace {

Emulator the_device;

}  // namespace

Emulator& emulator() { return the_device; }

}  // namespace fusegen_emulator

extern "C" {

fusegen_emulator::ThreadContext* fusegen_emulator_thread = nullptr;

void fusegen_emulator_configure(std::uint64_t seed, int check) {
    emulator().configure(seed, check != 0);
}

void fusegen_emulator_expose(const void* begin, std::size_t bytes, int initialised) {
    emulator().checker().expose(begin, bytes, initialised != 0);
}

void fusegen_emulator_forget(const void* begin, std::size_t bytes) {
    emulator().checker().forget(begin, bytes);
}

void fusegen_emulator_forget_all() { emulator().checker().forget_all(); }

std::int64_t fusegen_emulator_first_unwritten(const void* begin, std::size_t bytes) {
    return emulator().checker().first_unwritten(begin, bytes);
}

void fusegen_emulator_launch(const fusegen_emulator::LaunchRequest* request) {
    emulator().launch(*request);
}

int fusegen_emulator_take_error() { return emulator().take_error(); }

const char* fusegen_emulator_error_text() { return emulator().error_text(); }

void fusegen_emulator_set_capability(int major) { emulator().capability = major; }

int fusegen_emulator_capability() { return emulator().capability; }

const char* fusegen_emulator_take_launched() { return emulator().take_launched(); }

void* fusegen_emulator_shared_array(fusegen_emulator::SharedSlot* slot, const char* name,
                                    std::size_t bytes, std::size_t alignment) {
    return emulator().shared_array(*slot, name, bytes, alignment);
}

void* fusegen_emulator_dynamic_shared() { return emulator().dynamic_shared(); }

unsigned fusegen_emulator_sync_threads(fusegen_emulator::Site site, int predicate) {
    return emulator().sync_threads(site, predicate);
}

void fusegen_emulator_sync_warp(fusegen_emulator::Site site, unsigned mask) {
    emulator().sync_warp(site, mask);
}

void fusegen_emulator_shuffle(fusegen_emulator::Site site, unsigned mask, const void* value,
                              void* result, unsigned bytes, unsigned source_lane) {
    emulator().shuffle(site, mask, {value, result, bytes, source_lane});
}

unsigned fusegen_emulator_vote(fusegen_emulator::Site site, unsigned mask, int predicate) {
    return emulator().vote(site, mask, predicate);
}

void fusegen_emulator_report_misaligned(const void* address, unsigned bytes) {
    emulator().report_misaligned(address, bytes, __builtin_return_address(0));
}

unsigned fusegen_emulator_shared_address(const void* shared) {
    return static_cast<unsigned>(Emulator::current().block->shared_memory.address_of(shared));
}

void fusegen_emulator_mbarrier_init(fusegen_emulator::Site site, std::uint64_t* barrier,
                                    unsigned count) {
    emulator().mbarriers().init(site, barrier, count, __builtin_return_address(0));
}

void fusegen_emulator_mbarrier_fence_init() { emulator().mbarriers().fence_init(); }

void fusegen_emulator_mbarrier_arrive(fusegen_emulator::Site site, std::uint64_t* barrier,
                                      unsigned bytes) {
    emulator().mbarriers().arrive(site, barrier, bytes, __builtin_return_address(0));
}

void fusegen_emulator_mbarrier_arrive_remote(fusegen_emulator::Site site, std::uint64_t* barrier,
                                             unsigned rank) {
    emulator().mbarriers().arrive_remote(site, barrier, rank, __builtin_return_address(0));
}

void fusegen_emulator_mbarrier_wait(fusegen_emulator::Site site, std::uint64_t* barrier,
                                    unsigned parity) {
    emulator().mbarriers().wait(site, barrier, parity, __builtin_return_address(0));
}

void fusegen_emulator_cluster_send(fusegen_emulator::Site site, void* shared, const void* value,
                                   std::size_t bytes, std::uint64_t* barrier, unsigned rank) {
    emulator().bulk_copies().send(site, shared, value, bytes, barrier, rank,
                                  __builtin_return_address(0));
}

void fusegen_emulator_tma_load(fusegen_emulator::Site site,
                               const fusegen_emulator::TileCopy* copy) {
    emulator().bulk_copies().load(site, *copy, __builtin_return_address(0));
}

void fusegen_emulator_tma_store(fusegen_emulator::Site site,
                                const fusegen_emulator::TileCopy* copy) {
    emulator().bulk_copies().store(site, *copy, __builtin_return_address(0));
}

void fusegen_emulator_tma_store_commit() { emulator().bulk_copies().commit_stores(); }

void fusegen_emulator_tma_store_wait(unsigned pending, int only_reads) {
    emulator().bulk_copies().wait_for_stores(pending, only_reads != 0);
}

void fusegen_emulator_fence_async_shared() {
    if (emulator().checker().on) {
        emulator().checker().fence_for_agents(Emulator::current().number);
    }
}

void fusegen_emulator_cp_async(fusegen_emulator::Site site, void* shared, const void* global,
                               int valid) {
    emulator().thread_copies().start(site, shared, global, valid, __builtin_return_address(0));
}

void fusegen_emulator_cp_async_commit() { emulator().thread_copies().commit(); }

void fusegen_emulator_cp_async_wait(unsigned pending) { emulator().thread_copies().wait(pending); }

void fusegen_emulator_wgmma(fusegen_emulator::Site site,
                            const fusegen_emulator::WgmmaOperands* operands) {
    emulator().warpgroups().multiply(site, *operands, __builtin_return_address(0));
}

void fusegen_emulator_wgmma_fence() { emulator().warpgroups().fence(); }

void fusegen_emulator_wgmma_commit() { emulator().warpgroups().commit(); }

void fusegen_emulator_wgmma_wait(unsigned pending) { emulator().warpgroups().wait(pending); }

void fusegen_emulator_set_registers(fusegen_emulator::Site site, unsigned count) {
    emulator().set_registers(site, count);
}

void fusegen_emulator_named_barrier(fusegen_emulator::Site site, int id, int threads, int waits) {
    emulator().named_barrier(site, id, threads, waits != 0);
}

void fusegen_emulator_cluster_sync(fusegen_emulator::Site site) { emulator().cluster_sync(site); }

void* fusegen_emulator_cluster_shared(fusegen_emulator::Site site, void* shared, unsigned rank) {
    return emulator().cluster_shared(site, shared, rank);
}
}
