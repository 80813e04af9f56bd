#include "partitioner/plan/plan_path.h"

#include <stdlib.h>

#include "common/number.h"
#include "schedules/pictures/causes.h"

static int by_ends(const void *a, const void *b)
{
    const struct path_link *x = a, *y = b;
    if (x->from != y->from)
        return x->from < y->from ? -1 : 1;
    return x->to < y->to ? -1 : x->to > y->to;
}

// Messages between the same ranks become one link.
static void join_links(struct plan_path *path)
{
    size_t count = 0;
    qsort(path->links, path->link_count, sizeof path->links[0], by_ends);
    for (size_t i = 0; i < path->link_count; i++) {
        struct path_link *last = count > 0 ? &path->links[count - 1] : NULL;
        if (last && by_ends(last, &path->links[i]) == 0) {
            last->messages++;
            last->ns += path->links[i].ns;
        } else {
            path->links[count++] = path->links[i];
        }
    }
    path->link_count = count;
    for (size_t i = 0; i < count; i++) {
        path->links_ns += path->links[i].ns;
        path->slowest = path->slowest && path->links[i].ns <= path->slowest->ns ? path->slowest : &path->links[i];
    }
}

static bool is_pass(struct action action)
{
    return action.kind == ACTION_F || action.kind == ACTION_B || action.kind == ACTION_I || action.kind == ACTION_R;
}

// What an exchange takes longer, it has waited for the one before it.
static void add_exchange(const struct plan *plan, const struct message *message, struct plan_path *path)
{
    const uint32_t stage = message->action.stage - (message->action.kind == ACTION_SEND_B);
    const uint64_t took_ns = message->end_ns - message->start_ns;
    const uint64_t own_ns = min_u64(took_ns, plan->stages[stage].costs.exchange_ns);
    path->exchanging_ns += own_ns;
    path->waiting_ns += took_ns - own_ns;
}

static bool attribute(const struct plan *plan, const struct timeline *timeline, const struct causes *causes,
                      struct plan_path *path, struct error *error)
{
    path->links = calloc(timeline->message_count + 1, sizeof path->links[0]);
    if (!path->links)
        return error_no_memory(error, "the critical path of a plan");
    for (size_t i = 0; i < timeline->span_count; i++) {
        const struct span *span = &timeline->spans[i];
        if (!causes->critical[i])
            continue;
        struct path_stage *stage = &path->stages[span->action.stage];
        stage->actions += span->end_ns > span->start_ns;
        stage->passes += span->end_ns > span->start_ns && is_pass(span->action);
        stage->recompute_ns += span->recompute_ns;
        stage->compute_ns += span->end_ns - span->start_ns - span->recompute_ns;
    }
    path->waiting_ns = causes->path.order_ns;
    for (size_t i = 0; i < timeline->message_count; i++) {
        const struct message *message = &timeline->messages[i];
        const uint64_t took_ns = message->end_ns - message->start_ns;
        if (causes->critical_message[i] && is_exchange(message))
            add_exchange(plan, message, path);  // no quicker link between ranks would make it shorter
        else if (causes->critical_message[i])
            path->links[path->link_count++] = (struct path_link){ message->from, message->to, 1, took_ns };
    }
    join_links(path);
    return true;
}

static bool follow(const struct plan *plan, struct plan_path *path, struct error *error)
{
    struct simulation run = { 0 };
    struct timeline timeline = { 0 };
    struct causes causes = { 0 };
    bool good = plan_simulate(plan, path->micro_batches, &run, &timeline, error)
             && (causes_create(&causes, &timeline) || error_no_memory(error, "the critical path of a plan"));
    path->run_ns = run.iteration_ns;
    good = good && attribute(plan, &timeline, &causes, path, error);
    causes_clear(&causes);
    timeline_clear(&timeline);
    simulation_clear(&run);
    return good;
}

bool plan_path_read(const struct plan *plan, struct plan_path *path, struct error *error)
{
    const uint32_t runs = plan->weights == WEIGHTS_FLUSH ? 1 : 3;
    *path = (struct plan_path){ .micro_batches = runs * plan->micro_batches, .stage_count = plan->stage_count };
    path->stages = calloc(plan->stage_count + 1, sizeof path->stages[0]);
    if (!path->stages)
        error_no_memory(error, "the critical path of a plan");
    if (path->stages && follow(plan, path, error))
        return true;
    plan_path_clear(path);
    return false;
}

void plan_path_clear(struct plan_path *path)
{
    free(path->stages);
    free(path->links);
    *path = (struct plan_path){ 0 };
}
