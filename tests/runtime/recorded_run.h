// Runs of every schedule that can be generated, recorded: each rank's whole runtime, from the opening of its wires on,
// runs alone on a device that only writes down the calls.
#ifndef TESTS_RUNTIME_RECORDED_RUN_H
#define TESTS_RUNTIME_RECORDED_RUN_H

#include "runtime/transport/channels.h"
#include "runtime/transport/wired/wired.h"
#include "tests/runtime/played_nccl.h"
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

static inline bool all_gather_alone(void *self, const void *own, uint64_t bytes, void *all, struct error *error)
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

static inline bool broadcast_alone(void *self, uint32_t from, void *data, uint64_t bytes, struct error *error)
{
    (void)self, (void)from, (void)data, (void)bytes, (void)error;
    return true;
}

static inline bool is_well_alone(void *self, struct error *error)
{
    const struct alone *alone = self;
    return *alone->seen < alone->heard_after || error_set_kind(error, alone->lost.kind, "%s", alone->lost.text);
}

static inline void abandon_alone(void *self, const struct error *reason)
{
    ((struct alone *)self)->abandoned = *reason;
}

// Stages that take time on the tape, and none when they are played.
struct timed {
    struct synthetic synthetic;  // first: it is what the stage is
    const struct cost_row *times;
};

static inline bool on_tape(void *self, const struct stage_pass *pass, uint64_t ns,
                    bool (*function)(void *self, const struct stage_pass *pass, struct error *error),
                    struct error *error)
{
    struct tape *tape = tape_of(queue_device(pass->base.queue));
    tape->cost_ns = cost_part(ns, pass->base.split, pass->base.splits);
    const bool good = function(self, pass, error);
    tape->cost_ns = 0;
    return good;
}

static inline const struct stage_functions *plain(void *self)
{
    return synthetic_stage(self).functions;
}

static inline bool timed_forward(void *self, const struct stage_pass *pass, struct error *error)
{
    return on_tape(self, pass, ((struct timed *)self)->times->forward_ns, plain(self)->forward, error);
}

static inline bool timed_backward(void *self, const struct stage_pass *pass, struct error *error)
{
    return on_tape(self, pass, ((struct timed *)self)->times->backward_ns, plain(self)->backward, error);
}

static inline bool timed_backward_input(void *self, const struct stage_pass *pass, struct error *error)
{
    return on_tape(self, pass, ((struct timed *)self)->times->backward_input_ns, plain(self)->backward_input, error);
}

static inline bool timed_backward_weight(void *self, const struct stage_pass *pass, struct error *error)
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

static inline struct cost_row times_of(uint32_t stage)
{
    return (struct cost_row){ .forward_ns = 300 + 7 * stage, .backward_ns = 500 + 11 * stage,
                              .backward_input_ns = 280 + 5 * stage, .backward_weight_ns = 220 + 6 * stage };
}

static inline struct recorded_run *run_of(const struct schedule *lowered, bool one_for_all, uint64_t seed)
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

static inline void run_free(struct recorded_run *run)
{
    for (uint32_t rank = 0; rank < run->lowered->ranks; rank++)
        tape_close(&run->ranks[rank].tape);
    placement_free(run->placement);
    free(run);
}

// Opens a rank's session, as one of several.
static inline bool open_alone(struct recorded_run *run, uint32_t rank, uint64_t deadline_ns, struct error *error)
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
static inline bool record(struct recorded_run *run, uint32_t rank, uint32_t passes, struct error *error)
{
    struct recorded_rank *one = &run->ranks[rank];
    if (!open_alone(run, rank, 0, error))
        return false;
    for (uint32_t pass = 0; pass < passes; pass++)
        if (!session_step(one->session, error))
            return false;
    for (uint32_t s = 0; s < run->lowered->stages; s++) {
        const uint32_t copy = placement_find(run->placement, s, rank);
        const struct state_span span = { .stage = s, .count = 1 };
        if (copy != NOT_HELD && !session_read_and_tell(one->session, &span, copy, &one->weights[s], error))
            return false;
    }
    return true;
}

static inline void close_sessions(struct recorded_run *run, const char *what)
{
    for (uint32_t rank = 0; rank < run->lowered->ranks; rank++) {
        struct recorded_rank *one = &run->ranks[rank];
        session_free(one->session);
        if (one->tape.fault[0] || one->tape.live > 0)
            fail_msg("%s: %s (%u things of the device are left)", what, one->tape.fault, one->tape.live);
        assert_int_equal(one->tape.opened, one->tape.closed);
    }
}

static inline bool is_message(struct action action)
{
    return action.kind >= ACTION_SEND_F && action.kind <= ACTION_RECV_B;
}

static inline bool is_receive(struct action action)
{
    return action.kind == ACTION_RECV_F || action.kind == ACTION_RECV_B;
}

// --- every schedule -------------------------------------------------------------------------

typedef void each_schedule(const struct schedule *lowered, uint64_t number, const char *what);

static inline void with_every_schedule(each_schedule *does)
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

#endif
