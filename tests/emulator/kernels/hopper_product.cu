// c = a @ b.T in float32, of bfloat16 matrices a (m x k) and b (n x k). A warp of the first
// warpgroup brings tiles by bulk copies into a ring of stages; two warpgroups multiply them. Blocks
// stay and take one tile of c after the other. In clusters, blocks take tiles of the same columns,
// and each brings its share of the tile of b for all.
#include <fusegen/hopper.cuh>

using namespace fusegen;

constexpr int tile_m = 128, tile_k = 64, stages = 4;
constexpr int warpgroup_threads = 128, consumers = 2;
constexpr int block_threads = (1 + consumers) * warpgroup_threads;

template <int tile_n>
struct Shared {
    bfloat16 a[stages][tile_m * tile_k];
    bfloat16 b[stages][tile_n * tile_k];
    std::uint64_t full[stages];   // the stage holds a tile
    std::uint64_t empty[stages];  // the stage may be overwritten
};

// The place in the ring: the stages in turn, and the parity of the barriers' phases.
struct Place {
    int stage = 0;
    unsigned parity = 0;

    __device__ __forceinline__ void advance() {
        if (++stage == stages) {
            stage = 0;
            parity ^= 1;
        }
    }
};

// Tiles in bands of rows, so that those in flight together share their operands in the L2 cache.
struct TileOrder {
    static constexpr int band_rows = 8;
    int rows, columns;

    __device__ __forceinline__ void find(int tile, int& row, int& column) const {
        const int band = tile / (band_rows * columns), first = band * band_rows;
        const int height = rows - first < band_rows ? rows - first : band_rows;
        const int within = tile - first * columns;
        row = first + within % height;
        column = within / height;
    }
};

template <int cluster>
__device__ __forceinline__ void sync() {
    if constexpr (cluster > 1) {
#ifndef MISSING_FIRST_CLUSTER_SYNC
        cluster_sync();
#else
        __syncthreads();
#endif
    } else {
        __syncthreads();
    }
}

template <int cluster>
__device__ __forceinline__ void load_share(bfloat16* tile, const TensorMap& map,
                                           std::uint64_t* barrier, int x, int y) {
    if constexpr (cluster > 1) {
        // found: MISSING_FIRST_CLUSTER_SYNC
        // found: ARRIVES_ONLY_AT_OWN
        tma_load_2d_multicast(tile, map, barrier, x, y, (1 << cluster) - 1);
    } else {
        tma_load_2d(tile, map, barrier, x, y);
    }
}

// A warpgroup's arrival at the barrier of every block of the cluster.
template <int cluster>
__device__ __forceinline__ void arrive(std::uint64_t* barrier, int thread) {
    if constexpr (cluster > 1) {
#ifdef ARRIVES_ONLY_AT_OWN
        if (thread == 0) {
            mbarrier_arrive(barrier);
            mbarrier_arrive(barrier);
        }
        return;
#endif
        if (thread < cluster) {
            // found: MISSING_FIRST_CLUSTER_SYNC
            // found: MISSING_LAST_CLUSTER_SYNC
            mbarrier_arrive_remote(barrier, thread);
        }
    } else if (thread == 0) {
        mbarrier_arrive(barrier);
    }
}

template <int tile_n, int cluster>
__global__ void __launch_bounds__(block_threads, 1)
    product(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b,
            float* c, int m, int n, int k) {
    FUSEGEN_TILE_SHARED(Shared<tile_n>, shared);
    const int warpgroup = threadIdx.x / warpgroup_threads, thread = threadIdx.x % warpgroup_threads;
    constexpr int cluster_m = cluster * tile_m, share_n = tile_n / cluster;
    const int rank = cluster > 1 ? cluster_rank() : 0;
    const int first_tile = blockIdx.x / cluster, tile_step = gridDim.x / cluster;
    const TileOrder order{(m + cluster_m - 1) / cluster_m, (n + tile_n - 1) / tile_n};
    const int tiles = order.rows * order.columns, steps = (k + tile_k - 1) / tile_k;
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < stages; ++stage) {
            mbarrier_init(&shared->full[stage], 1);
            mbarrier_init(&shared->empty[stage], consumers * cluster);
        }
#ifndef MISSING_MBARRIER_FENCE
        mbarrier_fence_init();
#endif
    }
#ifndef MISSING_BARRIER_AFTER_INIT
    sync<cluster>();
#endif
    Place place;
    if (warpgroup == 0) {
        decrease_registers<40>();
        if (thread == 0) {
            for (int tile = first_tile; tile < tiles; tile += tile_step) {
                int row, column;
                order.find(tile, row, column);
                for (int step = 0; step < steps; ++step, place.advance()) {
                    std::uint64_t* full = &shared->full[place.stage];
#ifndef MISSING_EMPTY_WAIT
#ifdef WRONG_PARITY
                    // found: WRONG_PARITY
                    mbarrier_wait(&shared->empty[place.stage], place.parity);
#else
                    // found: MISSING_EMPTY_ARRIVE
                    // found: MISSING_BARRIER_AFTER_INIT
                    mbarrier_wait(&shared->empty[place.stage], place.parity ^ 1);
#endif
#endif
                    constexpr unsigned bytes = (tile_m + tile_n) * tile_k * sizeof(bfloat16);
#if defined(TOO_MANY_BYTES)
                    mbarrier_arrive_expect(full, bytes + 16);
#elif defined(TOO_FEW_BYTES)
                    mbarrier_arrive_expect(full, bytes - 16);
#else
                    // found: MISSING_EMPTY_WAIT
                    // found: MISSING_BARRIER_AFTER_INIT
                    mbarrier_arrive_expect(full, bytes);
#endif
                    // found: MISSING_MBARRIER_FENCE
                    // found: OVERWRITTEN_EARLY
                    // found: MISSING_EMPTY_WAIT
                    // found: MISSING_WGMMA_WAIT
                    tma_load_2d(shared->a[place.stage], map_a, full, step * tile_k,
                                row * cluster_m + rank * tile_m);
                    load_share<cluster>(shared->b[place.stage] + rank * share_n * tile_k, map_b,
                                        full, step * tile_k, column * tile_n + rank * share_n);
#ifdef ARRIVES_TWICE
                    mbarrier_arrive(full);  // found: ARRIVES_TWICE
#endif
                }
            }
        }
    } else {
#ifndef TOO_MANY_REGISTERS
        increase_registers<232>();
#else
        increase_registers<240>();  // found: TOO_MANY_REGISTERS
#endif
        for (int tile = first_tile; tile < tiles; tile += tile_step) {
            int row, column;
            order.find(tile, row, column);
            // Set to zero rather than left to the first product: ptxas would serialise the
            // products.
            float sums[tile_n / 2] = {};
            [[maybe_unused]] int last_stage = 0;
            for (int step = 0; step < steps; ++step, place.advance()) {
#ifndef MISSING_FULL_WAIT
                // found: MISSING_BARRIER_AFTER_INIT
                // found: TOO_MANY_BYTES
                // found: TOO_FEW_BYTES
                mbarrier_wait(&shared->full[place.stage], place.parity);
#endif
                const bfloat16* a = shared->a[place.stage] + (warpgroup - 1) * wgmma_m * tile_k;
                const bfloat16* b = shared->b[place.stage];
#ifdef MISALIGNED_OPERAND
                b += tile_k;
#endif
#ifndef MISSING_WGMMA_FENCE
                wgmma_fence();
#endif
#pragma unroll
                for (int inner = 0; inner < tile_k; inner += wgmma_k<bfloat16>) {
                    // found: MISSING_FULL_WAIT
                    // found: MISSING_WGMMA_FENCE
                    // found: MISALIGNED_OPERAND
                    wgmma<bfloat16, tile_n>(sums, wgmma_descriptor(a + inner),
                                            wgmma_descriptor(b + inner), true);
                }
                wgmma_commit();
                // This step's product stays under way while the last one's stage is given back.
#ifndef MISSING_WGMMA_WAIT
                wgmma_wait<1>();
#endif
#ifdef OVERWRITTEN_EARLY
                arrive<cluster>(&shared->empty[place.stage], thread);
#elif !defined(MISSING_EMPTY_ARRIVE)
                if (step > 0) {
                    arrive<cluster>(&shared->empty[last_stage], thread);
                }
#endif
                last_stage = place.stage;
            }
            wgmma_wait<0>(sums);
#if !defined(OVERWRITTEN_EARLY) && !defined(MISSING_EMPTY_ARRIVE)
            arrive<cluster>(&shared->empty[last_stage], thread);
#endif
            const int first_row = row * cluster_m + rank * tile_m + (warpgroup - 1) * wgmma_m;
#pragma unroll
            for (int i = 0; i < tile_n / 2; i += 2) {
                const int to_row = first_row + wgmma_row(thread, i);
                const int to_column = column * tile_n + wgmma_column(thread, i);
                if (to_row < m && to_column < n) {
                    store_vector(c + static_cast<std::int64_t>(to_row) * n + to_column,
                                 Vector<float, 2>{{sums[i], sums[i + 1]}});
                }
            }
        }
    }
    if constexpr (cluster > 1) {
#ifndef MISSING_LAST_CLUSTER_SYNC
        cluster_sync();
#endif
    }
}

template <int tile_n, int cluster>
int launch_product(const bfloat16* a, const bfloat16* b, float* c, int m, int n, int k, int blocks,
                   void* stream) {
    TensorMap map_a, map_b;
    const TensorTiles<2> tiles_a{a, {k, m}, {k}, {tile_k, tile_m}, Swizzle::bytes_128};
    const TensorTiles<2> tiles_b{b, {k, n}, {k}, {tile_k, tile_n / cluster}, Swizzle::bytes_128};
    TensorMapError error = encode_tensor_map<bfloat16>(&map_a, tiles_a);
    if (error == TensorMapError::none) {
        error = encode_tensor_map<bfloat16>(&map_b, tiles_b);
    }
    if (error != TensorMapError::none) {
        return -static_cast<int>(error);
    }
    const dim3 grid(blocks / cluster * cluster);
    FUSEGEN_LAUNCH_CLUSTERS((product<tile_n, cluster>), grid, dim3(block_threads), cluster,
                            sizeof(Shared<tile_n>), stream, map_a, map_b, c, m, n, k);
    return FUSEGEN_LAST_ERROR();
}

// `blocks` at most; n even.
FUSEGEN_EXPORT int run(const bfloat16* a, const bfloat16* b, float* c, int m, int n, int k,
                       int blocks, void* stream) {
    return launch_product<128, 1>(a, b, c, m, n, k, blocks, stream);
}

FUSEGEN_EXPORT int run_wide(const bfloat16* a, const bfloat16* b, float* c, int m, int n, int k,
                            int blocks, void* stream) {
    return launch_product<256, 1>(a, b, c, m, n, k, blocks, stream);
}

FUSEGEN_EXPORT int run_cluster(const bfloat16* a, const bfloat16* b, float* c, int m, int n, int k,
                               int blocks, void* stream) {
    return launch_product<256, 2>(a, b, c, m, n, k, blocks, stream);
}
