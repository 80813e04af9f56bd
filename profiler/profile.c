#include "profiler/profile.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "profiler/expert_routing.h"
#include "profiler/table_reads.h"

static void clear_layer(struct profile_layer *layer)
{
    for (size_t i = 0; i < layer->variant_count; i++)
        clear_layer(&layer->variants[i].layer);
    free(layer->variants);
    free(layer->receives);
    free(layer->sends);
    free(layer->shapes);
    free(layer->name);
    free(layer->kind);
}

void profile_free(struct profile *profile)
{
    if (!profile)
        return;
    for (size_t i = 0; i < profile->layer_count; i++)
        clear_layer(&profile->layers[i]);
    free(profile->layers);
    free(profile->edges);
    free(profile->tied);
    free(profile->one_owner);
    free(profile->no_cut_after);
    free(profile->estimated);
    reads_free(profile->reads);
    routing_free(profile->routing);
    free(profile->source.device);
    free(profile->source.clock);
    free(profile->notes);
    free(profile->dtype);
    free(profile->model);
    free(profile);
}

struct profile *profile_create(const char *model, const char *dtype, uint64_t micro_batch, size_t layer_count,
                               struct error *error)
{
    assert(layer_count > 0);
    struct profile *profile = calloc(1, sizeof *profile);
    if (profile) {
        profile->micro_batch = micro_batch;
        profile->is_chain = true;
        profile->model = strdup(model);
        profile->dtype = strdup(dtype);
        profile->source.device = strdup("");
        profile->source.clock = strdup("");
        profile->layers = calloc(layer_count, sizeof profile->layers[0]);
        profile->layer_count = profile->layers ? layer_count : 0;
        if (profile->model && profile->dtype && profile->source.device && profile->source.clock && profile->layers)
            return profile;
    }
    profile_free(profile);
    return error_null(error_no_memory(error, "a profile"));
}

int edges_compare(const void *a, const void *b)
{
    const struct edge *left = a, *right = b;
    if (left->from != right->from)
        return left->from < right->from ? -1 : 1;
    return (left->to > right->to) - (left->to < right->to);
}

bool profile_rehash(struct profile *profile, struct error *error)
{
    struct text text = { 0 };
    profile_write(profile, &text);
    const bool good = text_ok(&text, "a profile", error);
    if (good)
        hash_bytes(text.data, text.length, profile->hash);
    text_clear(&text);
    return good;
}

bool profile_add_note(struct profile *profile, const char *sentence, struct error *error)
{
    struct text notes = { 0 };
    text_add(&notes, "%s%s%s", profile->notes ? profile->notes : "", profile->notes ? " " : "", sentence);
    free(profile->notes);
    profile->notes = text_take(&notes, error);
    return profile->notes && profile_rehash(profile, error);
}

size_t profile_overflow_at(const struct profile *profile, const char **of_what)
{
    uint64_t ns = 0, bytes = 0;
    for (size_t i = 0; i < profile->layer_count; i++) {
        const struct profile_layer *layer = &profile->layers[i];
        const uint64_t apart_ns = layer->backward_input_ns + layer->backward_weight_ns;
        ns += layer->forward_ns + (apart_ns > layer->backward_ns ? apart_ns : layer->backward_ns)
            + (layer->has_recompute ? layer->recompute_ns : 0) + layer->update_ns;
        bytes += layer->parameter_bytes + layer->output_bytes + profile_kept_bytes(layer) + layer->held_for_weight_bytes
               + layer->state_bytes + layer->statistics_bytes;
        *of_what = ns > JSON_MAX ? "times" : "sizes";
        if (ns > JSON_MAX || bytes > JSON_MAX)
            return i;
    }
    return profile->layer_count;
}

bool profile_has_sequences(const struct profile *profile)
{
    if (profile->sequences != SEQUENCES_UNSAID)
        return profile->sequences == SEQUENCES_SOME;
    for (size_t l = 0; l < profile->layer_count; l++)
        if (profile->layers[l].shared_by_parts_bytes > 0 || strcmp(profile->layers[l].kind, "attention") == 0)
            return true;
    return false;
}

uint32_t profile_find_layer(const struct profile *profile, const char *name)
{
    uint32_t i = 0;
    while (i < profile->layer_count && strcmp(profile->layers[i].name, name) != 0)
        i++;
    return i;
}

bool profile_can_cut_after(const struct profile *profile, size_t layer)
{
    for (size_t i = 0; i < profile->no_cut_count; i++)
        if (profile->no_cut_after[i] == layer)
            return false;
    return true;
}
