#include "partitioner/cuts/search_context.h"

#include <stdio.h>

#include "common/clock.h"
#include "common/number.h"

#define PROGRESS_WORK 20000

struct search_context context_of(const struct search_request *request, uint64_t usual_budget)
{
    return (struct search_context){
        .budget = request->limits.budget ? request->limits.budget : usual_budget,
        .deadline_ns = request->limits.deadline_ns ? clock_now_ns() + request->limits.deadline_ns : 0,
        .interrupted = request->limits.interrupted,
        .progress = request->limits.progress,
        .self = request->limits.self,
        .best_ns = UINT64_MAX,
    };
}

void context_reserve(struct search_context *context, uint64_t ns)
{
    if (context->deadline_ns > 0)
        context->deadline_ns -= min_u64(ns, context->deadline_ns - 1);
}

static void tell(struct search_context *context)
{
    const struct search_progress now = { context->best_ns, context->bound_ns, context->work, context->budget };
    context->next_progress = context->work + PROGRESS_WORK;
    context->progress(context->self, &now);
}

bool context_is_ended(struct search_context *context)
{
    if (context->is_ended)
        return true;
    if (context->progress && context->work >= context->next_progress)
        tell(context);
    if (context->interrupted && *context->interrupted)
        snprintf(context->stopped, sizeof context->stopped, "interrupted");
    else if (context->deadline_ns && clock_now_ns() > context->deadline_ns)
        snprintf(context->stopped, sizeof context->stopped, "the deadline has passed");
    context->is_ended = context->stopped[0] != '\0';
    return context->is_ended;
}

uint64_t context_until(const struct search_context *context, uint64_t parts, uint64_t of)
{
    const uint64_t left = context->budget > context->work ? context->budget - context->work : 0;
    return context->work + (uint64_t)((unsigned __int128)left * parts / of);
}

const char *context_why(struct search_context *context, const char *else_why)
{
    if (!context->stopped[0] && context->work >= context->budget)
        snprintf(context->stopped, sizeof context->stopped, "the budget of %llu units of work is used up",
                 (unsigned long long)context->budget);
    return context->stopped[0] ? context->stopped : else_why;
}
