// Calls one function of a layer again and again, on buffers with fences, and finds whether it breaks its contract:
//
//     writes beyond its buffers                  zones around them are checked after each call
//     changes what it may only read              compared with what it was
//     gives different bits for the same data     called twice, and after another micro-batch
//     depends on what it was not given           what has no meaning for it (its results, the workspace,
//                                                 an input that is not kept, the zones) is filled with NaN, and
//                                                 then with something else; which it was is found by one at a time
#ifndef RUNTIME_GUARD_GUARDED_CALL_H
#define RUNTIME_GUARD_GUARDED_CALL_H

#include "device/device.h"
#include "runtime/guard/fence.h"
#include "common/public/weir_layer.h"

// The places of struct weir_pass. If a layer has several inputs, each of them and of their gradients has its own, in
// order.
enum place {
    PLACE_PARAMETERS, PLACE_INPUT, PLACE_OUTPUT = PLACE_INPUT + WEIR_MOST_INPUTS, PLACE_SAVED, PLACE_OUTPUT_GRADIENT,
    PLACE_INPUT_GRADIENT, PLACE_HELD = PLACE_INPUT_GRADIENT + WEIR_MOST_INPUTS, PLACE_GRADIENTS, PLACE_WORKSPACE,
    PLACE_TIED_PARAMETERS, PLACE_TIED_GRADIENTS, PLACE_LOSS, PLACE_AUXILIARY_LOSS, PLACE_STATE, PLACE_STATISTICS,
    PLACE_METRICS, PLACES
};
static inline bool place_is_input(enum place place)
{
    return place >= PLACE_INPUT && place < PLACE_OUTPUT;
}
static inline bool place_is_loss(enum place place)
{
    return place == PLACE_LOSS || place == PLACE_AUXILIARY_LOSS || place == PLACE_METRICS;
}
extern const char *const place_names[PLACES];  // "input_gradient"

enum layer_call {
    CALL_INITIALIZE, CALL_FORWARD, CALL_BACKWARD_INPUT, CALL_BACKWARD_WEIGHT, CALL_BACKWARD, CALL_INITIALIZE_STATE,
    CALL_FOLD,      // of one micro-batch's statistics, twice
    CALL_EVALUATE,  // forward in an evaluation
    CALLS
};
extern const char *const call_names[CALLS];  // "backward_input"

// The role of a place for a function.
struct place_role {
    bool is_there;       // else it is NULL
    bool is_constant;    // it may only be read
    bool is_result;      // the function is called to write it
    const void *content;      // its first content_bytes bytes; the others are filled
    uint64_t content_bytes;
    const void *other;   // the same content, except bytes that no call has written; NULL: no bytes differ
};

struct guarded_call {
    const struct weir_layer *layer;
    enum layer_call kind;
    struct queue *queue;
    float share;  // of the pass
    struct guarded_call *forward;  // of the same layer, called for another micro-batch in between; NULL: none
    struct fence fences[PLACES];
    struct place_role roles[PLACES];
    // Results of the last guarded_call_check(), with one filling and with the other.
    unsigned char *results[2][PLACES];
};

// Allocates `bytes` bytes for each place. `roles` must be set before. Clear the call also if this fails.
bool guarded_call_create(struct guarded_call *call, const uint64_t bytes[PLACES], struct error *error);
void guarded_call_clear(struct guarded_call *call);

// Calls the function once; the results are in the fences.
bool guarded_call_run(struct guarded_call *call, struct error *error);

// Calls the function as often as needed to check all of the above, and keeps the results. An error names function and
// field.
bool guarded_call_check(struct guarded_call *call, struct error *error);

// About a result of the last guarded_call_check(). The first returns its size, less up to 255 bytes at its end that
// no call has written, since sizes may be rounded up. The second says whether bytes within that, [*first, *end), were
// not written.
uint64_t guarded_call_written(const struct guarded_call *call, enum place place);
bool guarded_call_left_out(const struct guarded_call *call, enum place place, uint64_t *first, uint64_t *end);

// Sets the error "forward WORDS", of kind ERROR_ANSWER. Returns false.
bool guarded_call_blame(const struct guarded_call *call, struct error *error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// Words such as "saved: saved_bytes is 4096", for use in a sentence.
enum { PLACE_SIZE_WORDS = 120 };
const char *guarded_call_size(const struct guarded_call *call, enum place place, char words[PLACE_SIZE_WORDS]);

#endif
