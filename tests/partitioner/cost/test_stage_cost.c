#include "partitioner/cost/stage_cost.h"

#include "tests/partitioner/small.h"

// Four layers; outputs 1, 2, 3, 4 and saved 10, 20, 30, 40 units of 256 bytes, so
// that every sum below names what it is made of.
//
//     l0 --1--> l1 --2--> l2 --3--> l3 --4-->
static const struct small_layer rows[] = {
    { 100, 200, 1, 1, 10, INPUT_KEPT_NONE, 1, 5, 7 },
    { 110, 210, 2, 2, 20, INPUT_KEPT_BOTH, 1, 5, 7 },
    { 120, 220, 3, 3, 30, INPUT_KEPT_WEIGHT, 1, 5, 7 },
    { 130, 230, 4, 4, 40, INPUT_KEPT_NONE, 1, 5, 7 },
};

static struct stage_bytes bytes_of(const struct profile *profile, uint32_t first, uint32_t end,
                                   const struct segment *segments, size_t count)
{
    return stage_bytes_at(profile, first, end, segments, count, &(struct storage){ .optimizer = OPTIMIZER_ADAMW }, 1);
}

static void a_middle_stage_sums_its_layers(void **state)
{
    (void)state;
    struct profile *profile = small_chain(rows, 4);
    const struct stage_bytes bytes = bytes_of(profile, 1, 3, NULL, 0);
    assert_int_equal(bytes.weights, 256 * (2 + 3));
    assert_int_equal(bytes.gradients, 256 * 5);
    assert_int_equal(bytes.optimizer, 256 * 10);
    assert_int_equal(bytes.version, 256 * 5);
    assert_int_equal(bytes.input, 256 * 1);
    assert_int_equal(bytes.input_life, INPUT_UNTIL_W);  // l1 needs it
    assert_int_equal(bytes.output, 256 * 3);
    assert_int_equal(bytes.kept, 256 * (20 + 30));
    assert_int_equal(bytes.kept_through, 256 * 2);  // l2 needs what l1 made
    assert_int_equal(bytes.held, 256 * 2);
    assert_int_equal(bytes.transient, 256 * (7 + 2));  // backward of l1 or l2 with one inner gradient
    profile_free(profile);
}

static void the_ends_of_the_model_have_neither_input_nor_output(void **state)
{
    (void)state;
    struct profile *profile = small_chain(rows, 4);
    const struct stage_bytes all = bytes_of(profile, 0, 4, NULL, 0);
    assert_int_equal(all.input, 0);
    assert_int_equal(all.output, 0);
    assert_int_equal(all.input_life, INPUT_UNTIL_F);
    assert_int_equal(all.kept_through, 256 * (1 + 2));  // what l1 and l2 read; l3 needs no input
    assert_int_equal(all.transient, 256 * (7 + 3 + 4));  // l3: its input's gradient and the model's output
    profile_free(profile);
}

static void a_segment_keeps_its_input_and_moves_the_rest_to_the_workspace(void **state)
{
    (void)state;
    struct profile *profile = small_chain(rows, 4);
    const struct segment middle = { 1, 3 };
    const struct stage_bytes bytes = bytes_of(profile, 0, 4, &middle, 1);
    assert_int_equal(bytes.kept, 256 * (10 + 40));
    assert_int_equal(bytes.kept_through, 256 * 1);   // x_1 only
    assert_int_equal(bytes.held, 256 * (4 + 2));     // W of l2 needs x_2
    const uint64_t data = 20 + 30 + 2 + 3;           // saved of l1, l2, and both outputs
    assert_int_equal(bytes.transient, 256 * (data + 7 + 2 + 3));  // backward of l2, gradients of x_2 and y_2
    profile_free(profile);
}

static void a_segment_at_the_front_holds_the_input_until_it_has_been_re_run(void **state)
{
    (void)state;
    struct profile *profile = small_chain(rows, 4);
    const struct segment whole = { 3, 4 };
    const struct stage_bytes dropped = bytes_of(profile, 3, 4, &whole, 1);
    assert_int_equal(dropped.input_life, INPUT_UNTIL_I);
    assert_int_equal(dropped.kept, 0);
    assert_int_equal(dropped.transient, 256 * (40 + 4 + 7 + 4));
    const struct stage_bytes kept = bytes_of(profile, 3, 4, NULL, 0);
    assert_int_equal(kept.input_life, INPUT_UNTIL_F);  // l3 needs no input
    profile_free(profile);
}

static void adjacent_segments_stay_separate(void **state)
{
    (void)state;
    struct profile *profile = small_chain(rows, 4);
    const struct segment two[] = { { 0, 2 }, { 2, 4 } }, one[] = { { 0, 4 } };
    const struct stage_bytes split = bytes_of(profile, 0, 4, two, 2), whole = bytes_of(profile, 0, 4, one, 1);
    assert_int_equal(split.kept_through, 256 * 2);
    assert_int_equal(whole.kept_through, 0);
    assert_true(split.transient < whole.transient);
    profile_free(profile);
}

// l0 is read by l1 and, past it, by l3.
static void a_skip_is_handed_on_and_kept_once(void **state)
{
    (void)state;
    struct profile *profile = small_chain(rows, 4);
    small_set_edges(profile, (const struct edge[]){ { 0, 1 }, { 0, 3 }, { 1, 2 }, { 2, 3 } }, 4);
    assert_int_equal(stage_cut_bytes(profile, 2), 256 * (1 + 2));
    const struct stage_bytes middle = bytes_of(profile, 1, 3, NULL, 0);
    assert_int_equal(middle.input, 256 * 1);
    assert_int_equal(middle.output, 256 * (1 + 3));  // y_0 is handed on
    const struct stage_bytes all = bytes_of(profile, 0, 4, NULL, 0);
    assert_int_equal(all.kept_through, 256 * (1 + 2));
    assert_int_equal(all.transient, 256 * (7 + 1 + 3 + 4));  // y_0 is alive until l3
    profile_free(profile);
}

static void times_are_scaled_by_the_devices_speed(void **state)
{
    (void)state;
    struct profile *profile = small_chain(rows, 4);
    const struct segment middle = { 1, 3 };
    const struct cost_row row =
        stage_cost_of(profile, 0, 4, &middle, 1, &(struct storage){ .optimizer = OPTIMIZER_SGD }, 300);
    assert_int_equal(row.forward_ns, 1534);    // 460 / 0.3, rounded up
    assert_int_equal(row.backward_ns, 2867);   // 860 / 0.3
    assert_int_equal(row.recompute_ns, 767);   // 230 / 0.3
    assert_int_equal(row.fixed_bytes, 256 * 20);
    assert_int_equal(row.step_ns, 0);
    profile_free(profile);
}

static void running_layers_again_takes_what_was_measured(void **state)
{
    (void)state;
    struct profile *profile = small_chain(rows, 4);
    const struct storage storage = { .optimizer = OPTIMIZER_SGD };
    const struct segment middle = { 1, 3 };
    const uint64_t forward_ns = profile->layers[1].forward_ns + profile->layers[2].forward_ns;
    assert_int_equal(stage_cost_of(profile, 0, 4, &middle, 1, &storage, 1000).recompute_ns, forward_ns);
    profile->layers[1].has_recompute = true;
    profile->layers[1].recompute_ns = profile->layers[1].forward_ns + 17;
    const struct cost_row row = stage_cost_of(profile, 0, 4, &middle, 1, &storage, 1000);
    assert_int_equal(row.recompute_ns, forward_ns + 17);
    assert_int_equal(row.forward_ns, 460);
    profile_free(profile);
}

static void the_row_counts_the_input_as_kept_while_its_slot_is_needed(void **state)
{
    (void)state;
    struct profile *profile = small_chain(rows, 4);
    const struct cost_row row =
        stage_cost_of(profile, 1, 3, NULL, 0, &(struct storage){ .optimizer = OPTIMIZER_SGD }, 1000);
    assert_int_equal(row.kept_forward_bytes, 256 * (50 + 2 + 1));
    assert_int_equal(row.kept_weight_bytes, 256 * (2 + 2 + 1));
    profile_free(profile);
}

static void the_slab_is_slots_times_bytes(void **state)
{
    (void)state;
    const struct stage_bytes bytes = { .weights = 100, .gradients = 100, .optimizer = 200, .version = 100,
                                       .input = 10, .input_life = INPUT_UNTIL_I, .output = 20, .kept = 1000,
                                       .kept_through = 500, .held = 7, .transient = 3 };
    const struct slots slots = { .input = { 1, 4, 5 }, .kept = 4, .kept_through = 4, .held = 0, .output = 2,
                                 .output_gradient = 1, .input_gradient = 2, .versions = 3 };
    const struct stage_memory memory = stage_memory_of(&bytes, &slots);
    assert_int_equal(memory.versions_bytes, 200);
    assert_int_equal(memory.kept_bytes, 4 * 10 + 4 * 1000 + 4 * 500);
    assert_int_equal(memory.buffers_bytes, 2 * 20 + 20 + 2 * 10);
    assert_int_equal(memory.peak_bytes, 400 + 200 + 6040 + 80 + 3);
}

// A chain, said with edges, is the same chain.
// Layers 2 and 3 read what layer 0 has: 1 unit, and 2 of what the optimizer keeps.
static void who_reads_what_is_lent_elsewhere_has_one_copy_of_it(void **state)
{
    (void)state;
    static const struct {
        uint32_t first, end;
        uint64_t weights;
    } stages[] = { { 0, 4, 10 }, { 0, 2, 3 }, { 1, 2, 2 }, { 1, 3, 6 }, { 2, 4, 8 }, { 3, 4, 5 } };
    struct profile *profile = small_chain(rows, 4);
    struct edge one_owner[] = { { 0, 2 }, { 0, 3 } };
    profile->one_owner = one_owner;
    profile->one_owner_count = 2;
    for (size_t i = 0; i < sizeof stages / sizeof stages[0]; i++) {
        const struct stage_bytes bytes = bytes_of(profile, stages[i].first, stages[i].end, NULL, 0);
        assert_int_equal(bytes.weights, 256 * stages[i].weights);
        assert_int_equal(bytes.gradients, 256 * stages[i].weights);
        assert_int_equal(bytes.optimizer, 512 * stages[i].weights);
    }
    assert_int_equal(stage_layer_weights(profile, 2, 4, 2), 256 * 4);
    assert_int_equal(stage_layer_weights(profile, 2, 4, 3), 256 * 4);
    profile->one_owner = NULL;
    profile_free(profile);
}

static void a_dag_without_skips_costs_what_the_chain_costs(void **state)
{
    (void)state;
    uint64_t seed = 1;
    for (uint64_t trial = 0; trial < test_trials(300, 3000); trial++) {
        const uint32_t count = 1 + (uint32_t)random_below(&seed, 9);
        struct profile *chain = small_random_chain(&seed, count, 1000);
        const uint32_t first = (uint32_t)random_below(&seed, count);
        const uint32_t end = first + (uint32_t)random_below(&seed, count - first + 1);
        struct segment segments[16];
        const size_t segment_count = small_random_segments(&seed, first, end, segments);
        const struct stage_bytes as_chain = bytes_of(chain, first, end, segments, segment_count);
        struct edge edges[16];
        for (uint32_t i = 0; i + 1 < count; i++)
            edges[i] = (struct edge){ i, i + 1 };
        small_set_edges(chain, edges, count - 1);
        const struct stage_bytes as_dag = bytes_of(chain, first, end, segments, segment_count);
        if (!small_same_bytes(&as_chain, &as_dag))
            fail_msg("trial %d: layers [%u, %u) of %u", (int)trial, first, end, count);
        profile_free(chain);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_middle_stage_sums_its_layers),
        cmocka_unit_test(the_ends_of_the_model_have_neither_input_nor_output),
        cmocka_unit_test(a_segment_keeps_its_input_and_moves_the_rest_to_the_workspace),
        cmocka_unit_test(a_segment_at_the_front_holds_the_input_until_it_has_been_re_run),
        cmocka_unit_test(adjacent_segments_stay_separate),
        cmocka_unit_test(a_skip_is_handed_on_and_kept_once),
        cmocka_unit_test(times_are_scaled_by_the_devices_speed),
        cmocka_unit_test(running_layers_again_takes_what_was_measured),
        cmocka_unit_test(the_row_counts_the_input_as_kept_while_its_slot_is_needed),
        cmocka_unit_test(the_slab_is_slots_times_bytes),
        cmocka_unit_test(who_reads_what_is_lent_elsewhere_has_one_copy_of_it),
        cmocka_unit_test(a_dag_without_skips_costs_what_the_chain_costs),
    };
    return cmocka_run_group_tests_name("stage_cost", tests, NULL, NULL);
}
