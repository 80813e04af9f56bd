#include "partitioner/layouts/layout.h"

#include "common/number.h"
#include "partitioner/evaluate/evaluate.h"
#include "schedules/generators/generate.h"
#include "tests/partitioner/arranged_twin.h"
#include "tests/partitioner/own_order.h"
#include "tests/partitioner/resolve.h"

enum { MOST_DEVICES = TWIN_DEVICES };

// --- the twin: every number of ranks, every sequence of devices, every plan of each ------

struct every {
    const struct search_request *asked;
    uint32_t replicas[TWIN_STAGES], stages;
    const char *variants[TWIN_STAGES];
    uint32_t devices[MOST_DEVICES], device_count, ranks;
    uint64_t best, plans, layouts;
    struct layout_bounds *bounds;
};

// No plan of a layout beats the bound of that layout.
static void hold_bound_against(const struct every *every, uint64_t best)
{
    struct error error = { 0 };
    struct layout layout = { .ranks = every->ranks, .stages = every->stages, .device_count = every->device_count,
                             .replicas = (uint32_t *)every->replicas, .variants = (const char **)every->variants,
                             .devices = (uint32_t *)every->devices };
    if (every->stages == 0)
        return;
    assert_good(layout_bound(every->bounds, &layout, &error), error);
    if (layout.bound_ns > best)
        fail_msg("%s: the bound of a layout of %u stages on %u ranks is %d, but the best of its plans %d",
                 every->asked->schedule, layout.stages, layout.ranks, (int)layout.bound_ns, (int)best);
}

static void try_plans(struct every *every)
{
    struct error ignored = { 0 };
    struct search_request request = *every->asked;
    request.free = (struct search_freedom){ 0 };
    request.ranks = every->ranks;
    request.layout.stages = every->stages;
    request.layout.replicas = every->stages > 0 ? every->replicas : NULL;
    request.layout.variants = every->variants;
    request.layout.devices = every->devices;
    struct schedule *order = search_order(&request, request.micro_batches, &ignored);
    if (order && order->stages <= request.profile->layer_count && order->stages <= TWIN_STAGES) {
        const uint64_t best = twin_solve(&request, order, &every->plans);
        every->best = best < every->best ? best : every->best;
        hold_bound_against(every, best);
        every->layouts++;
    }
    schedule_free(order);
}

static void try_devices(struct every *every, uint32_t seat)
{
    const struct search_request *asked = every->asked;
    if (seat == every->device_count) {
        try_plans(every);
        return;
    }
    for (uint32_t d = 0; d < asked->cluster->device_count; d++) {
        bool used = false;
        for (uint32_t i = 0; i < seat; i++)
            used |= every->devices[i] == d;
        if (used || (!asked->free.devices && d != seat))
            continue;
        every->devices[seat] = d;
        try_devices(every, seat + 1);
    }
}

// Where devices have shares of what is handed on, nobody brings them together.
static bool can_follow(const struct every *every, uint32_t s, const char *name)
{
    const struct profile_layer *first = &every->asked->profile->layers[0];
    const bool shares = first->variant_count > 0 && first->variants[0].shares_output;
    if (s == 0 || !shares)
        return true;
    const char *shared = first->variants[0].layer.name, *before = every->variants[s - 1];
    return (before && strcmp(before, shared) == 0) == (name && strcmp(name, shared) == 0);
}

static void try_stages(struct every *every)
{
    const struct search_request *asked = every->asked;
    const bool enough = asked->free.fewer ? every->device_count > 0 : every->device_count == asked->ranks;
    if (enough)
        try_devices(every, 0);
    if (every->stages == TWIN_STAGES || every->stages == asked->profile->layer_count)
        return;
    const uint32_t devices = every->device_count, ranks = every->ranks, s = every->stages++;
    const char *names[8] = { NULL };
    const size_t count = 1 + (asked->free.variants ? variant_names(asked->profile, names + 1, 7) : 0);
    for (size_t v = 0; v < count; v++) {
        for (uint32_t r = 1; can_follow(every, s, names[v]) && r <= (asked->free.replicas ? asked->ranks : 1); r++) {
            every->variants[s] = names[v];
            every->replicas[s] = r;
            every->ranks = ranks + r;
            every->device_count = devices + r * variant_devices(asked->profile, names[v]);
            if (every->device_count <= asked->ranks)
                try_stages(every);
        }
    }
    every->stages = s;
    every->ranks = ranks;
    every->device_count = devices;
}

static void try_ranks(struct every *every)
{
    const struct search_request *asked = every->asked;
    const char *names[8] = { NULL };
    const size_t count = 1 + (asked->free.variants ? variant_names(asked->profile, names + 1, 7) : 0);
    for (size_t v = 0; v < count; v++) {
        for (uint32_t s = 0; s < TWIN_STAGES; s++)
            every->variants[s] = names[v];
        for (uint32_t ranks = 1; ranks <= asked->ranks; ranks++) {
            every->ranks = ranks;
            every->device_count = ranks * variant_devices(asked->profile, names[v]);
            if (every->device_count == asked->ranks || (asked->free.fewer && every->device_count < asked->ranks))
                try_devices(every, 0);
        }
    }
}

static uint64_t solve(const struct search_request *asked, uint64_t *plans, uint64_t *layouts)
{
    struct error error = { 0 };
    struct every every = { .asked = asked, .best = UINT64_MAX };
    struct layout_names names;
    assert_good(layout_names_read(asked, &names, &error), error);
    every.bounds = layout_bounds_create(asked, &names, &error);
    assert_good(every.bounds, error);
    if (search_generator(asked)->takes_replicas)
        try_stages(&every);
    else
        try_ranks(&every);
    *plans += every.plans;
    *layouts += every.layouts;
    layout_bounds_free(every.bounds);
    return every.best;
}

// --- random requests --------------------------------------------------------------------

static const char *const schedules[] = { "1f1b", "gpipe", "pipedream", "1f1b", "zb-h1", "interleaved", "forward-only" };

static struct cluster *random_cluster(uint64_t *seed, uint32_t devices)
{
    struct error error = { 0 };
    const uint64_t rate = random_below(seed, 3) == 0 ? 1000000000 : 100000000000;
    struct cluster *cluster = cluster_uniform(devices, 1, random_below(seed, 200), rate, &error);
    if (devices == 4 && random_below(seed, 3) == 0) {
        cluster_free(cluster);
        const char *synopsis = "2 nodes x 2 devices, 1GiB, 50GB/s 100ns, 2GB/s 400ns";
        cluster = cluster_load(synopsis, &error);
    }
    assert_good(cluster, error);
    const bool unlike = random_below(seed, 2);
    for (uint32_t d = 0; unlike && d < devices; d++)
        cluster->devices[d].speed_permille = 500 + 500 * random_below(seed, 3);
    return cluster;
}

// Room for some plans and not for others.
static void set_memory(uint64_t *seed, const struct search_request *request, struct cluster *cluster)
{
    const uint32_t layers = (uint32_t)request->profile->layer_count;
    const struct stage_bytes whole = stage_bytes_at(request->profile, 0, layers, NULL, 0, &request->storage, 1);
    const uint64_t fixed = whole.weights + whole.gradients + whole.optimizer;
    const uint64_t kept = (whole.kept + whole.kept_through) * (1 + random_below(seed, 3)) + 2 * whole.transient;
    const bool unlike = random_below(seed, 3) == 0, roomy = random_below(seed, 2);
    for (size_t d = 0; d < cluster->device_count; d++)
        cluster->devices[d].memory_bytes =
            (fixed + kept) / (1 + (unlike ? random_below(seed, 2 + d) : 1)) * (roomy ? 8 : 1) + 4096;
}

static void draw_freedom(uint64_t *seed, struct search_request *request)
{
    request->free = (struct search_freedom){ .devices = random_below(seed, 2), .fewer = random_below(seed, 3) == 0 };
    request->free.replicas =
        search_generator(request)->takes_replicas && random_below(seed, 4) > 0;
    if (!request->free.devices && !request->free.replicas)
        request->free.fewer = true;
}

// Some layers can run on two devices, or on one with less kept; or all on two, which then have shares of what is handed on.
static void add_variants(uint64_t *seed, bool shares, struct profile *profile)
{
    struct error error = { 0 };
    static const char *const names[] = { "split", "lean" };
    for (size_t l = 0; l < profile->layer_count; l++) {
        struct profile_layer *layer = &profile->layers[l];
        layer->variants = calloc(2, sizeof layer->variants[0]);
        for (uint32_t v = 0; v < 2; v++) {
            if (random_below(seed, 4) == 0 && l > 0 && !(shares && v == 0))
                continue;
            struct profile_variant *variant = &layer->variants[layer->variant_count++];
            variant->devices = v == 0 ? 2 : 1;
            variant->communication_ns = random_below(seed, 60);
            variant->shares_output = shares && v == 0;
            variant->update_ns = v == 0 && l % 3 == 0 ? 5 + l : 0;
            variant->layer = (struct profile_layer){
                .name = strdup(names[v]), .forward_ns = layer->forward_ns / 2 + v * layer->forward_ns,
                .has_recompute = l % 2, .recompute_ns = layer->forward_ns / 3 + v * layer->forward_ns,
                .backward_input_ns = layer->backward_input_ns, .backward_weight_ns = layer->backward_weight_ns / 2,
                .backward_ns = layer->backward_input_ns + layer->backward_weight_ns / 2,
                .parameter_bytes = layer->parameter_bytes / 2,
                .output_bytes = shares && v == 0 ? layer->output_bytes / 2 : 17,
                .saved_bytes = layer->saved_bytes / 3, .workspace_bytes = 300, .input_kept = INPUT_KEPT_WEIGHT,
            };
        }
    }
    assert_good(profile_rehash(profile, &error), error);
}

// What no layout can beat, known before any is looked at.
static uint64_t bound_of_all(const struct search_request *request)
{
    struct error error = { 0 };
    struct layout_names names;
    assert_good(layout_names_read(request, &names, &error), error);
    struct layout_bounds *bounds = layout_bounds_create(request, &names, &error);
    assert_good(bounds, error);
    const uint64_t bound = layout_bound_of_all(bounds);
    layout_bounds_free(bounds);
    return bound;
}

static void chosen_layouts_are_the_best_there_are(void **state)
{
    (void)state;
    uint64_t seed = 77, plans = 0, layouts = 0, feasible = 0, proved = 0;
    const uint64_t trials = test_all_trials(250, 20000);
    for (uint64_t trial = 0; trial < trials; trial++) {
        struct error error = { 0 };
        const uint32_t layers = 1 + (uint32_t)random_below(&seed, TWIN_LAYERS);
        const uint32_t devices = 1 + (uint32_t)random_below(&seed, layers <= 6 ? MOST_DEVICES : 3);  // fewer to try
        struct profile *profile = small_random_chain(&seed, layers, random_below(&seed, 3) == 0 ? 4 : 1000);
        if (random_below(&seed, 3) == 0)
            small_random_edges(&seed, profile);
        struct cluster *cluster = random_cluster(&seed, devices);
        struct search_request request = { .profile = profile, .cluster = cluster,
                                          .schedule = schedules[random_below(&seed, 7)],
                                          .ranks = 1 + (uint32_t)random_below(&seed, devices),
                                          .micro_batches = 1 + (uint32_t)random_below(&seed, 6),
                                          .storage.optimizer = (enum optimizer_kind)random_below(&seed, 3) };
        resolve(&request);
        request.chunks = request.generator.usual_chunks;
        set_memory(&seed, &request, cluster);
        draw_freedom(&seed, &request);
        if (layers <= 5 && random_below(&seed, 5) == 0) {
            add_variants(&seed, random_below(&seed, 2), profile);
            request.free.variants = true;
        }
        const uint64_t best = solve(&request, &plans, &layouts);
        const uint64_t floor = bound_of_all(&request);
        struct plan *plan = own_order_search(&request, &error);
        if (floor > best)
            fail_msg("trial %d (%s, %u devices, %u micro-batches, %u layers): the bound is %d, but the best %d",
                     (int)trial, request.schedule, request.ranks, request.micro_batches, layers, (int)floor, (int)best);
        if (!plan && (best != UINT64_MAX || error.kind != ERROR_ANSWER))
            fail_msg("trial %d (%s, %u devices, %u micro-batches, %u layers): no plan, but the twin has %d: %s",
                     (int)trial, request.schedule, request.ranks, request.micro_batches, layers, (int)best, error.text);
        if (plan) {
            const struct certificate *certificate = &plan->certificate;
            if (certificate->value_ns < best || certificate->lower_bound_ns > best
                || (certificate->proved && certificate->value_ns != best))
                fail_msg("trial %d (%s, %u devices, %u micro-batches, %u layers): value %d, bound %d, proved %d, but"
                         " the best is %d", (int)trial, request.schedule, request.ranks, request.micro_batches, layers,
                         (int)certificate->value_ns, (int)certificate->lower_bound_ns, certificate->proved, (int)best);
            feasible++;
            proved += certificate->proved;
        }
        plan_free(plan);
        profile_free(profile);
        cluster_free(cluster);
    }
    print_message("# %d requests, %d with a plan, %d proved; the twin tried %d layouts with %d plans\n",
                  (int)trials, (int)feasible, (int)proved, (int)layouts, (int)plans);
    assert_true(feasible > trials / 2 && proved >= feasible * 9 / 10);
}

// Longer chains, of 8 and 9 layers, where memory has no end.
static void longer_chains_are_arranged_as_well(void **state)
{
    (void)state;
    uint64_t seed = 5, plans = 0, layouts = 0, proved = 0;
    const uint64_t trials = test_all_trials(60, 2000);
    for (uint64_t trial = 0; trial < trials; trial++) {
        struct error error = { 0 };
        const uint32_t layers = 8 + (uint32_t)random_below(&seed, 2), devices = 2 + (uint32_t)random_below(&seed, 3);
        struct profile *profile = small_random_chain(&seed, layers, random_below(&seed, 3) == 0 ? 4 : 1000);
        struct cluster *cluster = cluster_uniform(devices, TWIN_ROOM, random_below(&seed, 200), 10000000000, &error);
        assert_good(cluster, error);
        for (uint32_t d = 0; random_below(&seed, 2) && d < devices; d++)
            cluster->devices[d].speed_permille = 500 + 500 * random_below(&seed, 3);
        struct search_request request = { .profile = profile, .cluster = cluster,
                                          .schedule = schedules[trial % 2], .ranks = devices, .chunks = 1,
                                          .micro_batches = 1 + (uint32_t)random_below(&seed, 8),
                                          .free = { .replicas = true, .devices = random_below(&seed, 2),
                                                    .fewer = random_below(&seed, 2) } };
        resolve(&request);
        const uint64_t best = solve(&request, &plans, &layouts);
        const uint64_t floor = bound_of_all(&request);
        struct plan *plan = own_order_search(&request, &error);
        assert_good(plan, error);
        if (floor > best || plan->certificate.value_ns < best || plan->certificate.lower_bound_ns > best
            || (plan->certificate.proved && plan->certificate.value_ns != best))
            fail_msg("trial %d: value %d, bound %d, proved %d, but the best is %d", (int)trial,
                     (int)plan->certificate.value_ns, (int)plan->certificate.lower_bound_ns, plan->certificate.proved,
                     (int)best);
        proved += plan->certificate.proved;
        plan_free(plan);
        profile_free(profile);
        cluster_free(cluster);
    }
    print_message("# %d requests, %d proved; the twin tried %d layouts with %d plans\n", (int)trials, (int)proved,
                  (int)layouts, (int)plans);
    assert_true(proved >= trials * 9 / 10);
}

// Of every schedule, with devices to choose: nothing is proved of all layouts that a plan denies.
static void plans_of_all_schedules_keep_to_the_bound_of_all(void **state)
{
    (void)state;
    uint64_t seed = 8, found = 0;
    for (uint64_t trial = 0; trial < test_all_trials(20, 3000); trial++) {
        const struct generator *generator = &generators[0];
        for (; generator->name; generator++) {
            struct error error = { 0 };
            struct profile *profile = small_random_chain(&seed, 8, 1000);
            struct cluster *cluster = cluster_uniform(2, TWIN_ROOM, random_below(&seed, 200), 10000000000, &error);
            assert_good(cluster, error);
            struct search_request request = { .profile = profile, .cluster = cluster,
                                              .schedule = generator->name, .ranks = 2,
                                              .chunks = generator->usual_chunks, .free.devices = true,
                                              .micro_batches = 1 + (uint32_t)random_below(&seed, 6),
                                              .limits.budget = 1 };
            resolve(&request);
            const uint64_t floor = bound_of_all(&request);
            struct plan *plan = own_order_search(&request, &error);
            found += plan != NULL;
            if (plan && plan->iteration_ns < floor)
                fail_msg("trial %d: a plan by %s takes %d, and %d was said of all", (int)trial, generator->name,
                         (int)plan->iteration_ns, (int)floor);
            plan_free(plan);
            profile_free(profile);
            cluster_free(cluster);
        }
    }
    assert_true(found > 200);
}

// A first layer that takes no time, three copies of it, and a micro-batch for each: nothing must follow a run of six.
static void why_there_is_no_bound_is_said(void **state)
{
    (void)state;
    uint64_t seed = 2;
    struct error error = { 0 };
    struct profile *profile = small_random_chain(&seed, 9, 1000);
    struct cluster *cluster = cluster_uniform(4, TWIN_ROOM, 10, 10000000000, &error);
    const uint32_t replicas[] = { 3, 1 };
    profile->layers[0].forward_ns = profile->layers[0].backward_ns = profile->layers[0].parameter_bytes = 0;
    profile->layers[0].backward_input_ns = profile->layers[0].backward_weight_ns = 0;
    assert_true(cluster && profile_rehash(profile, &error));
    struct search_request request = { .profile = profile, .cluster = cluster, .schedule = "pipedream",
                                      .ranks = 4, .chunks = 1, .micro_batches = 3, .layout.replicas = replicas,
                                      .layout.stages = 2, .limits.budget = 1 };
    resolve(&request);
    struct plan *plan = own_order_search(&request, &error);
    assert_good(plan, error);
    assert_int_equal(plan->certificate.lower_bound_ns, 0);
    assert_string_equal(plan->certificate.stopped, "with so few micro-batches for so many copies nothing is certain");
    plan_free(plan);
    profile_free(profile);
    cluster_free(cluster);
}

// By hand as by the search; and what a plan's stages say is looked at anew.
static void shares_of_outputs_go_to_the_same_variant(void **state)
{
    (void)state;
    uint64_t seed = 3;
    struct error error = { 0 };
    struct profile *profile = small_random_chain(&seed, 4, 1000);
    struct cluster *cluster = cluster_uniform(4, TWIN_ROOM, 10, 10000000000, &error);
    add_variants(&seed, true, profile);
    const char *names[] = { "split", "split" };
    const struct search_request request = { .profile = profile, .cluster = cluster, .schedule = "1f1b", .ranks = 2,
                                            .chunks = 1, .micro_batches = 3, .layout.variants = names,
                                            .layout.stages = 2 };
    struct plan *plan = own_order_search(&request, &error);
    assert_good(plan, error);
    const uint32_t cut = plan->stages[0].end;
    assert_int_equal(plan->stages[0].costs.output_bytes,
                     round_to_256(profile->layers[cut - 1].variants[0].layer.output_bytes));
    plan->stages[1].variant[0] = 'x';
    assert_false(plan_evaluate(plan, profile, &error));
    assert_error(error, "stages[1].variant: devices have a share of what is handed on there, or in stage 0, and not in"
                 " both");
    error = (struct error){ 0 };
    plan->stages[1].variant[0] = 's';
    assert_good(plan_evaluate(plan, profile, &error), error);
    names[1] = NULL;
    assert_null(own_order_search(&request, &error));
    assert_error(error, "stage 0 takes the variant \"split\" and stage 1 \"-\", and of one of them each device has a share"
                 " of what is handed on: give all stages the same");
    error = (struct error){ 0 };
    names[1] = names[0];
    profile->layers[2].variants[0].shares_output = false;
    assert_good(profile_rehash(profile, &error), error);
    assert_null(own_order_search(&request, &error));
    assert_error(error, "layer 2 has no variant \"split\" of which each device has a share of the output, as others have:"
                 " all layers need one");
    plan_free(plan);
    profile_free(profile);
    cluster_free(cluster);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares_of_outputs_go_to_the_same_variant),
        cmocka_unit_test(chosen_layouts_are_the_best_there_are),
        cmocka_unit_test(longer_chains_are_arranged_as_well),
        cmocka_unit_test(plans_of_all_schedules_keep_to_the_bound_of_all),
        cmocka_unit_test(why_there_is_no_bound_is_said),
    };
    return cmocka_run_group_tests_name("layout", tests, NULL, NULL);
}
