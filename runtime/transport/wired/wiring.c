#include "runtime/transport/wired/wiring.h"

#include <stdio.h>
#include <stdlib.h>

#include "schedules/board.h"
#include "schedules/communicators.h"

// The number of the same channel in schedules/communicators.h.
static size_t number_there(const struct schedule *schedule, uint32_t channel)
{
    const uint32_t boundaries = schedule->stages - 1, route = channel / 2 / boundaries;
    return ((size_t)route * schedule->stages + channel / 2 % boundaries) * 2 + channel % 2;
}

static uint32_t add_wire(struct wiring *wiring, struct wire wire, const uint32_t *ranks, struct error *error)
{
    wire.ranks = malloc((wire.rank_count + 1) * sizeof *wire.ranks);
    if (!wire.ranks) {
        error_no_memory(error, "the wires between ranks");
        return NO_WIRE;
    }
    for (uint32_t i = 0; i < wire.rank_count; i++)
        wire.ranks[i] = ranks ? ranks[i] : i;
    wiring->wires[wiring->count] = wire;
    return wiring->count++;
}

// --- messages ----------------------------------------------------------------------

static void note_unshared(struct wiring *wiring, const struct rank_pair *pair)
{
    char why[SHARING_SIZE], name[ACTION_SIZE];
    if (wiring->unshared++ == 0)
        snprintf(wiring->reason, sizeof wiring->reason, "%s of rank %u: %s", action_format(pair->receive, name),
                 pair->to, communicators_reason(pair, why));
}

static void count_pairs(struct wiring *wiring, const struct communicators *found)
{
    for (size_t i = 0; i < found->count; i++) {
        if (found->pairs[i].channels > 1 && found->pairs[i].can_share)
            wiring->shared++;
        else if (!found->pairs[i].can_share)
            note_unshared(wiring, &found->pairs[i]);
    }
}

// A wire for each pair of ranks, or for each channel if a pair's channels cannot share one.
static bool wire_edges(struct wiring *wiring, const struct schedule *lowered, const struct communicators *found,
                       struct error *error)
{
    uint32_t *wire_of_pair = malloc((found->count + 1) * sizeof *wire_of_pair);
    bool good = wire_of_pair || error_no_memory(error, "the wires between ranks");
    for (size_t i = 0; good && i < found->count; i++)
        wire_of_pair[i] = NO_WIRE;
    for (uint32_t channel = 0; good && channel < channel_count(lowered); channel++) {
        const uint32_t index = found->pair_of[number_there(lowered, channel)];
        if (index == NO_PAIR)
            continue;
        const struct rank_pair *pair = &found->pairs[index];
        uint32_t wire = pair->can_share ? wire_of_pair[index] : NO_WIRE;
        if (wire == NO_WIRE)
            wire = add_wire(wiring, (struct wire){ .kind = WIRE_EDGE, .rank_count = 2 },
                            (const uint32_t[]){ pair->from, pair->to }, error);
        good = wire != NO_WIRE;
        wire_of_pair[index] = wiring->wire_of_channel[channel] = wire;
    }
    free(wire_of_pair);
    return good;
}

static bool wire_all(struct wiring *wiring, const struct schedule *lowered, const struct communicators *found,
                     struct error *error)
{
    if (wiring->unshared > 0)
        return error_set_kind(error, ERROR_ANSWER, "one communicator for all messages would take some for others (%s): "
                              "leave each direction its own", wiring->reason);
    const uint32_t wire = add_wire(wiring, (struct wire){ .kind = WIRE_ALL, .rank_count = lowered->ranks }, NULL,
                                   error);
    for (uint32_t channel = 0; wire != NO_WIRE && channel < channel_count(lowered); channel++)
        if (found->pair_of[number_there(lowered, channel)] != NO_PAIR)
            wiring->wire_of_channel[channel] = wire;
    return wire != NO_WIRE;
}

static bool wire_group(struct wiring *wiring, uint32_t group, const uint32_t *ranks, uint32_t count, uint32_t adders,
                       struct error *error)
{
    if (count < 2)
        return true;
    wiring->wire_of_group[group] =
        add_wire(wiring, (struct wire){ .kind = WIRE_REDUCTION, .rank_count = count, .adders = adders }, ranks, error);
    return wiring->wire_of_group[group] != NO_WIRE;
}

static bool wire_reductions(struct wiring *wiring, const struct placement *placement, const struct ties *ties,
                            struct error *error)
{
    bool good = true;
    for (uint32_t stage = 0; good && stage < placement->stages; stage++) {
        const uint32_t copies = placement_copies(placement, stage);
        good = wire_group(wiring, stage, &placement->copies[placement->copy_at[stage]], copies, copies, error);
    }
    for (uint32_t t = 0; good && ties && t < ties->count; t++)
        good = wire_group(wiring, placement->stages + t, ties->at[t].ranks, ties->at[t].rank_count,
                          ties->at[t].adders, error);
    return good;
}

bool wiring_open(struct wiring *wiring, const struct schedule *lowered, const struct placement *placement,
                 const struct ties *ties, bool one_for_all, struct error *error)
{
    const uint32_t channels = channel_count(lowered), groups = lowered->stages + (ties ? ties->count : 0);
    struct communicators found;
    *wiring = (struct wiring){
        .wires = calloc(channels + groups + 1u, sizeof *wiring->wires),
        .wire_of_channel = malloc((channels + 1u) * sizeof *wiring->wire_of_channel),
        .wire_of_group = malloc((groups + 1u) * sizeof *wiring->wire_of_group),
    };
    bool good = wiring->wires && wiring->wire_of_channel && wiring->wire_of_group;
    if (!good)
        error_no_memory(error, "the wires between ranks");
    for (uint32_t channel = 0; good && channel < channels; channel++)
        wiring->wire_of_channel[channel] = NO_WIRE;
    for (uint32_t group = 0; good && group < groups; group++)
        wiring->wire_of_group[group] = NO_WIRE;
    if (good && (good = communicators_find(lowered, &found, error))) {
        count_pairs(wiring, &found);
        good = (one_for_all ? wire_all : wire_edges)(wiring, lowered, &found, error)
            && wire_reductions(wiring, placement, ties, error);
        communicators_clear(&found);
    }
    if (!good)
        wiring_close(wiring);
    return good;
}

void wiring_close(struct wiring *wiring)
{
    for (uint32_t i = 0; i < wiring->count; i++)
        free(wiring->wires[i].ranks);
    free(wiring->wires);
    free(wiring->wire_of_channel);
    free(wiring->wire_of_group);
    *wiring = (struct wiring){ 0 };
}

void wiring_say(const struct wiring *wiring, struct text *text)
{
    uint32_t kinds[3] = { 0 };
    for (uint32_t i = 0; i < wiring->count; i++)
        kinds[wiring->wires[i].kind]++;
    if (kinds[WIRE_ALL] > 0) {
        text_add(text, "one communicator for all messages, in the order of the lists");
    } else {
        text_add_count(text, kinds[WIRE_EDGE], "communicator", "communicators");
        text_add(text, " for messages");
        if (wiring->shared > 0)
            text_add(text, ", %u of them for several channels whose orders are proved alike", wiring->shared);
        if (wiring->unshared > 0)
            text_add(text, "; %u pairs of ranks need one for each channel (%s)", wiring->unshared, wiring->reason);
    }
    if (kinds[WIRE_REDUCTION] > 0) {
        text_add(text, ", and ");
        text_add_count(text, kinds[WIRE_REDUCTION], "one", "more");
        text_add(text, " to add up gradients");
    }
}

// --- turns -------------------------------------------------------------------------------

bool turns_open(struct turns *turns, const struct wiring *wiring, const struct schedule *lowered, uint32_t rank,
                struct error *error)
{
    const struct action_list *list = &lowered->lists[rank];
    const uint32_t channels = channel_count(lowered);
    size_t *seen = calloc(channels + 1u, sizeof *seen);
    *turns = (struct turns){
        .first = calloc(channels + 1u, sizeof *turns->first),
        .turn = calloc(list->count + 1, sizeof *turns->turn),
        .on_wire = calloc(wiring->count + 1u, sizeof *turns->on_wire),
    };
    if (!seen || !turns->first || !turns->turn || !turns->on_wire) {
        free(seen);
        turns_close(turns);
        return error_no_memory(error, "the order of a rank's messages");
    }
    for (size_t i = 0; i < list->count; i++)
        if (is_message(list->at[i]))
            turns->first[channel_of(lowered, list->at[i]) + 1]++;
    for (uint32_t channel = 0; channel < channels; channel++)
        turns->first[channel + 1] += turns->first[channel];
    for (size_t i = 0; i < list->count; i++) {
        const bool is_wired = is_message(list->at[i])
                           && wiring->wire_of_channel[channel_of(lowered, list->at[i])] != NO_WIRE;
        if (!is_wired)
            continue;
        const uint32_t channel = channel_of(lowered, list->at[i]);
        turns->turn[turns->first[channel] + seen[channel]++] = turns->on_wire[wiring->wire_of_channel[channel]]++;
    }
    free(seen);
    return true;
}

void turns_close(struct turns *turns)
{
    free(turns->first);
    free(turns->turn);
    free(turns->on_wire);
    *turns = (struct turns){ 0 };
}
