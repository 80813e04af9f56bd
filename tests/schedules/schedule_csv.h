// The files in ../shared/data/schedules, and lists as text.
#ifndef TESTS_SCHEDULES_SCHEDULE_CSV_H
#define TESTS_SCHEDULES_SCHEDULE_CSV_H

#include <stdio.h>
#include <string.h>

#include "schedules/csv.h"
#include "tests/test.h"

#define SCHEDULE_DATA "../shared/data/schedules/"

static inline bool csv_is_there(void)
{
    FILE *file = fopen(SCHEDULE_DATA "SOURCES.txt", "r");
    if (file)
        fclose(file);
    return file != NULL;
}

static inline struct schedule *csv_load(const char *name)
{
    char path[200];
    size_t length, passed_over;
    struct error error = { 0 };
    snprintf(path, sizeof path, SCHEDULE_DATA "%s", name);
    char *text = text_load(path, &length, &error);
    assert_good(text, error);
    struct schedule *schedule = csv_read(text, length, path, &passed_over, &error);
    assert_good(schedule, error);
    assert_int_equal(passed_over, 0);
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
    struct text text = { 0 };
    const struct action *at = schedule->lists[rank].at, *end = list_end(&schedule->lists[rank]);
    for (size_t joined; at < end; at += joined) {
        joined = group_size(at, end);
        if (text.length)
            text_add(&text, " ");
        group_write(at, joined, &text);
    }
    snprintf(buffer, size, "%s", text.data ? text.data : "");
    text_clear(&text);
    return buffer;
}

#endif
