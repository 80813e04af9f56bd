#include "partitioner/explain/what_if.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "partitioner/plan_search.h"
#include "profiler/cluster_synopsis.h"
#include "schedules/generators/generate.h"

const char *const what_if_kind_names[] = {
    "nothing", "device memory", "memory", "no memory limit", "rate",    "latency",
    "no link cost", "micro-batches", "ranks", "schedule", "holding", NULL,
};

static bool has_replicas(const struct plan *plan, const struct generator *generator)
{
    for (size_t s = 0; s < plan->stage_count; s++)
        if (generator->takes_replicas && plan->stages[s].device_count > 1)
            return true;
    return false;
}

static bool set_replicas(const struct plan *plan, struct question *question, struct error *error)
{
    question->replicas = calloc(plan->stage_count + 1, sizeof question->replicas[0]);
    if (!question->replicas)
        return error_no_memory(error, "the replicas of a plan");
    for (size_t s = 0; s < plan->stage_count; s++)
        question->replicas[s] = (uint32_t)plan->stages[s].device_count;
    question->request.layout.replicas = question->replicas;
    question->request.layout.stages = (uint32_t)plan->stage_count;
    return true;
}

// Of each rank the devices of its copy of a stage, one or a group.
static void list_devices(const struct plan *plan, const struct placement *placement, struct question *question)
{
    size_t count = 0;
    bool own = true;
    for (uint32_t rank = 0; rank < placement->ranks; rank++) {
        const uint32_t s = placement->held[placement->stage_at[rank]], copy = placement_find(placement, s, rank);
        const struct plan_stage *stage = &plan->stages[s];
        for (uint32_t i = 0; i < plan_stage_group(stage); i++) {
            question->devices[count] = stage->devices[copy * plan_stage_group(stage) + i];
            own &= question->devices[count] == count;
            count++;
        }
    }
    if (!own)
        question->request.layout.devices = question->devices;
}

static bool set_devices(const struct plan *plan, struct question *question, struct error *error)
{
    struct placement *placement = plan_placement(plan, error);
    size_t seats = 1;
    for (size_t s = 0; s < plan->stage_count; s++)
        seats += plan_stage_seats(&plan->stages[s]);
    if (!placement)
        return false;
    question->devices = calloc(seats, sizeof question->devices[0]);
    if (question->devices)
        list_devices(plan, placement, question);
    placement_free(placement);
    return question->devices || error_no_memory(error, "the devices of a plan");
}

static bool set_variants(const struct plan *plan, struct question *question, struct error *error)
{
    question->variants = calloc(plan->stage_count + 1, sizeof question->variants[0]);
    if (!question->variants)
        return error_no_memory(error, "the variants of a plan");
    for (size_t s = 0; s < plan->stage_count; s++) {
        question->variants[s] = plan->stages[s].variant;
        if (plan->stages[s].variant) {
            question->request.layout.variants = question->variants;
            question->request.layout.stages = (uint32_t)plan->stage_count;
        }
    }
    return true;
}

bool question_of(const struct plan *plan, const struct profile *profile, struct question *question, struct error *error)
{
    *question = (struct question){ .request = { .profile = profile, .cluster = plan->cluster,
                                                .schedule = plan->schedule, .ranks = plan->ranks,
                                                .chunks = plan->chunks, .micro_batches = plan->micro_batches,
                                                .holding = plan->holding } };
    const struct generator *generator = generator_find(plan->schedule, error);
    if (generator && (!has_replicas(plan, generator) || set_replicas(plan, question, error))
        && set_devices(plan, question, error) && set_variants(plan, question, error))
        return true;
    question_clear(question);
    return false;
}

void question_clear(struct question *question)
{
    free(question->replicas);
    free(question->devices);
    free(question->variants);
    *question = (struct question){ .replicas = NULL };
}

bool what_if_plan(const struct search_request *request, struct what_if *change, struct error *error)
{
    const struct generator *generator = generator_find(request->schedule, error);
    if (!generator)
        return false;
    change->row = (struct sweep_row){ .weights = generator->weights, .ranks = request->ranks,
                                      .chunks = request->chunks ? request->chunks : generator->usual_chunks,
                                      .micro_batches = request->micro_batches, .outcome = SWEEP_NOT_TRIED };
    snprintf(change->row.schedule, sizeof change->row.schedule, "%s", generator->name);
    return sweep_plan_row(request, request->wanted.any ? plan_search : plan_search_orders, &change->row, error);
}

void what_if_keep(struct sweep_row *row, const struct plan *plan, const struct sweep_row *peak)
{
    if (row->outcome == SWEEP_PLANNED && row->iteration_ns <= plan->iteration_ns)
        return;
    row->outcome = SWEEP_PLANNED;
    row->iteration_ns = plan->iteration_ns;
    row->micro_batch_ns = row->iteration_ns / row->micro_batches + (row->iteration_ns % row->micro_batches > 0);
    // The plan may be one that the search does not look at.
    if (row->lower_bound_ns > row->iteration_ns)
        row->lower_bound_ns = row->iteration_ns;
    row->proved = row->lower_bound_ns == row->iteration_ns;
    row->peak_bytes = peak->peak_bytes;
    row->rank = peak->rank;
    row->lacks_bytes = 0;
    row->bubble = plan->bubble.makespan;
}

static double gain_of(uint64_t after_ns, uint32_t after_m, uint64_t before_ns, uint32_t before_m)
{
    const double before = (double)before_ns / before_m, after = (double)after_ns / after_m;
    return before > 0 ? 1 - after / before : 0;
}

void what_if_compare(struct what_if *change, const struct sweep_row *unchanged)
{
    const struct sweep_row *row = &change->row;
    change->gain = change->least_gain = change->most_gain = 0;
    if (row->outcome != SWEEP_PLANNED || unchanged->outcome != SWEEP_PLANNED)
        return;
    const uint32_t m = row->micro_batches, before_m = unchanged->micro_batches;
    change->gain = gain_of(row->iteration_ns, m, unchanged->iteration_ns, before_m);
    change->most_gain = gain_of(row->lower_bound_ns, m, unchanged->iteration_ns, before_m);
    // Of a bound of 0 nothing follows.
    if (unchanged->lower_bound_ns > 0)
        change->least_gain = gain_of(row->iteration_ns, m, unchanged->lower_bound_ns, before_m);
    else
        change->least_gain = change->gain < -1 ? change->gain : -1;
}

void what_if_arrange_anew(struct search_request *request)
{
    request->free.replicas |= request->layout.replicas != NULL;
    request->free.devices |= request->layout.devices != NULL;
    request->free.variants |= request->layout.variants != NULL;
    request->layout.replicas = request->layout.devices = NULL;
    request->layout.variants = NULL;
}

bool what_if_is_certain(const struct what_if *change)
{
    return change->least_gain > 0 || change->most_gain <= 0 || change->least_gain == change->most_gain;
}

// --- copies ---------------------------------------------------------------------------

struct cluster *what_if_cluster(const struct cluster *cluster, struct error *error)
{
    struct text text = { 0 };
    struct cluster *copy = NULL;
    cluster_write(cluster, &text);
    if (text.failed)
        error_no_memory(error, "a cluster");
    else
        copy = cluster_read(text.data, text.length, "the cluster", error);
    text_clear(&text);
    return copy;
}

struct plan *what_if_copy(const struct plan *plan, struct error *error)
{
    struct text text = { 0 };
    struct plan *copy = NULL;
    plan_write(plan, &text);
    if (text.failed)
        error_no_memory(error, "a plan");
    else
        copy = plan_read(text.data, text.length, "the plan", error);
    text_clear(&text);
    return copy;
}

static bool add_devices(struct cluster *cluster, size_t count, struct error *error)
{
    const size_t before = cluster->device_count;
    struct cluster_device *devices = realloc(cluster->devices, (before + count) * sizeof devices[0]);
    if (!devices)
        return error_no_memory(error, "a cluster");
    cluster->devices = devices;
    for (size_t i = before; i < before + count; i++) {
        char name[32];
        snprintf(name, sizeof name, "new device %zu", i);
        devices[i] = devices[i - count];
        devices[i].name = strdup(name);
        if (!devices[i].name)
            return error_no_memory(error, "a cluster");
        cluster->device_count++;
    }
    return true;
}

bool what_if_larger_cluster(const struct cluster *cluster, size_t devices, struct cluster **larger, struct error *error)
{
    *larger = NULL;
    if (cluster->level_count == 0 || devices > CLUSTER_MOST_DEVICES)
        return true;
    struct cluster *grown = what_if_cluster(cluster, error);
    bool good = grown != NULL;
    while (good && grown->device_count < devices) {
        struct cluster_level *outer = &grown->levels[grown->level_count - 1];
        good = add_devices(grown, grown->device_count / outer->size, error);
        outer->size++;
    }
    if (good && grown->device_count <= CLUSTER_MOST_DEVICES)
        *larger = grown;
    else
        cluster_free(grown);
    return good;
}
