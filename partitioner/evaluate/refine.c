#include "partitioner/evaluate/refine.h"

#include <stdlib.h>

#include "common/json.h"
#include "partitioner/evaluate/belonging.h"

__extension__ typedef unsigned __int128 wide;

// What was planned to take `planned_ns` took `measured_ns`. If `planned_ns` is 0, nothing is known.
struct scale {
    uint64_t planned_ns, measured_ns;
};

// A stage's scales.
struct scales {
    struct scale forward, backward, backward_input, backward_weight;
    bool whole;  // a backward was measured as a whole: its halves share that time
};

// --- how much --------------------------------------------------------------------------

static uint64_t scaled(uint64_t ns, struct scale scale)
{
    if (scale.planned_ns == 0)
        return ns;
    const wide whole = ((wide)ns * scale.measured_ns + scale.planned_ns / 2) / scale.planned_ns;
    return whole > JSON_MAX ? JSON_MAX + 1 : (uint64_t)whole;  // profile_overflow_at() refuses it
}

// For a backward that also runs layers again: the scale without these. They are taken to be as much slower as
// forwards.
static struct scale without_recompute(struct scale scale, uint64_t own_ns, struct scale forward)
{
    const uint64_t again_ns = scale.planned_ns > own_ns ? scaled(scale.planned_ns - own_ns, forward) : 0;
    if (again_ns >= scale.measured_ns)
        return scale;
    return (struct scale){ own_ns < scale.planned_ns ? own_ns : scale.planned_ns, scale.measured_ns - again_ns };
}

static struct scale sum_of(struct scale a, struct scale b)
{
    return (struct scale){ a.planned_ns + b.planned_ns, a.measured_ns + b.measured_ns };
}

static struct scales stage_scales(const struct cost_row *costs, uint32_t stage, const struct deviation_row *rows,
                                  size_t row_count)
{
    struct scale by_kind[CLASSES] = { { 0 } };
    for (size_t i = 0; i < row_count; i++) {
        if (rows[i].stage == stage)
            by_kind[rows[i].kind] = (struct scale){ rows[i].planned_ns, rows[i].measured_ns };
    }
    const struct scale backward = without_recompute(by_kind[ACTION_B], costs->backward_ns, by_kind[ACTION_F]);
    const struct scale input = without_recompute(by_kind[ACTION_I], costs->backward_input_ns, by_kind[ACTION_F]);
    if (by_kind[ACTION_B].planned_ns > 0)
        return (struct scales){ by_kind[ACTION_F], backward, backward, backward, true };
    return (struct scales){ by_kind[ACTION_F], sum_of(input, by_kind[ACTION_W]), input, by_kind[ACTION_W], false };
}

// --- layers ------------------------------------------------------------------------------

// For layers one after the other: what rounding takes from one goes to the next, so that the sum is right.
struct carry {
    uint64_t before_ns;
};

static uint64_t next_scaled(struct carry *carry, uint64_t ns, struct scale scale)
{
    const uint64_t from = scaled(carry->before_ns, scale);
    carry->before_ns += ns;
    const uint64_t to = scaled(carry->before_ns, scale);
    return to > JSON_MAX ? JSON_MAX + 1 : to - from;
}

static void scale_spread(struct profile_layer *layer, enum phase phase, struct scale scale)
{
    struct spread *spread = &layer->spread[phase];
    if (layer->has_spread[phase])
        *spread = (struct spread){ scaled(spread->min_ns, scale), scaled(spread->median_ns, scale),
                                   scaled(spread->p95_ns, scale) };
}

static void scale_layer(struct profile_layer *layer, const struct scales *scales, struct carry carries[PHASES])
{
    const struct scale by_phase[PHASES] = { [PHASE_FORWARD] = scales->forward,
                                            [PHASE_BACKWARD_INPUT] = scales->backward_input,
                                            [PHASE_BACKWARD_WEIGHT] = scales->backward_weight,
                                            [PHASE_BACKWARD] = scales->backward, [PHASE_RECOMPUTE] = scales->forward };
    uint64_t *const times[PHASES] = { [PHASE_FORWARD] = &layer->forward_ns,
                                      [PHASE_BACKWARD_INPUT] = &layer->backward_input_ns,
                                      [PHASE_BACKWARD_WEIGHT] = &layer->backward_weight_ns,
                                      [PHASE_BACKWARD] = &layer->backward_ns,
                                      [PHASE_RECOMPUTE] = &layer->recompute_ns };
    for (unsigned phase = 0; phase < PHASES; phase++) {
        *times[phase] = next_scaled(&carries[phase], *times[phase], by_phase[phase]);
        scale_spread(layer, (enum phase)phase, by_phase[phase]);
    }
    if (layer->has_backward)
        return;
    if (scales->whole && layer->backward_input_ns > layer->backward_ns)
        layer->backward_input_ns = layer->backward_ns;  // both were rounded
    if (scales->whole)
        layer->backward_weight_ns = layer->backward_ns - layer->backward_input_ns;
    else
        layer->backward_ns = layer->backward_input_ns + layer->backward_weight_ns;
}

static bool scale_stage(struct profile *profile, const struct plan *plan, uint32_t number, const struct scales *scales,
                        struct error *error)
{
    const struct plan_stage *stage = &plan->stages[number];
    struct carry carries[PHASES] = { { 0 } };
    for (uint32_t i = 0; i < stage->end - stage->first; i++) {
        const uint32_t found = profile_find_layer(profile, stage->layers[i]);
        if (found == profile->layer_count)
            return error_set(error, "stage %u of the plan has layer %s, which the profile has not", number,
                             stage->layers[i]);
        struct profile_layer *layer = &profile->layers[found];
        scale_layer(layer, scales, carries);
        for (size_t v = 0; v < layer->variant_count; v++)
            scale_layer(&layer->variants[v].layer, scales, (struct carry[PHASES]){ { 0 } });
    }
    return true;
}

// --- the profile ---------------------------------------------------------------------------

static uint64_t sum_of_layers(const struct profile *profile)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < profile->layer_count; i++)
        sum += profile->layers[i].forward_ns + profile->layers[i].backward_ns;
    return sum;
}

static bool note(struct profile *profile, const struct plan *plan, struct error *error)
{
    struct text notes = { 0 };
    if (profile->notes)
        text_add(&notes, "%s ", profile->notes);
    text_add(&notes, "Times were scaled, stage by stage, to what a run took (%s, %u ranks, %u micro-batches).",
             plan->schedule, plan->ranks, plan->micro_batches);
    if (notes.failed)
        return error_no_memory(error, "a profile");
    free(profile->notes);
    profile->notes = notes.data;
    return true;
}

bool profile_refine(struct profile *profile, const struct plan *plan, const struct deviation_row *rows,
                    size_t row_count, struct error *error)
{
    const struct plan_company with = { profile->model, profile->hash };
    const unsigned asked = BELONGS_BY_MODEL | BELONGS_BY_PROFILE;
    const uint64_t before_ns = sum_of_layers(profile);
    const char *of_what;
    struct text said = { 0 };  // stays empty: all that is asked is refused
    if (!plan_belongs(plan, with, asked, asked, &said, error))
        return false;
    for (uint32_t s = 0; s < plan->stage_count; s++) {
        const struct scales scales = stage_scales(&plan->stages[s].costs, s, rows, row_count);
        if (!scale_stage(profile, plan, s, &scales, error))
            return false;
    }
    const size_t over = profile_overflow_at(profile, &of_what);
    if (over < profile->layer_count)
        return error_set(error, "layer %s: its %s, scaled as the run was, pass 2^53 - 1", profile->layers[over].name,
                         of_what);
    const struct scale whole = { before_ns, sum_of_layers(profile) };
    profile->source.whole_ns = scaled(profile->source.whole_ns, whole);
    profile->source.sum_ns = profile->source.sum_ns ? whole.measured_ns : 0;
    return note(profile, plan, error) && profile_rehash(profile, error);
}
