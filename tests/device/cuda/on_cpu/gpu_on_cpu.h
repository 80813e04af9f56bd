// What plays the GPU (cuda_runtime.h beside this): blocks, fibers and their orders.
// State is global, as a GPU's is. Nothing here is CUDA's, so that it stands beside
// CUDA's own headers as well as beside those that are played.
#ifndef TESTS_GPU_ON_CPU_H
#define TESTS_GPU_ON_CPU_H

#include <stddef.h>
#include <stdint.h>

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

// With the numbers of CUDA's own errors.
enum gpu_status { GPU_GOOD = 0, GPU_BAD_VALUE = 1, GPU_BAD_SHAPE = 9, GPU_BROKE = 719 };

// What is launched must have been loaded before.
enum gpu_status gpu_load(const void *kernel);
// Beyond the 48 KiB that every kernel may have; 99 KiB is what the smallest GPUs we build for have.
enum gpu_status gpu_allow_shared(const void *kernel, size_t bytes);

struct gpu_grid {
    unsigned blocks, threads;
    size_t shared_bytes;
    const void *kernel;
    void (*call)(const void *arguments);  // one thread of it
};

// What a launch comes to: at once (launch_at_once.cc), or when a stream's turn has come, with a copy of the arguments
// (tests/weir_cuda/played).
enum gpu_status gpu_launch(const struct gpu_grid *grid, const void *arguments, size_t bytes, void *stream);

// For whoever launches: whether a GPU would take it, and every thread of every block. One at a time.
enum gpu_status gpu_check(const struct gpu_grid *grid);
enum gpu_status gpu_run(const struct gpu_grid *grid, const void *arguments);

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
