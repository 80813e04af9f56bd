// An interpreter's insides, for the files that share them: messages and waiting for
// other ranks in interpreter_messages.c, waiting for the rank's own queue in
// interpreter_device.c, STEP in interpreter_updates.c, REDUCE in interpreter_reduce.c, what replicas share in interpreter_exchange.c,
// computing and the list
// in interpreter.c, EVICT and PREFETCH in interpreter_moves.c, what is done before all that in warm_up.c.
#ifndef RUNTIME_INTERPRETING_H
#define RUNTIME_INTERPRETING_H

#include "runtime/clipping.h"
#include "runtime/flights.h"
#include "runtime/host_updates.h"
#include "runtime/interpreter.h"
#include "runtime/replays.h"

struct interpreter {
    struct interpreter_needs needs;
    struct flights flights;
    struct replays replays;
    struct clipping clipping;
    struct loss_scaling scaling;
    bool skips;              // the step at hand: gradients have overflowed on some stage
    struct host_updates host_updates;
    uint64_t step;
    uint64_t passes;         // that have been run
    struct event *latest;    // behind all that the queue was given in this pass; NULL at first
    size_t attended;         // meetings of this pass that the rank was absent from
    struct queue *moves;     // for what comes and goes beside the rank's queue; NULL where nothing does
    struct event *move_events[3];  // of stages where it comes a layer ahead
    struct event *moved;     // behind all that it was given in this pass; NULL at first
    size_t ended;            // as many spans of this pass have their events recorded,
    size_t well;             // and as many are known to have been done well
    uint64_t looked_ns;      // of the processor, waiting in this pass for a queue that is far behind
    struct ticket reduction;
    struct event *updated;   // when a share of the weights was, which others wait for
};

// What an action has of the others' shares, in its meeting. The functions are the stage's to call.
struct exchange {
    struct stage_exchange functions;  // first, so that these are their exchange
    struct interpreter *in;
    struct action action;
    uint32_t number;  // of the meeting
};

// Of an action at its place in the list; what it is called with is NULL where replicas do not meet for it.
const struct stage_exchange *open_exchange(struct interpreter *in, struct action action, size_t position,
                                           struct exchange *exchange);
// It is done: what it has brought counts.
void close_exchange(const struct exchange *exchange);
// Comes to the meetings that others have, and this rank does nothing in, before what stands at `position`.
bool attend_absent(struct interpreter *in, size_t position, struct error *error);

// Elements of the stage's gradients from all copies into the room for them.
bool gather_gradients(struct interpreter *in, struct local *local, uint64_t first, uint64_t count, struct error *error);

// Posts what this rank brings, and waits until all have come; the ticket's events say when it is added up.
bool add_with_others(struct interpreter *in, const struct reduction *reduction, struct message_header header,
                     struct action action, struct event *after, struct error *error);

// The same for an update of the newest version.
bool add_for_update(struct interpreter *in, const struct reduction *reduction, struct action action,
                    struct event *after, struct error *error);

// What a STEP or REDUCE takes besides, and when all of it is done.
bool end_update(struct interpreter *in, const struct recording *recording, struct error *error);

// Whether the stage shares weights with others; and whether its replicas send each other signs for its next update.
bool is_tied(const struct interpreter *in, uint32_t stage);
bool sends_signs(const struct interpreter *in, const struct local *local);

// The function of a stage for a kind of action.
typedef bool stage_function(void *self, const struct stage_pass *pass, struct error *error);
stage_function *function_of(const struct stage_functions *functions, enum action_kind kind);

// Gives an action by itself to the queue, all that it needs being there; never as a replay.
bool compute_once(struct interpreter *in, struct action action, struct error *error);

// Before the first message, on a device that runs ahead: each different action once, on
// whatever the slab holds, which is left in disorder; of stages that take part in that. A library of a GPU chooses,
// compiles and loads when it meets a shape for the first time, and that may have to wait
// for all that runs on the GPU: also for a receive whose message this very action is to
// lead to. It allocates then, too.
bool warm_up(struct interpreter *in, struct error *error);

// Puts rank and action in front of a failure of this rank's own. (What a transport
// reports of others names its place already.) Returns false.
bool at_action(const struct interpreter *in, struct action action, struct error *error);

// The two events around what is given to the queue for actions: begin_span() has chosen
// them and made room for the times, whoever does the actions records the first, and
// end_span() the second.
struct recording begin_span(struct interpreter *in, const struct action *actions, size_t count);
void end_span(struct interpreter *in, struct span_events events);

// Around what an action gives to the queue, if the same may come again.
void begin_replay(struct interpreter *in, const struct replay_key *key);
void end_replay(struct interpreter *in);

// Whether the queue knows of no failure once it was given an action. If it does, the
// sentence names the actions that it can have been.
bool is_well(struct interpreter *in, struct action action, struct error *error);

// Has the queue wait for an event, which may be NULL.
void queue_behind(struct interpreter *in, struct event *event);
// Until the queue is done, looking rather than blocking.
bool await_device(struct interpreter *in, struct error *error);
// Until the queue is not far behind. A device needs a few actions in hand to be busy, and
// has room for so much that was uploaded and not taken yet; a host that is much further
// ahead would stop for room within a call, where it hears of no other rank's failure.
bool stay_near(struct interpreter *in, struct error *error);

// Until the ticket is done, which `what` has posted.
bool await(struct interpreter *in, struct ticket *ticket, struct action what, struct error *error);
bool deadline_missed(struct interpreter *in, struct error *error);
// Until the message of a RECV is there, for the queue at the latest; at once where none was posted.
bool await_message(struct interpreter *in, struct ticket *ticket, struct action receive, struct error *error);
// The last messages are still under way when the list is done. The queue waits for them, too.
bool await_all_outgoing(struct interpreter *in, struct error *error);

struct message_header header_of(const struct interpreter *in, struct action action, uint64_t version);

// Posts the receives to come for which a slot is free already.
bool post_ahead(struct interpreter *in, struct error *error);

// A slot of a class for a micro-batch, and those for what it keeps, for what the queue is given next; the
// queue waits for who had them before, where that may be another queue.
bool take_slot(struct interpreter *in, struct action action, enum slab_class class, struct error *error);
bool take_kept(struct interpreter *in, struct action action, struct queue *queue, struct error *error);

// A slot for what goes on, to another rank or to the next stage on this one. One that
// was sent from is free again when its message is out.
bool take_outgoing(struct interpreter *in, struct action action, enum direction direction, struct error *error);

// The rank's other queue, if its schedule moves what is kept to the host and back, or layers come ahead. Each move
// begins behind all that stands in front of it, and its span is that of its queue.
bool open_moves(struct interpreter *in, struct error *error);
void close_moves(struct interpreter *in);
bool do_evict(struct interpreter *in, struct action action, struct error *error);
bool do_prefetch(struct interpreter *in, struct action action, struct error *error);
// Has the rank's queue wait for what the action needs to be back from the host.
void await_prefetch(struct interpreter *in, struct action action);
// Whether that queue knows of no failure.
bool moves_are_well(const struct interpreter *in, struct error *error);

// What stands in a list and is no computing.
bool do_send(struct interpreter *in, struct action action, struct error *error);
bool do_receive(struct interpreter *in, struct action action, struct error *error);
bool do_step(struct interpreter *in, struct action action, struct error *error);
// Behind the list: STEPs that have waited for other stages' gradients, or other replicas' shares.
bool do_due_steps(struct interpreter *in, struct error *error);
bool do_reduce(struct interpreter *in, struct action action, struct error *error);
bool do_validate(struct interpreter *in, struct action action, struct error *error);

// What do_step() and do_reduce() give to queues, on gradients of no meaning.
void warm_up_update(struct interpreter *in, struct local *local);

#endif
