#include "runtime/shard_meeting.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "common/clock.h"
#include "common/number.h"

static const uint64_t usual_deadline_ns = 600u * (uint64_t)1000000000;

struct guest {  // a member at a place
    struct shard_numbers has;  // or bytes
    bool has_come;
    struct event *ready, *given;
};

struct place {
    uint32_t come;
    uint64_t turns;  // how often all had come
    pthread_cond_t changed;
    struct guest *guests;
};

struct shard_meeting {
    struct device *device;
    uint32_t members, place_count;
    uint64_t deadline_ns;
    pthread_mutex_t lock;
    struct error failure;
    struct place *places;
    struct shard_wire *wire;  // NULL: all are here
};

// --- making ----------------------------------------------------------------------------

static bool open_place(struct shard_meeting *meeting, struct place *place, struct error *error)
{
    place->guests = calloc(meeting->members, sizeof place->guests[0]);
    bool good = place->guests || error_no_memory(error, "the sums over shards");
    for (uint32_t m = 0; good && m < meeting->members; m++) {
        struct guest *guest = &place->guests[m];
        guest->ready = event_create(meeting->device, error);
        guest->given = guest->ready ? event_create(meeting->device, error) : NULL;
        good = guest->given != NULL;
    }
    return good;
}

struct shard_meeting *shard_meeting_create(struct device *device, uint32_t members, uint32_t places,
                                           uint64_t deadline_ns, struct error *error)
{
    struct shard_meeting *meeting = calloc(1, sizeof *meeting);
    struct place *all = calloc(places + 1u, sizeof all[0]);
    if (!meeting || !all) {
        free(meeting);
        free(all);
        error_no_memory(error, "the sums over shards");
        return NULL;
    }
    *meeting = (struct shard_meeting){ .device = device, .members = members, .place_count = places, .places = all,
                                       .deadline_ns = deadline_ns > 0 ? deadline_ns : usual_deadline_ns };
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&meeting->lock, NULL);
    for (uint32_t p = 0; p < places; p++)
        pthread_cond_init(&all[p].changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    bool good = true;
    for (uint32_t p = 0; good && p < places; p++)
        good = open_place(meeting, &all[p], error);
    if (good)
        return meeting;
    shard_meeting_free(meeting);
    return NULL;
}

void shard_meeting_free(struct shard_meeting *meeting)
{
    if (!meeting)
        return;
    for (uint32_t p = 0; p < meeting->place_count; p++) {
        struct place *place = &meeting->places[p];
        for (uint32_t m = 0; place->guests && m < meeting->members; m++) {
            event_free(place->guests[m].ready);
            event_free(place->guests[m].given);
        }
        free(place->guests);
        pthread_cond_destroy(&place->changed);
    }
    pthread_mutex_destroy(&meeting->lock);
    shard_wire_free(meeting->wire);
    free(meeting->places);
    free(meeting);
}

void shard_meeting_take_wire(struct shard_meeting *meeting, struct shard_wire *wire)
{
    meeting->wire = wire;
}

// --- failing -----------------------------------------------------------------------------

// The first stays. Under the lock.
static void fail(struct shard_meeting *meeting, const struct error *reason)
{
    if (meeting->failure.kind == ERROR_NONE)
        error_set_kind(&meeting->failure, reason->kind, "%s", reason->text);
    for (uint32_t p = 0; p < meeting->place_count; p++)
        pthread_cond_broadcast(&meeting->places[p].changed);
}

static bool has_failed(const struct shard_meeting *meeting)
{
    return meeting->failure.kind != ERROR_NONE;
}

static void fail_for(struct shard_meeting *meeting, const struct error *reason)
{
    pthread_mutex_lock(&meeting->lock);
    fail(meeting, reason);
    pthread_mutex_unlock(&meeting->lock);
}

void shard_meeting_abandon(struct shard_meeting *meeting, uint32_t member, const struct error *reason)
{
    fail_for(meeting, reason);
    if (meeting->wire && shard_wire_member(meeting->wire) == member)
        shard_wire_abort(meeting->wire);
}

bool shard_meeting_is_well(struct shard_meeting *meeting, struct error *error)
{
    pthread_mutex_lock(&meeting->lock);
    const bool good = !has_failed(meeting)
                   || error_set_kind(error, meeting->failure.kind, "%s", meeting->failure.text);
    pthread_mutex_unlock(&meeting->lock);
    return good;
}

bool shard_meeting_lets_on(struct shard_meeting *meeting, struct weir_error *error)
{
    struct error reason = { 0 };
    if (shard_meeting_is_well(meeting, &reason))
        return true;
    error->code = (int)reason.kind;
    snprintf(error->text, sizeof error->text, "%s", reason.text);
    return false;
}

static void miss(struct shard_meeting *meeting, const struct place *place, uint32_t members)
{
    struct error reason = { 0 };
    char limit[NUMBER_SIZE];
    uint32_t missing = 0;
    while (place->guests[missing].has_come)
        missing++;
    error_set_kind(&reason, ERROR_MACHINE, "device %u of a group of %u did not come to a sum with the others within %s",
                   missing, members, time_format(meeting->deadline_ns, limit));
    fail(meeting, &reason);
}

// --- meeting -----------------------------------------------------------------------------

static bool is_everybody(struct place *place, uint32_t members)
{
    if (++place->come < members)
        return false;
    place->come = 0;
    place->turns++;
    for (uint32_t m = 0; m < members; m++)
        place->guests[m].has_come = false;
    pthread_cond_broadcast(&place->changed);
    return true;
}

// Until all who meet there are here; false where somebody has failed.
static bool gather(struct shard_meeting *meeting, const struct attendance *at)
{
    struct place *place = &meeting->places[at->place];
    const uint64_t until_ns = add_clamped(clock_now_ns(), meeting->deadline_ns);
    const struct timespec until = { (time_t)(until_ns / 1000000000), (long)(until_ns % 1000000000) };
    pthread_mutex_lock(&meeting->lock);
    const uint64_t turn = place->turns;
    place->guests[at->member].has_come = true;
    if (!has_failed(meeting) && !is_everybody(place, at->members))
        while (place->turns == turn && !has_failed(meeting))
            if (pthread_cond_timedwait(&place->changed, &meeting->lock, &until) != 0 && place->turns == turn
                && !has_failed(meeting))
                miss(meeting, place, at->members);
    const bool good = place->turns != turn;
    pthread_mutex_unlock(&meeting->lock);
    return good;
}

static bool agrees(struct shard_meeting *meeting, const struct attendance *at)
{
    struct error reason = { 0 };
    const struct guest *guests = meeting->places[at->place].guests;
    for (uint32_t m = 1; m < at->members; m++) {
        if (guests[m].has.count == guests[0].has.count)
            continue;
        error_set_kind(&reason, ERROR_MACHINE, "device %u of a group brings %zu numbers to a sum, device 0 %zu", m,
                       guests[m].has.count, guests[0].has.count);
        fail_for(meeting, &reason);
        return false;
    }
    return true;
}

// --- what they meet for ------------------------------------------------------------------

// Of what a member has brought, the share that another one sees to.
static struct shard_numbers share_of(const struct shard_meeting *meeting, const struct attendance *at, uint32_t from,
                                     uint32_t member)
{
    const struct shard_numbers has = meeting->places[at->place].guests[from].has;
    const size_t even = has.count / at->members;
    size_t first = member * even, end = first + even;
    if (has.meet == MEET_ALL_REDUCE) {
        first = share_begin(has.count, member, at->members);
        end = share_begin(has.count, member + 1, at->members);
    }
    return shard_numbers_behind(has, meeting->device, first, end - first);
}

static void copy_share(const struct shard_meeting *meeting, struct queue *queue, struct shard_numbers to,
                       struct shard_numbers from)
{
    queue_copy(queue, to.at, from.at, from.count * shard_number_bytes(&from, meeting->device));
}

static void add_share(const struct shard_meeting *meeting, const struct attendance *at, struct queue *queue)
{
    const struct shard_numbers sum = share_of(meeting, at, 0, at->member);
    for (uint32_t m = 1; m < at->members; m++)
        shard_numbers_add(queue, sum, share_of(meeting, at, m, at->member).at);
    for (uint32_t m = 1; m < at->members; m++)
        if (sum.meet == MEET_ALL_REDUCE || m == at->member)
            copy_share(meeting, queue, share_of(meeting, at, m, at->member), sum);
}

static void spread_share(const struct shard_meeting *meeting, const struct attendance *at, struct queue *queue)
{
    for (uint32_t m = 0; m < at->members; m++)
        if (m != at->member)
            copy_share(meeting, queue, share_of(meeting, at, m, at->member),
                       share_of(meeting, at, at->member, at->member));
}

static void take_first(const struct shard_meeting *meeting, const struct attendance *at, struct queue *queue)
{
    const struct guest *guests = meeting->places[at->place].guests;
    if (at->member > 0)
        queue_copy(queue, guests[at->member].has.at, guests[0].has.at, guests[0].has.count);
}

typedef void meeting_work(const struct shard_meeting *meeting, const struct attendance *at, struct queue *queue);

static bool meet(struct shard_meeting *meeting, const struct attendance *at, struct queue *queue, meeting_work *work)
{
    const struct guest *guests = meeting->places[at->place].guests;
    if (!gather(meeting, at) || !agrees(meeting, at))
        return false;
    for (uint32_t m = 0; m < at->members; m++)
        queue_wait_event(queue, guests[m].ready);
    work(meeting, at, queue);
    event_record(guests[at->member].given, queue);
    if (!gather(meeting, at))
        return false;
    for (uint32_t m = 0; m < at->members; m++)
        queue_wait_event(queue, guests[m].given);
    return true;
}

// Where somebody has failed nobody brings anything more: others may still be looking at what came last.
static bool bring(struct shard_meeting *meeting, const struct attendance *at, struct queue *queue,
                  const struct shard_numbers *has)
{
    struct guest *guest = &meeting->places[at->place].guests[at->member];
    pthread_mutex_lock(&meeting->lock);
    const bool good = !has_failed(meeting);
    if (good) {
        guest->has = *has;
        event_record(guest->ready, queue);
    }
    pthread_mutex_unlock(&meeting->lock);
    return good;
}

static void attend(struct shard_meeting *meeting, const struct attendance *at, struct queue *queue,
                   const struct shard_numbers *has, meeting_work *work)
{
    struct error error = { 0 };
    if ((!bring(meeting, at, queue, has) || !meet(meeting, at, queue, work))
        && !shard_meeting_is_well(meeting, &error))
        queue_fail(queue, error.text);
}

static void meet_by_wire(struct shard_meeting *meeting, struct queue *queue, const struct shard_numbers *part)
{
    struct error error = { 0 };
    if (shard_meeting_is_well(meeting, &error) && shard_wire_meet(meeting->wire, queue, part, &error))
        return;
    fail_for(meeting, &error);
    queue_fail(queue, error.text);
}

void shard_meeting_meet_here(struct shard_meeting *meeting, const struct attendance *at, struct queue *queue,
                             const struct shard_numbers *part)
{
    attend(meeting, at, queue, part, part->meet == MEET_ALL_GATHER ? spread_share : add_share);
}

void shard_meeting_meet(struct shard_meeting *meeting, const struct attendance *at, struct queue *queue,
                        const struct shard_numbers *part)
{
    if (meeting->wire)
        meet_by_wire(meeting, queue, part);
    else
        shard_meeting_meet_here(meeting, at, queue, part);
}

void shard_meeting_hand_over(struct shard_meeting *meeting, const struct attendance *at, struct queue *queue,
                             void *data, uint64_t bytes)
{
    attend(meeting, at, queue, &(struct shard_numbers){ .at = data, .count = bytes }, take_first);
}
