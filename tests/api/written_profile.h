// The document of a profile of layers alike in kind, as a binding writes it.
#ifndef TESTS_API_WRITTEN_PROFILE_H
#define TESTS_API_WRITTEN_PROFILE_H

#include <string.h>

#include "api/weir.h"
#include "common/text.h"
#include "tests/test.h"

// Layer l takes 1 + l % 3 ms forward, twice that backward, and as many times 64 KiB of parameters.
static inline char *written_profile(unsigned layers)
{
    struct text text = { 0 };
    unsigned sum = 0;
    for (unsigned l = 0; l < layers; l++)
        sum += 3 * (1 + l % 3);
    text_add(&text, "{\"format\": \"weir.profile\", \"version\": 1, \"model\": \"made\", \"micro_batch\": 4, "
                    "\"dtype\": \"fp32\", \"source\": {\"how\": \"imported\", \"device\": \"cpu\", "
                    "\"clock\": \"none\", \"repeats\": 20, \"sum_ns\": %u000000, \"whole_ns\": 0, \"backward_split\": \"measured\"}, "
                    "\"layers\": [", sum);
    for (unsigned l = 0; l < layers; l++) {
        const unsigned size = 1 + l % 3;
        text_add(&text, "%s{\"name\": \"layer%u\", \"kind\": \"linear\", \"forward_ns\": %u000000, "
                        "\"backward_input_ns\": %u000000, \"backward_weight_ns\": %u000000, \"parameter_bytes\": %u, "
                        "\"output_bytes\": 16384, \"saved_bytes\": %u, \"input_kept\": \"weight\", "
                        "\"held_for_weight_bytes\": 16384, \"workspace_bytes\": 0, "
                        "\"backward_workspace_bytes\": 0, \"flops\": 0}", l ? ", " : "", l, size, size, size,
                 65536 * size, 16384 * size);
    }
    text_add(&text, "]}");
    assert_false(text.failed);
    return text.data;
}

static inline struct weir_profile *made_profile(unsigned layers)
{
    struct weir_error error = { 0 };
    char *text = written_profile(layers);
    struct weir_profile *profile = weir_profile_read(text, strlen(text), "made.json", &error);
    assert_good(profile, error);
    free(text);
    return profile;
}

static const char *const small_cluster = "2 devices, 16MiB, 10GB/s 10us";

static inline struct weir_plan *made_plan(const struct weir_profile *profile, const char *schedule)
{
    struct weir_error error = { 0 };
    const struct weir_partition_options planning = { .size = sizeof planning, .cluster = small_cluster,
                                                     .schedule = schedule, .micro_batches = 4 };
    struct weir_plan *plan = weir_partition(profile, &planning, &error);
    assert_good(plan, error);
    return plan;
}

#endif
