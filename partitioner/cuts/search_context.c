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

static void stop(struct search_context *context, enum search_stop stop, const char *why)
{
    context->stop = stop;
    snprintf(context->stopped, sizeof context->stopped, "%s", why);
}

bool context_is_ended(struct search_context *context)
{
    if (context->is_ended)
        return true;
    if (context->progress && context->work >= context->next_progress)
        tell(context);
    if (context->interrupted && *context->interrupted)
        stop(context, STOP_INTERRUPTED, "interrupted");
    else if (context->deadline_ns && clock_now_ns() > context->deadline_ns)
        stop(context, STOP_DEADLINE, "the deadline has passed");
    context->is_ended = context->stop != STOP_NONE;
    return context->is_ended;
}

// --- parts --------------------------------------------------------------------------------

static uint64_t share_of(uint64_t from, uint64_t to, uint64_t parts, uint64_t all_parts)
{
    return from + (to > from ? (uint64_t)((unsigned __int128)(to - from) * parts / all_parts) : 0);
}

struct search_part part_split(const struct search_context *context, const struct search_part *whole, uint64_t parts,
                              uint64_t all_parts)
{
    const uint64_t now = whole->until_ns ? clock_now_ns() : 0;
    return (struct search_part){ .work = context->work, .ns = now,
                                 .until_work = share_of(context->work, whole->until_work, parts, all_parts),
                                 .until_ns = share_of(now, whole->until_ns, parts, all_parts) };
}

struct search_part context_part(const struct search_context *context, uint64_t parts, uint64_t all_parts)
{
    const struct search_part all = { .until_work = context->budget, .until_ns = context->deadline_ns };
    return part_split(context, &all, parts, all_parts);
}

bool part_is_over(struct search_context *context, const struct search_part *part)
{
    return context_is_over(context, part->until_work) || (part->until_ns && clock_now_ns() >= part->until_ns);
}

static double gone(uint64_t from, uint64_t now, uint64_t to)
{
    return now < to ? (double)(now - from) / (double)(to - from) : 1;
}

double part_done(const struct search_context *context, const struct search_part *part)
{
    const double by_work = gone(part->work, context->work, part->until_work);
    const double by_time = part->until_ns ? gone(part->ns, clock_now_ns(), part->until_ns) : 0;
    return by_work > by_time ? by_work : by_time;
}

uint64_t part_room(const struct search_context *context, const struct search_part *part)
{
    const uint64_t now = part->until_ns ? clock_now_ns() : 0;
    const uint64_t work = part->until_work > context->work ? part->until_work - context->work : 0;
    return part->until_ns ? min_u64(work, part->until_ns > now ? (part->until_ns - now) / 1000 : 0) : work;
}

// --- why it ended -----------------------------------------------------------------------------

const char *context_why(struct search_context *context, const char *else_why)
{
    if (context->stop == STOP_NONE && context->work >= context->budget) {
        stop(context, STOP_BUDGET, "");
        snprintf(context->stopped, sizeof context->stopped, "the budget of %llu units of work is used up",
                 (unsigned long long)context->budget);
    }
    return context->stop != STOP_NONE ? context->stopped : else_why;
}

enum search_stop context_stop(struct search_context *context)
{
    return context_why(context, NULL) ? context->stop : STOP_OTHER;
}
