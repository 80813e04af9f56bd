#include "runtime/shards/proxy_stages.h"

#include <stdlib.h>

#include "runtime/stages/layer_inputs.h"

// What a layer's functions get as `self`.
struct handing {
    const struct weir_layer *layer;  // NULL: it is followed
    struct shard_group *group;
    struct attendance at;     // of a stage's first copy, forward; backward is `copies` places later
    uint32_t copies;
    uint64_t output_bytes;    // of the last layer of a stage: bytes to hand over; 0: none
    uint64_t gradient_bytes;  // of the first layer, for its input
};

struct proxy_stages {
    uint32_t members;
    struct weir_layer **layers;  // by member, then layer; NULL for members elsewhere
    struct handing *handings;    // [member * layer_count + layer]
};

// --- functions of layers ---------------------------------------------------------------

static bool hand_over(const struct handing *handing, const struct weir_pass *pass, bool is_forward, void *data,
                      uint64_t bytes, struct weir_error *error)
{
    struct attendance attendance = handing->at;
    if (bytes == 0)
        return true;
    attendance.place += pass->copy + (is_forward ? 0 : handing->copies);
    shard_group_hand_over(handing->group, &attendance, pass->queue, data,
                          pass->splits > 1 ? bytes / pass->splits : bytes);
    return shard_group_lets_on(handing->group, error);
}

static bool forward(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    const struct handing *handing = self;
    return (!handing->layer || handing->layer->forward(handing->layer->self, pass, error))
        && hand_over(handing, pass, true, pass->output, handing->output_bytes, error);
}

static bool backward(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    const struct handing *handing = self;
    return (!handing->layer || handing->layer->backward(handing->layer->self, pass, error))
        && hand_over(handing, pass, false, pass->input_gradient, handing->gradient_bytes, error);
}

static bool backward_input(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    const struct handing *handing = self;
    return (!handing->layer || handing->layer->backward_input(handing->layer->self, pass, error))
        && hand_over(handing, pass, false, pass->input_gradient, handing->gradient_bytes, error);
}

static bool backward_weight(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    const struct handing *handing = self;
    return !handing->layer || handing->layer->backward_weight(handing->layer->self, pass, error);
}

static bool initialize(void *self, void *queue, void *parameters, struct weir_error *error)
{
    const struct handing *handing = self;
    return handing->layer->initialize(handing->layer->self, queue, parameters, error);
}

static bool initialize_state(void *self, void *queue, void *state, struct weir_error *error)
{
    const struct handing *handing = self;
    return handing->layer->initialize_state(handing->layer->self, queue, state, error);
}

static bool fold(void *self, const struct weir_fold *fold, struct weir_error *error)
{
    const struct handing *handing = self;
    return handing->layer->fold(handing->layer->self, fold, error);
}

// --- making ------------------------------------------------------------------------------

uint32_t proxy_stages_places(const struct plan *plan, uint32_t copies)
{
    return 2 * (uint32_t)plan->stage_count * copies;
}

static bool has(const struct plan *plan, size_t stage, uint32_t member)
{
    return member < plan_stage_group(&plan->stages[stage]);
}

static struct weir_layer followed_layer(const struct weir_layer *layer, uint64_t output_bytes, bool has_backward)
{
    return (struct weir_layer){ .name = layer->name, .kind = layer->kind, .output_bytes = output_bytes,
                                .most_splits = layer->most_splits, .forward = forward, .backward_input = backward_input,
                                .backward_weight = backward_weight, .backward = has_backward ? backward : NULL };
}

static void wrap(struct weir_layer *layer)
{
    layer->forward = forward;
    layer->backward_input = backward_input;
    layer->backward_weight = backward_weight;
    layer->backward = layer->backward ? backward : NULL;
    layer->initialize = layer->initialize ? initialize : NULL;
    layer->initialize_state = layer->initialize_state ? initialize_state : NULL;
    layer->fold = layer->fold ? fold : NULL;
}

// One layer of a stage, for a member that has it or follows it.
static void put(struct proxy_stages *proxies, const struct proxy_stages_request *request, size_t s, uint32_t l,
                uint32_t member)
{
    const struct plan *plan = request->plan;
    const struct plan_stage *stage = &plan->stages[s];
    const struct weir_layer *given = &request->whole[l];
    const uint32_t group = plan_stage_group(stage);
    struct weir_layer *layer = &proxies->layers[member][l];
    struct handing *handing = &proxies->handings[member * request->layer_count + l];
    const bool is_own = has(plan, s, member), is_last = l + 1 == stage->end, is_first = l == stage->first;
    if (!is_own)
        *layer = followed_layer(given, is_last ? given->output_bytes : 0, given->backward);
    if (group == request->members || (is_own && member > 0))
        return;
    *handing = (struct handing){
        .layer = is_own ? &request->layers[member][l] : NULL, .group = request->group, .copies = request->copies,
        .at = { .place = request->first_place + 2 * (uint32_t)s * request->copies,
                .members = 1 + request->members - group, .member = is_own ? 0 : 1 + member - group },
        .output_bytes = is_last ? given->output_bytes : 0,
        .gradient_bytes = is_first && l > 0 ? request->whole[l - 1].output_bytes : 0,
    };
    if (is_own)
        wrap(layer);
    layer->self = handing;
}

static size_t stage_with(const struct plan *plan, size_t layer)
{
    size_t stage = 0;
    while (plan->stages[stage].end <= layer)
        stage++;
    return stage;
}

static bool ties_hold(const struct proxy_stages_request *request, struct error *error)
{
    const struct plan *plan = request->plan;
    const struct weir_layer *layers = request->whole;
    for (size_t l = 0; l < request->layer_count; l++) {
        if (!layers[l].tied)
            continue;
        const uint32_t group = plan_stage_group(&plan->stages[stage_with(plan, l)]);
        const uint32_t other = plan_stage_group(&plan->stages[stage_with(plan, (size_t)(layers[l].tied - layers))]);
        if (group != other)
            return error_set(error, "layer %s is tied to %s, and their stages are on groups of %u devices and of %u: "
                             "plan with the same variant for both", layers[l].name, layers[l].tied->name, group, other);
    }
    return true;
}

struct proxy_stages *proxy_stages_create(const struct proxy_stages_request *request, struct error *error)
{
    const struct plan *plan = request->plan;
    const size_t count = request->members * request->layer_count;
    struct proxy_stages *proxies = calloc(1, sizeof *proxies);
    if (proxies) {
        proxies->members = request->members;
        proxies->layers = calloc(request->members, sizeof proxies->layers[0]);
        proxies->handings = calloc(count, sizeof proxies->handings[0]);
    }
    bool good = (proxies && proxies->layers && proxies->handings)
             || error_no_memory(error, "the members of groups");
    for (uint32_t m = 0; good && m < request->members; m++) {
        if (!request->layers[m])
            continue;
        proxies->layers[m] = layers_copy(request->layers[m], NULL, request->layer_count, error);
        good = proxies->layers[m] != NULL;
    }
    if (!good || !ties_hold(request, error)) {
        proxy_stages_free(proxies);
        return NULL;
    }
    for (uint32_t m = 0; m < request->members; m++)
        for (size_t s = 0; request->layers[m] && s < plan->stage_count; s++)
            for (uint32_t l = plan->stages[s].first; l < plan->stages[s].end; l++)
                put(proxies, request, s, l, m);
    return proxies;
}

void proxy_stages_free(struct proxy_stages *proxies)
{
    if (!proxies)
        return;
    for (uint32_t m = 0; proxies->layers && m < proxies->members; m++)
        free(proxies->layers[m]);
    free(proxies->layers);
    free(proxies->handings);
    free(proxies);
}

const struct weir_layer *proxy_stages_layers(const struct proxy_stages *proxies, uint32_t member)
{
    return proxies->layers[member];
}
