// Launches: what a device would refuse, the order of the blocks, and each block's run.
#include <numeric>

#include "crash_guard.h"
#include "emulator.h"

namespace fusegen_emulator {

namespace {

// A random order of 0 .. count - 1 that needs no memory: i -> (i * stride + start) mod count with
// a stride that shares no factor with count.
class BlockOrder {
public:
    BlockOrder(std::uint64_t count, bool random_order, Random& random) : count_(count) {
        if (random_order) {
            start_ = random.next() % count;
            stride_ = random.next() % count | 1;
            while (std::gcd(stride_, count) != 1) {
                ++stride_;
            }
        }
    }

    std::uint64_t operator[](std::uint64_t i) const {
        return static_cast<std::uint64_t>((static_cast<unsigned __int128>(i) * stride_ + start_) %
                                          count_);
    }

private:
    std::uint64_t count_;
    std::uint64_t start_ = 0;
    std::uint64_t stride_ = 1;
};

std::uint32_t first_lanes(unsigned count) {
    return count >= warp_lanes ? 0xffffffffu : (1u << count) - 1;
}

}  // namespace

thread_local bool Emulator::runs_kernel = false;

void Emulator::configure(std::uint64_t seed, bool check) {
    const std::lock_guard<std::mutex> lock(mutex_);
    seed_ = seed;
    checker_.on = check;
}

int Emulator::take_error() {
    const int code = static_cast<int>(error_);
    error_ = ErrorCode::none;
    return code;
}

bool Emulator::accept(const LaunchRequest& request) {
    const dim3 grid = request.grid, block = request.block;
    const std::uint64_t threads = std::uint64_t{block.x} * block.y * block.z;
    if (threads == 0 || threads > max_block_threads || block.z > max_block_z ||
        block.x > max_block_threads || block.y > max_block_threads) {
        start_report(ErrorCode::refused_launch);
        report("a block of (%u, %u, %u) threads; allowed are 1 to %u, at most %u of them in z",
               block.x, block.y, block.z, max_block_threads, max_block_z);
        return false;
    }
    if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.x > max_grid_x || grid.y > max_grid_yz ||
        grid.z > max_grid_yz) {
        start_report(ErrorCode::refused_launch);
        report(
            "a grid of (%u, %u, %u) blocks; each must be at least 1, x at most %u, y and z at "
            "most %u",
            grid.x, grid.y, grid.z, max_grid_x, max_grid_yz);
        return false;
    }
    if (request.shared_bytes > max_shared_bytes) {
        start_report(ErrorCode::refused_launch);
        report("%zu bytes of dynamic shared memory; a block has at most %zu", request.shared_bytes,
               max_shared_bytes);
        return false;
    }
    if (checker_.on && !request.instrumented) {
        start_report(ErrorCode::refused_launch);
        report("the checker is on, but the kernel was compiled without its hooks");
        return false;
    }
    return true;
}

void Emulator::launch(const LaunchRequest& request) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (error_ != ErrorCode::none) {
        return;  // as on a device, nothing runs after a fault until it has been asked about
    }
    request_ = &request;
    if (!accept(request)) {
        return;
    }
    thread_count_ = request.block.x * request.block.y * request.block.z;
    warp_count_ = (thread_count_ + warp_lanes - 1) / warp_lanes;
    if (threads_ == nullptr) {
        threads_ = std::make_unique<Thread[]>(max_block_threads);
    }
    for (; stacks_ < thread_count_; ++stacks_) {
        threads_[stacks_].fiber.allocate_stack(stacks_);
    }
    if (checker_.on) {
        checker_.start_launch(reinterpret_cast<const void*>(request.run));
    }
    const CrashGuard crash_guard;
    runs_kernel = true;
    Random random(seed_);
    const std::uint64_t blocks = std::uint64_t{request.grid.x} * request.grid.y * request.grid.z;
    const BlockOrder order(blocks, seed_ != 0, random);
    for (std::uint64_t i = 0; i < blocks && error_ == ErrorCode::none; ++i) {
        run_block(order[i], Random(random.next()));
    }
    runs_kernel = false;
}

void Emulator::run_block(std::uint64_t index, Random random) {
    const dim3 grid = request_->grid, block = request_->block;
    block_index_ = {static_cast<unsigned>(index % grid.x),
                    static_cast<unsigned>(index / grid.x % grid.y),
                    static_cast<unsigned>(index / grid.x / grid.y)};
    shared_memory_.start_block(request_->shared_bytes);
    if (checker_.on) {
        checker_.start_block(index, thread_count_);
        checker_.add_shared_array("dynamic shared memory", shared_memory_.dynamic(),
                                  request_->shared_bytes);
    }
    scheduler_.start_block(warp_count_, seed_ != 0, random);
    barrier_ = {};
    finished_ = 0;
    for (unsigned i = 0; i < thread_count_; ++i) {
        Thread& thread = threads_[i];
        thread.thread_index = {i % block.x, i / block.x % block.y, i / block.x / block.y};
        thread.block_index = block_index_;
        thread.block_size = block;
        thread.grid_size = grid;
        thread.lane = i % warp_lanes;
        thread.warp = i / warp_lanes;
        thread.waiting = Waiting::no;
        thread.mask = 0;
        thread.fiber.prepare(run_thread);
    }
    for (unsigned warp = 0; warp < warp_count_; ++warp) {
        const std::uint32_t lanes = first_lanes(thread_count_ - warp * warp_lanes);
        warps_[warp].start_block(lanes);
        scheduler_.make_ready(warp, lanes);
    }

    fusegen_emulator_thread = &threads_[scheduler_.next()];
    home_.switch_to(current().fiber);  // comes back when no thread can go on, or after a fault
    if (checker_.on) {
        checker_.end_block();
    }

    if (error_ != ErrorCode::none) {
        return;
    }
    if (finished_ != thread_count_) {
        report_stuck_block();
    } else if (const SharedMemory::Array* array = shared_memory_.find_damaged()) {
        start_report(ErrorCode::kernel_fault);
        report("block (%u, %u, %u) wrote outside the shared array '%s' of %zu bytes",
               block_index_.x, block_index_.y, block_index_.z, array->name, array->bytes);
    }
}

void Emulator::run_thread() {
    Emulator& self = emulator();
    self.request_->run(self.request_->arguments);
    self.finish_thread();
}

void Emulator::finish_thread() {
    Thread& self = current();
    Warp& warp = warps_[self.warp];
    ++finished_;
    self.waiting = Waiting::exited;
    warp.alive &= ~(1u << self.lane);
    // A warp operation waits for the lanes that still run (CUDA programming guide, warp shuffles).
    for (unsigned i = 0; i < warp.rendezvous_count; ++i) {
        Rendezvous& rendezvous = warp.rendezvous[i];
        if (rendezvous.arrived != 0 && rendezvous.arrived == (rendezvous.mask & warp.alive)) {
            complete(warp, self.warp, rendezvous);
        }
    }
    suspend();
    __builtin_unreachable();
}

void Emulator::suspend() {
    Thread& self = current();
    const int next = scheduler_.next();
    if (next == Scheduler::none) {
        self.fiber.switch_to(home_);
    } else if (&threads_[next] != &self) {
        fusegen_emulator_thread = &threads_[next];
        self.fiber.switch_to(threads_[next].fiber);
    }
}

void* Emulator::shared_array(SharedSlot& slot, const char* name, std::size_t bytes,
                             std::size_t alignment) {
    if (slot.index < 0) {
        slot.index = slot_count_++;
    }
    if (void* array = shared_memory_.find(slot.index)) {
        return array;
    }
    const SharedMemory::Array* array = shared_memory_.place(slot.index, name, bytes, alignment);
    if (array == nullptr) {
        fail(current(),
             "too much shared memory: '%s' of %zu bytes goes over %zu bytes a block, or %zu in "
             "static arrays",
             name, bytes, max_shared_bytes, max_static_shared_bytes);
    }
    if (checker_.on) {
        checker_.add_shared_array(name, array->begin, bytes);
    }
    return array->begin;
}

}  // namespace fusegen_emulator
