// The words of the plan document that its reader and its writer share.
#ifndef PARTITIONER_PLAN_PLAN_WORDS_H
#define PARTITIONER_PLAN_PLAN_WORDS_H

#include <stddef.h>

#include "common/json.h"
#include "partitioner/plan/plan.h"

static const char *const plan_by_names[] = { "enumeration", "dual", "solver", NULL };

// Writes and reads the key "certificate". A certificate that contradicts its own numbers is refused.
void certificate_write(struct json_writer *writer, const struct certificate *certificate);
void certificate_read(struct json *root, struct certificate *certificate);

// A number of a struct and its key, in the order in which they are written.
struct plan_field {
    const char *key;
    size_t offset;
};

#define PLAN_MEMORY(name) { #name, offsetof(struct stage_memory, name) }
static const struct plan_field plan_memory_fields[] = {
    PLAN_MEMORY(weights_bytes), PLAN_MEMORY(gradients_bytes), PLAN_MEMORY(optimizer_bytes),
    PLAN_MEMORY(versions_bytes), PLAN_MEMORY(kept_bytes), PLAN_MEMORY(transient_bytes),
    PLAN_MEMORY(buffers_bytes), PLAN_MEMORY(live_peak_bytes), PLAN_MEMORY(peak_bytes),
    PLAN_MEMORY(capacity_bytes), PLAN_MEMORY(host_bytes),
};

// The last of them, host_bytes, is there only if the storage is not plain.
static inline size_t plan_memory_field_count(const struct plan *plan)
{
    return sizeof plan_memory_fields / sizeof plan_memory_fields[0] - storage_is_plain(&plan->storage);
}

#endif
