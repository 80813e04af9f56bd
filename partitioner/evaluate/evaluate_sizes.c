#include "partitioner/evaluate/evaluate_sizes.h"

#include "common/number.h"
#include "partitioner/evaluate/evaluate_storage.h"

// The first edge that begins at this layer or a later one. Edges are in the order of their beginnings.
static size_t first_edge(const struct profile *profile, uint32_t layer)
{
    size_t first = 0, end = profile_edge_count(profile);
    while (first < end) {
        const size_t middle = first + (end - first) / 2;
        if (profile_edge(profile, middle).from < layer)
            first = middle + 1;
        else
            end = middle;
    }
    return first;
}

// The range of edges that begin at a layer.
static size_t edges_from(const struct profile *profile, uint32_t layer, size_t *end)
{
    *end = first_edge(profile, layer + 1);
    return first_edge(profile, layer);
}

static bool needs_input(const struct scope *scope, uint32_t layer)
{
    return scope->profile->layers[layer].input_kept != INPUT_KEPT_NONE;
}

static uint64_t output_of(const struct scope *scope, uint32_t layer)
{
    return round_to_256(scope->profile->layers[layer].output_bytes);
}

// Whether the output of `layer` is read by some layer from `from` on.
static bool is_read_from(const struct profile *profile, uint32_t layer, uint32_t from)
{
    size_t end;
    for (size_t i = edges_from(profile, layer, &end); i < end; i++)
        if (profile_edge(profile, i).from == layer && profile_edge(profile, i).to >= from)
            return true;
    return false;
}

static uint64_t crossing(const struct scope *scope, uint32_t cut)
{
    uint64_t sum = 0;
    for (uint32_t q = 0; q < cut; q++)
        if (is_read_from(scope->profile, q, cut))
            sum = add_clamped(sum, output_of(scope, q));
    return sum;
}

enum reading { READ_KEPT, READ_HELD };

// Whether a layer of the stage reads the output of `layer` so that this stays until the backward (kept), or from I
// to W inside a segment (held).
static bool is_read_so(const struct scope *scope, uint32_t layer, enum reading reading)
{
    size_t end;
    for (size_t i = edges_from(scope->profile, layer, &end); i < end; i++) {
        const struct edge edge = profile_edge(scope->profile, i);
        if (edge.from != layer || !evaluate_is_inside(scope, edge.to))
            continue;
        const int reader = evaluate_segment_of(scope, edge.to), segment = evaluate_segment_of(scope, layer);
        const bool needed = needs_input(scope, edge.to);
        if (reading == READ_HELD && reader >= 0 && reader == segment && needed)
            return true;
        if (reading == READ_KEPT && (reader < 0 ? needed : reader != segment))
            return true;
    }
    return false;
}

// Whether the output of `made` must be there while `layer` runs.
static bool is_alive(const struct scope *scope, uint32_t made, uint32_t layer)
{
    bool read = false;
    size_t end;
    for (size_t i = edges_from(scope->profile, made, &end); i < end; i++) {
        const struct edge edge = profile_edge(scope->profile, i);
        read |= edge.from == made;
        if (edge.from == made && evaluate_is_inside(scope, edge.to) && made <= layer && layer <= edge.to)
            return true;
    }
    return !read && made == layer;
}

static uint64_t alive(const struct scope *scope, uint32_t layer, uint32_t made_before)
{
    uint64_t sum = 0;
    for (uint32_t q = scope->first; q < made_before; q++)
        if (is_alive(scope, q, layer))
            sum = add_clamped(sum, output_of(scope, q));
    return sum;
}

// The bytes in memory for a segment from its re-run on.
static uint64_t segment_data(const struct scope *scope, struct segment segment)
{
    uint64_t data = 0;
    for (uint32_t l = segment.first; l < segment.end && evaluate_gathers(scope); l++)
        data = add_clamped(data, evaluate_weights(scope, l));
    for (uint32_t l = segment.first; l < segment.end; l++)
        data = add_clamped(data, add_clamped(round_to_256(scope->profile->layers[l].saved_bytes),
                                             output_of(scope, l)));
    return data;
}

static uint64_t workspace_at(const struct scope *scope, uint32_t layer)
{
    const struct profile_layer *profiled = &scope->profile->layers[layer];
    const uint64_t around = alive(scope, layer, layer + 1);
    uint64_t forward = add_clamped(round_to_256(profiled->workspace_bytes), around);
    uint64_t backward = add_clamped(round_to_256(profiled->backward_workspace_bytes), around);
    uint64_t again = 0;
    const int number = evaluate_segment_of(scope, layer);
    if (number >= 0) {
        const struct segment segment = scope->stage->recompute[number];
        const uint64_t data = scope->has_recompute ? 0 : segment_data(scope, segment);
        if (scope->has_recompute)  // what its F saves has no other place
            forward = add_clamped(forward, round_to_256(profiled->saved_bytes));
        backward = add_clamped(backward, data);
        again = add_clamped(data, round_to_256(profiled->workspace_bytes));
        if (segment.end < scope->end)
            again = add_clamped(again, alive(scope, segment.end, segment.end));
    }
    const uint64_t more = backward > again ? backward : again;
    return forward > more ? forward : more;
}

static enum input_life life_of_input(const struct scope *scope)
{
    enum input_life life = INPUT_UNTIL_F;
    for (size_t i = 0; i < profile_edge_count(scope->profile); i++) {
        const struct edge edge = profile_edge(scope->profile, i);
        if (edge.from >= scope->first || !evaluate_is_inside(scope, edge.to))
            continue;
        if (needs_input(scope, edge.to))
            return INPUT_UNTIL_W;
        if (evaluate_segment_of(scope, edge.to) >= 0)
            life = INPUT_UNTIL_I;
    }
    return life;
}

struct sizes evaluate_sizes(const struct scope *scope)
{
    struct sizes sizes = { .input = crossing(scope, scope->first), .output = crossing(scope, scope->end),
                           .life = life_of_input(scope) };
    evaluate_storage(scope, &sizes);
    for (size_t i = 0; scope->has_recompute && i < scope->stage->recompute_count; i++)
        sizes.again = add_clamped(sizes.again, segment_data(scope, scope->stage->recompute[i]));
    for (uint32_t l = scope->first; l < scope->end; l++) {
        const struct profile_layer *layer = &scope->profile->layers[l];
        sizes.held = add_clamped(sizes.held, round_to_256(layer->held_for_weight_bytes));
        sizes.state = add_clamped(sizes.state, round_to_256(layer->state_bytes));
        sizes.statistics = add_clamped(sizes.statistics, round_to_256(layer->statistics_bytes));
        const uint64_t saved = round_to_256(layer->saved_bytes);
        const uint64_t shared_by_parts = min_u64(round_to_256(layer->shared_by_parts_bytes), saved);
        sizes.shared_by_parts = add_clamped(sizes.shared_by_parts, shared_by_parts);
        if (evaluate_segment_of(scope, l) < 0) {
            sizes.kept = add_clamped(sizes.kept, saved);
            sizes.kept_shared_by_parts = add_clamped(sizes.kept_shared_by_parts, shared_by_parts);
        }
        if (is_read_so(scope, l, READ_KEPT))
            sizes.kept_through = add_clamped(sizes.kept_through, output_of(scope, l));
        if (is_read_so(scope, l, READ_HELD))
            sizes.held = add_clamped(sizes.held, output_of(scope, l));
        const uint64_t workspace = workspace_at(scope, l);
        sizes.transient = workspace > sizes.transient ? workspace : sizes.transient;
    }
    return sizes;
}

struct sizes evaluate_part(struct sizes sizes, uint32_t splits)
{
    uint64_t *const parts[] = { &sizes.kept, &sizes.kept_through, &sizes.held, &sizes.input, &sizes.output,
                               &sizes.again };
    if (splits > 1)
        sizes.kept -= sizes.kept_shared_by_parts;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        *parts[i] = round_to_256((*parts[i] + splits - 1) / splits);
    return sizes;
}

