#include "partitioner/plan/plan.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/number.h"
#include "profiler/profile_reorder.h"
#include "schedules/lower.h"

const char *const plan_target_names[] = { "any", "megatron", "torchtitan", NULL };

struct plan *plan_create(size_t stage_count, struct error *error)
{
    struct plan *plan = calloc(1, sizeof *plan);
    if (plan) {
        plan->stages = calloc(stage_count, sizeof plan->stages[0]);
        plan->stage_count = plan->stages ? stage_count : 0;
    }
    if (!plan || !plan->stages) {
        plan_free(plan);
        return error_null(error_no_memory(error, "a plan"));
    }
    return plan;
}

// The gap of a value of 0 is 0.
static double gap_of(uint64_t value_ns, uint64_t bound_ns)
{
    return value_ns > bound_ns ? (double)(value_ns - bound_ns) / (double)value_ns : 0;
}

void certificate_bound(struct certificate *certificate, uint64_t bound_ns, enum search_stop stop, const char *stopped)
{
    certificate->lower_bound_ns = min_u64(bound_ns, certificate->value_ns);
    certificate->proved = certificate->lower_bound_ns == certificate->value_ns;
    certificate->gap = gap_of(certificate->value_ns, certificate->lower_bound_ns);
    certificate->is_claimed = false;
    memset(certificate->stopped, 0, sizeof certificate->stopped);
    certificate->stop = certificate->proved ? STOP_NONE : stop;
    if (!certificate->proved)
        snprintf(certificate->stopped, sizeof certificate->stopped, "%s", stopped);
}

const char *certificate_denied(const struct certificate *certificate, char why[160])
{
    enum { SIZE = 160 };
    const unsigned long long value = certificate->value_ns, bound = certificate->lower_bound_ns;
    const double gap = gap_of(value, bound);
    if (bound > value) {
        snprintf(why, SIZE, "is %llu, above the value, %llu", bound, value);
        return "lower_bound_ns";
    }
    if (certificate->proved && bound != value) {
        snprintf(why, SIZE, "is true, but %llu ns lie between bound and value", value - bound);
        return "proved";
    }
    if (certificate->proved && certificate->stopped[0]) {
        snprintf(why, SIZE, "is true, but the search ended early: %s", certificate->stopped);
        return "proved";
    }
    if (!(fabs(certificate->gap - gap) < 1.1e-6)) {
        snprintf(why, SIZE, "is %.6f, but value and bound are %.6f of the value apart", certificate->gap, gap);
        return "gap";
    }
    return NULL;
}

static void clear_stage(struct plan_stage *stage)
{
    for (uint32_t i = 0; stage->layers && i < stage->end - stage->first; i++)
        free(stage->layers[i]);
    free(stage->layers);
    free(stage->pinned);
    free(stage->devices);
    free(stage->recompute);
    free(stage->variant);
    *stage = (struct plan_stage){ 0 };
}

void plan_free(struct plan *plan)
{
    if (!plan)
        return;
    for (size_t i = 0; i < plan->stage_count; i++)
        clear_stage(&plan->stages[i]);
    free(plan->stages);
    free(plan->order);
    schedule_free(plan->given);
    cluster_free(plan->cluster);
    free(plan->model);
    free(plan->notes);
    free(plan);
}

bool plan_set_stage(struct plan *plan, size_t stage, const struct profile *profile, struct segment layers,
                    uint32_t device, const struct segment *recompute, size_t recompute_count, struct error *error)
{
    assert(stage < plan->stage_count && layers.first <= layers.end && layers.end <= profile->layer_count);
    struct plan_stage *to = &plan->stages[stage];
    clear_stage(to);
    to->first = layers.first;
    to->end = layers.end;
    to->layers = calloc(layers.end - layers.first + 1, sizeof to->layers[0]);
    to->devices = array_copy(&device, 1, sizeof device);
    to->recompute = array_copy(recompute, recompute_count, sizeof recompute[0]);
    bool good = to->layers && to->devices && to->recompute;
    for (uint32_t l = layers.first; good && l < layers.end; l++) {
        to->layers[l - layers.first] = strdup(profile->layers[l].name);
        good = to->layers[l - layers.first] != NULL;
    }
    if (!good)
        return error_no_memory(error, "a stage of a plan");
    to->device_count = 1;
    to->recompute_count = recompute_count;
    return true;
}

bool plan_pin_layer(struct plan *plan, size_t stage, uint32_t place, struct error *error)
{
    struct plan_stage *to = &plan->stages[stage];
    assert(to->first <= place && place < to->end);
    if (!to->pinned)
        to->pinned = calloc(to->end - to->first, sizeof to->pinned[0]);
    if (!to->pinned)
        return error_no_memory(error, "a stage of a plan");
    to->pinned[place - to->first] = true;
    return true;
}

bool plan_order_is_own(const uint32_t *order, size_t layers)
{
    for (size_t i = 0; i < layers; i++)
        if (order[i] != i)
            return false;
    return true;
}

const struct profile *plan_set_order(struct plan *plan, const struct profile *profile, const uint32_t *order,
                                     struct profile **made, struct error *error)
{
    const size_t layers = profile->layer_count;
    *made = NULL;
    if (plan_order_is_own(order, layers))
        return profile;
    plan->order = array_copy(order, layers, sizeof order[0]);
    if (!plan->order)
        return error_null(error_no_memory(error, "the order of a plan"));
    *made = profile_reorder(profile, order, error);
    return *made;
}

const struct profile *plan_ordered(const struct plan *plan, const struct profile *profile, struct profile **made,
                                   struct error *error)
{
    *made = NULL;
    if (!plan->order)
        return profile;
    const uint32_t layers = plan->stages[plan->stage_count - 1].end;
    if (layers != profile->layer_count) {
        error_set_kind(error, ERROR_ANSWER, "the stages hold %u layers, the profile %zu", layers, profile->layer_count);
        return NULL;
    }
    *made = profile_reorder(profile, plan->order, error);
    return *made;
}

bool plan_set_devices(struct plan *plan, size_t stage, const uint32_t *devices, size_t count, struct error *error)
{
    assert(stage < plan->stage_count && count > 0);
    uint32_t *copy = array_copy(devices, count, sizeof copy[0]);
    if (!copy)
        return error_no_memory(error, "a stage of a plan");
    free(plan->stages[stage].devices);
    plan->stages[stage].devices = copy;
    plan->stages[stage].device_count = count;
    plan->stages[stage].group = 1;
    return true;
}

bool plan_set_variant(struct plan *plan, size_t stage, const char *variant, const uint32_t *devices, size_t copies,
                      uint32_t group, struct error *error)
{
    struct plan_stage *to = &plan->stages[stage];
    if (!plan_set_devices(plan, stage, devices, copies * group, error))
        return false;
    to->device_count = copies;
    to->group = group;
    free(to->variant);
    to->variant = variant ? strdup(variant) : NULL;
    return !variant || to->variant || error_no_memory(error, "a stage of a plan");
}

bool plan_generator(const struct plan *plan, struct generator *generator, struct error *error)
{
    return generator_for(plan->schedule, plan->given, generator, error);
}

bool plan_replicas(const struct plan *plan, uint32_t **replicas, struct error *error)
{
    struct generator generator;
    bool has_some = false;
    *replicas = NULL;
    if (!plan_generator(plan, &generator, error))
        return false;
    for (size_t s = 0; s < plan->stage_count; s++)
        has_some |= generator.takes_replicas && plan->stages[s].device_count > 1;
    if (!has_some)
        return true;
    *replicas = calloc(plan->stage_count, sizeof (*replicas)[0]);
    for (size_t s = 0; *replicas && s < plan->stage_count; s++)
        (*replicas)[s] = (uint32_t)plan->stages[s].device_count;
    return *replicas || error_no_memory(error, "the replicas of a plan");
}

// The compute order.
static struct schedule *generate(const struct plan *plan, uint32_t micro_batches, struct error *error)
{
    struct generator generator;
    uint32_t *replicas;
    if (!plan_generator(plan, &generator, error) || !plan_replicas(plan, &replicas, error))
        return NULL;
    const struct generate_request request = {
        .ranks = plan->ranks, .chunks = plan->chunks, .micro_batches = micro_batches, .replicas = replicas,
        .stages = replicas ? (uint32_t)plan->stage_count : 0,
    };
    struct schedule *order = storage_order(&plan->storage, schedule_generate_by(&generator, &request, error), error);
    free(replicas);
    if (order && order->stages != plan->stage_count) {
        error_set(error, "schedule %s has %u stages on %u ranks, but the plan has %zu", plan->schedule, order->stages,
                  plan->ranks, plan->stage_count);
        schedule_free(order);
        return NULL;
    }
    return order;
}

struct placement *plan_placement_in(const struct plan *plan, const struct schedule *schedule, struct error *error)
{
    struct placement *placement = placement_read(schedule, error);
    if (placement && (placement->devices = plan_devices(plan, placement, error)))
        return placement;
    placement_free(placement);
    return NULL;
}

struct schedule *plan_schedule(const struct plan *plan, uint32_t micro_batches, bool lowered, struct error *error)
{
    struct schedule *order = generate(plan, micro_batches, error);
    if (!order)
        return NULL;
    struct placement *placement = plan_placement_in(plan, order, error);
    bool good = placement != NULL;
    placement_free(placement);
    order->costs = good ? calloc(order->stages, sizeof order->costs[0]) : NULL;
    if (good && !order->costs)
        good = error_no_memory(error, "the costs of a schedule");
    for (uint32_t s = 0; good && s < order->stages; s++)
        order->costs[s] = plan->stages[s].costs;
    if (good && !lowered)
        return order;
    struct schedule *result = good ? schedule_lower(order, error) : NULL;
    schedule_free(order);
    return result;
}

struct placement *plan_placement(const struct plan *plan, struct error *error)
{
    struct schedule *order = generate(plan, plan->micro_batches, error);
    struct placement *placement = order ? plan_placement_in(plan, order, error) : NULL;
    schedule_free(order);
    return placement;
}

static bool give_device(uint32_t *devices, uint32_t rank, size_t stage, uint32_t device, struct error *error)
{
    if (devices[rank] != UINT32_MAX && devices[rank] != device)
        return error_set(error, "stages[%zu].devices: device %u, but the schedule has this stage on rank %u, which is"
                         " device %u", stage, device, rank, devices[rank]);
    devices[rank] = device;
    return true;
}

// Whether an earlier stage has the same group for one of its copies. Both are then on the same rank.
static bool is_held_before(const struct plan *plan, size_t stage, size_t copy)
{
    const struct plan_stage *holder = &plan->stages[stage];
    const uint32_t device = holder->devices[copy * plan_stage_group(holder)];
    for (size_t s = 0; s < stage; s++)
        for (size_t c = 0; c < plan->stages[s].device_count; c++)
            if (plan->stages[s].devices[c * plan_stage_group(&plan->stages[s])] == device)
                return true;
    return false;
}

size_t plan_seat_count(const struct plan *plan)
{
    size_t seats = 0;
    for (size_t s = 0; s < plan->stage_count; s++)
        for (size_t copy = 0; copy < plan->stages[s].device_count; copy++)
            seats += is_held_before(plan, s, copy) ? 0 : plan_stage_group(&plan->stages[s]);
    return seats;
}

// Whether each device is in the group of one rank only. All stages of a rank have the same group.
static bool are_apart(const struct plan *plan, const struct placement *placement, struct error *error)
{
    uint32_t last = 0;
    for (uint32_t s = 0; s < placement->stages; s++)
        for (uint32_t seat = 0; seat < plan_stage_seats(&plan->stages[s]); seat++)
            last = plan->stages[s].devices[seat] > last ? plan->stages[s].devices[seat] : last;
    uint32_t *rank_of = calloc((size_t)last + 1, sizeof rank_of[0]);
    bool good = rank_of || error_no_memory(error, "the devices of a plan");
    for (uint32_t s = 0; good && s < placement->stages; s++) {
        const struct plan_stage *stage = &plan->stages[s];
        for (uint32_t seat = 0; good && seat < plan_stage_seats(stage); seat++) {
            const uint32_t rank = placement_rank(placement, s, seat / plan_stage_group(stage));
            uint32_t *owner = &rank_of[stage->devices[seat]];  // 1 more than a rank
            if (*owner > 0 && *owner != rank + 1)
                good = error_set(error, "ranks %u and %u are both on device %u", *owner - 1 < rank ? *owner - 1 : rank,
                                 *owner - 1 < rank ? rank : *owner - 1, stage->devices[seat]);
            *owner = rank + 1;
        }
    }
    free(rank_of);
    return good;
}

uint32_t *plan_devices(const struct plan *plan, const struct placement *placement, struct error *error)
{
    uint32_t *devices = malloc(((size_t)placement->ranks + 1) * sizeof devices[0]);
    bool good = devices || error_no_memory(error, "the devices of a plan");
    for (uint32_t r = 0; good && r < placement->ranks; r++)
        devices[r] = UINT32_MAX;
    for (uint32_t s = 0; good && s < placement->stages; s++) {
        const struct plan_stage *stage = &plan->stages[s];
        if (stage->device_count != placement_copies(placement, s))
            good = error_set(error, "stages[%u].devices: holds %zu, but %s has the stage on %u ranks", s,
                             stage->device_count, plan->schedule, placement_copies(placement, s));
        for (uint32_t copy = 0; good && copy < stage->device_count; copy++)
            good = give_device(devices, placement_rank(placement, s, copy), s,
                               stage->devices[copy * plan_stage_group(stage)], error);
    }
    if (good && are_apart(plan, placement, error))
        return devices;
    free(devices);
    return NULL;
}

uint64_t plan_rank_bytes(const struct plan *plan, const struct placement *placement, uint32_t rank)
{
    uint64_t bytes = 0, workspace = 0;
    for (uint32_t i = placement->stage_at[rank]; i < placement->stage_at[rank + 1]; i++) {
        const struct stage_memory *memory = &plan->stages[placement->held[i]].memory;
        bytes = add_clamped(bytes, memory->peak_bytes - memory->transient_bytes);
        workspace = memory->transient_bytes > workspace ? memory->transient_bytes : workspace;
    }
    return add_clamped(bytes, workspace);
}

uint64_t *plan_capacities(const struct plan *plan, struct error *error)
{
    struct placement *placement = plan_placement(plan, error);
    uint64_t *bytes = placement ? calloc(plan->ranks, sizeof *bytes) : NULL;
    if (placement && !bytes)
        error_no_memory(error, "a plan");
    for (uint32_t r = 0; bytes && r < plan->ranks; r++)
        bytes[r] = plan->cluster->devices[placement->devices[r]].memory_bytes;
    placement_free(placement);
    return bytes;
}

uint64_t plan_peak_bytes(const struct plan *plan, uint32_t *rank, struct error *error)
{
    struct placement *placement = plan_placement(plan, error);
    uint64_t peak = 0;
    *rank = 0;
    for (uint32_t r = 0; placement && r < placement->ranks; r++) {
        const uint64_t bytes = plan_rank_bytes(plan, placement, r);
        *rank = bytes > peak ? r : *rank;
        peak = max_u64(peak, bytes);
    }
    placement_free(placement);
    return peak;
}

uint64_t plan_host_bytes(const struct plan *plan, size_t machine)
{
    uint64_t bytes = 0;
    for (size_t s = 0; s < plan->stage_count; s++)
        for (size_t i = 0; i < plan_stage_seats(&plan->stages[s]); i++)
            if (storage_machine(plan->cluster, plan->stages[s].devices[i]) == machine)
                bytes = add_clamped(bytes, plan->stages[s].memory.host_bytes);
    return bytes;
}
