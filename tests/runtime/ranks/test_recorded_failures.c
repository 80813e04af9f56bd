// What a rank of a recorded run does when another never comes, falls silent or is lost: for every schedule that can be
// generated, the reason is named, the others hear of it, and nothing is left.
#include "tests/runtime/recorded_run.h"

#include <sys/wait.h>
#include <unistd.h>

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
        cmocka_unit_test(a_peer_that_never_comes_is_named_in_every_schedule),
        cmocka_unit_test(a_wire_that_falls_silent_is_given_up_at_the_deadline_in_schedule_terms),
        cmocka_unit_test(a_lost_rank_is_heard_of_in_every_schedule),
        cmocka_unit_test(what_cannot_be_aborted_in_time_is_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
