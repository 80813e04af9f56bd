// What schedule_check() accepts never hangs, and what it refuses is shown stuck:
// random schedules, run in the strictest of worlds, where RECV and SEND wait where
// they stand and `capacity` messages of a channel are buffered.
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "runtime/run.h"
#include "runtime/synthetic.h"
#include "schedules/check.h"
#include "schedules/lower.h"
#include "tests/test.h"

enum { MOST_STAGES = 6, MOST_MICRO_BATCHES = 4 };

// --- random orders -------------------------------------------------------------------

// How far each micro-batch is on each stage.
struct progress {
    bool forward[MOST_STAGES][MOST_MICRO_BATCHES], input[MOST_STAGES][MOST_MICRO_BATCHES];
    bool weight[MOST_STAGES][MOST_MICRO_BATCHES], step[MOST_STAGES];
};

static bool is_ready(const struct schedule *order, const struct progress *did, struct action action)
{
    const uint32_t s = action.stage, i = action.micro_batch;
    switch (action.kind) {
    case ACTION_F:
        return !did->forward[s][i] && (s == 0 || did->forward[s - 1][i]);
    case ACTION_B:
    case ACTION_I:
        return did->forward[s][i] && !did->input[s][i] && (s + 1 == order->stages || did->input[s + 1][i]);
    case ACTION_W:
        return did->input[s][i] && !did->weight[s][i];
    default:
        for (uint32_t k = 0; k < order->micro_batches; k++)
            if (!did->weight[s][k])
                return false;
        return !did->step[s];
    }
}

static void note(struct progress *did, struct action action)
{
    if (action.kind == ACTION_STEP) {
        did->step[action.stage] = true;
        return;
    }
    did->forward[action.stage][action.micro_batch] = true;
    did->input[action.stage][action.micro_batch] |= action.kind != ACTION_F;
    did->weight[action.stage][action.micro_batch] |= action.kind == ACTION_B || action.kind == ACTION_W;
}

static size_t collect_ready(const struct schedule *order, const struct progress *did, bool split,
                            struct action *ready)
{
    size_t count = 0;
    for (uint16_t s = 0; s < order->stages; s++) {
        for (uint32_t i = 0; i < order->micro_batches; i++) {
            const struct action actions[] = {
                { .stage = s, .kind = ACTION_F, .micro_batch = i },
                { .stage = s, .kind = split ? ACTION_I : ACTION_B, .micro_batch = i },
                { .stage = s, .kind = ACTION_W, .micro_batch = i },
            };
            for (int k = 0; k < 3; k++)
                if (is_ready(order, did, actions[k]))
                    ready[count++] = actions[k];
        }
        const struct action step = { .stage = s, .kind = ACTION_STEP, .micro_batch = NO_MICRO_BATCH };
        if (is_ready(order, did, step))
            ready[count++] = step;
    }
    return count;
}

// Any of the ready actions, again and again.
static struct schedule *random_order(uint64_t *seed)
{
    struct error error = { 0 };
    const uint32_t ranks = 2 + (uint32_t)random_below(seed, 3);
    const uint32_t stages = ranks + (uint32_t)random_below(seed, MOST_STAGES - ranks + 1);
    const uint32_t micro_batches = 1 + (uint32_t)random_below(seed, MOST_MICRO_BATCHES);
    const bool split = random_below(seed, 2);
    struct schedule *order = schedule_create("random", WEIGHTS_FLUSH, ranks, stages, micro_batches, &error);
    assert_good(order, error);
    for (uint32_t s = ranks; s < stages; s++)
        order->routes[s] = (uint32_t)random_below(seed, ranks);
    struct progress did = { 0 };
    struct action ready[MOST_STAGES * (3 * MOST_MICRO_BATCHES + 1)];
    for (size_t count; (count = collect_ready(order, &did, split, ready)) > 0;) {
        const struct action action = ready[random_below(seed, count)];
        note(&did, action);
        assert_good(schedule_add(order, order->routes[action.stage], action, &error), error);
    }
    return order;
}

// --- and what becomes of them ----------------------------------------------------------------

static bool is_message(struct action action)
{
    return action.kind >= ACTION_SEND_F && action.kind <= ACTION_RECV_B;
}

// Whether a message and an action of its own stage have nothing to do with each
// other: a SEND stays between what makes it and what may overwrite its buffer, a
// RECV before its use.
static bool is_free(struct action message, struct action other)
{
    const bool goes_back = other.kind == ACTION_B || other.kind == ACTION_I;
    switch (message.kind) {
    case ACTION_SEND_F:
        return other.kind != ACTION_F;
    case ACTION_SEND_B:
        return !goes_back;
    case ACTION_RECV_F:
        return other.kind != ACTION_F || other.micro_batch != message.micro_batch;
    default:
        return !goes_back || other.micro_batch != message.micro_batch;
    }
}

// Whether two neighbours in a list may change places, so that all that can go wrong
// is to wait for ever: messages of a channel keep their order.
static bool may_swap(struct action a, struct action b)
{
    if (a.kind == ACTION_STEP || b.kind == ACTION_STEP || (!is_message(a) && !is_message(b)))
        return false;
    if (a.stage != b.stage)
        return true;
    if (is_message(a) && is_message(b))
        return a.kind != b.kind;
    return is_message(a) ? is_free(a, b) : is_free(b, a);
}

static void move_messages(uint64_t *seed, struct schedule *lowered)
{
    for (uint64_t moves = random_below(seed, 4); moves > 0; moves--) {
        struct action_list *list = &lowered->lists[random_below(seed, lowered->ranks)];
        size_t at = random_below(seed, list->count);
        const bool up = random_below(seed, 2);
        for (uint64_t way = 1 + random_below(seed, 8); way > 0 && list->count > 1; way--) {
            if (up ? at + 1 == list->count : at == 0)
                break;
            struct action *a = &list->at[up ? at : at - 1];
            if (!may_swap(a[0], a[1]))
                break;
            const struct action other = a[0];
            a[0] = a[1];
            a[1] = other;
            at += up ? 1 : (size_t)-1;
        }
    }
}

// --- stages that take their time ---------------------------------------------------------------

static void delay(const struct synthetic *self, const struct stage_pass *pass, uint64_t salt)
{
    uint64_t seed = self->costs.step_ns * 1000 + self->stage * 100 + pass->micro_batch * 10 + salt;
    random_next(&seed);
    for (uint64_t yields = random_below(&seed, 4); yields > 0; yields--)
        sched_yield();
    if (random_below(&seed, 10) == 0)
        nanosleep(&(struct timespec){ 0, (long)random_below(&seed, 200000) }, NULL);
}

static bool slow_forward(void *self, const struct stage_pass *pass, struct error *error)
{
    delay(self, pass, 0);
    return synthetic_stage(self).functions->forward(self, pass, error);
}

static bool slow_backward(void *self, const struct stage_pass *pass, struct error *error)
{
    delay(self, pass, 1);
    return synthetic_stage(self).functions->backward(self, pass, error);
}

static bool slow_backward_input(void *self, const struct stage_pass *pass, struct error *error)
{
    delay(self, pass, 2);
    return synthetic_stage(self).functions->backward_input(self, pass, error);
}

static bool slow_backward_weight(void *self, const struct stage_pass *pass, struct error *error)
{
    delay(self, pass, 3);
    return synthetic_stage(self).functions->backward_weight(self, pass, error);
}

static bool slow_initialize(void *self, struct queue *queue, void *weights, struct error *error)
{
    return synthetic_stage(self).functions->initialize(self, queue, weights, error);
}

static const struct stage_functions slow_functions = {
    .forward = slow_forward,
    .backward = slow_backward,
    .backward_input = slow_backward_input,
    .backward_weight = slow_backward_weight,
    .initialize = slow_initialize,
};

// --- the two judges --------------------------------------------------------------------------------

static bool run(struct device *device, const struct schedule *lowered, uint64_t trial, enum waiting waiting,
                uint32_t capacity, struct error *error)
{
    struct cost_row costs[MOST_STAGES];
    struct synthetic synthetic[MOST_STAGES];
    struct stage stages[MOST_STAGES];
    for (uint32_t s = 0; s < lowered->stages; s++)
        costs[s] = (struct cost_row){ .output_bytes = 512, .kept_forward_bytes = 512, .kept_weight_bytes = 256,
                                      .version_bytes = 256, .step_ns = trial };
    for (uint32_t s = 0; s < lowered->stages; s++) {
        synthetic[s] = synthetic_from_costs(costs, lowered->stages, s);
        synthetic[s].bytes.input_life = (enum input_life)(trial % 3);
        stages[s] = synthetic_stage(&synthetic[s]);
        stages[s].functions = &slow_functions;
    }
    const struct session_settings settings = { .waiting = waiting, .capacity = capacity,
                                               .optimizer = { .kind = OPTIMIZER_SGD, .rate = 1.0f } };
    struct session *session = session_create(lowered, stages, device, &settings, error);
    const bool good = session && session_step(session, error);
    session_free(session);
    return good;
}

// Every link of the cycle that the checker found stands in the runtime's sentence,
// as far as that was not cut.
static bool names_the_cycle(const char *sentence, const struct check_result *result)
{
    char cycle[2000];
    snprintf(cycle, sizeof cycle, "%s", result->cycle.data ? result->cycle.data : "");
    char *rest = cycle;
    for (char *link; (link = strsep(&rest, ";"));)
        if (!strstr(sentence, link + strspn(link, " ")))
            return strlen(sentence) >= 499;
    return true;
}

struct tally {
    size_t accepted, refused;
};

static void try_schedule(struct device *device, uint64_t trial, struct tally *tally)
{
    uint64_t seed = trial;
    struct error error = { 0 };
    struct schedule *order = random_order(&seed), *lowered = schedule_lower(order, &error);
    assert_good(lowered, error);
    schedule_free(order);
    move_messages(&seed, lowered);
    const uint32_t capacity = (uint32_t)random_below(&seed, 3) % 2;  // mostly rendezvous
    struct check_result result;
    assert_good(schedule_check(lowered, capacity, &result, &error), error);
    const bool good = run(device, lowered, trial, WAIT_IN_ORDER, capacity, &error);
    if (good != result.ok)
        fail_msg("trial %d: check says %s, the run says %s %s", (int)trial, result.ok ? "yes" : "no",
                 good ? "yes" : "no", error.text);
    if (!good && (strncmp(error.text, "nothing can ever move: ", 23) != 0 || !names_the_cycle(error.text, &result)))
        fail_msg("trial %d: stuck otherwise: %s; not: %s", (int)trial, error.text,
                 result.cycle.data ? result.cycle.data : "");
    // What runs there runs where receives are posted and sends are left behind.
    error = (struct error){ 0 };
    if (result.ok && !run(device, lowered, trial, WAIT_AT_USE, 0, &error))
        fail_msg("trial %d: waiting at use: %s", (int)trial, error.text);
    tally->accepted += result.ok;
    tally->refused += !result.ok;
    check_result_clear(&result);
    schedule_free(lowered);
}

static void what_check_accepts_never_hangs_and_what_it_refuses_is_stuck(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct device *device = device_open("cpu", &error);
    assert_good(device, error);
    struct tally tally = { 0 };
    const uint64_t trials = test_trials(1000, 10000);
    for (uint64_t trial = 0; trial < trials; trial++)
        try_schedule(device, trial, &tally);
    print_message("# %zu accepted, %zu refused\n", tally.accepted, tally.refused);
    assert_true(tally.accepted >= trials / 10 && tally.refused >= trials / 10);
    device_close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_check_accepts_never_hangs_and_what_it_refuses_is_stuck),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
