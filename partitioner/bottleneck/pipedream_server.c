// The inner level of two. For one end, `outer`, a dynamic program over all that is
// within it, from the end, as in cover.c; the stage that begins the part is priced
// apart, since no activations come to it:
//
//     inner          middle              outer
//       |- first stage -|- best[middle][m] -|        load[inner] on exactly a server's machines
//
// The ends come one after the other, so that one table serves them all.
#include <math.h>
#include <stdlib.h>

#include "partitioner/bottleneck/pipedream_view.h"

struct choice {
    uint32_t outer, replicas;
};

struct pipedream_server {
    const struct pipedream_view *view;
    struct downset_walk walk;
    uint32_t outer;          // the table is of this end; 0: of none
    size_t width;            // machines + 1
    double *best;            // of [downset][machines]
    struct choice *choice;
    double *load;            // of [downset]
    struct choice *first;    // the stage that begins it ...
    uint32_t *rest;          // ... and the machines after it
    double *loads;           // of a stage by replicas ...
    double *first_loads;     // ... and of one that begins a part
};

struct pipedream_server *pipedream_server_create(const struct pipedream_view *view, struct error *error)
{
    struct pipedream_server *server = calloc(1, sizeof *server);
    if (!server) {
        error_no_memory(error, "the stages of a server");
        return NULL;
    }
    const size_t count = view->downsets->count;
    server->view = view;
    server->width = (size_t)view->levels[0].machines + 1;
    server->best = calloc(count * server->width, sizeof server->best[0]);
    server->choice = calloc(count * server->width, sizeof server->choice[0]);
    server->load = calloc(count, sizeof server->load[0]);
    server->first = calloc(count, sizeof server->first[0]);
    server->rest = calloc(count, sizeof server->rest[0]);
    server->loads = calloc(2 * server->width, sizeof server->loads[0]);
    server->first_loads = server->loads ? server->loads + server->width : NULL;
    if (server->best && server->choice && server->load && server->first && server->rest && server->loads) {
        if (downset_walk_create(&server->walk, view->downsets, error))
            return server;
    } else {
        error_no_memory(error, "the stages of a server");
    }
    pipedream_server_free(server);
    return NULL;
}

void pipedream_server_free(struct pipedream_server *server)
{
    if (!server)
        return;
    downset_walk_clear(&server->walk);
    free(server->best);
    free(server->choice);
    free(server->load);
    free(server->first);
    free(server->rest);
    free(server->loads);
    free(server);
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

// One stage, with `later` machines after it: as one among others, and as the first.
static void try_stage(struct pipedream_server *server, uint32_t inner, uint32_t outer, uint32_t replicas, uint32_t later)
{
    const struct pipedream_view *view = server->view;
    if (!pipedream_fits(view, inner, outer, replicas, later))
        return;
    const double rest = server->best[outer * server->width + later];
    const double value = larger(rest, server->loads[replicas]), first = larger(rest, server->first_loads[replicas]);
    const uint32_t machines = later + replicas;
    if (value < server->best[inner * server->width + machines]) {
        server->best[inner * server->width + machines] = value;
        server->choice[inner * server->width + machines] = (struct choice){ outer, replicas };
    }
    if ((machines + 1 == server->width || view->request->may_use_fewer) && first < server->load[inner]) {
        server->load[inner] = first;
        server->first[inner] = (struct choice){ outer, replicas };
        server->rest[inner] = later;
    }
}

static void try_stages(struct pipedream_server *server, uint32_t outer)
{
    const struct pipedream_view *view = server->view;
    const double *later = server->best + outer * server->width;
    uint32_t first = 0, inner;
    while (first < server->width && later[first] == INFINITY)
        first++;
    if (first + 1 >= server->width)
        return;
    const uint32_t most = view->request->is_straight ? 1 : (uint32_t)server->width - 1 - first;
    downset_walk_down(&server->walk, outer);
    while (downset_walk_next(&server->walk, &inner)) {
        const double time = (double)(view->work[outer] - view->work[inner]);
        pipedream_loads(view, 0, false, inner, outer, most, time, server->loads);
        pipedream_loads(view, 0, true, inner, outer, most, time, server->first_loads);
        for (uint32_t m = first; m + 1 < server->width; m++)
            for (uint32_t r = 1; r <= most && m + r < server->width && later[m] < INFINITY; r++)
                try_stage(server, inner, outer, r, m);
    }
}

static void fill(struct pipedream_server *server, uint32_t outer)
{
    for (size_t i = 0; i < (outer + 1) * server->width; i++)
        server->best[i] = INFINITY;
    for (size_t d = 0; d <= outer; d++)
        server->load[d] = INFINITY;
    server->best[outer * server->width] = 0;
    for (uint32_t end = outer + 1; end-- > 1;)
        try_stages(server, end);
    server->outer = outer;
}

double pipedream_server_load(struct pipedream_server *server, uint32_t inner, uint32_t outer)
{
    if (server->outer != outer)
        fill(server, outer);
    return server->load[inner];
}

size_t pipedream_server_stages(struct pipedream_server *server, uint32_t inner, uint32_t outer,
                               struct cover_stage *stages)
{
    if (server->outer != outer)
        fill(server, outer);
    size_t count = 0;
    struct choice stage = server->first[inner];
    uint32_t rest = server->rest[inner];
    for (;;) {
        stages[count++] = (struct cover_stage){ stage.outer, stage.replicas };
        if (stage.outer == outer)
            return count;
        stage = server->choice[stage.outer * server->width + rest];
        rest -= stage.replicas;
    }
}
