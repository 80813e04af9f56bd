#include "partitioner/search/search_telling.h"

#include <stdio.h>

#include "common/number.h"

static void tell(void *self, const struct search_progress *of_part)
{
    struct telling *telling = self;
    const struct search_request *given = telling->given;
    if (of_part->work < telling->last)  // another search has begun
        telling->done += telling->last;
    telling->last = of_part->work;
    telling->best_ns = of_part->best_ns < telling->best_ns ? of_part->best_ns : telling->best_ns;
    const uint64_t bound = *telling->bound_ns < telling->best_ns ? *telling->bound_ns : telling->best_ns;
    const struct search_progress whole = {
        .best_ns = telling->best_ns,
        .bound_ns = bound == UINT64_MAX ? 0 : bound,
        .work = telling->done + of_part->work,
        .budget = given->limits.budget ? given->limits.budget : SEARCH_DEFAULT_BUDGET,
    };
    given->limits.progress(given->limits.self, &whole);
}

void telling_begin(struct telling *telling, const struct search_request *given, const uint64_t *bound_ns,
                   struct search_request *part)
{
    *telling = (struct telling){ .given = given, .bound_ns = bound_ns, .best_ns = UINT64_MAX };
    if (!given->limits.progress)
        return;
    part->limits.progress = tell;
    part->limits.self = telling;
}

// A search that consists of several spends the budget of each.
const char *search_progress_format(const struct search_progress *now, char *buffer)
{
    char best[NUMBER_SIZE], bound[NUMBER_SIZE], work[64];
    snprintf(work, sizeof work, now->work <= now->budget ? "%llu of %llu units of work" : "%llu units of work",
             (unsigned long long)now->work, (unsigned long long)now->budget);
    if (now->best_ns == UINT64_MAX)
        snprintf(buffer, SEARCH_PROGRESS_SIZE, "%s", work);
    else if (now->bound_ns == 0)
        snprintf(buffer, SEARCH_PROGRESS_SIZE, "best so far %s, %s", time_format(now->best_ns, best), work);
    else
        snprintf(buffer, SEARCH_PROGRESS_SIZE, "best so far %s, none can take less than %s, %s",
                 time_format(now->best_ns, best), time_format(now->bound_ns, bound), work);
    return buffer;
}
