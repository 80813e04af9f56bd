// What plays the GPU (cuda_runtime.h beside this): blocks, fibers and their orders.
// State is global, as a GPU's is.
#ifndef TESTS_GPU_ON_CPU_H
#define TESTS_GPU_ON_CPU_H

#include <stddef.h>
#include <stdint.h>

#include "cuda_runtime_api.h"

#ifdef __cplusplus
extern "C" {
#endif

// In which order blocks run, and threads that need not wait.
enum gpu_order { GPU_FORWARD, GPU_BACKWARD, GPU_SHUFFLED, GPU_ORDERS };
void gpu_set_order(enum gpu_order order, uint64_t seed);

// The first thing that went wrong in any launch so far, in a sentence, or NULL.
const char *gpu_trouble(void);
void gpu_forget_trouble(void);
void gpu_fail(const char *sentence);

// Gives back what threads ran on.
void gpu_close(void);

// --- for cuda_runtime.h ---------------------------------------------------------------

// What is launched must have been loaded before.
cudaError_t gpu_load(const void *kernel);
// Runs `call(argument)` for every thread of every block.
cudaError_t gpu_launch(unsigned blocks, unsigned threads, size_t shared_bytes, const void *kernel,
                       void (*call)(void *argument), void *argument);
// Beyond the 48 KiB that every kernel may have; 99 KiB is what the smallest GPUs we build for have.
cudaError_t gpu_allow_shared(const void *kernel, size_t bytes);

void gpu_wait_for_block(int line);
// Passes a number to whoever in the warp asks for it; what lane `from` passed.
uint64_t gpu_exchange(uint64_t bits, unsigned from, int line);

// Fills a block's shared memory with NaN when its first thread comes by.
void gpu_shared(void *memory, size_t bytes);
void *gpu_dynamic_shared(void);

#ifdef __cplusplus
}
#endif

#endif
