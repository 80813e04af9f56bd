// What the runtime asks of CUDA and NCCL, for every schedule that can be generated: each
// rank's whole runtime, from the opening of its wires to the last update, runs alone on a
// device that only writes down the calls. The tapes are then held against the lists, and
// played by the rules of NCCL.
#include "tests/runtime/played_nccl.h"

#include <sys/wait.h>
#include <unistd.h>

#include "runtime/channels.h"
#include "runtime/wired/wired.h"
#include "tests/runtime/synthetic_pipeline.h"

enum { MOST_RANKS = 8, MOST_PLAYED_STAGES = 16, GREETINGS = 1 };

// --- a rank by itself ----------------------------------------------------------------

// The others, as far as a rank can tell that is alone: they make the names that they would
// make, have measured nothing, and are well until they are not.
struct alone {
    uint32_t ranks, exchanges;
    _Atomic uint64_t board[MOST_RANKS];
    struct error lost;     // what is heard of another rank,
    const uint64_t *seen;  // as soon as this has come
    uint64_t heard_after;  // to that
    struct error abandoned;
};

static bool all_gather_alone(void *self, const void *own, uint64_t bytes, void *all, struct error *error)
{
    struct alone *alone = self;
    (void)own;
    (void)error;
    if (alone->exchanges++ > 0) {
        memset(all ? all : &(char){ 0 }, 0, all ? alone->ranks * bytes : 0);
        return true;
    }
    const uint32_t each = (uint32_t)(bytes / sizeof(struct communicator_name));
    for (uint32_t i = 0; i < alone->ranks * each; i++)
        ((struct communicator_name *)all)[i] = recorded_name(i / each, i % each);
    return true;
}

static bool broadcast_alone(void *self, uint32_t from, void *data, uint64_t bytes, struct error *error)
{
    (void)self, (void)from, (void)data, (void)bytes, (void)error;
    return true;
}

static bool is_well_alone(void *self, struct error *error)
{
    const struct alone *alone = self;
    return *alone->seen < alone->heard_after || error_set_kind(error, alone->lost.kind, "%s", alone->lost.text);
}

static void abandon_alone(void *self, const struct error *reason)
{
    ((struct alone *)self)->abandoned = *reason;
}

// Stages that take time on the tape, and none when they are played.
struct timed {
    struct synthetic synthetic;  // first: it is what the stage is
    const struct cost_row *times;
};

static bool on_tape(void *self, const struct stage_pass *pass, uint64_t ns,
                    bool (*function)(void *self, const struct stage_pass *pass, struct error *error),
                    struct error *error)
{
    struct tape *tape = tape_of(queue_device(pass->queue));
    tape->cost_ns = cost_part(ns, pass->split, pass->splits);
    const bool good = function(self, pass, error);
    tape->cost_ns = 0;
    return good;
}

static const struct stage_functions *plain(void *self)
{
    return synthetic_stage(self).functions;
}

static bool timed_forward(void *self, const struct stage_pass *pass, struct error *error)
{
    return on_tape(self, pass, ((struct timed *)self)->times->forward_ns, plain(self)->forward, error);
}

static bool timed_backward(void *self, const struct stage_pass *pass, struct error *error)
{
    return on_tape(self, pass, ((struct timed *)self)->times->backward_ns, plain(self)->backward, error);
}

static bool timed_backward_input(void *self, const struct stage_pass *pass, struct error *error)
{
    return on_tape(self, pass, ((struct timed *)self)->times->backward_input_ns, plain(self)->backward_input, error);
}

static bool timed_backward_weight(void *self, const struct stage_pass *pass, struct error *error)
{
    return on_tape(self, pass, ((struct timed *)self)->times->backward_weight_ns, plain(self)->backward_weight, error);
}

struct recorded_rank {
    struct tape tape;
    struct alone alone;
    struct process_group group;
    struct session *session;
    bool is_stuck;
    float weights[MOST_PLAYED_STAGES];  // the first of each stage
};

struct recorded_run {
    const struct schedule *lowered;
    struct placement *placement;
    bool one_for_all;
    struct cost_row sizes[MOST_PLAYED_STAGES], times[MOST_PLAYED_STAGES];
    struct timed timed[MOST_PLAYED_STAGES];
    struct stage_functions functions;
    struct stage stages[MOST_PLAYED_STAGES];
    struct recorded_rank ranks[MOST_RANKS];
};

static struct cost_row times_of(uint32_t stage)
{
    return (struct cost_row){ .forward_ns = 300 + 7 * stage, .backward_ns = 500 + 11 * stage,
                              .backward_input_ns = 280 + 5 * stage, .backward_weight_ns = 220 + 6 * stage };
}

static struct recorded_run *run_of(const struct schedule *lowered, bool one_for_all, uint64_t seed)
{
    struct error error = { 0 };
    struct recorded_run *run = calloc(1, sizeof *run);
    assert_non_null(run);
    assert_true(lowered->ranks <= MOST_RANKS && lowered->stages <= MOST_PLAYED_STAGES);
    run->lowered = lowered;
    run->one_for_all = one_for_all;
    run->placement = placement_read(lowered, &error);
    assert_good(run->placement, error);
    for (uint32_t s = 0; s < lowered->stages; s++) {
        run->sizes[s] = row_of(s);
        run->times[s] = times_of(s);
    }
    for (uint32_t s = 0; s < lowered->stages; s++) {
        run->timed[s] = (struct timed){ synthetic_from_costs(run->sizes, lowered->stages, s), &run->times[s] };
        run->stages[s] = synthetic_stage(&run->timed[s].synthetic);
        run->functions = *run->stages[s].functions;
        run->stages[s].functions = &run->functions;
    }
    run->functions.forward = timed_forward;
    run->functions.backward = timed_backward;
    run->functions.backward_input = timed_backward_input;
    run->functions.backward_weight = timed_backward_weight;
    for (uint32_t rank = 0; rank < lowered->ranks; rank++) {
        struct recorded_rank *one = &run->ranks[rank];
        tape_open(&one->tape, rank, seed * 100 + rank);
        one->alone = (struct alone){ .ranks = lowered->ranks, .seen = &one->tape.exchanges,
                                     .heard_after = UINT64_MAX };
        one->group = (struct process_group){ .self = &one->alone, .rank = rank, .board = one->alone.board,
                                             .all_gather = all_gather_alone, .broadcast = broadcast_alone,
                                             .is_well = is_well_alone, .abandon = abandon_alone };
    }
    return run;
}

static void run_free(struct recorded_run *run)
{
    for (uint32_t rank = 0; rank < run->lowered->ranks; rank++)
        tape_close(&run->ranks[rank].tape);
    placement_free(run->placement);
    free(run);
}

// Opens a rank's session, as one of several.
static bool open_alone(struct recorded_run *run, uint32_t rank, uint64_t deadline_ns, struct error *error)
{
    struct recorded_rank *one = &run->ranks[rank];
    struct session_settings settings = plain_settings();
    settings.group = &one->group;
    settings.one_communicator = run->one_for_all;
    settings.deadline_ns = deadline_ns;
    settings.is_stuck = &one->is_stuck;
    one->session = session_create(run->lowered, run->stages, one->tape.device, &settings, error);
    return one->session != NULL;
}

// All of a rank's passes, and the reading of its weights. False with a schedule that one communicator cannot serve.
static bool record(struct recorded_run *run, uint32_t rank, uint32_t passes, struct error *error)
{
    struct recorded_rank *one = &run->ranks[rank];
    if (!open_alone(run, rank, 0, error))
        return false;
    for (uint32_t pass = 0; pass < passes; pass++)
        if (!session_step(one->session, error))
            return false;
    for (uint32_t s = 0; s < run->lowered->stages; s++) {
        const uint32_t copy = placement_find(run->placement, s, rank);
        if (copy != NOT_HELD
            && !session_read_weights(one->session, s, copy, 0, sizeof one->weights[s], &one->weights[s], error))
            return false;
    }
    return true;
}

static void close_sessions(struct recorded_run *run, const char *what)
{
    for (uint32_t rank = 0; rank < run->lowered->ranks; rank++) {
        struct recorded_rank *one = &run->ranks[rank];
        session_free(one->session);
        if (one->tape.fault[0] || one->tape.live > 0)
            fail_msg("%s: %s (%u things of the device are left)", what, one->tape.fault, one->tape.live);
        assert_int_equal(one->tape.opened, one->tape.closed);
    }
}

// --- what the order demands ------------------------------------------------------------

static bool is_message(struct action action)
{
    return action.kind >= ACTION_SEND_F && action.kind <= ACTION_RECV_B;
}

static bool is_receive(struct action action)
{
    return action.kind == ACTION_RECV_F || action.kind == ACTION_RECV_B;
}

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

typedef void each_schedule(const struct schedule *lowered, uint64_t number, const char *what);

static void with_every_schedule(each_schedule *does)
{
    uint64_t number = 0;
    for (const struct generator *generator = generators; generator->name; generator++)
        for (uint32_t ranks = 2; ranks <= 4; ranks++) {
            struct error error = { 0 };
            char what[100];
            struct schedule *order = schedule_generate(generator->name, ranks, 0, 2 * ranks, &error);
            struct schedule *lowered = order ? schedule_lower(order, &error) : NULL;
            snprintf(what, sizeof what, "%s of %u ranks", generator->name, ranks);
            if (lowered && lowered->stages <= MOST_PLAYED_STAGES)
                does(lowered, number++, what);
            schedule_free(order);
            schedule_free(lowered);
        }
    assert_true(number > 40);
}

// False with the reason where a rank's calls cannot be recorded; all else has to be right.
static bool play_one(const struct schedule *lowered, bool one_for_all, uint64_t number, const char *what,
                     struct error *error)
{
    enum { PASSES = 2 };
    struct recorded_run *run = run_of(lowered, one_for_all, number);
    bool good = true;
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

static void play_schedule(const struct schedule *lowered, uint64_t number, const char *what)
{
    struct error error = { 0 };
    if (!play_one(lowered, false, number, what, &error) || !play_one(lowered, true, number, what, &error))
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
        assert_good(play_one(other, false, number, what, &error), error);
        assert_false(play_one(other, true, number, what, &error));
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

// --- failures ---------------------------------------------------------------------------------

// The rank's n-th wire; how many it has where n is past them.
static uint32_t find_wire(const struct recorded_run *run, uint32_t rank, uint64_t n, uint32_t ends[2])
{
    struct error error = { 0 };
    struct wiring wiring;
    uint32_t count = 0;
    assert_good(wiring_open(&wiring, run->lowered, run->placement, NULL, run->one_for_all, &error), error);
    for (uint32_t i = 0; i < wiring.count; i++)
        if (wire_joins(&wiring.wires[i], rank) && count++ == n)
            memcpy(ends, wiring.wires[i].ranks, 2 * sizeof *ends);
    wiring_close(&wiring);
    return count;
}

// A run of which one rank is looked at, whose ends fall silent after so many exchanges.
struct silence {
    struct recorded_run *run;
    uint32_t rank, wires;
};

static struct silence silence_of(const struct schedule *lowered, uint64_t number)
{
    uint64_t seed = number;
    struct silence silence = { .run = run_of(lowered, false, number),
                               .rank = (uint32_t)random_below(&seed, lowered->ranks) };
    silence.wires = find_wire(silence.run, silence.rank, UINT64_MAX, NULL);
    silence.run->ranks[silence.rank].tape.is_quick = true;  // so that no deadline passes but the one that is meant
    return silence;
}

// The others were told why, every end was aborted, and all is free.
static void assert_abandoned(const struct silence *silence, const struct error *reason, const char *what)
{
    const struct recorded_rank *one = &silence->run->ranks[silence->rank];
    assert_int_equal(reason->kind, ERROR_MACHINE);
    assert_string_equal(one->alone.abandoned.text, reason->text);
    close_sessions(silence->run, what);
    assert_int_equal(one->tape.aborted, one->tape.opened);
    assert_false(one->is_stuck);
    run_free(silence->run);
}

static void miss_a_peer(const struct schedule *lowered, uint64_t number, const char *what)
{
    const struct silence silence = silence_of(lowered, number);
    struct tape *tape = &silence.run->ranks[silence.rank].tape;
    struct error error = { 0 };
    char sentence[120];
    uint32_t ends[2];
    tape->silent_after = number % (silence.wires + 1);  // in the opening of its first wire, or behind a greeting
    find_wire(silence.run, silence.rank, tape->silent_after > 0 ? tape->silent_after - 1 : 0, ends);
    assert_false(open_alone(silence.run, silence.rank, 1000000, &error));
    snprintf(sentence, sizeof sentence, "rank %u: the wire between rank %u and rank %u did not come up within 1.00 ms",
             silence.rank, ends[0], ends[1]);
    assert_error(error, sentence);
    assert_abandoned(&silence, &error, what);
}

static void a_peer_that_never_comes_is_named_in_every_schedule(void **state)
{
    (void)state;
    with_every_schedule(miss_a_peer);
}

// Opens the rank, and makes it fail in its pass.
static void fail_in_pass(const struct silence *silence, uint64_t number, uint64_t deadline_ns, struct error *error)
{
    struct recorded_rank *one = &silence->run->ranks[silence->rank];
    struct error none = { 0 };
    assert_good(open_alone(silence->run, silence->rank, deadline_ns, &none), none);
    assert_int_equal(one->tape.exchanges, silence->wires);
    // Each wire is told of the slab, and of the room for what other copies of a stage send.
    const bool has_room = device_memory(one->tape.device).allocations > 2;  // beside greetings and slab
    assert_int_equal(one->tape.enrolled, silence->wires * (1 + has_room));
    one->tape.silent_after = silence->wires + number % 5;
    assert_false(session_step(one->session, error));
    assert_int_equal(one->tape.exchanges, one->tape.silent_after);
}

static bool is_waiting_for(const char *sentence, const struct schedule *lowered, uint32_t rank, struct action action)
{
    char name[ACTION_SIZE], wanted[160];
    if (!is_message(action) && action.kind != ACTION_REDUCE)
        return false;
    action_format(action, name);
    if (is_message(action))
        snprintf(wanted, sizeof wanted, "nothing came for 1.00 ms: rank %u waits at %s %s rank %u", rank, name,
                 is_receive(action) ? "from" : "to", channel_peer(lowered, action));
    else
        snprintf(wanted, sizeof wanted, "nothing came for 1.00 ms: rank %u waits at %s for %s of rank ", rank, name, name);
    return strncmp(sentence, wanted, strlen(wanted)) == 0;
}

static void fall_silent(const struct schedule *lowered, uint64_t number, const char *what)
{
    const struct silence silence = silence_of(lowered, number);
    const struct action_list *list = &lowered->lists[silence.rank];
    struct error error = { 0 };
    bool is_known = false;
    fail_in_pass(&silence, number, 1000000, &error);
    for (size_t i = 0; i < list->count; i++)
        is_known |= is_waiting_for(error.text, lowered, silence.rank, list->at[i]);
    if (!is_known)
        fail_msg("%s: %s", what, error.text);
    assert_abandoned(&silence, &error, what);
}

static void a_wire_that_falls_silent_is_given_up_at_the_deadline_in_schedule_terms(void **state)
{
    (void)state;
    with_every_schedule(fall_silent);
}

static void lose_a_rank(const struct schedule *lowered, uint64_t number, const char *what)
{
    const struct silence silence = silence_of(lowered, number);
    struct recorded_rank *one = &silence.run->ranks[silence.rank];
    struct error error = { 0 };
    one->alone.seen = &one->tape.looks_in_silence;
    one->alone.heard_after = 1 + number % 3;
    error_set_kind(&one->alone.lost, ERROR_MACHINE, "rank 9 ended without a word: it was killed, or it crashed");
    fail_in_pass(&silence, number, 0, &error);
    assert_error(error, one->alone.lost.text);
    assert_abandoned(&silence, &error, what);
}

static void a_lost_rank_is_heard_of_in_every_schedule(void **state)
{
    (void)state;
    with_every_schedule(lose_a_rank);
}

// In a process of its own, which then ends at once as the command does.
static void what_cannot_be_aborted_in_time_is_left_alone(void **state)
{
    (void)state;
    int status;
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct error error = { 0 };
        struct schedule *order = schedule_generate("1f1b", 3, 0, 6, &error);
        struct schedule *lowered = order ? schedule_lower(order, &error) : NULL;
        struct recorded_run *run = lowered ? run_of(lowered, false, 1) : NULL;
        struct recorded_rank *one = run ? &run->ranks[1] : NULL;
        bool good = one != NULL;
        if (good)
            one->tape.is_quick = true;
        good = good && open_alone(run, 1, 1000000, &error);
        if (good) {
            one->tape.is_stuck = true;
            one->tape.silent_after = one->tape.exchanges + 2;
            good = !session_step(one->session, &error);
            session_free(one->session);
        }
        _exit(good && one->is_stuck && one->tape.aborted == 1 && one->tape.closed == 0 ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_calls_of_every_schedule_are_those_that_its_order_demands),
        cmocka_unit_test(messages_are_told_apart_where_they_are_wanted_in_another_order),
        cmocka_unit_test(only_by_what_is_set_does_every_schedule_end),
        cmocka_unit_test(the_calls_of_every_schedule_take_the_simulated_time),
        cmocka_unit_test(an_early_receive_holds_back_a_ready_send_on_one_communicator_only),
        cmocka_unit_test(a_peer_that_never_comes_is_named_in_every_schedule),
        cmocka_unit_test(a_wire_that_falls_silent_is_given_up_at_the_deadline_in_schedule_terms),
        cmocka_unit_test(a_lost_rank_is_heard_of_in_every_schedule),
        cmocka_unit_test(what_cannot_be_aborted_in_time_is_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
