// Matrix products by warpgroups, which run by themselves (PTX ISA, "wgmma.mma_async").
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "../include/fusegen_emulator/asynchronous.h"
#include "limits.h"
#include "random.h"

namespace fusegen_emulator {

struct Thread;

// How far a thread is with its products.
struct WgmmaProgress {
    unsigned committed = 0;       // groups
    bool fenced = false;          // since it may last have touched its sums
    unsigned sums_in_flight = 0;  // that it must not touch
};

// The sums of products in flight. Until they are handed over, the threads' own hold `poison`.
struct WgmmaSums {
    static constexpr std::uint32_t poison = 0x7fc0dead;  // a NaN

    unsigned n;
    unsigned last_group;  // that adds to them
    unsigned handed_over = 0;
    float* of_thread[warpgroup_threads];  // null once handed over
    float values[64][256];

    bool contains(unsigned thread, const void* address) const {
        const auto distance = static_cast<std::size_t>(static_cast<const char*>(address) -
                                                       reinterpret_cast<char*>(of_thread[thread]));
        return of_thread[thread] != nullptr && distance < n / 2 * sizeof(float);
    }
};

// What the threads of a warpgroup hold of an operand in registers; none where it is in memory.
using RegistersA = std::vector<std::array<std::uint32_t, 4>>;

class Warpgroups {
public:
    void start_cluster() { groups_.clear(); }

    // For the thread that runs: see asynchronous.h. `code` is where in the kernel it is called.
    void multiply(Site site, const WgmmaOperands& operands, const void* code);
    void fence();
    void commit();
    void wait(unsigned pending);

    // The thread accesses memory on its stack: not sums in flight, it must be.
    void touch(const Thread& thread, const void* address, std::size_t bytes, std::uintptr_t code);

    // Computes one product that all its threads have committed, if there is one.
    void make_progress(Random& random);

    void check_finished_thread(const Thread& thread);

private:
    struct Product {
        WgmmaOperands operands;
        RegistersA registers_a;
        Site site;
        unsigned group;
        std::shared_ptr<WgmmaSums> sums;
    };

    struct Warpgroup {
        unsigned first_thread = 0;
        unsigned agent = 0;  // the checker's
        unsigned arrived = 0;
        Site site{};
        const WgmmaOperands* operands[warpgroup_threads] = {};
        std::deque<Product> products;  // not computed yet
        std::vector<std::shared_ptr<WgmmaSums>> sums;
        std::vector<std::uint32_t> last_times;  // of each group, in the checker's clock
    };

    Warpgroup& group_of(const Thread& thread);
    void compare(Site site, const Thread& self, const WgmmaOperands& mine,
                 const WgmmaOperands& others) const;
    void issue(Site site, Warpgroup& group, const void* code);
    std::shared_ptr<WgmmaSums> sums_of(Site site, Warpgroup& group);
    void compute_first(Warpgroup& group);
    void hand_over(Warpgroup& group, Thread& thread, WgmmaSums& sums);

    std::vector<std::unique_ptr<Warpgroup>> groups_;  // by the first thread's number / 128
};

// Multiplies operands that lie in the block's `window` of shared memory, the first of them perhaps in
// registers, and adds the product to `sums`.
void multiply_tiles(const WgmmaOperands& operands, const RegistersA& registers_a,
                    const char* window, WgmmaSums& sums);

}  // namespace fusegen_emulator
