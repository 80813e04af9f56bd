#include "schedules/search/order_memory.h"

#include <stdlib.h>
#include <string.h>

#include "common/random.h"

enum { BUCKETS = 1 << 16 };
#define NO_ENTRY UINT32_MAX

// Entries are sequences of words: the next entry of the bucket; the moves that were put off and those that were made
// (packed); the moments.
struct order_memory {
    const struct order_problem *problem;
    uint64_t *words;
    size_t used, most;
    uint32_t *buckets;
    uint64_t *now;  // the entry that is being looked up
    size_t done_words;
};

struct order_memory *order_memory_create(const struct order_problem *problem, size_t most_bytes, struct error *error)
{
    struct order_memory *memory = calloc(1, sizeof *memory);
    const size_t units = (size_t)problem->stages * problem->micro_batches;
    if (memory) {
        memory->problem = problem;
        memory->most = most_bytes / sizeof *memory->words;
        memory->done_words = problem->ranks + ((size_t)problem->stages * 3 + 3) / 4;  // four counts to a word
        memory->words = malloc(memory->most * sizeof *memory->words);
        memory->buckets = malloc(BUCKETS * sizeof *memory->buckets);
        memory->now = calloc(1 + memory->done_words + problem->ranks + 2 * units, sizeof *memory->now);
    }
    if (memory && memory->words && memory->buckets && memory->now) {
        order_memory_forget(memory);
        return memory;
    }
    order_memory_free(memory);
    return error_null(error_no_memory(error, "the search for an order"));
}

void order_memory_free(struct order_memory *memory)
{
    if (!memory)
        return;
    free(memory->words);
    free(memory->buckets);
    free(memory->now);
    free(memory);
}

void order_memory_forget(struct order_memory *memory)
{
    memory->used = 0;
    memset(memory->buckets, 0xff, BUCKETS * sizeof *memory->buckets);  // NO_ENTRY
}

// An input that arrives before its rank is free is equivalent to one that arrives just then.
static size_t write_moments(const struct order_state *state, uint64_t *moments)
{
    const struct order_clock *clock = &state->clock;
    const struct order_problem *problem = clock->problem;
    const size_t m = problem->micro_batches;
    size_t count = 0;
    for (uint32_t rank = 0; rank < problem->ranks; rank++)
        moments[count++] = clock->free_ns[rank];
    for (uint32_t s = 0; s < problem->stages; s++) {
        const uint64_t free_ns = clock->free_ns[problem->stage[s].rank];
        const uint32_t given_f = s > 0 ? clock->done[(s - 1) * 3 + MOVE_F] : 0;
        const uint32_t given_i = s + 1 < problem->stages ? clock->done[(s + 1) * 3 + MOVE_I]
                                                         : clock->done[s * 3 + MOVE_F];
        for (uint32_t i = clock->done[s * 3 + MOVE_F]; i < given_f; i++)
            moments[count++] = clock->f_arrived[s * m + i] > free_ns ? clock->f_arrived[s * m + i] : free_ns;
        for (uint32_t i = clock->done[s * 3 + MOVE_I]; i < given_i; i++)
            moments[count++] = clock->i_arrived[s * m + i] > free_ns ? clock->i_arrived[s * m + i] : free_ns;
    }
    return count;
}

static bool is_no_later(const uint64_t *moments, const uint64_t *than, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (moments[i] > than[i])
            return false;
    }
    return true;
}

bool order_memory_met(struct order_memory *memory, const struct order_state *state)
{
    const struct order_problem *problem = memory->problem;
    uint64_t *done = memory->now + 1, *moments = done + memory->done_words, hash = 0;
    memset(done, 0, memory->done_words * sizeof *done);
    memcpy(done, state->held, problem->ranks * sizeof *done);
    for (size_t i = 0; i < (size_t)problem->stages * 3; i++)
        done[problem->ranks + i / 4] |= (uint64_t)(uint16_t)state->clock.done[i] << (i % 4 * 16);
    const size_t count = write_moments(state, moments);
    for (size_t i = 0; i < memory->done_words; i++) {
        hash ^= done[i];
        hash = random_next(&hash);
    }
    uint32_t *bucket = &memory->buckets[hash % BUCKETS];
    for (uint32_t index = *bucket; index != NO_ENTRY; index = (uint32_t)memory->words[index]) {
        const uint64_t *entry = &memory->words[index + 1];
        if (memcmp(entry, done, memory->done_words * sizeof *done) == 0
            && is_no_later(entry + memory->done_words, moments, count))
            return true;
    }
    const size_t size = 1 + memory->done_words + count;
    if (memory->used + size <= memory->most && memory->used < NO_ENTRY) {
        memory->now[0] = *bucket;
        memcpy(&memory->words[memory->used], memory->now, size * sizeof *memory->words);
        *bucket = (uint32_t)memory->used;
        memory->used += size;
    }
    return false;
}
