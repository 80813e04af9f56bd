// A tiny reader of PyTorch's schedule CSV, enough for the files in ../shared/data
// (no quoting). Stages are placed where they first appear.
#ifndef TESTS_SCHEDULES_SCHEDULE_CSV_H
#define TESTS_SCHEDULES_SCHEDULE_CSV_H

#include <stdio.h>
#include <string.h>

#include "schedules/schedule.h"
#include "tests/test.h"

#define SCHEDULE_DATA "../shared/data/schedules/"

static inline bool csv_is_there(void)
{
    FILE *file = fopen(SCHEDULE_DATA "SOURCES.txt", "r");
    if (file)
        fclose(file);
    return file != NULL;
}

// Calls back for each action of each cell that is not empty; returns the number of rows.
static inline uint32_t csv_cells(const char *text, void (*cell)(void *state, uint32_t row, struct action action),
                                 void *state)
{
    uint32_t row = 0;
    for (const char *at = text; *at; row++) {
        const size_t line = strcspn(at, "\r\n");
        for (size_t i = 0; i < line;) {
            const size_t length = strcspn(at + i, ",\r\n");
            struct action group[MOST_JOINED];
            struct error error = { 0 };
            const size_t size = length ? group_parse(at + i, length, group, &error) : 0;
            if (length)
                assert_good(size > 0, error);
            for (size_t j = 0; j < size; j++)
                cell(state, row, group[j]);
            i += length + 1;
        }
        at += line;
        at += strspn(at, "\r\n");
    }
    return row;
}

struct csv_sizes {
    uint32_t stages, micro_batches;
    uint32_t home[1024];
};

static inline void csv_measure(void *state, uint32_t row, struct action action)
{
    struct csv_sizes *sizes = state;
    for (; sizes->stages <= action.stage; sizes->stages++)
        sizes->home[sizes->stages] = UINT32_MAX;
    if (sizes->home[action.stage] == UINT32_MAX)
        sizes->home[action.stage] = row;
    if (action.micro_batch != NO_MICRO_BATCH && action.micro_batch >= sizes->micro_batches)
        sizes->micro_batches = action.micro_batch + 1;
}

static inline void csv_add(void *state, uint32_t row, struct action action)
{
    struct error error = { 0 };
    assert_good(schedule_add(state, row, action, &error), error);
}

static inline struct schedule *csv_load(const char *name)
{
    char path[200];
    size_t length;
    struct error error = { 0 };
    snprintf(path, sizeof path, SCHEDULE_DATA "%s", name);
    char *text = text_load(path, &length, &error);
    assert_good(text, error);
    struct csv_sizes sizes = { 0 };
    const uint32_t ranks = csv_cells(text, csv_measure, &sizes);
    struct schedule *schedule =
        schedule_create(name, WEIGHTS_FLUSH, ranks, sizes.stages, sizes.micro_batches, &error);
    assert_good(schedule, error);
    memcpy(schedule->routes, sizes.home, sizes.stages * sizeof sizes.home[0]);
    csv_cells(text, csv_add, schedule);
    free(text);
    return schedule;
}

// Makes one B of an I and the W right behind it.
static inline void csv_merge_backwards(struct schedule *schedule)
{
    for (uint32_t rank = 0; rank < schedule->ranks; rank++) {
        struct action_list *list = &schedule->lists[rank];
        size_t kept = 0;
        for (size_t i = 0; i < list->count; i++) {
            struct action action = list->at[i];
            if (action.kind == ACTION_I && i + 1 < list->count && list->at[i + 1].kind == ACTION_W
                && list->at[i + 1].stage == action.stage && list->at[i + 1].micro_batch == action.micro_batch) {
                action.kind = ACTION_B;
                i++;
            }
            list->at[kept++] = action;
        }
        list->count = kept;
    }
}

// A rank's list as text, for comparing with a literal.
static inline const char *list_text(const struct schedule *schedule, uint32_t rank, char *buffer, size_t size)
{
    size_t used = 0;
    buffer[0] = 0;
    for (size_t i = 0; i < schedule->lists[rank].count; i++) {
        char action[ACTION_SIZE];
        used += (size_t)snprintf(buffer + used, size - used, "%s%s", i ? " " : "",
                                 action_format(schedule->lists[rank].at[i], action));
    }
    return buffer;
}

#endif
