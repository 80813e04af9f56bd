#include "device/recording.h"

#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/number.h"

enum {
    LEAST_CALLS = 2,   // fewer are not worth capturing
    MOST_CHANGES = 3,  // a recording that differs more often than this is given up
};
#define NONE UINT32_MAX

struct noted {
    const struct call *call;
    size_t at;       // offset of its arguments
    uint32_t word;   // the word that varies, or NONE
    uint32_t piece;  // the piece that it is in; NONE: it is given by itself
};

// Calls [first, end), which the device is given as one.
struct piece {
    size_t first, end;
    uint32_t first_word, end_word;
    void *captured;
};

struct recorded {
    struct device *device;
    struct noted *calls;
    size_t count, calls_room;
    unsigned char *arguments;  // of the latest pass, one call's after the other's
    size_t used, arguments_room;
    struct word *words;  // of the latest pass
    void *device_words;
    uint32_t word_count;
    struct piece *pieces;
    uint32_t piece_count;
    unsigned changes;
    bool is_prepared, is_given_up;
    // Between begin and end:
    bool follows;     // the calls so far are those that were noted
    size_t position;  // the number of calls so far
};

bool device_records(const struct device *device)
{
    return device->records;
}

struct recorded *recorded_create(struct device *device, struct error *error)
{
    struct recorded *recorded = calloc(1, sizeof *recorded);
    if (!recorded)
        error_no_memory(error, "a recording");
    else
        recorded->device = device;
    return recorded;
}

static void count_workspace(struct device *device, uint64_t more, uint64_t less)
{
    pthread_mutex_lock(&device->lock);
    device->memory.workspace_bytes += more - less;
    pthread_mutex_unlock(&device->lock);
}

static uint64_t words_bytes(uint32_t count)
{
    return round_to_256(count * sizeof(struct word));
}

static void drop_pieces(struct recorded *recorded)
{
    struct device *device = recorded->device;
    for (uint32_t i = 0; i < recorded->piece_count; i++)
        if (recorded->pieces[i].captured)
            device->functions->captures->free(device, recorded->pieces[i].captured);
    if (recorded->device_words) {
        device->functions->release(device, recorded->device_words);
        count_workspace(device, 0, words_bytes(recorded->word_count));
    }
    free(recorded->pieces);
    free(recorded->words);
    recorded->pieces = NULL;
    recorded->words = NULL;
    recorded->device_words = NULL;
    recorded->piece_count = recorded->word_count = 0;
}

void recorded_free(struct recorded *recorded)
{
    if (!recorded)
        return;
    drop_pieces(recorded);
    free(recorded->calls);
    free(recorded->arguments);
    free(recorded);
}

// --- noting ------------------------------------------------------------------------------

static void *arguments_of(const struct recorded *recorded, const struct noted *noted)
{
    return recorded->arguments + noted->at;
}

// Makes room for one more call. If there is no memory for it the recording is given up, which loses nothing.
static bool make_room(struct recorded *recorded, size_t bytes)
{
    return array_reserve(&recorded->calls, &recorded->calls_room, recorded->count + 1, sizeof recorded->calls[0])
        && array_reserve(&recorded->arguments, &recorded->arguments_room, recorded->used + bytes, 1);
}

static void note(struct recorded *recorded, const struct call *call, const void *arguments)
{
    const size_t room = (call->bytes + 15) / 16 * 16;
    if (recorded->is_given_up || !make_room(recorded, room)) {
        recorded->is_given_up = true;
        return;
    }
    struct noted *noted = &recorded->calls[recorded->count++];
    *noted = (struct noted){ call, recorded->used, NONE, NONE };
    if (call->bytes > 0)
        memcpy(arguments_of(recorded, noted), arguments, call->bytes);
    recorded->used += room;
}

// --- following ---------------------------------------------------------------------------

static void replay(struct queue *queue, const struct recorded *recorded, const struct piece *piece)
{
    const struct device_functions *functions = queue->device->functions;
    const uint32_t words = piece->end_word - piece->first_word;
    if (words > 0)
        functions->upload(queue, (struct word *)recorded->device_words + piece->first_word,
                          recorded->words + piece->first_word, words * sizeof(struct word));
    functions->captures->launch(queue, piece->captured);
}

static bool is_next(const struct recorded *recorded, const struct call *call, const void *arguments)
{
    if (recorded->position == recorded->count)
        return false;
    const struct noted *noted = &recorded->calls[recorded->position];
    return noted->call == call && (!call->give || call->is_same(arguments_of(recorded, noted), arguments));
}

static void keep_word(struct recorded *recorded, const struct noted *noted, const void *arguments)
{
    const void **address;
    void *kept = memcpy(arguments_of(recorded, noted), arguments, noted->call->bytes);
    noted->call->varies(kept, &recorded->words[noted->word], &address);
}

static void follow(struct queue *queue, struct recorded *recorded, const void *arguments)
{
    const struct noted *noted = &recorded->calls[recorded->position++];
    if (noted->word != NONE)
        keep_word(recorded, noted, arguments);
    if (noted->piece == NONE)
        noted->call->give(queue, arguments);
    else if (recorded->position == recorded->pieces[noted->piece].end)
        replay(queue, recorded, &recorded->pieces[noted->piece]);
}

// Ends following, since a call differs from the noted one. The calls of a piece that were held back are given one by
// one, and the rest is noted anew.
static void leave(struct queue *queue, struct recorded *recorded)
{
    const size_t end = recorded->position;
    const uint32_t piece = end > 0 ? recorded->calls[end - 1].piece : NONE;
    const size_t held = piece != NONE && recorded->pieces[piece].end > end ? recorded->pieces[piece].first : end;
    for (size_t i = held; i < end && queue_is_well(queue); i++)
        recorded->calls[i].call->give(queue, arguments_of(recorded, &recorded->calls[i]));
    if (end < recorded->count)
        recorded->used = recorded->calls[end].at;
    recorded->count = end;
    recorded->follows = recorded->is_prepared = false;
    recorded->is_given_up = ++recorded->changes > MOST_CHANGES;
}

void recorded_meet(struct queue *queue, const struct call *call, const void *arguments)
{
    struct recorded *recorded = queue->recorded;
    if (recorded->follows && is_next(recorded, call, arguments)) {
        follow(queue, recorded, arguments);
        return;
    }
    if (recorded->follows)
        leave(queue, recorded);
    note(recorded, call, arguments);
    call->give(queue, arguments);
}

void recorded_cut(struct queue *queue, const struct call *cut)
{
    struct recorded *recorded = queue->recorded;
    if (recorded->follows && is_next(recorded, cut, NULL)) {
        recorded->position++;
        return;
    }
    if (recorded->follows)
        leave(queue, recorded);
    note(recorded, cut, NULL);
}

void queue_record_begin(struct queue *queue, struct recorded *recorded)
{
    const bool is_noted = recorded->count > 0 && !recorded->is_prepared;
    if (is_noted || recorded->is_given_up || !queue->device->records || !queue_is_well(queue))
        return;
    recorded->position = 0;
    recorded->follows = recorded->is_prepared;
    queue->recorded = recorded;
}

bool queue_record_end(struct queue *queue)
{
    struct recorded *recorded = queue->recorded;
    queue->recorded = NULL;  // NULL already if it was not begun, for example one that was given up
    if (!recorded)
        return false;
    if (recorded->follows && recorded->position < recorded->count)
        leave(queue, recorded);
    const bool is_replayed = recorded->follows;
    recorded->follows = false;
    if (queue_is_well(queue))
        return is_replayed;
    recorded->is_given_up = true;  // calls may have been skipped
    return false;
}

// --- preparing ---------------------------------------------------------------------------

// Cuts at the calls that cannot be captured. A piece is the calls between two cuts, if there are enough of them.
static void cut_into_pieces(struct recorded *recorded)
{
    for (size_t first = 0; first < recorded->count;) {
        size_t end = first;
        while (end < recorded->count && recorded->calls[end].call->give)
            end++;
        if (end - first >= LEAST_CALLS)
            recorded->pieces[recorded->piece_count++] = (struct piece){ .first = first, .end = end };
        first = end + 1;
    }
}

static void number_words(struct recorded *recorded)
{
    struct word word;
    const void **address;
    for (uint32_t p = 0; p < recorded->piece_count; p++) {
        struct piece *piece = &recorded->pieces[p];
        piece->first_word = recorded->word_count;
        for (size_t i = piece->first; i < piece->end; i++) {
            struct noted *noted = &recorded->calls[i];
            const bool varies = noted->call->varies(arguments_of(recorded, noted), &word, &address);
            noted->word = varies ? recorded->word_count++ : NONE;
        }
        piece->end_word = recorded->word_count;
    }
}

static bool take_words(struct recorded *recorded)
{
    struct error error;
    recorded->words = calloc(recorded->word_count + 1u, sizeof *recorded->words);
    if (!recorded->words || recorded->word_count == 0)
        return recorded->words != NULL;
    const uint64_t bytes = words_bytes(recorded->word_count);
    recorded->device_words = recorded->device->functions->allocate(recorded->device, bytes, &error);
    if (recorded->device_words)
        count_workspace(recorded->device, bytes, 0);
    return recorded->device_words != NULL;
}

// Captures on a queue like this one, so that the other queue fails if something cannot be captured.
static void capture(const struct queue *queue, struct recorded *recorded, uint32_t number)
{
    struct piece *piece = &recorded->pieces[number];
    const struct capture_functions *captures = recorded->device->functions->captures;
    struct queue trial = { .device = queue->device, .own = queue->own };
    if (!captures->begin(&trial))
        return;
    for (size_t i = piece->first; i < piece->end && queue_is_well(&trial); i++) {
        const struct noted *noted = &recorded->calls[i];
        _Alignas(16) unsigned char arguments[MOST_ARGUMENTS];
        struct word word;
        const void **address;
        memcpy(arguments, arguments_of(recorded, noted), noted->call->bytes);
        if (noted->call->varies(arguments, &word, &address))
            *address = (struct word *)recorded->device_words + noted->word;
        noted->call->give(&trial, arguments);
    }
    piece->captured = captures->end(&trial);
    if (piece->captured && !queue_is_well(&trial)) {
        captures->free(recorded->device, piece->captured);
        piece->captured = NULL;
    }
    for (size_t i = piece->first; piece->captured && i < piece->end; i++)
        recorded->calls[i].piece = number;
}

void recorded_prepare(struct recorded *recorded, struct queue *queue)
{
    const bool was_prepared = recorded->pieces != NULL;
    if (recorded->is_prepared || recorded->is_given_up || recorded->count == 0
        || (was_prepared && !queue->device->functions->is_done(queue)))
        return;
    drop_pieces(recorded);
    for (size_t i = 0; i < recorded->count; i++)
        recorded->calls[i].word = recorded->calls[i].piece = NONE;
    recorded->pieces = calloc(recorded->count, sizeof *recorded->pieces);
    if (recorded->pieces) {
        cut_into_pieces(recorded);
        number_words(recorded);
    }
    recorded->is_given_up = !recorded->pieces || recorded->piece_count == 0 || !take_words(recorded);
    if (recorded->is_given_up)
        return;
    bool is_captured = false;
    for (uint32_t i = 0; i < recorded->piece_count; i++) {
        capture(queue, recorded, i);
        is_captured |= recorded->pieces[i].captured != NULL;
    }
    recorded->is_prepared = is_captured;
    recorded->is_given_up = !is_captured;
}
