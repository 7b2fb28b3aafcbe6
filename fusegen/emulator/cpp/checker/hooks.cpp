// The functions that g++ -fsanitize=thread calls at every memory access of a kernel. They take the
// place of libtsan's: the names and arguments are the compiler's.
#include "../runtime/emulator.h"

namespace {

using fusegen_emulator::AccessKind;
using fusegen_emulator::Emulator;
using fusegen_emulator::emulator;

inline bool watched() { return Emulator::runs_kernel && emulator().checker().on; }

inline void note(const void* address, std::size_t bytes, AccessKind kind, const void* code) {
    if (watched()) {
        emulator().checker().access(address, bytes, kind, kind == AccessKind::read, code);
    }
}

// An access that the compiler takes to be aligned: on a device it must be. (g++ takes 16 bytes for
// aligned when their address is a multiple of 8.)
inline void note_aligned(const void* address, std::size_t bytes, AccessKind kind,
                         const void* code) {
    const std::size_t alignment = bytes < 8 ? bytes : 8;
    if (watched() && reinterpret_cast<std::uintptr_t>(address) % alignment != 0) {
        emulator().report_misaligned(address, bytes, code);
    }
    note(address, bytes, kind, code);
}

}  // namespace

#define DEFINE_HOOKS(bytes)                                                           \
    void __tsan_read##bytes(void* address) {                                          \
        note_aligned(address, bytes, AccessKind::read, __builtin_return_address(0));  \
    }                                                                                 \
    void __tsan_write##bytes(void* address) {                                         \
        note_aligned(address, bytes, AccessKind::write, __builtin_return_address(0)); \
    }                                                                                 \
    void __tsan_unaligned_read##bytes(void* address) {                                \
        note(address, bytes, AccessKind::read, __builtin_return_address(0));          \
    }                                                                                 \
    void __tsan_unaligned_write##bytes(void* address) {                               \
        note(address, bytes, AccessKind::write, __builtin_return_address(0));         \
    }

extern "C" {

DEFINE_HOOKS(1)
DEFINE_HOOKS(2)
DEFINE_HOOKS(4)
DEFINE_HOOKS(8)
DEFINE_HOOKS(16)

void __tsan_read_range(void* address, std::size_t bytes) {
    note(address, bytes, AccessKind::read, __builtin_return_address(0));
}

void __tsan_write_range(void* address, std::size_t bytes) {
    note(address, bytes, AccessKind::write, __builtin_return_address(0));
}

void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}

void fusegen_emulator_note_atomic(const void* address, unsigned bytes, bool reads) {
    if (watched()) {
        emulator().checker().access(address, bytes, AccessKind::atomic, reads,
                                    __builtin_return_address(0));
    }
}
}
