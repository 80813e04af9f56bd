// The internals of an interpreter, for the files that share them. A file uses only those before it in this list:
//
//     interpreter_base.c       which slot, which function, how a failure names its place
//     interpreter_device.c     waiting for the rank's own queue
//     interpreter_messages.c   messages, and waiting for other ranks
//     interpreter_moves.c      EVICT and PREFETCH
//     interpreter_exchange.c   what replicas share
//     interpreter_fold.c       state without a gradient
//     interpreter_lists.c      gradients by rows
//     interpreter_updates.c    STEP
//     interpreter_reduce.c     REDUCE
//     interpreter_compute.c    F, B, I, W, R
//     warm_up.c                each action once, before the first message
//     interpreter.c            the loop over the list
#ifndef RUNTIME_RANKS_INTERPRETING_H
#define RUNTIME_RANKS_INTERPRETING_H

#include "runtime/ranks/flights.h"
#include "runtime/ranks/interpreter.h"
#include "runtime/ranks/replays.h"
#include "runtime/updates/clipping.h"
#include "runtime/updates/host_updates.h"

struct interpreter {
    struct interpreter_needs needs;
    struct flights flights;
    struct replays replays;
    struct clipping clipping;
    struct loss_scaling scaling;
    bool skips;              // in the current step, gradients have overflowed on some stage
    struct host_updates host_updates;
    uint64_t step;
    uint64_t passes;         // passes made so far
    struct event *latest;    // after everything the queue was given in this pass; NULL at first
    size_t attended;         // this pass's absences (partitioner/plan/collectives.h) that are done
    // Carries what moves to and from the host, concurrently with the rank's queue; NULL: nothing moves
    struct queue *moves;
    struct event *move_events[3];  // of stages whose next layer is prefetched (the window in docs/memory.md)
    struct event *moved;     // after everything `moves` was given in this pass; NULL at first
    size_t ended;            // spans of this pass whose events are recorded,
    size_t well;             // and of these, the ones known to have succeeded
    uint64_t looked_ns;      // CPU time of this pass spent waiting for a queue that was far behind
    struct ticket reduction;
    struct event *updated;   // after the update of this rank's share of the weights, for which other ranks wait
};

// How an action gets the other replicas' shares in its collective (ZeRO 2 and 3). The stage calls the
// functions.
struct exchange {
    struct stage_exchange functions;  // first, so that a pointer to it is a pointer to the exchange
    struct interpreter *in;
    struct action action;
    uint32_t number;  // of the collective
};

// The exchange of an action at its position in the list. Returns NULL if replicas do not meet for the action.
const struct stage_exchange *open_exchange(struct interpreter *interpreter, struct action action, size_t position,
                                           struct exchange *exchange);
// The action is done: what it has contributed is counted.
void close_exchange(const struct exchange *exchange);
// Attends, before the action at `position`, the collectives in which this rank has nothing to compute and other
// replicas do.
bool attend_absent(struct interpreter *interpreter, size_t position, struct error *error);

// Gathers the stage's gradients [first, first + count) from all copies into the gradient window.
bool gather_gradients(struct interpreter *interpreter, struct local *local, uint64_t first, uint64_t count,
                      struct error *error);

// How many of the stage's gradients are no lists of rows. They are in front, a float for each weight.
uint64_t dense_gradients(const struct local *local);

// The next layer, from part `i` on, whose gradient is a list of rows; NULL: there is none.
const struct stage_part *next_list(const struct local *local, size_t i);

#define FOR_LISTS(part, local)                                       \
    for (const struct stage_part *part = next_list(local, 0); part;  \
         part = next_list(local, (size_t)(part - (local)->does->parts) + 1))

// Empties a list of rows but for those that are always in it, whose sums become 0.
void list_empty(struct queue *queue, const struct stage_part *part, float *gradients);

// Adds up the lists of rows of the stage's copies, in the order of the copies: each sends its own to all others.
bool lists_add_up(struct interpreter *interpreter, const struct local *local, struct action action,
                  struct error *error);

// Puts in what is always in the lists of rows of a stage's gradients.
bool begin_lists(struct interpreter *interpreter, const struct local *local, struct error *error);

// Changes the rows of the newest tables with those that an older version of the weights has (weight_ring.h).
void lists_swap(struct interpreter *interpreter, const struct local *local, void *version);

// The newest version goes to another slot: what versions have whole, and the rows that an update is about to change.
void lists_put_aside(struct interpreter *interpreter, const struct local *local, uint32_t slot);

// Posts this rank's contribution to a reduction, and waits until all ranks have posted theirs. The ticket's events
// say when the sum is complete.
bool add_with_others(struct interpreter *interpreter, const struct reduction *reduction, struct message_header header,
                     struct action action, struct event *after, struct error *error);

// The same for an update of the newest version.
bool add_for_update(struct interpreter *interpreter, const struct reduction *reduction, struct action action,
                    struct event *after, struct error *error);
// The same behind everything that the rank's queue was given, which goes on when the reduction is complete.
bool gather_for_update(struct interpreter *interpreter, const struct reduction *reduction, struct action action,
                       struct error *error);

// Ends a STEP or REDUCE: adds what it takes besides the runtime's own work (`linger` in stage.h), then ends its span.
bool end_update(struct interpreter *interpreter, const struct recording *recording, struct error *error);

// Whether the stage shares weights with other stages; and whether its replicas send each other a compressed momentum
// for its next update.
bool is_tied(const struct interpreter *interpreter, uint32_t stage);
bool sends_compressed(const struct interpreter *interpreter, const struct local *local);

// Whether forwards of the stage leave statistics for its state without a gradient. The second function puts those of
// this copy into the room for all: copy by copy, ascending in each. It writes into `edges`, one more than there are
// copies, which float each copy's begin with. The third function runs behind an update. It folds the statistics of the
// update's micro-batches, and gives their slots back.
bool has_statistics(const struct local *local);
void lay_statistics_together(struct interpreter *interpreter, const struct local *local, uint64_t *edges);
bool fold_statistics(struct interpreter *interpreter, struct local *local, struct error *error);

// The function of a stage for a kind of action.
typedef bool stage_function(void *self, const struct stage_pass *pass, struct error *error);
stage_function *function_of(const struct stage_functions *functions, enum action_kind kind);

// Actions that are done together; usually one. If there are more, all compute.
struct group {
    const struct action *at;
    size_t size;
};

// Begins when everything the group's actions need is there, or the queue has been told to wait for it. Runs them one
// after the other, and ends for all at once.
bool do_computing(struct interpreter *interpreter, struct group group, struct error *error);

// Gives a single action to the queue, never as a replay. Everything it needs must be there.
bool compute_once(struct interpreter *interpreter, struct action action, struct error *error);

// Runs each different action once before the first message, on a device that runs ahead. Only stages that take part
// in the warm-up do so. The actions work on whatever is in the slab, and leave it undefined.
//
// The reason: a library of a GPU chooses, compiles and loads a kernel when it sees a shape for the first time, and
// allocates memory then. This may wait for everything that runs on the GPU. That could include a receive whose
// message depends on this very action.
bool warm_up(struct interpreter *interpreter, struct error *error);

// Puts the rank and the action in front of an error of this rank. (Errors that a transport reports about other ranks
// already name their place.) Returns false.
bool at_action(const struct interpreter *interpreter, struct action action, struct error *error);

// The two events around what the queue is given for some actions. begin_span() chooses them and makes room for the
// times. The caller records the first event, and end_span() the second.
struct recording begin_span(struct interpreter *interpreter, const struct action *actions, size_t count);
void end_span(struct interpreter *interpreter, struct span_events events);

// Around what an action gives to the queue, if the same may come again (replays.h).
void begin_replay(struct interpreter *interpreter, const struct replay_key *key);
void end_replay(struct interpreter *interpreter);

// Whether the queue knows of no failure after it was given an action. If it does, the error names the actions that
// may have failed.
bool is_well(struct interpreter *interpreter, struct action action, struct error *error);

// Makes the queue wait for an event, which may be NULL.
void queue_behind(struct interpreter *interpreter, struct event *event);
// Waits until the queue is done, by polling rather than blocking.
bool await_device(struct interpreter *interpreter, struct error *error);
// Waits until the queue is not far behind. A device needs a few actions queued to stay busy, and its room for uploads
// that it has not used yet is limited. A host that is much further ahead would block inside a call until there is
// room, and would not notice that another rank has failed.
bool stay_near(struct interpreter *interpreter, struct error *error);

// Waits for a ticket that the action `what` has posted.
bool await(struct interpreter *interpreter, struct ticket *ticket, struct action what, struct error *error);
bool deadline_missed(struct interpreter *interpreter, struct error *error);
// Waits for the message of a RECV, at the latest on the queue. Returns at once if no receive was posted.
bool await_message(struct interpreter *interpreter, struct ticket *ticket, struct action receive, struct error *error);
// Waits for the last sends, which are still under way when the list is done, and makes the queue wait for them too.
bool await_all_outgoing(struct interpreter *interpreter, struct error *error);

struct message_header header_of(const struct interpreter *interpreter, struct action action, uint64_t version);

// Posts those of the coming receives for which a slot is free.
bool post_ahead(struct interpreter *interpreter, struct error *error);

// Takes a slot of a class for a micro-batch, or the slots for its kept activations, to be used by the next work of
// the queue. If another queue may have used the slot last, the queue waits for that use.
bool take_slot(struct interpreter *interpreter, struct action action, enum slab_class class, struct error *error);
bool take_kept(struct interpreter *interpreter, struct action action, struct queue *queue, struct error *error);

// Takes a slot for data that goes to another rank, or to the next stage on this one. A slot that was sent from
// becomes free when its send is complete.
bool take_outgoing(struct interpreter *interpreter, struct action action, enum direction direction,
                   struct error *error);

// The rank's second queue. It exists if the schedule offloads activations to the host and back, or if layers are
// prefetched. Each move begins after everything before it in the list, and its span is recorded on this second queue.
bool open_moves(struct interpreter *interpreter, struct error *error);
void close_moves(struct interpreter *interpreter);
bool do_evict(struct interpreter *interpreter, struct action action, struct error *error);
bool do_prefetch(struct interpreter *interpreter, struct action action, struct error *error);
// Makes the rank's queue wait until what the action needs is back from the host.
void await_prefetch(struct interpreter *interpreter, struct action action);
// Whether that second queue knows of no failure.
bool moves_are_well(const struct interpreter *interpreter, struct error *error);

// The actions of a list that do not compute.
bool do_send(struct interpreter *interpreter, struct action action, struct error *error);
bool do_receive(struct interpreter *interpreter, struct action action, struct error *error);
bool do_step(struct interpreter *interpreter, struct action action, struct error *error);
// Runs after the list: the STEPs that had to wait for other stages' gradients, or for other replicas' shares.
bool do_due_steps(struct interpreter *interpreter, struct error *error);
bool do_reduce(struct interpreter *interpreter, struct action action, struct error *error);
bool do_validate(struct interpreter *interpreter, struct action action, struct error *error);

// Gives the queues what do_step() and do_reduce() would give them, with meaningless gradients.
void warm_up_update(struct interpreter *interpreter, struct local *local);

#endif
