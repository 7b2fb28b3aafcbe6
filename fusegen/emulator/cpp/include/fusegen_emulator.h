// The part of CUDA that generated kernels use, for g++: kernels run in the emulator's runtime library.
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
