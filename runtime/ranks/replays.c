#include "runtime/ranks/replays.h"

#include <stdlib.h>
#include <string.h>

#include "common/array.h"

struct replay {
    struct replay_key key;
    struct recorded *recorded;
};

void replays_open(struct replays *replays, struct queue *queue, bool at_once)
{
    *replays = (struct replays){ .device = queue_device(queue), .queue = queue, .at_once = at_once };
}

void replays_close(struct replays *replays)
{
    for (size_t i = 0; i < replays->count; i++)
        recorded_free(replays->all[i].recorded);
    free(replays->all);
    *replays = (struct replays){ 0 };
}

// A key has no padding, so its bytes can be compared.
_Static_assert(sizeof(struct replay_key) == 8 + REPLAY_PLACES * sizeof(void *), "gaps in a replay_key");

// Searches from the last match on, since actions come in the same order as before.
static struct replay *find(struct replays *replays, const struct replay_key *key)
{
    for (size_t i = 0; i < replays->count; i++) {
        struct replay *replay = &replays->all[(replays->next + i) % replays->count];
        if (memcmp(&replay->key, key, sizeof *key) != 0)
            continue;
        replays->next = (size_t)(replay - replays->all) + 1;
        return replay;
    }
    return NULL;
}

// NULL if there is no memory for it; then everything works without the recording.
static struct replay *add(struct replays *replays, const struct replay_key *key)
{
    struct error error = { 0 };
    if (!array_reserve(&replays->all, &replays->room, replays->count + 1, sizeof replays->all[0]))
        return NULL;
    struct recorded *recorded = recorded_create(replays->device, &error);
    if (!recorded)
        return NULL;
    replays->all[replays->count] = (struct replay){ *key, recorded };
    return &replays->all[replays->count++];
}

void replays_begin(struct replays *replays, const struct replay_key *key)
{
    if (!device_records(replays->device))
        return;
    struct replay *found = find(replays, key), *replay = found ? found : add(replays, key);
    if (found && replays->at_once)
        recorded_prepare(found->recorded, replays->queue);
    if (replay)
        queue_record_begin(replays->queue, replay->recorded);
}

bool replays_end(struct replays *replays)
{
    return queue_record_end(replays->queue);
}

void replays_prepare(struct replays *replays)
{
    for (size_t i = 0; i < replays->count; i++)
        recorded_prepare(replays->all[i].recorded, replays->queue);
}
