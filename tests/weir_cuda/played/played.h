// A GPU and NVIDIA's libraries for it, played on a processor, so that all of device/cuda runs where there is no GPU: the
// plug-in's own host code as it stands, with the kernels as fibers (tests/device/cuda/on_cpu).
//
//     device/cuda/*.c      the real host code
//        |  cudaMalloc()   cublasLtMatmul()   cudnnBackendExecute()   ncclSend() ...
//     played_runtime.c   played_cublas.c    played_cudnn.c          played_nccl.c
//        |                      \              |                       /
//     played_memory.c         played_streams.c: a list of operations for each stream
//                                     |
//                             one thread does them, in an order that is drawn by lot
//
// What CUDA promises is kept and nothing more. An operation is done some time after its call, and late: the host
// runs as far ahead as it can, and streams are held up at random, so that a wait that is missing leaves numbers that
// are wrong. Memory is filled with NaN, ends at a page that nobody may touch, and is not given anew for a long time.
// What a real GPU might forgive is a complaint: it is printed, and the process ends at once with PLAYED_FAULT.
//
// By the environment: PLAYED_SEED (the lot), PLAYED_MEMORY (bytes of the GPU), PLAYED_GPUS (how many; 2),
// PLAYED_FAIL=FUNCTION:N (the N-th call of it fails), PLAYED_COUNTS=1 (what was done is printed at the end).
#ifndef TESTS_PLAYED_H
#define TESTS_PLAYED_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PLAYED_FAULT = 86 };

void played_complain(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

// Whether this call of a function is the one that is to fail. Which one is, is said by the environment, or by tests, who
// find what follows in the plug-in by name.
bool played_fails(const char *function);
// The first `good` calls of a function are good and the next one is not; NULL: all are. Counts begin anew.
void weir_played_fail(const char *function, uint64_t good);
uint64_t weir_played_calls(const char *function);  // since then
const char *weir_played_function(size_t i);        // those that have ever been called; NULL behind the last
size_t weir_played_used(void);                     // bytes of the GPU's memory that are taken

// Begins every function of a library that returns a status.
#define PLAYED_CALL(status)                  \
    do {                                     \
        if (played_fails(__func__))          \
            return (status);                 \
    } while (0)

// --- memory --------------------------------------------------------------------------

enum played_place { ON_GPU, ON_HOST };

// False: there is not enough.
bool played_take(void **memory, size_t bytes, enum played_place place);
// False: it was never taken, or is given back already.
bool played_give(void *memory, enum played_place place);
size_t played_room(void);  // how much the GPU has
// Whether it lies within one block.
bool played_is_inside(const void *memory, size_t bytes);
// Complains if not; `what` is told.
void played_must_be_inside(const void *memory, size_t bytes, const char *what);
// Complains of what was written behind blocks.
void played_look_at_guards(void);

// --- streams -----------------------------------------------------------------------------

// Which GPU is the calling thread's.
extern _Thread_local int played_gpu;

typedef void played_work(void *arguments);
// Whether it is over, with whatever else it waits for.
typedef bool played_try(void *arguments);

// Copies the arguments. Does it when its turn has come; with `trying` it is tried until that is true. `what` is told
// where something is wrong, and is not copied.
cudaError_t played_append(cudaStream_t stream, const char *what, played_work *work, played_try *trying,
                          const void *arguments, size_t bytes);
// Whether an operation that is not over has an address of [memory, memory + bytes) among its arguments; what it is.
const char *played_is_in_use(const void *memory, size_t bytes);
// The host looks whether something has come: time goes by.
void played_poll(void);
// Complains if the thread captures: the call is none of those that may be made then.
void played_must_not_capture(const char *what);
bool played_is_capturing(cudaStream_t stream);
uint64_t played_draw(uint64_t below);  // from 0 to below - 1

struct played_counts {
    uint64_t launches, products, graphs_run, copies, exchanges, captured, replayed, events, waits;
};
extern struct played_counts played_counts;  // changed by the thread that does operations, but for `captured`

#endif
