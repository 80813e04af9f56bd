#include "trainer/verify.h"

#include <stdio.h>
#include <string.h>

#include "tests/test.h"
#include "trainer/model_layers.h"
#include "trainer/model_spec.h"

enum { MOST = 8 };

// A plan made by hand: cuts, segments and a schedule, with what a pipeline needs of it.
struct made {
    struct plan plan;
    struct plan_stage stages[MOST];
    struct segment segments[MOST][MOST];
    char *names[MOST];
    uint32_t devices[MOST];
};

static void set_schedule(struct made *made, const char *schedule, uint32_t ranks, uint32_t micro_batches)
{
    snprintf(made->plan.schedule, sizeof made->plan.schedule, "%s", schedule);
    made->plan.weights = strcmp(schedule, "pipedream") == 0 ? WEIGHTS_STASH : WEIGHTS_FLUSH;
    made->plan.ranks = ranks;
    made->plan.chunks = 1;
    made->plan.micro_batches = micro_batches;
    made->plan.stages = made->stages;
    made->plan.stage_count = ranks;
    made->plan.model = "by hand";
}

static void cut(struct made *made, struct model *model, uint64_t *seed, bool recompute)
{
    const uint32_t layers = (uint32_t)model->layer_count, stages = (uint32_t)made->plan.stage_count;
    for (uint32_t l = 0; l < layers; l++)
        made->names[l] = model->layers[l].name;
    uint32_t first = 0;
    for (uint32_t s = 0; s < stages; s++) {
        const uint32_t most = layers - first - (stages - 1 - s);
        const uint32_t length = s + 1 == stages ? most : 1 + (uint32_t)random_below(seed, most);
        struct plan_stage *stage = &made->stages[s];
        made->devices[s] = s;
        *stage = (struct plan_stage){ .first = first, .end = first + length, .layers = made->names + first,
                                      .devices = &made->devices[s], .device_count = 1,
                                      .recompute = made->segments[s] };
        for (uint32_t l = first; recompute && l < stage->end;) {
            const uint32_t segment = 1 + (uint32_t)random_below(seed, stage->end - l);
            if (random_below(seed, 2))
                stage->recompute[stage->recompute_count++] = (struct segment){ l, l + segment };
            l += segment;
        }
        first = stage->end;
    }
}

static void verify_one(uint64_t trial, const char *schedule)
{
    uint64_t seed = trial;
    struct error error = { 0 };
    const char *specs[] = { "gpt-nano,width=16,blocks=2,heads=2,sequence=8,micro_batch=2",
                            "gpt-nano,width=16,blocks=2,heads=2,sequence=8,micro_batch=2,dropout=0.2" };
    struct model *model = model_from_spec(specs[random_below(&seed, 2)], &error);
    assert_good(model, error);
    assert_int_equal(model->layer_count, 6);

    struct made made = { 0 };
    const uint32_t stages = 1 + (uint32_t)random_below(&seed, 6);
    set_schedule(&made, schedule, stages, 1 + (uint32_t)random_below(&seed, 8));
    made.plan.optimizer = (enum optimizer_kind)random_below(&seed, 3);
    cut(&made, model, &seed, random_below(&seed, 2));

    struct verification result;
    assert_good(verify_plan(&made.plan, model, 2, trial, &result, &error), error);
    if (!result.equal)
        fail_msg("trial %llu: %s, %u stages, %u micro-batches: %llu parameters differ, first %s[%llu]; %u losses",
                 (unsigned long long)trial, schedule, stages, made.plan.micro_batches,
                 (unsigned long long)result.differing, result.layer, (unsigned long long)result.index,
                 result.losses_differing);
    assert_true(result.parameter_count > 0);
    model_free(model);
}

static struct schedule_row {
    const char *name, *schedule;
} schedule_rows[] = {
    { "gpipe equals a sequential run bit for bit", "gpipe" },
    { "1f1b equals a sequential run bit for bit", "1f1b" },
    { "pipedream equals its formula bit for bit", "pipedream" },
};

static void pipelines_equal_their_twin(void **state)
{
    const struct schedule_row *row = *state;
    for (uint64_t trial = 0; trial < test_trials(200, 5000); trial++)
        verify_one(trial, row->schedule);
}

// What would be wrong with a comparison that always agrees.
static void other_weights_are_seen(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct model *model = model_from_spec("gpt-nano,width=16,blocks=2,heads=2,sequence=8,micro_batch=2", &error);
    assert_good(model, error);
    struct made made = { 0 };
    set_schedule(&made, "1f1b", 2, 3);
    uint64_t seed = 1;
    cut(&made, model, &seed, false);
    struct batch_settings batches = { .batches = BATCHES_RANDOM, .seed = 1, .samples = 3 };
    struct model_layers *ours = model_layers_create(model, &batches, &error);
    batches.seed = 2;
    struct model_layers *theirs = model_layers_create(model, &batches, &error);
    assert_good(ours && theirs, error);

    struct verification result;
    assert_good(verify_layers(&made.plan, ours->layers, theirs->layers, model->layer_count, 1, &result, &error), error);
    assert_false(result.equal);
    assert_true(result.differing > result.parameter_count / 2);
    assert_int_equal(result.losses_differing, 3);
    assert_string_equal(result.layer, "embedding");
    model_layers_free(ours);
    model_layers_free(theirs);
    model_free(model);
}

static void a_plan_of_another_model_is_refused(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct model *model = model_from_spec("gpt-nano,width=16,blocks=2,heads=2,sequence=8,micro_batch=2", &error);
    assert_good(model, error);
    struct made made = { 0 };
    set_schedule(&made, "1f1b", 2, 3);
    uint64_t seed = 1;
    cut(&made, model, &seed, false);
    made.names[5] = "tail";
    struct verification result;
    assert_false(verify_plan(&made.plan, model, 1, 1, &result, &error));
    assert_error(error, "the plan's stage 1 calls layer 5 \"tail\", the model \"head\": the plan is of"
                        " another model");
    assert_int_equal(error.kind, ERROR_INPUT);
    model_free(model);
}

static void a_size_that_no_model_has_is_refused(void **state)
{
    (void)state;
    struct error error = { 0 };
    assert_null(model_from_spec("gpt-nano,depth=3", &error));
    assert_error(error, "model \"gpt-nano,depth=3\": \"depth\" is no size of a model (micro_batch, sequence, width,"
                        " blocks, heads, dropout)");
    error = (struct error){ 0 };
    assert_null(model_from_spec("gpt-nano,dropout=1", &error));
    assert_error(error, "model \"gpt-nano,dropout=1\": dropout: \"1\" is not a fraction from 0 to below 1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_ROW(pipelines_equal_their_twin, &schedule_rows[0]),
        TEST_ROW(pipelines_equal_their_twin, &schedule_rows[1]),
        TEST_ROW(pipelines_equal_their_twin, &schedule_rows[2]),
        cmocka_unit_test(other_weights_are_seen),
        cmocka_unit_test(a_plan_of_another_model_is_refused),
        cmocka_unit_test(a_size_that_no_model_has_is_refused),
    };
    return cmocka_run_group_tests_name("verify", tests, NULL, NULL);
}
