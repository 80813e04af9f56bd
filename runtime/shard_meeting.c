#include "runtime/shard_meeting.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "common/clock.h"
#include "common/number.h"

static const uint64_t usual_deadline_ns = 600u * (uint64_t)1000000000;
enum { SHARE_MULTIPLE = 64 };  // elements: shares begin where lines of a cache do

struct guest {  // a member at a place
    struct values *part;
    size_t count;
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
    free(meeting->places);
    free(meeting);
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

void shard_meeting_abandon(struct shard_meeting *meeting, const struct error *reason)
{
    pthread_mutex_lock(&meeting->lock);
    fail(meeting, reason);
    pthread_mutex_unlock(&meeting->lock);
}

bool shard_meeting_is_well(struct shard_meeting *meeting, struct error *error)
{
    pthread_mutex_lock(&meeting->lock);
    const bool good = !has_failed(meeting)
                   || error_set_kind(error, meeting->failure.kind, "%s", meeting->failure.text);
    pthread_mutex_unlock(&meeting->lock);
    return good;
}

static void miss(struct shard_meeting *meeting, const struct place *place)
{
    struct error reason = { 0 };
    char limit[NUMBER_SIZE];
    uint32_t missing = 0;
    while (place->guests[missing].has_come)
        missing++;
    error_set_kind(&reason, ERROR_MACHINE, "device %u of a group of %u did not come to a sum with the others within %s",
                   missing, meeting->members, time_format(meeting->deadline_ns, limit));
    fail(meeting, &reason);
}

// --- meeting -----------------------------------------------------------------------------

static bool is_everybody(const struct shard_meeting *meeting, struct place *place)
{
    if (++place->come < meeting->members)
        return false;
    place->come = 0;
    place->turns++;
    for (uint32_t m = 0; m < meeting->members; m++)
        place->guests[m].has_come = false;
    pthread_cond_broadcast(&place->changed);
    return true;
}

// Until all members are here; false where somebody has failed.
static bool gather(struct shard_meeting *meeting, struct place *place, uint32_t member)
{
    const uint64_t until_ns = add_clamped(clock_now_ns(), meeting->deadline_ns);
    const struct timespec until = { (time_t)(until_ns / 1000000000), (long)(until_ns % 1000000000) };
    pthread_mutex_lock(&meeting->lock);
    const uint64_t turn = place->turns;
    place->guests[member].has_come = true;
    if (!has_failed(meeting) && !is_everybody(meeting, place))
        while (place->turns == turn && !has_failed(meeting))
            if (pthread_cond_timedwait(&place->changed, &meeting->lock, &until) != 0 && place->turns == turn
                && !has_failed(meeting))
                miss(meeting, place);
    const bool good = place->turns != turn;
    pthread_mutex_unlock(&meeting->lock);
    return good;
}

static bool agrees(struct shard_meeting *meeting, const struct place *place)
{
    struct error reason = { 0 };
    for (uint32_t m = 1; m < meeting->members; m++) {
        if (place->guests[m].count == place->guests[0].count)
            continue;
        error_set_kind(&reason, ERROR_MACHINE, "device %u of a group brings %zu numbers to a sum, device 0 %zu", m,
                       place->guests[m].count, place->guests[0].count);
        shard_meeting_abandon(meeting, &reason);
        return false;
    }
    return true;
}

// --- adding ------------------------------------------------------------------------------

static size_t share_begin(size_t count, uint32_t share, uint32_t shares)
{
    return share == shares ? count : count / SHARE_MULTIPLE * share / shares * SHARE_MULTIPLE;
}

static void add_share(const struct shard_meeting *meeting, const struct place *place, uint32_t member,
                      struct queue *queue)
{
    const enum precision precision = device_precision(meeting->device);
    const size_t first = share_begin(place->guests[0].count, member, meeting->members);
    const size_t count = share_begin(place->guests[0].count, member + 1, meeting->members) - first;
    struct values *sum = values_at(place->guests[0].part, precision, first);
    for (uint32_t m = 0; m < meeting->members; m++)
        queue_wait_event(queue, place->guests[m].ready);
    for (uint32_t m = 1; count > 0 && m < meeting->members; m++)
        kernel_add(queue, sum, sum, values_at(place->guests[m].part, precision, first), count);
    for (uint32_t m = 1; count > 0 && m < meeting->members; m++)
        queue_copy(queue, values_at(place->guests[m].part, precision, first), sum, count * precision_bytes(precision));
}

static bool meet_and_add(struct shard_meeting *meeting, struct place *place, uint32_t member, struct queue *queue)
{
    if (!gather(meeting, place, member) || !agrees(meeting, place))
        return false;
    add_share(meeting, place, member, queue);
    event_record(place->guests[member].given, queue);
    if (!gather(meeting, place, member))
        return false;
    for (uint32_t m = 0; m < meeting->members; m++)
        queue_wait_event(queue, place->guests[m].given);
    return true;
}

void shard_meeting_sum(struct shard_meeting *meeting, uint32_t place, uint32_t member, struct queue *queue,
                       struct values *part, size_t count)
{
    struct place *here = &meeting->places[place];
    struct guest *guest = &here->guests[member];
    struct error error = { 0 };
    guest->part = part;
    guest->count = count;
    event_record(guest->ready, queue);
    if (!meet_and_add(meeting, here, member, queue) && !shard_meeting_is_well(meeting, &error))
        queue_fail(queue, error.text);
}
