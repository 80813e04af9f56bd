// One function of a layer, called again and again on buffers with fences, to find what it may not do:
//
//     write beyond its buffers                   zones around them are looked at after each call
//     change what it may only read               compared with what it was
//     give other bits for the same data          called twice, and after another micro-batch
//     depend on what it was not given            what has no meaning for it (what it is to write, the workspace,
//                                                 an input that is not kept, the zones) is filled with NaN, and
//                                                 then with something else; which it was is found by one at a time
#ifndef RUNTIME_GUARD_GUARDED_CALL_H
#define RUNTIME_GUARD_GUARDED_CALL_H

#include "device/device.h"
#include "runtime/guard/fence.h"
#include "runtime/weir.h"

// The places of struct weir_pass; of several inputs, and of their gradients, each, in their order.
enum place {
    PLACE_PARAMETERS, PLACE_INPUT, PLACE_OUTPUT = PLACE_INPUT + WEIR_MOST_INPUTS, PLACE_SAVED, PLACE_OUTPUT_GRADIENT,
    PLACE_INPUT_GRADIENT, PLACE_HELD = PLACE_INPUT_GRADIENT + WEIR_MOST_INPUTS, PLACE_GRADIENTS, PLACE_WORKSPACE,
    PLACE_TIED_PARAMETERS, PLACE_TIED_GRADIENTS, PLACE_LOSS, PLACES
};
static inline bool place_is_input(enum place place)
{
    return place >= PLACE_INPUT && place < PLACE_OUTPUT;
}
extern const char *const place_names[PLACES];  // "input_gradient"

enum layer_call { CALL_INITIALIZE, CALL_FORWARD, CALL_BACKWARD_INPUT, CALL_BACKWARD_WEIGHT, CALL_BACKWARD, CALLS };
extern const char *const call_names[CALLS];  // "backward_input"

// What a place is to a function.
struct given {
    bool is_there;       // else NULL
    bool is_constant;    // only read
    bool is_result;      // what it is called for
    const void *content;      // that it begins with, so many bytes; the others are filled
    uint64_t content_bytes;
    const void *other;   // content that differs only where nobody has written; NULL: none does
};

struct guarded_call {
    const struct weir_layer *layer;
    enum layer_call kind;
    struct queue *queue;
    struct guarded_call *forward;  // of the same layer, for another micro-batch in between; NULL: none
    struct fence fences[PLACES];
    struct given given[PLACES];
    // Of the last guarded_call_check(): with one filling, and with the other.
    unsigned char *results[2][PLACES];
};

// `given` is set; each place has so many bytes.
bool guarded_call_create(struct guarded_call *call, const uint64_t bytes[PLACES], struct error *error);
void guarded_call_clear(struct guarded_call *call);

// Calls it once; the results lie in the fences.
bool guarded_call_run(struct guarded_call *call, struct error *error);

// Calls it as often as it takes to find all of the above, and keeps the results. An error names function and field.
bool guarded_call_check(struct guarded_call *call, struct error *error);

// Of the last guarded_call_check(): a result's bytes, but for fewer than 256 at its end that nobody has written, to
// which sizes may be rounded up; and which of those, [*first, *end), nobody has written either.
uint64_t guarded_call_written(const struct guarded_call *call, enum place place);
bool guarded_call_left_out(const struct guarded_call *call, enum place place, uint64_t *first, uint64_t *end);

// "forward WORDS", of kind ERROR_ANSWER. Returns false.
bool guarded_call_blame(const struct guarded_call *call, struct error *error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// "saved: saved_bytes is 4096" for sentences that go on.
enum { PLACE_SIZE_WORDS = 120 };
const char *guarded_call_size(const struct guarded_call *call, enum place place, char words[PLACE_SIZE_WORDS]);

#endif
