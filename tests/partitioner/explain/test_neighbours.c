#include "partitioner/explain/neighbours.h"

#include "partitioner/plan_search.h"
#include "tests/partitioner/instance.h"

// The twin: the plan with other cuts, and every way to recompute in the two stages beside
// the cut, priced one by one.
struct twin {
    struct plan *plan;
    const struct instance *instance;
    struct placement *placement;
    uint32_t stage, last;  // stages [stage, last] are decided
    uint64_t best_ns;      // of what fits; UINT64_MAX: nothing does
    uint64_t least_lacks;  // of what does not
};

static uint64_t lacks_of(const struct twin *twin)
{
    uint64_t most = 0;
    for (uint32_t rank = 0; rank < twin->plan->ranks; rank++) {
        const uint64_t bytes = plan_rank_bytes(twin->plan, twin->placement, rank);
        const uint64_t has = twin->plan->cluster->devices[rank].memory_bytes;
        most = bytes > has && bytes - has > most ? bytes - has : most;
    }
    return most;
}

static void price(struct twin *twin)
{
    struct error error = { 0 };
    assert_good(plan_predict(twin->plan, twin->instance->profile, &error), error);
    const uint64_t lacks = lacks_of(twin);
    if (lacks == 0 && twin->plan->iteration_ns < twin->best_ns)
        twin->best_ns = twin->plan->iteration_ns;
    if (lacks < twin->least_lacks)
        twin->least_lacks = lacks;
}

static void decide(struct twin *twin, uint32_t s, uint32_t from, struct segment *segments, size_t count)
{
    struct error error = { 0 };
    const struct plan_stage *stage = &twin->plan->stages[s];
    const struct segment layers = { stage->first, stage->end };
    if (from < layers.end) {
        decide(twin, s, from + 1, segments, count);
        for (uint32_t to = from + 1; to <= layers.end; to++) {
            segments[count] = (struct segment){ from, to };
            decide(twin, s, to, segments, count + 1);
        }
        return;
    }
    assert_good(plan_set_stage(twin->plan, s, twin->instance->profile, layers, s, segments, count, &error), error);
    struct segment others[16];
    if (s == twin->last)
        price(twin);
    else
        decide(twin, s + 1, twin->plan->stages[s + 1].first, others, 0);
}

static void set_cut(struct twin *twin, uint32_t cut)
{
    struct error error = { 0 };
    const struct segment before = { twin->plan->stages[twin->stage].first, cut };
    const struct segment behind = { cut, twin->plan->stages[twin->last].end };
    assert_good(plan_set_stage(twin->plan, twin->stage, twin->instance->profile, before, twin->stage, NULL, 0, &error)
                && plan_set_stage(twin->plan, twin->last, twin->instance->profile, behind, twin->last, NULL, 0, &error),
                error);
}

static struct twin twin_of(const struct plan *plan, const struct instance *instance, const struct neighbour *neighbour)
{
    struct error error = { 0 };
    struct twin twin = { .instance = instance, .best_ns = UINT64_MAX, .least_lacks = UINT64_MAX };
    twin.plan = plan_copy(plan, &error);
    twin.placement = plan_placement(plan, &error);
    assert_good(twin.plan && twin.placement, error);
    const uint32_t s = neighbour->stage;
    const bool back = neighbour->kind == NEIGHBOUR_GIVES_BACK;
    twin.stage = back ? s - 1 : s;
    twin.last = twin.stage + 1;
    set_cut(&twin, back ? plan->stages[s].first + 1 : plan->stages[s].end - 1);
    struct segment segments[16];
    decide(&twin, twin.stage, twin.plan->stages[twin.stage].first, segments, 0);
    plan_free(twin.plan);
    placement_free(twin.placement);
    return twin;
}

static void check_move(const struct plan *plan, const struct instance *instance, const struct neighbour *neighbour,
                       int trial)
{
    const struct twin twin = twin_of(plan, instance, neighbour);
    const bool fits = neighbour->outcome != NEIGHBOUR_NO_ROOM;
    if (fits != (twin.best_ns != UINT64_MAX) || (fits && neighbour->iteration_ns != twin.best_ns))
        fail_msg("trial %d: %s from stage %d takes %d and lacks %d, but trying everything finds %d, lacking %d", trial,
                 neighbour->layer, (int)neighbour->stage, (int)neighbour->iteration_ns, (int)neighbour->lacks_bytes,
                 (int)twin.best_ns, (int)twin.least_lacks);
    if (!fits && neighbour->lacks_bytes < twin.least_lacks)
        fail_msg("trial %d: %s from stage %d lacks %d, but nothing lacks less than %d", trial, neighbour->layer,
                 (int)neighbour->stage, (int)neighbour->lacks_bytes, (int)twin.least_lacks);
    assert_int_equal(neighbour->outcome == NEIGHBOUR_FASTER, fits && twin.best_ns < plan->iteration_ns);
}

// With that much more memory a stage that is to run less again does, and the plan is quicker.
static void check_spared(const struct plan *plan, struct instance *instance, const struct neighbour *neighbour,
                         int trial)
{
    if (neighbour->outcome == NEIGHBOUR_NO_FASTER)
        return;
    uint64_t *memory = &instance->cluster->devices[neighbour->rank].memory_bytes;
    assert_int_equal(neighbour->outcome, NEIGHBOUR_NO_ROOM);
    *memory += neighbour->lacks_bytes;
    struct plan *more = plan_search(&instance->request, &(struct error){ 0 });
    if (!more || more->iteration_ns > neighbour->iteration_ns || neighbour->iteration_ns >= plan->iteration_ns)
        fail_msg("trial %d: stage %d with %d more is said to give %d", trial, (int)neighbour->stage,
                 (int)neighbour->lacks_bytes, (int)neighbour->iteration_ns);
    *memory -= neighbour->lacks_bytes;
    plan_free(more);
}

// Of an optimal plan no neighbour is faster, and each is the best of its kind.
static void neighbours_are_the_best_of_their_kind(void **state)
{
    (void)state;
    uint64_t seed = 81;
    size_t outcomes[5] = { 0 }, spared = 0;
    for (uint64_t trial = 0; trial < test_trials(400, 5000); trial++) {
        const uint32_t ranks = 1 + (uint32_t)random_below(&seed, 3);
        struct instance instance = instance_create(&seed, ranks + (uint32_t)random_below(&seed, 4), ranks, true);
        struct plan *plan = plan_search(&instance.request, &(struct error){ 0 });
        for (uint32_t s = 0; plan && plan->weights == WEIGHTS_FLUSH && s < plan->stage_count; s++) {
            struct neighbour found[MOST_NEIGHBOURS];
            struct error error = { 0 };
            size_t count;
            assert_good(neighbours_of_stage(plan, instance.profile, s, found, &count, &error), error);
            for (size_t i = 0; i < count; i++) {
                outcomes[found[i].outcome]++;
                if (found[i].kind == NEIGHBOUR_SPARES)
                    check_spared(plan, &instance, &found[i], (int)trial);
                else if (found[i].outcome < NEIGHBOUR_NO_CUT)
                    check_move(plan, &instance, &found[i], (int)trial);
                assert_true(!plan->certificate.proved || found[i].outcome != NEIGHBOUR_FASTER);
                spared += found[i].kind == NEIGHBOUR_SPARES && found[i].outcome == NEIGHBOUR_NO_ROOM;
            }
        }
        plan_free(plan);
        instance_clear(&instance);
    }
    assert_true(outcomes[NEIGHBOUR_NO_FASTER] > 20 && outcomes[NEIGHBOUR_NO_ROOM] > 10
                && outcomes[NEIGHBOUR_ONLY_LAYER] > 10 && spared > 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(neighbours_are_the_best_of_their_kind),
    };
    return cmocka_run_group_tests_name("neighbours", tests, NULL, NULL);
}
