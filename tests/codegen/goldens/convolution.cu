// ConvSigmoidMean.
#include "fusegen/convolution.cuh"
#include "fusegen/device.cuh"
#include "fusegen/dtypes.cuh"
#include "fusegen/launch.cuh"
#include "fusegen/math.cuh"
#include "fusegen/reduce.cuh"
#include "fusegen/stepped_division.cuh"

namespace fusegen {
// conv2d_sigmoid_mean_partial: conv2d, sigmoid, mean.
// A convolution of few channels: each tile leaves one small state a channel, and nothing else is
// stored.
// As a matrix product by warps: rows are channels, columns are pixels, and the depth is 8 channels of
// the input for each tap. A float32 is two float16 there, its high and its low part.
template <int vector, bool packed>
__global__ void __launch_bounds__(256, 2) conv2d_sigmoid_mean_partial_kernel(
    const float* __restrict__ x,
    Strides<4> x_strides,
    const float* __restrict__ conv_weight,
    Strides<4> conv_weight_strides,
    uint8_t* __restrict__ sum_states,
    int64_t batch,
    int64_t height,
    int64_t height_minus_2,
    int64_t width,
    int64_t width_minus_2) {
    wait_for_earlier_kernels();
    constexpr int threads = 256;
    constexpr int warps = threads / 32;
    constexpr int tile_rows = 8;  // of the result, for a block at a time
    constexpr int tile_columns = 256;
    constexpr int channels = 32;
    constexpr int input_channels = 8;
    constexpr int pieces = 1;  // of 8 channels of the input
    constexpr int entries = 9;  // pieces of all taps: the depth, 8 at a time
    constexpr int steps = 5;  // two entries each
    constexpr int lane_pixels = 4;
    constexpr int warp_pixels = 16;  // that a warp works on together
    constexpr int patch_size = 2580;
    const int64_t images = batch;
    const int64_t result_height = height_minus_2;
    const int64_t result_width = width_minus_2;
    const int64_t input_height = height;
    const int64_t input_width = width;
    // From an element of the input to the next one along each dim.
    const int64_t image_step = packed ? 8 * input_height * input_width : x_strides.at[0];
    const int64_t channel_step = computed_once(packed ? input_height * input_width : x_strides.at[1]);
    const int64_t row_step = packed ? input_width : x_strides.at[2];
    const int64_t column_step = packed ? 1 : x_strides.at[3];
    // What a tile reads of the input, high parts before low ones; then the weights' fragments.
    FUSEGEN_DYNAMIC_SHARED(Pixel<float16>, patch);
    WeightFragment* const weights = reinterpret_cast<WeightFragment*>(patch + 2 * patch_size);
    FUSEGEN_SHARED(Sum<float>, tile_sum_states_2, 256);
    const int warp = threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    int turn = 0;
    Magnitudes magnitudes = Magnitudes::identity();
    for (int i = threadIdx.x; i < channels * input_channels * 9; i += threads) {
        const int output_channel = i / (input_channels * 9);
        const int input_channel = i / 9 % input_channels;
        const int kernel_row = i % 9 / 3;
        const int kernel_column = i % 3;
        magnitudes.push(conv_weight[packed
            ? input_channel * 9 + kernel_column + kernel_row * 3 + output_channel * 72
            : conv_weight_strides(output_channel, input_channel, kernel_row, kernel_column)], 0);
    }
    const Scaling weight_scaling = Scaling::of(reduce_block<threads>(magnitudes, turn));
    const float weight_scale = power_of_two(weight_scaling.exponent);
    for (int i = threadIdx.x; i < steps * 2 * 256; i += threads) {
        const int owner = i / 8 % 32;  // the lane that holds it, in one of 4 registers
        const int place = i / 2 % 4;
        const int entry = i / 512 * 2 + place / 2;
        const int output_channel = i / 256 % 2 * 16 + place % 2 * 8 + owner / 4;
        const int input_channel = entry % pieces * 8 + owner % 4 * 2 + i % 2;
        const int kernel_row = entry / pieces / 3;
        const int kernel_column = entry / pieces % 3;
        const bool inside = entry < entries;
        float16* const target = reinterpret_cast<float16*>(weights) + i;
        const Parts weight_parts = Parts::of(inside ? (conv_weight[packed
            ? input_channel * 9 + kernel_column + kernel_row * 3 + output_channel * 72
            : conv_weight_strides(output_channel, input_channel, kernel_row, kernel_column)])
            * weight_scale : 0.0f);
        target[0] = weight_parts.high;
        target[steps * 2 * 256] = weight_parts.low;
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
        const int patch_rows = (own_rows - 1) * 1 + 3;
        const int patch_columns = (own_columns - 1) * 1 + 3;
        const int patch_pixels = patch_rows * patch_columns;
        // All loads are under way before the first is used.
        constexpr int slot_rounds = (patch_size + threads - 1) / threads;
        const int64_t patch_first_row = tile_first_row * 1;
        const int64_t patch_first_column = tile_first_column * 1;
        const float* const patch_source = x + (image_index * image_step + patch_first_row * row_step
            + patch_first_column * column_step);
        const int64_t input_rows_left = input_height - patch_first_row;
        const int64_t input_columns_left = input_width - patch_first_column;
        const int rows_inside = static_cast<int>(input_rows_left < patch_rows ? input_rows_left : patch_rows);
        const int columns_inside = static_cast<int>(input_columns_left < patch_columns
            ? input_columns_left : patch_columns);
        int patch_line = threadIdx.x / patch_columns;
        int patch_column = threadIdx.x % patch_columns;
        const int line_step = threads / patch_columns;
        const int line_column_step = threads % patch_columns;
        float loaded[slot_rounds][8];
#pragma unroll
        for (int slot_round = 0; slot_round < slot_rounds; ++slot_round) {
            const bool inside_row = patch_line < rows_inside;
            const bool inside = inside_row && patch_column < columns_inside;
            const float* source = computed_once(patch_source + (patch_line * row_step
                + patch_column * column_step));
#pragma unroll
            for (int i = 0; i < 8; ++i) {
                loaded[slot_round][i] = inside
                    ? read_only(source) : convert<float>(0.0f);
                source += channel_step;
            }
            patch_line += line_step;
            patch_column += line_column_step;
            if (patch_column >= patch_columns) {
                patch_column -= patch_columns;
                ++patch_line;
            }
        }
        magnitudes = Magnitudes::identity();
#pragma unroll
        for (int i = 0; i < slot_rounds * 8; ++i) {
            magnitudes.push(loaded[i / 8][i % 8], 0);
        }
        const Scaling input_scaling = Scaling::of(reduce_block<threads>(magnitudes, turn));
        const bool fits = input_scaling.fits && weight_scaling.fits;
        const float input_scale = power_of_two(input_scaling.exponent);
        const float unscale = power_of_two(-input_scaling.exponent - weight_scaling.exponent);
#pragma unroll
        for (int slot_round = 0; slot_round < slot_rounds; ++slot_round) {
            const int slot = threadIdx.x + slot_round * threads;
            Pixel<float16> high;
            Pixel<float16> low;
#pragma unroll
            for (int i = 0; i < 8; ++i) {
                const Parts input_parts = Parts::of(loaded[slot_round][i] * input_scale);
                high[i] = input_parts.high;
                low[i] = input_parts.low;
            }
            if (slot < pieces * patch_pixels) {
                patch[slot] = high;
                patch[slot + patch_size] = low;
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
            Sum<float> sum_states_2[2][2];
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                sum_states_2[i / 2][i % 2] = Sum<float>::identity();
            }
            int before = 0;  // how many pixels each of this lane's states has taken
            // Where the pixels lie in the tile whose channels this lane brings.
            int brought_rows[1];
            int brought_columns[1];
#pragma unroll
            for (int pair = 0; pair < 1; ++pair) {
                const int pixel = warp * warp_pixels + pair * 16 + brought_pixel(lane);
                brought_rows[pair] = pixel / own_columns;
                brought_columns[pair] = pixel % own_columns;
            }
            const auto finish = [&](const float (&sums)[2][2][4], int first_pixel) {
                int taken = 0;  // of this lane's pixels, those inside the tile
#pragma unroll
                for (int i = 0; i < lane_pixels; ++i) {
                    taken += first_pixel + lane_pixel(lane, i) < own_pixels;
                }
                const Run<lane_pixels> run(taken, static_cast<float>(before));
                // One branch for all channels, so that their elements overlap.
                const auto take = [&](auto whole) {
#pragma unroll
                for (int block = 0; block < 2; ++block) {
#pragma unroll
                    for (int half = 0; half < 2; ++half) {
                        float sum_values[lane_pixels];
#pragma unroll
                        for (int first = 0; first < lane_pixels; first += vector) {
#pragma unroll
                            for (int element = 0; element < vector; ++element) {
                                const float sigmoid = fusegen::sigmoid(sums[block][(first
                                    + element) / 2][half * 2 + (first + element) % 2]);
                                const float measured_sigmoid = rounded(sigmoid);
                                sum_values[first + element] = measured_sigmoid;
                            }
                        }
                        push_run<whole.value>(sum_states_2[block][half], sum_values, run);
                    }
                }
                };
                if (taken == lane_pixels) {
                    take(std::true_type{});
                } else {
                    take(std::false_type{});
                }
                before += taken;
            };
            if (!fits) {
                // Numbers too far apart for float16 parts, or infinite: multiplied as they are.
#pragma unroll 1
                for (int round_first_pixel = 0; round_first_pixel < own_pixels; round_first_pixel += warps
                    * warp_pixels) {
                    const int first_pixel = round_first_pixel + warp * warp_pixels;
                    float sums[2][2][4] = {};
#pragma unroll 1
                    for (int depth = 0; depth < 9 * input_channels; ++depth) {
                        const int input_channel = depth % input_channels;
                        const int kernel_row = depth / input_channels / 3;
                        const int kernel_column = depth / input_channels % 3;
                        float inputs[lane_pixels];
#pragma unroll
                        for (int i = 0; i < lane_pixels; ++i) {
                            const int pixel = first_pixel + lane_pixel(lane, i);
                            const int64_t input_row = (tile_first_row + pixel / own_columns) * 1
                                + kernel_row * 1;
                            const int64_t input_column = (tile_first_column + pixel % own_columns) * 1
                                + kernel_column * 1;
                            const bool inside = pixel < own_pixels && input_row < input_height &&
                                                input_column < input_width;
                            inputs[i] = inside ? x[packed
                                ? input_column + input_row * width + height * image_index * width * 8
                                + height * input_channel * width
                                : x_strides(image_index, input_channel, input_row, input_column)] : 0.0f;
                        }
#pragma unroll
                        for (int i = 0; i < 4; ++i) {
                            const int output_channel = first_channel + i * 8 + lane / 4;
                            const float own_weight = conv_weight[packed
                                ? input_channel * 9 + kernel_column + kernel_row * 3 + output_channel * 72
                                : conv_weight_strides(output_channel, input_channel, kernel_row, kernel_column)];
#pragma unroll
                            for (int j = 0; j < lane_pixels; ++j) {
                                sums[i / 2][j / 2][i % 2 * 2 + j % 2] += own_weight * inputs[j];
                            }
                        }
                    }
                    finish(sums, first_pixel);
                }
            } else {
#pragma unroll 1
                for (int round_first_pixel = 0; round_first_pixel < own_pixels; round_first_pixel += warps
                    * warp_pixels) {
                    const int first_pixel = round_first_pixel + warp * warp_pixels;
                    int origins[1];  // in bytes
#pragma unroll
                    for (int pair = 0; pair < 1; ++pair) {
                        int& brought_row = brought_rows[pair];
                        int& brought_column = brought_columns[pair];
                        const int origin = brought_row * 1 * patch_columns + brought_column * 1;
                        origins[pair] = brought_row < own_rows
                            ? origin * 16 : 0;  // beyond the tile: any pixel
                        brought_row += stride_rows;
                        brought_column += stride_columns;
                        if (brought_column >= own_columns) {
                            brought_column -= own_columns;
                            ++brought_row;
                        }
                    }
                    float sums[2][2][4] = {};
                    float low_sums[2][2][4] = {};
#pragma unroll
                    for (int step = 0; step < steps; ++step) {
                        WeightFragment rows[2][2];
                        std::uint32_t columns[2][1][4];
#pragma unroll
                        for (int plane = 0; plane < 2; ++plane) {
#pragma unroll
                            for (int block = 0; block < 2; ++block) {
                                const int all = (plane * steps + step) * 2 + first_channel / 16 + block;
                                rows[plane][block] = weights[all * 32 + lane];
                            }
#pragma unroll
                            for (int pair = 0; pair < 1; ++pair) {
                                ldmatrix(columns[plane][pair], patch, plane * patch_size * 16
                                    + origins[pair] + offsets[step]);
                            }
                        }
#pragma unroll
                        for (int i = 0; i < 4; ++i) {
                            multiply_entries<float16>(step * 2
                                + 1 < entries, sums[i / 2][i % 2], rows[0][i / 2],
                                             columns[0][i % 2 / 2][i % 2 * 2], columns[0][i % 2 / 2][i % 2
                                                 * 2 + 1]);
                        }
#pragma unroll
                        for (int i = 0; i < 4; ++i) {
                            multiply_entries<float16>(step * 2
                                + 1 < entries, low_sums[i / 2][i % 2], rows[0][i / 2],
                                             columns[1][i % 2 / 2][i % 2 * 2], columns[1][i % 2 / 2][i % 2
                                                 * 2 + 1]);
                        }
#pragma unroll
                        for (int i = 0; i < 4; ++i) {
                            multiply_entries<float16>(step * 2
                                + 1 < entries, low_sums[i / 2][i % 2], rows[1][i / 2],
                                             columns[0][i % 2 / 2][i % 2 * 2], columns[0][i % 2 / 2][i % 2
                                                 * 2 + 1]);
                        }
                    }
#pragma unroll
                    for (int i = 0; i < 16; ++i) {
                        float& own_sum = sums[i / 8][i / 4 % 2][i % 4];
                        own_sum = (own_sum
                            + low_sums[i / 8][i / 4 % 2][i % 4] * (1.0f / low_scale)) * unscale;
                    }
                    finish(sums, first_pixel);
                }
            }
            // The states of all warps, in order: one for each channel of the tile.
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int place = warp * 32 + i * 8 + lane / 4;
                const Sum<float> merged_1 = reduce_lanes<4>(sum_states_2[i / 2][i % 2]);
                if (lane % 4 == 0) {
                    tile_sum_states_2[place] = merged_1;
                }
            }
            __syncthreads();
            const int output_channel = first_channel + threadIdx.x;
            if (threadIdx.x < 32) {
                const int64_t row = image_index * channels + output_channel;
                Sum<float> merged_1 = tile_sum_states_2[threadIdx.x];
                for (int i = 1; i < warps; ++i) {
                    merged_1.merge(tile_sum_states_2[i * 32 + threadIdx.x]);
                }
                static_assert(sizeof(Sum<float>) == 4, "the workspace's size depends on it");
                reinterpret_cast<Sum<float>*>(sum_states)[row * tiles + tile] = merged_1;
            }
            __syncthreads();  // the next tile overwrites the patch, and the states
        }
    }
}

FUSEGEN_EXPORT int launch_conv2d_sigmoid_mean_partial(
    const float* x,
    const int64_t* x_strides,
    const float* conv_weight,
    const int64_t* conv_weight_strides,
    uint8_t* sum_states,
    int64_t batch,
    int64_t height,
    int64_t height_minus_2,
    int64_t width,
    int64_t width_minus_2,
    void* stream) {
    const int64_t result_height = height_minus_2;
    const int64_t result_width = width_minus_2;
    const int64_t tiles = batch * divide_up(result_height, 8) * divide_up(result_width, 256);
    if (tiles == 0) {
        return 0;
    }
    constexpr int threads = 256;
    constexpr int vector = 4;
    constexpr std::size_t shared_bytes = 92800;
    const int64_t most = processor_count() * 2;
    const dim3 grid = grid_of(tiles < most ? tiles : most);
    // Wide accesses need runs of pixels that lie together: in one row, or in rows without gaps.
    const bool runs = result_width % vector == 0 || (result_width <= 256 && result_height
        * result_width % vector == 0);
    if (runs && is_contiguous(x_strides, {batch, 8, height, width}) &&
        is_contiguous(conv_weight_strides, {32, 8, 3, 3}) && is_aligned(x, 16) &&
        is_aligned(conv_weight, 16) && is_aligned(sum_states, 4)) {
        FUSEGEN_LAUNCH((conv2d_sigmoid_mean_partial_kernel<vector, true>),
                       grid, dim3(threads), shared_bytes, stream,
                       x, Strides<4>(x_strides), conv_weight, Strides<4>(conv_weight_strides), sum_states,
                       batch, height, height_minus_2, width, width_minus_2);
    } else {
        FUSEGEN_LAUNCH((conv2d_sigmoid_mean_partial_kernel<1, false>),
                       grid, dim3(threads), shared_bytes, stream,
                       x, Strides<4>(x_strides), conv_weight, Strides<4>(conv_weight_strides), sum_states,
                       batch, height, height_minus_2, width, width_minus_2);
    }
    return FUSEGEN_LAST_ERROR();
}

// conv2d_sigmoid_mean_finish: conv2d, sigmoid, mean.
// Merges the partial states of each row in a fixed order.
template <int vector, bool packed>
__global__ void __launch_bounds__(256, 1) conv2d_sigmoid_mean_finish_kernel(
    const uint8_t* __restrict__ sum_states,
    float* __restrict__ y,
    int64_t batch,
    int64_t height_minus_2,
    int64_t width_minus_2) {
    wait_for_earlier_kernels();
    constexpr int lanes = 32;  // threads that share a row
    constexpr int steps = 4 / vector;  // vectors that a thread takes together
    const int64_t rows = batch * 32;
    const int64_t columns = ((255 + width_minus_2) / 256) * ((7 + height_minus_2) / 8);
    const int lane = threadIdx.x % lanes;
    const int row_in_block = threadIdx.x / lanes;
    const int64_t block = blockIdx.x;
    const int64_t blocks = gridDim.x;
    for (int64_t first_row = block * 8; first_row < rows; first_row += blocks * 8) {
        // Threads beyond the last row stand on it without columns: all take part in exchanges.
        const int64_t own_row = first_row + row_in_block;
        const bool is_active = own_row < rows;
        const int64_t row = is_active ? own_row : rows - 1;
        const int64_t row_end = is_active ? columns : 0;
        // Phase 1 of 1.
        auto sum_state = Sum<float>::identity();
        for (int64_t chunk = lane * vector; chunk < row_end; chunk += steps * lanes * vector) {
#pragma unroll
            for (int step = 0; step < steps; ++step) {
                const int64_t first_column = chunk + step * (lanes * vector);
                if (first_column >= row_end) {
                    continue;
                }

#pragma unroll
                for (int element = 0; element < vector; ++element) {
                    const int64_t column = first_column + element;
                    const auto* const sum_left = reinterpret_cast<const Sum<float>*>(sum_states);
                    sum_state.merge(sum_left[column + ((255 + width_minus_2) / 256) * ((7
                        + height_minus_2) / 8) * row]);
                }
            }
        }
        sum_state = reduce_lanes<32>(sum_state);
        const float sum = convert<float>(sum_state.result());

        const float div = sum / convert<float>(static_cast<int64_t>(height_minus_2 * width_minus_2));
        if (lane == 0 && is_active) {
            y[row] = div;
        }
    }
}

FUSEGEN_EXPORT int launch_conv2d_sigmoid_mean_finish(
    const uint8_t* sum_states,
    float* y,
    int64_t batch,
    int64_t height_minus_2,
    int64_t width_minus_2,
    void* stream) {
    const int64_t rows = batch * 32;
    const int64_t columns = ((255 + width_minus_2) / 256) * ((7 + height_minus_2) / 8);
    if (rows == 0) {
        return 0;
    }
    constexpr int vector = 1;
    // Wide accesses for whole vectors of packed tensors; all else goes element by element.
    const bool packed = true && is_aligned(sum_states, 1) && is_aligned(y, 4);
    const bool wide = packed && columns % vector == 0;
    const dim3 grid = grid_of(divide_up(rows, 8));
    if (wide) {
        FUSEGEN_LAUNCH((conv2d_sigmoid_mean_finish_kernel<vector, true>),
                       grid, dim3(256), 0, stream,
                       sum_states, y, batch, height_minus_2, width_minus_2);
    } else {
        FUSEGEN_LAUNCH((conv2d_sigmoid_mean_finish_kernel<1, false>),
                       grid, dim3(256), 0, stream,
                       sum_states, y, batch, height_minus_2, width_minus_2);
    }
    return FUSEGEN_LAST_ERROR();
}
}  // namespace fusegen
