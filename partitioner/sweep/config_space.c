// Lists the ways to share a model out, and what each takes at least.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "partitioner/sweep/config_bound.h"
#include "profiler/estimate/framework.h"
#include "schedules/generators/generate.h"

enum { MOST_ROWS = 2000000, MOST_MICRO_BATCHES = 1 << 14, MOST_CHOICES = 64, LEAST_TOKENS = 4096 };

struct space {
    struct config_sweep *sweep;
    const struct config_request *request;
    size_t capacity;
    const struct generator *schedules[MOST_CHOICES];
    size_t schedule_count;
    const struct generator *alone;  // of pipelines of one rank
    bool hides_experts;         // where forwards run together with backwards
    struct estimate *estimate;  // of the current degrees
    struct config_costs costs;  // from it, or from the estimate of the other placement
    double reduce_ns;
    struct error *error;
};

// The numbers of a given list, or else the powers of two up to the maximum.
struct choices {
    uint32_t at[MOST_CHOICES];
    size_t count;
};

static struct choices powers(uint64_t most)
{
    struct choices made = { .count = 0 };
    for (uint64_t n = 1; n <= most && n <= UINT32_MAX && made.count < MOST_CHOICES; n *= 2)
        made.at[made.count++] = (uint32_t)n;
    return made;
}

static struct choices or_powers(struct sweep_list given, uint64_t most)
{
    struct choices made = { .count = given.count < MOST_CHOICES ? given.count : MOST_CHOICES };
    if (!given.count)
        return powers(most);
    memcpy(made.at, given.at, made.count * sizeof made.at[0]);
    return made;
}

// --- promises -------------------------------------------------------------------------------------------------

// What the schedule's formula promises for even stages.
static double promised_ns(const struct space *space, const struct config_row *row)
{
    const double m = row->micro_batches, p = row->ranks, all = config_speed_of_all(space->request, row);
    const double stage = space->costs.work_ns / all, forward = space->costs.work_forward_ns / all;
    if (row->ranks == 1)
        return m * stage;
    switch (row->generator->idle) {
    case IDLE_FOR_FORWARDS:
        return m * stage + (p - 1) * forward;
    case IDLE_FOR_A_FORWARD:
        return m * stage + forward;
    default:
        return row->chunks == 1 ? (m + p - 1) * stage : m * stage + (p - 1) * stage / row->chunks;
    }
}

// --- rows -----------------------------------------------------------------------------------------------------

// The time between iterations that is not hidden behind a rank's last backward and its next first forward.
static double between_ns(const struct space *space, const struct config_row *row)
{
    const struct estimate *estimate = space->estimate;
    const double copies = config_copies(row), stage = space->costs.work_ns / row->ranks;
    const double reduce = space->reduce_ns * copies / row->ranks;
    const double slowest = config_speed(space->request, row, row->ranks - 1);
    const struct framework *like = space->request->how.like;
    const double left = !like || like->hides_reduction ? fmax(0.1 * reduce, reduce - stage) : reduce;
    return left + estimate->update_ns * copies / row->ranks / slowest;
}

static bool add_row(struct space *space, const struct config_row *made)
{
    struct config_sweep *sweep = space->sweep;
    if (sweep->count == MOST_ROWS)
        return error_set(space->error, "more than %d configurations; say which degrees, schedules or micro-batches",
                         MOST_ROWS);
    if (!array_reserve(&sweep->rows, &space->capacity, sweep->count + 1, sizeof sweep->rows[0]))
        return error_no_memory(space->error, "a sweep");
    struct config_row *row = &sweep->rows[sweep->count++];
    *row = *made;
    double least = config_least_ns(&space->costs, space->request, row);
    row->work_ns = space->costs.work_ns * row->micro_batches / config_speed_of_all(space->request, row);
    if (isinf(least)) {
        row->outcome = CONFIG_DOES_NOT_FIT;
        least = row->work_ns;
    }
    row->between_ns = (uint64_t)between_ns(space, row);
    row->bound_ns = row->between_ns + (uint64_t)(least * (1 - 1e-6));
    row->expected_ns = row->between_ns + (uint64_t)fmax(least, promised_ns(space, row));
    return true;
}

// With fewer micro-batches than ranks some rank is always idle. Megatron's interleaving takes a multiple of the
// ranks.
static bool takes(struct space *space, const struct config_row *row)
{
    const uint64_t stages = (uint64_t)row->ranks * row->chunks, units = space->request->model->layers + 2;
    if (stages > units)
        config_meet(space->sweep, CONFIG_SCHEDULE_IS_NONE, "%s has %llu stages on %u ranks, and the model's blocks,"
                    " embedding and head are %llu", row->schedule, (unsigned long long)stages, row->ranks,
                    (unsigned long long)units);
    else if (row->micro_batches < row->ranks)
        config_meet(space->sweep, CONFIG_SCHEDULE_IS_NONE, "a pipeline of %u ranks has fewer micro-batches (%u)"
                    " than ranks, so that some are always idle", row->ranks, row->micro_batches);
    else if (row->chunks > 1 && row->generator->wants_rounds && row->micro_batches % row->ranks != 0)
        config_meet(space->sweep, CONFIG_SCHEDULE_IS_NONE, "%s takes a multiple of %u ranks, not %u micro-batches",
                    row->schedule, row->ranks, row->micro_batches);
    else
        return true;
    return false;
}

// Interleaving takes any number of stages per rank. Other schedules have a number of their own.
static bool add_schedule(struct space *space, const struct generator *generator, struct config_row row)
{
    static const uint32_t usual[] = { 2, 4, 8 };
    const uint32_t usual_chunks[] = { generator->usual_chunks };
    const struct sweep_list asked = space->request->chunks;
    const struct sweep_list open = asked.count ? asked : (struct sweep_list){ usual, 3 };
    const struct sweep_list chunks = generator->takes_any_chunks ? open : (struct sweep_list){ usual_chunks, 1 };
    snprintf(row.schedule, sizeof row.schedule, "%s", generator->name);
    row.generator = generator;
    for (size_t c = 0; c < chunks.count; c++) {
        row.chunks = chunks.at[c];
        if (takes(space, &row) && !add_row(space, &row))
            return false;
    }
    return true;
}

// Whether layers take the same time with both, and devices hold the same.
static bool cost_alike(const struct space *space, const struct generator *a, const struct generator *b)
{
    const bool pair_alike = (a->has_pairs || a->may_have_pairs) == (b->has_pairs || b->may_have_pairs);
    return a->copies == b->copies && (pair_alike || !space->hides_experts);
}

// A single rank has only one order. Otherwise adds the schedules whose costs are those of row.generator.
static bool add_schedules(struct space *space, struct config_row row)
{
    const struct generator *like = row.generator;
    if (row.ranks == 1) {
        snprintf(row.schedule, sizeof row.schedule, "%s", like->name);
        row.chunks = 1;
        return add_row(space, &row);
    }
    for (size_t i = 0; i < space->schedule_count; i++)
        if (cost_alike(space, space->schedules[i], like) && !add_schedule(space, space->schedules[i], row))
            return false;
    return true;
}

// --- each way to share out ----------------------------------------------------------------------------------

bool config_estimate(const struct config_request *request, const struct config_row *row, struct estimate *estimate,
                     struct error *error)
{
    const struct generator *generator = row->generator;
    struct estimate_request how = request->how;
    if (row->ranks > 1 && generator && !generator->has_pairs && !generator->may_have_pairs) {
        how.hidden_experts = false;
        how.said |= SAID_HIDDEN_EXPERTS;
    }
    how.tensor = row->tensor;
    how.context = row->context;
    how.expert = row->expert;
    how.data = (uint64_t)row->data * config_copies(row);
    how.inner_ranks = row->placement == PLACEMENT_PIPELINE_INSIDE ? row->ranks : 1;
    how.micro_batch = row->micro_batch;
    how.shard = row->shard;
    if (!how.like)
        how.sequence_parallel |= row->tensor > 1;
    how.whole_blocks = true;
    return estimate_model(request->model, request->device, &how, estimate, error);
}

// Whether a sharding mode is of use. If there is no other device to share with, there is only one mode. Weights that
// are gathered for every micro-batch are combined with a pipeline only on request.
static bool is_of_use(const struct space *space, const struct config_row *row)
{
    if (row->shard == ESTIMATE_SHARD_NONE)
        return true;
    if (row->context * row->data == 1)
        return false;
    return row->shard != ESTIMATE_SHARD_WEIGHTS || row->ranks == 1 || space->request->shards.count > 0;
}

// A placement, and what differs with it.
struct way {
    enum config_placement placement;
    struct config_hops hops;
    struct config_costs costs;
    double reduce_ns;
};

// With one pipeline, or with pipelines of one rank, there is only one order. If a model has experts, Megatron puts
// pipelines inside only if the devices that share the experts are those of one stage.
static bool can_stand(const struct space *space, const struct config_row *row, enum config_placement placement)
{
    if (placement == PLACEMENT_DATA_INSIDE)
        return true;
    return row->ranks > 1 && row->data > 1
           && (!space->request->model->experts || row->expert == row->tensor * row->context);
}

// `a` is not slower than `b` in its reduction, its layers or any message. Whatever the plan, it is not slower with
// `a`.
static bool is_no_slower(const struct space *space, const struct way *a, const struct way *b, uint32_t ranks)
{
    return a->reduce_ns <= b->reduce_ns && a->costs.work_ns <= b->costs.work_ns
           && config_hops_no_slower(space->request, &a->hops, &b->hops, ranks);
}

// Finds the placements to try: the one that is not slower in anything, or both. Returns 0, and why, if neither is
// possible.
static size_t find_ways(struct space *space, struct config_row *row, struct way ways[PLACEMENTS], struct error *why)
{
    static const enum config_placement both[] = { PLACEMENT_DATA_INSIDE, PLACEMENT_PIPELINE_INSIDE };
    const struct config_placements given = space->request->placements;
    const struct config_placements asked = given.count ? given : (struct config_placements){ both, PLACEMENTS };
    size_t count = 0;
    for (size_t i = 0; i < asked.count; i++) {
        row->placement = asked.at[i];
        if (row->ranks == 1 || row->data == 1)
            row->placement = PLACEMENT_DATA_INSIDE;  // the two are the same here
        if ((count > 0 && ways[0].placement == row->placement) || !can_stand(space, row, row->placement))
            continue;
        if (!config_estimate(space->request, row, space->estimate, why))
            return 0;
        ways[count++] = (struct way){ row->placement, config_hops(space->request, row),
                                      config_costs(space->request, config_memory(space->sweep, row->shard),
                                                   space->estimate),
                                      space->estimate->reduce_ns };
    }
    if (count == 2 && is_no_slower(space, &ways[0], &ways[1], row->ranks))
        return 1;
    if (count == 2 && is_no_slower(space, &ways[1], &ways[0], row->ranks)) {
        ways[0] = ways[1];
        return 1;
    }
    return count;
}

static bool add_ways_for(struct space *space, const struct generator *generator, struct config_row row)
{
    row.generator = generator;
    struct way ways[PLACEMENTS];
    struct error why = { 0 };
    const size_t count = find_ways(space, &row, ways, &why);
    if (count == 0) {
        const char *const apart = "pipelines stand inside only where tensor x context devices share the experts";
        config_meet(space->sweep, CONFIG_MODEL_IS_UNEVEN, "%s", why.text[0] ? why.text : apart);
        space->sweep->refused_degrees++;
    }
    for (size_t i = 0; i < count; i++) {
        row.placement = ways[i].placement;
        space->costs = ways[i].costs;
        space->reduce_ns = ways[i].reduce_ns;
        row.outcome = config_costs_may_fit(&space->costs, row.ranks) ? CONFIG_NOT_TRIED : CONFIG_DOES_NOT_FIT;
        if (!add_schedules(space, row))
            return false;
    }
    return true;
}

// Schedules whose costs are alike are added together.
static bool add_ways(struct space *space, struct config_row row)
{
    const struct generator *const *schedules = space->schedules;
    for (size_t i = 0; i < (row.ranks == 1 ? 1 : space->schedule_count); i++) {
        size_t first = 0;
        while (first < i && !cost_alike(space, schedules[first], schedules[i]))
            first++;
        if (first == i && !add_ways_for(space, row.ranks == 1 ? space->alone : schedules[i], row))
            return false;
    }
    return true;
}

static bool add_shards(struct space *space, struct config_row row)
{
    static const enum estimate_shard usual[] = {
        ESTIMATE_SHARD_NONE,
        ESTIMATE_SHARD_OPTIMIZER,
        ESTIMATE_SHARD_WEIGHTS,
    };
    const struct config_shards given = space->request->shards;
    const struct config_shards shards = given.count ? given : (struct config_shards){ usual, 3 };
    for (size_t i = 0; i < shards.count; i++) {
        row.shard = shards.at[i];
        if (is_of_use(space, &row) && !add_ways(space, row))
            return false;
    }
    return true;
}

static bool add_micro_batches(struct space *space, struct config_row row)
{
    const struct choices sizes = or_powers(space->request->micro_batches, 16);
    const uint32_t most = row.data;
    for (size_t b = 0; b < sizes.count; b++) {
        row.data = most;
        while (space->request->without && row.data > 1
               && space->request->global_batch % ((uint64_t)row.data * sizes.at[b]) != 0)
            row.data--;
        const uint64_t step = (uint64_t)row.data * sizes.at[b];
        if (space->request->global_batch % step != 0 || space->request->global_batch / step > MOST_MICRO_BATCHES) {
            config_meet(space->sweep, CONFIG_BATCH_IS_UNEVEN, "%u pipelines with micro-batches of %u have no even share"
                        " of the sequences, or more than %d micro-batches", row.data, sizes.at[b],
                        MOST_MICRO_BATCHES);
            continue;
        }
        row.micro_batch = sizes.at[b];
        row.micro_batches = (uint32_t)(space->request->global_batch / step);
        if (!add_shards(space, row))
            return false;
    }
    return true;
}

// All devices have work, unless some are missing. Then there are as many pipelines as possible such that the batch
// divides.
static bool add_pipelines(struct space *space, struct config_row row)
{
    const uint32_t without = space->request->without;
    const uint64_t group = (uint64_t)row.tensor * row.context;
    const uint32_t rest = (uint32_t)((space->request->devices - without) / group);
    const struct sweep_list asked = space->request->ranks;
    config_meet(space->sweep, CONFIG_RANKS_ARE_NONE,
                "a pipeline has 1 to %llu ranks (blocks, embedding and head), which divide the %u devices left by"
                " tensor %u x context %u; none of those asked for does",
                (unsigned long long)space->request->model->layers + 2, rest, row.tensor, row.context);
    for (uint32_t p = 1; p <= rest && p <= space->request->model->layers + 2; p++) {
        bool is_asked = asked.count == 0;
        for (size_t i = 0; i < asked.count; i++)
            is_asked |= asked.at[i] == p;
        row.ranks = p;
        row.data = rest / p;
        if (is_asked && (without || rest % p == 0) && !add_micro_batches(space, row))
            return false;
    }
    return true;
}

static uint64_t most_context(const struct space *space)
{
    const uint64_t sequence = space->request->how.sequence;
    return sequence / LEAST_TOKENS > 1 ? sequence / LEAST_TOKENS : 1;
}

static bool add_degrees(struct space *space)
{
    const struct config_request *request = space->request;
    const struct choices tensor = or_powers(request->tensor, request->model->heads);
    const struct choices context = or_powers(request->context, most_context(space));
    const struct choices expert = or_powers(request->expert, request->model->experts ? request->model->experts : 1);
    for (size_t t = 0; t < tensor.count; t++)
        for (size_t c = 0; c < context.count; c++)
            for (size_t e = 0; e < expert.count; e++) {
                const struct config_row row = { .tensor = tensor.at[t],
                                                .context = context.at[c],
                                                .expert = expert.at[e] };
                const uint64_t group = (uint64_t)row.tensor * row.context;
                config_meet(space->sweep, CONFIG_DEVICES_ARE_UNEVEN, "tensor %u x context %u does not divide the"
                            " devices", row.tensor, row.context);
                if ((request->without || request->devices % group == 0) && !add_pipelines(space, row))
                    return false;
            }
    return true;
}

// Counted for the model on one device, since no sharing out changes the model's FLOPs.
static bool count_flops(struct space *space)
{
    const struct config_row alone = { .tensor = 1, .context = 1, .expert = 1, .data = 1, .micro_batch = 1 };
    if (!config_estimate(space->request, &alone, space->estimate, space->error))
        return false;
    double flops = 0;
    for (int i = 0; i < LAYER_PARTS; i++)
        flops += (double)space->estimate->counts[i] * (double)space->estimate->parts[i].flops;
    space->sweep->model_flops = 3 * flops * (double)space->request->global_batch;
    return true;
}

// Whether what experts send is hidden, if the schedule lets it.
static bool hides_experts(const struct config_request *request)
{
    struct estimate_request how = request->how;
    framework_fill(request->model, request->device, &how);
    return how.hidden_experts && request->model->experts > 0;
}

// Schedules that run forwards together with backwards are of use if that hides something.
static bool find_schedules(struct space *space)
{
    space->hides_experts = hides_experts(space->request);
    space->alone = generator_find("1f1b", space->error);
    for (const struct generator *one = generators; one->name && space->request->schedule_count == 0; one++)
        if ((one->is_usual || (one->has_pairs && space->hides_experts && space->request->target == TARGET_ANY))
            && space->schedule_count < MOST_CHOICES)
            space->schedules[space->schedule_count++] = one;
    for (size_t i = 0; i < space->request->schedule_count && i < MOST_CHOICES; i++) {
        const struct generator *generator = generator_find(space->request->schedules[i], space->error);
        if (!generator)
            return false;
        if (generator->weights != WEIGHTS_FLUSH || generator->is_inference)
            return error_set(space->error, "%s does not flush: its iterations are not of so many sequences",
                             generator->name);
        space->schedules[space->schedule_count++] = generator;
    }
    return true;
}

bool config_list(struct config_sweep *sweep, struct error *error)
{
    struct space space = { .sweep = sweep, .request = &sweep->request, .error = error };
    space.estimate = malloc(sizeof *space.estimate);
    const bool good = space.estimate ? find_schedules(&space) && count_flops(&space) && add_degrees(&space)
                                     : error_no_memory(error, "a sweep");
    free(space.estimate);
    return good;
}
