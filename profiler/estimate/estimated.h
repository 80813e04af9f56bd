// What a profile was estimated for: the model, how devices share it, and how its layers are computed. The member
// "estimate" of the profile document (docs/formats/profile.md), so that whoever has the profile can say all of it.
#ifndef PROFILER_ESTIMATE_ESTIMATED_H
#define PROFILER_ESTIMATE_ESTIMATED_H

#include "profiler/estimate/estimate.h"

struct json;
struct text;
struct json_writer;

struct estimated {
    struct transformer model;
    struct estimate_request request;  // but for its micro-batch and its dtype, which are the profile's, its products, and
    char products[RATED_NAME];        // whole_blocks, which no_cut_after says; these: "fp8", or as dtype where empty
};

// Freed by free(); NULL without memory.
struct estimated *estimated_of(const struct estimate *estimate);
struct estimated *estimated_copy(const struct estimated *estimated);

// A member of the profile. Answers are checked by whoever reads the document; NULL without memory.
struct estimated *estimated_read(struct json *root, const char *key);
// All of the model, in words: "layers 32, hidden 4096, .., gated, rotary".
void estimated_say_model(const struct estimated *estimated, struct text *text);

void estimated_write(const struct estimated *estimated, struct json_writer *writer, const char *key);

#endif
