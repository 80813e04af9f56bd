// A device that is not present, described by its data sheet and by how much of it kernels reach: the document
// "weir.device" (docs/formats/device.md).
#ifndef PROFILER_ESTIMATE_RATED_DEVICE_H
#define PROFILER_ESTIMATE_RATED_DEVICE_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/text.h"

enum { RATED_MOST_PRODUCTS = 8, RATED_MOST_LEVELS = 4, RATED_NAME = 64 };

// Matrix products of one type.
struct rated_product {
    char dtype[RATED_NAME];
    uint64_t gigaflops;  // at most, per second
    uint64_t permille;   // of this, what large products reach
    // Share of the last wave's idle part that is lost; 1000: the last wave takes as long as a full one
    uint64_t wave_permille;
    uint64_t kernel_ns;  // time of each kernel in addition
};

// Attention in one kernel: `fused` is the vendor's best for this device; `flash` is FlashAttention 2, which is
// written for all devices since A100. 0: the device has none.
struct rated_attention {
    uint64_t forward_permille, backward_permille;  // of the peak of the activations' type
};

struct rated_level {  // innermost first, as in a cluster
    uint64_t size;    // devices, or groups of the level below, in a group
    uint64_t latency_ns;
    uint64_t bytes_per_second;  // of each device, in one direction
    uint64_t permille;          // of this, what collectives reach
    uint64_t message_permille;  // of this, what messages from one device to another reach
};

// Bytes per second of a message from one device to another, without latency.
double rated_message_rate(const struct rated_level *level);

struct rated_device {
    char name[RATED_NAME];
    uint64_t memory_bytes;
    uint64_t reserved_bytes;  // for the driver and libraries
    uint64_t memory_bytes_per_second, memory_permille;
    uint64_t multiprocessors;
    uint64_t kernel_ns;  // time of a kernel in addition to its bytes
    uint64_t host_ns;    // time of the host to launch a kernel
    uint64_t sustained_permille;  // of the speed of products alone, what training reaches
    struct rated_attention fused, flash;
    struct rated_product products[RATED_MOST_PRODUCTS];
    size_t product_count;
    struct rated_level levels[RATED_MOST_LEVELS];
    size_t level_count;
};

// Loads a built-in device by its name, or a file; a text with a "." or a "/" is a file. False with an error.
bool rated_device_load(const char *name_or_path, struct rated_device *device, struct error *error);
bool rated_device_read(const char *text, size_t length, const char *name, struct rated_device *device,
                       struct error *error);
void rated_device_write(const struct rated_device *device, struct text *text);

// The built-in device that a name stands for: h100-sxm for "h100", and otherwise the name itself.
const char *rated_device_named(const char *name);

// Adds the names: "a100-40, a100-80, ..."
void rated_device_names(struct text *text);

// NULL if the device has no products of this type.
const struct rated_product *rated_device_product(const struct rated_device *device, const char *dtype);

// The built-in documents, which the build makes from the folder devices/. The last one is followed by NULL.
extern const char *const rated_device_documents[];

#endif
