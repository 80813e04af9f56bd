// What every part of a search spends and heeds: work, the deadline, an interrupt, and who is told how far it is.
//
// Work is counted in units of about a microsecond, so that the same request makes the same plan on any machine. Budgets
// are fixed parts of the whole, and never follow how far a plan is from its bound.
#ifndef PARTITIONER_CUTS_SEARCH_CONTEXT_H
#define PARTITIONER_CUTS_SEARCH_CONTEXT_H

#include "partitioner/search/search.h"

struct search_context {
    uint64_t work, budget;
    uint64_t deadline_ns;                      // by clock_now_ns(); 0: none
    const volatile sig_atomic_t *interrupted;  // or NULL
    void (*progress)(void *self, const struct search_progress *progress);  // or NULL
    void *self;
    uint64_t best_ns, bound_ns;                // what is told
    uint64_t next_progress;                    // the work at which it is told again
    bool is_ended;                             // by the deadline or an interrupt: no part goes on
    char stopped[80];                          // why, or empty
};

// For a search that begins now.
struct search_context context_of(const struct search_request *request, uint64_t usual_budget);

// Ends the search so much before the deadline, for what is still to be done with the plan that it finds.
void context_reserve(struct search_context *context, uint64_t ns);

// Whether the deadline has passed or somebody interrupts.
bool context_is_ended(struct search_context *context);

// The same, or work has reached `until`.
static inline bool context_is_over(struct search_context *context, uint64_t until)
{
    return context_is_ended(context) || context->work >= until;
}

// A part of a search: so much work, and where there is a deadline no longer than so.
struct search_part {
    uint64_t work, until_work;
    uint64_t ns, until_ns;  // by clock_now_ns(); 0: no deadline
};

// So many `parts` of `of` what is left of the budget, and of the time until the deadline.
struct search_part context_part(const struct search_context *context, uint64_t parts, uint64_t of);
// The same of what is left of a part.
struct search_part part_split(const struct search_context *context, const struct search_part *whole, uint64_t parts,
                              uint64_t of);

bool part_is_over(struct search_context *context, const struct search_part *part);

// How much of it is done, by work or by time, whichever is more: 0 to 1.
double part_done(const struct search_context *context, const struct search_part *part);

// Units of work for which it has room, by time about as many as microseconds.
uint64_t part_room(const struct search_context *context, const struct search_part *part);

// Why a search that proved nothing has ended; `else_why` where neither time nor budget ended it.
const char *context_why(struct search_context *context, const char *else_why);

#endif
