// What schedule_check() accepts never hangs, and what it refuses is shown stuck:
// random schedules, run in the strictest of worlds, where RECV and SEND wait where
// they stand and `capacity` messages of a channel are buffered.
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "runtime/run.h"
#include "schedules/check.h"
#include "tests/random_order.h"
#include "tests/runtime/synthetic.h"

// --- and what becomes of them ----------------------------------------------------------------

static bool is_message(struct action action)
{
    return action.kind >= ACTION_SEND_F && action.kind <= ACTION_RECV_B;
}

static bool is_same_part(struct action a, struct action b)
{
    return a.micro_batch == b.micro_batch && a.split == b.split;
}

// Whether a message and an action of its own stage have nothing to do with each
// other: a SEND stays between what makes it and what may overwrite its buffer, a
// RECV before its use.
static bool is_free(struct action message, struct action other)
{
    const bool goes_back = random_is_backward(other);
    switch (message.kind) {
    case ACTION_SEND_F:
        return other.kind != ACTION_F;
    case ACTION_SEND_B:
        return !goes_back;
    case ACTION_RECV_F:
        return other.kind != ACTION_F || !is_same_part(message, other);
    default:
        return !goes_back || !is_same_part(message, other);
    }
}

// Whether two neighbours in a list may change places, so that all that can go wrong
// is to wait for ever: messages of a channel keep their order.
static bool may_swap(struct action a, struct action b)
{
    if (a.kind == ACTION_REDUCE && b.kind == ACTION_REDUCE)
        return true;
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
            const bool parts_a_group = a[1].joined || (a > list->at && a[-1].joined);
            if (parts_a_group || !may_swap(a[0], a[1]))
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
    uint64_t seed = self->costs.step_ns * 1000 + self->stage * 100 + pass->base.micro_batch * 10 + salt;
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

static bool slow_recompute(void *self, const struct stage_pass *pass, struct error *error)
{
    delay(self, pass, 4);
    return synthetic_stage(self).functions->recompute(self, pass, error);
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
    .recompute = slow_recompute,
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

struct devices {
    struct device *plain, *ahead;
};

struct tally {
    size_t accepted, refused, pairs, copies, splits;
};

static void try_schedule(const struct devices *devices, uint64_t trial, struct tally *tally)
{
    uint64_t seed = trial;
    struct error error = { 0 };
    struct traits traits = random_traits(&seed);
    traits.weights = random_below(&seed, 2) ? WEIGHTS_FLUSH : (enum weights)random_below(&seed, WEIGHTS_2BW + 1);
    size_t pairs;
    struct schedule *order = random_order(&seed, &traits), *lowered = random_lower(&seed, order, &traits, &pairs);
    schedule_free(order);
    move_messages(&seed, lowered);
    const uint32_t capacity = (uint32_t)random_below(&seed, 3) % 2;  // mostly rendezvous
    struct check_result result;
    assert_good(schedule_check(lowered, capacity, &result, &error), error);
    const bool good = run(devices->plain, lowered, trial, WAIT_IN_ORDER, capacity, &error);
    if (good != result.ok)
        fail_msg("trial %d: check says %s %s, the run says %s %s", (int)trial, result.ok ? "yes" : "no",
                 result.fault_count ? result.faults[0].reason : "", good ? "yes" : "no", error.text);
    if (!good && (strncmp(error.text, "nothing can ever move: ", 23) != 0 || !names_the_cycle(error.text, &result)))
        fail_msg("trial %d: stuck otherwise: %s; not: %s", (int)trial, error.text,
                 result.cycle.data ? result.cycle.data : "");
    // What runs there runs where receives are posted and sends are left behind.
    error = (struct error){ 0 };
    if (result.ok && !run(devices->plain, lowered, trial, WAIT_AT_USE, 0, &error))
        fail_msg("trial %d: waiting at use: %s", (int)trial, error.text);
    // And where queues run ahead, on which nothing is put aside.
    if (result.ok && trial % 4 == 0 && !run(devices->ahead, lowered, trial, WAIT_AT_USE, 0, &error))
        fail_msg("trial %d: running ahead: %s", (int)trial, error.text);
    if (result.ok && trial % 4 == 1 && capacity == 0
        && !run(devices->ahead, lowered, trial, WAIT_IN_ORDER, 0, &error))
        fail_msg("trial %d: running ahead in order: %s", (int)trial, error.text);
    tally->pairs += pairs;
    tally->copies += lowered->route_count > 1;
    tally->splits += lowered->splits > 1;
    tally->accepted += result.ok;
    tally->refused += !result.ok;
    check_result_clear(&result);
    schedule_free(lowered);
}

static void what_check_accepts_never_hangs_and_what_it_refuses_is_stuck(void **state)
{
    (void)state;
    struct error error = { 0 };
    const struct devices devices = { device_open("cpu", &error), device_open("cpu:queued", &error) };
    assert_good(devices.plain && devices.ahead, error);
    struct tally tally = { 0 };
    const uint64_t trials = test_trials(1000, 10000);
    for (uint64_t trial = 0; trial < trials; trial++)
        try_schedule(&devices, trial, &tally);
    print_message("# %zu accepted, %zu refused; %zu of two routes, %zu split, %zu pairs\n", tally.accepted,
                  tally.refused, tally.copies, tally.splits, tally.pairs);
    assert_true(tally.accepted >= trials / 10 && tally.refused >= trials / 10);
    assert_true(tally.copies >= trials / 10 && tally.splits >= trials / 10 && tally.pairs >= trials / 10);
    device_close(devices.plain);
    device_close(devices.ahead);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_check_accepts_never_hangs_and_what_it_refuses_is_stuck),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
