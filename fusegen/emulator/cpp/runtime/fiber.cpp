#include "fiber.h"

#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>

namespace fusegen_emulator {

namespace {

constexpr std::size_t page_bytes = 4096;
constexpr std::size_t cache_line_bytes = 64;

}  // namespace

void Fiber::allocate_stack(unsigned index) {
    void* mapping = mmap(nullptr, page_bytes + stack_bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapping == MAP_FAILED) {
        std::fprintf(stderr, "fusegen emulator: no memory for the stack of thread %u\n", index);
        std::abort();
    }
    mprotect(mapping, page_bytes, PROT_NONE);  // an overflow stops here instead of spreading
    stack_ = static_cast<char*>(mapping) + page_bytes;
    stack_top_ =
        stack_ + stack_bytes - index * 3 % (page_bytes / cache_line_bytes) * cache_line_bytes;
}

#ifdef FUSEGEN_EMULATOR_UCONTEXT

void Fiber::prepare(void (*entry)()) {
    getcontext(&context_);
    context_.uc_stack.ss_sp = stack_;
    context_.uc_stack.ss_size = static_cast<std::size_t>(stack_top_ - stack_);
    context_.uc_link = nullptr;
    makecontext(&context_, entry, 0);
}

void Fiber::switch_to(Fiber& next) { swapcontext(&context_, &next.context_); }

#else

// Saves the registers that a call must preserve (System V ABI, x86-64) on the old stack, changes
// stacks and restores them from the new one. `ret` then continues where that fiber left off.
asm(R"(
.text
.type fusegen_emulator_switch_stacks, @function
fusegen_emulator_switch_stacks:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size fusegen_emulator_switch_stacks, . - fusegen_emulator_switch_stacks
)");

extern "C" void fusegen_emulator_switch_stacks(void** saved_stack_pointer,
                                               void* next_stack_pointer);

void Fiber::prepare(void (*entry)()) {
    constexpr int saved_registers = 6;
    void** stack_pointer = reinterpret_cast<void**>(stack_top_);
    *--stack_pointer = nullptr;  // the caller's return address: a debugger stops unwinding here
    *--stack_pointer = reinterpret_cast<void*>(entry);
    for (int i = 0; i < saved_registers; ++i) {
        *--stack_pointer = nullptr;
    }
    saved_stack_pointer_ = stack_pointer;
}

void Fiber::switch_to(Fiber& next) {
    fusegen_emulator_switch_stacks(&saved_stack_pointer_, next.saved_stack_pointer_);
}

#endif

}  // namespace fusegen_emulator
