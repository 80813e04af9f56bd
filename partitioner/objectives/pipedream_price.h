// PipeDream's cost model, as its optimizer codes it (optimizer_graph_hierarchical.py of msr-fiddle/pipedream). This
// differs from its paper. The layers of a stage take T and have W bytes of parameters. The stage is on r of a
// level's machines, between which B bytes go per second:
//
//     load = (T + 4 (r - 1) W / (B r)) / r           compute and all-reduce one after the other
//     with activations, but not for the first stage, at least
//            2 out(before) / (B r)   and, but for the last,   2 out(up to it) / (B r)
//
// In this, out(set) adds up the outputs of what they call an augmented antichain. It has the set's maximal layers.
// It also has some layers below each of these, namely those read by a layer that is not below it. On a chain that is
// what crosses the cut; elsewhere it can be more.
//
// With two levels (servers of machines) the inner one is solved for every part of the graph, on exactly one server's
// machines. A part on q servers then loads
//
//     (inner + 4 (q - 1) W / (B2 q)) / q             4 ... / (B2 q M1) for the first part only
//
// Input nodes, and __getitem__ nodes that no layer reads, are no nodes to it. They cost nothing here, and stay with
// what they feed or read. The model leaves out latency, overlap, and filling and draining. It leaves out memory,
// too, except for a rule of its own, which accepts one byte: the last stage and full replication count nothing.
#ifndef PARTITIONER_OBJECTIVES_PIPEDREAM_PRICE_H
#define PARTITIONER_OBJECTIVES_PIPEDREAM_PRICE_H

#include "partitioner/objectives/objective.h"

// The machines of a level, and the rate between them; on the outer level they are servers.
struct pipedream_level {
    uint32_t machines;
    uint64_t bytes_per_second;
    // A stage's load by replicas: time * share + parameters * reduce, or bytes out * transfer if that is more.
    double *share, *reduce, *transfer;
    double *first_reduce;  // reduce of the stage that begins the level
};

struct pipedream {
    const struct graph_view *view;
    struct pipedream_level levels[2];                 // innermost first
    size_t level_count;
    uint64_t memory_bytes;                            // of the smallest device
    uint64_t *work, *parameters, *activations, *out;  // by downset: ns, bytes
    struct minimax_way *ways;                         // replicas of a stage, or servers of a part
    double *loads;                                    // of a given stage, by replicas
    struct pipedream_server *server;                  // NULL with one level
};

// Fills loads[r - 1] with the load of the stage `outer` less `inner` on r machines, for r up to `most`. On one
// machine of the level the stage takes `time_ns`. The first stage of a level is priced otherwise.
static inline void pipedream_loads(const struct pipedream *prices, size_t level, bool is_first, uint32_t inner,
                                   uint32_t outer, uint32_t most, double time_ns, double *restrict loads)
{
    const struct pipedream_level *here = &prices->levels[level];
    const double *reduce = is_first ? here->first_reduce : here->reduce;
    const double parameters = (double)(prices->parameters[outer] - prices->parameters[inner]);
    for (uint32_t r = 1; r <= most; r++)
        loads[r - 1] = time_ns * here->share[r] + parameters * reduce[r];
    if (!prices->out || is_first)
        return;
    const uint64_t into = prices->out[inner], out = outer + 1 < prices->view->downsets->count ? prices->out[outer] : 0;
    const double bytes = (double)(into > out ? into : out);
    for (uint32_t r = 1; r <= most; r++)
        loads[r - 1] = loads[r - 1] > bytes * here->transfer[r] ? loads[r - 1] : bytes * here->transfer[r];
}

// Whether PipeDream's rule says that the stage fits into memory, with `later` machines of the level after it.
static inline bool pipedream_fits(const struct pipedream *prices, uint32_t inner, uint32_t outer, uint32_t replicas,
                                  uint32_t later)
{
    if (!prices->view->request->heed_memory || later == 0)
        return true;
    const uint64_t bytes = prices->activations[outer] - prices->activations[inner] + prices->parameters[outer]
                         - prices->parameters[inner];
    return bytes <= prices->memory_bytes / ((later + replicas - 1) / replicas);
}

// --- two levels ------------------------------------------------------------------

// The least load of a part of the graph on one server, and the stages that have it.
struct pipedream_server;
struct pipedream_server *pipedream_server_create(const struct pipedream *prices, struct arrays *arrays,
                                                 struct error *error);
void pipedream_server_clear(struct pipedream_server *server);  // frees what is not kept with the arrays
// INFINITY also for parts that load `below` or more on any number of servers.
double pipedream_server_load(struct pipedream_server *server, uint32_t inner, uint32_t outer, double below);
// The stages of such a part in order, with their replicas, at most as many as a server's machines. Returns their
// number.
size_t pipedream_server_stages(struct pipedream_server *server, uint32_t inner, uint32_t outer, double below,
                               struct found_stage *stages);

#endif
