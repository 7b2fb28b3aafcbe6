// Block-wide barriers and memory fences.
#pragma once

#include "interface.h"

#define __syncthreads() \
    ((void)fusegen_emulator_sync_threads(FUSEGEN_EMULATOR_SITE(sync_threads), 0))
#define __syncthreads_count(predicate) \
    ((int)fusegen_emulator_sync_threads(FUSEGEN_EMULATOR_SITE(sync_threads), (predicate) != 0))
#define __syncthreads_or(predicate) ((int)(__syncthreads_count(predicate) != 0))
#define __syncthreads_and(predicate)                                                               \
    ((int)(fusegen_emulator_sync_threads(FUSEGEN_EMULATOR_SITE(sync_threads), (predicate) == 0) == \
           0))

// Threads take turns on one processor, so every access is visible at once; a fence orders nothing
// between threads by itself, and the checker does not take it for a barrier.
inline void __threadfence_block() {}
inline void __threadfence() {}
inline void __threadfence_system() {}
