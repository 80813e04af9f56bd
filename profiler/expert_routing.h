// How tokens are routed to experts: counted in real micro-batches, for planners of experts. It is the member "routing"
// of the profile document (docs/formats/profile.md).
#ifndef PROFILER_EXPERT_ROUTING_H
#define PROFILER_EXPERT_ROUTING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/hash.h"

struct json;
struct json_writer;
struct text;

enum { ROUTING_MOST_BATCHES = 1 << 16, ROUTING_MOST_EXPERTS = 4096, ROUTING_MOST_LAYERS = 4096,
       ROUTING_MEMBERS = 1024,
       ROUTING_COPIED = ROUTING_MEMBERS };  // in place of the device of an expert: all of its group have it

struct layer_routing {
    char *layer;
    uint32_t experts, top;  // choices of a token
    uint64_t pairs;         // of a micro-batch: tokens times `top`
    uint32_t *counts;       // [batches][experts]: the pairs of each expert, with those that a capacity drops
    uint64_t capacity;      // pairs of a micro-batch that an expert takes; 0: all
    // The rest only if a run has counted:
    uint32_t *members;      // the device of each expert in its group, or ROUTING_COPIED; NULL: all are on one
    uint64_t dropped;       // pairs of all micro-batches that were dropped
    // Exchanges of rows in the last pass, and how long all of them took; 0: not timed
    uint64_t exchanges, exchange_ns;
};

struct profile_routing {
    char data[HASH_SIZE];     // of the text
    char weights[HASH_SIZE];  // of the checkpoint; empty: the model's first weights
    uint64_t seed;            // of the choice of sequences
    // If a run has counted, whose weights changed meanwhile: it did so after the first of these steps, up to the
    // second. Both 0: the weights were as they are named above
    uint64_t first_step, end_step;
    uint64_t batches;         // micro-batches
    struct layer_routing *layers;
    size_t layer_count;
};

// With room for so many layers, zeroed; NULL if memory runs out. Likewise a copy. Freed by routing_free().
struct profile_routing *routing_create(size_t layers);
struct profile_routing *routing_copy(const struct profile_routing *routing);
void routing_free(struct profile_routing *routing);

// Reads the member of a profile. Errors are noted in the document, whose reader checks them, and that the profile has
// the layers. NULL if memory runs out.
struct profile_routing *routing_read(struct json *root);
void routing_write(const struct profile_routing *routing, struct json_writer *writer);

// The pairs of an expert: the mean over all micro-batches in thousandths, and what at least 95 % of them do not exceed.
uint64_t routing_mean_milli(const struct profile_routing *routing, const struct layer_routing *layer, uint32_t expert);
uint32_t routing_p95(const struct profile_routing *routing, const struct layer_routing *layer, uint32_t expert);

// The share of all pairs, in millionths, that is dropped if each expert takes at most `capacity` of a micro-batch.
uint64_t routing_dropped_ppm(const struct profile_routing *routing, const struct layer_routing *layer,
                             uint64_t capacity);
// The same of all layers, each by its own capacity.
uint64_t routing_all_dropped_ppm(const struct profile_routing *routing);

// What `count` members have to do, summed over all micro-batches. An expert takes at most `capacity` pairs of one, or
// all if that is 0. `members` has the member of each expert, or ROUTING_COPIED. The counts do not say which member's
// tokens chose a copied expert. So each member has an even share of its pairs, rounded up.
struct routing_load {
    uint64_t slowest;  // pairs of the member with most of them
    uint64_t sent;     // likewise, without those of copied experts, which stay where their tokens are
    uint64_t dropped;
};
struct routing_load routing_load(const struct profile_routing *routing, const struct layer_routing *layer,
                                 const uint32_t *members, uint32_t count, uint64_t capacity);
// The slowest over the even share of one of so many members, in thousandths.
uint64_t routing_slowest_milli(const struct profile_routing *routing, const struct layer_routing *layer,
                               const uint32_t *members, uint32_t count, uint64_t capacity);

// That of a layer, or NULL.
const struct layer_routing *routing_find(const struct profile_routing *routing, const char *layer);

// Appends a table of them.
void routing_print(const struct profile_routing *routing, struct text *text);

#endif
