#include "partitioner/sweep/config_sweep.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/number.h"
#include "partitioner/target_search.h"

const char *const config_outcome_names[] = {
    "not tried", "planned", "not quicker", "bounded", "does not fit", "refused", NULL,
};

// The number of rows that are planned against the same best. It is fixed, so that results do not depend on the number
// of threads.
enum { ROUND = 16 };

// --- a row ------------------------------------------------------------------------------------------------------

struct profile *config_profile(const struct config_request *request, const struct config_row *row, struct error *error)
{
    struct estimate *estimate = malloc(sizeof *estimate);
    if (!estimate)
        error_no_memory(error, "an estimate");
    struct profile *profile =
        estimate && config_estimate(request, row, estimate, error) ? estimate_profile(estimate, error) : NULL;
    free(estimate);
    return profile;
}

static void raise_bound(struct config_row *row, uint64_t least_ns)
{
    const uint64_t least = least_ns == UINT64_MAX ? UINT64_MAX : add_clamped(least_ns, row->between_ns);
    const uint64_t bound = least < row->iteration_ns ? least : row->iteration_ns;
    row->lower_bound_ns = bound > row->lower_bound_ns ? bound : row->lower_bound_ns;
}

// Takes the plan. A bound for plans below a goal differs from the plan's own certificate, which covers all that were
// tried.
static bool note_plan(struct config_row *row, struct plan *plan, uint64_t least_ns, struct error *error)
{
    uint32_t rank;
    if (row->outcome == CONFIG_PLANNED && add_clamped(plan->iteration_ns, row->between_ns) >= row->iteration_ns) {
        plan_free(plan);
        raise_bound(row, least_ns);
        return true;
    }
    plan_free(row->plan);
    row->outcome = CONFIG_PLANNED;
    row->plan = plan;
    row->iteration_ns = add_clamped(plan->iteration_ns, row->between_ns);
    row->lower_bound_ns = row->lower_bound_ns > row->bound_ns ? row->lower_bound_ns : row->bound_ns;
    raise_bound(row, least_ns);
    row->bubble = plan->bubble.makespan;
    row->peak_bytes = plan_peak_bytes(plan, &rank, error);
    return error->kind == ERROR_NONE;
}

static void note_none(struct config_row *row, uint64_t least_ns, const struct search_shortage *shortage,
                      const struct error *why)
{
    char bytes[NUMBER_SIZE];
    if (row->outcome == CONFIG_PLANNED) {  // but no quicker plan this time
        raise_bound(row, least_ns);
        return;
    }
    row->lower_bound_ns = row->bound_ns;
    if (why->kind == ERROR_INPUT) {
        row->outcome = CONFIG_REFUSED;
        snprintf(row->reason, sizeof row->reason, "%.*s", (int)sizeof row->reason - 1, why->text);
    } else if (least_ns == UINT64_MAX) {
        row->outcome = CONFIG_DOES_NOT_FIT;
        if (shortage->is_known)
            snprintf(row->reason, sizeof row->reason, "rank %u lacks %s", shortage->rank,
                     bytes_format(shortage->lacks_bytes, bytes));
    } else {
        const uint64_t least = add_clamped(least_ns, row->between_ns);
        row->outcome = CONFIG_NOT_QUICKER;
        row->lower_bound_ns = least > row->bound_ns ? least : row->bound_ns;
    }
}

// What all rows of a round have in common.
struct goal {
    uint64_t below_ns;  // an iteration has to be quicker than this; UINT64_MAX: no limit
    uint64_t budget;
};

// False only for a failure of the machine.
static bool plan_row(const struct config_sweep *sweep, struct config_row *row, struct goal goal, struct error *error)
{
    const struct config_request *request = &sweep->request;
    struct profile *profile = config_profile(request, row, error);
    struct cluster *cluster = profile ? config_cluster(request, row, config_memory(sweep, row->shard), error) : NULL;
    if (!cluster) {
        profile_free(profile);
        return false;
    }
    struct error why = { 0 };
    struct search_shortage shortage = { 0 };
    uint64_t least_ns = 0;
    struct storage storage = request->storage;
    storage_meet_profile(&storage, row->ranks > 1 ? TIED_USUAL : TIED_TOGETHER, profile, true);
    const struct search_request search = {
        .profile = profile,
        .cluster = cluster,
        .schedule = row->schedule,
        .ranks = row->ranks,
        .chunks = row->chunks,
        .micro_batches = row->micro_batches,
        .storage = storage,
        .wanted.below_ns = goal.below_ns == UINT64_MAX ? 0 : goal.below_ns - row->between_ns,
        .limits.budget = goal.budget,
        .limits.interrupted = request->interrupted,
        .found = { .shortage = &shortage, .least_ns = &least_ns },
    };
    struct plan *plan = plan_search_for(&search, request->target, &why);
    const bool is_interrupted = request->interrupted && *request->interrupted;
    bool good = true;
    if (plan)
        good = note_plan(row, plan, least_ns, error);
    else if (why.kind == ERROR_MACHINE && !is_interrupted)
        good = error_hand_on(error, &why);
    else if (!is_interrupted)
        note_none(row, least_ns, &shortage, &why);
    cluster_free(cluster);
    profile_free(profile);
    return good;
}

// --- a round of rows ----------------------------------------------------------------------------------------------

struct round {
    const struct config_sweep *sweep;
    struct config_row *rows[ROUND];
    size_t count;
    struct goal goal;
    atomic_size_t next;
    struct error errors[ROUND];
};

static void *work(void *self)
{
    struct round *round = self;
    for (size_t i; (i = atomic_fetch_add(&round->next, 1)) < round->count;)
        plan_row(round->sweep, round->rows[i], round->goal, &round->errors[i]);
    return NULL;
}

static bool run_round(struct round *round, unsigned threads, struct error *error)
{
    pthread_t others[ROUND];
    unsigned started = 0;
    while (started + 1 < threads && started + 1 < round->count
           && pthread_create(&others[started], NULL, work, round) == 0)
        started++;
    work(round);
    for (unsigned i = 0; i < started; i++)
        pthread_join(others[i], NULL);
    for (size_t i = 0; i < round->count && error->kind == ERROR_NONE; i++)
        *error = round->errors[i];
    return error->kind == ERROR_NONE;
}

// Keeps only the plan of the best row.
static void keep_best(struct config_sweep *sweep, struct round *round)
{
    for (size_t i = 0; i < round->count; i++) {
        struct config_row *row = round->rows[i];
        if (!row->plan || row == sweep->best)
            continue;
        if (!sweep->best || row->iteration_ns < sweep->best->iteration_ns) {
            if (sweep->best) {
                plan_free(sweep->best->plan);
                sweep->best->plan = NULL;
            }
            sweep->best = row;
        } else {
            plan_free(row->plan);
            row->plan = NULL;
        }
    }
}

// --- all of them ----------------------------------------------------------------------------------------------------

static int by_promise(const void *a, const void *b)
{
    const struct config_row *x = a, *y = b;
    if (x->expected_ns != y->expected_ns)
        return x->expected_ns < y->expected_ns ? -1 : 1;
    if (x->bound_ns != y->bound_ns)
        return x->bound_ns < y->bound_ns ? -1 : 1;
    const uint32_t left[] = { x->tensor,      x->context,   x->expert, x->ranks,
                              x->micro_batch, x->placement, x->shard,  x->chunks };
    const uint32_t right[] = { y->tensor,      y->context,   y->expert, y->ranks,
                               y->micro_batch, y->placement, y->shard,  y->chunks };
    for (size_t i = 0; i < sizeof left / sizeof left[0]; i++)
        if (left[i] != right[i])
            return left[i] < right[i] ? -1 : 1;
    return strcmp(x->schedule, y->schedule);
}

static void take_row(struct config_sweep *sweep, struct round *round, struct config_row *row)
{
    if (row->outcome == CONFIG_DOES_NOT_FIT) {
        row->lower_bound_ns = row->bound_ns;
        snprintf(row->reason, sizeof row->reason, "what it has to hold is too much, whatever runs again");
    } else if (sweep->best && row->bound_ns >= sweep->best->iteration_ns) {
        row->outcome = CONFIG_BOUNDED;
        row->lower_bound_ns = row->bound_ns;
    } else {
        round->rows[round->count++] = row;
    }
}

static bool is_interrupted(struct config_sweep *sweep)
{
    const struct config_request *request = &sweep->request;
    if (request->interrupted && *request->interrupted)
        snprintf(sweep->stopped, sizeof sweep->stopped, "interrupted");
    return sweep->stopped[0];
}

static bool must_stop(struct config_sweep *sweep, uint64_t since)
{
    const uint64_t deadline_ns = sweep->request.deadline_ns;
    if (!is_interrupted(sweep) && deadline_ns && clock_now_ns() - since >= deadline_ns)
        snprintf(sweep->stopped, sizeof sweep->stopped, "its time was over");
    return sweep->stopped[0];
}

static uint64_t best_time(const struct config_sweep *sweep)
{
    return sweep->best ? sweep->best->iteration_ns : UINT64_MAX;
}

static uint64_t budget_of(const struct config_request *request)
{
    return request->budget ? request->budget : CONFIG_DEFAULT_BUDGET;
}

static uint64_t first_budget(const struct config_request *request)
{
    return min_u64(budget_of(request), CONFIG_FIRST_BUDGET);
}

// Plans the quickest rows once more, each with its full budget. These are planned rows that may still have a plan
// quicker than the best.
static bool run_best_again(struct config_sweep *sweep, unsigned threads, struct error *error)
{
    struct round round = { .sweep = sweep, .goal = { best_time(sweep), budget_of(&sweep->request) } };
    for (size_t i = 0; i < sweep->count; i++) {
        struct config_row *row = &sweep->rows[i];
        if (row->outcome != CONFIG_PLANNED || row->lower_bound_ns >= round.goal.below_ns)
            continue;
        size_t place = round.count < ROUND ? round.count++ : ROUND;
        for (; place > 0 && round.rows[place - 1]->iteration_ns > row->iteration_ns; place--)
            if (place < ROUND)
                round.rows[place] = round.rows[place - 1];
        if (place < ROUND)
            round.rows[place] = row;
    }
    if (!run_round(&round, threads, error))
        return false;
    keep_best(sweep, &round);
    is_interrupted(sweep);  // if so, some rows had less work than they may have
    return true;
}

// Rows that are shown should say what their way to share out can reach. For each of them, the row that may be quicker
// than what was planned of its way is planned, too, however slow it is beside the best.
static bool run_shown(struct config_sweep *sweep, unsigned threads, uint64_t since, struct error *error)
{
    enum { ROUNDS = 6 };
    for (int i = 0; i < ROUNDS && !must_stop(sweep, since); i++) {
        const struct config_row *shown[CONFIG_MOST_SHOWN];
        struct round round = { .sweep = sweep, .goal = { UINT64_MAX, first_budget(&sweep->request) } };
        const size_t count = config_shown(sweep, shown);
        for (size_t j = 0; j < count; j++) {
            struct config_row *open = config_open_row(sweep, shown[j]);
            if (!open)
                continue;
            open->was_looked_at = true;
            round.rows[round.count++] = open;
        }
        if (round.count == 0)
            break;
        if (!run_round(&round, threads, error))
            return false;
        keep_best(sweep, &round);
    }
    return true;
}

static bool run_rows(struct config_sweep *sweep, uint64_t since, struct error *error)
{
    const struct config_request *request = &sweep->request;
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    const unsigned threads = request->threads ? request->threads : cores > 0 ? (unsigned)cores : 1;
    for (size_t next = 0; next < sweep->count && !must_stop(sweep, since);) {
        struct round round = { .sweep = sweep };
        while (next < sweep->count && round.count < ROUND)
            take_row(sweep, &round, &sweep->rows[next++]);
        round.goal = (struct goal){ best_time(sweep), first_budget(request) };
        if (!run_round(&round, threads, error))
            return false;
        keep_best(sweep, &round);
        if (request->progress)
            request->progress(request->self, next, sweep->count);
    }
    return !sweep->best || must_stop(sweep, since)
        || (run_best_again(sweep, threads, error) && run_shown(sweep, threads, since, error));
}

static void free_one(struct config_sweep *sweep)
{
    for (size_t i = 0; i < sweep->count; i++)
        plan_free(sweep->rows[i].plan);
    free(sweep->rows);
    free(sweep);
}

static struct config_sweep *run_one(const struct config_request *given, struct error *error)
{
    const uint64_t since = clock_now_ns();
    struct config_sweep *sweep = calloc(1, sizeof *sweep);
    if (!sweep)
        return error_null(error_no_memory(error, "a sweep"));
    sweep->request = *given;
    struct config_request *request = &sweep->request;
    const struct rated_device *device = request->device;
    sweep->memory_bytes = request->memory_bytes ? request->memory_bytes : device->memory_bytes - device->reserved_bytes;
    if (request->how.sequence == 0)
        request->how.sequence = request->model->longest;
    bool good = config_check(request, error) && config_list(sweep, error);
    if (good && sweep->count == 0)
        good = error_set(error, "no configuration of %u devices takes a batch of %llu: %s",
                         request->devices, (unsigned long long)request->global_batch, sweep->met);
    if (good)
        qsort(sweep->rows, sweep->count, sizeof sweep->rows[0], by_promise);
    if (!good || !run_rows(sweep, since, error)) {
        free_one(sweep);
        return NULL;
    }
    config_judge(sweep);
    return sweep;
}

// Runs the sweep without the slow devices, in the remaining time. `left_out` stays NULL if the other devices cannot
// share the model out.
static bool leave_out(struct config_sweep *sweep, uint64_t since, struct error *error)
{
    struct config_request request = sweep->request;
    const uint64_t spent = clock_now_ns() - since;
    request.without += request.slow;
    request.slow = 0;
    if (request.deadline_ns)
        request.deadline_ns = request.deadline_ns > spent ? request.deadline_ns - spent : 1;
    struct error why = { 0 };
    sweep->left_out = run_one(&request, &why);
    return sweep->left_out || why.kind == ERROR_INPUT || error_hand_on(error, &why);
}

void config_request_for(struct config_request *request, enum plan_target target)
{
    static const char *const schedules[] = { "1f1b", "interleaved", "zb-v" };  // Megatron-Core has the first two
    static const enum config_placement titan[] = { PLACEMENT_DATA_INSIDE };  // torchtitan has the pipeline outermost
    request->target = target;
    if (target == TARGET_TORCHTITAN && request->placements.count == 0)
        request->placements = (struct config_placements){ titan, 1 };
    if (request->schedule_count == 0 && target != TARGET_ANY) {
        request->schedules = schedules;
        request->schedule_count = target == TARGET_MEGATRON ? 2 : 3;
    }
}

struct config_sweep *config_sweep_run(const struct config_request *request, struct error *error)
{
    const uint64_t since = clock_now_ns();
    struct config_sweep *sweep = run_one(request, error);
    if (!sweep || !request->slow || leave_out(sweep, since, error))
        return sweep;
    config_sweep_free(sweep);
    return NULL;
}

void config_sweep_free(struct config_sweep *sweep)
{
    if (!sweep)
        return;
    if (sweep->left_out)
        free_one(sweep->left_out);
    free_one(sweep);
}
