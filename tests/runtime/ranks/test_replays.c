// Actions that are replayed compute what they compute otherwise: random schedules, with
// stages made of kernels, on queues that record and on those that do not.
#include <string.h>

#include "device/kernels.h"
#include "runtime/run.h"
#include "schedules/check.h"
#include "schedules/cost_part.h"
#include "schedules/generators/generate.h"
#include "tests/random_order.h"

enum { PASSES = 3, SLOT_BYTES = 512, WEIGHTS = SLOT_BYTES / sizeof(float), LONGEST = 16 };

// --- a stage made of kernels ---------------------------------------------------------------

struct kerneled {
    uint32_t stage, stages;
    bool is_fickle;  // gives other calls in every other step
};

static size_t numbers_of(const struct stage_pass *pass)
{
    return cost_part(SLOT_BYTES, pass->base.split, pass->base.splits) / sizeof(float);
}

static struct dropout dropout_of(const struct kerneled *self, const struct stage_pass *pass)
{
    const struct weir_pass *base = &pass->base;
    return (struct dropout){ .probability = 0.25f,
                             .key = dropout_key(base->split, base->step, base->micro_batch, self->stage) };
}

// What the first stage reads is found by who needs it.
static const struct values *input_of(const struct kerneled *self, const struct stage_pass *pass, size_t count)
{
    if (self->stage > 0)
        return pass->base.input;
    float numbers[WEIGHTS];
    for (size_t i = 0; i < count; i++)
        numbers[i] = (float)((pass->base.step * 7 + pass->base.micro_batch * 3 + pass->base.split + i) % 13) / 8;
    queue_upload(pass->base.queue, pass->base.workspace, numbers, count * sizeof(float));
    return pass->base.workspace;
}

static bool forward(void *of, const struct stage_pass *pass, struct error *error)
{
    (void)error;
    const struct kerneled *self = of;
    const size_t count = numbers_of(pass);
    struct values *kept = pass->base.saved;
    kernel_dropout(pass->base.queue, kept, input_of(self, pass, count), count, dropout_of(self, pass));
    if (self->is_fickle && pass->base.step % 2)
        kernel_scale(pass->base.queue, pass->base.saved, pass->base.saved, 0.75f, count);
    struct values *out = pass->base.output ? pass->base.output : (struct values *)pass->base.workspace;
    kernel_add(pass->base.queue, out, kept, pass->base.parameters, count);
    kernel_gelu(pass->base.queue, out, out, count);
    if (pass->base.loss && !pass->base.output)
        queue_download(pass->base.queue, pass->base.loss, out, sizeof(float));
    return true;
}

// The gradient of the output; the last stage begins with what it kept.
static const struct values *gradient_of(const struct stage_pass *pass)
{
    return pass->base.output_gradient ? pass->base.output_gradient : pass->base.saved;
}

static void go_back(const struct kerneled *self, const struct stage_pass *pass)
{
    const size_t count = numbers_of(pass);
    if (!pass->base.input_gradient)
        return;
    kernel_dropout(pass->base.queue, pass->base.input_gradient, gradient_of(pass), count, dropout_of(self, pass));
    kernel_add(pass->base.queue, pass->base.input_gradient, pass->base.input_gradient, pass->base.saved, count);
}

static void add_gradient(const struct stage_pass *pass, const void *gradient)
{
    const size_t count = numbers_of(pass);
    kernel_scale(pass->base.queue, pass->base.workspace, pass->base.parameters, 0.5f, count);
    kernel_add_floats(pass->base.queue, pass->base.workspace, pass->base.workspace, gradient, count);
    kernel_add_floats(pass->base.queue, pass->base.gradients, pass->base.gradients, pass->base.workspace, count);
}

static bool backward(void *of, const struct stage_pass *pass, struct error *error)
{
    (void)error;
    go_back(of, pass);
    add_gradient(pass, gradient_of(pass));
    return true;
}

static bool backward_input(void *of, const struct stage_pass *pass, struct error *error)
{
    (void)error;
    go_back(of, pass);
    kernel_add(pass->base.queue, pass->base.held, gradient_of(pass), pass->base.saved, numbers_of(pass));
    kernel_scale(pass->base.queue, pass->base.held, pass->base.held, 0.5f, numbers_of(pass));
    return true;
}

static bool backward_weight(void *of, const struct stage_pass *pass, struct error *error)
{
    (void)of, (void)error;
    add_gradient(pass, pass->base.held);
    return true;
}

static bool recompute(void *of, const struct stage_pass *pass, struct error *error)
{
    (void)of, (void)error;
    kernel_fill(pass->base.queue, pass->base.workspace, 1, numbers_of(pass));
    return true;
}

static bool initialize(void *of, struct queue *queue, void *weights, struct error *error)
{
    (void)error;
    kernel_fill_normal(queue, weights, 0.5f, ((const struct kerneled *)of)->stage, 0, WEIGHTS);
    return true;
}

static const struct stage_functions functions = {
    .forward = forward,
    .backward = backward,
    .backward_input = backward_input,
    .backward_weight = backward_weight,
    .initialize = initialize,
    .recompute = recompute,
};

static void make_stages(struct stage *stages, struct kerneled *kerneled, const struct schedule *lowered, uint64_t trial)
{
    for (uint32_t s = 0; s < lowered->stages; s++) {
        kerneled[s] = (struct kerneled){ s, lowered->stages, trial % 5 == 4 && s == 1 };
        stages[s] = (struct stage){
            .functions = &functions,
            .self = &kerneled[s],
            .takes_splits = true,
            .bytes = {
                .weights = SLOT_BYTES, .gradients = SLOT_BYTES, .version = SLOT_BYTES, .optimizer = 2 * SLOT_BYTES,
                .input = s > 0 ? SLOT_BYTES : 0, .input_life = (enum input_life)(trial % 3),
                .output = s + 1 < lowered->stages ? SLOT_BYTES : 0, .kept = SLOT_BYTES, .held = SLOT_BYTES,
                .transient = SLOT_BYTES, .transient_with_recompute = SLOT_BYTES,
            },
        };
    }
}

// --- with and without ------------------------------------------------------------------------

enum { MOST_LOSSES = 64, MOST_COPIES = 8 };

struct came_out {
    float losses[PASSES][MOST_LOSSES];
    float weights[PASSES][LONGEST][MOST_COPIES][WEIGHTS];
    uint64_t replayed[PASSES];
};

static void keep(struct session *session, const struct schedule *lowered, uint64_t trial, int pass,
                 struct came_out *out)
{
    struct error error = { 0 };
    const struct session_result *last = session_last(session);
    assert_true(lowered->micro_batches <= MOST_LOSSES);
    memcpy(out->losses[pass], last->losses, lowered->micro_batches * sizeof(float));
    for (uint32_t s = 0; s < lowered->stages; s++)
        for (uint32_t copy = 0; copy < session_copies(session, s); copy++)
            if (!session_read_and_tell(session, &(struct state_span){ .stage = s, .count = WEIGHTS }, copy,
                                       out->weights[pass][s][copy], &error))
                fail_msg("trial %d: %s", (int)trial, error.text);
    for (uint32_t rank = 0; rank < lowered->ranks; rank++)
        out->replayed[pass] += last->efforts[rank].replayed;
}

static struct came_out *run(const char *name, const struct schedule *lowered, uint64_t trial)
{
    struct error error = { 0 };
    struct device *device = device_open(name, &error);
    assert_good(device, error);
    struct stage stages[LONGEST];
    struct kerneled kerneled[LONGEST];
    struct came_out *out = calloc(1, sizeof *out);
    assert_true(out && lowered->stages <= LONGEST);
    make_stages(stages, kerneled, lowered, trial);
    const struct session_settings settings = {
        .waiting = trial % 2 ? WAIT_IN_ORDER : WAIT_AT_USE,
        .optimizer = { .kind = OPTIMIZER_ADAMW, .rate = 0.05f, .beta1 = 0.9f, .beta2 = 0.99f, .epsilon = 1e-6f },
    };
    struct session *session = session_create(lowered, stages, device, &settings, &error);
    for (int pass = 0; pass < PASSES; pass++) {
        if (!session || !session_step(session, &error))
            fail_msg("trial %d on %s: %s", (int)trial, name, error.text);
        session_set_rate(session, 0.05f / (float)(2 + pass));
        keep(session, lowered, trial, pass, out);
    }
    session_free(session);
    device_close(device);
    return out;
}

struct tally {
    uint64_t spans, replayed;
};

static void compare(const struct schedule *lowered, uint64_t trial, struct tally *tally)
{
    struct came_out *plain = run("cpu:queued", lowered, trial), *replays = run("cpu:queued,graphs", lowered, trial);
    if (memcmp(plain->losses, replays->losses, sizeof plain->losses) != 0)
        fail_msg("trial %d: losses differ", (int)trial);
    if (memcmp(plain->weights, replays->weights, sizeof plain->weights) != 0)
        fail_msg("trial %d: weights differ", (int)trial);
    for (uint32_t rank = 0; rank < lowered->ranks; rank++)
        for (size_t i = 0; i < lowered->lists[rank].count; i++) {
            const uint8_t kind = lowered->lists[rank].at[i].kind;
            tally->spans += kind < ACTION_SEND_F || kind == ACTION_STEP;
        }
    tally->replayed += replays->replayed[PASSES - 1];
    assert_int_equal(plain->replayed[PASSES - 1], 0);
    free(plain);
    free(replays);
}

static void random_schedules_come_out_with_the_same_bits(void **state)
{
    (void)state;
    struct tally tally = { 0 };
    const uint64_t trials = test_trials(150, 5000);
    for (uint64_t trial = 0; trial < trials; trial++) {
        uint64_t seed = trial;
        struct traits traits = random_traits(&seed);
        traits.weights = random_below(&seed, 2) ? WEIGHTS_FLUSH : (enum weights)random_below(&seed, WEIGHTS_2BW + 1);
        size_t pairs;
        struct schedule *order = random_order(&seed, &traits), *lowered = random_lower(&seed, order, &traits, &pairs);
        struct check_result result;
        struct error error = { 0 };
        assert_good(schedule_check(lowered, 0, &result, &error), error);
        if (result.ok)  // in the strictest of worlds, so in both
            compare(lowered, trial, &tally);
        check_result_clear(&result);
        schedule_free(lowered);
        schedule_free(order);
    }
    print_message("# %llu of %llu actions of the last passes were replayed\n", (unsigned long long)tally.replayed,
                  (unsigned long long)tally.spans);
    assert_true(tally.replayed > tally.spans / 2);
}

static void all_actions_of_generated_schedules_are_replayed(void **state)
{
    (void)state;
    for (const struct generator *generator = generators; generator->name; generator++) {
        struct error error = { 0 };
        struct schedule *order = schedule_generate(generator->name, generator_ranks(generator, 4), 0, 8, &error);
        assert_good(order, error);
        struct schedule *lowered = schedule_lower(order, &error);
        assert_good(lowered, error);
        struct tally tally = { 0 };
        compare(lowered, 0, &tally);
        // Without a flush, slots and versions come in more ways than there are passes to see them all in.
        if (tally.replayed > tally.spans || (lowered->weights == WEIGHTS_FLUSH && tally.replayed < tally.spans))
            fail_msg("%s: %llu of %llu actions were replayed", generator->name, (unsigned long long)tally.replayed,
                     (unsigned long long)tally.spans);
        schedule_free(lowered);
        schedule_free(order);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_schedules_come_out_with_the_same_bits),
        cmocka_unit_test(all_actions_of_generated_schedules_are_replayed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
