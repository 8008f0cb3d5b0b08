// SPDX-License-Identifier: Apache-2.0
// Device code that is plain C++ as well. Files are named for how many threads work together:
//
//   thread_*   one: words of memory, elements, BLAKE3's compression
//   warp_*     32 that run together
//   block_*    an agent: all that one thread block does, and what it keeps in shared memory
//   device_*   launches: how many thread blocks do what
//   runtime_*  the CUDA runtime, and what only nvcc compiles (.cu, .cuh)
//
// An agent has k_threads, k_residents (thread blocks that a multiprocessor should hold at least), Arguments, Shared,
// and run(threads, shared, arguments), which every thread of the thread block calls. `threads` tells it who it is and
// where others are met: RuntimeThreads on a device, and in tests one whose threads take turns on the host.
//
//   thread()              which of the thread block's threads this is
//   block()               which of the launch's thread blocks
//   meet()                waits for all of the thread block; what they wrote before is seen behind it
//   any(value)            of the warp's 32 values one is not 0
//   shuffle(value, lane)  the value that this lane of the warp gave
//   shuffle_up(value, n)  what the lane n below gave; in the first n lanes, the own
//
// All threads of a thread block, or of a warp, must come to the same meeting.
#pragma once

#if defined(__CUDACC__)
#define WDELTA_DEVICE __device__ __forceinline__
#define WDELTA_UNROLL _Pragma("unroll")
#define WDELTA_ROLLED _Pragma("unroll 1")
#else
#define WDELTA_DEVICE inline
#define WDELTA_UNROLL
#define WDELTA_ROLLED
#endif
