// Tiles that a loader brings to stages, in bulk where they are whole, and warpgroups read.
#include <fusegen/launch.cuh>
#include <fusegen/matrix_map.cuh>
#include <fusegen/stages.cuh>
#include <fusegen/wgmma_tile.cuh>

using namespace fusegen;

constexpr int tile_lines = 64, tile_depth = 80;
template <RowOrder order>
using TileOf = WgmmaTile<bfloat16, tile_lines, tile_depth, Neighbours::in_depth, order>;

// Every tile of `lines` of each of the matrices, row by row as they lie in memory.
template <RowOrder order, int users>
__global__ void read_tiles(const __grid_constant__ MatrixMap<2> map, const bfloat16* matrices,
                           bfloat16* target, int64_t lines, int64_t depths, int64_t stride,
                           Strides<2> batch_strides, int64_t heads, int64_t batches) {
    using Tile = TileOf<order>;
    constexpr int stages = 2;
    FUSEGEN_SHARED(std::uint64_t, barriers, Stages<stages>::barrier_count);
    FUSEGEN_TILE_SHARED(bfloat16, shared);
    Stages<stages> ring(barriers);
    if (threadIdx.x == 0) {
        ring.make_barriers(users);
        mbarrier_fence_init();
    }
    __syncthreads();
    const int64_t tiles = (lines + tile_lines - 1) / tile_lines;
    if (threadIdx.x < 128) {
        for (int64_t at = 0; at < batches; ++at) {
            const bfloat16* const matrix = matrices + batch_strides(at / heads, at % heads);
            const int place = map.place(at / heads, at % heads);
            for (int64_t tile = 0; tile < tiles; ++tile) {
                bfloat16* const stage = shared + ring.stage * Tile::size;
                const int64_t first = tile * tile_lines;
                ring.fill(
                    first + tile_lines <= lines, Tile::size * sizeof(bfloat16),
                    [&](std::uint64_t* barrier) {
                        bring_whole<Tile>(stage, map, barrier, place, first, 0);
                    },
                    [&] {
                        Tile::template load<128, 4>(stage, matrix, stride, first, lines, 0, depths);
                    });
            }
        }
        return;
    }
    const int user = multiplying_warpgroup();
    for (int64_t at = 0; at < batches; ++at) {
        for (int64_t tile = 0; tile < tiles; ++tile) {
#ifndef NOT_AWAITED
            ring.await();
#endif
#ifdef RELEASED_EARLY
            ring.release();
#endif
            const bfloat16* const stage = shared + ring.stage * Tile::size;
            bfloat16* const to = target + (at * tiles + tile) * tile_lines * tile_depth;
            for (int i = user * 128 + threadIdx.x % 128; i < tile_lines * tile_depth;
                 i += users * 128) {
                // found: NOT_AWAITED
                // found: RELEASED_EARLY
                to[i] = stage[Tile::place(i / tile_depth, i % tile_depth)];
            }
            named_barrier_sync(2 + user, 128);
#ifndef RELEASED_EARLY
            ring.release();
#endif
            ring.next();
        }
    }
}

template <RowOrder order>
int launch(const bfloat16* source, bfloat16* target, int64_t lines, int64_t depths,
           const int64_t* strides, int64_t outer, int64_t heads, void* stream) {
    MatrixMap<2> map;
    if (!map_matrices<TileOf<order>>(&map, source, lines, depths, strides[2], {outer, heads},
                                     {strides[0], strides[1]})) {
        return -1;
    }
    FUSEGEN_LAUNCH((read_tiles<order, 2>), dim3(1), dim3(384),
                   2 * TileOf<order>::size * sizeof(bfloat16), stream, map, source, target, lines,
                   depths, strides[2], Strides<2>(strides), heads, outer * heads);
    return FUSEGEN_LAST_ERROR();
}

FUSEGEN_EXPORT int run(const bfloat16* source, bfloat16* target, const int64_t* strides, int by_lanes,
                       int lines, int depths, int outer, int heads, void* stream) {
    return by_lanes ? launch<RowOrder::by_lanes>(source, target, lines, depths, strides, outer, heads,
                                                 stream)
                    : launch<RowOrder::as_is>(source, target, lines, depths, strides, outer, heads,
                                              stream);
}

// Whether matrices that begin at address 0 can be described.
FUSEGEN_EXPORT int describes(const int64_t* counts, const int64_t* strides, const int64_t* sizes,
                             int by_lanes) {
    MatrixMap<2> map;
    const bfloat16* const nowhere = nullptr;
    const auto found = [&](auto tile) {
        return map_matrices<decltype(tile)>(&map, nowhere, sizes[0], sizes[1], strides[2],
                                            {counts[0], counts[1]}, {strides[0], strides[1]});
    };
    return by_lanes ? found(TileOf<RowOrder::by_lanes>{}) : found(TileOf<RowOrder::as_is>{});
}
