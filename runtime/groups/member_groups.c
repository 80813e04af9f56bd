#include "runtime/groups/member_groups.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/groups/thread_group.h"

struct member {  // at this place
    struct member_groups *groups;
    uint32_t number;            // among all members
    uint32_t *board_at;         // by rank
    struct process_group here;  // of the members at this place, if there are several
    struct process_group group;
};

struct member_groups {
    const struct rank_grid *grid;
    struct thread_group *threads;  // NULL: one member is here
    uint32_t count;
    struct member *members;
};

// What a member passes to a collective call.
struct call {
    const void *own;
    void *data;
    uint64_t bytes;
    uint32_t from;  // of a broadcast: a rank
};
typedef bool call_of_all(struct member_groups *groups, const struct call *calls, struct error *error);

// --- one call for all members ------------------------------------------------------------

// Gathers a row for each member at a place.
static bool gather(struct member_groups *groups, const struct call *calls, struct error *error)
{
    const struct rank_grid *grid = groups->grid;
    const struct process_group *all = grid->group;
    const uint64_t bytes = calls[0].bytes, place_bytes = grid->most * bytes;
    char *sent = calloc(1, place_bytes + 1), *table = calloc(all->ranks, place_bytes + 1);
    bool good = (sent && table) || error_no_memory(error, "what ranks tell each other");
    for (uint32_t i = 0; good && bytes > 0 && i < groups->count; i++)
        memcpy(sent + i * bytes, calls[i].own, bytes);
    good = good && all->all_gather(all->self, sent, place_bytes, table, error);
    for (uint32_t i = 0; good && bytes > 0 && i < groups->count; i++)
        for (uint32_t rank = 0; rank < grid->ranks; rank++) {
            const uint32_t member = groups->members[i].number;
            memcpy((char *)calls[i].data + rank * bytes,
                   table + rank_grid_place(grid, rank, member) * place_bytes
                       + rank_grid_row(grid, rank, member) * bytes,
                   bytes);
        }
    free(sent);
    free(table);
    return good;
}

// The address of a member's data at this place, or `room` for data that no member here wants.
static void *data_of(const struct member_groups *groups, const struct call *calls, uint32_t member, void *room)
{
    for (uint32_t i = 0; i < groups->count; i++)
        if (groups->members[i].number == member)
            return calls[i].data;
    return room;
}

static bool broadcast(struct member_groups *groups, const struct call *calls, struct error *error)
{
    const struct rank_grid *grid = groups->grid;
    const struct process_group *all = grid->group;
    void *room = malloc(calls[0].bytes + 1);
    bool good = room || error_no_memory(error, "what ranks tell each other");
    for (uint32_t member = 0; good && member < grid->members; member++)
        good = all->broadcast(all->self, rank_grid_place(grid, calls[0].from, member),
                              data_of(groups, calls, member, room), calls[0].bytes, error);
    free(room);
    return good;
}

// --- together ------------------------------------------------------------------------------

// The first member at this place makes the call, once the others have brought their arguments.
static bool do_together(struct member *member, const struct call *call, call_of_all *work, struct error *error)
{
    struct member_groups *groups = member->groups;
    const struct process_group *here = &member->here;
    if (!groups->threads)
        return work(groups, call, error);
    struct call *calls = calloc(groups->count, sizeof *calls);
    struct error reason = { 0 };
    if (!calls) {
        error_no_memory(&reason, "what ranks tell each other");
        here->abandon(here->self, &reason);
    }
    bool good = calls && here->all_gather(here->self, call, sizeof *call, calls, &reason);
    if (good && here->rank == 0 && !work(groups, calls, &reason))
        here->abandon(here->self, &reason);
    good = good && here->all_gather(here->self, NULL, 0, NULL, &reason);
    free(calls);
    return good || error_hand_on(error, &reason);
}

static bool member_all_gather(void *self, const void *sent, uint64_t bytes, void *all, struct error *error)
{
    return do_together(self, &(struct call){ .own = sent, .data = all, .bytes = bytes }, gather, error);
}

static bool member_broadcast(void *self, uint32_t from, void *data, uint64_t bytes, struct error *error)
{
    return do_together(self, &(struct call){ .data = data, .bytes = bytes, .from = from }, broadcast, error);
}

static bool member_is_well(void *self, struct error *error)
{
    const struct member *member = self;
    const struct process_group *all = member->groups->grid->group;
    return all->is_well(all->self, error)
        && (!member->groups->threads || member->here.is_well(member->here.self, error));
}

static void member_abandon(void *self, const struct error *reason)
{
    const struct member *member = self;
    const struct process_group *all = member->groups->grid->group;
    if (member->groups->threads)
        member->here.abandon(member->here.self, reason);
    all->abandon(all->self, reason);
}

// --- making --------------------------------------------------------------------------------

static bool open_member(struct member_groups *groups, uint32_t number, struct error *error)
{
    const struct rank_grid *grid = groups->grid;
    struct member *member = &groups->members[groups->count];
    *member = (struct member){ .groups = groups, .number = number };
    member->board_at = calloc(grid->ranks + 1u, sizeof member->board_at[0]);
    if (!member->board_at)
        return error_no_memory(error, "the members of groups");
    for (uint32_t rank = 0; rank < grid->ranks; rank++)
        member->board_at[rank] = rank_grid_place(grid, rank, number);
    if (groups->threads)
        member->here = thread_group_member(groups->threads, groups->count);
    member->group = (struct process_group){
        .self = member, .rank = grid->rank, .ranks = grid->ranks, .board = grid->group->board,
        .board_at = member->board_at, .all_gather = member_all_gather, .broadcast = member_broadcast,
        .is_well = member_is_well, .abandon = member_abandon,
    };
    groups->count++;
    return true;
}

struct member_groups *member_groups_create(const struct rank_grid *grid, struct error *error)
{
    struct member_groups *groups = calloc(1, sizeof *groups);
    uint32_t here = 0;
    for (uint32_t m = 0; m < grid->members; m++)
        here += rank_grid_have(grid, m);
    if (groups) {
        groups->grid = grid;
        groups->members = calloc(here, sizeof groups->members[0]);
    }
    bool good = (groups && groups->members) || error_no_memory(error, "the members of groups");
    if (good && here > 1)
        good = (groups->threads = thread_group_create(here, 0, error)) != NULL;
    for (uint32_t m = 0; good && m < grid->members; m++)
        good = !rank_grid_have(grid, m) || open_member(groups, m, error);
    if (good)
        return groups;
    member_groups_free(groups);
    return NULL;
}

void member_groups_free(struct member_groups *groups)
{
    if (!groups)
        return;
    for (uint32_t i = 0; i < groups->count; i++)
        free(groups->members[i].board_at);
    free(groups->members);
    thread_group_free(groups->threads);
    free(groups);
}

const struct process_group *member_groups_of(const struct member_groups *groups, uint32_t member)
{
    uint32_t i = 0;
    while (groups->members[i].number != member)
        i++;
    return &groups->members[i].group;
}
