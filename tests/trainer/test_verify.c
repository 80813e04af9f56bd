#include "trainer/verify.h"

#include <math.h>

#include "tests/random_order.h"
#include "tests/trainer/made_plan.h"
#include "trainer/model_layers.h"

// Gradients are clipped in half of the runs that flush: by a norm that some of them have, or none.
static float clip_of(const struct made *made, uint64_t *seed)
{
    static const float limits[] = { 0, 0, 0.5f, 1000 };
    const float limit = made->plan.weights == WEIGHTS_FLUSH ? limits[random_below(seed, 4)] : 0;
    return optimizer_compresses(made->plan.storage.optimizer) ? 0 : limit;
}

// Of half of the runs that flush, the last micro-batch has fewer samples, at least one.
static uint64_t batch_of(const struct made *made, uint32_t micro_batches, const struct model *model, uint64_t *seed)
{
    const uint64_t each = model->sizes.micro_batch;
    if (made->plan.weights != WEIGHTS_FLUSH || random_below(seed, 2))
        return 0;
    return micro_batches * each - random_below(seed, each);
}

// Of 16 bits a third, half of them fp16 where that is run.
static enum precision precision_of(const struct made *made, uint64_t *seed)
{
    if (random_below(seed, 3))
        return PRECISION_FP32;
    return made->plan.weights == WEIGHTS_FLUSH && random_below(seed, 2) ? PRECISION_FP16 : PRECISION_BF16;
}

// Any in fp32, of 16 bits the three there are; where that can be, signs between replicas in place of some.
static void choose_optimizer(uint64_t trial, struct made *made, enum precision precision, uint64_t *seed)
{
    struct storage *storage = &made->plan.storage;
    storage->optimizer = precision == PRECISION_FP32
                             ? (enum optimizer_kind)random_below(seed, OPTIMIZER_ADAM_1BIT)
                             : OPTIMIZER_SGD_MASTER + (enum optimizer_kind)random_below(seed, 3);
    if (trial % 3 > 0 && precision == PRECISION_FP32 && made->plan.weights == WEIGHTS_FLUSH && !storage->tied_apart
        && storage->shard == SHARD_NONE)
        storage->optimizer = OPTIMIZER_ADAM_1BIT;
}

// Runs that go over the freeze step.
static struct verify_settings settings_of(uint64_t trial, const struct made *made, enum precision precision)
{
    const bool sends_signs = optimizer_compresses(made->plan.storage.optimizer);
    return (struct verify_settings){ .steps = precision == PRECISION_FP16 || sends_signs ? 4 : 2, .seed = trial,
                                     .freeze_step = sends_signs ? 1 + trial / 3 % 2 : 0 };
}

// From what never overflows to what does at first, and soon again.
static struct loss_scaling scaling_of(enum precision precision, uint64_t *seed)
{
    if (precision != PRECISION_FP16)
        return (struct loss_scaling){ 0 };
    return (struct loss_scaling){ .scale = ldexpf(1, (int)random_below(seed, 32)),
                                  .interval = 1 + (uint32_t)random_below(seed, 3) };
}

// Steps in fp16 that were made, and such that were not.
static uint64_t made_steps, skipped_steps;
static size_t with_signs;
// With shares, by what of these is not cut.
static size_t shared_by[UPDATES_TENSORS + 1];

// Of copies that do together what they share states for: whether these cannot, by their schedule.
static bool cannot_meet(const struct made *made, const struct error *error)
{
    return made->plan.storage.shard != SHARD_NONE && error->kind == ERROR_ANSWER
        && (strstr(error->text, "in different orders") || strstr(error->text, "wait for each other for ever")
            || strstr(error->text, "sequences go through in parts"));
}

// False where its copies cannot meet. The model is freed.
static bool verify_model_of(uint64_t trial, struct made *made, struct model *model, enum precision precision,
                            uint64_t *seed)
{
    struct error error = { 0 };
    choose_optimizer(trial, made, precision, seed);
    cut(made, model, seed, random_below(seed, 2));
    struct verification result;
    const struct run_place place = { .device = device_of(trial, precision) };
    struct verify_settings settings = settings_of(trial, made, precision);
    settings.clip = clip_of(made, seed);
    settings.batch = batch_of(made, made->plan.micro_batches, model, seed);
    settings.scaling = scaling_of(precision, seed);
    const bool good = verify_plan(&made->plan, model, &place, &settings, &result, &error);
    if (!good && cannot_meet(made, &error)) {
        model_free(model);
        return false;
    }
    if (!good)
        fail_msg("trial %llu: %s, %u ranks, %zu stages, %u micro-batches: %s", (unsigned long long)trial,
                 made->plan.schedule, made->plan.ranks, made->plan.stage_count, made->plan.micro_batches, error.text);
    if (!result.equal)
        fail_msg("trial %llu: %s, %u ranks, %zu stages, %u micro-batches: %llu parameters differ, first copy %u of "
                 "%s[%llu]; %u losses", (unsigned long long)trial, made->plan.schedule, made->plan.ranks,
                 made->plan.stage_count, made->plan.micro_batches, (unsigned long long)result.differing, result.copy,
                 result.layer, (unsigned long long)result.index, result.losses_differing);
    assert_true(result.parameter_count > 0);
    skipped_steps += result.skipped;
    made_steps += precision == PRECISION_FP16 ? result.steps - result.skipped : 0;
    with_signs += optimizer_compresses(made->plan.storage.optimizer);
    shared_by[optimizer_unit(made->plan.storage.optimizer)] += made->plan.storage.shard != SHARD_NONE;
    model_free(model);
    return true;
}

static bool verify_one(uint64_t trial, struct made *made, uint64_t *seed)
{
    const enum precision precision = precision_of(made, seed);
    const bool is_split = strcmp(made->plan.schedule, "seq1f1b") == 0;
    return verify_model_of(trial, made, (is_split ? long_model : small_model)(seed, precision), precision, seed);
}

// Of what replicas share, which comes one layer at a time, or a layer ahead.
static void set_window(struct made *made, uint64_t trial)
{
    made->plan.storage.window = made->plan.storage.shard >= SHARD_GRADIENTS ? (uint32_t)(trial / 2 % 4) : 0;
}

// Every schedule there is: the synchronous ones compute what one processor computes,
// the others what their formula says (runtime/twin/updates.h).
static void every_schedule_computes_what_it_should_bit_for_bit(void **state)
{
    (void)state;
    for (const struct generator *generator = generators; generator->name; generator++) {
        size_t verified = 0, apart = 0;
        for (uint64_t trial = 0; trial < test_all_trials(12, 2000); trial++) {
            uint64_t seed = trial;
            struct asked asked = { .generator = generator, .ranks = 1 + (uint32_t)random_below(&seed, 6),
                                   .micro_batches = 1 + (uint32_t)random_below(&seed, 8) };
            if (random_below(&seed, 2)) {  // what the choosy ones take
                asked.ranks = 2 + 2 * (uint32_t)random_below(&seed, 2);
                asked.micro_batches = asked.ranks * (1 + (uint32_t)random_below(&seed, 3));
            }
            asked.ranks = generator_ranks(generator, asked.ranks);
            struct made made = { 0 };
            if (!set_schedule(&made, &asked))
                continue;
            made.plan.storage.shard = (enum shard)random_below(&seed, 4);
            set_window(&made, trial);
            const bool can = verify_one(trial, &made, &seed);
            // Two pipelines against each other with a micro-batch more in one of them.
            assert_true(can || (strcmp(generator->name, "chimera") == 0 && asked.micro_batches % 2 == 1));
            verified += can;
            apart += !can;
        }
        print_message("# %s: %zu, and %zu whose copies cannot meet\n", generator->name, verified, apart);
        assert_true(verified > 5 * apart);
    }
    print_message("# in fp16: %zu steps made, %zu skipped\n", (size_t)made_steps, (size_t)skipped_steps);
    assert_true(made_steps > 0 && skipped_steps > 0);
}

// Any order, any way of keeping weights: split backwards, groups, two routes whose
// copies add up, STEPs early in a rank's list, tied layers anywhere.
static void random_schedules_compute_what_they_should_bit_for_bit(void **state)
{
    (void)state;
    size_t tied = 0, refused = 0, split = 0, in_turns = 0, shared = 0, apart = 0;
    for (uint64_t trial = 0; trial < test_all_trials(300, 5000); trial++) {
        uint64_t seed = trial;
        struct traits traits = random_traits(&seed);
        traits.weights = (enum weights)random_below(&seed, WEIGHTS_2BW + 1);
        traits.splits &= traits.weights == WEIGHTS_FLUSH;
        size_t pairs;
        struct schedule *order = random_order(&seed, &traits);
        struct schedule *lowered = random_lower(&seed, order, &traits, &pairs);
        schedule_free(order);
        struct made made = { .plan = { .stages = made.stages, .stage_count = lowered->stages } };
        made.plan.storage.tied_apart = traits.weights == WEIGHTS_FLUSH && random_below(&seed, 2);
        const bool is_tied = made.plan.storage.tied_apart;
        made.plan.storage.shard = (enum shard)random_below(&seed, is_tied ? 2 : 4);
        set_window(&made, trial);
        struct model *model = (traits.splits ? is_tied ? long_tied_model : long_model
                                             : is_tied ? tied_model : small_model)(&seed, PRECISION_FP32);
        made.plan.weights = traits.weights;
        choose_optimizer(trial, &made, PRECISION_FP32, &seed);
        cut(&made, model, &seed, random_below(&seed, 2));
        struct verification result;
        struct error error = { 0 };
        const struct run_place place = { .device = device_of(trial, PRECISION_FP32) };
        struct verify_settings settings = settings_of(trial, &made, PRECISION_FP32);
        settings.clip = clip_of(&made, &seed);
        settings.batch = batch_of(&made, lowered->micro_batches, model, &seed);
        const bool good = verify_schedule(lowered, &made.plan, model, &place, &settings, &result, &error);
        if (!good && made.plan.storage.tied_apart && strstr(error.text, "stages whose layers are tied"))
            refused++;  // ranks with some of them
        else if (!good && cannot_meet(&made, &error))
            apart++;
        else if (!good && traits.splits && strstr(error.text, "do not go back one behind the other"))
            in_turns++;
        else if (!good)
            fail_msg("trial %llu: %s: %s", (unsigned long long)trial, weights_names[traits.weights], error.text);
        if (good && !result.equal)
            fail_msg("trial %llu: %s: %llu parameters differ, first copy %u of %s[%llu]; %u losses",
                     (unsigned long long)trial, weights_names[traits.weights], (unsigned long long)result.differing,
                     result.copy, result.layer, (unsigned long long)result.index, result.losses_differing);
        tied += good && made.plan.storage.tied_apart;
        split += good && traits.splits;
        shared += good && made.plan.storage.shard >= SHARD_GRADIENTS && lowered->route_count > 1;
        model_free(model);
        schedule_free(lowered);
    }
    print_message("# %zu in parts, %zu of which go back in turns; %zu share gradients, %zu cannot\n", split + in_turns,
                  in_turns, shared, apart);
    assert_true(tied > refused && refused > 0 && split > 0 && shared > 0 && apart > 0);
}

// Replicas of a stage take micro-batches in turns, and the mean of what they bring.
static void replicas_compute_their_formula_bit_for_bit(void **state)
{
    (void)state;
    for (const struct generator *generator = generators; generator->name; generator++) {
        size_t verified = 0, shared = 0, apart = 0;
        with_signs = 0;
        for (uint64_t trial = 0; generator->takes_replicas && trial < test_all_trials(30, 2000); trial++) {
            uint64_t seed = trial;
            uint32_t replicas[4];
            struct asked asked = { .generator = generator, .chunks = 1, .replicas = replicas,
                                   .stages = 1 + (uint32_t)random_below(&seed, 4),
                                   .micro_batches = 1 + (uint32_t)random_below(&seed, 12) };
            for (uint32_t s = 0; s < asked.stages; s++)
                asked.ranks += replicas[s] = 1 + (uint32_t)random_below(&seed, 3);
            struct made made = { 0 };
            if (!set_schedule(&made, &asked))
                continue;
            made.plan.storage.shard = (enum shard)random_below(&seed, 4);
            set_window(&made, trial);
            const bool can = verify_one(trial, &made, &seed);
            verified += can;
            apart += !can;
            shared += can && made.plan.storage.shard >= SHARD_GRADIENTS;
        }
        if (generator->takes_replicas)
            print_message("# %s: %zu, of which %zu share gradients and %zu send signs; %zu cannot\n", generator->name,
                          verified, shared, with_signs, apart);
        assert_true((verified > 0 && shared > apart) || !generator->takes_replicas);
        assert_true(with_signs > 0 || !generator->takes_replicas || generator->weights != WEIGHTS_FLUSH);
    }
    print_message("# of those that share, %zu by parameters, %zu by blocks, %zu by tensors\n",
                  shared_by[UPDATES_PARAMETERS], shared_by[UPDATES_BLOCKS], shared_by[UPDATES_TENSORS]);
    assert_true(shared_by[UPDATES_PARAMETERS] > 0 && shared_by[UPDATES_BLOCKS] > 0 && shared_by[UPDATES_TENSORS] > 0);
}

static void set_1f1b(struct made *made)
{
    struct error error = { 0 };
    const struct asked asked = { .generator = generator_find("1f1b", &error), .ranks = 2, .micro_batches = 3 };
    assert_good(asked.generator, error);
    assert_true(set_schedule(made, &asked));
}

// What would be wrong with a comparison that always agrees.
static void other_weights_are_seen(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct model *model = model_from_spec("gpt-nano,width=16,blocks=2,heads=2,sequence=8,micro_batch=2",
                                          PRECISION_FP32, &error);
    assert_good(model, error);
    struct made made = { 0 };
    set_1f1b(&made);
    uint64_t seed = 1;
    cut(&made, model, &seed, false);
    struct batch_settings batches = { .batches = BATCHES_RANDOM, .seed = 1, .samples = 3 };
    struct device *device = device_open("cpu", &error);
    assert_good(device, error);
    struct model_layers *ours = model_layers_create(model, device, &batches, &error);
    batches.seed = 2;
    struct model_layers *theirs = model_layers_create(model, device, &batches, &error);
    assert_good(ours && theirs, error);
    const struct verify_layers what = {
        .plan = &made.plan, .ours = ours->layers, .theirs = theirs->layers, .layer_count = model->layer_count,
        .device = device, .settings.optimizer = optimizer_default(OPTIMIZER_SGD), .steps = 1,
    };
    struct verification result;
    assert_good(verify_layers(&what, &result, &error), error);
    assert_false(result.equal);
    assert_true(result.differing > result.parameter_count / 2);
    assert_int_equal(result.losses_differing, 3);
    assert_string_equal(result.layer, "embedding");
    model_layers_free(ours);
    model_layers_free(theirs);
    device_close(device);
    model_free(model);
}

// On one stage, with backwards whole and in two parts, and some of the layers run again.
static void tied_layers_share_their_words_bit_for_bit(void **state)
{
    (void)state;
    const char *const schedules[] = { "gpipe", "1f1b", "zb-h1", "pipedream" };
    for (uint64_t trial = 0; trial < test_all_trials(16, 160); trial++) {
        const enum precision precision = trial / 4 % 2 ? PRECISION_BF16 : PRECISION_FP32;
        uint64_t seed = trial;
        struct error error = { 0 };
        struct model *model = model_from_spec("gpt-nano,tied,width=16,blocks=3,heads=2,sequence=8,micro_batch=2",
                                              precision, &error);
        assert_good(model, error);
        struct made made = { 0 };
        const struct asked asked = { .generator = generator_find(schedules[trial % 4], &error), .ranks = 1,
                                     .micro_batches = 3 };
        assert_good(asked.generator, error);
        assert_true(set_schedule(&made, &asked));
        made.plan.storage.optimizer = precision == PRECISION_BF16 ? OPTIMIZER_ADAMW_MASTER : OPTIMIZER_ADAMW;
        cut(&made, model, &seed, trial % 3 == 0);
        struct verification result;
        const struct run_place place = { .device = device_of(trial, precision) };
        const struct verify_settings settings = { .steps = 3, .seed = trial, .clip = clip_of(&made, &seed) };
        assert_good(verify_plan(&made.plan, model, &place, &settings, &result, &error), error);
        assert_true(result.equal && result.parameter_count > 0);
        model_free(model);
    }
}

// On any two stages, under whatever flushes; and where stages are on several ranks.
static void tied_layers_apart_share_their_words_bit_for_bit(void **state)
{
    (void)state;
    const uint32_t replicas[][3] = { { 2, 1, 2 }, { 1, 3, 2 }, { 2, 2, 1 } };
    for (const struct generator *generator = generators; generator->name; generator++) {
        size_t verified = 0;
        for (uint64_t trial = 0; trial < test_all_trials(12, 600); trial++) {
            uint64_t seed = trial;
            struct asked asked = { .generator = generator, .ranks = 2 + 2 * (uint32_t)random_below(&seed, 2),
                                   .micro_batches = 4 * (1 + (uint32_t)random_below(&seed, 2)) };
            if (generator->takes_replicas && trial % 3 == 0) {
                asked.replicas = replicas[random_below(&seed, 3)];
                asked.stages = 3;
                asked.ranks = asked.replicas[0] + asked.replicas[1] + asked.replicas[2];
            }
            struct made made = { .plan.storage.tied_apart = true };
            if (!set_schedule(&made, &asked) || made.plan.weights != WEIGHTS_FLUSH)
                continue;
            const enum precision precision = precision_of(&made, &seed);
            struct model *model = (generator->takes_splits ? long_tied_model : tied_model)(&seed, precision);
            verify_model_of(trial, &made, model, precision, &seed);
            verified++;
        }
        print_message("# %s: %zu\n", generator->name, verified);
    }
}

// Other shapes are added up otherwise: near, but not to the bit.
static void sequences_in_parts_compute_what_whole_ones_do(void **state)
{
    (void)state;
    static const char *const names[] = { "1f1b", "seq1f1b" };
    for (uint64_t trial = 0; trial < test_all_trials(4, 60); trial++) {
        double losses[2];
        for (size_t i = 0; i < 2; i++) {
            struct error error = { 0 };
            uint64_t seed = trial;
            const struct asked asked = { .generator = generator_find(names[i], &error), .ranks = 4, .micro_batches = 3 };
            struct made made = { .plan.storage.optimizer = OPTIMIZER_MOMENTUM };
            assert_true(set_schedule(&made, &asked));
            struct model *model =
                model_from_spec("gpt-nano,width=16,blocks=3,heads=2,sequence=64,micro_batch=4", PRECISION_FP32, &error);
            assert_good(model, error);
            cut(&made, model, &seed, trial % 2);
            struct verification result;
            const struct run_place place = { .device = "cpu" };
            const struct verify_settings settings = { .steps = 6, .seed = trial, .clip = 1 };
            assert_good(verify_plan(&made.plan, model, &place, &settings, &result, &error), error);
            assert_true(result.equal);
            losses[i] = result.loss;
            model_free(model);
        }
        if (!(fabs(losses[0] - losses[1]) <= 1e-5 * losses[0]))
            fail_msg("trial %u: the loss is %.9g, and in parts %.9g", (unsigned)trial, losses[0], losses[1]);
    }
}

static void tied_layers_on_two_stages_must_be_meant_to_be_and_met_at_a_flush(void **state)
{
    (void)state;
    static const struct {
        const char *schedule;
        bool apart;
        const char *sentence;
    } rows[] = {
        { "1f1b", false, "layer head is tied to layer embedding, which is on another stage: plan with them tied apart,"
                         " or together" },
        { "pipedream", true, "tied layers are on different stages, whose gradients are added up at a flush, which"
                             " pipedream has not; plan with them together" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct error error = { 0 };
        uint64_t seed = 1;
        struct model *model = tied_model(&seed, PRECISION_FP32);
        struct made made = { .plan.storage.tied_apart = rows[i].apart };
        const struct asked asked = { .generator = generator_find(rows[i].schedule, &error), .ranks = 2,
                                     .micro_batches = 4 };
        assert_true(set_schedule(&made, &asked));
        cut(&made, model, &seed, false);
        struct verification result;
        assert_false(verify_plan(&made.plan, model, &(struct run_place){ .device = "cpu" },
                                 &(struct verify_settings){ .steps = 1, .seed = 1 }, &result, &error));
        assert_error(error, rows[i].sentence);
        model_free(model);
    }
}

// Stages that step at different times cannot agree on whether to.
static void fp16_needs_a_flush(void **state)
{
    (void)state;
    struct error error = { 0 };
    uint64_t seed = 1;
    struct model *model = small_model(&seed, PRECISION_FP16);
    struct made made = { .plan.storage.optimizer = OPTIMIZER_ADAMW_MASTER };
    const struct asked asked = { .generator = generator_find("pipedream", &error), .ranks = 2, .micro_batches = 4 };
    assert_true(set_schedule(&made, &asked));
    cut(&made, model, &seed, false);
    struct verification result;
    assert_false(verify_plan(&made.plan, model, &(struct run_place){ .device = "cpu:fp16" },
                             &(struct verify_settings){ .steps = 1, .seed = 1 }, &result, &error));
    assert_error(error, "training in fp16 skips a step on all stages where gradients overflow on one, and the stages of"
                        " pipedream, which has no flush, step at different times; name a device in bf16, or take a"
                        " schedule that flushes");
    assert_int_equal(error.kind, ERROR_INPUT);
    model_free(model);
}

static void a_plan_of_another_model_is_refused(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct model *model = model_from_spec("gpt-nano,width=16,blocks=2,heads=2,sequence=8,micro_batch=2",
                                          PRECISION_FP32, &error);
    assert_good(model, error);
    struct made made = { 0 };
    set_1f1b(&made);
    uint64_t seed = 1;
    cut(&made, model, &seed, false);
    made.names[5] = "tail";
    struct verification result;
    assert_false(verify_plan(&made.plan, model, &(struct run_place){ .device = "cpu" },
                                 &(struct verify_settings){ .steps = 1, .seed = 1 }, &result, &error));
    assert_error(error, "the plan's stage 1 calls layer 5 \"tail\", the model \"head\": the plan is of"
                        " another model");
    assert_int_equal(error.kind, ERROR_INPUT);
    model_free(model);
}

static void a_size_that_no_model_has_is_refused(void **state)
{
    (void)state;
    struct error error = { 0 };
    assert_null(model_from_spec("gpt-nano,depth=3", PRECISION_FP32, &error));
    assert_error(error, "model \"gpt-nano,depth=3\": \"depth\" is no size of a model (micro_batch, sequence, width,"
                        " blocks, heads, window, global, stride, dropout, tied, untied, padded; of experts: experts,"
                        " top, router, capacity, aux, z, inner, shared, swiglu, groups, scale, speed, exchange; of"
                        " pictures: pixels, channels, classes, smoothing, stem, fused; of clicks: numbers, slots, rows,"
                        " columns, ids, bottom, top, cross, rank, mean, weighted, exchange)");
    error = (struct error){ 0 };
    assert_null(model_from_spec("gpt-nano,dropout=1", PRECISION_FP32, &error));
    assert_error(error, "model \"gpt-nano,dropout=1\": dropout: \"1\" is not a fraction from 0 to below 1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_schedule_computes_what_it_should_bit_for_bit),
        cmocka_unit_test(random_schedules_compute_what_they_should_bit_for_bit),
        cmocka_unit_test(replicas_compute_their_formula_bit_for_bit),
        cmocka_unit_test(other_weights_are_seen),
        cmocka_unit_test(tied_layers_share_their_words_bit_for_bit),
        cmocka_unit_test(tied_layers_apart_share_their_words_bit_for_bit),
        cmocka_unit_test(sequences_in_parts_compute_what_whole_ones_do),
        cmocka_unit_test(tied_layers_on_two_stages_must_be_meant_to_be_and_met_at_a_flush),
        cmocka_unit_test(fp16_needs_a_flush),
        cmocka_unit_test(a_plan_of_another_model_is_refused),
        cmocka_unit_test(a_size_that_no_model_has_is_refused),
    };
    return cmocka_run_group_tests_name("verify", tests, NULL, NULL);
}
