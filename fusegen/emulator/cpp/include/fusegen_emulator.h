// The part of CUDA that generated kernels use, for g++; the emulator's runtime library runs them.
#pragma once

#include "fusegen_emulator/qualifiers.h"
#include "fusegen_emulator/vector_types.h"
#include "fusegen_emulator/interface.h"
#include "fusegen_emulator/launch.h"
#include "fusegen_emulator/shared_memory.h"
#include "fusegen_emulator/barrier.h"
#include "fusegen_emulator/warp.h"
#include "fusegen_emulator/atomics.h"
#include "fusegen_emulator/math_functions.h"
