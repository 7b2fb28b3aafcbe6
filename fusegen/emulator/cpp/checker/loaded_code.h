// The program files loaded into this process: where their data lies, and the lines of their code.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace fusegen_emulator {

// The start of the program file that an address of its code or data belongs to.
std::uintptr_t base_of(const void* address);

// "softmax.cu:12" for the code at `address`, with "in helper.cuh:3, called from " before it where
// that line called an inlined helper. Asks addr2line; without it, names the function if it can.
struct CodeLine {
    explicit CodeLine(std::uintptr_t address);
    char text[512];
};

// The data of all loaded files: constants and the like, which kernels may read.
class LoadedData {
public:
    bool contains(const void* address);

private:
    struct Segment {
        std::uintptr_t begin;
        std::uintptr_t end;
    };
    bool is_known(std::uintptr_t address) const;

    std::vector<Segment> segments_;
};

}  // namespace fusegen_emulator
