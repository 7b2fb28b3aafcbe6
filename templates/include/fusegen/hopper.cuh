// Everything that kernels for compute capability 9.0a use beyond plain CUDA, as thin wrappers: one
// PTX instruction each, and an emulated twin.
#pragma once

#include "cluster.cuh"
#include "mbarrier.cuh"
#include "skipped.cuh"
#include "staged_rows.cuh"
#include "tensor_map.cuh"
#include "tma.cuh"
#include "warp_roles.cuh"
#include "wgmma.cuh"
#include "window_map.cuh"
