// A device that is not here, by its data sheet and by how much of it kernels get: the document "weir.device"
// (docs/formats/device.md).
#ifndef PROFILER_ESTIMATE_RATED_DEVICE_H
#define PROFILER_ESTIMATE_RATED_DEVICE_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/text.h"

enum { RATED_MOST_PRODUCTS = 8, RATED_MOST_LEVELS = 4, RATED_NAME = 64 };

// Products of matrices of one type.
struct rated_product {
    char dtype[RATED_NAME];
    uint64_t gigaflops;  // per second, at most
    uint64_t permille;   // of them, that large products get
    uint64_t wave_permille;  // of the rest of the last wave of tiles that is lost: 1000, as if all of it were full
    uint64_t kernel_ns;  // what each takes besides
};

// Attention in one kernel: the vendor's best for this device, and FlashAttention 2, which is written for all since A100.
// 0: the device has none.
struct rated_attention {
    uint64_t forward_permille, backward_permille;  // of the peak of the activations' type
};

struct rated_level {  // innermost first, as a cluster's
    uint64_t size;    // devices, or groups of the level below
    uint64_t latency_ns;
    uint64_t bytes_per_second;  // of each device, in one direction
    uint64_t permille;          // of it, that collectives get
    uint64_t message_permille;  // of it, that messages from one device to another get
};

// Of a message from one device to another, without latency: bytes per second.
double rated_message_rate(const struct rated_level *level);

struct rated_device {
    char name[RATED_NAME];
    uint64_t memory_bytes;
    uint64_t reserved_bytes;  // what the driver and libraries take
    uint64_t memory_bytes_per_second, memory_permille;
    uint64_t multiprocessors;
    uint64_t kernel_ns;  // what a kernel takes besides its bytes
    uint64_t host_ns;    // what the host takes to launch one
    uint64_t sustained_permille;  // of the speed of products alone, that training gets
    struct rated_attention fused, flash;
    struct rated_product products[RATED_MOST_PRODUCTS];
    size_t product_count;
    struct rated_level levels[RATED_MOST_LEVELS];
    size_t level_count;
};

// One of the built-in ones by its name, or a file's: what has a "." or a "/" is a file.
bool rated_device_load(const char *name_or_path, struct rated_device *device, struct error *error);
bool rated_device_read(const char *text, size_t length, const char *name, struct rated_device *device,
                       struct error *error);
void rated_device_write(const struct rated_device *device, struct text *text);

// "a100-40, a100-80, ..."
void rated_device_names(struct text *text);

// NULL where it has none of this type.
const struct rated_product *rated_device_product(const struct rated_device *device, const char *dtype);

// The built-in documents, which the build makes of the folder devices/; a NULL behind the last.
extern const char *const rated_device_documents[];

#endif
