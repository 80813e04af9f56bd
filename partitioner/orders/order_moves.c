#include "partitioner/orders/order_moves.h"

#include <stdlib.h>
#include <string.h>

#include "common/number.h"
#include "partitioner/coupled/coupled.h"
#include "partitioner/predict.h"
#include "profiler/profile_reorder.h"
#include "schedules/simulate.h"

enum { MOST_LABELS = 200 };  // recompute.h

struct moves {
    const struct search_request *request;
    const struct profile *profile;
    struct coupled *coupled;
    uint32_t layers, stages;
    uint32_t *stage_of, *tried;  // of each layer: as it is, and with the move in hand
    bool *is_moving;
    uint32_t *order;
    struct cost_row *rows;
    uint64_t value_ns;
    struct error *error;
    bool failed;
};

// --- what stages take -----------------------------------------------------------------

static void add_layer(struct cost_row *row, const struct profile_layer *layer)
{
    row->forward_ns += layer->forward_ns;
    row->backward_ns += layer->backward_ns;
    row->backward_input_ns += layer->backward_input_ns;
    row->backward_weight_ns += layer->backward_weight_ns;
    row->version_bytes += round_to_256(layer->parameter_bytes);
}

// Each output crosses all cuts up to the last stage that reads it: edges are sorted by (from, to).
static void add_messages(struct moves *moves)
{
    const struct profile *profile = moves->profile;
    for (size_t e = 0; e < profile->edge_count;) {
        const uint32_t from = profile->edges[e].from;
        uint32_t last = 0;
        for (; e < profile->edge_count && profile->edges[e].from == from; e++)
            last = moves->tried[profile->edges[e].to] > last ? moves->tried[profile->edges[e].to] : last;
        for (uint32_t s = moves->tried[from]; s < last; s++)
            moves->rows[s].output_bytes += round_to_256(profile->layers[from].output_bytes);
    }
}

static uint64_t time_of(struct moves *moves)
{
    struct coupled *coupled = moves->coupled;
    coupled->work += 1 + coupled->actions / 32;
    uint64_t value = simulator_iteration_ns(coupled->simulators[0], moves->rows);
    if (coupled->simulators[1])
        value -= simulator_iteration_ns(coupled->simulators[1], moves->rows);
    return value;
}

// With nothing recomputed.
static uint64_t quick_time(struct moves *moves)
{
    const struct coupled *coupled = moves->coupled;
    memset(moves->rows, 0, moves->stages * sizeof moves->rows[0]);
    for (uint32_t l = 0; l < moves->layers; l++)
        add_layer(&moves->rows[moves->tried[l]], &moves->profile->layers[l]);
    add_messages(moves);
    for (uint32_t s = 0; s < moves->stages; s++) {
        struct cost_row *row = &moves->rows[s];
        row->forward_ns = stage_scaled_ns(row->forward_ns, coupled->speed[s]);
        row->backward_ns = stage_scaled_ns(row->backward_ns, coupled->speed[s]);
        row->backward_input_ns = stage_scaled_ns(row->backward_input_ns, coupled->speed[s]);
        row->backward_weight_ns = stage_scaled_ns(row->backward_weight_ns, coupled->speed[s]);
        row->reduce_ns = predict_reduce_ns(&moves->request->holding, coupled->placement, s, row->version_bytes,
                                           coupled->network);
    }
    return time_of(moves);
}

// --- whether they fit -------------------------------------------------------------------

// Layers stage by stage, those of a stage as in the profile; *cuts has stages + 1 places.
static void set_order(struct moves *moves, uint32_t *cuts)
{
    uint32_t at = 0;
    for (uint32_t s = 0; s < moves->stages; s++) {
        cuts[s] = at;
        for (uint32_t l = 0; l < moves->layers; l++)
            if (moves->tried[l] == s)
                moves->order[at++] = l;
    }
    cuts[moves->stages] = at;
}

// What a stage that is alone on its rank must recompute to fit there.
static bool must_recompute(struct moves *moves, struct intervals *intervals, uint32_t s, const uint32_t *cuts,
                           uint64_t *forward_ns)
{
    struct recompute_list list;
    uint64_t made = 0;
    const uint32_t rank = placement_rank(moves->coupled->placement, s, 0);
    if (!recompute_search(intervals, cuts[s], cuts[s + 1], &moves->coupled->slots[s],
                          moves->request->cluster->devices[rank].memory_bytes, RECOMPUTE_LEAST, MOST_LABELS, &made,
                          &list, moves->error)) {
        moves->failed = true;
        return false;
    }
    moves->coupled->work += 1 + made / 8;
    const bool fits = list.count > 0;
    *forward_ns = fits ? list.at[0].forward_ns : 0;
    recompute_list_clear(&list);
    return fits;
}

static bool fit_rank(struct moves *moves, struct intervals *intervals, uint32_t rank, const uint32_t *cuts)
{
    const struct placement *placement = moves->coupled->placement;
    uint64_t bytes = 0, workspace = 0;
    for (uint32_t at = placement->stage_at[rank]; at < placement->stage_at[rank + 1]; at++) {
        const uint32_t s = placement->held[at];
        const struct stage_bytes own = stage_bytes_of_split(interval_bytes(intervals, cuts[s], cuts[s + 1]),
                                                            moves->coupled->order->splits);
        bytes = add_clamped(bytes, stage_memory_of(&own, &moves->coupled->slots[s]).peak_bytes - own.transient);
        workspace = own.transient > workspace ? own.transient : workspace;
    }
    if (add_clamped(bytes, workspace) <= moves->request->cluster->devices[rank].memory_bytes)
        return true;
    const uint32_t s = placement->held[placement->stage_at[rank]];
    uint64_t forward_ns;
    if (placement->stage_at[rank + 1] - placement->stage_at[rank] > 1 || placement_copies(placement, s) > 1
        || !must_recompute(moves, intervals, s, cuts, &forward_ns))
        return false;
    moves->rows[s].recompute_ns = stage_scaled_ns(forward_ns, moves->coupled->speed[s]);
    return true;
}

static bool fit(struct moves *moves)
{
    uint32_t *cuts = malloc((moves->stages + (size_t)1) * sizeof cuts[0]);
    struct profile *ordered = NULL;
    struct intervals *intervals = NULL;
    if (cuts) {
        set_order(moves, cuts);
        ordered = profile_reorder(moves->profile, moves->order, moves->error);
        intervals = ordered ? intervals_create(ordered, &moves->request->holding, moves->error) : NULL;
    } else {
        error_no_memory(moves->error, "a search");
    }
    moves->failed |= !intervals;
    bool fits = intervals != NULL;
    moves->coupled->work += 20 + moves->layers;
    for (uint32_t r = 0; fits && r < moves->coupled->ranks; r++)
        fits = fit_rank(moves, intervals, r, cuts);
    intervals_free(intervals);
    profile_free(ordered);
    free(cuts);
    return fits;
}

// --- moving -----------------------------------------------------------------------------

// Pulls along what must go with it: of the same stage, what a layer needs (backwards) or what
// needs it, and what must be on one stage with it.
static bool pull(struct moves *moves, struct edge pair, bool both_ways, bool backwards, uint32_t stage)
{
    const uint32_t a = backwards ? pair.to : pair.from, b = backwards ? pair.from : pair.to;
    bool pulled = false;
    if (moves->is_moving[a] && !moves->is_moving[b] && moves->stage_of[b] == stage)
        pulled = moves->is_moving[b] = true;
    if (both_ways && moves->is_moving[b] && !moves->is_moving[a] && moves->stage_of[a] == stage)
        pulled = moves->is_moving[a] = true;
    return pulled;
}

static uint32_t mark_moving(struct moves *moves, uint32_t layer, bool backwards)
{
    const struct profile *profile = moves->profile;
    const uint32_t stage = moves->stage_of[layer];
    memset(moves->is_moving, 0, moves->layers * sizeof moves->is_moving[0]);
    moves->is_moving[layer] = true;
    for (bool more = true; more;) {
        more = false;
        for (size_t i = 0; i < profile->edge_count; i++)
            more |= pull(moves, profile->edges[backwards ? profile->edge_count - 1 - i : i], false, backwards, stage);
        for (size_t i = 0; i < profile->tied_count; i++)
            more |= pull(moves, profile->tied[i], true, backwards, stage);
        for (size_t i = 0; i < profile->no_cut_count; i++) {
            const struct edge pair = { profile->no_cut_after[i], profile->no_cut_after[i] + 1 };
            more |= pair.to < moves->layers && pull(moves, pair, true, backwards, stage);
        }
    }
    uint32_t count = 0;
    for (uint32_t l = 0; l < moves->layers; l++)
        count += moves->is_moving[l];
    return count;
}

// Moves a layer to the stage before or behind, if that is better.
static bool try_move(struct moves *moves, uint32_t layer, bool backwards)
{
    const uint32_t from = moves->stage_of[layer], to = backwards ? from - 1 : from + 1;
    uint32_t held = 0;
    for (uint32_t l = 0; l < moves->layers; l++)
        held += moves->stage_of[l] == from;
    if (mark_moving(moves, layer, backwards) == held)
        return false;
    for (uint32_t l = 0; l < moves->layers; l++)
        moves->tried[l] = moves->is_moving[l] ? to : moves->stage_of[l];
    if (quick_time(moves) >= moves->value_ns || !fit(moves))
        return false;
    const uint64_t value = time_of(moves);
    if (value >= moves->value_ns)
        return false;
    moves->value_ns = value;
    memcpy(moves->stage_of, moves->tried, moves->layers * sizeof moves->tried[0]);
    return true;
}

static void descend(struct moves *moves, bool *better)
{
    for (bool more = true; more;) {
        more = false;
        for (uint32_t l = 0; l < moves->layers; l++) {
            for (int backwards = 0; backwards < 2; backwards++) {
                if (moves->failed || coupled_must_stop(moves->coupled))
                    return;
                if (moves->stage_of[l] != (backwards ? 0 : moves->stages - 1))
                    more |= try_move(moves, l, backwards);
            }
        }
        *better |= more;
    }
}

// --- the whole ----------------------------------------------------------------------------

static bool begin(struct moves *moves, const struct plan *plan)
{
    moves->stages = (uint32_t)plan->stage_count;
    moves->value_ns = plan->certificate.value_ns;
    moves->stage_of = calloc(moves->layers, sizeof moves->stage_of[0]);
    moves->tried = calloc(moves->layers, sizeof moves->tried[0]);
    moves->is_moving = calloc(moves->layers, sizeof moves->is_moving[0]);
    moves->rows = calloc(moves->stages, sizeof moves->rows[0]);
    if (!moves->stage_of || !moves->tried || !moves->is_moving || !moves->rows)
        return error_no_memory(moves->error, "a search");
    for (uint32_t s = 0; s < moves->stages; s++)
        for (uint32_t place = plan->stages[s].first; place < plan->stages[s].end; place++)
            moves->stage_of[plan->order ? plan->order[place] : place] = s;
    moves->coupled = coupled_create(moves->request, moves->error);
    return moves->coupled != NULL;
}

bool order_moves(const struct search_request *request, const struct plan *plan, uint32_t *order, bool *better,
                 struct error *error)
{
    struct moves moves = { .request = request, .profile = request->profile, .order = order, .error = error,
                           .layers = (uint32_t)request->profile->layer_count };
    *better = false;
    uint32_t *cuts = calloc(plan->stage_count + 1, sizeof cuts[0]);
    bool good = cuts ? begin(&moves, plan) : error_no_memory(error, "a search");
    if (good) {
        descend(&moves, better);
        memcpy(moves.tried, moves.stage_of, moves.layers * sizeof moves.tried[0]);
        set_order(&moves, cuts);
        good = !moves.failed;
    }
    if (moves.coupled && request->work)
        *request->work += moves.coupled->work;
    coupled_free(moves.coupled);
    free(cuts);
    free(moves.stage_of);
    free(moves.tried);
    free(moves.is_moving);
    free(moves.rows);
    return good;
}
