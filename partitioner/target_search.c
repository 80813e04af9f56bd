#include "partitioner/target_search.h"

#include <string.h>

#include "common/arrays.h"
#include "common/clock.h"
#include "common/number.h"
#include "partitioner/evaluate/reprice.h"
#include "partitioner/search/search_request.h"
#include "partitioner/search/units.h"
#include "profiler/block_names.h"
#include "profiler/estimate/estimated.h"
#include "profiler/profile_reorder.h"

// The results so far, for all numbers of blocks that are recomputed.
struct hunt {
    struct search_request request;
    struct search_units units;
    uint32_t *of;
    bool *is_block;
    uint32_t blocks;
    enum plan_target target;
    struct plan *best;
    uint32_t best_recomputed;
    uint64_t below_ns;  // a plan must be quicker than this; 0: no limit
    // By how many are recomputed: no such plan can beat it. UINT64_MAX: none fits, or it was not tried.
    uint64_t *least_ns;
    bool *is_tried;
    uint64_t rest_ns;    // the same for all numbers that were not tried
    uint32_t *begin;     // cuts to begin with, if there are any
    bool has_begin;
    struct error why;   // the error of the last number that fits nowhere
    struct arrays arrays;
};

// --- units --------------------------------------------------------------------------------------

// torchtitan also cuts between the layers of the ends. Megatron-Core cuts there only behind all layers that predict
// tokens further on.
static bool begins_unit(const struct hunt *hunt, const char *before, const char *name)
{
    struct block_name left, right;
    if (block_name_is_predicted(before) != block_name_is_predicted(name))
        return true;
    const bool left_is = block_name_read(before, &left), right_is = block_name_read(name, &right);
    if (left_is && right_is)
        return !block_name_is_same(before, &left, name);
    return left_is != right_is || hunt->target == TARGET_TORCHTITAN;
}

static bool find_units(struct hunt *hunt, struct error *error)
{
    const struct profile *profile = hunt->request.profile;
    struct block_name block;
    hunt->of = arrays_add(&hunt->arrays, profile->layer_count, sizeof hunt->of[0]);
    hunt->is_block = arrays_add(&hunt->arrays, profile->layer_count, sizeof hunt->is_block[0]);
    hunt->least_ns = arrays_add(&hunt->arrays, profile->layer_count + 1, sizeof hunt->least_ns[0]);
    hunt->is_tried = arrays_add(&hunt->arrays, profile->layer_count + 1, sizeof hunt->is_tried[0]);
    hunt->begin = arrays_add(&hunt->arrays, profile->layer_count + 1, sizeof hunt->begin[0]);
    if (hunt->arrays.failed)
        return error_no_memory(error, "the units of a framework");
    for (size_t l = 0; l < profile->layer_count; l++) {
        const bool begins = l == 0 || begins_unit(hunt, profile->layers[l - 1].name, profile->layers[l].name);
        hunt->of[l] = l == 0 ? 0 : hunt->of[l - 1] + begins;
        hunt->is_block[l] = block_name_read(profile->layers[l].name, &block);
        hunt->blocks += begins && hunt->is_block[l];
    }
    hunt->units = (struct search_units){ hunt->of, hunt->is_block, 0 };
    return true;
}

// Neither framework has stages that are held in different ways.
static bool check_layout(const struct search_request *request, const char *title, struct error *error)
{
    const struct search_layout *layout = &request->layout;
    if (request->free.variants)
        return error_set(error, "%s is not told of variants of layers: plan without them", title);
    for (uint32_t s = 0; s < layout->stages; s++)
        if (layout->variants && layout->variants[s])
            return error_set(error, "%s is not told of variants of layers: plan without them", title);
    if (request->free.replicas)
        return error_set(error, "%s has as many replicas of every stage: say how many", title);
    for (uint32_t s = 1; layout->replicas && s < layout->stages; s++)
        if (layout->replicas[s] != layout->replicas[0])
            return error_set(error, "%s has as many replicas of every stage, but stage 0 has %u and stage %u has %u",
                             title, layout->replicas[0], s, layout->replicas[s]);
    return true;
}

// Nor does either have weights that change while micro-batches are under way.
static bool check_weights(const struct search_request *request, const char *title, struct error *error)
{
    return search_generator(request)->weights == WEIGHTS_FLUSH
        || error_set(error, "%s updates its weights while micro-batches are under way, which %s does not",
                     request->schedule, title);
}

bool target_check_model(enum plan_target target, uint64_t predicted, struct error *error)
{
    return target != TARGET_TORCHTITAN || predicted == 0
        || error_set(error,
                     "torchtitan trains no multi-token prediction, which the model has: estimate the model without it");
}

static uint64_t predicted_by(const struct profile *profile)
{
    uint64_t count = 0;
    for (size_t l = 0; l < profile->layer_count; l++)
        count += block_name_is_predicted(profile->layers[l].name);
    return count;
}

static bool check(const struct hunt *hunt, struct error *error)
{
    const struct search_request *request = &hunt->request;
    const char *title = hunt->target == TARGET_MEGATRON ? "Megatron-Core" : "torchtitan";
    if (!target_check_model(hunt->target, predicted_by(request->profile), error)
        || !check_layout(request, title, error) || !check_weights(request, title, error))
        return false;
    if (!profile_has_one_order(request->profile) && !request->wanted.own_order)
        return error_set(error, "%s cuts the model's own order of layers: plan in that order", title);
    if (hunt->target == TARGET_MEGATRON && (request->given || (strcmp(request->schedule, "1f1b") != 0
                                                               && strcmp(request->schedule, "interleaved") != 0)))
        return error_set(error, "Megatron-Core has no schedule %.60s: it has 1f1b and interleaved",
                         request->given ? "of a file" : request->schedule);
    if (hunt->blocks == 0)
        return error_set(error, "the profile's layers have no blocks by their names (such as block0.attention), between"
                         " which %s cuts", title);
    return true;
}

// How many blocks may be recomputed at most. What Megatron-Core recomputes within layers excludes whole ones.
static uint32_t most_recomputed(const struct hunt *hunt)
{
    const struct estimated *estimated = hunt->request.profile->estimated;
    const bool runs_parts = estimated && (estimated->request.recompute_tensors
                                          || estimated->request.attention == ATTENTION_RECOMPUTED);
    const bool excludes = estimated && (runs_parts || estimated->request.hidden_experts
                                        || (estimated->request.graphs && estimated->model.experts));
    return hunt->target == TARGET_MEGATRON && excludes ? 0 : hunt->blocks;
}

// --- one number after the other -----------------------------------------------------------------

static uint64_t limit_of(const struct hunt *hunt)
{
    return hunt->best ? hunt->best->iteration_ns : hunt->below_ns;
}

static struct search_request request_for(const struct hunt *hunt, struct search_units *units, uint32_t recomputed)
{
    struct search_request request = hunt->request;
    *units = hunt->units;
    units->recomputed = recomputed;
    request.units = units;
    request.wanted.below_ns = limit_of(hunt);
    request.wanted.never_worse = false;
    request.layout.begin = hunt->has_begin ? hunt->begin : NULL;
    return request;
}

// What is known of a number of blocks is the best that any of its searches says.
static void learn(struct hunt *hunt, uint32_t recomputed, uint64_t least_ns)
{
    hunt->least_ns[recomputed] = hunt->is_tried[recomputed] ? max_u64(hunt->least_ns[recomputed], least_ns) : least_ns;
    hunt->is_tried[recomputed] = true;
}

static uint64_t least_of_all(const struct hunt *hunt)
{
    uint64_t least_ns = hunt->rest_ns;
    for (uint32_t recomputed = 0; recomputed <= hunt->blocks; recomputed++)
        if (hunt->is_tried[recomputed])
            least_ns = min_u64(least_ns, hunt->least_ns[recomputed]);
    return least_ns;
}

// Searches with so many blocks recomputed in each stage.
static bool try_recomputed(struct hunt *hunt, uint32_t recomputed, uint64_t parts, struct error *error)
{
    enum { LEAST_BUDGET = 500, LOOK_BUDGET = 6000, LOOK_PARTS = 8 };  // a look for cuts that fit takes more
    struct search_units units;
    struct search_request request = request_for(hunt, &units, recomputed);
    struct error why = { 0 };
    uint64_t least_ns = 0;
    const uint64_t budget = request.limits.budget ? request.limits.budget : SEARCH_DEFAULT_BUDGET;
    request.limits.budget = max_u64(budget / parts, parts <= LOOK_PARTS ? LOOK_BUDGET : LEAST_BUDGET);
    request.limits.deadline_ns = request.limits.deadline_ns ? 1 + request.limits.deadline_ns / parts : 0;
    request.found.least_ns = &least_ns;
    struct plan *plan = plan_search(&request, &why);
    if (!plan && why.kind == ERROR_MACHINE)
        return error_hand_on(error, &why);
    learn(hunt, recomputed, least_ns);
    if (!plan)
        hunt->why = why;
    if (plan && (!hunt->best || plan->iteration_ns < hunt->best->iteration_ns)) {
        plan_free(hunt->best);
        hunt->best = plan;
        hunt->best_recomputed = recomputed;
        return true;
    }
    plan_free(plan);
    return true;
}

// Whether the search is one of many. What would take longest is then left out.
static bool is_quick(const struct hunt *hunt)
{
    enum { QUICK_BUDGET = 50000 };
    return hunt->request.limits.budget > 0 && hunt->request.limits.budget < QUICK_BUDGET;
}

// --- interleaved stages, as people cut them -------------------------------------------------------

// Cuts with as many blocks in each stage, except `fewer` fewer in the last and `less` fewer in the first. Blocks that
// are left over go to the stages from `from` on, one each. False if a stage would have none.
static bool cut_evenly(struct hunt *hunt, uint32_t less, uint32_t fewer, uint32_t from)
{
    const uint32_t stages = hunt->request.ranks * hunt->request.chunks, even = hunt->blocks / stages;
    if (even <= less || even <= fewer)
        return false;
    const uint32_t over = hunt->blocks % stages + less + fewer;
    uint32_t block = 0, layer = 0;
    for (uint32_t s = 0; s < stages; s++) {
        const uint32_t turn = (s + stages - from) % stages;
        const uint32_t size = even - (s == 0 ? less : 0) - (s + 1 == stages ? fewer : 0) + (turn < over);
        hunt->begin[s] = s == 0 ? 0 : layer;
        for (const uint32_t end = block + size; block < end && layer < hunt->request.profile->layer_count; layer++) {
            const bool is_last = layer + 1 == hunt->request.profile->layer_count
                || hunt->of[layer + 1] != hunt->of[layer];
            block += hunt->is_block[layer] && is_last;
        }
    }
    hunt->begin[stages] = (uint32_t)hunt->request.profile->layer_count;
    return true;
}

// With many stages, a search finds little that is better than the best of these cuts. Blocks that are left over go to
// any of the ranks, in stages of the last round.
static bool try_even(struct hunt *hunt, uint32_t recomputed, struct error *error)
{
    enum { ENDS = 6, FEW_RANKS = 4, PARTS = 256 };
    const struct search_request *request = &hunt->request;
    const uint32_t step = is_quick(hunt) && request->ranks > FEW_RANKS ? request->ranks / FEW_RANKS : 1;
    for (uint32_t i = 0; i < ENDS && request->chunks > 1 && !search_is_free(request); i++)
        for (uint32_t rank = 0; rank < request->ranks; rank += step) {
            hunt->has_begin = cut_evenly(hunt, i % 2, i / 2, request->ranks * (request->chunks - 1) + rank);
            if (hunt->has_begin && !try_recomputed(hunt, recomputed, PARTS, error))
                return false;
        }
    hunt->has_begin = false;
    return true;
}

static void begin_with(struct hunt *hunt, const struct plan *plan)
{
    for (size_t s = 0; s < plan->stage_count; s++)
        hunt->begin[s] = plan->stages[s].first;
    hunt->begin[plan->stage_count] = plan->stages[plan->stage_count - 1].end;
    hunt->has_begin = !search_is_free(&hunt->request);
}

// --- all numbers --------------------------------------------------------------------------------

// The worth of more recomputation: if devices had memory for anything, no iteration would be shorter with more of it.
// Take the first number whose plan then fits. None with more is better than it, and those with fewer are tried one by
// one.
struct ample {
    uint64_t least_ns;  // no plan with so many, or more, can beat it
    bool fits;          // the plan that was found does; its cuts are those to begin with
};

static bool find_ample(struct hunt *hunt, uint32_t recomputed, struct ample *ample, struct error *error)
{
    enum { PARTS = 32, LEAST_BUDGET = 500 };
    struct search_units units;
    struct search_request request = request_for(hunt, &units, recomputed);
    struct error why = { 0 };
    struct plan_excess excess = { .lacks_bytes = UINT64_MAX };
    *ample = (struct ample){ 0 };
    struct cluster *cluster = cluster_copy(request.cluster, error);
    if (!cluster)
        return false;
    for (size_t d = 0; d < cluster->device_count; d++)
        cluster->devices[d].memory_bytes = JSON_MAX;
    const uint64_t budget = request.limits.budget ? request.limits.budget : SEARCH_DEFAULT_BUDGET;
    request.limits.budget = max_u64(budget / PARTS, LEAST_BUDGET);
    request.limits.deadline_ns = request.limits.deadline_ns ? 1 + request.limits.deadline_ns / PARTS : 0;
    request.cluster = cluster;
    request.layout.begin = NULL;
    request.wanted.below_ns = 0;
    request.found = (struct search_found){ .least_ns = &ample->least_ns };
    struct plan *plan = plan_search(&request, &why);
    bool good = plan || why.kind != ERROR_MACHINE || error_hand_on(error, &why);
    good = good && (!plan || plan_find_excess(plan, hunt->request.cluster, &excess, error));
    ample->fits = plan && excess.lacks_bytes == 0;
    if (good && plan)
        begin_with(hunt, plan);
    plan_free(plan);
    cluster_free(cluster);
    return good;
}

// Finds the first of the numbers whose plan fits, if it is made as if devices had memory for anything; `count` if
// none does.
static bool find_first(struct hunt *hunt, uint32_t step, uint32_t count, uint32_t *first, struct error *error)
{
    uint32_t low = 0, high = count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        struct ample ample;
        if (!find_ample(hunt, middle * step, &ample, error))
            return false;
        if (ample.fits)
            high = middle;
        else
            low = middle + 1;
    }
    *first = low;
    return true;
}

// Tries that number, which bounds all with more.
static bool try_first(struct hunt *hunt, uint32_t recomputed, struct error *error)
{
    struct ample ample;
    if (!find_ample(hunt, recomputed, &ample, error) || !try_recomputed(hunt, recomputed, 1, error)
        || !try_even(hunt, recomputed, error))
        return false;
    hunt->rest_ns = ample.least_ns;
    return true;
}

static bool is_over(const struct hunt *hunt, uint64_t began_ns)
{
    const struct search_limits *limits = &hunt->request.limits;
    return (limits->interrupted && *limits->interrupted)
        || (limits->deadline_ns && clock_now_ns() - began_ns >= limits->deadline_ns);
}

// Tries those with fewer. Each has little work once several in a row were no better. torchtitan has all or none.
static bool try_all(struct hunt *hunt, struct error *error)
{
    enum { PATIENCE = 3, PARTS = 8, FEW_PARTS = 256 };
    const uint64_t began_ns = clock_now_ns();
    const uint32_t most = most_recomputed(hunt), step = hunt->target == TARGET_TORCHTITAN && most > 0 ? most : 1;
    uint32_t first, worse = 0;
    if (!find_first(hunt, step, most / step + 1, &first, error)
        || (first <= most / step && !try_first(hunt, first * step, error)))
        return false;
    for (uint32_t i = first; i-- > 0;) {
        const uint64_t before_ns = limit_of(hunt);
        if (is_over(hunt, began_ns) || (worse >= PATIENCE && is_quick(hunt))) {
            hunt->rest_ns = 0;  // nothing is known of them
            return true;
        }
        hunt->has_begin = false;
        if (hunt->best)
            begin_with(hunt, hunt->best);
        if (!try_recomputed(hunt, i * step, worse < PATIENCE ? PARTS : FEW_PARTS, error))
            return false;
        const bool fits = hunt->least_ns[i * step] != UINT64_MAX;
        if (fits && worse < PATIENCE && !try_even(hunt, i * step, error))
            return false;
        worse = hunt->best && limit_of(hunt) == before_ns ? worse + 1 : 0;
    }
    return true;
}

// Tries the best number once more, with all of the budget.
static bool try_best_anew(struct hunt *hunt, struct error *error)
{
    if (least_of_all(hunt) >= hunt->best->iteration_ns)
        return true;
    begin_with(hunt, hunt->best);
    return try_recomputed(hunt, hunt->best_recomputed, 1, error);
}

static void finish(struct hunt *hunt, const struct search_request *given, struct error *error)
{
    struct plan *best = hunt->best;
    const uint64_t least_ns = least_of_all(hunt);
    if (given->found.least_ns)
        *given->found.least_ns = best ? min_u64(least_ns, best->iteration_ns) : least_ns;
    if (!best) {
        *error = hunt->why;
        return;
    }
    best->target = hunt->target;
    char stopped[sizeof best->certificate.stopped];
    memcpy(stopped, best->certificate.stopped, sizeof stopped);
    certificate_bound(&best->certificate, min_u64(least_ns, best->iteration_ns),
                      stopped[0] ? best->certificate.stop : STOP_OTHER,
                      stopped[0] ? stopped : "not all numbers of blocks to run again were tried in full");
}

struct plan *plan_search_for(const struct search_request *given, enum plan_target target, struct error *error)
{
    if (target == TARGET_ANY)
        return plan_search(given, error);
    struct hunt hunt = { .request = *given, .target = target, .below_ns = given->wanted.below_ns,
                         .rest_ns = UINT64_MAX };
    const bool good = search_resolve(&hunt.request, error) && find_units(&hunt, error) && check(&hunt, error)
        && try_all(&hunt, error)
        && (!hunt.best || try_best_anew(&hunt, error));
    if (good) {
        finish(&hunt, given, error);
    } else {
        plan_free(hunt.best);
        hunt.best = NULL;
    }
    arrays_clear(&hunt.arrays);
    return hunt.best;
}
