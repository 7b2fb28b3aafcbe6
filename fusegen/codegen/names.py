"""C names: distinct, legal, and as close to the user's own as can be."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

# C++ keywords, and the names that the kernel skeletons use themselves.
KEYWORDS = """
alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t
char32_t class compl concept const consteval constexpr constinit const_cast continue co_await
co_return co_yield decltype default delete do double dynamic_cast else enum explicit export
extern false float for friend goto if inline int long mutable namespace new noexcept not not_eq
nullptr operator or or_eq private protected public register reinterpret_cast requires return
short signed sizeof static static_assert static_cast struct switch template this thread_local
throw true try typedef typeid typename union unsigned using virtual void volatile wchar_t while
xor xor_eq main signal
"""
SKELETON = """
accumulators ahead all_steps any_few any_lost barrier barriers batch_index batch_of_tile batches
before begin below block block_column blocks bring bring_queries bring_tiles brought brought_column
brought_columns brought_row brought_rows channel_step channels chunk chunk_lines chunks column
column_marks column_phase column_place column_scale column_step column_tile column_tiles
column_vector column_vector_0 column_vector_1 columns columns_here columns_inside columns_left
contiguous count depth depth_end depth_here depth_start depths element empty end entries entry
entry_column entry_row exact_sum exchange few_places few_values finish first first_channel
first_column first_column_inside first_depth first_key first_line first_middle first_of_part
first_pixel first_row first_row_here first_row_inside first_step first_sum firsts fits flags form
full greatest grid group groups half half_wide has_few has_work held high i image image_index
image_step images in_tile in_vectors index input_channel input_channels input_column
input_columns_left input_height input_parts input_plane input_planes input_row input_rows_left
input_scale input_scaling input_width inputs inside inside_plane inside_row inside_sum is_active
is_all_inside is_any_below is_below is_below_loss is_channel is_element is_inside is_last
is_left_out is_lost is_made is_marked is_rest is_row is_source_column is_source_row is_there
is_whole j keep keep_0 keep_1 keep_statistics kernel_column kernel_plane kernel_row key
key_batch_stride key_map key_matrices key_matrix key_place key_run key_stride key_vector keys lane
lane_pixels lanes left_0_batch_stride left_0_map left_0_matrices left_0_matrix left_0_place
left_0_run left_0_stride left_1_batch_stride left_1_map left_1_matrices left_1_matrix left_1_place
left_1_run left_1_stride left_batch_stride left_line left_low_start left_map left_map_here
left_matrices left_matrix left_parts left_place left_rest_map left_run left_scale left_scales
left_size left_source left_start left_stride left_tile left_to_see line line_column_step line_group
line_step lines loaded long_parts low low_start low_sums made magnitudes make mark meet meet_row met
middle middle_vector middles mma_tiles most most_parts next_row of_row of_rows offsets operand_tiles
operands order origin origins other output_channel own_column own_columns own_lines own_pixels
own_row own_rows own_stage own_staged own_step own_sum own_sums own_weight owner packed pair part
part_columns part_end part_size part_tile partial parts patch patch_column patch_columns
patch_first_column patch_first_plane patch_first_row patch_line patch_pixels patch_row patch_rows
patch_size patch_source phase piece pieces pitch pixel pixel_source place places places_at plane
plane_step position prepare prepare_left prepare_right prepared previous processors product_column
product_row products query_batch_stride query_map query_matrices query_matrix query_place query_run
query_stride registers resident rest_lines rest_size result_height result_plane result_planes
result_width results right_0_batch_stride right_0_map right_0_matrices right_0_matrix right_0_place
right_0_run right_0_stride right_1_batch_stride right_1_map right_1_matrices right_1_matrix
right_1_place right_1_run right_1_stride right_batch_stride right_line right_low_start right_map
right_matrices right_matrix right_parts right_place right_run right_scale right_scales right_size
right_source right_start right_stride right_tile ring ring_bytes round round_end round_first_pixel
row row_ahead row_end row_in_block row_in_tile row_marks row_phase row_place row_scales row_stage
row_step row_tile row_tiles rows rows_here rows_inside rows_left rows_sums run runs scales score
scores seen shared shared_parts shares size_here skinny_kernel slot slot_round slot_rounds small
source source_column source_plane source_row stage stage_pixel stage_place stage_size stage_tiles
staged staged_columns staged_pitch stages step steps store_stage stream stride stride_columns
stride_rows sum_inside sums sums_0 sums_1 sums_of_parts take taken tap target tensor_tiles thread
thread_column thread_row threads tile tile_column tile_columns tile_depth tile_end tile_first_column
tile_first_row tile_keys tile_middles tile_row tile_rows tile_size tile_waves tiles tuned_form
tuned_rows turn unscale value_batch_stride value_map value_matrices value_matrix value_place
value_run value_stride vector visited wanted warp warp_pixels warpgroup warps weight_parts
weight_scale weight_scaling weight_total weights whole wide wide_tiles work works worth_it
"""
# What kernels and launchers call by its bare name, and macros that are not in capitals.
DEVICE = """
All Any ArgMaximum ArgMinimum ByWarpgroups ByWarps ClusterExchange Divisor HeldPlaces Keys Left
Left0 Left1 LineScale LogSumExp Magnitudes Major MatrixMap Maximum Mean Met MetThere Minimum
MmaOperand MmaTile Moments Neighbours OfRow Parts Pixel Places Product Queries Residency Right
Right0 Right1 RowOrder RowsAhead Run Scaling SharedTile Stages SteppedDivision Strides Sum Swizzle
TensorMap TensorMapError TensorTiles TensorWindow Tile TileOrder TileRing TileWave TunedRows
TurnedRight TurnedRight0 TurnedRight1 Untouched Values Vector WeightFragment WgmmaTile WideOperand
access_bytes assert bfloat16 blockDim blockIdx bring_whole brought_pixel clear_behind cluster_rank
cluster_shared cluster_sync computed_once convert cp_async cp_async_commit cp_async_wait
decrease_registers dim3 divide_up emulated_resident encode_tensor_map encode_window_map errno
exchange_columns fabsf fence_async_shared few_elements find_few_elements flag_columns flag_position
flag_rows float16 fusegen fusegen_dynamic_shared fusegen_emulator fusegen_emulator_dynamic_shared
fusegen_emulator_take_error fusegen_tile_shared gathered gridDim grid_of hand_over has_clusters
has_mma has_wgmma increase_registers int16_t int32_t int64_t int8_t is_aligned is_beyond_parts
is_beyond_wide_parts is_contiguous is_flagged join known_kernel lane_pixel ldmatrix lines_of_rest
linux load_vector low_part_scale low_scale make_operands map_matrices mbarrier_arrive
mbarrier_arrive_expect mbarrier_fence_init mbarrier_init mbarrier_wait merge_dims mma_attention
mma_product multiply_entries named_barrier_sync odd of_held_rows outweighs_loss parts_of_depth
power_of_two prefetch_tensor_map prepare_tile processor_count promote push_run quickest_tile
read_only reduce_block reduce_cluster reduce_lanes reduce_outer reduce_part registers_of rounded
shared_bytes skinny_product split_line split_line_threads split_lines split_lines_count
split_lines_threads split_pays split_shares split_tile std store_added store_staged store_vector
store_vector_if stride_limit sum_nans_again threadIdx tma_load_3d tma_load_4d tma_load_5d
tma_load_window_4d tma_load_window_5d to_float tuned_tile uint64_t uint8_t unix value_at
wait_for_earlier_kernels warpSize wgmma wgmma_attention wgmma_commit wgmma_descriptor
wgmma_descriptor_mn_major wgmma_fence wgmma_k wgmma_m wgmma_wait whole_warp wide_columns
wide_product wide_rows wide_shared_bytes wide_threads within without_scale
"""
RESERVED = frozenset(f"{KEYWORDS} {SKELETON} {DEVICE}".split())


@dataclass
class Names:
    """Hands out names for one scope; `taken` names are never given again, `reserved` ones never,
    nor what the functions of the scope's `kernel`, if it has one, may be called."""

    taken: set[str] = field(default_factory=set)
    reserved: frozenset[str] = RESERVED
    kernel: str | None = None

    def fresh(self, wanted: str) -> str:
        """`wanted` made a C identifier, with a number where it is taken or reserved."""
        stem = identifier(wanted)
        if len(stem) > 1 and stem.isupper():
            stem = stem.lower()  # what is all capitals might be a macro
        name, number = stem, 2
        while name in self.taken or name in self.reserved or self._is_other(name):
            name, number = f"{stem}_{number}", number + 1
        self.taken.add(name)
        return name

    def _is_other(self, name: str) -> bool:
        """Whether a kernel may have the name, `conv_kernel` or `conv_ahead_kernel`, or a tensor's
        strides, `x_strides`."""
        kernel = self.kernel
        of_kernel = kernel is not None and name.startswith(f"{kernel}_")
        return (of_kernel and name.endswith("_kernel")) or name.endswith("_strides")


def identifier(text: str) -> str:
    """`text` with everything that a C identifier may not have replaced by underscores."""
    cleaned = re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_") or "value"
    return f"_{cleaned}" if cleaned[0].isdigit() else cleaned


def snake_case(name: str) -> str:
    """`GemmGroupNorm` as `gemm_group_norm`."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name)
    return identifier(spaced.lower())


def mentions(lines: tuple[str, ...], variable: str) -> bool:
    """Whether a variable occurs in the text, so that it has to be declared."""
    return any(re.search(rf"\b{variable}\b", line) for line in lines)
