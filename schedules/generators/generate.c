#include "schedules/generators/generate.h"

#include <stdlib.h>
#include <string.h>

#include "common/alike.h"
#include "common/text.h"
#include "schedules/board.h"
#include "schedules/generators/generators.h"

// The order that `weir schedule search` finds is not in this table, since it depends on the costs of stages
// (order_search.h).
const struct generator generators[] = {
    { .name = "gpipe", .about = "all forwards, then all backwards",
      .weights = WEIGHTS_FLUSH, .usual_chunks = 1, .takes_replicas = true, .order = ORDER_GPIPE,
      .waits = WAITS_FOR_PASSES, .keeps_all = true, .flight = gpipe_flight, .generate = generate_gpipe },
    { .name = "1f1b", .about = "one forward, one backward in turns once the pipeline is full",
      .weights = WEIGHTS_FLUSH, .usual_chunks = 1, .takes_replicas = true, .order = ORDER_1F1B,
      .waits = WAITS_FOR_PASSES, .is_usual = true, .search_rank = 2, .flight = one_way_flight,
      .generate = generate_1f1b },
    { .name = "pipedream", .about = "1f1b that never drains, older weights stashed",
      .weights = WEIGHTS_STASH, .usual_chunks = 1, .takes_replicas = true, .order = ORDER_PIPEDREAM,
      .generate = generate_pipedream },
    { .name = "vertical", .about = "pipedream, each micro-batch with one version (vertical sync)",
      .weights = WEIGHTS_VERTICAL, .usual_chunks = 1, .generate = generate_vertical },
    { .name = "pipedream-2bw", .about = "1f1b that never drains, two versions of the weights",
      .weights = WEIGHTS_2BW, .usual_chunks = 1, .takes_replicas = true, .order = ORDER_2BW,
      .generate = generate_pipedream_2bw },
    { .name = "interleaved", .theirs = "Interleaved1F1B", .about = "1f1b over several stages per rank (Megatron)",
      .weights = WEIGHTS_FLUSH, .usual_chunks = 2, .order = ORDER_INTERLEAVED,
      .waits = WAITS_FOR_PASSES, .takes_any_chunks = true, .may_have_pairs = true, .wants_rounds = true,
      .is_usual = true,
      .flight = interleaved_flight, .generate = generate_interleaved },
    { .name = "looped-bfs", .about = "gpipe over several stages per rank, stage after stage",
      .weights = WEIGHTS_FLUSH, .usual_chunks = 2, .keeps_all = true,
      .takes_any_chunks = true, .generate = generate_looped_bfs },
    { .name = "zb-h1", .about = "1f1b with its backward split, in 1f1b's memory",
      .weights = WEIGHTS_FLUSH, .usual_chunks = 1, .waits = WAITS_FOR_FORWARDS,
      .idle = IDLE_FOR_FORWARDS, .is_usual = true, .search_rank = 1, .flight = one_way_flight,
      .generate = generate_zb_h1 },
    { .name = "zb-h2", .about = "the same without waits within a rank, in twice the memory",
      .weights = WEIGHTS_FLUSH, .usual_chunks = 1, .waits = WAITS_FOR_FORWARDS,
      .idle = IDLE_FOR_FORWARDS, .flight = one_way_flight, .generate = generate_zb_h2 },
    { .name = "interleaved-zb", .theirs = "InterleavedZeroBubble",
      .about = "interleaved with its backward split (PyTorch's ZB1P)",
      .weights = WEIGHTS_FLUSH, .usual_chunks = 2, .takes_any_chunks = true, .generate = generate_interleaved_zb },
    { .name = "zb-v", .theirs = "ZBVZeroBubble", .about = "two stages per rank on a V, no waits if F, I, W are equal",
      .weights = WEIGHTS_FLUSH, .usual_chunks = 2, .waits = WAITS_FOR_FORWARDS,
      .idle = IDLE_FOR_A_FORWARD, .is_usual = true, .search_rank = 1, .flight = zb_v_flight, .comes_back = true,
      .generate = generate_zb_v },
    { .name = "v-half", .about = "the same V in half of 1f1b's memory",
      .weights = WEIGHTS_FLUSH, .usual_chunks = 2, .search_rank = 2, .comes_back = true, .generate = generate_v_half },
    { .name = "v-min", .about = "the same V in a third of 1f1b's memory",
      .weights = WEIGHTS_FLUSH, .usual_chunks = 2, .search_rank = 3, .comes_back = true, .generate = generate_v_min },
    { .name = "chimera", .about = "two pipelines against each other, two copies of the weights",
      .weights = WEIGHTS_FLUSH, .usual_chunks = 1, .copies = 2, .generate = generate_chimera },
    { .name = "dualpipe", .about = "chimera with forwards together with backwards",
      .weights = WEIGHTS_FLUSH, .usual_chunks = 1, .idle = IDLE_FOR_FORWARDS, .has_pairs = true, .copies = 2,
      .generate = generate_dualpipe },
    { .name = "dualpipev", .about = "a V with forwards together with backwards",
      .weights = WEIGHTS_FLUSH, .usual_chunks = 2, .idle = IDLE_FOR_FORWARDS, .has_pairs = true,
      .comes_back = true, .generate = generate_dualpipev },
    { .name = "hanayo", .about = "waves over the ranks and back, of two stages per rank each",
      .weights = WEIGHTS_FLUSH, .usual_chunks = 2, .comes_back = true, .generate = generate_hanayo },
    { .name = "seq1f1b", .about = "1f1b of parts of sequences (splits)",
      .weights = WEIGHTS_FLUSH, .usual_chunks = 1, .takes_splits = true, .generate = generate_seq1f1b },
    { .name = "tables-ahead", .about = "tables and dense layers on one rank, lookups one ahead",
      .weights = WEIGHTS_FLUSH, .usual_chunks = 2, .only_ranks = 1, .exchanges = true,
      .generate = generate_tables_ahead },
    { .name = "forward-only", .about = "inference: forwards alone",
      .weights = WEIGHTS_FLUSH, .usual_chunks = 1, .takes_replicas = true, .is_inference = true,
      .order = ORDER_FORWARD_ONLY, .generate = generate_forward_only },
    { 0 },
};

struct generator_flight generator_flight(const struct generator *generator, const struct generate_request *request,
                                         uint32_t rank)
{
    return generator->flight ? generator->flight(request, rank) : (struct generator_flight){ 1, 1, 0 };
}

const struct generator *generator_to_search(uint32_t chunks, const struct generator *before)
{
    const struct generator *next = NULL;
    for (const struct generator *one = generators; one->name; one++)
        if (one->usual_chunks == chunks && one->search_rank > (before ? before->search_rank : 0)
            && (!next || one->search_rank < next->search_rank))
            next = one;
    return next;
}

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
                                         .exchanges = given->exchanges,
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
    if (request->splits > 1 && !generator->takes_splits)
        return error_null(error_set(error, "%s takes sequences whole: splits must be 1, not %u", name,
                                    request->splits));
    if (request->replicas && !generator_takes_replicas(generator, error))
        return NULL;
    struct generate_request filled = *request;
    if (!filled.chunks)
        filled.chunks = generator->usual_chunks;
    struct schedule *order =
        generator->given ? copy_given(generator, &filled, error) : generator->generate(&filled, error);
    if (!order || request->into.segments <= 1)
        return order;
    struct schedule *segments = schedule_segment(order, request->into, error);
    schedule_free(order);
    return segments;
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
