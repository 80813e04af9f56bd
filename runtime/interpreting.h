// An interpreter's insides, for the files that share them: messages and waiting in
// interpreter_messages.c, STEP and REDUCE in interpreter_updates.c, computing and the
// list in interpreter.c.
#ifndef RUNTIME_INTERPRETING_H
#define RUNTIME_INTERPRETING_H

#include "runtime/flights.h"
#include "runtime/interpreter.h"

struct interpreter {
    struct interpreter_needs needs;
    struct flights flights;
    uint64_t step;
    uint64_t passes;        // that have been run
    uint64_t recompute_ns;  // of the action at hand
    struct ticket reduction;
};

// Puts rank and action in front of a failure of this rank's own. (What a transport
// reports of others names its place already.) Returns false.
bool at_action(const struct interpreter *in, struct action action, struct error *error);

// Until the ticket is done, which `what` has posted.
bool await(struct interpreter *in, struct ticket *ticket, struct action what, struct error *error);
// Until the message of a RECV is there; at once where none was posted.
bool await_message(struct interpreter *in, struct ticket *ticket, struct action receive, struct error *error);
// The last messages are still under way when the list is done.
bool await_all_outgoing(struct interpreter *in, struct error *error);

struct message_header header_of(const struct interpreter *in, struct action action, uint64_t version);

// Posts the receives to come for which a slot is free already.
bool post_ahead(struct interpreter *in, struct error *error);

// A slot for what goes on, to another rank or to the next stage on this one. One that
// was sent from is free again when its message is out.
bool take_outgoing(struct interpreter *in, struct action action, enum direction direction, struct error *error);

// What stands in a list and is no computing.
bool do_send(struct interpreter *in, struct action action, struct error *error);
bool do_receive(struct interpreter *in, struct action action, struct error *error);
bool do_step(struct interpreter *in, struct action action, struct error *error);
bool do_reduce(struct interpreter *in, struct action action, struct error *error);
bool do_validate(struct interpreter *in, struct action action, struct error *error);

#endif
