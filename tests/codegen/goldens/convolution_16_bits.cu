// ConvGelu.
#include "fusegen/convolution.cuh"
#include "fusegen/device.cuh"
#include "fusegen/dtypes.cuh"
#include "fusegen/launch.cuh"
#include "fusegen/math.cuh"
#include "fusegen/reduce.cuh"
#include "fusegen/stepped_division.cuh"

namespace fusegen {
// conv2d_gelu: conv2d, gelu.
// A convolution of few channels: its elements are finished in registers and stored once.
// As a matrix product by warps: rows are channels, columns are pixels, and the depth is 8 channels of
// the input for each tap.
template <int vector, bool packed>
__global__ void __launch_bounds__(256, 2) conv2d_gelu_kernel(
    const bfloat16* __restrict__ x,
    Strides<4> x_strides,
    const bfloat16* __restrict__ conv_weight,
    Strides<4> conv_weight_strides,
    bfloat16* __restrict__ y,
    int64_t batch,
    int64_t height,
    int64_t width) {
    wait_for_earlier_kernels();
    constexpr int threads = 256;
    constexpr int warps = threads / 32;
    constexpr int tile_rows = 4;  // of the result, for a block at a time
    constexpr int tile_columns = 64;
    constexpr int channels = 20;
    constexpr int input_channels = 12;
    constexpr int pieces = 2;  // of 8 channels of the input
    constexpr int entries = 18;  // pieces of all taps: the depth, 8 at a time
    constexpr int steps = 9;  // two entries each
    constexpr int lane_pixels = 8;
    constexpr int warp_pixels = 32;  // that a warp works on together
    constexpr int patch_size = 2322;
    const int64_t images = batch;
    const int64_t result_height = (1 + height) / 2;
    const int64_t result_width = (1 + width) / 2;
    const int64_t input_height = height;
    const int64_t input_width = width;
    // From an element of the input to the next one along each dim.
    const int64_t image_step = packed ? 12 * input_height * input_width : x_strides.at[0];
    const int64_t channel_step = computed_once(packed ? input_height * input_width : x_strides.at[1]);
    const int64_t row_step = packed ? input_width : x_strides.at[2];
    const int64_t column_step = packed ? 1 : x_strides.at[3];
    // What a tile reads of the input; then the weights' fragments.
    FUSEGEN_DYNAMIC_SHARED(Pixel<bfloat16>, patch);
    WeightFragment* const weights = reinterpret_cast<WeightFragment*>(patch + 1 * patch_size);
    // Then the results of all warps, 272 from channel to channel.
    bfloat16* const stage = reinterpret_cast<bfloat16*>(weights + 576);
    const int warp = threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    for (int i = threadIdx.x; i < steps * 2 * 256; i += threads) {
        const int owner = i / 8 % 32;  // the lane that holds it, in one of 4 registers
        const int place = i / 2 % 4;
        const int entry = i / 512 * 2 + place / 2;
        const int output_channel = i / 256 % 2 * 16 + place % 2 * 8 + owner / 4;
        const int input_channel = entry % pieces * 8 + owner % 4 * 2 + i % 2;
        const int kernel_row = entry / pieces / 3;
        const int kernel_column = entry / pieces % 3;
        const bool inside = entry < entries && output_channel < channels && input_channel < input_channels;
        bfloat16* const target = reinterpret_cast<bfloat16*>(weights) + i;
        target[0] = inside ? conv_weight[packed
            ? input_channel * 9 + kernel_column + kernel_row * 3 + output_channel * 108
            : conv_weight_strides(output_channel, input_channel, kernel_row, kernel_column)]
            : convert<bfloat16>(0.0f);
    }
    const int64_t column_tiles = (result_width + tile_columns - 1) / tile_columns;
    const int64_t tiles = (result_height + tile_rows - 1) / tile_rows * column_tiles;
    for (int64_t work = blockIdx.x; work < images * tiles; work += gridDim.x) {
        const int64_t image_index = work / tiles;
        const int64_t tile = work % tiles;
        const int64_t tile_first_row = tile / column_tiles * tile_rows;
        const int64_t tile_first_column = tile % column_tiles * tile_columns;
        const int64_t rows_left = result_height - tile_first_row;
        const int64_t columns_left = result_width - tile_first_column;
        const int own_rows = static_cast<int>(rows_left < tile_rows ? rows_left : tile_rows);
        const int own_columns = static_cast<int>(columns_left < tile_columns ? columns_left : tile_columns);
        const int own_pixels = own_rows * own_columns;
        const int patch_rows = (own_rows - 1) * 2 + 3;
        const int patch_columns = (own_columns - 1) * 2 + 3;
        const int patch_pixels = patch_rows * patch_columns;
        // All loads are under way before the first is used.
        constexpr int slot_rounds = (patch_size + threads - 1) / threads;
        const int64_t patch_first_row = tile_first_row * 2 - 1;
        const int64_t patch_first_column = tile_first_column * 2 - 1;
        const bfloat16* const patch_source = x + (image_index * image_step + patch_first_row * row_step
            + patch_first_column * column_step);
        const int64_t input_rows_left = input_height - patch_first_row;
        const int64_t input_columns_left = input_width - patch_first_column;
        const int rows_inside = static_cast<int>(input_rows_left < patch_rows ? input_rows_left : patch_rows);
        const int columns_inside = static_cast<int>(input_columns_left < patch_columns
            ? input_columns_left : patch_columns);
        const int first_row_inside = patch_first_row < 0 ? static_cast<int>(-patch_first_row) : 0;
        const int first_column_inside = patch_first_column < 0 ? static_cast<int>(-patch_first_column) : 0;
        int patch_line = threadIdx.x / patch_columns;  // of all pieces
        int patch_column = threadIdx.x % patch_columns;
        const int line_step = threads / patch_columns;
        const int line_column_step = threads % patch_columns;
        bfloat16 loaded[slot_rounds][8];
#pragma unroll
        for (int slot_round = 0; slot_round < slot_rounds; ++slot_round) {
            const int piece = patch_line / patch_rows;
            const int patch_row = patch_line % patch_rows;
            const bool inside_row = piece < pieces && patch_row < rows_inside && patch_row >= first_row_inside;
            const bool inside = inside_row && patch_column < columns_inside && patch_column >= first_column_inside;
            const bfloat16* source = computed_once(patch_source + (piece * 8 * channel_step
                + patch_row * row_step + patch_column * column_step));
#pragma unroll
            for (int i = 0; i < 8; ++i) {
                loaded[slot_round][i] = inside && piece * 8 + i < input_channels
                    ? read_only(source) : convert<bfloat16>(0.0f);
                source += channel_step;
            }
            patch_line += line_step;
            patch_column += line_column_step;
            if (patch_column >= patch_columns) {
                patch_column -= patch_columns;
                ++patch_line;
            }
        }
#pragma unroll
        for (int slot_round = 0; slot_round < slot_rounds; ++slot_round) {
            const int slot = threadIdx.x + slot_round * threads;
            Pixel<bfloat16> pixel;
#pragma unroll
            for (int i = 0; i < 8; ++i) {
                pixel[i] = loaded[slot_round][i];
            }
            if (slot < pieces * patch_pixels) {
                patch[slot] = pixel;
            }
        }
        __syncthreads();
        // From a pixel to the entry of each step that this lane brings, in bytes.
        int offsets[steps];
#pragma unroll
        for (int step = 0; step < steps; ++step) {
            const int entry = step * 2 + (step * 2 + 1 < entries ? lane / 8 % 2 : 0);
            const int tap = entry / pieces;
            const int entry_row = tap / 3 * 1;
            const int entry_column = tap % 3 * 1;
            offsets[step] = (entry % pieces * patch_pixels + entry_row * patch_columns + entry_column) * 16;
        }
        const int stride_rows = warps * warp_pixels / own_columns;
        const int stride_columns = warps * warp_pixels % own_columns;
        for (int first_channel = 0; first_channel < channels; first_channel += 32) {
            // Where the pixels lie in the tile whose channels this lane brings.
            int brought_rows[2];
            int brought_columns[2];
#pragma unroll
            for (int pair = 0; pair < 2; ++pair) {
                const int pixel = warp * warp_pixels + pair * 16 + brought_pixel(lane);
                brought_rows[pair] = pixel / own_columns;
                brought_columns[pair] = pixel % own_columns;
            }
            const auto finish = [&](const float (&sums)[2][4][4]) {
#pragma unroll
                for (int block = 0; block < 2; ++block) {
#pragma unroll
                    for (int half = 0; half < 2; ++half) {
#pragma unroll
                        for (int first = 0; first < lane_pixels; first += vector) {
                            const int stage_place = (block * 16 + half * 8 + lane / 4) * 272
                                + warp * warp_pixels + lane_pixel(lane, first);
                            Vector<bfloat16, vector> staged;
#pragma unroll
                            for (int element = 0; element < vector; ++element) {
                                const float gelu = fusegen::near_gelu_none(sums[block][(first
                                    + element) / 2][half * 2 + (first + element) % 2]);
                                staged[element] = convert<bfloat16>(gelu);
                            }
                            store_vector(stage + stage_place, staged);
                        }
                    }
                }
            };
            // Each warp stores runs of pixels that all warps have computed.
            const auto store_stage = [&](int round_first_pixel) {
                const int stage_pixel = threadIdx.x * vector % (warps * warp_pixels);
                const int pixel = round_first_pixel + stage_pixel;
                if (pixel < own_pixels) {
                    const int64_t own_column = own_columns == result_width
                        ? tile_first_row * result_width + pixel
                        : (tile_first_row + pixel / own_columns) * result_width + tile_first_column
                            + pixel % own_columns;
#pragma unroll
                    for (int i = threadIdx.x * vector / (warps * warp_pixels); i < 32; i += threads
                        * vector / (warps * warp_pixels)) {
                        const int64_t output_channel = first_channel + i;
                        if (output_channel >= channels) {
                            break;
                        }
                        store_vector(y + (image_index * channels
                            + output_channel) * (result_height * result_width) + own_column,
                                     load_vector<bfloat16, vector>(stage + i * 272 + stage_pixel));
                    }
                }
            };
            {
#pragma unroll 1
                for (int round_first_pixel = 0; round_first_pixel < own_pixels; round_first_pixel += warps
                    * warp_pixels) {
                    int origins[2];  // in bytes
#pragma unroll
                    for (int pair = 0; pair < 2; ++pair) {
                        int& brought_row = brought_rows[pair];
                        int& brought_column = brought_columns[pair];
                        const int origin = brought_row * 2 * patch_columns + brought_column * 2;
                        origins[pair] = brought_row < own_rows
                            ? origin * 16 : 0;  // beyond the tile: any pixel
                        brought_row += stride_rows;
                        brought_column += stride_columns;
                        if (brought_column >= own_columns) {
                            brought_column -= own_columns;
                            ++brought_row;
                        }
                    }
                    float sums[2][4][4] = {};
#pragma unroll
                    for (int step = 0; step < steps; ++step) {
                        WeightFragment rows[1][2];
                        std::uint32_t columns[1][2][4];
#pragma unroll
                        for (int plane = 0; plane < 1; ++plane) {
#pragma unroll
                            for (int block = 0; block < 2; ++block) {
                                const int all = (plane * steps + step) * 2 + first_channel / 16 + block;
                                rows[plane][block] = weights[all * 32 + lane];
                            }
#pragma unroll
                            for (int pair = 0; pair < 2; ++pair) {
                                ldmatrix(columns[plane][pair], patch, plane * patch_size * 16
                                    + origins[pair] + offsets[step]);
                            }
                        }
#pragma unroll
                        for (int i = 0; i < 8; ++i) {
                            multiply_entries<bfloat16>(step * 2
                                + 1 < entries, sums[i / 4][i % 4], rows[0][i / 4],
                                             columns[0][i % 4 / 2][i % 2 * 2], columns[0][i % 4 / 2][i % 2
                                                 * 2 + 1]);
                        }
                    }
                    __syncthreads();  // the last results have left the stage
                    finish(sums);
                    __syncthreads();
                    store_stage(round_first_pixel);
                }
            }
            __syncthreads();  // the next tile overwrites the patch
        }
    }
}

FUSEGEN_EXPORT int launch_conv2d_gelu(
    const bfloat16* x,
    const int64_t* x_strides,
    const bfloat16* conv_weight,
    const int64_t* conv_weight_strides,
    bfloat16* y,
    int64_t batch,
    int64_t height,
    int64_t width,
    void* stream) {
    const int64_t result_height = (1 + height) / 2;
    const int64_t result_width = (1 + width) / 2;
    const int64_t tiles = batch * divide_up(result_height, 4) * divide_up(result_width, 64);
    if (tiles == 0) {
        return 0;
    }
    constexpr int threads = 256;
    constexpr int vector = 4;
    constexpr std::size_t shared_bytes = 63776;
    const int64_t most = processor_count() * 2;
    const dim3 grid = grid_of(tiles < most ? tiles : most);
    // Wide accesses need runs of pixels that lie together: in one row, or in rows without gaps.
    const bool runs = result_width % vector == 0 || (result_width <= 64 && result_height
        * result_width % vector == 0);
    if (runs && is_contiguous(x_strides, {batch, 12, height, width}) &&
        is_contiguous(conv_weight_strides, {20, 12, 3, 3}) && is_aligned(x, 8) &&
        is_aligned(conv_weight, 8) && is_aligned(y, 8)) {
        FUSEGEN_LAUNCH((conv2d_gelu_kernel<vector, true>),
                       grid, dim3(threads), shared_bytes, stream,
                       x, Strides<4>(x_strides), conv_weight, Strides<4>(conv_weight_strides), y, batch,
                       height, width);
    } else {
        FUSEGEN_LAUNCH((conv2d_gelu_kernel<1, false>),
                       grid, dim3(threads), shared_bytes, stream,
                       x, Strides<4>(x_strides), conv_weight, Strides<4>(conv_weight_strides), y, batch,
                       height, width);
    }
    return FUSEGEN_LAST_ERROR();
}
}  // namespace fusegen
