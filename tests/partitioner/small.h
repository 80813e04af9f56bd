// Small models for the partitioner's tests: chains and DAGs from rows, and at
// random.
#ifndef TESTS_PARTITIONER_SMALL_H
#define TESTS_PARTITIONER_SMALL_H

#include <stdio.h>
#include <string.h>

#include "partitioner/cost/predict.h"
#include "partitioner/cost/stage_cost.h"
#include "partitioner/search/search.h"
#include "profiler/cluster.h"
#include "profiler/profile.h"
#include "tests/test.h"

// stage_cost_at() on a single device of the given speed, without a host.
static inline struct cost_row stage_cost_of(const struct profile *profile, uint32_t first, uint32_t end,
                                            const struct segment *recompute, size_t recompute_count,
                                            const struct storage *storage, uint64_t speed_permille)
{
    const struct stage_place alone = { .speed_permille = speed_permille, .replicas = 1 };
    return stage_cost_at(profile, first, end, recompute, recompute_count, storage, &alone);
}

// predict_slots_by() for a schedule of this name, with storage that needs none of its own.
static inline struct slots *predict_slots(const char *schedule, uint32_t ranks, uint32_t chunks,
                                          uint32_t micro_batches, struct error *error)
{
    const struct generate_request request = { .ranks = ranks, .chunks = chunks, .micro_batches = micro_batches };
    const struct generator *generator = generator_find(schedule, error);
    return generator ? predict_slots_by(generator, &request, &(struct storage){ 0 }, error) : NULL;
}

// Bytes in units of 256, times in ns.
struct small_layer {
    uint64_t forward, backward, parameters, output, saved;
    enum input_kept input_kept;
    uint64_t held, workspace, backward_workspace;
};

static inline struct profile *small_chain(const struct small_layer *rows, size_t count)
{
    struct error error = { 0 };
    struct profile *profile = profile_create("small", "fp32", 1, count, &error);
    assert_good(profile, error);
    for (size_t i = 0; i < count; i++) {
        char name[16];
        snprintf(name, sizeof name, "l%zu", i);
        profile->layers[i] = (struct profile_layer){
            .name = strdup(name),
            .kind = strdup("test"),
            .forward_ns = rows[i].forward,
            .backward_input_ns = rows[i].backward / 2,
            .backward_weight_ns = rows[i].backward - rows[i].backward / 2,
            .backward_ns = rows[i].backward,
            .parameter_bytes = 256 * rows[i].parameters,
            .output_bytes = 256 * rows[i].output,
            .saved_bytes = 256 * rows[i].saved,
            .input_kept = rows[i].input_kept,
            .held_for_weight_bytes = 256 * rows[i].held,
            .workspace_bytes = 256 * rows[i].workspace,
            .backward_workspace_bytes = 256 * rows[i].backward_workspace,
        };
    }
    assert_good(profile_rehash(profile, &error), error);
    return profile;
}

// Of each two tied layers the first lends the second what they share.
static inline void small_lend(struct profile *profile)
{
    profile->one_owner = malloc(profile->tied_count * sizeof profile->one_owner[0]);
    assert_non_null(profile->one_owner);
    memcpy(profile->one_owner, profile->tied, profile->tied_count * sizeof profile->one_owner[0]);
    profile->one_owner_count = profile->tied_count;
    for (size_t i = 0; i < profile->tied_count; i++)
        profile->layers[profile->tied[i].from].touched_rows = 0;  // no other layer reads tables
}

// Edges in order of (from, to).
static inline void small_set_edges(struct profile *profile, const struct edge *edges, size_t count)
{
    struct error error = { 0 };
    free(profile->edges);
    profile->is_chain = false;
    profile->edge_count = count;
    profile->edges = malloc(count * sizeof edges[0] + 1);
    memcpy(profile->edges, edges, count * sizeof edges[0]);
    assert_good(profile_rehash(profile, &error), error);
}

// Of one profile in three, what running its layers again takes, each layer by itself. Leaves the caller's draws as
// they are.
static inline void small_random_recompute(uint64_t seed, struct profile *profile)
{
    const bool is_measured = random_below(&seed, 3) == 0;
    for (size_t l = 0; l < profile->layer_count && is_measured; l++) {
        struct profile_layer *layer = &profile->layers[l];
        layer->has_recompute = random_below(&seed, 4) > 0;
        layer->recompute_ns = random_below(&seed, 2 * layer->forward_ns + 2);
    }
}

// Of one profile in two, what parts of sequences have in common; of some layers nothing, or all that they keep.
static inline void small_random_shared_by_parts(uint64_t seed, struct profile *profile)
{
    const bool is_split = random_below(&seed, 2) == 0;
    for (size_t l = 0; l < profile->layer_count && is_split; l++)
        profile->layers[l].shared_by_parts_bytes = random_below(&seed, profile->layers[l].saved_bytes + 1);
}

// Of one profile in six, state without a gradient, and what micro-batches leave for it.
static inline void small_random_states(uint64_t seed, struct profile *profile)
{
    const bool has_states = random_below(&seed, 6) == 0;
    for (size_t l = 0; l < profile->layer_count && has_states; l++) {
        profile->layers[l].state_bytes = 100 * random_below(&seed, 4);
        profile->layers[l].statistics_bytes = profile->layers[l].state_bytes > 0 ? 100 * random_below(&seed, 3) : 0;
    }
}

// Some layers are two tables with rows of 64 bytes.
static inline void small_random_tables(uint64_t seed, struct profile *profile)
{
    for (size_t l = 0; l < profile->layer_count; l++) {
        struct profile_layer *layer = &profile->layers[l];
        const uint64_t rows = layer->parameter_bytes / 64;
        if (rows < 2 || random_below(&seed, 4) > 0)
            continue;
        layer->shapes = calloc(2, sizeof layer->shapes[0]);
        assert_non_null(layer->shapes);
        layer->shape_count = 2;
        layer->shapes[0] = (struct shape){ 1 + random_below(&seed, rows - 1), 16 };
        layer->shapes[1] = (struct shape){ rows - layer->shapes[0].rows, 16 };
        layer->touched_rows = 1 + random_below(&seed, 8);
        layer->row_bytes = 64;
        layer->summed_rows = random_below(&seed, 3) > 0 ? 0 : random_below(&seed, rows + 1);
    }
}

static inline struct profile *small_random_chain(uint64_t *seed, size_t count, uint64_t most_ns)
{
    struct small_layer rows[64] = { { 0 } };
    for (size_t i = 0; i < count; i++)
        rows[i] = (struct small_layer){
            .forward = random_below(seed, most_ns) + 1,
            .backward = random_below(seed, 2 * most_ns) + 1,
            .parameters = random_below(seed, 8),
            .output = random_below(seed, 4),
            .saved = random_below(seed, 6),
            .input_kept = (enum input_kept)random_below(seed, 3),
            .held = random_below(seed, 3),
            .workspace = random_below(seed, 4),
            .backward_workspace = random_below(seed, 6),
        };
    struct profile *profile = small_chain(rows, count);
    small_random_recompute(*seed, profile);
    small_random_shared_by_parts(*seed, profile);
    small_random_states(*seed, profile);
    return profile;
}

// The chain's own edges, most of them, and some that skip.
static inline void small_random_edges(uint64_t *seed, struct profile *profile)
{
    struct edge edges[512];
    size_t count = 0;
    for (uint32_t from = 0; from + 1 < profile->layer_count; from++)
        for (uint32_t to = from + 1; to < profile->layer_count; to++)
            if (random_below(seed, 8) < (to == from + 1 ? 7u : 1u) && count < 512)
                edges[count++] = (struct edge){ from, to };
    small_set_edges(profile, edges, count);
}

// Segments at random in [first, end), in order; returns how many.
static inline size_t small_random_segments(uint64_t *seed, uint32_t first, uint32_t end, struct segment *segments)
{
    size_t count = 0;
    for (uint32_t at = first; at < end;) {
        const uint32_t length = 1 + (uint32_t)random_below(seed, 3);
        if (random_below(seed, 2) == 0 && at + length <= end) {
            segments[count++] = (struct segment){ at, at + length };
            at += length;
        } else {
            at++;
        }
    }
    return count;
}

// Whether layers [first, end) as this stage have all that are pinned to it, and no other.
static inline bool small_pins_hold(const struct search_request *request, uint32_t stage, uint32_t first, uint32_t end)
{
    bool hold = true;
    for (size_t i = 0; i < request->pinned.count; i++) {
        const struct search_pin *pin = &request->pinned.at[i];
        hold &= (first <= pin->layer && pin->layer < end) == (pin->stage == stage);
    }
    return hold;
}

static inline bool small_same_bytes(const struct stage_bytes *a, const struct stage_bytes *b)
{
    return a->weights == b->weights && a->gradients == b->gradients && a->optimizer == b->optimizer
           && a->version == b->version && a->input == b->input && a->input_life == b->input_life
           && a->output == b->output && a->kept == b->kept && a->kept_through == b->kept_through
           && a->held == b->held && a->shared_by_parts == b->shared_by_parts
           && a->kept_shared_by_parts == b->kept_shared_by_parts
           && a->kept_moves == b->kept_moves && a->transient == b->transient
           && host_states_bytes(&a->host) == host_states_bytes(&b->host);
}

#endif
