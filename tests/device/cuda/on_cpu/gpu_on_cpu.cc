// Fibers jump to each other's stacks, which the checks of fortified jumps take for a fault.
#undef _FORTIFY_SOURCE

#include "gpu_on_cpu.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "common/random.h"
#include "cuda_runtime.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer) && !defined(__SANITIZE_ADDRESS__)
#define __SANITIZE_ADDRESS__
#endif
#endif
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

struct dim3 threadIdx, blockIdx, blockDim, gridDim;

enum { MOST_THREADS = 1024, STACK_BYTES = 32 << 10, MOST_KERNELS = 512, MOST_SHARED = 16 };
enum state { READY, AT_BARRIER, AT_EXCHANGE, ENDED };

// Where a stack is left. Its first jump into a fiber takes a context; all others save no signal mask, which costs a
// system call each way and more than most of what lies between. The sanitizer knows contexts only.
struct place {
    ucontext_t context;
#ifndef __SANITIZE_ADDRESS__
    jmp_buf jump;
    bool is_left;
#endif
};

struct fiber {
    struct place place;
    void *stack;
    enum state state;
    int line;            // where it waits
    uint64_t passed[2];  // of its exchanges, the even and the odd ones: nobody is two ahead of another
    unsigned exchanges;
};

struct kernel {
    const void *function;
    size_t shared_bytes;  // that it may have
};

static struct gpu {
    enum gpu_order order;
    uint64_t seed;
    char trouble[200];

    struct fiber fibers[MOST_THREADS];
    struct fiber *running;
    struct place host;
    const void *host_stack;  // what the sanitizer knows the host's stack by
    size_t host_stack_bytes;
    void (*call)(const void *arguments);
    const void *arguments;

    unsigned threads, at_barrier, ended;
    unsigned at_exchange[MOST_THREADS / 32];
    const void *seen[MOST_SHARED];  // shared memory of this block that is filled already
    unsigned seen_count;
    void *dynamic_shared;

    struct kernel loaded[MOST_KERNELS];
    unsigned loaded_count;
} gpu;

extern "C" void gpu_set_order(enum gpu_order order, uint64_t seed)
{
    gpu.order = order;
    gpu.seed = seed;
}

extern "C" const char *gpu_trouble(void)
{
    return gpu.trouble[0] ? gpu.trouble : NULL;
}

extern "C" void gpu_forget_trouble(void)
{
    gpu.trouble[0] = '\0';
}

extern "C" void gpu_fail(const char *sentence)
{
    if (!gpu.trouble[0])
        snprintf(gpu.trouble, sizeof gpu.trouble, "%s", sentence);
}

// --- fibers --------------------------------------------------------------------------------

// The sanitizer must be told of every change of stack.
static void leave_to(void **fake, const void *stack, size_t bytes)
{
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_start_switch_fiber(fake, stack, bytes);
#else
    (void)fake, (void)stack, (void)bytes;
#endif
}

static void arrived(void *fake, const void **stack, size_t *bytes)
{
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(fake, stack, bytes);
#else
    (void)fake, (void)stack, (void)bytes;
#endif
}

static void change_places(struct place *from, struct place *to)
{
#ifdef __SANITIZE_ADDRESS__
    swapcontext(&from->context, &to->context);
#else
    from->is_left = true;
    if (_setjmp(from->jump) != 0)
        return;
    if (to->is_left)
        _longjmp(to->jump, 1);
    setcontext(&to->context);
#endif
}

static void to_host(void)
{
    void *fake = NULL;
    struct fiber *me = gpu.running;
    leave_to(&fake, gpu.host_stack, gpu.host_stack_bytes);
    change_places(&me->place, &gpu.host);
    arrived(fake, &gpu.host_stack, &gpu.host_stack_bytes);
}

// A fiber serves one thread after the other.
static void fiber_main(void)
{
    arrived(NULL, &gpu.host_stack, &gpu.host_stack_bytes);
    for (;;) {
        gpu.call(gpu.arguments);
        gpu.running->state = ENDED;
        gpu.ended++;
        to_host();
    }
}

static void start_fiber(struct fiber *fiber)
{
    if (!fiber->stack)
        fiber->stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (fiber->stack == MAP_FAILED)
        abort();
    fiber->place = {};
    getcontext(&fiber->place.context);
    fiber->place.context.uc_stack.ss_sp = fiber->stack;
    fiber->place.context.uc_stack.ss_size = STACK_BYTES;
    makecontext(&fiber->place.context, fiber_main, 0);
}

static void run(unsigned thread)
{
    struct fiber *fiber = &gpu.fibers[thread];
    void *fake = NULL;
    gpu.running = fiber;
    threadIdx.x = thread;
    leave_to(&fake, fiber->stack, STACK_BYTES);
    change_places(&gpu.host, &fiber->place);
    arrived(fake, NULL, NULL);
    gpu.running = NULL;
}

extern "C" void gpu_close(void)
{
    for (struct fiber &fiber : gpu.fibers)
        if (fiber.stack) {
            munmap(fiber.stack, STACK_BYTES);
            fiber.stack = NULL;
        }
}

// --- waiting ----------------------------------------------------------------------------------

static void trouble_at(const char *what, int line, int other)
{
    char text[160];
    snprintf(text, sizeof text, "%s: block %u waits at line %d and at line %d", what, blockIdx.x, line, other);
    gpu_fail(text);
}

// The last of `count` fibers came: all go on, if all wait at one line.
static void let_go(struct fiber *fibers, unsigned count, const char *what)
{
    for (unsigned i = 0; i < count; i++) {
        if (fibers[i].line != fibers[0].line)
            trouble_at(what, fibers[0].line, fibers[i].line);
        fibers[i].state = READY;
    }
}

extern "C" void gpu_wait_for_block(int line)
{
    gpu.running->state = AT_BARRIER;
    gpu.running->line = line;
    if (++gpu.at_barrier == gpu.threads) {
        gpu.at_barrier = 0;
        let_go(gpu.fibers, gpu.threads, "a barrier");
    }
    to_host();
}

extern "C" uint64_t gpu_exchange(uint64_t bits, unsigned from, int line)
{
    struct fiber *me = gpu.running;
    const unsigned warp = threadIdx.x / 32, turn = me->exchanges++ & 1;
    me->passed[turn] = bits;
    me->state = AT_EXCHANGE;
    me->line = line;
    if (++gpu.at_exchange[warp] == 32) {
        gpu.at_exchange[warp] = 0;
        let_go(&gpu.fibers[warp * 32], 32, "a shuffle");
    }
    to_host();
    return gpu.fibers[warp * 32 + from].passed[turn];
}

// --- blocks ---------------------------------------------------------------------------------------

extern "C" void gpu_shared(void *memory, size_t bytes)
{
    for (unsigned i = 0; i < gpu.seen_count; i++)
        if (gpu.seen[i] == memory)
            return;
    if (gpu.seen_count == MOST_SHARED)
        abort();
    gpu.seen[gpu.seen_count++] = memory;
    memset(memory, 0xff, bytes);
}

extern "C" void *gpu_dynamic_shared(void)
{
    return gpu.dynamic_shared;
}

// 0, 1, 2 .. in the order asked for.
static void put_in_order(unsigned *order, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        order[i] = gpu.order == GPU_BACKWARD ? count - 1 - i : i;
    if (gpu.order == GPU_SHUFFLED)
        for (unsigned i = count; i > 1; i--) {
            const unsigned other = (unsigned)random_below(&gpu.seed, i), kept = order[i - 1];
            order[i - 1] = order[other];
            order[other] = kept;
        }
}

// Runs a warp until none of its lanes can go on; whether any did.
static bool run_warp(unsigned warp)
{
    unsigned order[32];
    bool moved = false, again = true;
    while (again) {
        again = false;
        put_in_order(order, 32);
        for (unsigned i = 0; i < 32; i++)
            if (gpu.fibers[warp * 32 + order[i]].state == READY) {
                moved = again = true;
                run(warp * 32 + order[i]);
            }
    }
    return moved;
}

// One warp after the other goes as far as it can: the first reaches the next barrier
// before the last has left this one.
static void run_block(size_t shared_bytes)
{
    unsigned order[MOST_THREADS / 32];
    gpu.at_barrier = gpu.ended = gpu.seen_count = 0;
    memset(gpu.at_exchange, 0, sizeof gpu.at_exchange);
    if (shared_bytes)
        memset(gpu.dynamic_shared, 0xff, shared_bytes);
    for (unsigned i = 0; i < gpu.threads; i++) {
        gpu.fibers[i].state = READY;
        gpu.fibers[i].exchanges = 0;
    }
    for (bool moved = true; moved && gpu.ended < gpu.threads;) {
        moved = false;
        put_in_order(order, gpu.threads / 32);
        for (unsigned i = 0; i < gpu.threads / 32; i++)
            moved |= run_warp(order[i]);
    }
    if (gpu.ended < gpu.threads)
        gpu_fail("threads of a block wait for others that ended or wait elsewhere");
}

static struct kernel *find_loaded(const void *function)
{
    for (unsigned i = 0; i < gpu.loaded_count; i++)
        if (gpu.loaded[i].function == function)
            return &gpu.loaded[i];
    return NULL;
}

// Hosts of several threads load.
static pthread_mutex_t loading = PTHREAD_MUTEX_INITIALIZER;

extern "C" enum gpu_status gpu_load(const void *kernel)
{
    pthread_mutex_lock(&loading);
    if (!find_loaded(kernel)) {
        if (gpu.loaded_count == MOST_KERNELS)
            abort();
        gpu.loaded[gpu.loaded_count++] = { kernel, 48 << 10 };
    }
    pthread_mutex_unlock(&loading);
    return GPU_GOOD;
}

extern "C" enum gpu_status gpu_allow_shared(const void *kernel, size_t bytes)
{
    pthread_mutex_lock(&loading);
    struct kernel *loaded = find_loaded(kernel);
    const bool good = loaded && bytes <= 99 << 10;
    if (good)
        loaded->shared_bytes = bytes;
    pthread_mutex_unlock(&loading);
    return good ? GPU_GOOD : GPU_BAD_VALUE;
}

extern "C" enum gpu_status gpu_check(const struct gpu_grid *grid)
{
    pthread_mutex_lock(&loading);
    const struct kernel *loaded = find_loaded(grid->kernel);
    const size_t shared_bytes = loaded ? loaded->shared_bytes : 0;
    pthread_mutex_unlock(&loading);
    if (!loaded) {
        gpu_fail("a kernel is launched that cuda_load_kernels() does not load");
        return GPU_BAD_VALUE;
    }
    if (grid->blocks == 0 || grid->blocks > INT32_MAX || grid->threads == 0 || grid->threads > MOST_THREADS
        || grid->threads % 32 != 0 || grid->shared_bytes > shared_bytes) {
        gpu_fail("a launch of a shape that no GPU takes");
        return GPU_BAD_SHAPE;
    }
    return GPU_GOOD;
}

extern "C" enum gpu_status gpu_run(const struct gpu_grid *grid, const void *arguments)
{
    unsigned *order = (unsigned *)malloc(grid->blocks * sizeof *order);
    gpu.dynamic_shared = malloc(grid->shared_bytes);
    gpu.call = grid->call;
    gpu.arguments = arguments;
    gpu.threads = grid->threads;
    gridDim = dim3(grid->blocks);
    blockDim = dim3(grid->threads);
    threadIdx = dim3(0, 0, 0);
    put_in_order(order, grid->blocks);
    for (unsigned i = 0; i < grid->threads; i++)
        if (gpu.fibers[i].state != ENDED || !gpu.fibers[i].stack)  // new, or stuck in a kernel of before
            start_fiber(&gpu.fibers[i]);
    for (unsigned i = 0; i < grid->blocks && !gpu.trouble[0]; i++) {
        blockIdx = dim3(order[i], 0, 0);
        run_block(grid->shared_bytes);
    }
    free(gpu.dynamic_shared);
    free(order);
    return gpu.trouble[0] ? GPU_BROKE : GPU_GOOD;
}
