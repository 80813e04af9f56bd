#include "runtime/shards/shard_wire.h"

#include <poll.h>
#include <sched.h>
#include <stdlib.h>

#include "common/clock.h"
#include "common/number.h"
#include "device/communicator.h"

static const uint64_t usual_deadline_ns = 600u * (uint64_t)1000000000, abort_ns = 5u * (uint64_t)1000000000;
static const uint64_t eager_ns = 500000;
enum { BROKEN_SECONDS = 3 };
static const uint64_t usual_room_bytes = (uint64_t)32 << 20;

struct shard_wire {
    struct shard_wire_settings settings;
    uint32_t members, member;
    struct communicator *communicator;
    void *room;
    uint64_t room_bytes;
    uint64_t row_bytes;  // of the room, for one other member
    struct message_end *ends;
};

// --- waiting -------------------------------------------------------------------------------

static bool group_is_well(const struct shard_wire *wire, struct error *error)
{
    const struct process_group *group = wire->settings.grid->group;
    return group->is_well(group->self, error);
}

static bool miss(const struct shard_wire *wire, struct error *error)
{
    char limit[NUMBER_SIZE];
    return error_set_kind(error, ERROR_MACHINE, "rank %u: device %u of its group waits for the others of %u since %s",
                          wire->settings.grid->rank, wire->member, wire->members,
                          time_format(wire->settings.deadline_ns, limit));
}

// That another rank is gone says more than that the wire to it broke, and may become known a little later.
static bool broke(const struct shard_wire *wire, const struct error *reason, struct error *error)
{
    const uint64_t until_ns = clock_now_ns() + BROKEN_SECONDS * (uint64_t)1000000000;
    while (group_is_well(wire, error) && clock_now_ns() < until_ns)
        poll(NULL, 0, 1);
    return error_hand_on(error, reason);  // the first stays
}

// Waits until the communicator accepts something. That is mostly soon, and an action meets others several times: at
// first the host only lets others run, and does not sleep.
static bool await_ready(const struct shard_wire *wire, struct error *error)
{
    const uint64_t begin_ns = clock_now_ns(), until_ns = add_clamped(begin_ns, wire->settings.deadline_ns);
    struct error reason = { 0 };
    for (bool ready = false;;) {
        if (!communicator_is_ready(wire->communicator, &ready, &reason))
            return broke(wire, &reason, error);
        if (ready)
            return true;
        if (!group_is_well(wire, error))
            return false;
        const uint64_t now_ns = clock_now_ns();
        if (now_ns >= until_ns)
            return miss(wire, error);
        if (now_ns < begin_ns + eager_ns)
            sched_yield();
        else
            poll(NULL, 0, 1);
    }
}

// --- adding --------------------------------------------------------------------------------

// What goes over the wire at a time: `count` of the numbers, of which members then have shares. If shares are those of
// all numbers, it is `count` of each share.
struct piece {
    const struct shard_numbers *all;
    size_t first, count;
};

static bool has_shares_of_all(const struct shard_numbers *part)
{
    return part->meet != MEET_ALL_REDUCE;
}

static struct shard_numbers share_of(const struct shard_wire *wire, const struct piece *piece, uint32_t member)
{
    const struct device *device = wire->settings.device;
    if (has_shares_of_all(piece->all))
        return shard_numbers_behind(*piece->all, device, piece->all->count / wire->members * member + piece->first,
                                    piece->count);
    const size_t first = share_begin(piece->count, member, wire->members);
    const size_t end = share_begin(piece->count, member + 1, wire->members);
    return shard_numbers_behind(*piece->all, device, piece->first + first, end - first);
}

// What a member has sent. There is no room for this member's own.
static void *room_of(const struct shard_wire *wire, uint32_t member)
{
    const size_t row = member < wire->member ? member : member - 1;
    return (char *)wire->room + row * wire->row_bytes;
}

// The most numbers whose shares fit in the room, including those of the last share that do not fill a multiple.
static size_t most_of_piece(const struct shard_wire *wire, const struct shard_numbers *part)
{
    const size_t row = wire->row_bytes / shard_number_bytes(part, wire->settings.device);
    return has_shares_of_all(part) ? row : (row / SHARE_MULTIPLE - 1) * SHARE_MULTIPLE * wire->members;
}

static void add_end(struct shard_wire *wire, size_t *used, bool is_send, uint32_t peer, void *data, uint64_t bytes)
{
    if (bytes > 0)
        wire->ends[(*used)++] = (struct message_end){ .is_send = is_send, .peer = peer, .data = data, .bytes = bytes };
}

// Sends the shares out, or the sums back.
static bool exchange(struct shard_wire *wire, struct queue *queue, const struct piece *piece, bool is_back,
                     struct error *error)
{
    const size_t size = shard_number_bytes(piece->all, wire->settings.device);
    const struct shard_numbers mine = share_of(wire, piece, wire->member);
    size_t used = 0;
    for (uint32_t member = 0; member < wire->members; member++) {
        const struct shard_numbers its = share_of(wire, piece, member);
        if (member == wire->member)
            continue;
        add_end(wire, &used, true, member, is_back ? mine.at : its.at, (is_back ? mine.count : its.count) * size);
        add_end(wire, &used, false, member, is_back ? its.at : room_of(wire, member),
                (is_back ? its.count : mine.count) * size);
    }
    communicator_exchange(wire->communicator, queue, wire->ends, used);
    return await_ready(wire, error);
}

static void add_share(struct shard_wire *wire, struct queue *queue, const struct piece *piece)
{
    const struct shard_numbers mine = share_of(wire, piece, wire->member);
    struct shard_numbers sum = mine;
    if (wire->member > 0)
        sum.at = room_of(wire, 0);
    for (uint32_t member = 1; member < wire->members; member++)
        shard_numbers_add(queue, sum, member == wire->member ? mine.at : room_of(wire, member));
    if (sum.at != mine.at)
        queue_copy(queue, mine.at, sum.at, mine.count * shard_number_bytes(&mine, wire->settings.device));
}

// All at once: nothing needs room but where it is wanted.
static bool exchange_shares(struct shard_wire *wire, struct queue *queue, const struct shard_numbers *part,
                            struct error *error)
{
    const uint64_t bytes = part->count / wire->members * shard_number_bytes(part, wire->settings.device);
    size_t used = 0;
    for (uint32_t member = 0; member < wire->members; member++) {
        char *sent = (char *)part->at + member * bytes, *received = (char *)part->received + member * bytes;
        if (member == wire->member) {
            queue_copy(queue, received, sent, bytes);
            continue;
        }
        add_end(wire, &used, true, member, sent, bytes);
        add_end(wire, &used, false, member, received, bytes);
    }
    communicator_exchange(wire->communicator, queue, wire->ends, used);
    return await_ready(wire, error);
}

// Waits for what the queue has been given, as long as the group is well. What it waits for may come from a member that
// has ended.
static bool await_queue(struct shard_wire *wire, struct queue *queue, struct error *error)
{
    enum { LOOK_NS = 10000000 };
    const uint64_t until_ns = add_clamped(clock_now_ns(), wire->settings.deadline_ns);
    struct error reason = { 0 };
    while (!queue_is_done(queue)) {
        if (!group_is_well(wire, error))
            return false;
        if (clock_now_ns() >= until_ns)
            return miss(wire, error);
        queue_wait_for(queue, LOOK_NS);
    }
    return queue_wait(queue, &reason) || broke(wire, &reason, error);
}

// Rows that stay here are copied; each run of others is a message.
static bool exchange_rows(struct shard_wire *wire, struct queue *queue, const struct shard_numbers *part,
                          struct error *error)
{
    const uint64_t bytes = part->count * shard_number_bytes(part, wire->settings.device);
    struct row_walk walk;
    struct row_run run;
    size_t used = 0;
    if (!await_queue(wire, queue, error) || !row_walk_begin(&walk, queue, &part->rows, error))
        return false;
    row_walk_end(&walk, queue, &part->rows, part->received, part->count);
    while (row_walk_next(&walk, &run)) {
        char *sent = (char *)part->at + run.from_row * bytes, *received = (char *)part->received + run.to_row * bytes;
        if (run.from == wire->member && run.to == wire->member)
            queue_copy(queue, received, sent, run.count * bytes);
        else if (run.from == wire->member)
            add_end(wire, &used, true, run.to, sent, run.count * bytes);
        else if (run.to == wire->member)
            add_end(wire, &used, false, run.from, received, run.count * bytes);
    }
    communicator_exchange(wire->communicator, queue, wire->ends, used);
    return await_ready(wire, error);
}

bool shard_wire_meet(struct shard_wire *wire, struct queue *queue, const struct shard_numbers *part,
                     struct error *error)
{
    if (part->meet == MEET_ROWS)
        return group_is_well(wire, error) && exchange_rows(wire, queue, part, error);
    if (part->meet == MEET_ALL_TO_ALL)
        return group_is_well(wire, error) && exchange_shares(wire, queue, part, error);
    const size_t most = most_of_piece(wire, part);
    const size_t count = has_shares_of_all(part) ? part->count / wire->members : part->count;
    bool good = group_is_well(wire, error);
    for (size_t first = 0; good && first < count; first += most) {
        const struct piece piece = { part, first, count - first < most ? count - first : most };
        const bool adds = part->meet != MEET_ALL_GATHER;
        good = !adds || exchange(wire, queue, &piece, false, error);
        if (good && adds)
            add_share(wire, queue, &piece);
        good = good && (part->meet == MEET_REDUCE_SCATTER || exchange(wire, queue, &piece, true, error));
    }
    return good;
}

// --- making --------------------------------------------------------------------------------

// Room for a share of the largest part, or as much as is allowed.
static bool open_room(struct shard_wire *wire, struct error *error)
{
    const struct shard_wire_settings *settings = &wire->settings;
    const uint64_t others = wire->members - 1, least = 2 * SHARE_MULTIPLE * sizeof(float);
    const uint64_t wanted = settings->most_bytes / wire->members + least;
    const uint64_t most = settings->room_bytes / others / least * least;
    wire->row_bytes = round_to_256(max_u64(min_u64(wanted, most), least));
    wire->room_bytes = wire->row_bytes * others;
    wire->room = device_allocate(settings->device, wire->room_bytes, error);
    wire->ends = calloc(2 * (size_t)wire->members + settings->most_runs, sizeof wire->ends[0]);
    return wire->room && (wire->ends || error_no_memory(error, "the sums over shards"));
}

// The first member of each group makes its name, and all members learn all names.
static bool share_name(const struct shard_wire_settings *settings, bool makes, struct communicator_name *name,
                       struct error *error)
{
    const struct rank_grid *grid = settings->grid;
    const struct process_group *group = grid->group;
    struct communicator_name made = { { 0 } }, *all = calloc(group->ranks, sizeof *all);
    const bool good = (all || error_no_memory(error, "the names of wires"))
                   && (!makes || communicator_make_name(settings->device, &made, error))
                   && group->all_gather(group->self, &made, sizeof made, all, error);
    if (good)
        *name = all[grid->first[grid->rank]];
    free(all);
    return good;
}

static bool open_wire(struct shard_wire *wire, struct error *error)
{
    const struct rank_grid *grid = wire->settings.grid;
    struct communicator_name name;
    wire->members = rank_grid_group(grid, grid->rank);
    wire->member = grid->group->rank - grid->first[grid->rank];
    if (!share_name(&wire->settings, wire->members > 1 && wire->member == 0, &name, error))
        return false;
    if (wire->members == 1)
        return true;
    wire->communicator = communicator_open(wire->settings.device, &name, wire->members, wire->member, error);
    return wire->communicator && open_room(wire, error) && await_ready(wire, error)
        && communicator_register(wire->communicator, wire->room, wire->room_bytes, error);
}

bool shard_wire_create(struct shard_wire **made, const struct shard_wire_settings *settings, struct error *error)
{
    const struct process_group *group = settings->grid->group;
    struct shard_wire *wire = calloc(1, sizeof *wire);
    struct error reason = { 0 };
    *made = NULL;
    if (wire) {
        wire->settings = *settings;
        if (settings->deadline_ns == 0)
            wire->settings.deadline_ns = usual_deadline_ns;
        if (settings->room_bytes == 0)
            wire->settings.room_bytes = usual_room_bytes;
    }
    const bool good = wire ? open_wire(wire, &reason) : error_no_memory(&reason, "the sums over shards");
    if (!good) {
        group->abandon(group->self, &reason);  // the others wait for this rank
        error_hand_on(error, &reason);
    }
    if (good && wire->members > 1)
        *made = wire;
    else
        shard_wire_free(wire);
    return good;
}

// If the device is stuck, nothing on it is freed: the process should end.
void shard_wire_free(struct shard_wire *wire)
{
    if (!wire)
        return;
    if (!device_is_stuck(wire->settings.device)) {
        communicator_close(wire->communicator);
        device_release(wire->settings.device, wire->room);
    }
    free(wire->ends);
    free(wire);
}

void shard_wire_abort(struct shard_wire *wire)
{
    communicator_abort(wire->communicator, abort_ns);
}

uint32_t shard_wire_member(const struct shard_wire *wire)
{
    return wire->member;
}
