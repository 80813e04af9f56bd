#include "partitioner/search/recompute.h"
#include "partitioner/search/recompute_bound.h"

#include "tests/partitioner/small.h"

enum { MOST_LAYERS = 8, MOST_TIMES = 1 << MOST_LAYERS, MOST_WAYS = 2000 };

struct way {
    uint64_t time, bytes, workspace;
};

// The twin: every way to cut the layers into kept ones and segments.
struct brute {
    const struct profile *profile;
    uint32_t first, end;
    const struct slots *slots;
    uint32_t splits;  // 0 as 1
    uint64_t capacity;
    struct segment segments[MOST_LAYERS];
    size_t count;
    uint64_t times[MOST_TIMES];  // of all ways that fit, ascending, each once
    uint32_t layers[MOST_TIMES];  // fewest for that time
    size_t time_count;
    uint64_t least_peak;  // of all ways
    struct way ways[MOST_WAYS];  // that fit
    size_t way_count;
};

static struct stage_memory memory_of(const struct brute *brute)
{
    const struct stage_bytes bytes = stage_bytes_at(brute->profile, brute->first, brute->end, brute->segments,
                                                    brute->count, &(struct storage){ .optimizer = OPTIMIZER_ADAMW }, 1);
    const struct stage_bytes split = stage_bytes_of_split(bytes, brute->splits);
    return stage_memory_of(&split, brute->slots);
}

static uint64_t peak_of(const struct brute *brute)
{
    return memory_of(brute).peak_bytes;
}

static void note_time(struct brute *brute)
{
    const uint64_t peak = peak_of(brute);
    brute->least_peak = peak < brute->least_peak ? peak : brute->least_peak;
    if (peak > brute->capacity)
        return;
    uint64_t time = 0;
    uint32_t layers = 0;
    for (size_t i = 0; i < brute->count; i++)
        for (uint32_t l = brute->segments[i].first; l < brute->segments[i].end; l++, layers++)
            time += profile_recompute_ns(&brute->profile->layers[l]);
    const uint64_t workspace = memory_of(brute).transient_bytes;
    assert_true(brute->way_count < MOST_WAYS);
    brute->ways[brute->way_count++] = (struct way){ time, peak - workspace, workspace };
    size_t at = 0;
    while (at < brute->time_count && brute->times[at] < time)
        at++;
    if (at < brute->time_count && brute->times[at] == time) {
        brute->layers[at] = layers < brute->layers[at] ? layers : brute->layers[at];
        return;
    }
    memmove(&brute->times[at + 1], &brute->times[at], (brute->time_count - at) * sizeof brute->times[0]);
    memmove(&brute->layers[at + 1], &brute->layers[at], (brute->time_count - at) * sizeof brute->layers[0]);
    brute->times[at] = time;
    brute->layers[at] = layers;
    brute->time_count++;
}

static void try_all(struct brute *brute, uint32_t from)
{
    if (from == brute->end) {
        note_time(brute);
        return;
    }
    try_all(brute, from + 1);
    for (uint32_t to = from + 1; to <= brute->end; to++) {
        brute->segments[brute->count++] = (struct segment){ from, to };
        try_all(brute, to);
        brute->count--;
    }
}

static struct slots random_slots(uint64_t *seed)
{
    const uint32_t kept = 1 + (uint32_t)random_below(seed, 4);
    return (struct slots){ .input = { 1, kept, kept + (uint32_t)random_below(seed, 2) }, .kept = kept,
                           .kept_through = kept + (uint32_t)random_below(seed, 2), .held = (uint32_t)random_below(seed, 3),
                           .shared_by_parts = (kept + 1) / 2, .shared_by_parts_gradient = 1,
                           .output = 2, .output_gradient = 1, .input_gradient = 2,
                           .versions = 1 + (uint32_t)random_below(seed, 2) };
}

// Somewhere between what everything and what nothing recomputed takes.
static uint64_t random_capacity(uint64_t *seed, struct brute *brute)
{
    brute->count = 0;
    const uint64_t all_kept = peak_of(brute);
    brute->segments[brute->count++] = (struct segment){ brute->first, brute->end };
    const uint64_t all_dropped = peak_of(brute);
    brute->count = 0;
    const uint64_t low = all_kept < all_dropped ? all_kept : all_dropped;
    return low / 2 + random_below(seed, all_kept + all_dropped - low + 1);
}

static void check_segments_fit(struct brute *brute, const struct recompute_choice *choice, uint64_t trial)
{
    memcpy(brute->segments, choice->segments, choice->count * sizeof choice->segments[0]);
    brute->count = choice->count;
    uint64_t time = 0;
    for (size_t i = 0; i < choice->count; i++)
        for (uint32_t l = choice->segments[i].first; l < choice->segments[i].end; l++)
            time += profile_recompute_ns(&brute->profile->layers[l]);
    if (peak_of(brute) > brute->capacity || time != choice->forward_ns)
        fail_msg("trial %d: the segments do not fit, or take another time than they say", (int)trial);
}

static uint32_t layers_of(const struct recompute_choice *choice)
{
    uint32_t layers = 0;
    for (size_t i = 0; i < choice->count; i++)
        layers += choice->segments[i].end - choice->segments[i].first;
    return layers;
}

static bool covers(const struct recompute_choice *choice, const struct way *way, bool of_its_time)
{
    return choice->bytes <= way->bytes && choice->workspace_bytes <= way->workspace
        && (of_its_time ? choice->forward_ns == way->time : choice->forward_ns <= way->time);
}

// Every way that fits is covered by one of the front, which is what it says.
static void compare_front(struct brute *brute, struct intervals *intervals, enum recompute_wanted wanted,
                          uint64_t trial)
{
    struct error error = { 0 };
    struct recompute_list front;
    uint64_t work = 0;
    assert_good(recompute_search(intervals, brute->first, brute->end, brute->slots, brute->capacity, wanted, 100000,
                                 &work, &front, &error),
                error);
    assert_true(front.complete);
    assert_true((front.count > 0) == (brute->way_count > 0));
    for (size_t i = 0; i < front.count; i++) {
        check_segments_fit(brute, &front.at[i], trial);
        assert_int_equal(front.at[i].workspace_bytes, memory_of(brute).transient_bytes);
        assert_int_equal(front.at[i].bytes + front.at[i].workspace_bytes, peak_of(brute));
        assert_true(i == 0 || front.at[i].forward_ns >= front.at[i - 1].forward_ns);
    }
    for (size_t w = 0; w < brute->way_count; w++) {
        bool covered = false;
        for (size_t i = 0; i < front.count && !covered; i++)
            covered = covers(&front.at[i], &brute->ways[w], wanted == RECOMPUTE_EVERY_FRONT);
        if (!covered)
            fail_msg("trial %d: a way of %d ns, %d bytes and a workspace of %d is not covered", (int)trial,
                     (int)brute->ways[w].time, (int)brute->ways[w].bytes, (int)brute->ways[w].workspace);
    }
    recompute_list_clear(&front);
}

// A walk that is cut, and a bound without any walk, against the least time there is.
static void compare_bounds(struct brute *brute, struct intervals *intervals, uint64_t trial)
{
    struct error error = { 0 };
    struct recompute_list list;
    uint64_t work = 0;
    const uint64_t least = brute->time_count ? brute->times[0] : UINT64_MAX;
    for (size_t most = 1; most < 4; most++) {
        assert_good(recompute_search(intervals, brute->first, brute->end, brute->slots, brute->capacity,
                                     RECOMPUTE_LEAST, most, &work, &list, &error), error);
        if (list.least_ns > least || (list.complete && list.least_ns != least))
            fail_msg("trial %d: a walk with %d labels says at least %d, but %d will do", (int)trial, (int)most,
                     (int)list.least_ns, (int)least);
        recompute_list_clear(&list);
    }
    const struct slots slots[2] = { *brute->slots, *brute->slots };
    const uint64_t capacities[2] = { brute->capacity, brute->capacity };
    struct recompute_bounds *bounds = recompute_bounds_create(intervals, slots, capacities, 2, &error);
    assert_good(bounds, error);
    const uint64_t first = recompute_bound(bounds, 0, brute->first, brute->end);
    for (uint32_t again = 0; again < 2; again++) {
        const uint64_t bound = recompute_bound(bounds, again, brute->first, brute->end);
        assert_int_equal(bound, first);
        if (bound > least)
            fail_msg("trial %d: the bound is %d, but %d will do", (int)trial, (int)bound, (int)least);
    }
    recompute_bounds_free(bounds);
}

static void compare(struct brute *brute, struct intervals *intervals, uint64_t trial)
{
    struct error error = { 0 };
    struct recompute_list list;
    uint64_t work = 0;
    assert_good(recompute_search(intervals, brute->first, brute->end, brute->slots, brute->capacity, RECOMPUTE_LEAST,
                                 100000, &work, &list, &error),
                error);
    if (!list.complete || list.count != (brute->time_count > 0)
        || (list.count && (list.at[0].forward_ns != brute->times[0] || layers_of(&list.at[0]) != brute->layers[0])))
        fail_msg("trial %d: least is %d, not %d", (int)trial, list.count ? (int)list.at[0].forward_ns : -1,
                 brute->time_count ? (int)brute->times[0] : -1);
    if (list.count)
        check_segments_fit(brute, &list.at[0], trial);
    recompute_list_clear(&list);

    assert_good(recompute_search(intervals, brute->first, brute->end, brute->slots, brute->capacity, RECOMPUTE_EVERY,
                                 100000, &work, &list, &error),
                error);
    if (!list.complete || list.count != brute->time_count)
        fail_msg("trial %d: %d times, not %d", (int)trial, (int)list.count, (int)brute->time_count);
    for (size_t i = 0; i < list.count; i++) {
        assert_int_equal(list.at[i].forward_ns, brute->times[i]);
        check_segments_fit(brute, &list.at[i], trial);
    }
    recompute_list_clear(&list);

    uint64_t least;
    bool complete;
    assert_good(recompute_least_bytes(intervals, brute->first, brute->end, brute->slots, true, &least, &complete, &work,
                                      &error),
                error);
    if (!complete || least != brute->least_peak)
        fail_msg("trial %d: the least slab has %d bytes, not %d", (int)trial, (int)least, (int)brute->least_peak);
}

static void one_trial(uint64_t *seed, uint64_t trial, bool dag)
{
    struct error error = { 0 };
    const uint32_t count = 1 + (uint32_t)random_below(seed, MOST_LAYERS);
    struct profile *profile = small_random_chain(seed, count, random_below(seed, 2) ? 1000 : 4);
    if (dag)
        small_random_edges(seed, profile);
    if (random_below(seed, 4) == 0)
        profile->layers[random_below(seed, count)].forward_ns = 0;
    small_random_recompute(*seed, profile);
    struct intervals *intervals = intervals_create(profile, &(struct storage){ .optimizer = OPTIMIZER_ADAMW }, &error);
    assert_good(intervals, error);
    const struct slots slots = random_slots(seed);
    intervals->splits = random_below(seed, 3) == 0 ? 2 + (uint32_t)random_below(seed, 3) : 1;
    struct brute brute = { .profile = profile, .slots = &slots, .splits = intervals->splits,
                           .least_peak = UINT64_MAX };
    brute.first = (uint32_t)random_below(seed, count);
    brute.end = brute.first + 1 + (uint32_t)random_below(seed, count - brute.first);
    brute.capacity = random_capacity(seed, &brute);
    try_all(&brute, brute.first);
    compare(&brute, intervals, trial);
    compare_bounds(&brute, intervals, trial);
    compare_front(&brute, intervals, RECOMPUTE_FRONT, trial);
    compare_front(&brute, intervals, RECOMPUTE_EVERY_FRONT, trial);
    intervals_free(intervals);
    profile_free(profile);
}

static void times_and_the_least_slab_are_those_of_brute_force_on_chains(void **state)
{
    (void)state;
    uint64_t seed = 3;
    for (uint64_t trial = 0; trial < test_trials(1500, 20000); trial++)
        one_trial(&seed, trial, false);
}

static void times_and_the_least_slab_are_those_of_brute_force_on_dags(void **state)
{
    (void)state;
    uint64_t seed = 4;
    for (uint64_t trial = 0; trial < test_trials(1500, 20000); trial++)
        one_trial(&seed, trial, true);
}

// Chains with a few edges that skip a layer, longer than the segments that prices look at at once.
static struct profile *long_profile(uint64_t *seed)
{
    const uint32_t count = 10 + (uint32_t)random_below(seed, 30);
    struct profile *profile = small_random_chain(seed, count, 4);
    struct edge edges[80];
    size_t edge_count = 0;
    for (uint32_t l = 0; l + 1 < count; l++) {
        edges[edge_count++] = (struct edge){ l, l + 1 };
        if (l + 2 < count && random_below(seed, 6) == 0)
            edges[edge_count++] = (struct edge){ l, l + 2 };
    }
    small_set_edges(profile, edges, edge_count);
    return profile;
}

// The twin of walks that are led by prices: fronts are not.
static void long_stages_recompute_as_little_as_their_fronts_say(void **state)
{
    (void)state;
    uint64_t seed = 6, work = 0, compared = 0;
    const struct storage storage = { .optimizer = OPTIMIZER_ADAMW };
    for (uint64_t trial = 0; trial < test_trials(60, 1500); trial++) {
        struct error error = { 0 };
        struct profile *profile = long_profile(&seed);
        const uint32_t count = (uint32_t)profile->layer_count;
        struct intervals *intervals = intervals_create(profile, &storage, &error);
        assert_good(intervals, error);
        const struct slots slots = random_slots(&seed);
        const struct stage_bytes all = stage_bytes_at(profile, 1, count, NULL, 0, &storage, 1);
        const uint64_t kept = stage_memory_of(&all, &slots).peak_bytes;
        const uint64_t capacity = kept - random_below(&seed, 1 + slots.kept * (all.kept + all.kept_through) * 3 / 4);
        struct recompute_list front, least;
        assert_good(recompute_search(intervals, 1, count, &slots, capacity, RECOMPUTE_FRONT, 20000, &work, &front,
                                     &error), error);
        assert_good(recompute_search(intervals, 1, count, &slots, capacity, RECOMPUTE_LEAST, 20000, &work, &least,
                                     &error), error);
        const uint64_t slot_capacity[1] = { capacity };
        struct recompute_bounds *bounds = recompute_bounds_create(intervals, &slots, slot_capacity, 1, &error);
        assert_good(bounds, error);
        const uint64_t found = front.count ? front.at[0].forward_ns : UINT64_MAX;
        if (least.least_ns > found || recompute_bound(bounds, 0, 1, count) > found
            || (least.complete && least.count && least.at[0].forward_ns > found)
            || (front.complete && least.complete && (least.count ? least.at[0].forward_ns : UINT64_MAX) != found))
            fail_msg("trial %d: what is recomputed at least is not what the front says", (int)trial);
        compared += front.complete && least.complete && found > 0;
        recompute_bounds_free(bounds);
        recompute_list_clear(&front);
        recompute_list_clear(&least);
        intervals_free(intervals);
        profile_free(profile);
    }
    assert_true(compared > test_trials(60, 1500) / 2);
}

// A long chain whose layers differ much in what they keep for the time they take.
static struct profile *uneven_profile(uint64_t *seed)
{
    struct profile *profile = small_random_chain(seed, 60, 1000);
    for (size_t l = 0; l < profile->layer_count; l++)
        profile->layers[l].saved_bytes = (uint64_t)256 << random_below(seed, 10);
    return profile;
}

static uint64_t least_time(struct intervals *intervals, const struct slots *slots, uint64_t capacity, size_t labels)
{
    struct recompute_list list;
    struct error error = { 0 };
    uint64_t work = 0;
    assert_good(recompute_search(intervals, 0, 60, slots, capacity, RECOMPUTE_LEAST, labels, &work, &list, &error), error);
    assert_int_equal(list.count, 1);
    const uint64_t time = list.at[0].forward_ns;
    recompute_list_clear(&list);
    return time;
}

// With little more than the least memory, where what promises most may not fit in the end.
static void a_few_labels_find_nearly_what_many_find(void **state)
{
    (void)state;
    uint64_t seed = 7, work = 0;
    const struct storage storage = { .optimizer = OPTIMIZER_ADAMW };
    const struct slots slots = { .input = { 1, 4, 4 }, .kept = 4, .kept_through = 4, .held = 1, .versions = 1 };
    for (uint64_t trial = 0; trial < test_trials(10, 100); trial++) {
        struct error error = { 0 };
        struct profile *profile = uneven_profile(&seed);
        struct intervals *intervals = intervals_create(profile, &storage, &error);
        uint64_t least;
        bool complete;
        assert_good(intervals, error);
        assert_good(recompute_least_bytes(intervals, 0, 60, &slots, true, &least, &complete, &work, &error), error);
        for (unsigned percent = 100; percent < 120; percent += 4) {
            const uint64_t few = least_time(intervals, &slots, least * percent / 100, 32);
            const uint64_t many = least_time(intervals, &slots, least * percent / 100, 20000);
            if (few < many || few > many + many * 15 / 100)
                fail_msg("trial %d, %u %%: a few labels find %llu ns, many %llu ns", (int)trial, percent,
                         (unsigned long long)few, (unsigned long long)many);
        }
        intervals_free(intervals);
        profile_free(profile);
    }
}

static void a_walk_that_was_cut_short_says_so_and_still_fits(void **state)
{
    (void)state;
    struct error error = { 0 };
    uint64_t seed = 5, work = 0;
    struct profile *profile = small_random_chain(&seed, 8, 1000);
    struct intervals *intervals = intervals_create(profile, &(struct storage){ .optimizer = OPTIMIZER_ADAMW }, &error);
    const struct slots slots = { .input = { 1, 4, 4 }, .kept = 4, .kept_through = 4, .versions = 1 };
    struct brute brute = { .profile = profile, .end = 8, .slots = &slots };
    brute.capacity = peak_of(&brute) * 8 / 10;
    struct recompute_list list;
    assert_good(recompute_search(intervals, 0, 8, &slots, brute.capacity, RECOMPUTE_EVERY, 2, &work, &list, &error),
                error);
    assert_false(list.complete);
    for (size_t i = 0; i < list.count; i++)
        check_segments_fit(&brute, &list.at[i], 0);
    recompute_list_clear(&list);
    intervals_free(intervals);
    profile_free(profile);
}

// Past its time a walk goes to its end with a single way at each layer: there is still one, if that fits, and never is it
// said that all were tried.
static void a_walk_that_is_late_is_short_and_says_so(void **state)
{
    (void)state;
    uint64_t seed = 7, ways = 0;
    const struct slots slots = { .input = { 1, 4, 4 }, .kept = 4, .kept_through = 4, .held = 1, .versions = 1 };
    for (uint64_t trial = 0; trial < test_trials(10, 100); trial++) {
        struct error error = { 0 };
        struct profile *profile = uneven_profile(&seed);
        const struct storage storage = { .optimizer = OPTIMIZER_ADAMW };
        struct intervals *intervals = intervals_create(profile, &storage, &error);
        uint64_t least, late, work[2] = { 0 }, none = 0;
        bool complete, late_complete;
        assert_good(intervals, error);
        assert_good(recompute_least_bytes(intervals, 0, 60, &slots, true, &least, &complete, &none, &error), error);
        intervals->until_ns = 1;
        assert_good(recompute_least_bytes(intervals, 0, 60, &slots, true, &late, &late_complete, &none, &error), error);
        assert_true(!late_complete && late >= least);
        struct recompute_list list[2];
        for (int is_late = 0; is_late < 2; is_late++) {
            intervals->until_ns = is_late;
            assert_good(recompute_search(intervals, 0, 60, &slots, least * 13 / 10, RECOMPUTE_LEAST, 20000,
                                         &work[is_late], &list[is_late], &error), error);
        }
        assert_false(list[1].complete);
        assert_true(list[0].count == 1 && list[1].count <= 1 && work[1] < work[0] / 10);
        if (list[1].count > 0)
            assert_true(list[1].at[0].forward_ns >= list[0].at[0].forward_ns);
        ways += list[1].count;
        recompute_list_clear(&list[0]);
        recompute_list_clear(&list[1]);
        intervals_free(intervals);
        profile_free(profile);
    }
    print_message("# %llu of them have a way\n", (unsigned long long)ways);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_and_the_least_slab_are_those_of_brute_force_on_chains),
        cmocka_unit_test(times_and_the_least_slab_are_those_of_brute_force_on_dags),
        cmocka_unit_test(long_stages_recompute_as_little_as_their_fronts_say),
        cmocka_unit_test(a_few_labels_find_nearly_what_many_find),
        cmocka_unit_test(a_walk_that_was_cut_short_says_so_and_still_fits),
        cmocka_unit_test(a_walk_that_is_late_is_short_and_says_so),
    };
    return cmocka_run_group_tests_name("recompute", tests, NULL, NULL);
}
