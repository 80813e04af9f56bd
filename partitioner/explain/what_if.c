#include "partitioner/explain/what_if.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "partitioner/search/search_request.h"

const char *const what_if_kind_names[] = {
    "nothing", "device memory", "memory", "no memory limit", "rate",    "latency",
    "no link cost", "micro-batches", "ranks", "schedule", "storage", NULL,
};

bool what_if_plan(struct search_request *request, struct what_if *change, struct error *error)
{
    if (!search_resolve(request, error))
        return false;
    const struct generator *generator = &request->generator;
    change->row = (struct sweep_row){ .weights = generator->weights, .ranks = request->ranks,
                                      .chunks = request->chunks ? request->chunks : generator->usual_chunks,
                                      .micro_batches = request->micro_batches, .found.outcome = SWEEP_NOT_TRIED };
    snprintf(change->row.schedule, sizeof change->row.schedule, "%s", generator->name);
    return sweep_plan_row(request, &change->row, error);
}

void what_if_keep(struct sweep_row *row, const struct plan *plan, const struct sweep_row *peak)
{
    if (row->found.outcome == SWEEP_PLANNED && row->found.iteration_ns <= plan->iteration_ns)
        return;
    row->found.outcome = SWEEP_PLANNED;
    sweep_note_time(row, plan->iteration_ns, plan->bubble.makespan);
    // A plan below the bound is one that the search does not consider. Nothing is known of similar plans.
    if (row->found.lower_bound_ns > row->found.iteration_ns)
        row->found.lower_bound_ns = 0;
    row->found.proved = row->found.lower_bound_ns == row->found.iteration_ns;
    row->found.peak_bytes = peak->found.peak_bytes;
    row->found.rank = peak->found.rank;
    row->found.lacks_bytes = 0;
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
    if (row->found.outcome != SWEEP_PLANNED || unchanged->found.outcome != SWEEP_PLANNED)
        return;
    const uint32_t m = row->micro_batches, before_m = unchanged->micro_batches;
    change->gain = gain_of(row->found.iteration_ns, m, unchanged->found.iteration_ns, before_m);
    change->most_gain = gain_of(row->found.lower_bound_ns, m, unchanged->found.iteration_ns, before_m);
    // Nothing follows from a bound of 0.
    if (unchanged->found.lower_bound_ns > 0)
        change->least_gain = gain_of(row->found.iteration_ns, m, unchanged->found.lower_bound_ns, before_m);
    else
        change->least_gain = change->gain < -1 ? change->gain : -1;
}

bool what_if_is_certain(const struct what_if *change)
{
    return change->least_gain > 0 || change->most_gain <= 0 || change->least_gain == change->most_gain;
}

// --- changes --------------------------------------------------------------------------

// A change whose option takes `value`. If the words end in a space, they get the value, too.
static struct what_if change_to(enum what_if_kind kind, const char *words, const char *option, const char *value)
{
    struct what_if change = { .kind = kind };
    snprintf(change.change, sizeof change.change, "%s%s", words, words[strlen(words) - 1] == ' ' ? value : "");
    snprintf(change.option, sizeof change.option, "--%s %s", option, value);
    return change;
}

struct what_if what_if_micro_batches(struct search_request *search, uint32_t micro_batches)
{
    struct what_if change = { .kind = WHAT_IF_MICRO_BATCHES };
    search->micro_batches = micro_batches;
    snprintf(change.change, sizeof change.change, "%u micro-batch%s an iteration", micro_batches,
             micro_batches == 1 ? "" : "es");
    snprintf(change.option, sizeof change.option, "--micro-batches %u", micro_batches);
    return change;
}

// Other ranks and other schedules need other replicas, devices and variants. If the request had any, the search is
// free to choose them.
static void arrange_anew(struct search_request *search)
{
    search->free.replicas |= search->layout.replicas != NULL;
    search->free.devices |= search->layout.devices != NULL;
    search->free.variants |= search->layout.variants != NULL;
    search->layout.replicas = search->layout.devices = NULL;
    search->layout.variants = NULL;
}

struct what_if what_if_schedule(struct search_request *search, const char *schedule, uint32_t chunks)
{
    search->schedule = schedule;
    search->given = NULL;
    search->chunks = chunks;
    arrange_anew(search);
    struct what_if change = change_to(WHAT_IF_SCHEDULE, "schedule ", "schedule", schedule);
    if (!chunks)
        return change;
    snprintf(change.change, sizeof change.change, "schedule %.40s, %u stages per rank", schedule, chunks);
    snprintf(change.option, sizeof change.option, "--schedule %.40s --chunks %u", schedule, chunks);
    return change;
}

struct what_if what_if_shard(struct search_request *search, enum shard shard)
{
    static const char *const words[] = {
        [SHARD_NONE] = "states that each replica has",
        [SHARD_OPTIMIZER] = "the optimizer's state shared by replicas",
        [SHARD_GRADIENTS] = "the optimizer's state and gradients shared by replicas",
        [SHARD_WEIGHTS] = "the optimizer's state, gradients and weights shared by replicas",
    };
    search->storage.shard = shard;
    return change_to(WHAT_IF_STORAGE, words[shard], "shard", shard_names[shard]);
}

struct what_if what_if_host(struct search_request *search, bool optimizer, bool activations)
{
    search->storage.optimizer_on_host |= optimizer;
    search->storage.activations_on_host |= activations;
    if (optimizer && activations)
        return change_to(WHAT_IF_STORAGE, "the optimizer and activations on the host", "host", "optimizer,activations");
    return optimizer ? change_to(WHAT_IF_STORAGE, "the optimizer on the host", "host", "optimizer")
                     : change_to(WHAT_IF_STORAGE, "activations on the host", "host", "activations");
}

struct what_if what_if_optimizer(struct search_request *search, enum optimizer_kind kind)
{
    search->storage.optimizer = kind;
    return change_to(WHAT_IF_STORAGE, "optimizer ", "optimizer", optimizer_names[kind]);
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

static bool enlarge(const struct cluster *cluster, size_t devices, struct cluster **larger, struct error *error)
{
    if (cluster->level_count == 0 || devices > CLUSTER_MOST_DEVICES)
        return true;
    struct cluster *grown = cluster_copy(cluster, error);
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

bool what_if_ranks(struct search_request *search, uint32_t ranks, struct what_if *change, struct cluster **larger,
                   struct error *error)
{
    const bool is_more = ranks > search->cluster->device_count;
    *larger = NULL;
    if (is_more && !enlarge(search->cluster, ranks, larger, error))
        return false;
    if (is_more && !*larger)
        return true;
    search->cluster = *larger ? *larger : search->cluster;
    search->ranks = ranks;
    arrange_anew(search);
    *change = (struct what_if){ .kind = WHAT_IF_RANKS };
    snprintf(change->change, sizeof change->change, "%u rank%s%s", ranks, ranks == 1 ? "" : "s",
             is_more ? ", on devices like the last" : "");
    snprintf(change->option, sizeof change->option, "--ranks %u", ranks);
    return true;
}
