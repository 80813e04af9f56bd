#include "partitioner/explain/neighbours.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/array.h"
#include "common/json.h"
#include "common/number.h"
#include "partitioner/cost/predict.h"
#include "partitioner/cost/variant.h"
#include "partitioner/evaluate/question.h"
#include "partitioner/search/interval.h"
#include "partitioner/search/recompute.h"
#include "partitioner/search/search_request.h"

const char *const neighbour_kind_names[] = { "gives back", "gives on", "spares", NULL };
const char *const neighbour_outcome_names[] = { "faster", "no faster", "no room", "no cut", "only layer", "pinned",
                                                NULL };

// The most that a front of recomputation choices may hold. A good part of the front is enough to say what is missing.
#define FRONT_LABELS 4000
#define MOST_BYTES ((uint64_t)1 << 60)

struct sight {
    const struct plan *plan;
    const struct profile *profile;
    struct profile *made;
    const struct profile *ordered;  // with the layers in the plan's order
    struct plan *copy;  // the neighbour that is being examined
    struct placement *placement;
    struct slots *slots;  // of each stage
    struct question question;  // that the plan answers
    bool *can_cut;
};

static bool begin(struct sight *sight, struct error *error)
{
    sight->ordered = plan_ordered(sight->plan, sight->profile, &sight->made, error);
    if (!sight->ordered || !question_of(sight->plan, sight->ordered, &sight->question, error))
        return false;
    sight->copy = plan_copy(sight->plan, error);
    sight->placement = sight->copy ? plan_placement(sight->plan, error) : NULL;
    sight->slots = sight->placement ? search_slots(&sight->question.request, error) : NULL;
    sight->can_cut = sight->slots ? search_cuts(&sight->question.request, 1, error) : NULL;
    return sight->can_cut != NULL;
}

static void end(struct sight *sight)
{
    plan_free(sight->copy);
    placement_free(sight->placement);
    free(sight->slots);
    free(sight->can_cut);
    question_clear(&sight->question);
    profile_free(sight->made);
}

// --- a stage's layers and what it runs again -------------------------------------------

// Sets the layers of a stage and which of them are recomputed; everything else about the stage stays.
static bool set_layers(struct sight *sight, uint32_t s, struct segment layers, const struct segment *again,
                       size_t count, struct error *error)
{
    const struct plan_stage *stage = &sight->plan->stages[s];
    return plan_set_stage(sight->copy, s, sight->ordered, layers, 0, again, count, error)
        && plan_set_variant(sight->copy, s, stage->variant, stage->devices, stage->device_count,
                            plan_stage_group(stage), error);
}

static bool set_segments(struct plan_stage *stage, const struct segment *segments, size_t count, struct error *error)
{
    struct segment *copy = array_copy(segments, count, sizeof copy[0]);
    if (!copy)
        return error_no_memory(error, "a stage of a plan");
    free(stage->recompute);
    stage->recompute = copy;
    stage->recompute_count = count;
    return true;
}

// Restores the stage as the plan has it.
static bool restore(struct sight *sight, uint32_t s, struct error *error)
{
    const struct plan_stage *stage = &sight->plan->stages[s];
    return set_layers(sight, s, (struct segment){ stage->first, stage->end }, stage->recompute, stage->recompute_count,
                      error);
}

// The time of the copy, and what it lacks on the ranks that hold a stage.
static bool price_of(struct sight *sight, uint32_t s, struct neighbour *price, struct error *error)
{
    const struct placement *placement = sight->placement;
    struct error why = { 0 };
    sight->copy->iteration_ns = 0;
    if (!plan_predict(sight->copy, sight->profile, &why) && !plan_is_too_long(sight->copy)) {
        *error = why;
        return false;
    }
    price->iteration_ns = min_u64(sight->copy->iteration_ns, JSON_MAX);
    for (uint32_t copy = 0; copy < placement_copies(placement, s); copy++) {
        const uint32_t rank = placement_rank(placement, s, copy);
        const uint64_t bytes = plan_rank_bytes(sight->copy, placement, rank);
        const uint64_t capacity = sight->copy->stages[s].memory.capacity_bytes;
        const uint64_t lacks = bytes > capacity ? bytes - capacity : 0;
        if (copy == 0 || lacks > price->lacks_bytes) {
            price->rank = rank;
            price->lacks_bytes = lacks;
        }
    }
    price->outcome = price->iteration_ns < sight->plan->iteration_ns ? NEIGHBOUR_FASTER : NEIGHBOUR_NO_FASTER;
    if (price->lacks_bytes > 0)
        price->outcome = NEIGHBOUR_NO_ROOM;
    return true;
}

// --- ways to recompute, from the quickest to the smallest -----------------------------

static bool list_ways(struct sight *sight, uint32_t s, const struct profile *view, struct recompute_list *front,
                      struct error *error)
{
    const struct plan_stage *stage = &sight->copy->stages[s];
    struct intervals *intervals = intervals_create(view, &sight->plan->storage, error);
    uint64_t work = 0;
    if (!intervals)
        return false;
    intervals->replicas = placement_copies(sight->placement, s);
    const bool good = recompute_search(intervals, stage->first, stage->end, &sight->slots[s], MOST_BYTES,
                                       RECOMPUTE_FRONT, FRONT_LABELS, &work, front, error);
    intervals_free(intervals);
    return good;
}

// Keeps only the ways that are smaller than all quicker ones.
static bool front_of(struct sight *sight, uint32_t s, struct recompute_list *front, struct error *error)
{
    struct profile *view = variant_of(sight->ordered, sight->copy->stages[s].variant, error);
    const bool good = view && list_ways(sight, s, view, front, error);
    uint64_t least = UINT64_MAX;
    size_t kept = 0;
    variant_free(view);
    for (size_t i = 0; good && i < front->count; i++) {
        const uint64_t bytes = front->at[i].bytes + front->at[i].workspace_bytes;
        if (bytes < least)
            front->at[kept++] = front->at[i];
        else
            free(front->at[i].segments);
        least = min_u64(least, bytes);
    }
    if (good)
        front->count = kept;
    return good;
}

static bool price_choice(struct sight *sight, uint32_t s, const struct recompute_list *front, size_t i,
                         struct neighbour *price, struct error *error)
{
    return set_segments(&sight->copy->stages[s], front->at[i].segments, front->at[i].count, error)
        && price_of(sight, s, price, error);
}

enum aim { FITS, GAINS_NOTHING };

// The first choice that meets the aim; all later ones meet it, too. `count` if there is none.
static bool first_that(enum aim aim, struct sight *sight, uint32_t s, const struct recompute_list *front,
                       size_t *found, struct error *error)
{
    size_t from = 0, end = front->count;
    while (from < end) {
        const size_t middle = from + (end - from) / 2;
        struct neighbour price;
        if (!price_choice(sight, s, front, middle, &price, error))
            return false;
        if (aim == FITS ? price.lacks_bytes == 0 : price.iteration_ns >= sight->plan->iteration_ns)
            end = middle;
        else
            from = middle + 1;
    }
    *found = from;
    return true;
}

// --- the neighbours ---------------------------------------------------------------------

// Takes the quickest way that fits. If there is none, it takes the smallest that gains, or else the smallest.
static bool settle(struct sight *sight, uint32_t s, struct neighbour *price, struct error *error)
{
    struct recompute_list front;
    if (!front_of(sight, s, &front, error))
        return false;
    size_t choice = 0, slow = 0;
    bool good = front.count > 0 || error_set(error, "a stage has no way to be run");
    good = good && first_that(FITS, sight, s, &front, &choice, error);
    if (good && choice == front.count) {
        good = first_that(GAINS_NOTHING, sight, s, &front, &slow, error);
        choice = slow > 0 ? slow - 1 : front.count - 1;
    }
    good = good && price_choice(sight, s, &front, choice, price, error);
    recompute_list_clear(&front);
    return good;
}

static bool make_smallest(struct sight *sight, uint32_t s, struct error *error)
{
    struct recompute_list front;
    if (!front_of(sight, s, &front, error))
        return false;
    const bool good = front.count == 0 || set_segments(&sight->copy->stages[s], front.at[front.count - 1].segments,
                                                       front.at[front.count - 1].count, error);
    recompute_list_clear(&front);
    return good;
}

// Moves the cut between stages `s` and `s` + 1 to `cut`; `giver` is the stage that gets smaller. The giver may lack
// more than the taker, since another cut has other messages. The time is that of both.
static bool move_cut(struct sight *sight, uint32_t s, uint32_t cut, uint32_t giver, struct neighbour *neighbour,
                     struct error *error)
{
    const struct plan_stage *stages = sight->plan->stages;
    const uint32_t taker = giver == s ? s + 1 : s;
    struct neighbour for_giver = *neighbour;
    if (!set_layers(sight, s, (struct segment){ stages[s].first, cut }, NULL, 0, error)
        || !set_layers(sight, s + 1, (struct segment){ cut, stages[s + 1].end }, NULL, 0, error)
        || !make_smallest(sight, taker, error) || !settle(sight, giver, &for_giver, error)
        || !settle(sight, taker, neighbour, error))
        return false;
    for_giver.iteration_ns = neighbour->iteration_ns;
    if (for_giver.lacks_bytes > neighbour->lacks_bytes)
        *neighbour = for_giver;
    return restore(sight, s, error) && restore(sight, s + 1, error);
}

static bool give_layer(struct sight *sight, uint32_t s, bool back, struct neighbour *neighbour, struct error *error)
{
    const struct plan_stage *stage = &sight->plan->stages[s];
    const uint32_t layer = back ? stage->first : stage->end - 1, cut = back ? layer + 1 : layer;
    const bool is_only = stage->end - stage->first < 2;
    const bool is_pinned = !is_only && stage->pinned && stage->pinned[layer - stage->first];
    *neighbour = (struct neighbour){ .kind = back ? NEIGHBOUR_GIVES_BACK : NEIGHBOUR_GIVES_ON, .stage = s,
                                     .outcome = is_only     ? NEIGHBOUR_ONLY_LAYER
                                                : is_pinned ? NEIGHBOUR_PINNED : NEIGHBOUR_NO_CUT };
    snprintf(neighbour->layer, sizeof neighbour->layer, "%s", sight->ordered->layers[layer].name);
    const bool may_cut = sight->can_cut[cut] && search_may_begin(&sight->question.request, back ? s : s + 1, cut);
    return is_only || is_pinned || !may_cut || move_cut(sight, back ? s - 1 : s, cut, s, neighbour, error);
}

static bool spare(struct sight *sight, uint32_t s, struct neighbour *neighbour, struct error *error)
{
    *neighbour = (struct neighbour){ .kind = NEIGHBOUR_SPARES, .stage = s, .outcome = NEIGHBOUR_NO_FASTER,
                                     .iteration_ns = sight->plan->iteration_ns };
    struct recompute_list front;
    if (!front_of(sight, s, &front, error))
        return false;
    size_t slow = 0;
    bool good = first_that(GAINS_NOTHING, sight, s, &front, &slow, error);
    if (good && slow > 0)
        good = price_choice(sight, s, &front, slow - 1, neighbour, error);
    recompute_list_clear(&front);
    return good && restore(sight, s, error);
}

static bool find_all(struct sight *sight, uint32_t s, struct neighbour found[MOST_NEIGHBOURS], size_t *count,
                     struct error *error)
{
    if (s > 0 && !give_layer(sight, s, true, &found[(*count)++], error))
        return false;
    if (s + 1 < sight->plan->stage_count && !give_layer(sight, s, false, &found[(*count)++], error))
        return false;
    return sight->plan->stages[s].recompute_count == 0 || spare(sight, s, &found[(*count)++], error);
}

bool neighbours_of_stage(const struct plan *plan, const struct profile *profile, uint32_t stage,
                         struct neighbour found[MOST_NEIGHBOURS], size_t *count, struct error *error)
{
    struct sight sight = { .plan = plan, .profile = profile };
    *count = 0;
    const bool good = begin(&sight, error) && find_all(&sight, stage, found, count, error);
    end(&sight);
    return good;
}
