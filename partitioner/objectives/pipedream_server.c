// The inner level of two: what a part of the graph loads on one server's machines.
//
// For one end, `outer`, this is a dynamic program over what is within it, from the end as in minimax.c. The stage
// that begins the part is priced separately, since no activations come to it:
//
//     inner          middle              outer
//       |- first stage -|- best[middle][m] -|        load[inner] on exactly a server's machines
//
// The ends are taken one after the other, and one table serves them all. It reaches as far down as parts that could
// be in a plan below a limit. On any number of servers, a part loads a server's share of its work and its
// all-reduce.
//
// Parts that begin with the model have a cheaper all-reduce, so that they reach much further. But they all begin at
// one place, and one dynamic program from there answers for all of them.
#include <math.h>

#include "partitioner/objectives/pipedream_price.h"

struct choice {
    uint32_t other, replicas;  // the other end of a stage
};

// A part of the graph on one server.
struct part {
    double load;
    struct choice first;  // the stage that begins it
    uint32_t machines;    // of all stages but the first; if the part begins with the model, of all
};

struct pipedream_server {
    const struct pipedream *prices;
    struct downset_walk walk;
    size_t width;            // machines + 1
    uint32_t most_replicas;
    double *loads;           // of a stage, by replicas, and of one that begins a part
    double *best;            // of [downset][machines]: the stages from there to one end
    struct choice *choice;   // the first of these
    uint32_t outer;          // the end of the table's parts; 0: they are counted from the beginning, or there are none
    double below;            // parts that end in `outer` are there as far as they matter below this
    struct part *to_end;     // the part from each downset to `outer`
    struct part *from_start; // and from the beginning to each downset
};

static double larger(double a, double b)
{
    return a > b ? a : b;
}

static void keep(struct pipedream_server *server, size_t place, double value, struct choice choice)
{
    if (value < server->best[place]) {
        server->best[place] = value;
        server->choice[place] = choice;
    }
}

static void clear_best(struct pipedream_server *server, size_t count, size_t end)
{
    for (size_t i = 0; i < count * server->width; i++)
        server->best[i] = INFINITY;
    server->best[end * server->width] = 0;
}

// The loads of a stage in the middle of a part, or of one that begins it.
static const double *price(struct pipedream_server *server, uint32_t inner, uint32_t outer, uint32_t most, bool begins)
{
    const struct pipedream *prices = server->prices;
    double *loads = server->loads + (begins ? server->most_replicas : 0);
    pipedream_loads(prices, 0, begins, inner, outer, most,
                    (double)(prices->work[outer] - prices->work[inner]), loads);
    return loads;
}

// --- parts that begin with the model -------------------------------------------------

static void extend(struct pipedream_server *server, uint32_t inner, uint32_t outer, uint32_t machines)
{
    const double *before = server->best + inner * server->width;
    const uint32_t most = machines < server->most_replicas ? machines : server->most_replicas;
    const double *loads = price(server, inner, outer, most, inner == 0);
    for (uint32_t used = 0; used < machines; used++)
        for (uint32_t r = 1; r <= most && used + r <= machines && before[used] < INFINITY; r++)
            if (pipedream_fits(server->prices, inner, outer, r, machines - used - r))
                keep(server, outer * server->width + used + r, larger(before[used], loads[r - 1]),
                     (struct choice){ inner, r });
}

// Fills in parts from the beginning, on exactly this many machines.
static void fill_from_start(struct pipedream_server *server, uint32_t machines)
{
    const uint32_t count = (uint32_t)server->prices->view->downsets->count;
    clear_best(server, count, 0);
    server->outer = 0;
    for (uint32_t inner = 0; inner + 1 < count; inner++) {
        uint32_t outer;
        downset_walk_up(&server->walk, inner);
        while (downset_walk_next(&server->walk, &outer))
            extend(server, inner, outer, machines);
    }
}

static void fill_starts(struct pipedream_server *server)
{
    const size_t count = server->prices->view->downsets->count;
    const uint32_t all = server->prices->levels[0].machines;
    for (size_t d = 0; d < count; d++)
        server->from_start[d].load = INFINITY;
    for (uint32_t m = server->prices->view->request->may_use_fewer ? 1 : all; m <= all; m++) {
        fill_from_start(server, m);
        for (size_t d = 0; d < count; d++)
            if (server->best[d * server->width + m] < server->from_start[d].load)
                server->from_start[d] = (struct part){ .load = server->best[d * server->width + m], .machines = m };
    }
}

// --- parts that end in `outer` ---------------------------------------------------------

// Whether a part that does not begin with the model can be in a plan below the limit. It can be on one server, or
// else, as in pipedream_price.c, at best on all of them. On q servers it may also not take more than the others
// leave. With c the part's work on one server, and `spare` servers more than the whole work fills up to the limit,
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
    const double together = alone * rates->share[servers] + parameters * rates->reduce[servers];
    if (prices->view->request->is_straight || !(together < limit))
        return false;
    const double spare = servers - (double)prices->work[prices->view->downsets->count - 1] * share / limit;
    const double most = 1 - limit / alone > 0.5 ? 1 - limit / alone : 0.5;
    return 4 * most * parameters * (rates->transfer[1] / 2) < spare * limit;
}

// Tries the stage in the middle of a part with what is behind it on m machines, and as the stage that begins a part.
static void try_stage(struct pipedream_server *server, uint32_t inner, uint32_t end, uint32_t least)
{
    const double *later = server->best + end * server->width;
    const uint32_t left = (uint32_t)server->width - 1 - least;
    const uint32_t most = left < server->most_replicas ? left : server->most_replicas;
    const double *loads = price(server, inner, end, most, false), *first_loads = price(server, inner, end, most, true);
    const bool fewer = server->prices->view->request->may_use_fewer;
    const bool heeds_memory = server->prices->view->request->heed_memory;
    for (uint32_t m = least; m + 1 < server->width; m++)
        for (uint32_t r = 1; r <= most && m + r < server->width && later[m] < INFINITY; r++) {
            if (heeds_memory && !pipedream_fits(server->prices, inner, end, r, m))
                continue;
            const struct choice choice = { end, r };
            keep(server, inner * server->width + m + r, larger(later[m], loads[r - 1]), choice);
            if (m + r + 1 < server->width && !fewer)
                continue;
            const double value = larger(later[m], first_loads[r - 1]);
            if (value < server->to_end[inner].load)
                server->to_end[inner] = (struct part){ value, choice, m };
        }
}

static void fill_to_end(struct pipedream_server *server, uint32_t outer, double below)
{
    clear_best(server, outer + 1, outer);
    server->outer = outer;
    server->below = below;
    for (size_t d = 0; d <= outer; d++)
        server->to_end[d].load = INFINITY;
    for (uint32_t end = outer + 1; end-- > 1;) {
        uint32_t least = 0, inner;
        while (least < server->width && server->best[end * server->width + least] == INFINITY)
            least++;
        if (least + 1 >= server->width)
            continue;
        downset_walk_down(&server->walk, end);
        while (downset_walk_next(&server->walk, &inner))
            if (matters(server, inner, outer, below))
                try_stage(server, inner, end, least);
            else
                downset_walk_prune(&server->walk);
    }
}

static void see_end(struct pipedream_server *server, uint32_t outer, double below)
{
    if (server->outer != outer || server->below < below)
        fill_to_end(server, outer, below);
}

// --- asking ------------------------------------------------------------------------------

struct pipedream_server *pipedream_server_create(const struct pipedream *prices, struct arrays *arrays,
                                                 struct error *error)
{
    struct pipedream_server *server = arrays_add(arrays, 1, sizeof *server);
    const size_t count = prices->view->downsets->count, width = (size_t)prices->levels[0].machines + 1;
    if (!server)
        return NULL;
    server->prices = prices;
    server->width = width;
    server->most_replicas = prices->view->request->is_straight ? 1 : prices->levels[0].machines;
    server->loads = arrays_add(arrays, 2 * width, sizeof server->loads[0]);
    server->best = arrays_add(arrays, count * width, sizeof server->best[0]);
    server->choice = arrays_add(arrays, count * width, sizeof server->choice[0]);
    server->to_end = arrays_add(arrays, count, sizeof server->to_end[0]);
    server->from_start = arrays_add(arrays, count, sizeof server->from_start[0]);
    if (arrays->failed || !downset_walk_create(&server->walk, prices->view->downsets, error))
        return NULL;
    fill_starts(server);
    return server;
}

void pipedream_server_clear(struct pipedream_server *server)
{
    downset_walk_clear(&server->walk);
}

double pipedream_server_load(struct pipedream_server *server, uint32_t inner, uint32_t outer, double below)
{
    if (inner == 0)
        return server->from_start[outer].load;
    if (!matters(server, inner, outer, below))
        return INFINITY;
    see_end(server, outer, below);
    return server->to_end[inner].load;
}

// Lists the stages from the last one back, and then reverses them.
static size_t list_from_start(struct pipedream_server *server, uint32_t outer, struct found_stage *stages)
{
    uint32_t machines = server->from_start[outer].machines;
    size_t count = 0;
    fill_from_start(server, machines);
    for (uint32_t end = outer; end != 0;) {
        const struct choice choice = server->choice[end * server->width + machines];
        stages[count++] = (struct found_stage){ end, { .replicas = choice.replicas } };
        end = choice.other;
        machines -= choice.replicas;
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
    struct choice stage = server->to_end[inner].first;
    size_t count = 0;
    for (uint32_t rest = server->to_end[inner].machines;; rest -= stage.replicas) {
        stages[count++] = (struct found_stage){ stage.other, { .replicas = stage.replicas } };
        if (stage.other == outer)
            return count;
        stage = server->choice[stage.other * server->width + rest];
    }
}
