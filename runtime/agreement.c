#include "runtime/agreement.h"

#include <stdlib.h>
#include <string.h>

static bool compare(const struct process_group *group, const struct agreed *own, uint32_t count,
                    const char (*values)[AGREED_SIZE], struct error *error)
{
    for (uint32_t rank = 1; rank < group->ranks; rank++)
        for (uint32_t i = 0; i < count; i++) {
            const char *first = values[i], *other = values[(size_t)rank * count + i];
            if (strncmp(first, other, AGREED_SIZE) != 0)
                return error_set(error, "rank %u has another %s than rank 0, %.*s instead of %.*s: give all ranks the same",
                                 rank, own[i].what, AGREED_SIZE - 1, other, AGREED_SIZE - 1, first);
        }
    return true;
}

bool ranks_agree(const struct process_group *group, const struct agreed *own, uint32_t count, struct error *error)
{
    char (*mine)[AGREED_SIZE] = calloc(count + (size_t)1, sizeof *mine);
    char (*all)[AGREED_SIZE] = calloc((size_t)group->ranks * count + 1, sizeof *all);
    bool good = (mine && all) || error_no_memory(error, "what ranks agree on");
    for (uint32_t i = 0; good && i < count; i++)
        memcpy(mine[i], own[i].value, strnlen(own[i].value, AGREED_SIZE - 1));
    good = good && group->all_gather(group->self, mine, (uint64_t)count * sizeof *mine, all, error)
        && compare(group, own, count, (const char (*)[AGREED_SIZE])all, error);
    free(mine);
    free(all);
    return good;
}

bool ranks_all_good(const struct process_group *group, bool good, struct error *error)
{
    if (!group)
        return good;
    struct error *all = calloc(group->ranks, sizeof *all), trouble = { 0 };
    const struct error own = good ? (struct error){ 0 } : *error;
    bool told = (all || error_no_memory(&trouble, "what ranks agree on"))
             && group->all_gather(group->self, &own, sizeof own, all, &trouble);
    for (uint32_t rank = 0; told && rank < group->ranks; rank++)
        if (all[rank].kind != ERROR_NONE) {
            trouble = all[rank];
            told = false;
        }
    free(all);
    if (!told)
        *error = trouble;
    return told;
}
