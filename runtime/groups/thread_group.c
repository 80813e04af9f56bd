#include "runtime/groups/thread_group.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/number.h"

static const uint64_t usual_deadline_ns = 300u * (uint64_t)1000000000;

struct member {  // of a rank
    struct thread_group *group;
    uint32_t rank;
    bool has_come;
};

struct thread_group {
    uint32_t ranks, come;
    uint64_t deadline_ns;
    uint64_t turns;  // how often all have come
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned char *table;  // what is exchanged
    uint64_t table_bytes, room_bytes;
    bool has_failed;
    struct error failure;
    _Atomic uint64_t *board;
    struct member *members;
};

// Keeps the first failure. Called under the lock. Returns false.
static bool fail(struct thread_group *group, const struct error *reason, struct error *error)
{
    if (!group->has_failed)
        group->failure = *reason;
    group->has_failed = true;
    pthread_cond_broadcast(&group->changed);
    return error_hand_on(error, &group->failure);
}

static bool miss(struct thread_group *group, struct error *error)
{
    struct error reason = { 0 };
    char limit[NUMBER_SIZE];
    uint32_t missing = 0;
    while (group->members[missing].has_come)
        missing++;
    error_set_kind(&reason, ERROR_MACHINE, "rank %u did not come to the other ranks within %s", missing,
                   time_format(group->deadline_ns, limit));
    return fail(group, &reason, error);
}

// Waits until all ranks are here. Called under the lock.
static bool gather(struct member *member, struct error *error)
{
    struct thread_group *group = member->group;
    const uint64_t turn = group->turns, until_ns = add_clamped(clock_now_ns(), group->deadline_ns);
    member->has_come = true;
    if (++group->come == group->ranks) {
        group->come = 0;
        group->turns++;
        for (uint32_t rank = 0; rank < group->ranks; rank++)
            group->members[rank].has_come = false;
        pthread_cond_broadcast(&group->changed);
    }
    while (group->turns == turn && !group->has_failed)
        if (!clock_wait(&group->changed, &group->lock, until_ns) && group->turns == turn)
            return miss(group, error);
    return group->turns != turn || fail(group, &group->failure, error);
}

static bool make_room(struct thread_group *group, uint64_t whole, struct error *error)
{
    struct error reason = { 0 };
    assert(group->come == 0 || group->table_bytes == whole);  // all ranks make the same calls
    group->table_bytes = whole;
    if (whole <= group->room_bytes)
        return true;
    unsigned char *table = realloc(group->table, whole);
    if (!table) {
        error_no_memory(&reason, "what ranks tell each other");
        return fail(group, &reason, error);
    }
    group->table = table;
    group->room_bytes = whole;
    return true;
}

// Each rank writes its bytes at their place in the table. When all have come, each copies the table; when all have
// copied it, it may be written again.
static bool pass_round(struct member *member, const void *sent, uint64_t bytes, uint64_t offset, void *all,
                       uint64_t whole, struct error *error)
{
    struct thread_group *group = member->group;
    pthread_mutex_lock(&group->lock);
    bool good = !group->has_failed ? make_room(group, whole, error) : fail(group, &group->failure, error);
    if (good && bytes > 0)
        memcpy(group->table + offset, sent, bytes);
    good = good && gather(member, error);
    if (good && whole > 0)
        memcpy(all, group->table, whole);
    good = good && gather(member, error);
    pthread_mutex_unlock(&group->lock);
    return good;
}

static bool thread_group_all_gather(void *self, const void *sent, uint64_t bytes, void *all, struct error *error)
{
    struct member *member = self;
    return pass_round(member, sent, bytes, member->rank * bytes, all, member->group->ranks * bytes, error);
}

static bool thread_group_broadcast(void *self, uint32_t from, void *data, uint64_t bytes, struct error *error)
{
    struct member *member = self;
    return pass_round(member, data, member->rank == from ? bytes : 0, 0, data, bytes, error);
}

static bool thread_group_is_well(void *self, struct error *error)
{
    struct thread_group *group = ((struct member *)self)->group;
    pthread_mutex_lock(&group->lock);
    const bool good = !group->has_failed || fail(group, &group->failure, error);
    pthread_mutex_unlock(&group->lock);
    return good;
}

static void thread_group_abandon(void *self, const struct error *reason)
{
    struct thread_group *group = ((struct member *)self)->group;
    pthread_mutex_lock(&group->lock);
    fail(group, reason, &(struct error){ 0 });
    pthread_mutex_unlock(&group->lock);
}

struct thread_group *thread_group_create(uint32_t ranks, uint64_t deadline_ns, struct error *error)
{
    struct thread_group *group = calloc(1, sizeof *group);
    if (group) {
        pthread_mutex_init(&group->lock, NULL);
        pthread_cond_init(&group->changed, NULL);
        group->ranks = ranks;
        group->deadline_ns = deadline_ns > 0 ? deadline_ns : usual_deadline_ns;
        group->board = malloc(ranks * sizeof *group->board);
        group->members = calloc(ranks, sizeof *group->members);
    }
    if (!group || !group->board || !group->members) {
        thread_group_free(group);
        return error_null(error_no_memory(error, "the ranks of a process"));
    }
    for (uint32_t rank = 0; rank < ranks; rank++) {
        atomic_init(&group->board[rank], 0);
        group->members[rank] = (struct member){ .group = group, .rank = rank };
    }
    return group;
}

void thread_group_free(struct thread_group *group)
{
    if (!group)
        return;
    pthread_cond_destroy(&group->changed);
    pthread_mutex_destroy(&group->lock);
    free((void *)group->board);
    free(group->members);
    free(group->table);
    free(group);
}

struct process_group thread_group_member(struct thread_group *group, uint32_t rank)
{
    return (struct process_group){
        .self = &group->members[rank], .rank = rank, .ranks = group->ranks, .board = group->board,
        .all_gather = thread_group_all_gather, .broadcast = thread_group_broadcast, .is_well = thread_group_is_well,
        .abandon = thread_group_abandon,
    };
}
