#include "runtime/evaluation.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/stages/layer_inputs.h"
#include "schedules/lower.h"
#include "schedules/lower_late.h"
#include "schedules/slots.h"

struct evaluation {
    struct session *session;
    uint32_t micro_batches;
};

static bool take_routes(struct schedule *to, const struct schedule *from, struct error *error)
{
    const size_t numbers = (size_t)from->route_count * from->stages;
    uint32_t *routes = malloc(numbers * sizeof *routes);
    if (!routes)
        return error_no_memory(error, "the routes of an evaluation");
    memcpy(routes, from->routes, numbers * sizeof *routes);
    free(to->routes);
    to->routes = routes;
    to->route_count = from->route_count;
    to->exchanges = from->exchanges;
    for (uint32_t m = 0; m < to->micro_batches; m++)
        to->route_of[m] = from->route_of[m % from->micro_batches];
    return true;
}

// Every rank takes what is ready at the same time in waves: first the micro-batches that came first.
//
//     wave           0    1    2    3
//     stage 0        F0   F1   F2   F3
//     stage 1             F0   F1   F2
static bool add_forwards(struct schedule *order, struct error *error)
{
    bool good = true;
    for (uint32_t wave = 0; wave < order->micro_batches + order->stages; wave++)
        for (uint32_t s = order->stages; good && s-- > 0;) {
            const struct action action = { .stage = (uint16_t)s, .kind = ACTION_F, .micro_batch = wave - s };
            if (wave >= s && wave - s < order->micro_batches)
                good = schedule_add(order, schedule_rank(order, s, action.micro_batch), action, error);
        }
    return good;
}

// One micro-batch after the other: it takes the fewest slots, and ranks with several stages wait.
static bool add_in_turn(struct schedule *order, struct error *error)
{
    bool good = true;
    for (uint32_t m = 0; m < order->micro_batches; m++)
        for (uint32_t s = 0; good && s < order->stages; s++)
            good = schedule_add(order, schedule_rank(order, s, m),
                                (struct action){ .stage = (uint16_t)s, .kind = ACTION_F, .micro_batch = m }, error);
    return good;
}

static struct schedule *order_of(const struct schedule *trained, uint32_t micro_batches, bool in_turn,
                                 struct error *error)
{
    struct schedule *order =
        schedule_create("evaluation", WEIGHTS_FLUSH, trained->ranks, trained->stages, micro_batches, error);
    if (order && take_routes(order, trained, error) && (in_turn ? add_in_turn : add_forwards)(order, error))
        return order;
    schedule_free(order);
    return NULL;
}

static bool has_room(const struct pipeline *pipeline, const struct schedule *forwards, bool *fits, struct error *error)
{
    const uint32_t stages = forwards->stages;
    struct slots *slots = calloc(2 * (size_t)stages, sizeof *slots), *trained = slots + stages;
    const bool good = (slots || error_no_memory(error, "the slots of an evaluation"))
                   && slots_count(forwards, slots, error) && slots_count(pipeline->schedule, trained, error);
    *fits = good;
    for (uint32_t s = 0; good && s < stages; s++) {
        const enum input_life life = pipeline->stages[s].bytes.input_life;
        *fits = *fits && slots[s].input[life] <= trained[s].input[life] && slots[s].kept <= trained[s].kept
             && slots[s].kept_through <= trained[s].kept_through && slots[s].output <= trained[s].output;
    }
    free(slots);
    return good;
}

// Forwards alone that fit into the pipeline's slots. The first of these ways that does is taken; receives that stand
// late take fewer slots than early ones. NULL without an error if none does.
static struct schedule *forwards_of(const struct pipeline *pipeline, uint32_t micro_batches, struct error *error)
{
    static const struct {
        bool in_turn;
        struct schedule *(*lower)(const struct schedule *order, struct error *error);
    } ways[] = { { false, schedule_lower }, { false, schedule_lower_late }, { true, schedule_lower_late } };
    struct schedule *found = NULL;
    for (size_t i = 0; !found && error->kind == ERROR_NONE && i < sizeof ways / sizeof ways[0]; i++) {
        struct error unproved = { 0 };
        bool fits = false;
        struct schedule *order = order_of(pipeline->schedule, micro_batches, ways[i].in_turn, error);
        found = order ? ways[i].lower(order, error) : NULL;
        schedule_free(order);
        if (found && has_room(pipeline, found, &fits, error) && fits && pipeline_prove(found, &unproved))
            return found;
        schedule_free(found);
        found = NULL;
    }
    return found;
}

bool evaluation_fits(const struct pipeline *pipeline, uint32_t micro_batches, bool *fits, struct error *error)
{
    struct error reason = { 0 };
    struct schedule *forwards =
        pipeline->schedule->splits == 1 ? forwards_of(pipeline, micro_batches, &reason) : NULL;
    *fits = forwards != NULL;
    schedule_free(forwards);
    return reason.kind == ERROR_NONE || error_hand_on(error, &reason);
}

struct evaluation *evaluation_open(const struct pipeline *pipeline, uint32_t micro_batches, struct device *device,
                                   const struct session_settings *settings, struct error *error)
{
    struct evaluation *evaluation = calloc(1, sizeof *evaluation);
    struct schedule *forwards = forwards_of(pipeline, micro_batches, error);
    struct session_settings own = *settings;
    own.lender = pipeline->session;
    own.optimizer.clip = 0;
    own.optimizer.measures_norm = false;
    own.batch = own.micro_batch = 0;
    own.last_input_bytes =
        layers_prediction_bytes(pipeline->layers, pipeline->plan->stages[pipeline->plan->stage_count - 1].end);
    own.auxiliary_order = pipeline->auxiliary_order;
    own.opened = NULL;
    own.failed = NULL;
    if (!evaluation)
        error_no_memory(error, "an evaluation");
    if (evaluation && forwards) {
        evaluation->micro_batches = micro_batches;
        evaluation->session = session_create(forwards, pipeline->stages, device, &own, error);
    }
    schedule_free(forwards);
    if (evaluation && evaluation->session)
        return evaluation;
    free(evaluation);
    return NULL;
}

uint64_t evaluation_free(struct evaluation *evaluation)
{
    const uint64_t left_bytes = evaluation ? session_free(evaluation->session) : 0;
    if (left_bytes == 0)
        free(evaluation);
    return left_bytes;
}

uint32_t evaluation_micro_batches(const struct evaluation *evaluation)
{
    return evaluation->micro_batches;
}

bool evaluation_run(struct evaluation *evaluation, uint64_t step, const struct forward_results *into,
                    struct error *error)
{
    if (!session_evaluate(evaluation->session, step, into->predictions, error))
        return false;
    const struct session_result *last = session_last(evaluation->session);
    if (into->losses)
        memcpy(into->losses, last->losses, evaluation->micro_batches * sizeof *into->losses);
    if (into->auxiliary_losses)
        memcpy(into->auxiliary_losses, last->auxiliary_sums,
               evaluation->micro_batches * sizeof *into->auxiliary_losses);
    if (into->metrics)
        memcpy(into->metrics, last->metrics, last->metric_count * sizeof *into->metrics);
    return true;
}

bool evaluation_is_usable(struct evaluation *evaluation, struct error *error)
{
    return session_is_usable(evaluation->session, error);
}
