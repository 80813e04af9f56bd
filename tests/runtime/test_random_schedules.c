// What schedule_check() accepts never hangs, and what it refuses is shown stuck:
// random schedules, run in the strictest of worlds, where RECV and SEND wait where
// they stand and `capacity` messages of a channel are buffered.
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/run.h"
#include "runtime/synthetic.h"
#include "schedules/check.h"
#include "schedules/lower.h"
#include "tests/test.h"

enum { MOST_STAGES = 6, MOST_MICRO_BATCHES = 4, MOST_SPLIT = 2, MOST_PARTS = MOST_MICRO_BATCHES * MOST_SPLIT };

// --- random orders -------------------------------------------------------------------

// What kinds of actions an order has.
struct traits {
    bool split_backward, recompute, groups;
};

// How far each part of a micro-batch is on each stage, and each stage as a whole.
struct progress {
    struct traits traits;
    bool forward[MOST_STAGES][MOST_PARTS], again[MOST_STAGES][MOST_PARTS], input[MOST_STAGES][MOST_PARTS];
    bool weight[MOST_STAGES][MOST_PARTS], reduced[MOST_STAGES], step[MOST_STAGES];
};

static uint32_t part_of(const struct schedule *order, struct action action)
{
    return action.micro_batch * order->splits + action.split;
}

static bool has_copies(const struct schedule *order, uint32_t stage)
{
    return order->route_count > 1 && order->routes[stage] != order->routes[order->stages + stage];
}

static bool is_weighed(const struct schedule *order, const struct progress *did, uint32_t stage)
{
    for (uint32_t part = 0; part < order->micro_batches * order->splits; part++)
        if (!did->weight[stage][part])
            return false;
    return true;
}

static bool is_ready(const struct schedule *order, const struct progress *did, struct action action)
{
    const uint32_t s = action.stage, i = action.micro_batch == NO_MICRO_BATCH ? 0 : part_of(order, action);
    const bool is_last = action.split + 1u == order->splits;
    switch (action.kind) {
    case ACTION_F:
        return !did->forward[s][i] && (s == 0 || did->forward[s - 1][i])
            && (action.split == 0 || did->forward[s][i - 1]);
    case ACTION_B:
    case ACTION_I:
        return did->forward[s][i] && !did->input[s][i] && (s + 1 == order->stages || did->input[s + 1][i])
            && (is_last || did->input[s][i + 1]);
    case ACTION_W:
        return did->input[s][i] && !did->weight[s][i];
    case ACTION_R:
        return did->traits.recompute && did->forward[s][i] && !did->again[s][i] && !did->input[s][i];
    case ACTION_REDUCE:
        return has_copies(order, s) && is_weighed(order, did, s) && !did->reduced[s];
    default:
        return is_weighed(order, did, s) && !did->step[s] && (did->reduced[s] || !has_copies(order, s));
    }
}

static void note(const struct schedule *order, struct progress *did, struct action action)
{
    if (action.micro_batch == NO_MICRO_BATCH) {
        *(action.kind == ACTION_STEP ? &did->step[action.stage] : &did->reduced[action.stage]) = true;
        return;
    }
    const uint32_t i = part_of(order, action);
    did->forward[action.stage][i] = true;
    did->again[action.stage][i] |= action.kind == ACTION_R;
    did->input[action.stage][i] |= action.kind == ACTION_B || action.kind == ACTION_I;
    did->weight[action.stage][i] |= action.kind == ACTION_B || action.kind == ACTION_W;
}

static size_t collect_ready(const struct schedule *order, const struct progress *did, struct action *ready)
{
    const uint8_t kinds[] = { ACTION_F, did->traits.split_backward ? ACTION_I : ACTION_B, ACTION_W, ACTION_R };
    size_t count = 0;
    for (uint16_t s = 0; s < order->stages; s++) {
        for (uint32_t i = 0; i < order->micro_batches * order->splits; i++) {
            for (size_t k = 0; k < sizeof kinds; k++) {
                const struct action action = { .stage = s, .kind = kinds[k], .micro_batch = i / order->splits,
                                               .split = i % order->splits & 127 };
                if (is_ready(order, did, action))
                    ready[count++] = action;
            }
        }
        for (uint8_t kind = ACTION_REDUCE; kind <= ACTION_STEP; kind++) {
            const struct action action = { .stage = s, .kind = kind, .micro_batch = NO_MICRO_BATCH };
            if (is_ready(order, did, action))
                ready[count++] = action;
        }
    }
    return count;
}

// Anywhere; a second route half of the time, with micro-batches on both.
static void set_routes(uint64_t *seed, struct schedule *order)
{
    const uint32_t stages = order->stages, routes = order->micro_batches > 1 && random_below(seed, 2) ? 2 : 1;
    uint32_t *ranks = malloc((size_t)routes * stages * sizeof *ranks);
    assert_non_null(ranks);
    for (uint32_t at = 0; at < routes * stages; at++)
        ranks[at] = at < order->ranks ? at : (uint32_t)random_below(seed, order->ranks);
    free(order->routes);
    order->routes = ranks;
    order->route_count = routes;
    for (uint32_t i = 0; i < order->micro_batches; i++)
        order->route_of[i] = i < routes ? i : (uint32_t)random_below(seed, routes);
}

// To the list of its rank; what all copies do, to all of theirs.
static void add(struct schedule *order, struct action action)
{
    struct error error = { 0 };
    const uint32_t routes = action.micro_batch == NO_MICRO_BATCH && has_copies(order, action.stage) ? 2 : 1;
    for (uint32_t route = 0; route < routes; route++) {
        const uint32_t rank = routes == 1 ? schedule_rank(order, action.stage, action.micro_batch)
                                          : order->routes[route * order->stages + action.stage];
        assert_good(schedule_add(order, rank, action, &error), error);
    }
}

// Any of the ready actions, again and again.
static struct schedule *random_order(uint64_t *seed, struct traits *traits)
{
    struct error error = { 0 };
    const uint32_t ranks = 2 + (uint32_t)random_below(seed, 3);
    const uint32_t stages = ranks + (uint32_t)random_below(seed, MOST_STAGES - ranks + 1);
    const uint32_t micro_batches = 1 + (uint32_t)random_below(seed, MOST_MICRO_BATCHES);
    *traits = (struct traits){ random_below(seed, 2), random_below(seed, 3) == 0, random_below(seed, 2) };
    struct schedule *order = schedule_create("random", WEIGHTS_FLUSH, ranks, stages, micro_batches, &error);
    assert_good(order, error);
    order->splits = random_below(seed, 3) == 0 ? MOST_SPLIT : 1;
    set_routes(seed, order);
    struct progress did = { .traits = *traits };
    struct action ready[MOST_STAGES * (4 * MOST_PARTS + 2)];
    for (size_t count; (count = collect_ready(order, &did, ready)) > 0;) {
        const struct action action = ready[random_below(seed, count)];
        note(order, &did, action);
        add(order, action);
    }
    return order;
}

static bool is_backward(struct action action)
{
    return action.kind == ACTION_B || action.kind == ACTION_I;
}

// Puts neighbours together, an F and a backward of something else; how many pairs.
static size_t join(uint64_t *seed, struct schedule *order)
{
    size_t pairs = 0;
    for (uint32_t rank = 0; rank < order->ranks; rank++) {
        struct action_list *list = &order->lists[rank];
        for (size_t i = 0; i + 1 < list->count; i++) {
            struct action *a = &list->at[i];
            const bool fits = (a[0].kind == ACTION_F && is_backward(a[1])) || (is_backward(a[0]) && a[1].kind == ACTION_F);
            if (!fits || (a[0].stage == a[1].stage && a[0].micro_batch == a[1].micro_batch) || random_below(seed, 2))
                continue;
            a->joined = 1;
            pairs++;
            i++;
        }
    }
    return pairs;
}

static void part(struct schedule *order)
{
    for (uint32_t rank = 0; rank < order->ranks; rank++)
        for (size_t i = 0; i < order->lists[rank].count; i++)
            order->lists[rank].at[i].joined = 0;
}

// With its messages. Not every pair can be together: what one gives, the other may
// come to need by way of other ranks.
static struct schedule *lower(uint64_t *seed, struct schedule *order, const struct traits *traits, size_t *pairs)
{
    struct error error = { 0 };
    *pairs = traits->groups ? join(seed, order) : 0;
    struct schedule *lowered = schedule_lower(order, &error);
    if (lowered || *pairs == 0) {
        assert_good(lowered, error);
        return lowered;
    }
    assert_int_equal(error.kind, ERROR_ANSWER);
    error = (struct error){ 0 };
    part(order);
    *pairs = 0;
    lowered = schedule_lower(order, &error);
    assert_good(lowered, error);
    return lowered;
}

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
    const bool goes_back = is_backward(other);
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

struct tally {
    size_t accepted, refused, pairs, copies, splits;
};

static void try_schedule(struct device *device, uint64_t trial, struct tally *tally)
{
    uint64_t seed = trial;
    struct error error = { 0 };
    struct traits traits;
    size_t pairs;
    struct schedule *order = random_order(&seed, &traits), *lowered = lower(&seed, order, &traits, &pairs);
    schedule_free(order);
    move_messages(&seed, lowered);
    const uint32_t capacity = (uint32_t)random_below(&seed, 3) % 2;  // mostly rendezvous
    struct check_result result;
    assert_good(schedule_check(lowered, capacity, &result, &error), error);
    const bool good = run(device, lowered, trial, WAIT_IN_ORDER, capacity, &error);
    if (good != result.ok)
        fail_msg("trial %d: check says %s %s, the run says %s %s", (int)trial, result.ok ? "yes" : "no",
                 result.fault_count ? result.faults[0].reason : "", good ? "yes" : "no", error.text);
    if (!good && (strncmp(error.text, "nothing can ever move: ", 23) != 0 || !names_the_cycle(error.text, &result)))
        fail_msg("trial %d: stuck otherwise: %s; not: %s", (int)trial, error.text,
                 result.cycle.data ? result.cycle.data : "");
    // What runs there runs where receives are posted and sends are left behind.
    error = (struct error){ 0 };
    if (result.ok && !run(device, lowered, trial, WAIT_AT_USE, 0, &error))
        fail_msg("trial %d: waiting at use: %s", (int)trial, error.text);
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
    struct device *device = device_open("cpu", &error);
    assert_good(device, error);
    struct tally tally = { 0 };
    const uint64_t trials = test_trials(1000, 10000);
    for (uint64_t trial = 0; trial < trials; trial++)
        try_schedule(device, trial, &tally);
    print_message("# %zu accepted, %zu refused; %zu of two routes, %zu split, %zu pairs\n", tally.accepted,
                  tally.refused, tally.copies, tally.splits, tally.pairs);
    assert_true(tally.accepted >= trials / 10 && tally.refused >= trials / 10);
    assert_true(tally.copies >= trials / 10 && tally.splits >= trials / 10 && tally.pairs >= trials / 10);
    device_close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_check_accepts_never_hangs_and_what_it_refuses_is_stuck),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
