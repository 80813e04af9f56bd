// What the runtime asks of CUDA and NCCL, for every schedule that can be generated: the tapes of its ranks are held
// against the lists, and played by the rules of NCCL.
#include "tests/runtime/recorded_run.h"

// --- what the order demands ------------------------------------------------------------

static struct message_end demanded(const struct recorded_run *run, const struct wire *wire, struct action action)
{
    const struct channel_ends ends = channel_ends(run->lowered, channel_of(run->lowered, action));
    const bool is_send = !is_receive(action);
    const bool is_output = action.kind == ACTION_SEND_F || action.kind == ACTION_RECV_B;
    const struct stage_bytes *bytes = &run->stages[action.stage].bytes;
    return (struct message_end){
        .is_send = is_send,
        .peer = wire_end(wire, is_send ? ends.to : ends.from),
        .bytes = cost_part(is_output ? bytes->output : bytes->input, action.split, run->lowered->splits),
    };
}

// The exchange that a rank asks for next on a communicator; NULL: none is left.
static const struct call *next_exchange(const struct tape *tape, const struct communicator_name *name, size_t *at)
{
    while (*at < tape->count)
        if (tape->calls[(*at)++].kind == CALL_EXCHANGE && same_name(&tape->calls[*at - 1].name, name))
            return &tape->calls[*at - 1];
    return NULL;
}

// On each wire the messages of the rank's list that take it, in that order, pass after
// pass, each by a call of its own; and before them the greeting.
static void assert_wire(const struct recorded_run *run, const struct wiring *wiring, uint32_t wire, uint32_t rank,
                        const struct communicator_name *name, uint32_t passes, const char *what)
{
    const struct action_list *list = &run->lowered->lists[rank];
    const struct tape *tape = &run->ranks[rank].tape;
    size_t at = 0;
    for (uint32_t greeting = 0; greeting < GREETINGS; greeting++)
        assert_non_null(next_exchange(tape, name, &at));
    for (uint32_t pass = 0; pass < passes; pass++)
        for (size_t i = 0; i < list->count; i++) {
            if (!is_message(list->at[i]) || wiring->wire_of_channel[channel_of(run->lowered, list->at[i])] != wire)
                continue;
            const struct message_end wanted = demanded(run, &wiring->wires[wire], list->at[i]);
            const struct call *call = next_exchange(tape, name, &at);
            char action[ACTION_SIZE];
            if (!call || call->end_count != 1 || call->ends[0].is_send != wanted.is_send
                || call->ends[0].peer != wanted.peer || call->ends[0].bytes != wanted.bytes)
                fail_msg("%s: rank %u: %s of pass %u is not what its wire is given", what, rank,
                         action_format(list->at[i], action), pass);
        }
    assert_null(next_exchange(tape, name, &at));
}

// Bytes that all copies together send for each update: each owns a share, gets it from every other one, and sends all of
// them the sums, or what it has updated, as plans price it (partitioner/cost/storage_cost.h).
static uint64_t moved_bytes(const struct recorded_run *run, uint32_t stage)
{
    const struct stage *does = &run->stages[stage];
    const uint64_t back = does->shard == SHARD_NONE ? does->bytes.gradients : does->bytes.weights;
    return (placement_copies(run->placement, stage) - 1) * (does->bytes.gradients + back);
}

static void assert_reduced(const struct recorded_run *run, const struct wiring *wiring, uint32_t number,
                           const struct communicator_name *name, uint32_t passes, const char *what)
{
    const struct wire *wire = &wiring->wires[number];
    uint64_t sent = 0, wanted = 0;
    for (uint32_t end = 0; end < wire->rank_count; end++) {
        size_t at = 0;
        const struct call *call = next_exchange(&run->ranks[wire->ranks[end]].tape, name, &at);  // the greeting
        while (call && (call = next_exchange(&run->ranks[wire->ranks[end]].tape, name, &at)))
            for (size_t i = 0; i < call->end_count; i++)
                sent += call->ends[i].is_send ? call->ends[i].bytes : 0;
    }
    for (uint32_t s = 0; s < run->lowered->stages; s++)
        if (wiring->wire_of_group[s] == number)
            wanted += passes * count_actions(run->lowered, s, ACTION_REDUCE) * moved_bytes(run, s);
    if (sent != wanted)
        fail_msg("%s: wire %u: %llu bytes are sent, not %llu", what, number, (unsigned long long)sent,
                 (unsigned long long)wanted);
}

static void assert_order(const struct recorded_run *run, uint32_t passes, const char *what)
{
    struct error error = { 0 };
    struct wiring wiring;
    uint32_t serials[MOST_RANKS] = { 0 };
    assert_good(wiring_open(&wiring, run->lowered, run->placement, NULL, run->one_for_all, &error), error);
    for (uint32_t i = 0; i < wiring.count; i++) {
        const struct wire *wire = &wiring.wires[i];
        const struct communicator_name name = recorded_name(wire->ranks[0], serials[wire->ranks[0]]++);
        for (uint32_t end = 0; wire->kind != WIRE_REDUCTION && end < wire->rank_count; end++)
            assert_wire(run, &wiring, i, wire->ranks[end], &name, passes, what);
        if (wire->kind == WIRE_REDUCTION)
            assert_reduced(run, &wiring, i, &name, passes, what);
    }
    wiring_close(&wiring);
}

// What assert_updates() wants of a session, of the weights that were read on the tapes.
static void assert_weights(const struct recorded_run *run, uint32_t passes, const char *what)
{
    const struct schedule *schedule = run->lowered;
    const bool goes_back = count_actions(schedule, 0, ACTION_B) + count_actions(schedule, 0, ACTION_I) > 0;
    for (uint32_t s = 0; s < schedule->stages; s++) {
        const uint32_t updates = schedule->weights == WEIGHTS_FLUSH ? goes_back
                                                                    : count_actions(schedule, s, ACTION_STEP);
        const float sum = (float)(passes * updates * schedule_samples(schedule) * schedule->splits);
        for (uint32_t copy = 0; copy < placement_copies(run->placement, s); copy++) {
            const uint32_t rank = placement_rank(run->placement, s, copy);
            if (run->ranks[rank].weights[s] != -sum)
                fail_msg("%s: rank %u, stage %u: the first weight is %g, not %g", what, rank, s,
                         (double)run->ranks[rank].weights[s], (double)-sum);
        }
    }
}

// Plays all tapes by some rules; how they came to stand still, or "".
static void play_by(struct recorded_run *run, uint64_t seed, struct played_rules rules, char fault[FAULT_SIZE])
{
    struct tape tapes[MOST_RANKS];
    struct player player;
    for (uint32_t rank = 0; rank < run->lowered->ranks; rank++)
        tapes[rank] = run->ranks[rank].tape;
    player_open(&player, tapes, run->lowered->ranks, seed, rules);
    player_run(&player);
    memcpy(fault, player.fault, FAULT_SIZE);
    player_close(&player);
}

// Plays all tapes as they are shipped; what no stage's own look at its data finds wrong is right. Returns when the
// last is done.
static uint64_t play(struct recorded_run *run, uint64_t seed, const char *what)
{
    struct tape tapes[MOST_RANKS];
    struct player player;
    uint64_t end_ns = 0;
    for (uint32_t rank = 0; rank < run->lowered->ranks; rank++)
        tapes[rank] = run->ranks[rank].tape;
    player_open(&player, tapes, run->lowered->ranks, seed, shipped_rules);
    if (!player_run(&player))
        fail_msg("%s, seed %llu: %s", what, (unsigned long long)seed, player.fault);
    for (uint32_t rank = 0; rank < run->lowered->ranks; rank++) {
        for (size_t i = 0; i < tapes[rank].count; i++) {
            struct error error = { 0 };
            if (!queue_report(tapes[rank].calls[i].queue, &error))
                fail_msg("%s, seed %llu, rank %u: %s", what, (unsigned long long)seed, rank, error.text);
        }
        end_ns = player.host_ns[rank] > end_ns ? player.host_ns[rank] : end_ns;
    }
    player_close(&player);
    return end_ns;
}

// --- every schedule -------------------------------------------------------------------------

// False with the reason where a rank's calls cannot be recorded; all else has to be right.
static bool play_one(const struct schedule *lowered, bool one_for_all, enum shard shard, uint64_t number,
                     const char *what, struct error *error)
{
    enum { PASSES = 2 };
    struct recorded_run *run = run_of(lowered, one_for_all, number);
    bool good = true;
    for (uint32_t s = 0; s < lowered->stages; s++)
        run->stages[s].shard = shard;
    for (uint32_t rank = 0; good && rank < lowered->ranks; rank++)
        good = record(run, rank, PASSES, error);
    if (good) {
        assert_order(run, PASSES, what);
        play(run, number, what);
        assert_weights(run, PASSES, what);
    }
    close_sessions(run, what);
    run_free(run);
    return good;
}

static bool has_replicas(const struct schedule *lowered)
{
    for (uint32_t s = 0; s < lowered->stages; s++)
        if (count_actions(lowered, s, ACTION_REDUCE) > 0)
            return true;
    return false;
}

static void play_schedule(const struct schedule *lowered, uint64_t number, const char *what)
{
    struct error error = { 0 };
    if (!play_one(lowered, false, SHARD_NONE, number, what, &error)
        || !play_one(lowered, true, SHARD_NONE, number, what, &error)
        || (has_replicas(lowered) && !play_one(lowered, false, SHARD_OPTIMIZER, number, what, &error)))
        fail_msg("%s: %s", what, error.text);
}

static void the_calls_of_every_schedule_are_those_that_its_order_demands(void **state)
{
    (void)state;
    with_every_schedule(play_schedule);
}

// Puts the first receive that can be in front of another from the same rank, so that what
// comes from there is wanted in another order than it is sent in. Whether there is one.
static bool receive_in_another_order(struct schedule *lowered)
{
    for (uint32_t rank = 0; rank < lowered->ranks; rank++) {
        struct action_list *list = &lowered->lists[rank];
        for (size_t i = 0; i < list->count; i++)
            for (size_t j = i + 1; is_receive(list->at[i]) && j < list->count; j++) {
                const struct action early = list->at[j];
                if (!is_receive(early) || channel_of(lowered, early) == channel_of(lowered, list->at[i])
                    || channel_peer(lowered, early) != channel_peer(lowered, list->at[i]))
                    continue;
                memmove(&list->at[i + 1], &list->at[i], (j - i) * sizeof early);
                list->at[i] = early;
                return true;
            }
    }
    return false;
}

static void play_in_another_order(const struct schedule *lowered, uint64_t number, const char *what)
{
    struct error error = { 0 };
    struct schedule *other = schedule_copy(lowered, &error);
    assert_good(other, error);
    if (receive_in_another_order(other)) {
        assert_good(play_one(other, false, SHARD_NONE, number, what, &error), error);
        assert_false(play_one(other, true, SHARD_NONE, number, what, &error));
        assert_non_null(strstr(error.text, "one communicator for all messages would take some for others"));
    }
    schedule_free(other);
}

static void messages_are_told_apart_where_they_are_wanted_in_another_order(void **state)
{
    (void)state;
    with_every_schedule(play_in_another_order);
}

// --- what is set for CUDA and NCCL ------------------------------------------------------------

// Rules, and what the schedules come to by them.
struct outcome {
    const char *what;
    struct played_rules rules;
    bool is_quick;      // an end is ready at once, so that no two launches are under way
    const char *fault;  // of the schedules that do not end; NULL: all do
    const char *among;  // one of them
    uint32_t faults;
    bool is_among;
};

static struct outcome *outcome;  // of the schedules that are being played

static void play_by_rules(const struct schedule *lowered, uint64_t number, const char *what)
{
    enum { PASSES = 2 };
    struct recorded_run *run = run_of(lowered, false, number);
    char fault[FAULT_SIZE];
    for (uint32_t rank = 0; rank < lowered->ranks; rank++) {
        struct error error = { 0 };
        run->ranks[rank].tape.is_quick = outcome->is_quick;
        assert_good(record(run, rank, PASSES, &error), error);
    }
    play_by(run, number, outcome->rules, fault);
    close_sessions(run, what);
    run_free(run);
    if (!fault[0])
        return;
    if (!outcome->fault || !strstr(fault, outcome->fault))
        fail_msg("%s, %s: %s", outcome->what, what, fault);
    outcome->faults++;
    outcome->is_among |= outcome->among && strcmp(outcome->among, what) == 0;
}

// By what is set for CUDA and NCCL (device/cuda/cuda_environment.c) every schedule ends; by what either does unless it
// is told otherwise, or by launches in the order of the calls, many do not.
static void only_by_what_is_set_does_every_schedule_end(void **state)
{
    (void)state;
    struct outcome outcomes[] = {
        { .what = "as it is set", .rules = shipped_rules },
        { .what = "as it is set, ends ready at once", .rules = shipped_rules, .is_quick = true },
        { .what = "NCCL_LAUNCH_ORDER_IMPLICIT=1", .rules = { .connections = MOST_CONNECTIONS, .launch_order = true },
          .fault = "racing to launch", .among = "1f1b of 4 ranks" },
        { .what = "NCCL_LAUNCH_ORDER_IMPLICIT=1, ends ready at once",
          .rules = { .connections = MOST_CONNECTIONS, .launch_order = true }, .is_quick = true,
          .fault = "stands for ever", .among = "interleaved of 4 ranks" },
        { .what = "8 connections", .rules = { .connections = 8 },
          .fault = "stands for ever", .among = "interleaved of 4 ranks" },
    };
    for (size_t i = 0; i < sizeof outcomes / sizeof outcomes[0]; i++) {
        outcome = &outcomes[i];
        with_every_schedule(play_by_rules);
        print_message("%s: %u schedules do not end\n", outcome->what, outcome->faults);
        if (outcome->fault && !outcome->is_among)
            fail_msg("%s: %s ends, and should not", outcome->what, outcome->among);
    }
}

// --- time -----------------------------------------------------------------------------------

// Of one pass, as NCCL would play it.
static uint64_t played_ns(const struct schedule *lowered, bool one_for_all, uint64_t seed, const char *what)
{
    struct recorded_run *run = run_of(lowered, one_for_all, seed);
    struct error error = { 0 };
    uint64_t ns = UINT64_MAX;
    bool good = true;
    for (uint32_t rank = 0; good && rank < lowered->ranks; rank++)
        good = record(run, rank, 1, &error);
    if (good)
        ns = play(run, seed, what);
    close_sessions(run, what);
    run_free(run);
    return ns;
}

static void time_schedule(const struct schedule *lowered, uint64_t number, const char *what)
{
    struct error error = { 0 };
    struct cost_row times[MOST_PLAYED_STAGES];
    struct simulation simulation;
    for (uint32_t s = 0; s < lowered->stages; s++)
        times[s] = times_of(s);
    assert_good(schedule_simulate(lowered, times, NULL, &simulation, NULL, &error), error);
    const uint64_t ours = played_ns(lowered, false, number, what), one = played_ns(lowered, true, number, what);
    if (ours != simulation.iteration_ns || one < ours)
        fail_msg("%s: %llu ns are simulated, the tapes take %llu, and on one communicator %llu", what,
                 (unsigned long long)simulation.iteration_ns, (unsigned long long)ours, (unsigned long long)one);
    simulation_clear(&simulation);
}

static void the_calls_of_every_schedule_take_the_simulated_time(void **state)
{
    (void)state;
    with_every_schedule(time_schedule);
}

// In interleaved orders a rank receives from the same neighbour, or another, what is made
// long after something it has to send is ready. In the order of the list on a single
// communicator the send stands behind the receive (PyTorch's issues 172668 and 188833).
static void an_early_receive_holds_back_a_ready_send_on_one_communicator_only(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint64_t simulated_ns, one_ns;
    } rows[] = { { "interleaved", 16802, 19418 }, { "looped-bfs", 16694, 21729 }, { "dualpipev", 15842, 20096 } };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct error error = { 0 };
        struct schedule *order = schedule_generate(rows[i].name, 4, 0, 8, &error);
        assert_good(order, error);
        struct schedule *lowered = schedule_lower(order, &error);
        assert_good(lowered, error);
        assert_int_equal(played_ns(lowered, false, i, rows[i].name), rows[i].simulated_ns);
        assert_int_equal(played_ns(lowered, true, i, rows[i].name), rows[i].one_ns);
        schedule_free(order);
        schedule_free(lowered);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_calls_of_every_schedule_are_those_that_its_order_demands),
        cmocka_unit_test(messages_are_told_apart_where_they_are_wanted_in_another_order),
        cmocka_unit_test(only_by_what_is_set_does_every_schedule_end),
        cmocka_unit_test(the_calls_of_every_schedule_take_the_simulated_time),
        cmocka_unit_test(an_early_receive_holds_back_a_ready_send_on_one_communicator_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
