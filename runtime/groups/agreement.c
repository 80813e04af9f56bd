#include "runtime/groups/agreement.h"

#include <stdlib.h>
#include <string.h>

#include "common/number.h"

static bool compare(const struct process_group *group, const struct agreed *agreed, uint32_t count,
                    const char (*values)[AGREED_SIZE], struct error *error)
{
    for (uint32_t rank = 1; rank < group->ranks; rank++)
        for (uint32_t i = 0; i < count; i++) {
            const char *first = values[i], *other = values[(size_t)rank * count + i];
            if (strncmp(first, other, AGREED_SIZE) != 0)
                return error_set(error,
                                 "rank %u has another %s than rank 0, %.*s instead of %.*s: give all ranks the same",
                                 rank, agreed[i].what, AGREED_SIZE - 1, other, AGREED_SIZE - 1, first);
        }
    return true;
}

bool ranks_agree(const struct process_group *group, const struct agreed *agreed, uint32_t count, struct error *error)
{
    char (*mine)[AGREED_SIZE] = calloc(count + (size_t)1, sizeof *mine);
    char (*all)[AGREED_SIZE] = calloc((size_t)group->ranks * count + 1, sizeof *all);
    bool good = (mine && all) || error_no_memory(error, "what ranks agree on");
    for (uint32_t i = 0; good && i < count; i++)
        memcpy(mine[i], agreed[i].value, strnlen(agreed[i].value, AGREED_SIZE - 1));
    good = good && group->all_gather(group->self, mine, (uint64_t)count * sizeof *mine, all, error)
        && compare(group, agreed, count, (const char (*)[AGREED_SIZE])all, error);
    free(mine);
    free(all);
    return good;
}

bool ranks_all_good(const struct process_group *group, bool good, struct error *error)
{
    if (!group)
        return good;
    struct error *all = calloc(group->ranks, sizeof *all), trouble = { 0 };
    const struct error failure = good ? (struct error){ 0 } : *error;
    bool all_good = (all || error_no_memory(&trouble, "what ranks agree on"))
             && group->all_gather(group->self, &failure, sizeof failure, all, &trouble);
    for (uint32_t rank = 0; all_good && rank < group->ranks; rank++)
        if (all[rank].kind != ERROR_NONE) {
            trouble = all[rank];
            all_good = false;
        }
    free(all);
    if (!all_good)
        *error = trouble;
    return all_good;
}

bool ranks_most(const struct process_group *group, uint64_t *numbers, uint32_t count, struct error *error)
{
    if (!group)
        return true;
    uint64_t *all = calloc((size_t)group->ranks * count + 1, sizeof *all);
    const bool good = (all || error_no_memory(error, "what ranks agree on"))
                   && group->all_gather(group->self, numbers, count * sizeof *all, all, error);
    for (size_t i = 0; good && i < (size_t)group->ranks * count; i++)
        numbers[i % count] = max_u64(numbers[i % count], all[i]);
    free(all);
    return good;
}
