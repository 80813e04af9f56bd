#include "device/cpu.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "common/large.h"
#include "common/number.h"

enum { ALIGNMENT = 256 };

void cpu_close(struct device *device)
{
    cpu_forget_convolutions(device->own);
    cpu_forget_products(device->own);
    free(device->own);
}

void *cpu_allocate(struct device *device, uint64_t bytes, struct error *error)
{
    // aligned_alloc() wants a multiple of the alignment, and 0 bytes must also give an address.
    const uint64_t whole = bytes == 0 ? ALIGNMENT : round_to_256(bytes);
    void *memory = whole >= bytes && whole <= SIZE_MAX / 2 ? large_aligned_alloc(ALIGNMENT, whole) : NULL;
    char size[NUMBER_SIZE];
    if (!memory)
        error_set_kind(error, ERROR_MACHINE, "no memory for %s on device %s", bytes_format(bytes, size), device->name);
    return memory;
}

void cpu_release(struct device *device, void *memory)
{
    (void)device;
    free(memory);
}

void cpu_zero(struct queue *queue, void *memory, uint64_t bytes)
{
    (void)queue;
    memset(memory, 0, bytes);
}

void cpu_copy(struct queue *queue, void *to, const void *from, uint64_t bytes)
{
    (void)queue;
    if (to != from)
        memcpy(to, from, bytes);
}

static void sleep_until(uint64_t ns)
{
    const struct timespec until = { .tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000) };
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
        continue;
}

// The bytes are there at once, but the call lasts as long as the link would take.
void cpu_transfer(struct queue *queue, void *to, const void *from, uint64_t bytes)
{
    const struct cpu *cpu = queue->device->own;
    const uint64_t begun_ns = cpu->link_rate ? clock_now_ns() : 0;
    cpu_copy(queue, to, from, bytes);
    if (cpu->link_rate)
        sleep_until(add_clamped(begun_ns, transfer_ns(bytes, cpu->link_rate, 0)));
}
