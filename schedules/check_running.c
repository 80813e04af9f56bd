// The part of the check that needs messages: which could be taken for which, how many go out at once, and whether
// every rank reaches the end of its list.
#include <stdlib.h>

#include "schedules/blocking.h"
#include "schedules/checking.h"
#include "schedules/communicators.h"
#include "schedules/lower.h"
#include "schedules/lower_late.h"
#include "schedules/lower_timed.h"
#include "schedules/standstill.h"

// --- the order of messages -----------------------------------------------------------

// What each channel carries, in the order of sending.
struct traffic {
    size_t *first;   // per channel: the index in `sent` at which its part begins
    size_t *passed;  // per channel: how many have been sent, then received, so far
    struct action *sent;
};

static void collect_sends(const struct schedule *schedule, struct traffic *traffic, bool only_count)
{
    for (uint32_t rank = 0; rank < schedule->ranks; rank++) {
        const struct action_list *list = &schedule->lists[rank];
        for (size_t i = 0; i < list->count; i++) {
            if (!is_send(list->at[i]))
                continue;
            const size_t channel = channel_of(schedule, list->at[i]);
            if (only_count)
                traffic->first[channel + 1]++;
            else
                traffic->sent[traffic->first[channel] + traffic->passed[channel]++] = list->at[i];
        }
    }
}

// Adds the fault of a RECV whose channel brings something else.
static void add_exchanged(struct check *check, uint32_t rank, size_t position, struct action receive,
                          struct action sent)
{
    if (check->schedule->splits > 1)
        check_add_fault(check, rank, position, receive, "its channel brings split %u of micro-batch %u first",
                        (unsigned)sent.split, sent.micro_batch);
    else
        check_add_fault(check, rank, position, receive, "its channel brings micro-batch %u first", sent.micro_batch);
}

static void compare_receives(struct check *check, const struct schedule *schedule, struct traffic *traffic)
{
    for (uint32_t rank = 0; rank < schedule->ranks; rank++) {
        const struct action_list *list = &schedule->lists[rank];
        for (size_t i = 0; i < list->count; i++) {
            if (!is_message(list->at[i]) || is_send(list->at[i]))
                continue;
            const size_t channel = channel_of(schedule, list->at[i]);
            const size_t number = traffic->first[channel] + traffic->passed[channel]++;
            if (number >= traffic->first[channel + 1])
                continue;
            const struct action sent = traffic->sent[number];
            if (sent.micro_batch != list->at[i].micro_batch || sent.split != list->at[i].split)
                add_exchanged(check, rank, i, list->at[i], sent);
        }
    }
}

static bool check_message_order(struct check *check, const struct schedule *lowered, struct error *error)
{
    const size_t channels = channels_of(lowered);
    struct traffic traffic = {
        .first = calloc(channels + 1, sizeof *traffic.first),
        .passed = calloc(channels, sizeof *traffic.passed),
    };
    bool good = traffic.first && traffic.passed;
    if (good) {
        collect_sends(lowered, &traffic, true);
        for (size_t channel = 0; channel < channels; channel++)
            traffic.first[channel + 1] += traffic.first[channel];
        traffic.sent = calloc(traffic.first[channels] + 1, sizeof *traffic.sent);
        good = traffic.sent != NULL;
    }
    if (good) {
        collect_sends(lowered, &traffic, false);
        for (size_t channel = 0; channel < channels; channel++)
            traffic.passed[channel] = 0;
        compare_receives(check, lowered, &traffic);
    }
    free(traffic.first);
    free(traffic.passed);
    free(traffic.sent);
    return good || error_no_memory(error, "checking a schedule");
}

// --- communicators --------------------------------------------------------------------

// Counts the pairs of ranks that could share a communicator. If they have to, adds faults that say why one cannot.
static bool check_communicators(struct check *check, const struct schedule *lowered, struct communicators *found,
                                struct error *error)
{
    if (!communicators_find(lowered, found, error))
        return false;
    struct check_sharing *sharing = &check->result->sharing;
    *sharing = (struct check_sharing){ .is_known = true, .pairs = found->count, .can = found->sharing };
    const struct rank_pair *first = NULL;
    for (size_t i = 0; i < found->count; i++) {
        const struct rank_pair *pair = &found->pairs[i];
        char reason[SHARING_SIZE];
        if (!pair->can_share && check->request->shared)
            check_add_fault(check, pair->to, pair->position, pair->receive, "%s", communicators_reason(pair, reason));
        if (!pair->can_share && !first)
            first = pair;
    }
    if (first) {
        sharing->first_fault = (struct check_fault){ first->to, first->position, first->receive, "" };
        communicators_reason(first, sharing->first_fault.reason);
    }
    return true;
}

// --- groups ---------------------------------------------------------------------------

// Adds a fault for the first run of consecutive messages of a rank that is too long.
static void check_groups(struct check *check, const struct schedule *lowered, uint32_t rank)
{
    const struct action_list *list = &lowered->lists[rank];
    size_t begin = 0;
    for (size_t i = 0; i <= list->count; i++) {
        if (i < list->count && is_message(list->at[i]))
            continue;
        if (i - begin > check->request->most_in_group) {
            check_add_fault(check, rank, begin, list->at[begin],
                            "it begins %zu messages in a row, and %u is the most that can be issued as one group",
                            i - begin, check->request->most_in_group);
            return;
        }
        begin = i + 1;
    }
}

// --- whether it comes to its end --------------------------------------------------------

static void add_standstill(struct check *check, const struct schedule *schedule, const size_t *positions)
{
    const struct standstill found = standstill_find(schedule, positions);
    check_add_fault(check, found.rank, found.position, found.action, "%s", found.reason);
    standstill_describe(schedule, positions, found.rank, &check->result->cycle);
}

// The least capacity that works, if one up to `most` does. More capacity never hurts. The search therefore doubles
// until one works, then bisects.
static uint32_t least_capacity(struct blocking *blocking, uint32_t most)
{
    uint32_t works = 0, fails = 0;
    if (blocking_run(blocking, 0))
        return 0;
    for (works = 1; !blocking_run(blocking, works); works = works > most / 2 ? most : 2 * works) {
        if (works == most)
            return CHECK_NEVER;
        fails = works;
    }
    while (works - fails > 1) {
        const uint32_t middle = fails + (works - fails) / 2;
        if (blocking_run(blocking, middle))
            works = middle;
        else
            fails = middle;
    }
    return works;
}

// The most messages that a queue carries.
static uint32_t most_messages(const struct check *check, const struct communicators *communicators)
{
    size_t most = (size_t)check->schedule->micro_batches * check->schedule->splits;
    for (size_t i = 0; check->request->shared && i < communicators->count; i++)
        most = communicators->pairs[i].messages > most ? communicators->pairs[i].messages : most;
    return most < CHECK_NEVER / 2 ? (uint32_t)most : CHECK_NEVER / 2;
}

static bool check_progress(struct check *check, const struct schedule *lowered,
                           const struct communicators *communicators, struct error *error)
{
    struct blocking blocking;
    if (!blocking_create(&blocking, lowered, error))
        return false;
    blocking.queue_of = check->request->shared ? communicators->pair_of : NULL;
    struct check_result *result = check->result;
    result->capacity = least_capacity(&blocking, most_messages(check, communicators));
    result->grouped = result->capacity == 0 || blocking_run_grouped(&blocking);
    const bool runs = check->request->grouped ? result->grouped : result->capacity <= check->request->capacity;
    if (!runs || (result->capacity == CHECK_NEVER && !check->request->grouped)) {
        if (!check->request->grouped)
            blocking_run(&blocking, check->request->capacity);
        add_standstill(check, lowered, blocking.positions);
    }
    blocking_clear(&blocking);
    return true;
}

// --- all of it --------------------------------------------------------------------------

static bool check_lowered(struct check *check, const struct schedule *lowered, struct error *error)
{
    struct communicators communicators;
    if (!check_message_order(check, lowered, error) || !check_communicators(check, lowered, &communicators, error))
        return false;
    for (uint32_t rank = 0; check->request->most_in_group && rank < lowered->ranks; rank++)
        check_groups(check, lowered, rank);
    bool good = check->misplaced || check_progress(check, lowered, &communicators, error);
    communicators_clear(&communicators);
    if (good && check->request->limit_bytes && check->result->fault_count == 0)
        good = check_memory(check, lowered, error);
    return good;
}

// Returns the schedule with its messages placed as requested. An order that cannot run fails in the early placement.
static struct schedule *lower_as_requested(struct check *check, size_t *positions, struct error *error)
{
    struct schedule *early = schedule_lower_to(check->schedule, positions, error);
    if (!early || check->request->receives == RECEIVES_EARLY)
        return early;
    schedule_free(early);
    if (check->request->receives == RECEIVES_LATE)
        return schedule_lower_late(check->schedule, error);
    return schedule_lower_timed(check->schedule, NULL, check->request->network, error);
}

// Messages are added to a compute order first. If an order cannot run at all, it already deadlocks there.
bool check_running(struct check *check, struct error *error)
{
    if (check->schedule->lowered)
        return check_lowered(check, check->schedule, error);
    struct error why = { 0 };
    size_t *positions = calloc(check->schedule->ranks, sizeof *positions);
    if (!positions)
        return error_no_memory(error, "checking a schedule");
    struct schedule *lowered = lower_as_requested(check, positions, &why);
    bool good = true;
    if (lowered)
        good = check_lowered(check, lowered, error);
    else if (why.kind == ERROR_ANSWER)
        add_standstill(check, check->schedule, positions);
    else
        good = error_hand_on(error, &why);
    schedule_free(lowered);
    free(positions);
    return good;
}
