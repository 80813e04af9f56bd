// A schedule from its lists as text; groups as in the document.
#ifndef TESTS_SCHEDULES_MADE_OF_H
#define TESTS_SCHEDULES_MADE_OF_H

#include <string.h>

#include "schedules/schedule.h"
#include "tests/test.h"

static inline struct schedule *made_of(enum weights weights, uint32_t ranks, uint32_t stages, uint32_t micro_batches,
                                       const char *const *lists)
{
    struct error error = { 0 };
    struct schedule *schedule = schedule_create("made", weights, ranks, stages, micro_batches, &error);
    assert_good(schedule, error);
    for (uint32_t rank = 0; rank < ranks; rank++) {
        for (const char *at = lists[rank]; *at; at += strspn(at, " ")) {
            const size_t length = strcspn(at, " ");
            struct action group[MOST_JOINED];
            const size_t size = group_parse(at, length, group, &error);
            assert_good(size, error);
            for (size_t i = 0; i < size; i++)
                assert_good(schedule_add(schedule, rank, group[i], &error), error);
            at += length;
        }
    }
    return schedule;
}

// A rank's list as text, for comparing with a literal. Of the caller.
static inline char *list_of(const struct schedule *schedule, uint32_t rank)
{
    struct text text = { 0 };
    struct error error = { 0 };
    const struct action_list *list = &schedule->lists[rank];
    for (const struct action *at = list->at; at < list_end(list); at += group_size(at, list_end(list))) {
        text_add(&text, "%s", at == list->at ? "" : " ");
        group_write(at, group_size(at, list_end(list)), &text);
    }
    char *taken = text_take(&text, &error);
    assert_good(taken, error);
    return taken;
}

#endif
