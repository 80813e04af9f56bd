#include "profiler/measure.h"

#include <stdio.h>
#include <string.h>

#include "profiler/lint.h"
#include "profiler/report.h"
#include "tests/test.h"

// --- a model whose time is counted, not spent ----------------------------------------

enum { LAYERS = 3, LOG = 200000 };

// What each phase of each layer takes: F, I, W, B, R.
static const uint64_t cost[LAYERS][PHASES] = {
    { 1000, 0, 2000, 2000, 1000 },
    { 4000, 5000, 3000, 8000, 4000 },
    { 2000, 2500, 1500, 3500, 2000 },
};

struct fake {
    uint64_t now[MEASURE_CLOCKS];
    uint64_t begun_ns; // begun and not yet waited for
    size_t last;       // layer that ran last
    size_t runs, waits;
    uint64_t cold_percent; // more for a layer whose neighbour ran last
    uint64_t wait_ns;      // a wait's own price
    size_t slow_runs;      // so many at first take three times as long
    bool restless;         // every other run of a layer takes twice as long
    uint64_t stolen_ns;    // by others, of every tenth run: on the wall clock only
    size_t runs_of[LAYERS];
    size_t fail_at; // the run that fails, from 1
    size_t progress, progress_all;
    uint64_t asking_ns;    // of the thread's time, to begin a run
    uint64_t moments[200]; // that were marked
    char *log; // 'a' + layer and the phase's letter, for each run
    const char *weather;
};

static const char letters[PHASES] = { 'F', 'I', 'W', 'B', 'R' };

static bool fake_run(void *self, size_t layer, enum phase phase, struct error *error)
{
    struct fake *fake = self;
    uint64_t ns = cost[layer][phase];
    if (++fake->runs == fake->fail_at)
        return error_set_kind(error, ERROR_MACHINE, "the device is gone");
    if (fake->log && 2 * fake->runs < LOG) {
        fake->log[2 * fake->runs - 2] = (char)('0' + layer);
        fake->log[2 * fake->runs - 1] = letters[phase];
    }
    ns += layer == fake->last ? 0 : ns * fake->cold_percent / 100;
    ns *= fake->runs <= fake->slow_runs ? 3 : 1;
    ns *= fake->restless && fake->runs_of[layer]++ / 4 % 2 ? 2 : 1;
    fake->last = layer;
    fake->begun_ns += ns;
    fake->now[MEASURE_THREAD_CPU] += fake->asking_ns;
    return true;
}

static bool fake_wait(void *self, struct error *error)
{
    (void)error;
    struct fake *fake = self;
    fake->waits++;
    fake->now[MEASURE_THREAD_CPU] += fake->begun_ns + fake->wait_ns;
    fake->now[MEASURE_WALL] += fake->begun_ns + fake->wait_ns + (fake->runs % 10 == 0 ? fake->stolen_ns : 0);
    fake->begun_ns = 0;
    return true;
}

static bool fake_mark(void *self, size_t mark, struct error *error)
{
    (void)error;
    struct fake *fake = self;
    assert_in_range(mark, 0, 199);
    fake->moments[mark] = fake->now[MEASURE_WALL] + fake->begun_ns;
    return true;
}

static uint64_t fake_mark_ns(void *self, size_t mark)
{
    const struct fake *fake = self;
    assert_int_equal(fake->begun_ns, 0); // all was waited for
    return fake->moments[mark];
}

static bool fake_describe(void *self, size_t layer, struct profile_layer *into, struct error *error)
{
    (void)self, (void)error;
    char name[32];
    snprintf(name, sizeof name, "layer%zu", layer);
    into->name = strdup(name);
    into->kind = strdup("fake");
    into->output_bytes = 256 * (layer + 1);
    into->parameter_bytes = 512;
    into->input_kept = INPUT_KEPT_WEIGHT;
    return into->name && into->kind;
}

static uint64_t fake_now(void *self, enum measure_clock clock)
{
    return ((struct fake *)self)->now[clock];
}

static void fake_progress(void *self, size_t done, size_t all)
{
    struct fake *fake = self;
    assert_int_equal(done, fake->progress + 1);
    fake->progress = done;
    fake->progress_all = all;
}

static void fake_note(void *self, struct text *notes)
{
    const struct fake *fake = self;
    if (fake->weather)
        text_add(notes, "It was %s.", fake->weather);
}

static struct measured measured(struct fake *fake)
{
    return (struct measured){
        .self = fake, .layer_count = LAYERS, .run = fake_run, .wait = fake_wait, .describe = fake_describe,
        .note = fake_note
    };
}

static struct measure_options options(struct fake *fake, enum measure_clock clock)
{
    struct measure_options usual = measure_usual_options();
    usual.now_ns = fake_now;
    usual.progress = fake_progress;
    usual.self = fake;
    usual.clock = clock;
    return usual;
}

static struct measurement *measure(struct fake *fake, enum measure_clock clock)
{
    struct error error = { 0 };
    const struct measured what = measured(fake);
    const struct measure_options how = options(fake, clock);
    struct measurement *measurement = measure_layers(&what, &how, &error);
    assert_good(measurement, error);
    return measurement;
}

static struct profile *profile_of(struct measurement *measurement, struct fake *fake)
{
    struct error error = { 0 };
    const struct measured what = measured(fake);
    const struct measure_labels labels = { .model = "fake", .dtype = "fp32", .device = "none", .micro_batch = 8 };
    struct profile *profile = measurement_profile(measurement, &what, &labels, &error);
    assert_good(profile, error);
    measurement_free(measurement);
    return profile;
}

// --- what a profile states ---------------------------------------------------------

static void each_phase_of_each_layer_is_timed(void **state)
{
    (void)state;
    struct fake fake = { .last = LAYERS };
    struct profile *profile = profile_of(measure(&fake, MEASURE_THREAD_CPU), &fake);
    for (size_t i = 0; i < LAYERS; i++) {
        const struct profile_layer *layer = &profile->layers[i];
        assert_int_equal(layer->forward_ns, cost[i][PHASE_FORWARD]);
        assert_int_equal(layer->backward_input_ns, cost[i][PHASE_BACKWARD_INPUT]);
        assert_int_equal(layer->backward_weight_ns, cost[i][PHASE_BACKWARD_WEIGHT]);
        assert_true(layer->has_backward);
        assert_int_equal(layer->backward_ns, cost[i][PHASE_BACKWARD]);
        assert_int_equal(layer->spread[PHASE_RECOMPUTE].median_ns, cost[i][PHASE_RECOMPUTE]);
        assert_int_equal(profile_recompute_ns(layer), cost[i][PHASE_RECOMPUTE]);
        assert_int_equal(layer->output_bytes, 256 * (i + 1));
    }
    assert_string_equal(profile->layers[2].name, "layer2");
    assert_int_equal(profile->source.how, PROFILE_MEASURED);
    assert_int_equal(profile->source.repeats, 20);
    assert_true(profile->source.backward_split_measured);
    assert_int_equal(profile->source.sum_ns, 20500);
    assert_int_equal(profile->source.whole_ns, 20500);
    assert_string_equal(profile->source.clock, "thread CPU, in place");
    assert_null(profile->notes);
    assert_true(profile->is_chain);

    struct text text = { 0 };
    assert_int_equal(profile_lint(profile, "p", &text).findings, 1); // layer 1 is most of this model
    text_clear(&text);
    profile_free(profile);
}

// Waiting costs much there, and asking is not computing.
static void what_does_its_work_later_is_timed_by_marks(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct fake fake = { .last = LAYERS, .wait_ns = 1000000, .asking_ns = 30 };
    struct measured what = measured(&fake);
    what.mark = fake_mark;
    what.mark_ns = fake_mark_ns;
    const struct measure_options how = options(&fake, MEASURE_THREAD_CPU);
    struct measurement *measurement = measure_layers(&what, &how, &error);
    assert_good(measurement, error);
    assert_int_equal(measurement->layers[1].in_place[PHASE_BACKWARD][MEASURE_THREAD_CPU].median_ns, 30);
    assert_int_equal(measurement->layers[2].alone[PHASE_FORWARD][MEASURE_WALL].median_ns, 2000);
    assert_true(measurement->settled && measurement->restless == 0);
    struct profile *profile = profile_of(measurement, &fake);
    for (size_t i = 0; i < LAYERS; i++) {
        assert_int_equal(profile->layers[i].forward_ns, cost[i][PHASE_FORWARD]);
        assert_int_equal(profile->layers[i].backward_input_ns, cost[i][PHASE_BACKWARD_INPUT]);
        assert_int_equal(profile->layers[i].backward_weight_ns, cost[i][PHASE_BACKWARD_WEIGHT]);
        assert_int_equal(profile->layers[i].backward_ns, cost[i][PHASE_BACKWARD]);
        assert_int_equal(profile->layers[i].spread[PHASE_RECOMPUTE].median_ns, cost[i][PHASE_RECOMPUTE]);
    }
    assert_int_equal(profile->source.whole_ns, 20500);
    assert_string_equal(profile->source.clock, "wall, in place");
    profile_free(profile);
}

static void the_profile_states_times_in_place_not_alone(void **state)
{
    (void)state;
    struct fake fake = { .last = LAYERS, .cold_percent = 50 };
    struct measurement *measurement = measure(&fake, MEASURE_THREAD_CPU);
    assert_int_equal(measurement->layers[1].in_place[PHASE_FORWARD][MEASURE_THREAD_CPU].median_ns, 6000);
    assert_int_equal(measurement->layers[1].alone[PHASE_FORWARD][MEASURE_THREAD_CPU].median_ns, 4000);
    // W comes right after I of the same layer, in place too, and is warm.
    assert_int_equal(measurement->layers[1].in_place[PHASE_BACKWARD_WEIGHT][MEASURE_THREAD_CPU].median_ns, 3000);
    // In place, R is cold; what it warms serves the B after it.
    assert_int_equal(measurement->layers[1].in_place[PHASE_RECOMPUTE][MEASURE_THREAD_CPU].median_ns, 6000);

    struct text text = { 0 };
    measurement_print(measurement, &text);
    assert_string_equal(text.data, "Each run alone, its data warm, they add up to 20.5 us (28.1 % less).\n"
                                   "By the wall clock they add up to 28.5 us (0.0 % more).\n");
    text_clear(&text);
    struct profile *profile = profile_of(measurement, &fake);
    assert_int_equal(profile->layers[1].forward_ns, 6000);
    profile_free(profile);
}

static void time_that_others_take_is_on_the_wall_clock_only(void **state)
{
    (void)state;
    struct fake fake = { .last = LAYERS, .stolen_ns = 100000 };
    struct measurement *measurement = measure(&fake, MEASURE_THREAD_CPU);
    const struct spread *cpu = &measurement->layers[1].in_place[PHASE_FORWARD][MEASURE_THREAD_CPU];
    assert_int_equal(cpu->p95_ns, 4000);
    uint64_t worst = 0;
    for (size_t i = 0; i < LAYERS; i++)
        for (size_t phase = 0; phase < PHASES; phase++)
            worst = worst > measurement->layers[i].in_place[phase][MEASURE_WALL].p95_ns
                        ? worst
                        : measurement->layers[i].in_place[phase][MEASURE_WALL].p95_ns;
    assert_true(worst >= 100000);
    struct profile *profile = profile_of(measurement, &fake);
    assert_int_equal(profile->source.sum_ns, 20500);
    profile_free(profile);

    struct fake other = { .last = LAYERS, .stolen_ns = 100000 };
    struct profile *by_wall = profile_of(measure(&other, MEASURE_WALL), &other);
    assert_string_equal(by_wall->source.clock, "wall, in place");
    assert_true(by_wall->source.whole_ns >= 20500);
    profile_free(by_wall);
}

// --- warming up --------------------------------------------------------------------

static void what_is_slow_at_first_is_not_counted(void **state)
{
    (void)state;
    struct fake fake = { .last = LAYERS, .slow_runs = 48 };
    struct measurement *measurement = measure(&fake, MEASURE_THREAD_CPU);
    assert_true(measurement->settled);
    // The first repeat runs 30 things and each whole 6: three slow ones, then five steady ones.
    assert_int_equal(measurement->warm_ups, 8);
    assert_int_equal(measurement->layers[0].in_place[PHASE_FORWARD][MEASURE_THREAD_CPU].p95_ns, 1000);
    measurement_free(measurement);
}

static void a_model_that_never_settles_is_said_to(void **state)
{
    (void)state;
    struct fake fake = { .last = LAYERS, .restless = true };
    struct measurement *measurement = measure(&fake, MEASURE_THREAD_CPU);
    assert_false(measurement->settled);
    assert_int_equal(measurement->warm_ups, 100);
    assert_int_equal(measurement->restless, LAYERS);
    struct text text = { 0 };
    measurement_print(measurement, &text);
    assert_non_null(strstr(text.data, "The whole model did not settle within 5 % in 100 warm-ups.\n"
                                      "3 layers did not settle within 5 % when run alone.\n"));
    text_clear(&text);
    struct profile *profile = profile_of(measurement, &fake);
    assert_string_equal(profile->notes, "The times had not settled within 5 % after 100 warm-ups.");
    profile_free(profile);
}

static void what_is_told_of_the_machine_is_noted(void **state)
{
    (void)state;
    struct fake steady = { .last = LAYERS, .weather = "cold" }, restless = { .last = LAYERS, .restless = true,
                                                                             .weather = "warm" };
    struct profile *profile = profile_of(measure(&steady, MEASURE_THREAD_CPU), &steady);
    assert_string_equal(profile->notes, "It was cold.");
    profile_free(profile);
    profile = profile_of(measure(&restless, MEASURE_THREAD_CPU), &restless);
    assert_string_equal(profile->notes, "It was warm. The times had not settled within 5 % after 100 warm-ups.");
    profile_free(profile);
}

// --- the whole against its parts ------------------------------------------------------

static void parts_that_cost_much_to_time_make_the_profile_untrusted(void **state)
{
    (void)state;
    // The parts wait six times and the whole once: 5 * 380 are 9.1 % of 20880, 5 * 440 are 10.5 % of 20940.
    struct fake fake = { .last = LAYERS, .wait_ns = 380 };
    struct profile *profile = profile_of(measure(&fake, MEASURE_THREAD_CPU), &fake);
    assert_int_equal(profile->source.sum_ns, 20500 + 6 * 380);
    assert_int_equal(profile->source.whole_ns, 20500 + 380);
    assert_true(profile_sum_holds(profile));
    profile_free(profile);

    struct fake worse = { .last = LAYERS, .wait_ns = 440 };
    profile = profile_of(measure(&worse, MEASURE_THREAD_CPU), &worse);
    assert_false(profile_sum_holds(profile));
    profile_free(profile);
}

// --- the order of things -----------------------------------------------------------

static void the_passes_are_those_of_the_drawing(void **state)
{
    (void)state;
    struct fake fake = { .last = LAYERS, .log = calloc(LOG, 1) };
    measurement_free(measure(&fake, MEASURE_THREAD_CPU));
    const char repeat[] = "0F1F2F"
                          "2B1B0B"
                          "0F1F2F"
                          "2B1B0B"
                          "0F1F2F"
                          "2I2W1I1W0I0W"
                          "0F1F2F"
                          "2R2B1R1B0R0B";
    const char whole[] = "0F1F2F2B1B0B";
    const char *at = fake.log;
    assert_memory_equal(at, repeat, strlen(repeat)); // warms every phase
    at += strlen(repeat);
    for (size_t i = 0; i < 5; i++, at += strlen(whole))
        assert_memory_equal(at, whole, strlen(whole));
    for (size_t i = 0; i < 20; i++, at += strlen(repeat))
        assert_memory_equal(at, repeat, strlen(repeat));
    for (int l = 0; l < LAYERS; l++)
        for (size_t i = 0; i < 25; i++, at += 8) {
            const char layer = (char)('0' + l);
            const char alone[] = { layer, 'F', layer, 'B', layer, 'I', layer, 'W' };
            assert_memory_equal(at, alone, sizeof alone);
        }
    assert_int_equal(*at, '\0');
    assert_int_equal(fake.progress, 23);
    assert_int_equal(fake.progress_all, 23);
    free(fake.log);
}

static void a_failure_names_layer_and_phase(void **state)
{
    (void)state;
    struct fake fake = { .last = LAYERS, .fail_at = 5 };
    struct error error = { 0 };
    const struct measured what = measured(&fake);
    const struct measure_options how = options(&fake, MEASURE_THREAD_CPU);
    assert_null(measure_layers(&what, &how, &error));
    assert_error(error, "layer 1, backward: the device is gone");
    assert_int_equal(error.kind, ERROR_MACHINE);
}

static void every_failure_ends_the_measurement(void **state)
{
    (void)state;
    struct fake all = { .last = LAYERS };
    measurement_free(measure(&all, MEASURE_THREAD_CPU));
    for (size_t at = 1; at <= all.runs; at++) {
        struct fake fake = { .last = LAYERS, .fail_at = at };
        struct error error = { 0 };
        const struct measured what = measured(&fake);
        const struct measure_options how = options(&fake, MEASURE_THREAD_CPU);
        assert_null(measure_layers(&what, &how, &error));
        assert_int_equal(fake.runs, at);
    }
}

// --- spreads -----------------------------------------------------------------------

static void a_spread_is_of_nearest_ranks(void **state)
{
    (void)state;
    uint64_t samples[20], one[1] = { 7 }, three[3] = { 9, 1, 5 };
    for (uint64_t i = 0; i < 20; i++)
        samples[i] = 20 - i;
    const struct spread spread = spread_of(samples, 20);
    assert_int_equal(spread.min_ns, 1);
    assert_int_equal(spread.median_ns, 10);
    assert_int_equal(spread.p95_ns, 19);
    assert_int_equal(spread_of(one, 1).p95_ns, 7);
    assert_int_equal(spread_of(three, 3).median_ns, 5);
    assert_int_equal(spread_of(three, 3).p95_ns, 9);
}

static void the_usual_clocks_go_forward(void **state)
{
    (void)state;
    const struct measure_options usual = measure_usual_options();
    for (int clock = 0; clock < MEASURE_CLOCKS; clock++) {
        const uint64_t before = usual.now_ns(NULL, (enum measure_clock)clock);
        assert_true(usual.now_ns(NULL, (enum measure_clock)clock) >= before);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_phase_of_each_layer_is_timed),
        cmocka_unit_test(what_does_its_work_later_is_timed_by_marks),
        cmocka_unit_test(the_profile_states_times_in_place_not_alone),
        cmocka_unit_test(time_that_others_take_is_on_the_wall_clock_only),
        cmocka_unit_test(what_is_slow_at_first_is_not_counted),
        cmocka_unit_test(a_model_that_never_settles_is_said_to),
        cmocka_unit_test(what_is_told_of_the_machine_is_noted),
        cmocka_unit_test(parts_that_cost_much_to_time_make_the_profile_untrusted),
        cmocka_unit_test(the_passes_are_those_of_the_drawing),
        cmocka_unit_test(a_failure_names_layer_and_phase),
        cmocka_unit_test(every_failure_ends_the_measurement),
        cmocka_unit_test(a_spread_is_of_nearest_ranks),
        cmocka_unit_test(the_usual_clocks_go_forward),
    };
    return cmocka_run_group_tests_name("measure", tests, NULL, NULL);
}
