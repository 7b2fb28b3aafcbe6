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

void fusegen_emulator_forget_all() { emulator().checker().forget_all(); }

std::int64_t fusegen_emulator_first_unwritten(const void* begin, std::size_t bytes) {
    return emulator().checker().first_unwritten(begin, bytes);
}

void fusegen_emulator_launch(const fusegen_emulator::LaunchRequest* request) {
    emulator().launch(*request);
}

int fusegen_emulator_take_error() { return emulator().take_error(); }

const char* fusegen_emulator_error_text() { return emulator().error_text(); }

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
}
