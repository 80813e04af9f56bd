#include "runtime/shards/shard_group.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/clock.h"
#include "common/number.h"
#include "runtime/stages/stopwatch.h"

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
    struct stopwatch exchanges;  // of rows
};

struct shard_group {
    struct device *device;
    uint32_t members, place_count;
    uint64_t deadline_ns;
    pthread_mutex_t lock;
    struct error failure;
    struct place *places;
    struct shard_wire *wire;  // NULL: all are on this device
};

// --- making ----------------------------------------------------------------------------

static bool open_place(struct shard_group *group, struct place *place, struct error *error)
{
    place->guests = calloc(group->members, sizeof place->guests[0]);
    bool good = place->guests || error_no_memory(error, "the sums over shards");
    for (uint32_t m = 0; good && m < group->members; m++) {
        struct guest *guest = &place->guests[m];
        guest->ready = event_create(group->device, error);
        guest->given = guest->ready ? event_create(group->device, error) : NULL;
        good = guest->given != NULL;
    }
    return good;
}

struct shard_group *shard_group_create(struct device *device, uint32_t members, uint32_t places,
                                           uint64_t deadline_ns, struct error *error)
{
    struct shard_group *group = calloc(1, sizeof *group);
    struct place *all = calloc(places + 1u, sizeof all[0]);
    if (!group || !all) {
        free(group);
        free(all);
        return error_null(error_no_memory(error, "the sums over shards"));
    }
    *group = (struct shard_group){ .device = device, .members = members, .place_count = places, .places = all,
                                       .deadline_ns = deadline_ns > 0 ? deadline_ns : usual_deadline_ns };
    pthread_mutex_init(&group->lock, NULL);
    for (uint32_t p = 0; p < places; p++)
        pthread_cond_init(&all[p].changed, NULL);
    bool good = true;
    for (uint32_t p = 0; good && p < places; p++)
        good = open_place(group, &all[p], error);
    if (good)
        return group;
    shard_group_free(group);
    return NULL;
}

void shard_group_free(struct shard_group *group)
{
    if (!group)
        return;
    for (uint32_t p = 0; p < group->place_count; p++) {
        struct place *place = &group->places[p];
        for (uint32_t m = 0; place->guests && m < group->members; m++) {
            event_free(place->guests[m].ready);
            event_free(place->guests[m].given);
        }
        free(place->guests);
        stopwatch_close(&place->exchanges);
        pthread_cond_destroy(&place->changed);
    }
    pthread_mutex_destroy(&group->lock);
    shard_wire_free(group->wire);
    free(group->places);
    free(group);
}

void shard_group_take_wire(struct shard_group *group, struct shard_wire *wire)
{
    group->wire = wire;
}

// --- times -------------------------------------------------------------------------------

void shard_group_time_anew(struct shard_group *group)
{
    for (uint32_t p = 0; p < group->place_count; p++)
        stopwatch_reset(&group->places[p].exchanges);
}

struct exchange_time shard_group_time(const struct shard_group *group, uint32_t place)
{
    const struct stopwatch *exchanges = &group->places[place].exchanges;
    return (struct exchange_time){ exchanges->count / 2, stopwatch_read(exchanges) };
}

// --- failing -----------------------------------------------------------------------------

// Keeps the first failure. Called under the lock.
static void fail(struct shard_group *group, const struct error *reason)
{
    if (group->failure.kind == ERROR_NONE)
        error_hand_on(&group->failure, reason);
    for (uint32_t p = 0; p < group->place_count; p++)
        pthread_cond_broadcast(&group->places[p].changed);
}

static bool has_failed(const struct shard_group *group)
{
    return group->failure.kind != ERROR_NONE;
}

static void fail_for(struct shard_group *group, const struct error *reason)
{
    pthread_mutex_lock(&group->lock);
    fail(group, reason);
    pthread_mutex_unlock(&group->lock);
}

void shard_group_abandon(struct shard_group *group, uint32_t member, const struct error *reason)
{
    fail_for(group, reason);
    if (group->wire && shard_wire_member(group->wire) == member)
        shard_wire_abort(group->wire);
}

bool shard_group_is_well(struct shard_group *group, struct error *error)
{
    pthread_mutex_lock(&group->lock);
    const bool good = !has_failed(group)
                   || error_hand_on(error, &group->failure);
    pthread_mutex_unlock(&group->lock);
    return good;
}

bool shard_group_lets_on(struct shard_group *group, struct weir_error *error)
{
    struct error reason = { 0 };
    if (shard_group_is_well(group, &reason))
        return true;
    error->code = (int)reason.kind;
    snprintf(error->text, sizeof error->text, "%s", reason.text);
    return false;
}

static void miss(struct shard_group *group, const struct place *place, uint32_t members)
{
    struct error reason = { 0 };
    char limit[NUMBER_SIZE];
    uint32_t missing = 0;
    while (place->guests[missing].has_come)
        missing++;
    error_set_kind(&reason, ERROR_MACHINE, "device %u of a group of %u did not come to a sum with the others within %s",
                   missing, members, time_format(group->deadline_ns, limit));
    fail(group, &reason);
}

// --- a collective -----------------------------------------------------------------------------

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

// Waits until all members that meet there are here; false if one has failed.
static bool gather(struct shard_group *group, const struct attendance *attendance)
{
    struct place *place = &group->places[attendance->place];
    const uint64_t until_ns = add_clamped(clock_now_ns(), group->deadline_ns);
    pthread_mutex_lock(&group->lock);
    const uint64_t turn = place->turns;
    place->guests[attendance->member].has_come = true;
    if (!has_failed(group) && !is_everybody(place, attendance->members))
        while (place->turns == turn && !has_failed(group))
            if (!clock_wait(&place->changed, &group->lock, until_ns) && place->turns == turn && !has_failed(group))
                miss(group, place, attendance->members);
    const bool good = place->turns != turn;
    pthread_mutex_unlock(&group->lock);
    return good;
}

static bool agrees(struct shard_group *group, const struct attendance *attendance)
{
    struct error reason = { 0 };
    const struct guest *guests = group->places[attendance->place].guests;
    for (uint32_t m = 1; m < attendance->members; m++) {
        if (guests[m].has.count == guests[0].has.count)
            continue;
        error_set_kind(&reason, ERROR_MACHINE, "device %u of a group brings %zu numbers to a sum, device 0 %zu", m,
                       guests[m].has.count, guests[0].has.count);
        fail_for(group, &reason);
        return false;
    }
    return true;
}

// --- what they meet for ------------------------------------------------------------------

// The share, of what member `from` has brought, that `member` works on.
static struct shard_numbers share_of(const struct shard_group *group, const struct attendance *attendance,
                                     uint32_t from, uint32_t member)
{
    const struct shard_numbers has = group->places[attendance->place].guests[from].has;
    const size_t even = has.count / attendance->members;
    size_t first = member * even, end = first + even;
    if (has.meet == MEET_ALL_REDUCE) {
        first = share_begin(has.count, member, attendance->members);
        end = share_begin(has.count, member + 1, attendance->members);
    }
    return shard_numbers_behind(has, group->device, first, end - first);
}

static void copy_share(const struct shard_group *group, struct queue *queue, struct shard_numbers to,
                       struct shard_numbers from)
{
    queue_copy(queue, to.at, from.at, from.count * shard_number_bytes(&from, group->device));
}

static void add_share(const struct shard_group *group, const struct attendance *attendance, struct queue *queue)
{
    const struct shard_numbers sum = share_of(group, attendance, 0, attendance->member);
    for (uint32_t m = 1; m < attendance->members; m++)
        shard_numbers_add(queue, sum, share_of(group, attendance, m, attendance->member).at);
    for (uint32_t m = 1; m < attendance->members; m++)
        if (sum.meet == MEET_ALL_REDUCE || m == attendance->member)
            copy_share(group, queue, share_of(group, attendance, m, attendance->member), sum);
}

static void spread_share(const struct shard_group *group, const struct attendance *attendance, struct queue *queue)
{
    for (uint32_t m = 0; m < attendance->members; m++)
        if (m != attendance->member)
            copy_share(group, queue, share_of(group, attendance, m, attendance->member),
                       share_of(group, attendance, attendance->member, attendance->member));
}

static void receive_shares(const struct shard_group *group, const struct attendance *attendance, struct queue *queue)
{
    const struct shard_numbers mine = group->places[attendance->place].guests[attendance->member].has;
    const uint64_t bytes = mine.count / attendance->members * shard_number_bytes(&mine, group->device);
    for (uint32_t m = 0; m < attendance->members; m++)
        queue_copy(queue, (char *)mine.received + m * bytes,
                   share_of(group, attendance, m, attendance->member).at, bytes);
}

// The runs that come to this member. Those of a failed walk are left out: the queue has failed.
static void receive_rows(const struct shard_group *group, const struct attendance *attendance, struct queue *queue)
{
    const struct guest *guests = group->places[attendance->place].guests;
    const struct shard_numbers *mine = &guests[attendance->member].has;
    const uint64_t bytes = mine->count * shard_number_bytes(mine, group->device);
    struct error reason = { 0 };
    struct row_walk walk;
    struct row_run run;
    if (!row_walk_begin(&walk, queue, &mine->rows, &reason)) {
        queue_fail(queue, reason.text);
        return;
    }
    row_walk_end(&walk, queue, &mine->rows, mine->received, mine->count);
    while (row_walk_next(&walk, &run))
        if (run.to == attendance->member)
            queue_copy(queue, (char *)mine->received + run.to_row * bytes,
                       (char *)guests[run.from].has.at + run.from_row * bytes, run.count * bytes);
}

static void take_first(const struct shard_group *group, const struct attendance *attendance, struct queue *queue)
{
    const struct guest *guests = group->places[attendance->place].guests;
    if (attendance->member > 0)
        queue_copy(queue, guests[attendance->member].has.at, guests[0].has.at, guests[0].has.count);
}

typedef void collective_work(const struct shard_group *group, const struct attendance *attendance, struct queue *queue);

// The first member's queue is at either end of the exchange once it has waited for all members.
static bool mark_time(struct shard_group *group, const struct attendance *attendance, struct queue *queue,
                      collective_work *work)
{
    struct error error = { 0 };
    if (work != receive_rows || attendance->member > 0 || device_records(group->device)
        || stopwatch_mark(&group->places[attendance->place].exchanges, queue, &error))
        return true;
    fail_for(group, &error);
    return false;
}

static bool meet(struct shard_group *group, const struct attendance *attendance, struct queue *queue,
                 collective_work *work)
{
    const struct guest *guests = group->places[attendance->place].guests;
    if (!gather(group, attendance) || !agrees(group, attendance))
        return false;
    for (uint32_t m = 0; m < attendance->members; m++)
        queue_wait_event(queue, guests[m].ready);
    if (!mark_time(group, attendance, queue, work))
        return false;
    work(group, attendance, queue);
    event_record(guests[attendance->member].given, queue);
    if (!gather(group, attendance))
        return false;
    for (uint32_t m = 0; m < attendance->members; m++)
        queue_wait_event(queue, guests[m].given);
    return mark_time(group, attendance, queue, work);
}

// After a failure no member brings anything more: others may still be reading what came last.
static bool bring(struct shard_group *group, const struct attendance *attendance, struct queue *queue,
                  const struct shard_numbers *has)
{
    struct guest *guest = &group->places[attendance->place].guests[attendance->member];
    pthread_mutex_lock(&group->lock);
    const bool good = !has_failed(group);
    if (good) {
        guest->has = *has;
        event_record(guest->ready, queue);
    }
    pthread_mutex_unlock(&group->lock);
    return good;
}

static void attend(struct shard_group *group, const struct attendance *attendance, struct queue *queue,
                   const struct shard_numbers *has, collective_work *work)
{
    struct error error = { 0 };
    if ((!bring(group, attendance, queue, has) || !meet(group, attendance, queue, work))
        && !shard_group_is_well(group, &error))
        queue_fail(queue, error.text);
}

static void meet_by_wire(struct shard_group *group, struct queue *queue, const struct shard_numbers *part)
{
    struct error error = { 0 };
    if (shard_group_is_well(group, &error) && shard_wire_meet(group->wire, queue, part, &error))
        return;
    fail_for(group, &error);
    queue_fail(queue, error.text);
}

void shard_group_meet_here(struct shard_group *group, const struct attendance *attendance, struct queue *queue,
                             const struct shard_numbers *part)
{
    static collective_work *const works[] = { [MEET_ALL_REDUCE] = add_share, [MEET_REDUCE_SCATTER] = add_share,
                                              [MEET_ALL_GATHER] = spread_share, [MEET_ALL_TO_ALL] = receive_shares,
                                              [MEET_ROWS] = receive_rows };
    attend(group, attendance, queue, part, works[part->meet]);
}

void shard_group_meet(struct shard_group *group, const struct attendance *attendance, struct queue *queue,
                        const struct shard_numbers *part)
{
    if (group->wire)
        meet_by_wire(group, queue, part);
    else
        shard_group_meet_here(group, attendance, queue, part);
}

void shard_group_hand_over(struct shard_group *group, const struct attendance *attendance, struct queue *queue,
                             void *data, uint64_t bytes)
{
    attend(group, attendance, queue, &(struct shard_numbers){ .at = data, .count = bytes }, take_first);
}
