// Launches: what a device would refuse, the order of the clusters, and each one's run.
#include <algorithm>
#include <iterator>
#include <numeric>

#include "../include/fusegen_emulator/shared_memory.h"
#include "crash_guard.h"
#include "emulator.h"
#include "site.h"

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

// How many times threads give way, on average, until something that runs by itself gets on. The
// seed chooses one.
constexpr std::uint64_t progress_periods[] = {1, 16, 128, 1024, 8192};

// How many registers a thread begins with, in a block that has a multiprocessor to itself.
unsigned launch_registers(unsigned threads) {
    return std::min(max_thread_registers, processor_registers / threads / 8 * 8);
}

uint3 unflatten(std::uint64_t index, dim3 size) {
    return {static_cast<unsigned>(index % size.x), static_cast<unsigned>(index / size.x % size.y),
            static_cast<unsigned>(index / size.x / size.y)};
}

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

const char* Emulator::take_launched() {
    const std::lock_guard<std::mutex> lock(mutex_);
    taken_.swap(launched_);
    launched_.clear();
    return taken_.c_str();
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
    const unsigned cluster = request.cluster_blocks;
    if (cluster == 0 || cluster > max_cluster_blocks || grid.x % cluster != 0) {
        start_report(ErrorCode::refused_launch);
        report(
            "clusters of %u blocks in a grid of %u in x; allowed are 1 to %u, which must divide "
            "the grid",
            cluster, grid.x, max_cluster_blocks);
        return false;
    }
    if (cluster * threads > max_cluster_threads) {
        start_report(ErrorCode::refused_launch);
        report("clusters of %u blocks of %llu threads; the emulator runs %u threads at most",
               cluster, static_cast<unsigned long long>(threads), max_cluster_threads);
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
    if (launched_.size() > max_launched_text) {
        launched_.clear();
    }
    launched_.append(request.kernel_name).append("\n");
    thread_count_ = request.block.x * request.block.y * request.block.z;
    warp_count_ = (thread_count_ + warp_lanes - 1) / warp_lanes;
    if (threads_ == nullptr) {
        threads_ = std::make_unique<Thread[]>(max_cluster_threads);
    }
    if (checker_.on) {
        checker_.start_launch(reinterpret_cast<const void*>(request.run));
    }
    const CrashGuard crash_guard;
    runs_kernel = true;
    Random random(seed_);
    const std::uint64_t blocks = std::uint64_t{request.grid.x} * request.grid.y * request.grid.z;
    const std::uint64_t clusters = blocks / request.cluster_blocks;
    const BlockOrder order(clusters, seed_ != 0, random);
    progress_random_ = Random(~seed_);
    progress_period_ = seed_ == 0 ? 0 : progress_periods[seed_ % std::size(progress_periods)];
    for (std::uint64_t i = 0; i < clusters && error_ == ErrorCode::none; ++i) {
        run_cluster(order[i] * request.cluster_blocks, Random(random.next()));
    }
    runs_kernel = false;
}

void Emulator::start_block(unsigned rank, std::uint64_t index) {
    const dim3 grid = request_->grid, size = request_->block;
    if (blocks_[rank] == nullptr) {
        blocks_[rank] = std::make_unique<Block>();
    }
    Block& block = *blocks_[rank];
    block.index = unflatten(index, grid);
    block.rank = rank;
    block.first_thread = rank * warp_count_ * warp_lanes;
    block.finished = 0;
    block.registers = thread_count_ * launch_registers(thread_count_);
    block.barrier = {};
    for (NamedBarrier& barrier : block.named_barriers) {
        barrier = {};
    }
    block.shared_memory.start_block(request_->shared_bytes);
    if (checker_.on) {
        checker_.add_shared_array("dynamic shared memory", block.shared_memory.dynamic(),
                                  request_->shared_bytes);
    }
    for (unsigned i = 0; i < thread_count_; ++i) {
        const unsigned number = block.first_thread + i;
        Thread& thread = threads_[number];
        thread.thread_index = unflatten(i, size);
        thread.block_index = block.index;
        thread.block_size = size;
        thread.grid_size = grid;
        thread.lane = i % warp_lanes;
        thread.cluster_rank = rank;
        thread.block = &block;
        thread.number = number;
        thread.warp = number / warp_lanes;
        thread.cluster_blocks = request_->cluster_blocks;
        thread.waiting = Waiting::no;
        thread.mask = 0;
        thread.wgmma = {};
        thread.registers = launch_registers(thread_count_);
        if (!has_stack_[number]) {
            thread.fiber.allocate_stack(number);
            has_stack_[number] = true;
        }
        thread.fiber.prepare(run_thread);
    }
    for (unsigned i = 0; i < warp_count_; ++i) {
        const unsigned warp = block.first_thread / warp_lanes + i;
        const std::uint32_t lanes = first_lanes(thread_count_ - i * warp_lanes);
        warps_[warp].start_block(lanes);
        scheduler_.make_ready(warp, lanes);
    }
}

void Emulator::run_cluster(std::uint64_t index, Random random) {
    const unsigned blocks = request_->cluster_blocks;
    if (checker_.on) {
        checker_.start_cluster(index, blocks, warp_count_ * warp_lanes);
    }
    scheduler_.start_cluster(warp_count_ * blocks, seed_ != 0, random);
    mbarriers_.start_cluster();
    bulk_copies_.start_cluster();
    thread_copies_.start_cluster();
    warpgroups_.start_cluster();
    cluster_barrier_ = {};
    finished_ = 0;
    for (unsigned rank = 0; rank < blocks; ++rank) {
        start_block(rank, index + rank);
    }

    fusegen_emulator_thread = &threads_[scheduler_.next()];
    home_.switch_to(current().fiber);  // comes back when no thread can go on, or after a fault
    if (checker_.on) {
        checker_.end_cluster();
    }

    if (error_ != ErrorCode::none) {
        return;
    }
    if (finished_ != thread_count_ * blocks) {
        report_stuck_cluster();
        return;
    }
    for (unsigned rank = 0; rank < blocks; ++rank) {
        const Block& block = *blocks_[rank];
        if (const SharedMemory::Array* array = block.shared_memory.find_damaged()) {
            start_report(ErrorCode::kernel_fault, block);
            report("wrote outside the shared array '%s' of %zu bytes", array->name, array->bytes);
            return;
        }
        const unsigned registers = thread_count_ * launch_registers(thread_count_);
        if (block.registers > registers) {
            start_report(ErrorCode::kernel_fault, block);
            report("waits for ever in %s: its threads ask for %u registers and began with %u",
                   SiteText(block.registers_site).text, block.registers, registers);
            return;
        }
    }
}

void Emulator::set_registers(Site site, unsigned count) {
    Thread& self = current();
    Block& block = *self.block;
    block.registers += count - self.registers;  // modulo 2^32, where it becomes less
    if (count > self.registers) {
        block.registers_site = site;
    }
    self.registers = count;
}

void Emulator::run_thread() {
    Emulator& self = emulator();
    self.request_->run(self.request_->arguments);
    self.finish_thread();
}

void Emulator::finish_thread() {
    Thread& self = current();
    Warp& warp = warps_[self.warp];
    warpgroups_.check_finished_thread(self);
    bulk_copies_.check_finished_thread(self);
    if (++self.block->finished == thread_count_ && cluster_blocks() > 1 && checker_.on) {
        checker_.end_block(self.block->shared_memory);
    }
    if (++finished_ == thread_count_ * cluster_blocks()) {
        bulk_copies_.check_finished_cluster();
    }
    warp.alive &= ~(1u << self.lane);
    // A warp operation waits for the lanes that still run (CUDA programming guide, warp shuffles).
    for (unsigned i = 0; i < warp.rendezvous_count; ++i) {
        Rendezvous& rendezvous = warp.rendezvous[i];
        if (rendezvous.arrived != 0 && rendezvous.arrived == (rendezvous.mask & warp.alive)) {
            complete(warp, self.warp, rendezvous);
        }
    }
    wait(Waiting::exited, {});
    __builtin_unreachable();
}

void Emulator::wait(Waiting what, Site site) {
    Thread& self = current();
    self.waiting = what;
    self.site = site;
    suspend();
    self.waiting = Waiting::no;
}

void Emulator::make_progress() {
    if (progress_period_ == 0 || progress_random_.next() % progress_period_ != 0) {
        return;
    }
    if (bulk_copies_.any_in_flight()) {
        bulk_copies_.complete_any(progress_random_);
    }
    thread_copies_.make_progress(progress_random_);
    warpgroups_.make_progress(progress_random_);
}

void Emulator::suspend() {
    Thread& self = current();
    make_progress();
    int next = scheduler_.next();
    // Copies are as late as can be: they complete when nothing else can happen.
    while (next == Scheduler::none && bulk_copies_.any_in_flight()) {
        bulk_copies_.complete_oldest();
        next = scheduler_.next();
    }
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
    SharedMemory& memory = current().block->shared_memory;
    if (void* array = memory.find(slot.index)) {
        return array;
    }
    const SharedMemory::Array* array = memory.place(slot.index, name, bytes, alignment);
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

void* Emulator::cluster_shared(Site site, void* shared, unsigned rank) {
    const Thread& self = current();
    const SiteText text(site);
    if (rank >= cluster_blocks()) {
        fail(self, "%s: block %u of a cluster of %u", text.text, rank, cluster_blocks());
    }
    const SharedMemory::Array* own = self.block->shared_memory.array_of(shared);
    if (own == nullptr) {
        fail(self, "%s: not an address in shared memory", text.text);
    }
    Block& block = *blocks_[rank];
    if (block.finished == thread_count_) {
        fail(self, "%s: all threads of block %u of the cluster have returned", text.text, rank);
    }
    SharedMemory& memory = block.shared_memory;
    char* base = static_cast<char*>(own->slot < 0 ? memory.dynamic() : memory.find(own->slot));
    if (base == nullptr) {
        // That block has not met the array yet. It fits, as it does in this block.
        base = memory.place(own->slot, own->name, own->bytes, least_shared_alignment)->begin;
        if (checker_.on) {
            checker_.add_shared_array(own->name, base, own->bytes);
        }
    }
    return base + (static_cast<char*>(shared) - own->begin);
}

}  // namespace fusegen_emulator
