// Whatever says how good a plan is, or that there is none, against every plan there is: of random graphs, each command
// that states a certificate, from the search itself to what is suggested where nothing fits.
#include "partitioner/evaluate/handmade.h"
#include "partitioner/evaluate/reprice.h"
#include "partitioner/explain/explain.h"
#include "partitioner/explain/nearest.h"
#include "partitioner/plan_search.h"
#include "partitioner/stability/plan_keep.h"
#include "partitioner/sweep/plan_front.h"
#include "partitioner/sweep/sweep.h"
#include "tests/partitioner/graph_instance.h"
#include "tests/partitioner/resolve.h"

// --- what is claimed ------------------------------------------------------------------------------

enum { CLAIMS_PROVED, CLAIMS_NONE_FITS, CLAIMS_OPEN, CLAIMS };

struct claim {
    const char *who;
    bool has_plan;
    uint64_t value_ns, bound_ns;
    bool proved;
    bool none_fits;  // that there is no plan
};

static uint64_t counts[CLAIMS];

static void judge(const struct claim *claim, const struct search_request *request, uint64_t trial)
{
    uint64_t plans = 0;
    const uint64_t best = brute_orders(request, &plans);
    counts[claim->none_fits ? CLAIMS_NONE_FITS : claim->proved ? CLAIMS_PROVED : CLAIMS_OPEN]++;
    if (claim->has_plan ? claim->value_ns < best || claim->bound_ns > best || (claim->proved && claim->value_ns != best)
                        : claim->none_fits && best != UINT64_MAX)
        fail_msg("trial %d: %s: %s, %u ranks, %u chunks, %u micro-batches: value %lld, bound %lld, proved %d, none fits"
                 " %d, but the best is %lld", (int)trial, claim->who, request->schedule, request->ranks, request->chunks,
                 request->micro_batches, (long long)claim->value_ns, (long long)claim->bound_ns, claim->proved,
                 claim->none_fits, (long long)best);
}

static struct claim claim_of_plan(const char *who, const struct plan *plan, const struct search_shortage *shortage)
{
    if (!plan)
        return (struct claim){ who, false, 0, 0, false, shortage->lack == LACK_PROVED };
    const struct certificate *certificate = &plan->certificate;
    assert_null(certificate_denied(certificate, (char[160]){ 0 }));
    return (struct claim){ who, true, certificate->value_ns, certificate->lower_bound_ns, certificate->proved, false };
}

static struct claim claim_of_row(const char *who, const struct sweep_row *row)
{
    const struct sweep_found *found = &row->found;
    return (struct claim){ who, found->outcome == SWEEP_PLANNED, found->iteration_ns, found->lower_bound_ns,
                           found->proved, found->outcome == SWEEP_DOES_NOT_FIT };
}

// --- who claims it --------------------------------------------------------------------------------

// With budgets that are enough, and that are not.
static void judge_search(struct search_request request, uint64_t budget, bool own_order, uint64_t trial)
{
    struct error error = { 0 };
    struct search_shortage shortage = { 0 };
    uint64_t least_ns = 0;
    request.limits.budget = budget;
    request.wanted.own_order = own_order;
    request.found.shortage = &shortage;
    request.found.least_ns = &least_ns;
    struct plan *plan = plan_search(&request, &error);
    assert_true(plan || error.kind == ERROR_ANSWER);
    struct claim claim = claim_of_plan(own_order ? "partition, own order" : "partition", plan, &shortage);
    judge(&claim, &request, trial);
    claim.who = "least time";
    claim.bound_ns = least_ns;
    claim.none_fits |= least_ns == UINT64_MAX;
    judge(&claim, &request, trial);
    plan_free(plan);
}

static void judge_sweep(const struct search_request *request, uint64_t budget, uint64_t trial)
{
    static const char *const schedules[] = { "gpipe", "1f1b", "zb-h1", "pipedream" };
    struct error error = { 0 };
    const uint32_t micro_batches[] = { request->micro_batches, request->micro_batches + 1 };
    const struct sweep_request asked = { .profile = request->profile, .cluster = request->cluster,
                                         .storage = request->storage, .schedules = schedules, .schedule_count = 4,
                                         .micro_batches = { micro_batches, 2 }, .budget = budget, .threads = 1 };
    struct sweep *sweep = sweep_run(&asked, &error);
    assert_good(sweep, error);
    for (size_t i = 0; i < sweep->count; i++) {
        struct search_request of_row = sweep_search_of(&asked, &sweep->rows[i]);
        const struct claim claim = claim_of_row("sweep", &sweep->rows[i]);
        judge(&claim, &of_row, trial);
    }
    sweep_free(sweep);
}

static void judge_front(const struct search_request *request, uint64_t trial)
{
    struct error error = { 0 };
    const uint32_t ranks[] = { 1, request->ranks };
    const struct front_request asked = { .search = request, .ranks = ranks + (request->ranks == 1),
                                         .rank_count = request->ranks == 1 ? 1 : 2, .resolution_ppm = 100000 };
    struct plan_front *front = front_find(&asked, &error);
    assert_true(front || error.kind == ERROR_ANSWER);
    for (size_t i = 0; front && i < front->count; i++) {
        const struct front_point *point = &front->points[i];
        struct cluster *cluster = cluster_copy(request->cluster, &error);
        assert_good(cluster, error);
        for (size_t d = 0; d < cluster->device_count; d++)
            cluster->devices[d].memory_bytes = min_u64(cluster->devices[d].memory_bytes, point->limit_bytes);
        struct search_request of_point = *request;
        of_point.cluster = cluster;
        of_point.ranks = point->plan->ranks;
        const struct claim claim = claim_of_plan("front", point->plan, NULL);
        judge(&claim, &of_point, trial);
        cluster_free(cluster);
    }
    front_free(front);
}

// What has a twin: a stage on each rank, or two one way, of devices that are there.
static bool can_be_judged(const struct search_request *request)
{
    bool is_known = false;
    for (size_t k = 0; k < sizeof graph_kinds / sizeof graph_kinds[0]; k++)
        is_known |= strcmp(request->schedule, graph_kinds[k].schedule) == 0 && request->chunks <= graph_kinds[k].chunks;
    return is_known && request->ranks <= request->cluster->device_count && request->ranks * request->chunks <= 4;
}

// The request of a change, as its words say; its cluster is made anew.
static bool change_again(const struct what_if *change, struct search_request *request, struct cluster *cluster)
{
    for (size_t i = 0; i < cluster->device_count; i++) {
        uint64_t *memory = &cluster->devices[i].memory_bytes;
        if (change->kind == WHAT_IF_NO_MEMORY_LIMIT)
            *memory = (uint64_t)1 << 50;
        if (change->kind == WHAT_IF_MEMORY)
            *memory = *memory * 11 / 10;
        if (change->kind == WHAT_IF_DEVICE_MEMORY && i == change->at)
            *memory += change->more_bytes;
    }
    if (change->kind == WHAT_IF_RATE)
        cluster->levels[change->at].bytes_per_second *= 2;
    if (change->kind == WHAT_IF_LATENCY)
        cluster->levels[change->at].latency_ns /= 2;
    request->cluster = cluster;
    request->schedule = change->row.schedule;
    request->given = NULL;
    resolve(request);
    request->ranks = change->row.ranks;
    request->chunks = change->row.chunks;
    request->micro_batches = change->row.micro_batches;
    return change->kind != WHAT_IF_NO_LINK_COST && change->kind != WHAT_IF_STORAGE && can_be_judged(request);
}

static void judge_change(const char *who, const struct what_if *change, const struct search_request *request,
                         uint64_t trial)
{
    struct error error = { 0 };
    struct search_request changed = *request;
    struct cluster *cluster = cluster_copy(request->cluster, &error);
    assert_good(cluster, error);
    const struct claim claim = claim_of_row(who, &change->row);
    if (change_again(change, &changed, cluster))
        judge(&claim, &changed, trial);
    cluster_free(cluster);
}

// Of a plan with more to its name than was proved, too: what its file says is not repeated.
static void judge_explain(const struct search_request *request, struct plan *plan, uint64_t budget, uint64_t trial)
{
    struct error error = { 0 };
    certificate_bound(&plan->certificate, plan->iteration_ns, STOP_NONE, "");
    const struct explain_request asked = { .plan = plan, .profile = request->profile, .budget = budget };
    struct explanation *explanation = explain_plan(&asked, &error);
    assert_good(explanation, error);
    const struct claim unchanged = claim_of_row("explain", &explanation->unchanged);
    judge(&unchanged, request, trial);
    for (size_t i = 0; i < explanation->change_count; i++)
        judge_change("explain's change", &explanation->changes[i], request, trial);
    explanation_free(explanation);
}

// By hand, by a search that had little time, and a plan that one has.
static void judge_others_plans(const struct search_request *request, uint64_t budget, uint64_t trial)
{
    struct error error = { 0 };
    struct search_request brief = *request;
    brief.limits.budget = budget;
    struct plan *found = plan_search(&brief, &error);
    if (!found)
        return;
    const uint32_t first = (uint32_t)request->profile->layer_count - request->ranks + 1;
    struct text counts_of = { 0 };
    text_add(&counts_of, "[%u", first);
    for (uint32_t s = 1; s < request->ranks; s++)
        text_add(&counts_of, ",1");
    text_add(&counts_of, "]");
    struct plan *by_hand = request->chunks == 1 ? handmade_count(counts_of.data, NULL, request, &error) : NULL;
    struct plan_excess excess = { 0 };
    if (by_hand && plan_find_excess(by_hand, by_hand->cluster, &excess, &error)) {
        plan_certify_by(by_hand, &found->certificate, excess.lacks_bytes == 0);
        const struct claim claim = claim_of_plan("price", by_hand, NULL);
        if (excess.lacks_bytes == 0)
            judge(&claim, request, trial);
    }
    struct keeping keeping;
    error = (struct error){ 0 };
    if (by_hand) {
        assert_good(plan_keep(by_hand, "old", request, 500000, &found, &error, &keeping, &error), error);
        const struct claim claim = claim_of_plan("keep", found, NULL);
        judge(&claim, request, trial);
    }
    judge_explain(request, found, budget, trial);
    text_clear(&counts_of);
    plan_free(by_hand);
    plan_free(found);
}

// What is suggested fits, the least is, and what is not enough is not.
static void judge_nearest(const struct search_request *request, uint64_t trial)
{
    struct error error = { 0 };
    struct nearest nearest;
    const struct nearest_request asked = { .search = request };
    assert_good(nearest_find(&asked, &nearest, &error), error);
    for (size_t i = 0; i < nearest.count; i++) {
        struct what_if change = nearest.at[i];
        struct search_request changed = *request;
        struct cluster *cluster = cluster_copy(request->cluster, &error);
        assert_good(cluster, error);
        for (size_t d = 0; change.kind == WHAT_IF_MEMORY && d < cluster->device_count; d++)
            cluster->devices[d].memory_bytes += change.more_bytes;
        change.kind = change.kind == WHAT_IF_MEMORY ? WHAT_IF_NOTHING : change.kind;
        const struct claim claim = claim_of_row("nearest", &change.row);
        const bool is_judged = change_again(&change, &changed, cluster);
        if (is_judged)
            judge(&claim, &changed, trial);
        const struct claim none = { .who = "nearest, a step less", .none_fits = true };
        for (size_t d = 0; d < cluster->device_count; d++)
            cluster->devices[d].memory_bytes -= nearest.at[i].kind == WHAT_IF_MEMORY ? 256 : 0;
        changed.micro_batches += nearest.at[i].kind == WHAT_IF_MICRO_BATCHES;
        if (is_judged && change.is_least && change.kind != WHAT_IF_RANKS)
            judge(&none, &changed, trial);
        cluster_free(cluster);
    }
    struct search_request other = *request;
    const struct claim none = { .who = "nearest, not enough", .none_fits = true };
    for (size_t k = 0; nearest.failed[WHAT_IF_SCHEDULE] && !nearest.open[WHAT_IF_SCHEDULE] && k < 4; k++) {
        other.schedule = graph_kinds[k].schedule;
        other.chunks = graph_kinds[k].chunks;
        resolve(&other);
        if (strcmp(request->schedule, "pipedream") != 0 && other.chunks == 1)
            judge(&none, &other, trial);
    }
    other = *request;
    for (uint32_t m = 1; nearest.failed[WHAT_IF_MICRO_BATCHES] && !nearest.open[WHAT_IF_MICRO_BATCHES]
         && m < request->micro_batches; m++) {
        other.micro_batches = m;
        judge(&none, &other, trial);
    }
    nearest_clear(&nearest);
}

// --- all of them ----------------------------------------------------------------------------------

static void nothing_is_claimed_that_is_not_so(void **state)
{
    (void)state;
    uint64_t seed = 131, refused = 0;
    for (uint64_t trial = 0; trial < test_all_trials(40, 1500); trial++) {
        struct graph_instance instance;
        do {
            instance = graph_instance_create(&seed);
            if (instance.profile->layer_count <= 6 && instance.request.ranks <= 3)
                break;
            graph_instance_clear(&instance);
        } while (true);
        const struct search_request *request = &instance.request;
        const uint64_t budget = random_below(&seed, 2) ? 1 + random_below(&seed, 3000) : 0;
        const uint64_t before = counts[CLAIMS_NONE_FITS];
        judge_search(*request, budget, false, trial);
        refused += counts[CLAIMS_NONE_FITS] > before;
        judge_search(*request, budget, true, trial);
        if (request->chunks == 1)
            judge_sweep(request, budget, trial);
        judge_front(request, trial);
        judge_others_plans(request, budget, trial);
        struct plan *plan = plan_search(request, &(struct error){ 0 });
        if (!plan)
            judge_nearest(request, trial);
        plan_free(plan);
        graph_instance_clear(&instance);
    }
    print_message("# %d claims proved, %d that nothing fits, %d open; %d requests fit nowhere\n",
                  (int)counts[CLAIMS_PROVED], (int)counts[CLAIMS_NONE_FITS], (int)counts[CLAIMS_OPEN], (int)refused);
    assert_true(counts[CLAIMS_PROVED] > 100 && counts[CLAIMS_NONE_FITS] > 10 && counts[CLAIMS_OPEN] > 50);
}

// --- as it was met --------------------------------------------------------------------------------

// Two branches of one layer, and three of which each takes more than both: the profile's own order cannot be cut evenly.
static struct profile *two_branches(void)
{
    const struct small_layer rows[] = {
        { 1000, 2000, 1, 1, 1, INPUT_KEPT_BOTH, 0, 0, 0 },       { 1000000, 2000000, 1, 1, 1, INPUT_KEPT_BOTH, 0, 0, 0 },
        { 2000000, 4000000, 1, 1, 1, INPUT_KEPT_BOTH, 0, 0, 0 }, { 1000000, 2000000, 1, 1, 1, INPUT_KEPT_BOTH, 0, 0, 0 },
        { 1000, 2000, 1, 1, 1, INPUT_KEPT_BOTH, 0, 0, 0 },
    };
    static const struct edge edges[] = { { 0, 1 }, { 0, 2 }, { 0, 3 }, { 1, 4 }, { 2, 4 }, { 3, 4 } };
    struct profile *profile = small_chain(rows, 5);
    small_set_edges(profile, edges, 6);
    return profile;
}

static void a_sweep_finds_what_a_search_over_all_orders_does(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct profile *profile = two_branches();
    struct cluster *cluster = cluster_uniform(2, 1 << 30, 0, 100000000000, &error);
    const char *const schedules[] = { "1f1b" };
    const uint32_t eight[] = { 8 };
    const struct sweep_request request = { .profile = profile, .cluster = cluster, .schedules = schedules,
                                           .schedule_count = 1, .micro_batches = { eight, 1 } };
    struct sweep *sweep = sweep_run(&request, &error);
    assert_good(sweep, error);
    struct search_request of_row = sweep_search_of(&request, &sweep->rows[0]);
    const struct claim row = claim_of_row("sweep", &sweep->rows[0]);
    judge(&row, &of_row, 0);
    assert_true(row.proved);
    // In the profile's own order alone it takes a third more, and nothing is proved.
    struct plan *own = plan_search(&of_row, &error);
    assert_good(own, error);
    assert_true(own->iteration_ns > row.value_ns / 4 * 5);
    assert_false(own->certificate.proved);
    assert_string_equal(own->certificate.stopped, "not all orders of the layers were tried");
    plan_free(own);
    sweep_free(sweep);
    cluster_free(cluster);
    profile_free(profile);
}

// Pins keep to the profile's own order.
static void pinned_layers_of_a_graph_prove_nothing(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct profile *profile = two_branches();
    struct cluster *cluster = cluster_uniform(2, 1 << 30, 0, 100000000000, &error);
    const struct search_pin pin = { 1, 0 };
    const struct search_request request = { .profile = profile, .cluster = cluster, .schedule = "1f1b", .ranks = 2,
                                            .micro_batches = 8, .pinned = { &pin, 1 } };
    struct plan *plan = plan_search(&request, &error);
    assert_good(plan, error);
    assert_false(plan->certificate.proved);
    const struct claim claim = claim_of_plan("pins", plan, NULL);
    struct search_request free = request;
    free.pinned.count = 0;
    free.chunks = 1;
    resolve(&free);
    judge(&claim, &free, 0);
    plan_free(plan);
    cluster_free(cluster);
    profile_free(profile);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sweep_finds_what_a_search_over_all_orders_does),
        cmocka_unit_test(pinned_layers_of_a_graph_prove_nothing),
        cmocka_unit_test(nothing_is_claimed_that_is_not_so),
    };
    return cmocka_run_group_tests_name("certificates", tests, NULL, NULL);
}
