// The state that all parts of a search share: work, the deadline, an interrupt, and reports of progress.
//
// Work is counted in units of about a microsecond, not measured, so that the same request makes the same plan on any
// machine. Budgets are fixed parts of the whole. They never depend on how far a plan is from its bound.
#ifndef PARTITIONER_CUTS_SEARCH_CONTEXT_H
#define PARTITIONER_CUTS_SEARCH_CONTEXT_H

#include "partitioner/search/search.h"

struct search_context {
    uint64_t work, budget;
    uint64_t deadline_ns;                      // by clock_now_ns(); 0: none
    const volatile sig_atomic_t *interrupted;  // or NULL
    void (*progress)(void *self, const struct search_progress *progress);  // or NULL
    void *self;
    uint64_t best_ns, bound_ns;                // reported as progress
    uint64_t next_progress;                    // the work at which progress is reported again
    bool is_ended;                             // by the deadline or an interrupt: no part continues
    enum search_stop stop;                     // what ended it,
    char stopped[80];                          // and the same in words
};

// The context of a search that begins now. `usual_budget` counts if the request has no budget.
struct search_context context_of(const struct search_request *request, uint64_t usual_budget);

// Ends the search `ns` before the deadline, to leave time for what is still to be done with the plan that it finds.
void context_reserve(struct search_context *context, uint64_t ns);

// Whether the deadline has passed or the search was interrupted. Also reports progress when it is due.
bool context_is_ended(struct search_context *context);

// The same, or work has reached `until`.
static inline bool context_is_over(struct search_context *context, uint64_t until)
{
    return context_is_ended(context) || context->work >= until;
}

// A part of a search: an amount of work and, if there is a deadline, of time.
struct search_part {
    uint64_t work, until_work;
    uint64_t ns, until_ns;  // by clock_now_ns(); 0: no deadline
};

// The fraction parts / of of what is left of the budget, and of the time until the deadline.
struct search_part context_part(const struct search_context *context, uint64_t parts, uint64_t all_parts);
// The same fraction of what is left of a part.
struct search_part part_split(const struct search_context *context, const struct search_part *whole, uint64_t parts,
                              uint64_t all_parts);

bool part_is_over(struct search_context *context, const struct search_part *part);

// How much of a part is done, by work or by time, whichever is more: 0 to 1.
double part_done(const struct search_context *context, const struct search_part *part);

// The units of work that are left in a part. If there is a deadline, no more than the microseconds that are left.
uint64_t part_room(const struct search_context *context, const struct search_part *part);

// Why a search that proved nothing has ended; `else_why` if no interrupt, deadline or budget ended it.
const char *context_why(struct search_context *context, const char *else_why);
// The same as a kind; STOP_OTHER in the latter case.
enum search_stop context_stop(struct search_context *context);

#endif
