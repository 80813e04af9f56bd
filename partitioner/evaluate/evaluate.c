#include "partitioner/evaluate/evaluate.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/number.h"
#include "partitioner/cost/predict.h"
#include "partitioner/cost/variant.h"
#include "partitioner/evaluate/belonging.h"
#include "partitioner/evaluate/evaluate_storage.h"
#include "partitioner/evaluate/evaluate_slots.h"

// --- what is compared ----------------------------------------------------------------

// `source` is what the plan is compared with.
static bool same_by(const char *source, uint64_t stated, uint64_t found, struct error *error, size_t stage,
                    const char *what)
{
    return stated == found
        || error_set_kind(error, ERROR_ANSWER, "stages[%zu].%s: the plan says %" PRIu64 ", its %s %" PRIu64, stage,
                          what, stated, source, found);
}

static bool same(uint64_t stated, uint64_t found, struct error *error, size_t stage, const char *what)
{
    return same_by("profile gives", stated, found, error, stage, what);
}

// Fractions are written with six decimals.
static bool same_fraction(double stated, double found, struct error *error, const char *what)
{
    return fabs(stated - found) <= 0.0000011
        || error_set_kind(error, ERROR_ANSWER, "%s: the plan says %.6f, its costs give %.6f", what, stated, found);
}

struct evaluation {
    const struct plan *plan;
    const struct profile *profile;
    struct replay replay;
};

// --- one stage -------------------------------------------------------------------------

static uint64_t scaled(uint64_t ns, uint64_t speed_permille)
{
    const unsigned __int128 product = (unsigned __int128)ns * 1000;
    return (uint64_t)((product + speed_permille - 1) / speed_permille);
}

// The lowest speed and the least memory of all devices that hold the stage.
static struct cluster_device least_device(const struct plan *plan, const struct plan_stage *stage)
{
    struct cluster_device least = { .speed_permille = UINT64_MAX, .memory_bytes = UINT64_MAX };
    for (size_t i = 0; i < plan_stage_seats(stage); i++) {
        const struct cluster_device *device = &plan->cluster->devices[stage->devices[i]];
        least.speed_permille = min_u64(least.speed_permille, device->speed_permille);
        least.memory_bytes = min_u64(least.memory_bytes, device->memory_bytes);
    }
    return least;
}

// Whether the runtime has exchanged what a layer of the stage reads by a message from the stage's rank to itself.
static bool is_exchanged(const struct evaluation *evaluation, size_t s, uint32_t l)
{
    const struct profile *profile = evaluation->profile;
    const struct plan_stage *stage = &evaluation->plan->stages[s];
    const struct placement *placement = evaluation->replay.placement;
    bool is_read_across = evaluation->replay.lowered->exchanges && s > 0
        && l >= stage->first && l < stage->end && profile_layer_reads_exchanged(&profile->layers[l])
        && placement_rank(placement, (uint32_t)s, 0) == placement_rank(placement, (uint32_t)s - 1, 0);
    for (uint32_t from = stage->first; from < l && is_read_across; from++) {
        is_read_across = !(profile->is_chain && from + 1 == l);
        for (size_t i = 0; i < profile->edge_count && is_read_across; i++)
            is_read_across = profile->edges[i].from != from || profile->edges[i].to != l;
    }
    return is_read_across;
}

// What the message takes that brings vectors to the stage, and gradients back.
static uint64_t exchange_time(const struct evaluation *evaluation, size_t s)
{
    uint64_t ns = 0;
    for (uint32_t l = 0; s < evaluation->plan->stage_count && l < evaluation->profile->layer_count; l++) {
        const struct profile_layer *layer = &evaluation->profile->layers[l];
        const char *name = evaluation->plan->stages[s].variant;
        for (size_t v = 0; name && v < layer->variant_count; v++)
            if (strcmp(layer->variants[v].layer.name, name) == 0 && is_exchanged(evaluation, s, l))
                ns += layer->variants[v].communication_ns;
    }
    return ns;
}

// Replaces the layers' own numbers by those of the variant that the stage names, in a copy of the layers. Only this
// copy is freed of `copy`. Every layer keeps its output, unless devices have shares of it.
static bool take_variant(const struct evaluation *evaluation, size_t s, struct profile *copy, struct error *error)
{
    const struct plan_stage *stage = &evaluation->plan->stages[s];
    uint32_t group = stage->variant ? 0 : 1;
    for (size_t l = 0; stage->variant && l < copy->layer_count; l++) {
        struct profile_layer *layer = &copy->layers[l];
        for (size_t v = 0; v < layer->variant_count; v++) {
            const struct profile_variant *variant = &layer->variants[v];
            if (strcmp(variant->layer.name, stage->variant) != 0)
                continue;
            struct profile_layer with = variant->layer;
            const uint64_t within_ns = is_exchanged(evaluation, s, (uint32_t)l) ? 0 : variant->communication_ns;
            with.forward_ns += within_ns;
            with.backward_ns += within_ns;
            with.backward_input_ns += within_ns;
            with.recompute_ns += within_ns;
            with.update_ns = variant->update_ns;
            if (!variant->shares_output)
                with.output_bytes = layer->output_bytes;
            with.receives = layer->receives;
            with.receive_count = layer->receive_count;
            with.sends = layer->sends;
            with.send_count = layer->send_count;
            *layer = with;
            group = variant->devices > 1 ? variant->devices : 1;
            break;
        }
    }
    return group == plan_stage_group(stage)
        || error_set_kind(error, ERROR_ANSWER, "stages[%zu].devices: groups of %u, but its variant takes %u", s,
                          plan_stage_group(stage), group);
}

static bool check_times(const struct scope *scope, const struct sizes *sizes, uint64_t speed, size_t s,
                        struct error *error)
{
    uint64_t f = 0, b = 0, i = 0, w = 0, r = 0;
    for (uint32_t l = scope->first; l < scope->end; l++) {
        const struct profile_layer *layer = &scope->profile->layers[l];
        f += layer->forward_ns;
        b += layer->backward_ns;
        i += layer->backward_input_ns;
        w += layer->backward_weight_ns;
        if (evaluate_is_recomputed(scope, l))
            r += layer->has_recompute ? layer->recompute_ns : layer->forward_ns;
    }
    const struct cost_row *row = &scope->stage->costs;
    const struct added_times added = evaluate_added_times(scope, sizes);
    return same(row->forward_ns, scaled(f, speed) + added.forward_ns, error, s, "costs.forward_ns")
        && same(row->backward_ns, scaled(b, speed) + added.backward_ns, error, s, "costs.backward_ns")
        && same(row->backward_input_ns, scaled(i, speed) + added.backward_input_ns, error, s,
                "costs.backward_input_ns")
        && same(row->backward_weight_ns, scaled(w, speed) + added.backward_weight_ns, error, s,
                "costs.backward_weight_ns")
        && same(row->recompute_ns, scaled(r, speed), error, s, "costs.recompute_ns")
        && same(row->step_ns, added.step_ns, error, s, "costs.step_ns")
        && same(row->reduce_ns, evaluate_reduce_time(scope), error, s, "costs.reduce_ns")
        && same(row->move_ns, added.move_ns, error, s, "costs.move_ns");
}

static bool check_row_bytes(const struct scope *scope, const struct sizes *sizes, size_t s, struct error *error)
{
    const struct cost_row *row = &scope->stage->costs;
    const uint64_t moved = scope->plan->storage.activations_on_host ? sizes->kept + sizes->kept_through : 0;
    const uint64_t through = sizes->kept_through + (sizes->life == INPUT_UNTIL_W ? sizes->input : 0);
    const uint64_t forward = sizes->kept + through + (sizes->life == INPUT_UNTIL_I ? sizes->input : 0);
    return same(row->output_bytes, sizes->output, error, s, "costs.output_bytes")
        && same(row->kept_forward_bytes, forward, error, s, "costs.kept_forward_bytes")
        && same(row->kept_weight_bytes, sizes->held + through, error, s, "costs.kept_weight_bytes")
        && same(row->again_bytes, sizes->again, error, s, "costs.again_bytes")
        && same(row->moved_bytes, moved, error, s, "costs.moved_bytes")
        && same(row->transient_bytes, sizes->transient, error, s, "costs.transient_bytes")
        && same(row->fixed_bytes, sizes->weights + sizes->state + sizes->gradients + sizes->optimizer, error, s,
                "costs.fixed_bytes")
        && same(row->version_bytes, sizes->version, error, s, "costs.version_bytes");
}

static bool check_memory(const struct evaluation *evaluation, const struct scope *scope, const struct sizes *sizes,
                         size_t s, struct error *error)
{
    const struct plan *plan = evaluation->plan;
    const struct replay *replay = &evaluation->replay;
    const struct stage_memory *memory = &scope->stage->memory;
    const uint32_t stage = (uint32_t)s;
    static const unsigned input_end[] = {
        [INPUT_UNTIL_F] = KIND(ACTION_F), [INPUT_UNTIL_I] = BACKWARDS, [INPUT_UNTIL_W] = LAST_BACKWARDS,
    };
    const bool is_first = s == 0, is_last = s + 1 == plan->stage_count;
    const unsigned comes = KIND(ACTION_F) | KIND(ACTION_PREFETCH), leaves = KIND(ACTION_EVICT);
    const uint64_t in_flight = replay_within(replay, comes, BACKWARDS | leaves);
    const uint64_t through = replay_within(replay, comes, LAST_BACKWARDS | leaves);
    const uint64_t away = replay_within(replay, leaves, KIND(ACTION_PREFETCH));
    const uint64_t held = replay_within(replay, KIND(ACTION_I), KIND(ACTION_W));
    const uint64_t again =
        scope->has_recompute ? replay_within(replay, KIND(ACTION_R) | BACKWARDS, BACKWARDS) : 0;
    const uint64_t inputs = replay_within(replay, KIND(ACTION_RECV_F), input_end[sizes->life]);
    const uint64_t gradients = replay_within(replay, KIND(ACTION_RECV_B), BACKWARDS);
    const uint64_t outputs = is_last ? 0 : replay_handed(replay, stage + 1, KIND(ACTION_F), LAST_BACKWARDS);
    const uint64_t input_gradients = is_first ? 0 : replay_handed(replay, stage - 1, BACKWARDS, BACKWARDS);

    const uint64_t versions = (replay_versions(replay, stage) - 1) * sizes->version;
    const uint64_t all_kept = in_flight * sizes->kept + through * sizes->kept_through;
    const uint64_t shared = replay_shared(replay, stage, KIND(ACTION_F), BACKWARDS)
                          + replay_shared(replay, stage, BACKWARDS, BACKWARDS);
    const uint64_t kept = inputs * sizes->input + all_kept + held * sizes->held
                        + again * sizes->again + shared * sizes->shared_by_parts
                        + (sizes->statistics > 0 ? replay_statistics(replay, stage) * sizes->statistics : 0);
    const uint64_t host = sizes->host + away * (sizes->kept + sizes->kept_through);
    const uint64_t buffers = (outputs + gradients) * sizes->output + input_gradients * sizes->input;
    const uint64_t weights = sizes->weights + sizes->state;
    const uint64_t fixed = weights + sizes->gradients + sizes->optimizer;
    const uint64_t peak = fixed + versions + kept + sizes->transient + buffers;
    return same(memory->weights_bytes, weights, error, s, "memory.weights_bytes")
        && same(memory->gradients_bytes, sizes->gradients, error, s, "memory.gradients_bytes")
        && same(memory->optimizer_bytes, sizes->optimizer, error, s, "memory.optimizer_bytes")
        && same(memory->versions_bytes, versions, error, s, "memory.versions_bytes")
        && same(memory->kept_bytes, kept, error, s, "memory.kept_bytes")
        && same(memory->transient_bytes, sizes->transient, error, s, "memory.transient_bytes")
        && same(memory->buffers_bytes, buffers, error, s, "memory.buffers_bytes")
        && same(memory->peak_bytes, peak, error, s, "memory.peak_bytes")
        && same(memory->host_bytes, host, error, s, "memory.host_bytes");
}

static bool check_stage_as(const struct evaluation *evaluation, const struct profile *profile, size_t s,
                           struct error *error)
{
    const struct plan *plan = evaluation->plan;
    const struct plan_stage *stage = &plan->stages[s];
    const struct scope scope = { plan, profile, stage, stage->first, stage->end,
                                 replay_within(&evaluation->replay, KIND(ACTION_R), 0) > 0 };
    const struct sizes sizes = evaluate_sizes(&scope);
    const struct sizes part = evaluate_part(sizes, evaluation->replay.lowered->splits);
    const struct cluster_device least = least_device(plan, stage);
    return same(stage->costs.exchange_ns, exchange_time(evaluation, s + 1), error, s, "costs.exchange_ns")
        && check_times(&scope, &sizes, least.speed_permille, s, error) && check_row_bytes(&scope, &sizes, s, error)
        && check_memory(evaluation, &scope, &part, s, error)
        && same(stage->memory.capacity_bytes, least.memory_bytes, error, s, "memory.capacity_bytes");
}

static bool check_stage(const struct evaluation *evaluation, size_t s, struct error *error)
{
    struct profile copy = *evaluation->profile;
    copy.layers = array_copy(evaluation->profile->layers, copy.layer_count, sizeof copy.layers[0]);
    if (!copy.layers)
        return error_no_memory(error, "the evaluation of a plan");
    const bool good = take_variant(evaluation, s, &copy, error)
                   && check_stage_as(evaluation, &copy, s, error);
    free(copy.layers);
    return good;
}

// A rank needs what all its stages take, but only the largest of their workspaces.
static bool check_fit(const struct evaluation *evaluation, uint32_t rank, struct error *error)
{
    const struct plan *plan = evaluation->plan;
    uint64_t bytes = 0, workspace = 0, capacity = UINT64_MAX;
    uint32_t count = 0, last = 0;
    for (uint32_t s = 0; s < plan->stage_count; s++) {
        const uint32_t group = plan_stage_group(&plan->stages[s]);
        bool held = false;
        for (uint32_t seat = 0; seat < plan_stage_seats(&plan->stages[s]); seat++) {
            if (placement_rank(evaluation->replay.placement, s, seat / group) != rank)
                continue;
            capacity = min_u64(capacity, plan->cluster->devices[plan->stages[s].devices[seat]].memory_bytes);
            held = true;
        }
        if (!held)
            continue;
        const struct stage_memory *memory = &plan->stages[s].memory;
        bytes += memory->peak_bytes - memory->transient_bytes;
        workspace = memory->transient_bytes > workspace ? memory->transient_bytes : workspace;
        last = s;
        count++;
    }
    if (bytes + workspace <= capacity)
        return true;
    if (count == 1)
        return error_set_kind(error, ERROR_ANSWER,
                              "stages[%u].memory.peak_bytes: %" PRIu64 " do not fit into the %" PRIu64
                              " of its device", last, bytes + workspace, capacity);
    return error_set_kind(error, ERROR_ANSWER,
                          "rank %u: its %u stages need %" PRIu64 " bytes, which do not fit into the %" PRIu64
                          " of its device", rank, count, bytes + workspace, capacity);
}

// --- the whole plan ----------------------------------------------------------------------

static bool check_cuts(const struct plan *plan, const struct profile *profile, struct error *error)
{
    uint32_t next = 0;
    for (size_t s = 0; s < plan->stage_count; s++) {
        const struct plan_stage *stage = &plan->stages[s];
        if (stage->first != next || stage->end < stage->first || stage->end > profile->layer_count)
            return error_set_kind(error, ERROR_ANSWER, "stages[%zu]: holds layers %u to %u, but %u comes next, of %zu",
                                  s, stage->first, stage->end, next, profile->layer_count);
        for (uint32_t l = stage->first; l < stage->end; l++)
            if (strcmp(stage->layers[l - stage->first], profile->layers[l].name) != 0)
                return error_set_kind(error, ERROR_ANSWER, "stages[%zu]: layer %u is \"%s\", in the profile \"%s\"", s,
                                      l, stage->layers[l - stage->first], profile->layers[l].name);
        next = stage->end;
        if (next > 0 && next < profile->layer_count && !profile_can_cut_after(profile, next - 1))
            return error_set_kind(error, ERROR_ANSWER, "stages[%zu]: ends after layer %u, where no cut may be", s,
                                  next - 1);
        for (size_t i = 0; i < profile->tied_count && !plan->storage.tied_apart; i++)
            if ((profile->tied[i].from < next) != (profile->tied[i].to < next))
                return error_set_kind(error, ERROR_ANSWER, "stages[%zu]: ends between the tied layers %u and %u", s,
                                      profile->tied[i].from, profile->tied[i].to);
    }
    return next == profile->layer_count
        || error_set_kind(error, ERROR_ANSWER, "the stages hold %u layers, the profile %zu", next,
                          profile->layer_count);
}

// How many layers have this variant, with each device having a share of what they hand on.
static size_t count_shared(const struct profile *profile, const char *variant)
{
    size_t count = 0;
    for (size_t l = 0; variant && l < profile->layer_count; l++)
        for (size_t v = 0; v < profile->layers[l].variant_count; v++)
            count += profile->layers[l].variants[v].shares_output
                  && strcmp(profile->layers[l].variants[v].layer.name, variant) == 0;
    return count;
}

// The shares of devices are never gathered: if one stage has them, all stages do.
static bool check_shared(const struct plan *plan, const struct profile *profile, struct error *error)
{
    for (size_t s = 0; s < plan->stage_count; s++) {
        const char *variant = plan->stages[s].variant, *first = plan->stages[0].variant;
        const size_t count = count_shared(profile, variant), of_first = count_shared(profile, first);
        if (count > 0 && count < profile->layer_count)
            return error_set_kind(error, ERROR_ANSWER, "stages[%zu].variant: devices have a share of what %zu of %zu"
                                  " layers hand on, not of all", s, count, profile->layer_count);
        if ((count > 0 || of_first > 0) && (!variant || !first || strcmp(variant, first) != 0))
            return error_set_kind(error, ERROR_ANSWER, "stages[%zu].variant: devices have a share of what is handed on"
                                  " there, or in stage 0, and not in both", s);
    }
    return true;
}

// A stage's rank may hold other stages, too. Among the copies of a stage the largest counts.
static bool check_live_peaks(const struct plan *plan, const struct placement *placement, const struct simulation *run,
                             struct error *error)
{
    bool good = true;
    for (uint32_t s = 0; good && s < plan->stage_count; s++) {
        uint64_t most = 0;
        for (uint32_t copy = 0; copy < placement_copies(placement, s); copy++)
            most = max_u64(most, run->per_rank[placement_rank(placement, s, copy)].live_peak_bytes);
        good = same_by("costs give", plan->stages[s].memory.live_peak_bytes, most, error, s, "memory.live_peak_bytes");
    }
    return good;
}

// The stage with the most work; of equal ones, the first.
static bool check_bottleneck(const struct plan *plan, struct error *error)
{
    uint32_t most = 0;
    uint64_t most_ns = 0;
    for (uint32_t s = 0; s < plan->stage_count; s++) {
        const struct cost_row *row = &plan->stages[s].costs;
        const uint64_t busy_ns = add_clamped(row->forward_ns, add_clamped(row->backward_ns, row->recompute_ns));
        most = busy_ns > most_ns ? s : most;
        most_ns = max_u64(most_ns, busy_ns);
    }
    return plan->bottleneck_stage == most
        || error_set_kind(error, ERROR_ANSWER, "predicted.bottleneck_stage: the plan says %u, its costs give %u",
                          plan->bottleneck_stage, most);
}

static bool check_prediction(const struct plan *plan, const struct placement *placement, const struct simulation *run,
                             uint64_t iteration_ns, struct error *error)
{
    if (plan->iteration_ns != iteration_ns)
        return error_set_kind(error, ERROR_ANSWER,
                              "predicted.iteration_ns: the plan says %" PRIu64 ", its costs give %" PRIu64,
                              plan->iteration_ns, iteration_ns);
    return check_live_peaks(plan, placement, run, error) && check_bottleneck(plan, error)
        && same_fraction(plan->bubble.makespan, run->bubble.makespan, error, "predicted.bubble.makespan")
        && same_fraction(plan->bubble.overhead, run->bubble.overhead, error, "predicted.bubble.overhead")
        && same_fraction(plan->bubble.span, run->bubble.span, error, "predicted.bubble.span")
        && same_fraction(plan->bubble.zb_rate, run->bubble.zb_rate, error, "predicted.bubble.zb_rate");
}

// `iteration` is the plan's lowered schedule with a flush; NULL: it is not at hand, or there is no flush.
static bool evaluate_prediction(const struct plan *plan, const struct placement *placement,
                                const struct schedule *iteration, struct error *error)
{
    struct simulation run = { 0 }, shorter = { 0 };
    const bool flushes = plan->weights == WEIGHTS_FLUSH;
    const uint32_t m = plan->micro_batches;
    const bool good = (iteration ? plan_simulate_lowered(plan, iteration, &run, NULL, error)
                                 : plan_simulate(plan, flushes ? m : 3 * m, &run, NULL, error))
        && (flushes || plan_simulate(plan, 2 * m, &shorter, NULL, error))
        && check_prediction(plan, placement, &run, run.iteration_ns - shorter.iteration_ns, error);
    simulation_clear(&run);
    simulation_clear(&shorter);
    return good;
}

bool plan_evaluate_prediction(const struct plan *plan, struct error *error)
{
    struct placement *placement = plan_placement(plan, error);
    const bool good = placement && evaluate_prediction(plan, placement, NULL, error);
    placement_free(placement);
    return good;
}

// A certificate may not contradict itself or the plan.
static bool check_certificate(const struct plan *plan, struct error *error)
{
    const struct certificate *certificate = &plan->certificate;
    const bool is_of_time = strcmp(certificate->objective, "iteration_ns") == 0;  // else of the load in another model
    char why[160];
    if (is_of_time && certificate->value_ns != plan->iteration_ns)
        return error_set_kind(error, ERROR_ANSWER,
                              "certificate.value_ns: is %" PRIu64 ", but the plan takes %" PRIu64 " ns",
                              certificate->value_ns, plan->iteration_ns);
    const char *denied = certificate_denied(certificate, why);
    return !denied || error_set_kind(error, ERROR_ANSWER, "certificate.%s: %s", denied, why);
}

static bool check_all(struct evaluation *evaluation, struct error *error)
{
    const struct plan *plan = evaluation->plan;
    for (size_t s = 0; s < plan->stage_count; s++)
        if (!replay_focus(&evaluation->replay, (uint32_t)s, error) || !check_stage(evaluation, s, error))
            return false;
    for (uint32_t r = 0; r < plan->ranks; r++)
        if (!check_fit(evaluation, r, error))
            return false;
    if (!evaluate_host(plan, error))
        return false;
    if (plan->weights != WEIGHTS_FLUSH)
        return plan_evaluate_prediction(plan, error) && check_certificate(plan, error);
    const struct replay *replay = &evaluation->replay;
    return evaluate_prediction(plan, replay->placement, replay->lowered, error) && check_certificate(plan, error);
}

// The profile's layers are in the plan's order already.
static bool evaluate_ordered(const struct plan *plan, const struct profile *profile, struct error *error)
{
    if (!check_cuts(plan, profile, error) || !check_shared(plan, profile, error))
        return false;
    const uint32_t length = predict_run_length(plan->weights, plan->ranks, plan->micro_batches);
    struct evaluation evaluation = { .plan = plan, .profile = profile };
    bool good = replay_begin(&evaluation.replay, plan_schedule(plan, length, true, error), error);
    good = good && check_all(&evaluation, error);
    replay_clear(&evaluation.replay);
    return good;
}

bool plan_evaluate(const struct plan *plan, const struct profile *profile, struct error *error)
{
    const unsigned asked = BELONGS_BY_MODEL | BELONGS_BY_PROFILE;
    if (!plan_belongs(plan, (struct plan_company){ profile->model, profile->hash }, asked, asked, NULL, error)) {
        error->kind = error->kind == ERROR_INPUT ? ERROR_ANSWER : error->kind;
        return false;
    }
    if (!storage_check(&plan->storage, profile, plan->cluster, plan->weights == WEIGHTS_FLUSH, error))
        return false;
    struct profile *made;
    const struct profile *ordered = plan_ordered(plan, profile, &made, error);
    const bool good = ordered && evaluate_ordered(plan, ordered, error);
    profile_free(made);
    return good;
}
