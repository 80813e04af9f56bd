#include "partitioner/sweep/sweep.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/array.h"
#include "common/number.h"
#include "partitioner/search/search_request.h"
#include "profiler/profile_reorder.h"
#include "schedules/generators/generate.h"

const char *const sweep_class_names[] = { "flushing", "asynchronous", "inference", NULL };
const char *const sweep_outcome_names[] = { "planned", "does not fit", "none found", "refused", "not tried", NULL };

enum { MOST_ROWS = 10000 };

// --- which rows there are ---------------------------------------------------------------

struct listing {
    const struct sweep_request *request;
    struct sweep *sweep;
    size_t capacity;
    struct error *error;
};

// An order that is searched for is a schedule without a generator. Its stages are placed one way or on a V.
static const struct generator searched = { .name = SWEEP_ORDER_NAME, .weights = WEIGHTS_FLUSH, .usual_chunks = 1 };

static enum sweep_class class_of(const struct generator *generator)
{
    if (generator->is_inference)
        return SWEEP_INFERENCE;
    return generator->weights == WEIGHTS_FLUSH ? SWEEP_FLUSHING : SWEEP_ASYNCHRONOUS;
}

static bool add_row(struct listing *listing, const struct generator *generator, uint32_t ranks, uint32_t chunks,
                    uint32_t micro_batches)
{
    struct sweep *sweep = listing->sweep;
    if (sweep->count == MOST_ROWS)
        return error_set(listing->error, "a sweep of more than %d plans is too large", MOST_ROWS);
    if (!array_reserve(&sweep->rows, &listing->capacity, sweep->count + 1, sizeof sweep->rows[0]))
        return error_no_memory(listing->error, "a sweep");
    struct sweep_row *row = &sweep->rows[sweep->count++];
    *row = (struct sweep_row){ .weights = generator->weights, .class = class_of(generator), .ranks = ranks,
                               .chunks = chunks, .micro_batches = micro_batches, .found.outcome = SWEEP_NOT_TRIED };
    snprintf(row->schedule, sizeof row->schedule, "%s", generator->name);
    row->only_simulated = sweep_is_order(row);  // until a plan for it is found
    return true;
}

// A schedule that is not possible is an answer. A failure of the machine to find out is not.
static bool is_mere_no(const struct error *why, struct error *error)
{
    if (why->kind == ERROR_MACHINE)
        *error = *why;
    return why->kind != ERROR_MACHINE;
}

// False, too, if the machine failed; the listing's error then says so.
static bool takes(const struct listing *listing, const struct generator *generator, uint32_t ranks, uint32_t chunks,
                  uint32_t micro_batches)
{
    struct error why = { 0 };
    struct schedule *order = schedule_generate(generator->name, ranks, chunks, micro_batches, &why);
    const bool good = order != NULL;
    schedule_free(order);
    is_mere_no(&why, listing->error);
    return good;
}

static struct sweep_list or_usual(struct sweep_list wanted, const uint32_t *usual, size_t count)
{
    return wanted.count ? wanted : (struct sweep_list){ usual, count };
}

uint32_t sweep_more_chunks(const struct generator *generator)
{
    return generator->usual_chunks > 1 || generator == &searched ? 2 * generator->usual_chunks : 0;
}

// If the request does not say how many stages per rank, twice the usual number is tried only if the schedule takes
// that.
static bool add_on_ranks(struct listing *listing, const struct generator *generator, uint32_t ranks)
{
    const struct sweep_request *request = listing->request;
    const uint32_t usual_chunks[] = { generator->usual_chunks, sweep_more_chunks(generator) };
    const uint32_t usual_micro_batches[] = { ranks, 2 * ranks, 4 * ranks, 8 * ranks };
    const struct sweep_list chunks = or_usual(request->chunks, usual_chunks, usual_chunks[1] ? 2 : 1);
    const struct sweep_list micro_batches = or_usual(request->micro_batches, usual_micro_batches, 4);
    for (size_t c = 0; c < chunks.count; c++) {
        const bool must_ask = c > 0 && !request->chunks.count && generator != &searched;
        for (size_t i = 0; i < micro_batches.count; i++)
            if ((!must_ask || takes(listing, generator, ranks, chunks.at[c], micro_batches.at[i]))
                && !add_row(listing, generator, ranks, chunks.at[c], micro_batches.at[i]))
                return false;
    }
    return listing->error->kind != ERROR_MACHINE;
}

static bool add_schedule(struct listing *listing, const struct generator *generator)
{
    const uint32_t devices = (uint32_t)listing->request->cluster->device_count;
    const struct sweep_list ranks = or_usual(listing->request->ranks, &devices, 1);
    bool good = true;
    for (size_t i = 0; good && i < ranks.count; i++)
        good = add_on_ranks(listing, generator, ranks.at[i]);
    return good;
}

// Whether the requested engine runs it, if there is one. An order has to be found first (sweep_order.c).
static bool is_asked_for(const struct sweep_request *request, const struct generator *generator, struct error *error)
{
    if (!request->engine || generator == &searched)
        return true;
    return engine_runs_generator(request->engine, generator, error);
}

static bool list_rows(struct listing *listing)
{
    const struct sweep_request *request = listing->request;
    for (size_t i = 0; i < request->schedule_count; i++) {
        const bool is_searched = strcmp(request->schedules[i], SWEEP_ORDER_NAME) == 0;
        const struct generator *generator =
            is_searched ? &searched : generator_find(request->schedules[i], listing->error);
        if (generator && !is_asked_for(request, generator, listing->error))
            return error_at(listing->error, "%s is not run by %s", request->schedules[i], request->engine->name);
        if (!generator || !add_schedule(listing, generator))
            return false;
    }
    if (request->schedule_count)
        return true;
    for (const struct generator *generator = generators; generator->name; generator++) {
        struct error why = { 0 };
        const bool is_wanted = search_offers(generator, request->profile) && is_asked_for(request, generator, &why);
        if (!is_mere_no(&why, listing->error) || (is_wanted && !add_schedule(listing, generator)))
            return false;
    }
    return add_schedule(listing, &searched);
}

// --- all rows, by several threads ---------------------------------------------------------

// False only for a failure of the machine.
static bool plan_row(const struct sweep_request *request, struct sweep_row *row, struct error *error)
{
    if (sweep_is_order(row))
        return sweep_order_row(request, row, error);
    struct search_request search = sweep_search_of(request, row);
    search.found.work = &row->work;
    return sweep_plan_row(&search, row, error);
}

// Plans over all orders of the layers, starting from the plan of the profile's own order.
static bool widen_row(const struct sweep_request *request, struct sweep_row *row, struct error *error)
{
    struct search_request search = sweep_search_of(request, row);
    search.wanted.own_order = false;
    return search_resolve(&search, error) && sweep_widen_row(&search, row, error);
}

typedef bool row_work(const struct sweep_request *request, struct sweep_row *row, struct error *error);

struct pool {
    const struct sweep_request *request;
    row_work *work;
    struct sweep_row **rows;
    size_t count;
    atomic_size_t next;
    atomic_bool failed;
    pthread_mutex_t lock;  // protects the fields below
    size_t done, all;      // of everything there is to do
    size_t failed_row;     // the first one, so that the message does not depend on the threads' timing
    struct error *error;
};

static void note_end(struct pool *pool, size_t i, const struct error *error)
{
    pthread_mutex_lock(&pool->lock);
    pool->done++;
    if (error->kind != ERROR_NONE && (pool->error->kind == ERROR_NONE || i < pool->failed_row)) {
        *pool->error = *error;
        pool->failed_row = i;
    }
    if (pool->request->progress)
        pool->request->progress(pool->request->self, pool->done, pool->all);
    pthread_mutex_unlock(&pool->lock);
}

static void *work(void *self)
{
    struct pool *pool = self;
    const volatile sig_atomic_t *interrupted = pool->request->interrupted;
    for (;;) {
        const size_t i = atomic_fetch_add(&pool->next, 1);
        if (i >= pool->count || atomic_load(&pool->failed) || (interrupted && *interrupted))
            return NULL;
        struct error error = { 0 };
        if (!pool->work(pool->request, pool->rows[i], &error))
            atomic_store(&pool->failed, true);
        note_end(pool, i, &error);
    }
}

static unsigned thread_count(const struct sweep_request *request, size_t rows)
{
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    const size_t wanted = request->threads ? request->threads : cores > 0 ? (size_t)cores : 1;
    return (unsigned)(wanted < rows ? wanted : rows);
}

// The caller works as well. If no more threads can be created, fewer work.
static bool run_pool(struct pool *pool)
{
    const unsigned count = thread_count(pool->request, pool->count);
    pthread_t *threads = calloc(count + 1, sizeof threads[0]);
    if (!threads)
        return error_no_memory(pool->error, "a sweep");
    pthread_mutex_init(&pool->lock, NULL);
    unsigned started = 0;
    while (started + 1 < count && pthread_create(&threads[started], NULL, work, pool) == 0)
        started++;
    work(pool);
    for (unsigned i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    pthread_mutex_destroy(&pool->lock);
    free(threads);
    return pool->error->kind == ERROR_NONE;
}

// Whether a row that was planned in only one of several orders may beat the best of its class, or may get a plan at
// all.
static bool may_win(const struct sweep_row *const *best, const struct sweep_row *row)
{
    const struct sweep_found *found = &row->found;
    if (sweep_is_order(row))  // only its time is claimed
        return false;
    if (found->outcome != SWEEP_PLANNED)
        return found->outcome == SWEEP_NONE_FOUND;
    const struct sweep_row *other = best[row->class];
    return !found->proved && (unsigned __int128)found->lower_bound_ns * other->micro_batches
                                 < (unsigned __int128)other->found.iteration_ns * row->micro_batches;
}

// The budget of each of `count` rows.
static uint64_t wide_budget(const struct sweep *sweep, size_t count)
{
    uint64_t work = 0;
    for (size_t i = 0; i < sweep->count; i++)
        work += sweep->rows[i].work;
    return min_u64(sweep->budget, max_u64(work / 3 * 2 / (count + 1), SWEEP_LEAST_WIDE));
}

// Plans all rows in the profile's own order of layers. If there are several orders, and the own one was not
// requested, it then plans the rows that may win over all orders. Which rows those are is known only after all
// others, whatever the number of threads.
static bool run_rows(const struct sweep_request *request, struct sweep *sweep, struct error *error)
{
    const bool is_graph = !profile_has_one_order(request->profile) && !request->own_order;
    struct sweep_row **rows = calloc(sweep->count + 1, sizeof(struct sweep_row *));
    if (!rows)
        return error_no_memory(error, "a sweep");
    for (size_t i = 0; i < sweep->count; i++)
        rows[i] = &sweep->rows[i];
    struct pool pool = { .request = request, .work = plan_row, .rows = rows, .count = sweep->count,
                         .all = (is_graph ? 2 : 1) * sweep->count, .error = error };
    bool good = run_pool(&pool);
    if (good && is_graph) {
        const struct sweep_row *best[] = { sweep_best_of(sweep, SWEEP_FLUSHING),
                                           sweep_best_of(sweep, SWEEP_ASYNCHRONOUS),
                                           sweep_best_of(sweep, SWEEP_INFERENCE) };
        struct sweep_request wide_request = *request;
        struct pool wide = { .request = &wide_request, .work = widen_row, .rows = rows, .all = pool.all,
                             .error = error };
        for (size_t i = 0; i < sweep->count; i++)
            if (may_win(best, &sweep->rows[i]))
                rows[wide.count++] = &sweep->rows[i];
        wide.done = wide.all - wide.count;
        wide_request.budget = wide_budget(sweep, wide.count);
        good = run_pool(&wide);
    }
    free(rows);
    return good;
}

// --- the whole ----------------------------------------------------------------------------

static struct sweep *begin(const struct sweep_request *request, struct error *error)
{
    struct sweep *sweep = calloc(1, sizeof *sweep);
    if (!sweep)
        return error_null(error_no_memory(error, "a sweep"));
    sweep->model = request->profile->model;
    sweep->cluster = request->cluster;
    sweep->storage = request->storage;
    sweep->budget = request->budget ? request->budget : SWEEP_DEFAULT_BUDGET;
    snprintf(sweep->profile_hash, sizeof sweep->profile_hash, "%s", request->profile->hash);
    return sweep;
}

struct sweep *sweep_run(const struct sweep_request *request, struct error *error)
{
    struct sweep *sweep = begin(request, error);
    if (!sweep)
        return NULL;
    struct listing listing = { .request = request, .sweep = sweep, .error = error };
    if (!list_rows(&listing) || !run_rows(request, sweep, error)) {
        sweep_free(sweep);
        return NULL;
    }
    if (request->interrupted && *request->interrupted)
        snprintf(sweep->stopped, sizeof sweep->stopped, "interrupted");
    sweep_judge(sweep);
    return sweep;
}

void sweep_free(struct sweep *sweep)
{
    if (!sweep)
        return;
    for (size_t i = 0; i < sweep->count; i++)
        plan_free(sweep->rows[i].plan);
    free(sweep->rows);
    free(sweep);
}
