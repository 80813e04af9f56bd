#include "cli/last_actions.h"

#include <stdio.h>

#include "cli/command.h"
#include "common/path.h"

enum { MOST_ACTIONS = 8, MOST_RANKS = 16 };  // in the printed text; the trace has all

// "rank 2 did 2F4 2F5 2B0 2F6": its last actions, if it did any.
static void say_rank(const struct timeline *timeline, uint32_t rank)
{
    size_t count = 0, skipped = 0;
    char name[ACTION_SIZE];
    for (size_t i = 0; i < timeline->span_count; i++)
        count += timeline->spans[i].rank == rank;
    if (count == 0)
        return;
    fprintf(stderr, "weir: rank %u's last actions:", rank);
    for (size_t i = 0; i < timeline->span_count; i++)
        if (timeline->spans[i].rank == rank && skipped++ + MOST_ACTIONS >= count)
            fprintf(stderr, " %s", action_format(timeline->spans[i].action, name));
    fprintf(stderr, "\n");
}

static bool save(const struct timeline *timeline, const struct process_group *group, const char *folder,
                 struct error *error)
{
    char path[PATH_MAX], name[64] = "failed.trace.json";
    if (group)
        snprintf(name, sizeof name, "failed.rank%u.trace.json", group->rank);
    if (!path_join(folder, name, path, error))
        return false;
    struct text text = { 0 };
    timeline_write_trace(timeline, &text);
    const bool good = text_save(&text, path, error);
    if (good)
        command_say("all actions of the iteration that failed: %s (for ui.perfetto.dev)", path);
    text_clear(&text);
    return good;
}

void last_actions_say(const struct session *session, const struct process_group *group, const char *folder)
{
    struct text where = { 0 };
    struct timeline timeline = { 0 };
    struct error error = { 0 };
    session_whereabouts(session, &where);
    if (where.length > 0)
        command_say("when it failed, %s", where.data);
    bool good = session_last_actions(session, &timeline, &error);
    for (uint32_t rank = 0; good && rank < timeline.ranks && rank < MOST_RANKS; rank++)
        say_rank(&timeline, rank);
    good = good && (!folder || save(&timeline, group, folder, &error));
    if (!good)
        command_fail(&error);
    timeline_clear(&timeline);
    text_clear(&where);
}
