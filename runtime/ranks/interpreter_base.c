#include "common/number.h"
#include "runtime/ranks/interpreting.h"

bool at_action(const struct interpreter *interpreter, struct action action, struct error *error)
{
    char name[ACTION_SIZE];
    return error_at(error, "rank %u: %s", interpreter->needs.rank, action_format(action, name));
}

bool deadline_missed(struct interpreter *interpreter, struct error *error)
{
    char limit[NUMBER_SIZE];
    rank_status_report(interpreter->needs.status, error);
    return error_at(error, "nothing came for %s", time_format(interpreter->needs.deadline_ns, limit));
}

struct message_header header_of(const struct interpreter *interpreter, struct action action, uint64_t version)
{
    return (struct message_header){ interpreter->step, action.micro_batch, action.split, version };
}

stage_function *function_of(const struct stage_functions *functions, enum action_kind kind)
{
    switch (kind) {
    case ACTION_F:
        return functions->forward;
    case ACTION_B:
        return functions->backward;
    case ACTION_I:
        return functions->backward_input;
    case ACTION_W:
        return functions->backward_weight;
    default:
        return functions->recompute;
    }
}

bool take_slot(struct interpreter *interpreter, struct action action, enum slab_class class, struct error *error)
{
    return flights_take(&interpreter->flights, action, class, error) || at_action(interpreter, action, error);
}

void queue_behind(struct interpreter *interpreter, struct event *event)
{
    if (event)
        queue_wait_event(interpreter->needs.queue, event);
}

// A failure of a move is noticed when the pass ends. Until then the queue goes on, with whatever the slots held.
bool moves_are_well(const struct interpreter *interpreter, struct error *error)
{
    if (!interpreter->moves || !queue_has_failed(interpreter->moves))
        return true;
    queue_report(interpreter->moves, error);
    return error_at(error, "rank %u: to its host and back", interpreter->needs.rank);
}
