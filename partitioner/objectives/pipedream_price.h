// PipeDream's cost model, as its optimizer codes it (optimizer_graph_hierarchical.py of
// msr-fiddle/pipedream), which is not as its paper has it. A stage of layers that take T
// and have W bytes of parameters, on r of a level's machines, between which B bytes go
// per second:
//
//     load = (T + 4 (r - 1) W / (B r)) / r           compute and all-reduce one after the other
//     with activations, but not for the first stage, at least
//            2 out(before) / (B r)   and, but for the last,   2 out(up to it) / (B r)
//
// out(set) adds up the outputs of what they call an augmented antichain: the set's
// maximal layers, and of the layers below each of these those that somebody reads who is
// not below it. On a chain that is what crosses the cut; elsewhere it can be more.
//
// With two levels (servers of machines) the inner one is solved for every part of the
// graph, on exactly one server's machines; a part on q servers then loads
//
//     (inner + 4 (q - 1) W / (B2 q)) / q             4 ... / (B2 q M1) for the first part only
//
// Input nodes, and __getitem__ nodes that nobody reads, are no nodes to it: they cost
// nothing here, and stay with what they feed or read. Left out by the model: latency,
// overlap, filling and draining, memory (but for its own rule, which accepts one byte:
// the last stage and full replication count nothing).
#ifndef PARTITIONER_OBJECTIVES_PIPEDREAM_PRICE_H
#define PARTITIONER_OBJECTIVES_PIPEDREAM_PRICE_H

#include "partitioner/objectives/objective.h"

// Machines of a level, and the rate between them; on the outer one they are servers.
struct pipedream_level {
    uint32_t machines;
    uint64_t bytes_per_second;
    // A stage's load by replicas: time * share + parameters * reduce, against bytes out * transfer.
    double *share, *reduce, *transfer;
    double *first_reduce;  // of the stage that begins the level
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

// Fills loads[r - 1] with what the stage `outer` less `inner`, which takes `time_ns` on one machine of the level, loads
// on r machines, up to `most`; the first stage of a level is priced otherwise.
static inline void pipedream_loads(const struct pipedream *prices, size_t level, bool is_first, uint32_t inner,
                                   uint32_t outer, uint32_t most, double time_ns, double *restrict loads)
{
    const struct pipedream_level *at = &prices->levels[level];
    const double *reduce = is_first ? at->first_reduce : at->reduce;
    const double parameters = (double)(prices->parameters[outer] - prices->parameters[inner]);
    for (uint32_t r = 1; r <= most; r++)
        loads[r - 1] = time_ns * at->share[r] + parameters * reduce[r];
    if (!prices->out || is_first)
        return;
    const uint64_t into = prices->out[inner], out = outer + 1 < prices->view->downsets->count ? prices->out[outer] : 0;
    const double bytes = (double)(into > out ? into : out);
    for (uint32_t r = 1; r <= most; r++)
        loads[r - 1] = loads[r - 1] > bytes * at->transfer[r] ? loads[r - 1] : bytes * at->transfer[r];
}

// Whether PipeDream's rule lets it into memory while `later` machines of the level come after it.
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

// What a part of the graph loads at least on one server, and the stages that do it.
struct pipedream_server;
struct pipedream_server *pipedream_server_create(const struct pipedream *prices, struct arrays *arrays,
                                                 struct error *error);
void pipedream_server_clear(struct pipedream_server *server);  // of what is not kept with the arrays
// INFINITY also for parts that load `below` or more on however many servers.
double pipedream_server_load(struct pipedream_server *server, uint32_t inner, uint32_t outer, double below);
// The stages of such a part in order, at most a server's machines, with their replicas; how many.
size_t pipedream_server_stages(struct pipedream_server *server, uint32_t inner, uint32_t outer, double below,
                               struct found_stage *stages);

#endif
