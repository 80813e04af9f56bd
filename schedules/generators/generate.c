#include "schedules/generators/generate.h"

#include <stdlib.h>
#include <string.h>

#include "common/alike.h"
#include "common/text.h"
#include "schedules/board.h"
#include "schedules/generators/generators.h"

// The order that `weir schedule search` finds is none of these: it needs to know what stages cost (order_search.h).
const struct generator generators[] = {
    { .name = "gpipe", .about = "all forwards, then all backwards",
      .weights = WEIGHTS_FLUSH, .usual_chunks = 1, .takes_replicas = true, .generate = generate_gpipe },
    { .name = "1f1b", .about = "one forward, one backward in turns once the pipeline is full",
      .weights = WEIGHTS_FLUSH, .usual_chunks = 1, .takes_replicas = true, .generate = generate_1f1b },
    { .name = "pipedream", .about = "1f1b that never drains, older weights stashed",
      .weights = WEIGHTS_STASH, .usual_chunks = 1, .takes_replicas = true, .generate = generate_pipedream },
    { .name = "vertical", .about = "pipedream, each micro-batch with one version (vertical sync)",
      .weights = WEIGHTS_VERTICAL, .usual_chunks = 1, .generate = generate_vertical },
    { .name = "pipedream-2bw", .about = "1f1b that never drains, two versions of the weights",
      .weights = WEIGHTS_2BW, .usual_chunks = 1, .takes_replicas = true, .generate = generate_pipedream_2bw },
    { .name = "interleaved", .theirs = "Interleaved1F1B", .about = "1f1b over several stages per rank (Megatron)",
      .weights = WEIGHTS_FLUSH, .usual_chunks = 2, .generate = generate_interleaved },
    { .name = "looped-bfs", .about = "gpipe over several stages per rank, stage after stage",
      .weights = WEIGHTS_FLUSH, .usual_chunks = 2, .generate = generate_looped_bfs },
    { .name = "zb-h1", .about = "1f1b with its backward split, in 1f1b's memory",
      .weights = WEIGHTS_FLUSH, .usual_chunks = 1, .generate = generate_zb_h1 },
    { .name = "zb-h2", .about = "the same without waits within a rank, in twice the memory",
      .weights = WEIGHTS_FLUSH, .usual_chunks = 1, .generate = generate_zb_h2 },
    { .name = "interleaved-zb", .theirs = "InterleavedZeroBubble",
      .about = "interleaved with its backward split (PyTorch's ZB1P)",
      .weights = WEIGHTS_FLUSH, .usual_chunks = 2, .generate = generate_interleaved_zb },
    { .name = "zb-v", .theirs = "ZBVZeroBubble", .about = "two stages per rank on a V, no waits if F, I, W are equal",
      .weights = WEIGHTS_FLUSH, .usual_chunks = 2, .generate = generate_zb_v },
    { .name = "v-half", .about = "the same V in half of 1f1b's memory",
      .weights = WEIGHTS_FLUSH, .usual_chunks = 2, .generate = generate_v_half },
    { .name = "v-min", .about = "the same V in a third of 1f1b's memory",
      .weights = WEIGHTS_FLUSH, .usual_chunks = 2, .generate = generate_v_min },
    { .name = "chimera", .about = "two pipelines against each other, two copies of the weights",
      .weights = WEIGHTS_FLUSH, .usual_chunks = 1, .generate = generate_chimera },
    { .name = "dualpipe", .about = "chimera with forwards together with backwards",
      .weights = WEIGHTS_FLUSH, .usual_chunks = 1, .generate = generate_dualpipe },
    { .name = "dualpipev", .about = "a V with forwards together with backwards",
      .weights = WEIGHTS_FLUSH, .usual_chunks = 2, .generate = generate_dualpipev },
    { .name = "hanayo", .about = "waves over the ranks and back, of two stages per rank each",
      .weights = WEIGHTS_FLUSH, .usual_chunks = 2, .generate = generate_hanayo },
    { .name = "seq1f1b", .about = "1f1b of parts of sequences (splits)",
      .weights = WEIGHTS_FLUSH, .usual_chunks = 1, .takes_splits = true, .generate = generate_seq1f1b },
    { .name = "forward-only", .about = "inference: forwards alone",
      .weights = WEIGHTS_FLUSH, .usual_chunks = 1, .takes_replicas = true, .is_inference = true,
      .generate = generate_forward_only },
    { 0 },
};

const struct generator *generator_find(const char *name, struct error *error)
{
    struct text known = { 0 };
    struct alike alike = { .distance = 0 };
    char said[ALIKE_SAID];
    for (const struct generator *generator = generators; generator->name; generator++) {
        if (strcmp(generator->name, name) == 0) {
            text_clear(&known);
            return generator;
        }
        alike_try(&alike, name, generator->name);
        if (generator->theirs)
            alike_try_as(&alike, name, generator->theirs, generator->name);
        text_add(&known, "%s%s", known.length ? ", " : "", generator->name);
    }
    error_set(error, "there is no schedule named \"%s\"%s (there are %s)", name, alike_said(&alike, said),
              known.data ? known.data : "none");
    text_clear(&known);
    return NULL;
}

bool generator_for(const char *name, const struct schedule *given, struct generator *generator, struct error *error)
{
    const struct generator *found = given ? NULL : generator_find(name, error);
    if (found)
        *generator = *found;
    else if (given)
        *generator = (struct generator){ .name = given->name, .about = "an order that was given",
                                         .weights = given->weights,
                                         .usual_chunks = (given->stages + given->ranks - 1) / given->ranks,
                                         .takes_splits = given->splits > 1,
                                         .is_inference = schedule_is_forward_only(given), .given = given };
    return found || given;
}

bool generator_takes_replicas(const struct generator *generator, struct error *error)
{
    if (generator->takes_replicas)
        return true;
    struct text able = { 0 };
    for (const struct generator *other = generators; other->name; other++)
        if (other->takes_replicas)
            text_add(&able, "%s%s", able.length ? ", " : "", other->name);
    error_set(error, "%s has one rank for each stage; replicas are for %s", generator->name,
              able.data ? able.data : "none");
    text_clear(&able);
    return false;
}

static struct schedule *copy_given(const struct generator *generator, const struct generate_request *request,
                                   struct error *error)
{
    const struct schedule *given = generator->given;
    if (request->ranks == given->ranks && request->micro_batches == given->micro_batches
        && request->chunks == generator->usual_chunks)
        return schedule_copy(given, error);
    error_set(error, "%.60s is an order for %u micro-batches, ranks %u, chunks %u: it cannot be had for %u, ranks %u,"
              " chunks %u", given->name, given->micro_batches, given->ranks, generator->usual_chunks,
              request->micro_batches, request->ranks, request->chunks);
    return NULL;
}

struct schedule *schedule_generate_by(const struct generator *generator, const struct generate_request *request,
                                      struct error *error)
{
    const char *name = generator->name;
    if (request->splits > 1 && !generator->takes_splits) {
        error_set(error, "%s takes sequences whole: splits must be 1, not %u", name, request->splits);
        return NULL;
    }
    if (request->replicas && !generator_takes_replicas(generator, error))
        return NULL;
    struct generate_request filled = *request;
    if (!filled.chunks)
        filled.chunks = generator->usual_chunks;
    return generator->given ? copy_given(generator, &filled, error) : generator->generate(&filled, error);
}

struct schedule *schedule_generate_as(const char *name, const struct generate_request *request, struct error *error)
{
    const struct generator *generator = generator_find(name, error);
    return generator ? schedule_generate_by(generator, request, error) : NULL;
}

struct schedule *schedule_generate(const char *name, uint32_t ranks, uint32_t chunks, uint32_t micro_batches,
                                   struct error *error)
{
    const struct generate_request request = { .ranks = ranks, .chunks = chunks, .micro_batches = micro_batches };
    return schedule_generate_as(name, &request, error);
}

struct schedule *generate_one_stage_per_rank(const char *name, enum weights weights,
                                             const struct generate_request *request, struct error *error)
{
    if (request->chunks != 1) {
        error_set(error, "%s has one stage per rank: chunks must be 1, not %u", name, request->chunks);
        return NULL;
    }
    return schedule_create(name, weights, request->ranks, request->ranks, request->micro_batches, error);
}

struct schedule *generate_looped(const char *name, const struct generate_request *request, const char *instead,
                                 struct error *error)
{
    if (request->chunks < 2) {
        error_set(error, "%s has several stages per rank: chunks must be 2 or more, not %u (%s is for 1)", name,
                  request->chunks, instead);
        return NULL;
    }
    const uint64_t stages = (uint64_t)request->ranks * request->chunks;
    return schedule_create(name, WEIGHTS_FLUSH, request->ranks, stages < UINT32_MAX ? (uint32_t)stages : UINT32_MAX,
                           request->micro_batches, error);
}

struct schedule *generate_v(const char *name, const struct generate_request *request, struct error *error)
{
    if (request->chunks != 2) {
        error_set(error, "%s has two stages per rank, on a V: chunks must be 2, not %u", name, request->chunks);
        return NULL;
    }
    const uint32_t p = request->ranks;
    struct schedule *schedule = generate_looped(name, request, "", error);
    for (uint32_t rank = 0; schedule && rank < p; rank++)
        schedule->routes[2 * p - 1 - rank] = rank;
    return schedule;
}

bool generate_routes(struct schedule *schedule, uint32_t count, struct error *error)
{
    uint32_t *routes = calloc((size_t)count * schedule->stages, sizeof *routes);
    if (!routes)
        return error_no_memory(error, "the routes of a schedule");
    free(schedule->routes);
    schedule->routes = routes;
    schedule->route_count = count;
    return true;
}

struct schedule *generate_two_ways(const char *name, const struct generate_request *request, struct error *error)
{
    const uint32_t p = request->ranks;
    if (p % 2 != 0) {
        error_set(error, "%s has two pipelines against each other: ranks must be even, such as %u, not %u", name,
                  p + 1, p);
        return NULL;
    }
    struct schedule *schedule = generate_one_stage_per_rank(name, WEIGHTS_FLUSH, request, error);
    if (!schedule || !generate_routes(schedule, 2, error))
        return generate_done(schedule, false);
    for (uint32_t stage = 0; stage < p; stage++) {
        schedule->routes[stage] = stage;
        schedule->routes[p + stage] = p - 1 - stage;
    }
    for (uint32_t i = 0; i < request->micro_batches; i++)
        schedule->route_of[i] = i % 2;
    return schedule;
}

bool generate_add(struct schedule *schedule, uint32_t rank, enum action_kind kind, uint32_t stage,
                  uint32_t micro_batch, struct error *error)
{
    const struct action action = { .stage = (uint16_t)stage, .kind = (uint8_t)kind, .micro_batch = micro_batch };
    return schedule_add(schedule, rank, action, error);
}

// Whether the rank holds the stage, and how many other ranks do.
static bool holds_stage(const struct schedule *schedule, uint32_t rank, uint32_t stage, uint32_t *others)
{
    bool holds = false;
    *others = 0;
    for (uint32_t route = 0; route < schedule->route_count; route++) {
        const uint32_t at = schedule->routes[(size_t)route * schedule->stages + stage];
        holds |= at == rank;
        *others += at != rank;
    }
    return holds;
}

bool generate_add_steps(struct schedule *schedule, uint32_t rank, struct error *error)
{
    bool good = true;
    uint32_t others;
    for (uint32_t stage = 0; good && stage < schedule->stages; stage++) {
        if (holds_stage(schedule, rank, stage, &others))
            good = (others == 0 || generate_add(schedule, rank, ACTION_REDUCE, stage, NO_MICRO_BATCH, error))
                && generate_add(schedule, rank, ACTION_STEP, stage, NO_MICRO_BATCH, error);
    }
    return good;
}

bool generate_by_rules(struct schedule *schedule, const struct greedy_rules *rules, struct error *error)
{
    bool good = greedy_order(schedule, rules, error);
    for (uint32_t rank = 0; good && rank < schedule->ranks; rank++)
        good = generate_add_steps(schedule, rank, error);
    return good;
}

struct schedule *generate_done(struct schedule *schedule, bool good)
{
    if (good)
        return schedule;
    schedule_free(schedule);
    return NULL;
}
