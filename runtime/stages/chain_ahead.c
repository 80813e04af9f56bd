// While a layer computes, fetches what the next layer needs, and takes back what the layer before has made. These come
// from and go to the host, or the replicas that have shares. A transfer into the window is called "bring" here.
//
//     as written     bring 0   call 0   bring 1   call 1   bring 2   call 2
//     ahead          bring 0   bring 1  call 0    bring 2  call 1    call 2       on two queues:
//
//     moves          [bring 0][bring 1]     [bring 2]
//     the rank's              [call 0     ] [call 1      ][call 2    ]
//
// A layer's place is at one end of the window, and its neighbours' places are at the other (chain_window.c). A bring
// begins when all steps in front of it are computed. By then the layer before the one that computes, whose place was
// at the same end, is done with it. Weights of recomputed layers go into the workspace, where there is no room for two
// layers. So these are fetched as written.
//
// Shares of replicas are gathered on a queue of the transport, and the queue for moves waits for that queue. So later
// work on the queue for moves, such as zeroing a layer's gradients, begins when the place is no longer in use. A
// device that does one thing at a time does each step where it stands, which takes no less time than the order as
// written.
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/stages/chain_parts.h"

static bool is_in_window(struct spot spot)
{
    return spot.base == AT_WINDOW_WEIGHTS || spot.base == AT_WINDOW_GRADIENTS;
}

static bool comes(const struct step *step)
{
    return (step->kind == STEP_BRING || step->kind == STEP_GATHER || step->kind == STEP_ZERO)
        && is_in_window(step->spots[SPOT_TO]);
}

static bool goes_back(const struct step *step)
{
    return (step->kind == STEP_BRING || step->kind == STEP_SHARE) && is_in_window(step->spots[SPOT_FROM]);
}

// The steps in their new order.
struct ordering {
    struct step *at;
    size_t count;
    size_t call;                   // index of the first call of the last layer
    const struct placed *layer;    // the last layer
    struct step waiting[2];        // transfers for the next layer: weights and gradients
    size_t waiting_count;
    uint8_t event;
};

static void insert(struct ordering *ordering, size_t place, struct step step)
{
    memmove(&ordering->at[place + 1], &ordering->at[place], (ordering->count++ - place) * sizeof step);
    ordering->at[place] = step;
}

// Adds a layer's first call, and, before the calls of the layer before it, its transfers.
static void add_layer(struct ordering *ordering, struct step call)
{
    // A layer that is tied to another one adds to the other's gradients in place, so these must not have left by
    // then.
    const bool can_pass = ordering->layer && !ordering->layer->tied;
    size_t place = can_pass ? ordering->call : ordering->count;
    for (size_t i = 0; i < ordering->waiting_count; i++) {
        struct step bring = ordering->waiting[i];
        bring.is_on_second_queue = true;
        bring.event = i + 1 == ordering->waiting_count ? ordering->event : 0;
        insert(ordering, place++, bring);
    }
    call.event = ordering->waiting_count > 0 ? ordering->event : 0;
    ordering->event = ordering->event == 1 ? 2 : 1;
    ordering->waiting_count = 0;
    ordering->layer = call.link;
    ordering->call = ordering->count;
    insert(ordering, ordering->count, call);
}

static void add(struct ordering *ordering, struct step step)
{
    step.is_on_second_queue = goes_back(&step);
    if (comes(&step))
        ordering->waiting[ordering->waiting_count++] = step;
    else if (step.kind == STEP_CALL && (step.link != ordering->layer || ordering->waiting_count > 0))
        add_layer(ordering, step);
    else
        insert(ordering, ordering->count, step);
}

void program_bring_ahead(struct program *program)
{
    struct ordering ordering = { .at = calloc(program->step_count + 1, sizeof(struct step)), .event = 1 };
    program->failed |= !ordering.at;
    if (program->failed || program->step_count == 0) {
        free(ordering.at);
        return;
    }
    for (size_t s = 0; s < program->step_count; s++)
        add(&ordering, program->steps[s]);
    assert(ordering.count == program->step_count);
    program->is_on_second_queue = true;
    memcpy(program->steps, ordering.at, program->step_count * sizeof *ordering.at);
    free(ordering.at);
}
