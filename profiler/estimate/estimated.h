// What a profile was estimated for: the model, how devices share it, and how its layers are computed. It is the
// member "estimate" of the profile document (docs/formats/profile.md), so that a reader of the profile has all of it.
#ifndef PROFILER_ESTIMATE_ESTIMATED_H
#define PROFILER_ESTIMATE_ESTIMATED_H

#include "profiler/estimate/estimate.h"

struct json;
struct text;
struct json_writer;

struct estimated {
    struct transformer model;
    // Except micro_batch and dtype (the profile's), products, and whole_blocks (no_cut_after)
    struct estimate_request request;
    char products[RATED_NAME];        // the products' type, such as "fp8"; empty: dtype
};

// Both return a copy that the caller frees with free(); NULL if memory runs out.
struct estimated *estimated_of(const struct estimate *estimate);
struct estimated *estimated_copy(const struct estimated *estimated);

// Reads a member of the profile. Errors are noted in the document, whose reader checks them. NULL if memory runs out.
struct estimated *estimated_read(struct json *root, const char *key);
// Describes the whole model in words: "layers 32, hidden 4096, .., gated, rotary".
void estimated_say_model(const struct estimated *estimated, struct text *text);

void estimated_write(const struct estimated *estimated, struct json_writer *writer, const char *key);

#endif
