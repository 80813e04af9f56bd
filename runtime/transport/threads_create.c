#include <stdlib.h>
#include <string.h>

#include "common/number.h"
#include "runtime/transport/threads_engine.h"

static bool runs_ahead(const struct threads_settings *settings)
{
    return settings->device && device_runs_ahead(settings->device);
}

static bool lane_open(struct lane *lane, const struct channel *channel, const struct threads_settings *settings,
                      uint32_t ranks)
{
    const uint64_t capacity = runs_ahead(settings) ? 0 : min_u64(settings->capacity, channel->messages);
    lane->channel = *channel;
    lane->capacity = (uint32_t)capacity;
    lane->link = settings->network ? settings->network->link_of[(size_t)channel->from * ranks + channel->to] : 0;
    lane->parcels = calloc(capacity + 1, sizeof *lane->parcels);
    const uint64_t room = add_clamped(multiply_clamped(capacity, channel->bytes), 1);
    lane->room = room < UINT64_MAX ? malloc(room) : NULL;
    return lane->parcels && lane->room;
}

static uint64_t posts_of(const struct threads *engine, uint32_t rank)
{
    uint64_t posts = 1;
    for (uint32_t lane = 0; lane < engine->lane_count; lane++) {
        const struct channel *channel = &engine->lanes[lane].channel;
        posts += ((channel->from == rank) + (channel->to == rank)) * min_u64(channel->messages, MOST_POSTS);
    }
    for (uint32_t group = 0; group < engine->all_reduce_count; group++)
        for (uint32_t copy = 0; copy < engine->all_reduces[group].count; copy++)
            posts += engine->all_reduces[group].ranks[copy] == rank;
    return posts;
}

static bool end_open(struct threads *engine, uint32_t rank)
{
    struct end *end = &engine->ends[rank];
    end->transport = (struct transport){ .functions = &threads_functions, .rank = rank };
    end->engine = engine;
    end->left = true;
    return post_pool_open(&end->pool, posts_of(engine, rank));
}

static bool all_reduces_open(struct threads *engine, const struct placement *placement, const struct ties *ties)
{
    const uint32_t stages = placement ? placement->stages : 0, tied = ties ? ties->count : 0;
    engine->all_reduces = calloc(stages + tied + 1u, sizeof *engine->all_reduces);
    bool good = engine->all_reduces != NULL;
    for (uint32_t group = 0; good && group < stages + tied; group++) {
        struct all_reduce *all_reduce = &engine->all_reduces[group];
        const struct tie *tie = group < stages ? NULL : &ties->at[group - stages];
        good = tie ? all_reduce_open(all_reduce, tie->ranks, tie->rank_count, tie->adders)
                   : all_reduce_open(all_reduce, &placement->copies[placement->copy_at[group]],
                                     placement_copies(placement, group), placement_copies(placement, group));
        engine->all_reduce_count = group + 1;
    }
    return good;
}

static bool links_open(struct threads *engine, const struct network *network)
{
    if (!network)
        return true;
    engine->links = calloc(network->link_count + 1, sizeof *engine->links);
    engine->link_free_ns = calloc(network->link_count + 1, sizeof *engine->link_free_ns);
    if (!engine->links || !engine->link_free_ns)
        return false;
    memcpy(engine->links, network->links, network->link_count * sizeof *engine->links);
    return true;
}

// Makes the locks after all memory is allocated, since making them cannot fail on Linux.
static void locks_open(struct threads *engine)
{
    pthread_mutex_init(&engine->lock, NULL);
    for (uint32_t rank = 0; rank < engine->ranks; rank++)
        pthread_cond_init(&engine->ends[rank].changed, NULL);
}

struct threads *threads_create(uint32_t ranks, const struct channel *channels, uint32_t channel_count,
                               const struct threads_settings *settings, struct error *error)
{
    if (settings->network && runs_ahead(settings)) {
        error_set(error, "no network can be tried on a device that runs ahead of its host; leave the network out, or "
                  "take device cpu");
        return NULL;
    }
    struct threads *engine = calloc(1, sizeof *engine);
    bool good = engine != NULL;
    if (good) {
        engine->settings = *settings;
        engine->ends = calloc(ranks, sizeof *engine->ends);
        engine->lanes = calloc(channel_count + 1, sizeof *engine->lanes);
        good = engine->ends && engine->lanes && links_open(engine, settings->network);
    }
    if (good) {
        engine->ranks = ranks;
        engine->lane_count = channel_count;
        locks_open(engine);
        engine->settings.network = NULL;  // its links were copied
        good = all_reduces_open(engine, settings->placement, settings->ties);
    }
    for (uint32_t c = 0; good && c < channel_count; c++)
        good = lane_open(&engine->lanes[c], &channels[c], settings, ranks);
    for (uint32_t rank = 0; good && rank < ranks; rank++)
        good = end_open(engine, rank);
    if (!good)
        error_no_memory(error, "the channels between ranks");
    if (good && runs_ahead(settings))
        good = threads_open_queues(engine, error);
    if (!good) {
        threads_free(engine);
        return NULL;
    }
    return engine;
}

void threads_free(struct threads *threads)
{
    if (!threads)
        return;
    threads_close_queues(threads);
    for (uint32_t rank = 0; rank < threads->ranks; rank++) {
        pthread_cond_destroy(&threads->ends[rank].changed);
        post_pool_close(&threads->ends[rank].pool);
    }
    for (uint32_t lane = 0; lane < threads->lane_count; lane++) {
        free(threads->lanes[lane].parcels);
        free(threads->lanes[lane].room);
    }
    for (uint32_t group = 0; group < threads->all_reduce_count; group++)
        all_reduce_close(&threads->all_reduces[group]);
    if (threads->ranks > 0)
        pthread_mutex_destroy(&threads->lock);
    free(threads->ends);
    free(threads->lanes);
    free(threads->all_reduces);
    free(threads->links);
    free(threads->link_free_ns);
    free(threads);
}
