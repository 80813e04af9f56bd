#include "partitioner/sweep/plan_front.h"

#include <string.h>

#include "profiler/profile_reorder.h"
#include "tests/document.h"
#include "tests/partitioner/instance.h"
#include "tests/partitioner/long_chain.h"

// --- the twin: every plan there is ----------------------------------------------------------

enum { MOST_POINTS = 4000 };

struct worth {
    uint64_t peak, time;
};

// All plans of one number of ranks, and of their worths those that no other one beats.
struct everything {
    const struct search_request *request;
    const struct profile *profile;  // its, in the order that is tried
    bool placed[16];                // layers of that order, so far
    uint32_t order[16];
    uint32_t ranks;
    struct slots *slots;
    struct simulator *simulator;
    uint32_t cuts[INSTANCE_RANKS + 1];
    struct cost_row rows[INSTANCE_RANKS];
    uint64_t peaks[INSTANCE_RANKS];
    struct worth best[MOST_POINTS];
    size_t count;
};

static void note(struct everything *all, struct worth worth)
{
    size_t kept = 0;
    for (size_t i = 0; i < all->count; i++)
        if (all->best[i].peak <= worth.peak && all->best[i].time <= worth.time)
            return;
    for (size_t i = 0; i < all->count; i++)
        if (worth.peak > all->best[i].peak || worth.time > all->best[i].time)
            all->best[kept++] = all->best[i];
    assert_true(kept < MOST_POINTS);
    all->best[kept++] = worth;
    all->count = kept;
}

static void try_segments(struct everything *all, uint32_t s, uint32_t from, struct segment *segments, size_t count);

static void try_stage(struct everything *all, uint32_t s)
{
    struct segment segments[16];
    if (s < all->ranks) {
        try_segments(all, s, all->cuts[s], segments, 0);
        return;
    }
    struct worth worth = { 0, simulator_iteration_ns(all->simulator, all->rows) };
    for (uint32_t r = 0; r < all->ranks; r++)
        worth.peak = all->peaks[r] > worth.peak ? all->peaks[r] : worth.peak;
    note(all, worth);
}

static void try_segments(struct everything *all, uint32_t s, uint32_t from, struct segment *segments, size_t count)
{
    const struct search_request *request = all->request;
    const uint32_t first = all->cuts[s], end = all->cuts[s + 1];
    if (from == end) {
        const struct stage_bytes bytes =
            stage_bytes_at(all->profile, first, end, segments, count, &request->storage, 1);
        all->peaks[s] = stage_memory_of(&bytes, &all->slots[s]).peak_bytes;
        all->rows[s] = stage_cost_of(all->profile, first, end, segments, count, &request->storage,
                                     request->cluster->devices[s].speed_permille);
        if (all->peaks[s] <= request->cluster->devices[s].memory_bytes)
            try_stage(all, s + 1);
        return;
    }
    try_segments(all, s, from + 1, segments, count);
    for (uint32_t to = from + 1; to <= end; to++) {
        segments[count] = (struct segment){ from, to };
        try_segments(all, s, to, segments, count + 1);
    }
}

static void try_cuts(struct everything *all, uint32_t s)
{
    const uint32_t layers = (uint32_t)all->request->profile->layer_count;
    if (s == all->ranks) {
        try_stage(all, 0);
        return;
    }
    for (uint32_t end = all->cuts[s] + 1; end <= layers; end++) {
        const bool last = s + 1 == all->ranks;
        if ((end == layers) != last || (!last && !brute_can_cut(all->profile, end)))
            continue;
        all->cuts[s + 1] = end;
        try_cuts(all, s + 1);
    }
}

// Every order in which a layer comes after all it reads from.
static void try_orders(struct everything *all, uint32_t at)
{
    struct error error = { 0 };
    const struct profile *graph = all->request->profile;
    if (at == graph->layer_count) {
        struct profile *reordered = profile_reorder(graph, all->order, &error);
        assert_good(reordered, error);
        all->profile = reordered;
        try_cuts(all, 0);
        profile_free(reordered);
        return;
    }
    for (uint32_t l = 0; l < graph->layer_count; l++) {
        bool ready = !all->placed[l] && (!graph->is_chain || l == at);
        for (size_t e = 0; e < graph->edge_count; e++)
            ready &= graph->edges[e].to != l || all->placed[graph->edges[e].from];
        if (!ready)
            continue;
        all->placed[l] = true;
        all->order[at] = l;
        try_orders(all, at + 1);
        all->placed[l] = false;
    }
}

static void find_everything(struct everything *all, const struct search_request *request, uint32_t ranks)
{
    struct error error = { 0 };
    static const uint32_t devices[INSTANCE_RANKS] = { 0, 1, 2, 3, 4, 5 };
    *all = (struct everything){ .request = request, .ranks = ranks };
    struct search_request on_ranks = *request;
    on_ranks.ranks = ranks;
    assert_good(search_resolve(&on_ranks, &error), error);
    all->slots = search_slots(&on_ranks, &error);
    struct network *network = cluster_network(request->cluster, devices, ranks, &error);
    struct schedule *order = schedule_generate(request->schedule, ranks, 1, request->micro_batches, &error);
    struct schedule *lowered = order ? schedule_lower(order, &error) : NULL;
    assert_good(all->slots && network && lowered, error);
    all->simulator = simulator_create(lowered, network, &error);
    assert_good(all->simulator, error);
    try_orders(all, 0);
    simulator_free(all->simulator);
    schedule_free(lowered);
    schedule_free(order);
    network_free(network);
    free(all->slots);
}

// --- no point is missing, and none too many -----------------------------------------------

static bool has(const struct everything *all, const struct front_point *point)
{
    for (size_t i = 0; i < all->count; i++)
        if (all->best[i].peak == point->peak_bytes && all->best[i].time == point->plan->iteration_ns)
            return true;
    return false;
}

static size_t count_of(const struct plan_front *front, uint32_t ranks)
{
    size_t count = 0;
    for (size_t i = 0; i < front->count; i++)
        count += front->points[i].plan->ranks == ranks;
    return count;
}

// On the front of all: fewer devices are never as good in both.
static bool should_be_on_front(const struct plan_front *front, const struct front_point *point)
{
    for (size_t i = 0; i < front->count; i++) {
        const struct front_point *other = &front->points[i];
        if (other->plan->ranks < point->plan->ranks && other->peak_bytes <= point->peak_bytes
            && other->plan->iteration_ns <= point->plan->iteration_ns)
            return false;
    }
    return true;
}

static void check_front(const struct instance *instance, const struct plan_front *front, int trial)
{
    static struct everything all;
    for (uint32_t ranks = 1; ranks <= instance->request.ranks; ranks++) {
        find_everything(&all, &instance->request, ranks);
        if (count_of(front, ranks) != all.count)
            fail_msg("trial %d (%s, %d layers): %d points on %d ranks, the twin has %d", trial,
                     instance->request.schedule, (int)instance->profile->layer_count, (int)count_of(front, ranks),
                     (int)ranks, (int)all.count);
        for (size_t i = 0; i < front->count; i++) {
            const struct front_point *point = &front->points[i];
            if (point->plan->ranks != ranks)
                continue;
            if (!point->plan->certificate.proved || !has(&all, point)
                || point->is_on_front != should_be_on_front(front, point))
                fail_msg("trial %d (%s, %d layers): on %d ranks %d ns in %d bytes, proved %d, front %d", trial,
                         instance->request.schedule, (int)instance->profile->layer_count, (int)ranks,
                         (int)point->plan->iteration_ns, (int)point->peak_bytes, point->plan->certificate.proved,
                         point->is_on_front);
        }
    }
}

static struct instance small_instance(uint64_t *seed, bool roomy)
{
    const uint32_t ranks = 1 + (uint32_t)random_below(seed, 3);
    struct instance instance = instance_create(seed, ranks + (uint32_t)random_below(seed, 4), ranks, true);
    instance.request.schedule = random_below(seed, 2) ? "1f1b" : "gpipe";
    for (uint32_t r = 0; roomy && r < ranks; r++)
        instance.cluster->devices[r].memory_bytes = 1 << 20;
    return instance;
}

static void no_point_is_missing_or_beaten(void **state)
{
    (void)state;
    uint64_t seed = 41, points = 0, fronts = 0;
    const uint64_t trials = test_trials(150, 2000);
    for (uint64_t trial = 0; trial < trials; trial++) {
        struct instance instance = small_instance(&seed, random_below(&seed, 4) > 0);
        static const uint32_t ranks[] = { 1, 2, 3 };
        struct error error = { 0 };
        const struct front_request request = { .search = &instance.request, .ranks = ranks,
                                               .rank_count = instance.request.ranks };
        struct plan_front *front = front_find(&request, &error);
        if (front) {
            check_front(&instance, front, (int)trial);
            points += front->count;
            fronts++;
        } else if (error.kind != ERROR_ANSWER) {
            fail_msg("trial %d: %s", (int)trial, error.text);
        }
        front_free(front);
        instance_clear(&instance);
    }
    print_message("# %d fronts, %d points\n", (int)fronts, (int)points);
    assert_true(fronts > trials / 2 && points > 3 * fronts);
}

// With a resolution points may be missing. A time that is there is right, and takes at most so
// much more memory than it needs; the ends are the same, and on a graph an eighth of the resolution apart at most.
static void a_coarser_front_is_a_part_of_it(void **state)
{
    (void)state;
    uint64_t seed = 42;
    for (uint64_t trial = 0; trial < test_trials(60, 600); trial++) {
        struct instance instance = small_instance(&seed, true);
        const uint32_t ranks[] = { instance.request.ranks };
        struct error error = { 0 };
        struct front_request request = { .search = &instance.request, .ranks = ranks, .rank_count = 1 };
        struct plan_front *all = front_find(&request, &error);
        assert_good(all, error);
        request.resolution_ppm = 100000;
        struct plan_front *some = front_find(&request, &error);
        assert_good(some, error);
        assert_true(some->count <= all->count);
        for (size_t i = 0, at = 0; i < some->count; i++) {
            while (at < all->count && all->points[at].plan->iteration_ns != some->points[i].plan->iteration_ns)
                at++;
            assert_true(at < all->count);
            assert_true(some->points[i].peak_bytes >= all->points[at].peak_bytes);
            assert_true(some->points[i].peak_bytes <= some->points[i].limit_bytes);
            assert_true(some->points[i].peak_bytes * 9 / 10 <= all->points[at].peak_bytes);
        }
        assert_int_equal(some->points[0].plan->iteration_ns, all->points[0].plan->iteration_ns);
        const uint64_t least = all->points[all->count - 1].peak_bytes;
        if (profile_has_one_order(instance.request.profile))
            assert_int_equal(some->points[some->count - 1].peak_bytes, least);
        else
            assert_in_range(some->points[some->count - 1].peak_bytes, least, least + least / 72);
        front_free(some);
        front_free(all);
        instance_clear(&instance);
    }
}

// --- pictures -------------------------------------------------------------------------------

static size_t count(const char *text, const char *what)
{
    size_t found = 0;
    for (const char *at = text; (at = strstr(at, what)); at++)
        found++;
    return found;
}

static void a_picture_has_a_dot_per_plan_and_a_stair_per_number_of_devices(void **state)
{
    (void)state;
    uint64_t seed = 43;
    struct instance instance = instance_create(&seed, 7, 3, true);
    instance.request.schedule = "1f1b";
    free(instance.profile->model);
    instance.profile->model = strdup("<&>");
    for (uint32_t r = 0; r < 3; r++)
        instance.cluster->devices[r].memory_bytes = 1 << 20;
    struct error error = { 0 };
    const struct front_request request = { .search = &instance.request };
    struct plan_front *front = front_find(&request, &error);
    assert_good(front, error);
    struct text svg = { 0 }, table = { 0 }, document = { 0 };
    front_draw(front, &svg);
    front_print(front, &table);
    front_write(front, &document);
    assert_shown_as_written("docs/formats/front.md", document.data);
    assert_int_equal(count(svg.data, "<circle"), front->count);
    assert_int_equal(count(svg.data, "<path class=\"stair\""), 3);  // 1, 2 and 3
    assert_non_null(strstr(svg.data, "&lt;&amp;&gt; by 1f1b"));
    assert_null(strstr(svg.data, "nan"));
    assert_null(strstr(svg.data, "inf"));
    assert_int_equal(count(table.data, "proved\n") + count(table.data, "proved  "), front->count);
    text_clear(&svg);
    text_clear(&table);
    text_clear(&document);
    front_free(front);
    instance_clear(&instance);
}

// --- what cannot be -------------------------------------------------------------------------

static void nothing_that_fits_is_the_searchs_answer(void **state)
{
    (void)state;
    uint64_t seed = 44;
    struct instance instance = small_instance(&seed, false);
    for (uint32_t r = 0; r < instance.request.ranks; r++)
        instance.cluster->devices[r].memory_bytes = 1;
    struct error error = { 0 };
    const struct front_request request = { .search = &instance.request };
    assert_null(front_find(&request, &error));
    assert_int_equal(error.kind, ERROR_ANSWER);
    assert_non_null(strstr(error.text, "no plan fits"));
    error = (struct error){ 0 };
    instance.request.schedule = "zigzag";
    assert_null(front_find(&request, &error));
    assert_int_equal(error.kind, ERROR_INPUT);
    instance_clear(&instance);
}

// --- time -----------------------------------------------------------------------------------

// On one device there is a plan for nearly every byte, far more than the deadline has time for; one for each number of
// devices is found at once.
static void each_number_of_devices_has_a_share_of_the_deadline(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct profile *profile = long_chain(1, 150, 0);
    struct cluster *cluster = cluster_uniform(4, (uint64_t)1 << 40, 5000, 12000000000, &error);
    assert_good(cluster, error);
    struct search_request search = { .profile = profile, .cluster = cluster, .schedule = "1f1b", .ranks = 4,
                                     .micro_batches = 8, .limits.deadline_ns = 2000000000 };
    const struct front_request request = { .search = &search };
    struct plan_front *front = front_find(&request, &error);
    assert_good(front, error);
    bool has[5] = { false };
    for (size_t i = 0; i < front->count; i++)
        has[front->points[i].plan->ranks] = true;
    assert_true(has[1] && has[2] && has[4]);
    assert_non_null(strstr(front->stopped, "the deadline of "));
    front_free(front);
    cluster_free(cluster);
    profile_free(profile);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_point_is_missing_or_beaten),
        cmocka_unit_test(a_coarser_front_is_a_part_of_it),
        cmocka_unit_test(a_picture_has_a_dot_per_plan_and_a_stair_per_number_of_devices),
        cmocka_unit_test(nothing_that_fits_is_the_searchs_answer),
        cmocka_unit_test(each_number_of_devices_has_a_share_of_the_deadline),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
