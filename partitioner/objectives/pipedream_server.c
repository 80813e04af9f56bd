// The inner level of two: what a part of the graph loads on one server's machines.
//
// For one end, `outer`, a dynamic program over what is within it, from the end as in
// minimax.c; the stage that begins the part is priced apart, since no activations come to
// it:
//
//     inner          middle              outer
//       |- first stage -|- best[middle][m] -|        load[inner] on exactly a server's machines
//
// The ends come one after the other, and one table serves them all. It reaches as far
// down as parts that could be part of a plan below a limit: on however many servers, a
// part loads a server's share of its work and its all-reduce.
//
// Parts that begin with the model have a cheaper all-reduce, so that they reach much
// further; but they all begin at one place, and one dynamic program from there answers
// for all of them.
#include <math.h>
#include <stdlib.h>

#include "partitioner/objectives/pipedream.h"

struct choice {
    uint32_t other, replicas;  // the other end of a stage
};

// A dynamic program from one end.
struct table {
    double *best;           // of [downset][machines]
    struct choice *choice;
    double *load;           // of the part from there to each downset
    struct choice *last;    // the stage at its other end ...
    uint32_t *rest;         // ... and the machines of all others
};

struct pipedream_server {
    const struct pipedream *prices;
    struct downset_walk walk;
    size_t width;            // machines + 1
    struct table to_end;     // parts that end in `outer`, as far as they matter below `below`; outer 0: none yet
    uint32_t outer;
    double below;
    struct table from_start; // parts that begin with the model
    uint32_t *machines_of;   // of each of these: so many of the server's
    double *loads;           // of a stage by replicas ...
    double *first_loads;     // ... and of one that begins a part
};

static bool table_create(struct table *table, size_t count, size_t width)
{
    table->best = calloc(count * width, sizeof table->best[0]);
    table->choice = calloc(count * width, sizeof table->choice[0]);
    table->load = calloc(count, sizeof table->load[0]);
    table->last = calloc(count, sizeof table->last[0]);
    table->rest = calloc(count, sizeof table->rest[0]);
    return table->best && table->choice && table->load && table->last && table->rest;
}

static void table_clear(struct table *table)
{
    free(table->best);
    free(table->choice);
    free(table->load);
    free(table->last);
    free(table->rest);
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

static void keep(struct table *table, size_t at, double value, struct choice choice)
{
    if (value < table->best[at]) {
        table->best[at] = value;
        table->choice[at] = choice;
    }
}

static void keep_part(struct table *table, uint32_t at, double value, struct choice last, uint32_t rest)
{
    if (value < table->load[at]) {
        table->load[at] = value;
        table->last[at] = last;
        table->rest[at] = rest;
    }
}

static bool is_straight(const struct pipedream_server *server)
{
    return server->prices->view->request->is_straight;
}

static void price(struct pipedream_server *server, uint32_t inner, uint32_t outer, uint32_t most)
{
    const struct pipedream *prices = server->prices;
    const double time = (double)(prices->work[outer] - prices->work[inner]);
    pipedream_loads(prices, 0, false, inner, outer, most, time, server->loads);
    pipedream_loads(prices, 0, true, inner, outer, most, time, server->first_loads);
}

// --- parts that begin with the model -------------------------------------------------

static void extend(struct pipedream_server *server, uint32_t inner, uint32_t outer, uint32_t machines)
{
    const struct pipedream *prices = server->prices;
    struct table *table = &server->from_start;
    const uint32_t most = is_straight(server) ? 1 : machines;
    const double *before = table->best + inner * server->width;
    price(server, inner, outer, most);
    const double *loads = inner == 0 ? server->first_loads : server->loads;
    for (uint32_t used = 0; used < machines; used++)
        for (uint32_t r = 1; r <= most && used + r <= machines && before[used] < INFINITY; r++) {
            const uint32_t later = machines - used - r;
            if (!pipedream_fits(prices, inner, outer, r, later))
                continue;
            const double value = larger(before[used], loads[r - 1]);
            keep(table, outer * server->width + used + r, value, (struct choice){ inner, r });
            if (later == 0 && value < table->load[outer]) {
                keep_part(table, outer, value, (struct choice){ inner, r }, used);
                server->machines_of[outer] = machines;
            }
        }
}

// On exactly so many machines.
static void fill_from_start(struct pipedream_server *server, uint32_t machines)
{
    const uint32_t count = (uint32_t)server->prices->view->downsets->count;
    struct table *table = &server->from_start;
    for (size_t i = 0; i < count * server->width; i++)
        table->best[i] = INFINITY;
    table->best[0] = 0;
    for (uint32_t inner = 0; inner + 1 < count; inner++) {
        uint32_t outer;
        downset_walk_up(&server->walk, inner);
        while (downset_walk_next(&server->walk, &outer))
            extend(server, inner, outer, machines);
    }
}

static void fill_starts(struct pipedream_server *server)
{
    const uint32_t machines = server->prices->levels[0].machines;
    for (size_t d = 0; d < server->prices->view->downsets->count; d++)
        server->from_start.load[d] = INFINITY;
    for (uint32_t m = server->prices->view->request->may_use_fewer ? 1 : machines; m <= machines; m++)
        fill_from_start(server, m);
}

// --- parts that end in `outer` ---------------------------------------------------------

// Whether a part that does not begin with the model can be in a plan below the limit:
// on one server, or else, as in pipedream.c, on all of them at best. And on q of
// them it may not take more than the others leave. With c the part's work on one server,
// and `spare` servers more than the whole work fills up to the limit,
//
//     c + 4 (q - 1) W / (q B) < q limit    and    q < c / limit + spare
//
// so that 4 (q - 1) W / (q B) < spare limit, where q > c / limit, and q > 1.
static bool matters(const struct pipedream_server *server, uint32_t inner, uint32_t outer, double below)
{
    const struct pipedream *prices = server->prices;
    const struct pipedream_level *rates = &prices->levels[1];
    const uint32_t servers = rates->machines;
    const double limit = below * (1 + 0x1p-40);  // loads are rounded
    const double share = 1.0 / prices->levels[0].machines;
    const double alone = (double)(prices->work[outer] - prices->work[inner]) * share;
    if (alone < limit)
        return true;
    const double parameters = (double)(prices->parameters[outer] - prices->parameters[inner]);
    if (is_straight(server) || !(alone * rates->share[servers] + parameters * rates->reduce[servers] < limit))
        return false;
    const double spare = servers - (double)prices->work[prices->view->downsets->count - 1] * share / limit;
    const double most = 1 - limit / alone > 0.5 ? 1 - limit / alone : 0.5;
    return 4 * most * parameters * (rates->transfer[1] / 2) < spare * limit;
}

static void try_stages(struct pipedream_server *server, uint32_t end)
{
    const struct pipedream *prices = server->prices;
    struct table *table = &server->to_end;
    const double *later = table->best + end * server->width;
    uint32_t first = 0, inner;
    while (first < server->width && later[first] == INFINITY)
        first++;
    if (first + 1 >= server->width)
        return;
    const uint32_t most = is_straight(server) ? 1 : (uint32_t)server->width - 1 - first;
    downset_walk_down(&server->walk, end);
    while (downset_walk_next(&server->walk, &inner)) {
        if (!matters(server, inner, server->outer, server->below)) {
            downset_walk_prune(&server->walk);
            continue;
        }
        price(server, inner, end, most);
        for (uint32_t m = first; m + 1 < server->width; m++)
            for (uint32_t r = 1; r <= most && m + r < server->width && later[m] < INFINITY; r++) {
                if (!pipedream_fits(prices, inner, end, r, m))
                    continue;
                const struct choice choice = { end, r };
                keep(table, inner * server->width + m + r, larger(later[m], server->loads[r - 1]), choice);
                if (m + r + 1 == server->width || prices->view->request->may_use_fewer)
                    keep_part(table, inner, larger(later[m], server->first_loads[r - 1]), choice, m);
            }
    }
}

static void fill_to_end(struct pipedream_server *server, uint32_t outer, double below)
{
    struct table *table = &server->to_end;
    for (size_t i = 0; i < (outer + 1) * server->width; i++)
        table->best[i] = INFINITY;
    for (size_t d = 0; d <= outer; d++)
        table->load[d] = INFINITY;
    table->best[outer * server->width] = 0;
    server->outer = outer;
    server->below = below;
    for (uint32_t end = outer + 1; end-- > 1;)
        try_stages(server, end);
}

static void see_end(struct pipedream_server *server, uint32_t outer, double below)
{
    if (server->outer != outer || server->below < below)
        fill_to_end(server, outer, below);
}

// --- asking ------------------------------------------------------------------------------

struct pipedream_server *pipedream_server_create(const struct pipedream *prices, struct error *error)
{
    struct pipedream_server *server = calloc(1, sizeof *server);
    const size_t count = prices->view->downsets->count, width = (size_t)prices->levels[0].machines + 1;
    if (!server) {
        error_no_memory(error, "the stages of a server");
        return NULL;
    }
    server->prices = prices;
    server->width = width;
    server->loads = calloc(2 * width, sizeof server->loads[0]);
    server->first_loads = server->loads ? server->loads + width : NULL;
    server->machines_of = calloc(count, sizeof server->machines_of[0]);
    if (!table_create(&server->to_end, count, width) || !table_create(&server->from_start, count, width)
        || !server->loads || !server->machines_of)
        error_no_memory(error, "the stages of a server");
    else if (downset_walk_create(&server->walk, prices->view->downsets, error)) {
        fill_starts(server);
        return server;
    }
    pipedream_server_free(server);
    return NULL;
}

void pipedream_server_free(struct pipedream_server *server)
{
    if (!server)
        return;
    downset_walk_clear(&server->walk);
    table_clear(&server->to_end);
    table_clear(&server->from_start);
    free(server->machines_of);
    free(server->loads);
    free(server);
}

double pipedream_server_load(struct pipedream_server *server, uint32_t inner, uint32_t outer, double below)
{
    if (inner == 0)
        return server->from_start.load[outer];
    if (!matters(server, inner, outer, below))
        return INFINITY;
    see_end(server, outer, below);
    return server->to_end.load[inner];
}

// From the last stage back, and then turned round.
static size_t list_from_start(struct pipedream_server *server, uint32_t outer, struct found_stage *stages)
{
    const struct table *table = &server->from_start;
    fill_from_start(server, server->machines_of[outer]);
    size_t count = 0;
    struct choice stage = table->last[outer];
    uint32_t rest = table->rest[outer], end = outer;
    for (;;) {
        stages[count++] = (struct found_stage){ end, { .replicas = stage.replicas } };
        if (stage.other == 0)
            break;
        end = stage.other;
        stage = table->choice[end * server->width + rest];
        rest -= stage.replicas;
    }
    for (size_t i = 0; i < count / 2; i++) {
        const struct found_stage swap = stages[i];
        stages[i] = stages[count - 1 - i];
        stages[count - 1 - i] = swap;
    }
    return count;
}

size_t pipedream_server_stages(struct pipedream_server *server, uint32_t inner, uint32_t outer, double below,
                               struct found_stage *stages)
{
    if (inner == 0)
        return list_from_start(server, outer, stages);
    see_end(server, outer, below);
    const struct table *table = &server->to_end;
    size_t count = 0;
    struct choice stage = table->last[inner];
    uint32_t rest = table->rest[inner];
    for (;;) {
        stages[count++] = (struct found_stage){ stage.other, { .replicas = stage.replicas } };
        if (stage.other == outer)
            return count;
        stage = table->choice[stage.other * server->width + rest];
        rest -= stage.replicas;
    }
}
