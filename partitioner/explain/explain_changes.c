// Lists what can be changed about a request, and what planning the changed request gives.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/json.h"
#include "common/number.h"
#include "partitioner/evaluate/reprice.h"
#include "partitioner/explain/explain.h"
#include "partitioner/search/search_request.h"
#include "schedules/generators/generate.h"

enum { MOST_TIGHT = 4, MOST_STEPS = 3 };
#define NO_LIMIT_BYTES ((uint64_t)1 << 50)

struct changing {
    const struct explain_request *request;
    const struct plan *best;  // of the unchanged request
    struct search_request unchanged;
    struct explanation *explanation;
    size_t capacity;
    struct error *error;
};

static bool is_interrupted(const struct changing *changing)
{
    return changing->request->interrupted && *changing->request->interrupted;
}

const struct what_if *explain_find(const struct explanation *explanation, enum what_if_kind kind)
{
    const struct what_if *found = NULL;
    for (size_t i = 0; i < explanation->change_count; i++) {
        const struct what_if *change = &explanation->changes[i];
        if (change->kind == kind && change->row.found.outcome == SWEEP_PLANNED
            && (!found || change->gain > found->gain))
            found = change;
    }
    return found;
}

double explain_gain(const struct explanation *explanation, enum what_if_kind kind)
{
    const struct what_if *change = explain_find(explanation, kind);
    return change ? change->gain : 0;
}

// --- one change -----------------------------------------------------------------------

static struct what_if *add(struct changing *changing, const struct what_if *change)
{
    struct explanation *explanation = changing->explanation;
    if (!array_reserve(&explanation->changes, &changing->capacity, explanation->change_count + 1,
                       sizeof explanation->changes[0]))
        return error_null(error_no_memory(changing->error, "an explanation"));
    explanation->changes[explanation->change_count++] = *change;
    return &explanation->changes[explanation->change_count - 1];
}

// On another cluster, the existing plan may be better than what the search finds anew.
static bool hold_against_best(struct changing *changing, const struct search_request *search, struct sweep_row *row)
{
    const struct plan *best = changing->best;
    if (search->cluster == best->cluster || search->ranks != best->ranks || search->micro_batches != best->micro_batches
        || search->schedule != changing->unchanged.schedule || search->layout.variants)
        return true;
    struct plan *same = plan_reprice(best, search, changing->error);
    struct plan_excess excess = { 0 };
    const bool good = same && plan_find_excess(same, same->cluster, &excess, changing->error);
    if (good && excess.lacks_bytes == 0)
        what_if_keep(row, same, &changing->explanation->unchanged);
    plan_free(same);
    return good;
}

// Plans the changed request. A change for which there is no schedule is not added.
static bool try_change(struct changing *changing, struct search_request *search, struct what_if *change)
{
    const struct explain_request *request = changing->request;
    change->row.found.outcome = SWEEP_NOT_TRIED;
    if (is_interrupted(changing))
        return true;
    if (request->progress)
        request->progress(request->self, changing->explanation->change_count);
    search->limits.budget = changing->explanation->budget;
    search->limits.interrupted = request->interrupted;
    if (!what_if_plan(search, change, changing->error) || !hold_against_best(changing, search, &change->row))
        return false;
    plan_free(change->row.plan);
    change->row.plan = NULL;
    what_if_compare(change, &changing->explanation->unchanged);
    return true;
}

static bool try_and_add(struct changing *changing, struct search_request *search, struct what_if *change)
{
    if (!try_change(changing, search, change))
        return false;
    const enum sweep_outcome outcome = change->row.found.outcome;
    return outcome == SWEEP_REFUSED || outcome == SWEEP_NOT_TRIED || add(changing, change) != NULL;
}

// --- memory ---------------------------------------------------------------------------

// Gives all devices `permille` of their memory (0: unchanged), and one of them `more_bytes` more.
static bool try_memory(struct changing *changing, struct what_if *change, uint64_t permille, uint32_t device,
                       uint64_t more_bytes)
{
    struct search_request search = changing->unchanged;
    struct cluster *cluster = cluster_copy(changing->best->cluster, changing->error);
    if (!cluster)
        return false;
    for (size_t i = 0; i < cluster->device_count; i++) {
        uint64_t *memory = &cluster->devices[i].memory_bytes;
        *memory = permille ? *memory / 1000 * permille + *memory % 1000 * permille / 1000 : *memory;
        if (change->kind == WHAT_IF_NO_MEMORY_LIMIT)
            *memory = NO_LIMIT_BYTES;
        if (i == device)
            *memory = add_clamped(*memory, more_bytes);
        *memory = *memory < JSON_MAX ? *memory : JSON_MAX;
    }
    search.cluster = cluster;
    const bool good = try_change(changing, &search, change);
    cluster_free(cluster);
    // More memory takes nothing away. With it, the best plan cannot be slower.
    change->least_gain =
        good && change->row.found.outcome == SWEEP_PLANNED && change->least_gain < 0 ? 0 : change->least_gain;
    return good;
}

static bool try_all_memory(struct changing *changing, enum what_if_kind kind, uint64_t permille, const char *words)
{
    struct what_if change = { .kind = kind };
    snprintf(change.change, sizeof change.change, "%s", words);
    return try_memory(changing, &change, permille, UINT32_MAX, 0)
        && (change.row.found.outcome != SWEEP_PLANNED || add(changing, &change));
}

// A step that some neighbour of the plan would take if its rank had so many bytes more.
struct step {
    uint32_t rank;
    uint64_t bytes;
};

static int by_rank_and_bytes(const void *a, const void *b)
{
    const struct step *x = a, *y = b;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

// Finds the steps that would gain if there were room.
static bool find_steps(const struct changing *changing, struct step **steps, size_t *count)
{
    const struct plan *best = changing->best;
    *steps = calloc(best->stage_count * MOST_NEIGHBOURS + 1, sizeof (*steps)[0]);
    *count = 0;
    if (!*steps)
        return error_no_memory(changing->error, "an explanation");
    for (uint32_t s = 0; s < best->stage_count && !is_interrupted(changing); s++) {
        struct neighbour found[MOST_NEIGHBOURS];
        size_t neighbours;
        if (!neighbours_of_stage(best, changing->request->profile, s, found, &neighbours, changing->error))
            return false;
        for (size_t i = 0; i < neighbours; i++)
            if (found[i].outcome == NEIGHBOUR_NO_ROOM && found[i].iteration_ns < best->iteration_ns)
                (*steps)[(*count)++] = (struct step){ found[i].rank, found[i].lacks_bytes };
    }
    qsort(*steps, *count, sizeof (*steps)[0], by_rank_and_bytes);
    return true;
}

// Adds the smallest of a rank's steps that gains once it is planned.
static bool try_steps_of_rank(struct changing *changing, uint32_t device, const struct step *steps, size_t count)
{
    for (size_t i = 0; i < count && i < MOST_STEPS && !is_interrupted(changing); i++) {
        struct what_if change = { .kind = WHAT_IF_DEVICE_MEMORY, .at = device, .more_bytes = steps[i].bytes };
        char bytes[NUMBER_SIZE];
        snprintf(change.change, sizeof change.change, "%s more on %.60s", bytes_format(steps[i].bytes, bytes),
                 changing->best->cluster->devices[device].name);
        if (!try_memory(changing, &change, 0, device, steps[i].bytes))
            return false;
        if (change.row.found.outcome == SWEEP_PLANNED && change.gain > 0)
            return add(changing, &change) != NULL;
    }
    return true;
}

static bool try_steps(struct changing *changing, const struct balance *balance)
{
    struct step *steps = NULL;
    size_t count = 0;
    bool good = find_steps(changing, &steps, &count);
    for (size_t i = 0, end, tried = 0; good && i < count && tried < MOST_TIGHT; i = end, tried++) {
        for (end = i + 1; end < count && steps[end].rank == steps[i].rank; end++)
            continue;
        good = try_steps_of_rank(changing, balance->placement->devices[steps[i].rank], steps + i, end - i);
    }
    free(steps);
    return good;
}

// States that replicas share (sharding), or that are on the host, make room as well.
static bool change_storage(struct changing *changing)
{
    const struct search_request *unchanged = &changing->unchanged;
    struct search_request shared = *unchanged, optimizer = *unchanged, activations = *unchanged;
    struct what_if change = what_if_shard(&shared, SHARD_OPTIMIZER);
    if (unchanged->layout.replicas && unchanged->storage.shard == SHARD_NONE
        && !try_and_add(changing, &shared, &change))
        return false;
    if (!changing->best->cluster->has_host)
        return true;
    change = what_if_host(&optimizer, true, false);
    if (!unchanged->storage.optimizer_on_host && !try_and_add(changing, &optimizer, &change))
        return false;
    change = what_if_host(&activations, false, true);
    return unchanged->storage.activations_on_host || try_and_add(changing, &activations, &change);
}

// If unlimited memory gains nothing, no part of it does.
static bool change_memory(struct changing *changing)
{
    if (!try_all_memory(changing, WHAT_IF_NO_MEMORY_LIMIT, 0, "no limit of memory"))
        return false;
    const struct what_if *limitless = explain_find(changing->explanation, WHAT_IF_NO_MEMORY_LIMIT);
    if (limitless && limitless->most_gain <= 0)
        return true;
    struct balance balance;
    if (!balance_read(changing->best, &balance, changing->error))
        return false;
    const bool good = try_all_memory(changing, WHAT_IF_MEMORY, 1100, "10 % more memory on all devices")
                   && try_steps(changing, &balance) && change_storage(changing);
    balance_clear(&balance);
    return good;
}

// --- links ------------------------------------------------------------------------------

static void change_link(struct cluster_level *link, size_t level, struct what_if *change)
{
    char before[NUMBER_SIZE], after[NUMBER_SIZE];
    if (change->kind == WHAT_IF_NO_LINK_COST) {
        *link = (struct cluster_level){ .size = link->size, .bytes_per_second = JSON_MAX };
        snprintf(change->change, sizeof change->change, "links that cost nothing");
    } else if (change->kind == WHAT_IF_RATE) {
        rate_format(link->bytes_per_second, before);
        link->bytes_per_second = min_u64(multiply_clamped(2, link->bytes_per_second), JSON_MAX);
        snprintf(change->change, sizeof change->change, "twice the rate of level %zu (%s)", level, before);
    } else {
        time_format(link->latency_ns, before);
        link->latency_ns /= 2;
        snprintf(change->change, sizeof change->change, "half the latency of level %zu (%s, from %s)", level,
                 time_format(link->latency_ns, after), before);
    }
}

static bool try_links(struct changing *changing, enum what_if_kind kind, size_t level)
{
    struct what_if change = { .kind = kind, .at = (uint32_t)level };
    struct search_request search = changing->unchanged;
    struct cluster *cluster = cluster_copy(changing->best->cluster, changing->error);
    if (!cluster)
        return false;
    for (size_t l = 0; l < cluster->level_count; l++)
        if (l == level || kind == WHAT_IF_NO_LINK_COST)
            change_link(&cluster->levels[l], l, &change);
    search.cluster = cluster;
    const bool good = try_and_add(changing, &search, &change);
    cluster_free(cluster);
    return good;
}

static bool change_links(struct changing *changing)
{
    const struct cluster *cluster = changing->best->cluster;
    if (cluster->level_count == 0 || changing->best->ranks == 1)
        return true;
    if (!try_links(changing, WHAT_IF_NO_LINK_COST, 0))
        return false;
    for (size_t level = 0; level < cluster->level_count; level++) {
        if (!try_links(changing, WHAT_IF_RATE, level)
            || (cluster->levels[level].latency_ns > 1 && !try_links(changing, WHAT_IF_LATENCY, level)))
            return false;
    }
    return true;
}

// --- the shape --------------------------------------------------------------------------

static bool change_micro_batches(struct changing *changing)
{
    struct search_request search = changing->unchanged;
    if (search.micro_batches > UINT32_MAX / 2)
        return true;
    struct what_if change = what_if_micro_batches(&search, 2 * search.micro_batches);
    return try_and_add(changing, &search, &change);
}

static bool try_ranks(struct changing *changing, uint32_t ranks)
{
    struct search_request search = changing->unchanged;
    struct what_if change;
    struct cluster *larger;
    if (!what_if_ranks(&search, ranks, &change, &larger, changing->error))
        return false;
    const bool good = search.ranks != ranks || try_and_add(changing, &search, &change);
    cluster_free(larger);
    return good;
}

static bool change_ranks(struct changing *changing)
{
    const uint32_t ranks = changing->best->ranks;
    return try_ranks(changing, ranks + 1) && (ranks == 1 || try_ranks(changing, ranks - 1));
}

// Tries a schedule with this many stages per rank; 0: its usual number.
static bool try_schedule(struct changing *changing, const struct generator *generator, uint32_t chunks)
{
    struct search_request search = changing->unchanged;
    struct what_if change = what_if_schedule(&search, generator->name, chunks);
    const uint32_t stages = chunks ? chunks : generator->usual_chunks;
    if (strcmp(generator->name, changing->unchanged.schedule) == 0 && stages == changing->unchanged.chunks)
        return true;
    return try_and_add(changing, &search, &change);
}

// Tries the schedules of the same class that a sweep tries.
static bool change_schedule(struct changing *changing)
{
    const struct generator *current = search_generator(&changing->unchanged);
    if (current->is_inference)
        return true;
    for (const struct generator *other = generators; other->name; other++) {
        const bool is_alike = (other->weights == WEIGHTS_FLUSH) == (current->weights == WEIGHTS_FLUSH);
        const uint32_t more = sweep_more_chunks(other);
        if (is_alike && search_offers(other, changing->request->profile)
            && (!try_schedule(changing, other, 0) || (more && !try_schedule(changing, other, more))))
            return false;
    }
    return true;
}

// --- all of it ----------------------------------------------------------------------------

// Sorted by gain. What does not fit comes last, sorted by what it lacks. Ties stay in the order in which they were
// tried.
static int by_gain(const void *a, const void *b)
{
    const struct what_if *x = a, *y = b;
    if (x->row.found.outcome != y->row.found.outcome)
        return x->row.found.outcome < y->row.found.outcome ? -1 : 1;
    if (x->gain != y->gain)
        return x->gain > y->gain ? -1 : 1;
    if (x->row.found.lacks_bytes != y->row.found.lacks_bytes)
        return x->row.found.lacks_bytes < y->row.found.lacks_bytes ? -1 : 1;
    return x->kind != y->kind ? (x->kind < y->kind ? -1 : 1) : strcmp(x->change, y->change);
}

bool explain_changes(const struct explain_request *request, const struct plan *best, struct explanation *explanation,
                     struct error *error)
{
    struct changing changing = { .request = request, .best = best, .explanation = explanation, .error = error };
    struct question question;
    if (!question_of(best, request->profile, &question, error))
        return false;
    changing.unchanged = question.request;
    const bool good = change_memory(&changing) && change_links(&changing) && change_micro_batches(&changing)
                   && change_ranks(&changing) && change_schedule(&changing);
    question_clear(&question);
    if (good && explanation->change_count > 0)
        qsort(explanation->changes, explanation->change_count, sizeof explanation->changes[0], by_gain);
    return good;
}
