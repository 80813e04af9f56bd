// Recordings: whatever a queue is given comes out with the same bits as without them, and
// what was the same as before is given at once.
#include <string.h>

#include "common/random.h"
#include "device/kernels.h"
#include "device/table_kernels.h"
#include "tests/test.h"

// --- random programs ----------------------------------------------------------------------

enum { BUFFERS = 8, COUNT = 48, MOST_STEPS = 24, PROGRAMS = 3, PASSES = 9 };

enum kind { ADD, SCALE, DROP, ADD_BRANCH, FILL, PRODUCT, NORM, ADAMW, SGD, LARS, LAMB, ZERO, COPY, UPLOAD, DOWNLOAD,
            MARK, CALL, KINDS };

struct step {
    enum kind kind;
    int out, a, b;
    float number;
    size_t count;
};

struct program {
    struct step steps[MOST_STEPS];
    size_t count;
};

struct bench {
    struct device *device;
    struct queue *queue;
    struct event *event;
    float *buffers[BUFFERS];
    float host[PASSES * PROGRAMS][MOST_STEPS][COUNT];  // downloaded
    struct recorded *recorded[PROGRAMS];
    size_t replayed;
};

static struct step random_step(uint64_t *seed)
{
    return (struct step){
        .kind = (enum kind)random_below(seed, KINDS),
        .out = (int)random_below(seed, BUFFERS),
        .a = (int)random_below(seed, BUFFERS),
        .b = (int)random_below(seed, BUFFERS),
        .number = (float)random_below(seed, 3) / 2,
        .count = 16 * (1 + random_below(seed, 3)),
    };
}

static struct program random_program(uint64_t *seed)
{
    struct program program = { .count = 1 + random_below(seed, MOST_STEPS) };
    for (size_t i = 0; i < program.count; i++)
        program.steps[i] = random_step(seed);
    return program;
}

static struct values *values_of(const struct bench *bench, int buffer)
{
    return (struct values *)bench->buffers[buffer];
}

static void add_one(struct queue *queue, const void *arguments)
{
    (void)queue;
    float *numbers = *(float *const *)arguments;
    numbers[0] += 1;
}

// What an update reads and writes must lie apart.
static struct optimizer_span span_of(const struct bench *bench, const struct step *step)
{
    float *next = bench->buffers[step->out];
    return (struct optimizer_span){
        .next = (struct values *)next, .weights = (struct values *)next,
        .gradients = bench->buffers[(step->out + 1) % BUFFERS], .first = bench->buffers[(step->out + 2) % BUFFERS],
        .second = bench->buffers[(step->out + 3) % BUFFERS], .count = step->count,
    };
}

static void do_update(const struct bench *bench, const struct step *step, uint64_t pass)
{
    const struct optimizer_span span = span_of(bench, step);
    if (step->kind == SGD) {
        kernel_sgd(bench->queue, &(struct sgd){ .rate = 0.01f * (float)(1 + pass), .momentum = 0.5f }, &span);
        return;
    }
    if (step->kind == LARS) {
        kernel_lars(bench->queue, &(struct lars){ .rate = 0.01f * (float)(1 + pass), .momentum = 0.5f, .trust = 0.5f },
                    &span);
        return;
    }
    // Its second moments are not negative.
    kernel_dropout(bench->queue, (struct values *)span.second, (struct values *)span.second, 16,
                   (struct dropout){ .probability = 0.25f, .key = pass });
    kernel_log_counts(bench->queue, (struct values *)span.second, (struct values *)span.second, COUNT);
    if (step->kind == LAMB) {
        kernel_lamb(bench->queue, &(struct lamb){ .rate = 0.1f / (float)(1 + pass), .beta1 = 0.9f, .beta2 = 0.99f,
                                                  .epsilon = 1e-6f, .trusts = true, .update = 1 + pass }, &span);
        return;
    }
    const struct adamw adamw = { .rate = 0.1f / (float)(1 + pass), .beta1 = 0.9f, .beta2 = 0.99f, .epsilon = 1e-6f,
                                 .decay = step->number / 8, .update = 1 + pass };
    kernel_adamw(bench->queue, &adamw, &span);
}

static void do_norm(const struct bench *bench, const struct step *step)
{
    const int out = (step->a + 1) % BUFFERS, mean = (step->a + 2) % BUFFERS, rstd = (step->a + 3) % BUFFERS;
    const struct layer_norm norm = { .in = values_of(bench, step->a), .gain = values_of(bench, (step->a + 4) % BUFFERS),
                                     .offset = values_of(bench, (step->a + 5) % BUFFERS), .rows = step->count / 16,
                                     .columns = 16 };
    kernel_layer_norm(bench->queue, &norm, values_of(bench, out), bench->buffers[mean], bench->buffers[rstd]);
}

// Its numbers are kept small, so that no pass ends in infinities.
static void do_product(const struct bench *bench, const struct step *step)
{
    const int out = (step->a + 1) % BUFFERS, other = (step->a + 2) % BUFFERS;
    kernel_log_counts(bench->queue, values_of(bench, other), values_of(bench, other), COUNT);
    kernel_matmul(bench->queue, &(struct matmul){ .m = 4, .n = 4, .k = 4 * step->count / 16, .transpose_b = true,
                                                  .a = values_of(bench, step->a), .b = values_of(bench, other),
                                                  .c = values_of(bench, out) });
}

static void do_step(struct bench *bench, const struct step *step, uint64_t pass, float *host)
{
    struct values *out = values_of(bench, step->out);
    const struct values *a = values_of(bench, step->a);
    const struct dropout dropout = { .probability = step->number / 2, .key = dropout_key(1, pass, 2, 3) };
    float numbers[COUNT];
    switch (step->kind) {
    case ADD:
        kernel_add(bench->queue, out, a, values_of(bench, step->b), step->count);
        break;
    case SCALE:
        kernel_scale(bench->queue, bench->buffers[step->out], bench->buffers[step->a], step->number, step->count);
        break;
    case DROP:
        kernel_dropout(bench->queue, out, a, step->count, dropout);
        break;
    case ADD_BRANCH:
        kernel_add_branch(bench->queue, out, a, values_of(bench, step->b), values_of(bench, (step->out + 1) % BUFFERS),
                          step->count / 16, 16, dropout);
        break;
    case FILL:
        kernel_fill(bench->queue, out, step->number, step->count);
        break;
    case PRODUCT:
        do_product(bench, step);
        break;
    case NORM:
        do_norm(bench, step);
        break;
    case ZERO:
        queue_zero(bench->queue, out, step->count);
        break;
    case COPY:
        queue_copy(bench->queue, out, a, step->count);
        break;
    case UPLOAD:
        for (size_t i = 0; i < step->count; i++)
            numbers[i] = (float)(pass * i % 11) - 5;
        queue_upload(bench->queue, out, numbers, step->count * sizeof(float));
        break;
    case DOWNLOAD:
        queue_download(bench->queue, host, a, step->count * sizeof(float));
        break;
    case MARK:
        event_record(bench->event, bench->queue);
        queue_wait_event(bench->queue, bench->event);
        break;
    case CALL:
        queue_call(bench->queue, add_one, &bench->buffers[step->out], sizeof bench->buffers[0]);
        break;
    default:
        do_update(bench, step, pass);
    }
}

static struct bench *bench_open(const char *name)
{
    struct error error = { 0 };
    struct bench *bench = calloc(1, sizeof *bench);
    assert_non_null(bench);
    bench->device = device_open(name, &error);
    assert_good(bench->device, error);
    bench->queue = queue_create(bench->device, &error);
    bench->event = event_create(bench->device, &error);
    assert_good(bench->queue && bench->event, error);
    for (int i = 0; i < BUFFERS; i++) {
        bench->buffers[i] = device_allocate(bench->device, COUNT * sizeof(float), &error);
        assert_good(bench->buffers[i], error);
        kernel_fill_normal(bench->queue, values_of(bench, i), 1, (uint64_t)i, 0, COUNT);
    }
    for (int i = 0; i < PROGRAMS; i++)
        assert_good(bench->recorded[i] = recorded_create(bench->device, &error), error);
    return bench;
}

static void bench_close(struct bench *bench)
{
    queue_free(bench->queue);
    event_free(bench->event);
    for (int i = 0; i < PROGRAMS; i++)
        recorded_free(bench->recorded[i]);
    for (int i = 0; i < BUFFERS; i++)
        device_release(bench->device, bench->buffers[i]);
    assert_int_equal(device_memory(bench->device).workspace_bytes, 0);
    device_close(bench->device);
    free(bench);
}

static void do_program(struct bench *bench, const struct program *program, int number, uint64_t pass)
{
    queue_record_begin(bench->queue, bench->recorded[number]);
    for (size_t i = 0; i < program->count; i++)
        do_step(bench, &program->steps[i], pass, bench->host[pass * PROGRAMS + (uint64_t)number][i]);
    bench->replayed += queue_record_end(bench->queue);
}

// Programs in turn, prepared now and then, one step of one of them changed now and then.
static struct bench *play(const char *name, uint64_t trial)
{
    uint64_t seed = trial;
    struct error error = { 0 };
    struct program programs[PROGRAMS];
    struct bench *bench = bench_open(name);
    const bool changes = random_below(&seed, 2), waits = random_below(&seed, 2);
    for (int i = 0; i < PROGRAMS; i++)
        programs[i] = random_program(&seed);
    for (uint64_t pass = 0; pass < PASSES; pass++) {
        const uint64_t chance = random_below(&seed, 3);
        struct program *changed = &programs[random_below(&seed, PROGRAMS)];
        const struct step other = random_step(&seed);
        const size_t at = random_below(&seed, changed->count);
        if (changes && chance == 0)
            changed->steps[at] = other;
        if (changes && chance == 1 && changed->count > 1)
            changed->count--;
        for (int i = 0; i < PROGRAMS; i++)
            do_program(bench, &programs[i], i, pass);
        if (waits)
            assert_good(queue_wait(bench->queue, &error), error);
        for (int i = 0; i < PROGRAMS; i++)
            recorded_prepare(bench->recorded[i], bench->queue);
    }
    assert_good(queue_wait(bench->queue, &error), error);
    return bench;
}

static void compare_one(uint64_t trial, size_t *replayed)
{
    struct bench *plain = play("cpu", trial), *recording = play("cpu:queued,graphs", trial);
    for (int i = 0; i < BUFFERS; i++)
        if (memcmp(plain->buffers[i], recording->buffers[i], COUNT * sizeof(float)) != 0)
            fail_msg("trial %d: buffer %d differs", (int)trial, i);
    if (memcmp(plain->host, recording->host, sizeof plain->host) != 0)
        fail_msg("trial %d: what was downloaded differs", (int)trial);
    const struct device_memory before = device_memory(plain->device), with = device_memory(recording->device);
    assert_true(before.peak_bytes == with.peak_bytes && before.allocations == with.allocations);
    assert_int_equal(plain->replayed, 0);
    *replayed += recording->replayed;
    bench_close(plain);
    bench_close(recording);
}

static void whatever_is_given_comes_out_with_the_same_bits(void **state)
{
    (void)state;
    size_t replayed = 0;
    const uint64_t trials = test_trials(400, 10000);
    for (uint64_t trial = 0; trial < trials; trial++)
        compare_one(trial, &replayed);
    print_message("# %zu of %d programs were replayed\n", replayed, (int)trials * PROGRAMS * PASSES);
    assert_true(replayed > trials * PROGRAMS * PASSES / 3);
}

// --- what may differ, and what may not ------------------------------------------------------

static void give_some(struct bench *bench, size_t calls, float factor, uint64_t key)
{
    for (size_t i = 0; i < calls; i++) {
        kernel_scale(bench->queue, bench->buffers[0], bench->buffers[1], factor, COUNT);
        kernel_dropout(bench->queue, values_of(bench, 2), values_of(bench, 3), COUNT,
                       (struct dropout){ .probability = 0.5f, .key = key });
    }
}

static bool record_some(struct bench *bench, size_t calls, float factor, uint64_t key)
{
    queue_record_begin(bench->queue, bench->recorded[0]);
    give_some(bench, calls, factor, key);
    return queue_record_end(bench->queue);
}

static void only_what_was_noted_and_prepared_is_replayed(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct bench *bench = bench_open("cpu:queued,graphs");
    assert_true(device_records(bench->device));
    assert_false(record_some(bench, 2, 1, 1));
    assert_false(record_some(bench, 2, 1, 1));  // not prepared
    recorded_prepare(bench->recorded[0], bench->queue);
    assert_true(record_some(bench, 2, 1, 1));
    assert_true(record_some(bench, 2, 1, 2));   // another key
    assert_true(device_memory(bench->device).workspace_bytes > 0);
    assert_false(record_some(bench, 2, 3, 1));  // another factor
    assert_good(queue_wait(bench->queue, &error), error);
    assert_float_equal(bench->buffers[0][5], 3 * bench->buffers[1][5], 0);
    recorded_prepare(bench->recorded[0], bench->queue);
    assert_true(record_some(bench, 2, 3, 1));
    assert_false(record_some(bench, 1, 3, 1));  // shorter
    assert_good(queue_wait(bench->queue, &error), error);
    recorded_prepare(bench->recorded[0], bench->queue);
    assert_false(record_some(bench, 2, 3, 1));  // longer
    bench_close(bench);
}

// One that is never the same is given up.
static void what_always_changes_is_given_as_it_comes(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct bench *bench = bench_open("cpu:queued,graphs");
    for (int i = 0; i < 12; i++) {
        assert_false(record_some(bench, 2, (float)i, 1));
        assert_good(queue_wait(bench->queue, &error), error);
        assert_float_equal(bench->buffers[0][7], (float)i * bench->buffers[1][7], 0);
        recorded_prepare(bench->recorded[0], bench->queue);
    }
    assert_false(record_some(bench, 2, 11, 1) || record_some(bench, 2, 11, 1));
    bench_close(bench);
}

static void fail_in_turn(struct queue *queue, const void *arguments)
{
    (void)arguments;
    queue_fail(queue, "told to");
}

static void a_queue_that_fails_within_a_recording_says_so(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct bench *bench = bench_open("cpu:queued,graphs");
    record_some(bench, 2, 1, 1);
    recorded_prepare(bench->recorded[0], bench->queue);
    queue_record_begin(bench->queue, bench->recorded[0]);
    give_some(bench, 1, 1, 1);
    queue_call(bench->queue, fail_in_turn, NULL, 0);
    assert_false(queue_wait(bench->queue, &error));
    give_some(bench, 1, 1, 1);
    assert_false(queue_record_end(bench->queue));
    assert_string_equal(error.text, "told to");
    bench_close(bench);
}

// The bad token lies in what is replayed.
static void a_replayed_kernel_can_fail(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct bench *bench = bench_open("cpu:queued,graphs");
    const struct embedding embedding = { .tokens = (int32_t *)bench->buffers[0], .rows = 1, .sequence = 1,
                                         .columns = 4, .vocabulary = 4 };
    for (int32_t token = 2; token <= 4; token++) {
        queue_record_begin(bench->queue, bench->recorded[0]);
        queue_upload(bench->queue, bench->buffers[0], &token, sizeof token);
        for (int i = 0; i < 2; i++)
            kernel_embedding(bench->queue, &embedding, values_of(bench, 1 + i), values_of(bench, 3), values_of(bench, 4));
        const bool was_replayed = queue_record_end(bench->queue);
        if (token < 4)  // the last may have failed by now, or not yet
            assert_int_equal(was_replayed, token > 2);
        assert_true(queue_wait(bench->queue, &error) == (token < 4));
        recorded_prepare(bench->recorded[0], bench->queue);
    }
    assert_string_equal(error.text, "a token is outside the vocabulary");
    bench_close(bench);
}

static void a_loss_whose_rows_lie_further_apart_is_another_one(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct bench *bench = bench_open("cpu:queued,graphs");
    struct cross_entropy loss = { .logits = values_of(bench, 0), .targets = (int32_t *)bench->buffers[1], .rows = 2,
                                  .columns = 4, .scale = 1 };
    float *sum = bench->buffers[2], *log_sums = bench->buffers[3];
    const size_t strides[] = { 4, 4, 6 };
    queue_zero(bench->queue, bench->buffers[1], sizeof(int32_t) * loss.rows);
    for (size_t pass = 0; pass < 3; pass++) {
        loss.stride = strides[pass];
        queue_record_begin(bench->queue, bench->recorded[0]);
        kernel_cross_entropy(bench->queue, &loss, sum, log_sums);
        kernel_cross_entropy_backward(bench->queue, &loss, values_of(bench, 4), log_sums);
        kernel_cross_entropy_both(bench->queue, &loss, sum, log_sums, values_of(bench, 4), 1);
        assert_int_equal(queue_record_end(bench->queue), pass == 1);
        assert_good(queue_wait(bench->queue, &error), error);
        recorded_prepare(bench->recorded[0], bench->queue);
    }
    bench_close(bench);
}

static void devices_that_do_not_record_do_everything_all_the_same(void **state)
{
    (void)state;
    const char *const names[] = { "cpu", "cpu:queued" };
    for (size_t i = 0; i < 2; i++) {
        struct error error = { 0 };
        struct bench *bench = bench_open(names[i]);
        assert_false(device_records(bench->device));
        for (int pass = 0; pass < 3; pass++) {
            assert_false(record_some(bench, 2, 2, 1));
            recorded_prepare(bench->recorded[0], bench->queue);
        }
        assert_good(queue_wait(bench->queue, &error), error);
        assert_float_equal(bench->buffers[0][3], 2 * bench->buffers[1][3], 0);
        bench_close(bench);
    }
}

static void a_device_that_does_each_thing_at_once_has_nothing_to_replay(void **state)
{
    (void)state;
    struct error error = { 0 };
    assert_null(device_open("cpu:graphs", &error));
    assert_string_equal(error.text, "device cpu:graphs has nothing to replay: it does each thing at once "
                                    "(cpu:queued,graphs records)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whatever_is_given_comes_out_with_the_same_bits),
        cmocka_unit_test(only_what_was_noted_and_prepared_is_replayed),
        cmocka_unit_test(what_always_changes_is_given_as_it_comes),
        cmocka_unit_test(a_queue_that_fails_within_a_recording_says_so),
        cmocka_unit_test(a_replayed_kernel_can_fail),
        cmocka_unit_test(a_loss_whose_rows_lie_further_apart_is_another_one),
        cmocka_unit_test(devices_that_do_not_record_do_everything_all_the_same),
        cmocka_unit_test(a_device_that_does_each_thing_at_once_has_nothing_to_replay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
