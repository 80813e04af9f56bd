// A run that is ended and gone on with has the bits of one that was never ended: weights, what optimizers keep, and
// losses; whatever the schedule, the device, and the way weights are kept.
#include "trainer/same_run.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/checkpoint/run_folder.h"
#include "runtime/checkpoint/saver.h"
#include "tests/random_order.h"
#include "tests/trainer/made_plan.h"
#include "trainer/model_lasting.h"
#include "trainer/model_layers.h"

enum { PASSES = 2 };  // before the checkpoint, and behind it

// No disk is waited for: what is synced is tests/runtime/test_run_folder.c's.
int fsync(int file)
{
    (void)file;
    return 0;
}

static char folder[] = "/tmp/weir-resume-XXXXXX";
static char said[4000];
static struct loss_scaling scaling;  // what runs wish for

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static void empty_folder(void)
{
    struct error error = { 0 };
    assert_good(run_folder_keep(folder, UINT64_MAX, 0, 0, &error) && run_folder_clean(folder, &error), error);
}

static int remove_folder(void **state)
{
    (void)state;
    empty_folder();
    return rmdir(folder);
}

static void note(void *self, const char *sentence)
{
    (void)self;
    const size_t used = strlen(said);
    snprintf(said + used, sizeof said - used, "%s\n", sentence);
}

// --- runs ------------------------------------------------------------------------------------

struct run {
    struct device *device;
    struct model_layers *layers;
    struct pipeline *pipeline;
    struct lasting_model *lasting;
};

// On a schedule of one's own, or the plan's.
static void open_run(struct run *run, const struct made *made, const struct model *model, const char *device,
                     const struct schedule *schedule)
{
    struct error error = { 0 };
    struct batch_settings batches;
    struct session_settings session = { .capacity = TRANSPORT_UNLIMITED };
    session.optimizer = optimizer_default(made->plan.storage.optimizer);
    session.optimizer.rate = 0.01f;
    session.scaling = scaling;
    if (schedule)
        batches = batch_settings_for(schedule, 1);
    else
        assert_good(batch_settings_of(&made->plan, 2, 1, &batches, &error), error);
    run->device = device_open(device, &error);
    assert_good(run->device, error);
    run->layers = model_layers_create(model, run->device, &batches, &error);
    assert_good(run->layers, error);
    const struct weir_layer *layers = run->layers->layers;
    run->pipeline = schedule
        ? pipeline_create_on(schedule, &made->plan, layers, model->layer_count, run->device, &session, &error)
        : pipeline_create(&made->plan, layers, model->layer_count, run->device, 2, &session, &error);
    run->lasting = lasting_model_create(model, made->plan.storage.optimizer, &error);
    assert_good(run->pipeline && run->lasting, error);
}

static void close_run(struct run *run)
{
    pipeline_free(run->pipeline);
    model_layers_free(run->layers);
    lasting_model_free(run->lasting);
    device_close(run->device);
}

static void make_passes(const struct run *run, int count)
{
    struct error error = { 0 };
    for (int i = 0; i < count; i++)
        assert_good(session_step(run->pipeline->session, &error), error);
}

static struct manifest describe(const struct run *run)
{
    struct manifest manifest = { .model = (char *)(uintptr_t)"by hand", .seed = 1, .steps = 100, .step = 2, .passes = 2,
                                 .rate = "0.01", .loss = 1 };
    snprintf(manifest.precision, sizeof manifest.precision, "%s", precision_name(device_precision(run->device)));
    snprintf(manifest.optimizer, sizeof manifest.optimizer, "%s", optimizer_names[run->lasting->form.optimizer]);
    snprintf(manifest.plan.hash, sizeof manifest.plan.hash, "made");
    manifest.plan.ranks = manifest.plan.stages = manifest.plan.micro_batches = manifest.plan.flush_every = 1;
    return manifest;
}

static void save(const struct run *run)
{
    struct error error = { 0 };
    struct manifest manifest = describe(run);
    manifest.step = manifest.passes = session_steps(run->pipeline->session);
    const struct saver_settings settings = {
        .folder = folder, .keep = 3, .lasting = run->lasting, .pipeline = run->pipeline, .tell = note,
    };
    said[0] = '\0';
    struct saver *saver = saver_create(&settings, &error);
    assert_good(saver, error);
    assert_good(saver_save(saver, &manifest, &error) && saver_finish(saver, &error), error);
    assert_string_equal(said, "");
    assert_int_equal(saver_newest(saver), manifest.step);
    saver_free(saver);
}

static bool go_on(const struct run *run, struct error *error)
{
    const struct manifest manifest = describe(run);
    const struct resume_request request = { .folder = folder, .lasting = run->lasting, .pipeline = run->pipeline,
                                            .run = &manifest, .rules = &same_run, .say = note };
    struct manifest *found;
    said[0] = '\0';
    const bool good = resume_run(&request, &found, error);
    if (good)
        assert_int_equal(found->step, PASSES);
    manifest_free(found);
    return good;
}

static void compare(const struct run *a, const struct run *b, const char *what)
{
    struct error error = { 0 };
    const struct session_result *x = session_last(a->pipeline->session), *y = session_last(b->pipeline->session);
    const struct schedule *schedule = a->pipeline->schedule;
    if (memcmp(x->losses, y->losses, schedule->micro_batches * sizeof(float)) != 0)
        fail_msg("%s: losses differ", what);
    for (uint32_t l = 0; l < a->lasting->layer_count; l++) {
        assert_int_equal(pipeline_updates(a->pipeline, l), pipeline_updates(b->pipeline, l));
        for (uint32_t part = 0; part < pipeline_parts(a->pipeline); part++) {
            const uint64_t bytes = pipeline_part_bytes(a->pipeline, l, part);
            char *of_a = calloc(2, bytes + 1), *of_b = of_a + bytes;
            assert_non_null(of_a);
            assert_good(pipeline_read_part(a->pipeline, l, part, of_a, &error)
                        && pipeline_read_part(b->pipeline, l, part, of_b, &error), error);
            if (memcmp(of_a, of_b, bytes) != 0)
                fail_msg("%s: part %u of %s differs", what, part, a->lasting->layers[l].name);
            free(of_a);
        }
    }
}

static uint64_t skipped_steps, made_steps;  // of runs in fp16

// One run makes all passes; one that has made none goes on from its checkpoint.
static void end_and_go_on(const struct made *made, const struct model *model, const char *device,
                          const struct schedule *schedule, const char *what)
{
    struct error error = { 0 };
    struct run whole, second;
    open_run(&whole, made, model, device, schedule);
    make_passes(&whole, PASSES);
    empty_folder();
    save(&whole);
    make_passes(&whole, PASSES);
    scaling.scale /= 1024;  // which is the checkpoint's affair
    open_run(&second, made, model, device, schedule);
    assert_good(go_on(&second, &error), error);
    make_passes(&second, PASSES);
    compare(&whole, &second, what);
    const struct loss_scaling *mine = session_scaling(whole.pipeline->session);
    const struct loss_scaling *its = session_scaling(second.pipeline->session);
    assert_true(its->scale == mine->scale && its->made == mine->made && its->skipped == mine->skipped);
    skipped_steps += mine->skipped;
    made_steps += 2 * PASSES - mine->skipped;
    close_run(&second);
    close_run(&whole);
}

// --- what must hold -------------------------------------------------------------------------

static void try_one(struct made *made, struct model *model, enum precision precision, uint64_t trial, uint64_t *seed)
{
    char what[100];
    made->plan.storage.optimizer = precision != PRECISION_FP32
                                       ? OPTIMIZER_SGD_MASTER + (enum optimizer_kind)(trial % 3)
                                       : (enum optimizer_kind)(trial % OPTIMIZER_ADAM_1BIT);
    cut(made, model, seed, random_below(seed, 2));
    snprintf(what, sizeof what, "trial %llu: %s", (unsigned long long)trial, made->plan.schedule);
    end_and_go_on(made, model, device_of(trial, precision), NULL, what);
    model_free(model);
}

static void every_schedule_goes_on_bit_for_bit(void **state)
{
    (void)state;
    for (const struct generator *generator = generators; generator->name; generator++) {
        size_t tried = 0;
        for (uint64_t trial = 0; tried < test_trials(3, 100) && trial < 1000; trial++) {
            uint64_t seed = trial;
            const uint32_t ranks = 2 + 2 * (uint32_t)random_below(&seed, 2);
            const struct asked asked = { .generator = generator, .ranks = generator_ranks(generator, ranks),
                                         .micro_batches = ranks * (1 + (uint32_t)random_below(&seed, 2)) };
            struct made made = { 0 };
            if (!set_schedule(&made, &asked))
                continue;
            const enum precision precision = trial % 4 == 3 ? PRECISION_BF16 : PRECISION_FP32;
            struct model *model = (generator->takes_splits ? long_model : small_model)(&seed, precision);
            try_one(&made, model, precision, trial, &seed);
            tried++;
        }
        if (tried == 0)
            fail_msg("%s was not tried", generator->name);
    }
}

// Steps are skipped in front of the checkpoint, behind it, and where the scale has just been doubled: updates are fewer
// than steps, and the scale is the one it had come to.
static void fp16_goes_on_bit_for_bit(void **state)
{
    (void)state;
    static const char *const schedules[] = { "gpipe", "1f1b", "zb-v", "chimera" };
    for (uint64_t trial = 0; trial < test_trials(12, 200); trial++) {
        struct error error = { 0 };
        uint64_t seed = trial;
        const struct asked asked = { .generator = generator_find(schedules[trial % 4], &error), .ranks = 2,
                                     .micro_batches = 4 };
        struct made made = { 0 };
        assert_true(set_schedule(&made, &asked));
        struct model *model = small_model(&seed, PRECISION_FP16);
        scaling = (struct loss_scaling){ .scale = ldexpf(1, 17 + (int)random_below(&seed, 8)), .interval = 2 };
        try_one(&made, model, PRECISION_FP16, trial, &seed);
    }
    scaling = (struct loss_scaling){ 0 };
    assert_true(skipped_steps > 0 && made_steps > 0);
}

// Of stages on several ranks; tied layers apart.
static void copies_go_on_bit_for_bit(void **state)
{
    (void)state;
    const uint32_t replicas[] = { 2, 1, 2 };
    const char *const names[] = { "1f1b", "pipedream" };
    for (uint64_t trial = 0; trial < test_trials(8, 100); trial++) {
        struct error error = { 0 };
        const struct asked asked = { .generator = generator_find(names[trial % 2], &error), .chunks = 1, .ranks = 5,
                                     .replicas = replicas, .stages = 3, .micro_batches = 4 };
        struct made made = { .plan.storage.tied_apart = trial % 2 == 0 };
        uint64_t seed = trial;
        assert_good(asked.generator, error);
        assert_true(set_schedule(&made, &asked));
        try_one(&made, (trial % 2 ? small_model : tied_model)(&seed, PRECISION_FP32), PRECISION_FP32, trial, &seed);
    }
}

// Versions kept in any way, those of vertical sync among them.
static void random_schedules_go_on_bit_for_bit(void **state)
{
    (void)state;
    size_t of[WEIGHTS_2BW + 1] = { 0 };
    for (uint64_t trial = 0; trial < test_trials(40, 1000); trial++) {
        uint64_t seed = trial;
        struct traits traits = random_traits(&seed);
        char what[100];
        traits.weights = (enum weights)(trial % (WEIGHTS_2BW + 1));
        traits.splits = false;  // not of these layers
        size_t pairs;
        struct schedule *order = random_order(&seed, &traits);
        struct schedule *lowered = random_lower(&seed, order, &traits, &pairs);
        schedule_free(order);
        struct made made = { .plan = { .stages = made.stages, .stage_count = lowered->stages } };
        struct model *model = small_model(&seed, PRECISION_FP32);
        made.plan.storage.optimizer = (enum optimizer_kind)random_below(&seed, OPTIMIZER_ADAM_1BIT);
        cut(&made, model, &seed, random_below(&seed, 2));
        snprintf(what, sizeof what, "trial %llu: %s", (unsigned long long)trial, weights_names[traits.weights]);
        end_and_go_on(&made, model, device_of(trial, PRECISION_FP32), lowered, what);
        of[traits.weights]++;
        model_free(model);
        schedule_free(lowered);
    }
    for (size_t i = 0; i <= WEIGHTS_2BW; i++)
        assert_true(of[i] > 0);
}

// --- another plan, damage -------------------------------------------------------------------------

static void make(struct made *made, const char *name, uint32_t ranks, struct model *model, uint64_t seed)
{
    struct error error = { 0 };
    const struct asked asked = { .generator = generator_find(name, &error), .ranks = ranks, .micro_batches = 4 };
    assert_good(asked.generator, error);
    assert_true(set_schedule(made, &asked));
    made->plan.storage.optimizer = OPTIMIZER_ADAMW;
    cut(made, model, &seed, false);
}

// What the first lost last differs, all else is as it was left.
static void compare_kept(const struct run *run, const struct run *second, const char *what)
{
    struct error error = { 0 };
    for (uint32_t l = 0; l < run->lasting->layer_count; l++)
        for (uint32_t part = 0; part < 3; part++) {
            const uint64_t bytes = pipeline_part_bytes(run->pipeline, l, part);
            char *a = calloc(2, bytes + 1), *b = a + bytes;
            assert_non_null(a);
            assert_good(pipeline_read_part(run->pipeline, l, part, a, &error)
                        && pipeline_read_part(second->pipeline, l, part, b, &error), error);
            if (memcmp(a, b, bytes) != 0)
                fail_msg("%s: part %u of %s differs", what, part, run->lasting->layers[l].name);
            free(a);
        }
}

// Weights and states are where the other plan wants them, and it goes on.
static void another_plan_finds_every_layer(void **state)
{
    (void)state;
    static const char *const names[] = { "gpipe", "1f1b", "zb-v", "pipedream", "pipedream-2bw" };
    enum { NAMES = sizeof names / sizeof names[0] };
    for (uint32_t pair = 0; pair < NAMES * NAMES; pair++) {
        struct error error = { 0 };
        uint64_t seed = pair;
        char what[200];
        struct made made = { 0 }, other = { 0 };
        struct model *model = small_model(&seed, PRECISION_FP32);
        struct run run, second;
        make(&made, names[pair / NAMES], pair % 2 ? 4 : 2, model, 1);
        make(&other, names[pair % NAMES], pair % 2 ? 2 : 4, model, 2);
        snprintf(what, sizeof what, "%s, then %s", made.plan.schedule, other.plan.schedule);
        open_run(&run, &made, model, "cpu", NULL);
        make_passes(&run, PASSES);
        empty_folder();
        save(&run);
        open_run(&second, &other, model, "cpu", NULL);
        assert_good(go_on(&second, &error), error);
        compare_kept(&run, &second, what);
        make_passes(&second, 1);
        assert_true(pipeline_updates(second.pipeline, 0) > pipeline_updates(run.pipeline, 0));
        close_run(&second);
        close_run(&run);
        model_free(model);
    }
}

// Replicas take micro-batches in turns, so that their stage makes fewer updates than another one.
static void layers_of_unlike_updates_in_a_stage_are_told(void **state)
{
    (void)state;
    struct error error = { 0 };
    uint64_t seed = 1;
    const uint32_t replicas[] = { 2, 1 };
    const struct asked asked = { .generator = generator_find("pipedream", &error), .ranks = 3, .chunks = 1, .stages = 2,
                                 .micro_batches = 4, .replicas = replicas };
    struct made made = { 0 }, other = { 0 };
    struct model *model = small_model(&seed, PRECISION_FP32);
    struct run run, second;
    assert_good(asked.generator, error);
    assert_true(set_schedule(&made, &asked));
    made.plan.storage.optimizer = OPTIMIZER_ADAMW;
    cut(&made, model, &seed, false);
    make(&other, "1f1b", 1, model, 1);
    open_run(&run, &made, model, "cpu", NULL);
    make_passes(&run, PASSES);
    empty_folder();
    save(&run);
    open_run(&second, &other, model, "cpu", NULL);
    assert_good(go_on(&second, &error), error);
    assert_non_null(strstr(said, "stage 0 has layers that have seen 8 updates, and such that have seen 16: an optimizer"
                                 " that goes by their number takes it for 16 in all of them"));
    assert_int_equal(pipeline_updates(second.pipeline, 0), 16);
    close_run(&second);
    close_run(&run);
    model_free(model);
}

static uint64_t size_of(const char *path)
{
    struct stat about;
    assert_int_equal(stat(path, &about), 0);
    return (uint64_t)about.st_size;
}

static void flip(const char *path, uint64_t bit)
{
    char byte;
    const int file = open(path, O_RDWR);
    assert_true(file >= 0);
    assert_int_equal(pread(file, &byte, 1, (off_t)(bit / 8)), 1);
    byte ^= (char)(1 << bit % 8);
    assert_int_equal(pwrite(file, &byte, 1, (off_t)(bit / 8)), 1);
    close(file);
}

// In whatever file a bit is another one, the checkpoint before is used, and the damage is said.
static void a_bit_that_is_flipped_is_found(void **state)
{
    (void)state;
    static const char *const files[] = { "manifest.json", "embedding.safetensors", "head.safetensors",
                                         "block1.mlp.optimizer.safetensors" };
    struct error error = { 0 };
    uint64_t seed = 1;
    struct made made = { 0 };
    struct model *model = small_model(&seed, PRECISION_FP32);
    struct run run;
    make(&made, "1f1b", 2, model, 1);
    open_run(&run, &made, model, "cpu", NULL);
    make_passes(&run, PASSES);
    empty_folder();
    save(&run);
    make_passes(&run, 1);
    save(&run);
    close_run(&run);
    open_run(&run, &made, model, "cpu", NULL);
    for (size_t f = 0; f < sizeof files / sizeof files[0]; f++) {
        char path[200], want[200];
        snprintf(path, sizeof path, "%s/step-%d/%s", folder, PASSES + 1, files[f]);
        const uint64_t bits = 8 * size_of(path);
        for (uint64_t trial = 0; trial < test_trials(60, 5000); trial++) {
            // The first ones in the length and the header.
            const uint64_t bit = trial % 3 ? random_below(&seed, bits) : trial;
            flip(path, bit);
            if (!go_on(&run, &error))
                fail_msg("bit %llu of %s: %s", (unsigned long long)bit, files[f], error.text);
            snprintf(want, sizeof want, "%s/step-%d", folder, PASSES + 1);
            if (strncmp(said, want, strlen(want)) != 0 || !strstr(said, "; it is left out\ngoes on from "))
                fail_msg("bit %llu of %s: \"%s\"", (unsigned long long)bit, files[f], said);
            flip(path, bit);
        }
    }
    close_run(&run);
    model_free(model);
}

// The place and both checksums are named.
static void damage_has_a_place(void **state)
{
    (void)state;
    struct error error = { 0 };
    uint64_t seed = 1;
    struct made made = { 0 };
    struct model *model = small_model(&seed, PRECISION_FP32);
    struct run run;
    char path[200];
    make(&made, "1f1b", 2, model, 1);
    open_run(&run, &made, model, "cpu", NULL);
    make_passes(&run, PASSES);
    empty_folder();
    save(&run);
    snprintf(path, sizeof path, "%s/step-%d/head.optimizer.safetensors", folder, PASSES);
    flip(path, 8 * (size_of(path) - 1));
    assert_false(go_on(&run, &error));
    assert_non_null(strstr(said, "head.optimizer.safetensors: is damaged: bytes "));
    assert_non_null(strstr(said, ", head.words.second_moment, have the checksum "));
    assert_non_null(strstr(said, " was written; it is left out\n"));
    assert_non_null(strstr(error.text, "none of its 1 checkpoints is whole"));
    assert_int_equal(error.kind, ERROR_INPUT);
    close_run(&run);
    model_free(model);
}

static void another_run_is_refused(void **state)
{
    (void)state;
    uint64_t seed = 1;
    struct made made = { 0 };
    struct model *model = small_model(&seed, PRECISION_FP32);
    struct run run;
    make(&made, "1f1b", 2, model, 1);
    open_run(&run, &made, model, "cpu", NULL);
    make_passes(&run, PASSES);
    empty_folder();
    save(&run);
    for (int i = 0; i < 5; i++) {
        static const char *const sentences[] = { "the checkpoint is of model \"by hand\", and this run is of \"other\"",
                                                 "is of a run with --seed 1, and this one has 2",
                                                 "is of a run on other text",
                                                 "is of a run in fp32, and this one is in bf16",
                                                 "with the optimizer adamw, and this one has sgd" };
        struct error error = { 0 };
        struct manifest manifest = describe(&run), *found;
        struct lasting_model lasting = *run.lasting;
        struct resume_request request = { .folder = folder, .lasting = &lasting, .pipeline = run.pipeline,
                                          .run = &manifest, .rules = &same_run, .say = note };
        if (i == 0)
            manifest.model = (char *)(uintptr_t)"other";
        manifest.seed += i == 1;
        if (i == 2)
            snprintf(manifest.data_hash, sizeof manifest.data_hash, "other");
        lasting.form.precision = i == 3 ? PRECISION_BF16 : PRECISION_FP32;
        lasting.form.optimizer = i == 4 ? OPTIMIZER_SGD : OPTIMIZER_ADAMW;
        assert_false(resume_run(&request, &found, &error));
        if (!strstr(error.text, sentences[i]))
            fail_msg("\"%s\" instead of \"%s\"", error.text, sentences[i]);
    }
    close_run(&run);
    model_free(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_schedule_goes_on_bit_for_bit),
        cmocka_unit_test(fp16_goes_on_bit_for_bit),
        cmocka_unit_test(copies_go_on_bit_for_bit),
        cmocka_unit_test(random_schedules_go_on_bit_for_bit),
        cmocka_unit_test(another_plan_finds_every_layer),
        cmocka_unit_test(layers_of_unlike_updates_in_a_stage_are_told),
        cmocka_unit_test(a_bit_that_is_flipped_is_found),
        cmocka_unit_test(damage_has_a_place),
        cmocka_unit_test(another_run_is_refused),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
