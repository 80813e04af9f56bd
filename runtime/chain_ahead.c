// Brings what the next layer needs while a layer computes, and takes back what the one before has made: from and to the
// host, or the replicas that have shares of it.
//
//     as written     bring 0   call 0   bring 1   call 1   bring 2   call 2
//     ahead          bring 0   bring 1  call 0    bring 2  call 1    call 2       on two queues:
//
//     moves          [bring 0][bring 1]     [bring 2]
//     the rank's              [call 0     ] [call 1      ][call 2    ]
//
// A layer's place in the window is at one end of it, and its neighbours' at the other (chain_window.c); a bring begins
// when all that stands in front of it is computed, and so when the layer before the last is done with the place. Weights
// of what is run again go into the workspace, where there is no room for two of them: they come as they are written.
//
// Shares are brought together by a queue of the transport's, and the one for moves waits for it: so what is behind it
// there, the zeros of a layer's gradients too, finds the place left by who had it before. On a device that does one thing
// at a time all of it is where it stands, and takes no less than in turn.
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/chain_parts.h"

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

// The steps as they are put in order.
struct ordering {
    struct step *at;
    size_t count;
    size_t call;                   // where the calls of the last layer begin
    const struct placed *layer;    // which that is
    struct step waiting[2];        // what comes for the next: weights and gradients
    size_t waiting_count;
    uint8_t event;
};

static void insert(struct ordering *ordering, size_t place, struct step step)
{
    memmove(&ordering->at[place + 1], &ordering->at[place], (ordering->count++ - place) * sizeof step);
    ordering->at[place] = step;
}

// A layer's first call, and what comes for it ahead of the calls of the layer before.
static void add_layer(struct ordering *ordering, struct step call)
{
    // One that is tied to another adds to that one's gradients where they are, and they must not have left by then.
    const bool can_pass = ordering->layer && !ordering->layer->tied;
    size_t place = can_pass ? ordering->call : ordering->count;
    for (size_t i = 0; i < ordering->waiting_count; i++) {
        struct step bring = ordering->waiting[i];
        bring.is_beside = true;
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
    step.is_beside = goes_back(&step);
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
    program->is_beside = true;
    memcpy(program->steps, ordering.at, program->step_count * sizeof *ordering.at);
    free(ordering.at);
}
