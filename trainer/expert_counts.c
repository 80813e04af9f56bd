#include "trainer/expert_counts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/expert_kernels.h"

static size_t layers_of_experts(const struct model *model)
{
    size_t count = 0;
    for (size_t l = 0; l < model->layer_count; l++)
        count += layer_chooses_experts(&model->layers[l]);
    return count;
}

// The statistics among the states of a layer, which are its last (router.c).
static const float *statistics_of(const struct layer *layer, const void *state)
{
    struct weir_tensor states[LAYER_TENSORS];
    const size_t count = layer_states(layer, states);
    return (const float *)(const void *)((const char *)state + states[count - 1].first_byte);
}

static bool take(struct expert_counts *to, const struct layer *layer, const void *state, struct error *error)
{
    const size_t experts = layer->shape.experts.router.experts;
    const struct routing_sums sums = routing_sums(statistics_of(layer, state), experts);
    double all = 0;
    *to = (struct expert_counts){ .experts = experts, .counts = calloc(experts, sizeof *to->counts) };
    if (!to->counts)
        return error_no_memory(error, "the counts of experts");
    layer_experts_name(layer, to->layer);
    memcpy(to->counts, sums.counts, experts * sizeof *to->counts);
    for (size_t e = 0; e < experts; e++)
        all += (double)sums.counts[e];
    to->dropped = all > 0 ? (double)sums.dropped / all : 0;
    to->auxiliary = sums.micro_batches > 0 ? (double)sums.auxiliary / (double)sums.micro_batches : 0;
    to->z = sums.micro_batches > 0 ? (double)sums.z / (double)sums.micro_batches : 0;
    return true;
}

static bool read_one(const struct pipeline *pipeline, const struct layer *layer, struct expert_counts *to,
                     struct error *error)
{
    void *state = calloc(1, layer_sizes(layer).state_bytes);
    const bool good = (state || error_no_memory(error, "the counts of experts"))
        && pipeline_read_state(pipeline, layer->index, 0, state, error) && take(to, layer, state, error);
    free(state);
    return good;
}

bool expert_counts_read(const struct pipeline *pipeline, const struct model *model, struct expert_counts **all,
                        size_t *count, struct error *error)
{
    const size_t layers = layers_of_experts(model);
    bool good = true;
    *count = 0;
    *all = NULL;
    if (layers == 0)
        return true;
    *all = calloc(layers, sizeof **all);
    if (!*all)
        return error_no_memory(error, "the counts of experts");
    for (size_t l = 0; good && l < model->layer_count; l++)
        if (layer_chooses_experts(&model->layers[l]))
            good = read_one(pipeline, &model->layers[l], &(*all)[(*count)++], error);
    return good;
}

void expert_counts_free(struct expert_counts *all, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free(all[i].counts);
    free(all);
}

// The most and the least that an expert has, as so many times the even share.
static void find_extremes(const struct expert_counts *one, double *most, double *least)
{
    double sum = 0, high = 0, low = (double)one->counts[0];
    for (size_t e = 0; e < one->experts; e++) {
        const double own = (double)one->counts[e];
        sum += own;
        high = own > high ? own : high;
        low = own < low ? own : low;
    }
    const double even = sum > 0 ? sum / (double)one->experts : 1;
    *most = high / even;
    *least = low / even;
}

void expert_counts_print(const struct expert_counts *all, size_t count, struct text *text)
{
    if (count > 0)
        text_add(text, "  %-28s %13s %13s %9s %9s %9s\n", "experts in the last update", "fullest", "emptiest",
                 "dropped", "balance", "z");
    for (size_t i = 0; i < count; i++) {
        double most, least;
        find_extremes(&all[i], &most, &least);
        text_add(text, "  %-28s %5.2f of even %5.2f of even %7.1f %% %9.3f %9.3f\n", all[i].layer, most, least,
                 100 * all[i].dropped, all[i].auxiliary, all[i].z);
    }
}
