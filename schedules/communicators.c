#include "schedules/communicators.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schedules/blocking.h"
#include "schedules/standstill.h"

// A channel that has messages.
struct ends {
    uint32_t from, to;
    uint32_t channel;
    uint32_t sends;
};

struct search {
    const struct schedule *schedule;
    struct communicators *found;
    struct ends *ends;    // of the channels with messages
    uint32_t used;        // number of those channels
    size_t *first;        // per pair: the index in `sent` at which its messages begin
    size_t *passed;       // per pair: how many have been sent, then received, so far
    struct action *sent;
};

static bool search_create(struct search *search, struct error *error)
{
    const size_t channels = channels_of(search->schedule);
    struct communicators *found = search->found;
    search->ends = calloc(channels, sizeof *search->ends);
    search->first = calloc(channels + 1, sizeof *search->first);
    search->passed = calloc(channels, sizeof *search->passed);
    found->pairs = calloc(channels, sizeof *found->pairs);
    found->pair_of = malloc(channels * sizeof *found->pair_of);
    if (!search->ends || !search->first || !search->passed || !found->pairs || !found->pair_of)
        return error_no_memory(error, "the communicators of a schedule");
    for (size_t channel = 0; channel < channels; channel++)
        found->pair_of[channel] = NO_PAIR;
    return true;
}

static void search_clear(struct search *search)
{
    free(search->ends);
    free(search->first);
    free(search->passed);
    free(search->sent);
}

// Records the channel of a message when it is first met. Either end is enough: in an incomplete schedule the other
// may be missing.
static void meet(struct search *search, uint32_t rank, struct action message)
{
    const size_t channel = channel_of(search->schedule, message);
    uint32_t *place = &search->found->pair_of[channel];  // an index into `ends`, until the pairs are known
    if (*place == NO_PAIR) {
        const struct action other_end = action_mirror(message);
        const uint32_t peer = schedule_rank(search->schedule, other_end.stage, other_end.micro_batch);
        *place = search->used++;
        search->ends[*place] = (struct ends){ .from = is_send(message) ? rank : peer,
                                              .to = is_send(message) ? peer : rank, .channel = (uint32_t)channel };
    }
    search->ends[*place].sends += is_send(message);
}

static int compare_ends(const void *a, const void *b)
{
    const struct ends *x = a, *y = b;
    if (x->from != y->from)
        return x->from < y->from ? -1 : 1;
    return (x->to > y->to) - (x->to < y->to);
}

// Makes pairs of channels with the same ends.
static bool join_channels(struct search *search, struct error *error)
{
    struct communicators *found = search->found;
    qsort(search->ends, search->used, sizeof *search->ends, compare_ends);
    for (uint32_t i = 0; i < search->used; i++) {
        const struct ends *ends = &search->ends[i];
        if (i == 0 || compare_ends(ends - 1, ends) != 0)
            found->pairs[found->count++] = (struct rank_pair){ .from = ends->from, .to = ends->to, .can_share = true };
        struct rank_pair *pair = &found->pairs[found->count - 1];
        found->pair_of[ends->channel] = (uint32_t)(found->count - 1);
        pair->channels++;
        pair->messages += ends->sends;
    }
    for (size_t i = 0; i < found->count; i++)
        search->first[i + 1] = search->first[i] + found->pairs[i].messages;
    search->sent = calloc(search->first[found->count] + 1, sizeof *search->sent);
    return search->sent || error_no_memory(error, "the communicators of a schedule");
}

static void note_send(struct search *search, struct action send)
{
    const uint32_t pair = search->found->pair_of[channel_of(search->schedule, send)];
    search->sent[search->first[pair] + search->passed[pair]++] = send;
}

// Compares a RECV with the message that it would be given, and keeps the first mismatch of each pair.
static void compare_receive(struct search *search, size_t position, struct action receive)
{
    const uint32_t number = search->found->pair_of[channel_of(search->schedule, receive)];
    struct rank_pair *pair = &search->found->pairs[number];
    const size_t index = search->first[number] + search->passed[number]++;
    const bool is_sent = index < search->first[number + 1];
    if (!pair->can_share || (is_sent && action_is_same(search->sent[index], action_mirror(receive))))
        return;
    pair->can_share = false;
    pair->position = position;
    pair->receive = receive;
    pair->is_sent = is_sent;
    if (is_sent)
        pair->sent = search->sent[index];
}

// What a rank exchanges with itself takes no communicator between ranks.
static bool goes_to_itself(const struct search *search, uint32_t rank, struct action message)
{
    const struct action other_end = action_mirror(message);
    return schedule_rank(search->schedule, other_end.stage, other_end.micro_batch) == rank;
}

enum pass { PASS_MEET, PASS_SENDS, PASS_RECEIVES };

// Traverses all lists once.
static void pass(struct search *search, enum pass pass)
{
    for (uint32_t rank = 0; rank < search->schedule->ranks; rank++) {
        const struct action_list *list = &search->schedule->lists[rank];
        for (size_t i = 0; i < list->count; i++) {
            const struct action action = list->at[i];
            if (!is_message(action) || goes_to_itself(search, rank, action))
                continue;
            if (pass == PASS_MEET)
                meet(search, rank, action);
            else if (pass == PASS_SENDS && is_send(action))
                note_send(search, action);
            else if (pass == PASS_RECEIVES && !is_send(action))
                compare_receive(search, i, action);
        }
    }
}

bool communicators_find(const struct schedule *lowered, struct communicators *communicators, struct error *error)
{
    *communicators = (struct communicators){ 0 };
    struct search search = { .schedule = lowered, .found = communicators };
    bool good = search_create(&search, error);
    if (good)
        pass(&search, PASS_MEET);
    good = good && join_channels(&search, error);
    if (good) {
        pass(&search, PASS_SENDS);
        memset(search.passed, 0, communicators->count * sizeof *search.passed);
        pass(&search, PASS_RECEIVES);
    }
    search_clear(&search);
    if (!good)
        communicators_clear(communicators);
    for (size_t i = 0; i < communicators->count; i++)
        communicators->sharing += communicators->pairs[i].can_share;
    return good;
}

void communicators_clear(struct communicators *communicators)
{
    free(communicators->pairs);
    free(communicators->pair_of);
    *communicators = (struct communicators){ 0 };
}

const char *communicators_reason(const struct rank_pair *pair, char buffer[SHARING_SIZE])
{
    char sent[ACTION_SIZE];
    if (pair->is_sent)
        snprintf(buffer, SHARING_SIZE, "on one communicator it would be given %s of rank %u",
                 action_format(pair->sent, sent), pair->from);
    else
        snprintf(buffer, SHARING_SIZE, "nothing more comes from rank %u", pair->from);
    return buffer;
}
