// The generators behind generate.h, and the few words they share.
#ifndef SCHEDULES_GENERATORS_H
#define SCHEDULES_GENERATORS_H

#include "common/number.h"
#include "schedules/generators/generate.h"
#include "schedules/generators/greedy.h"

struct schedule *generate_gpipe(const struct generate_request *request, struct error *error);
struct schedule *generate_1f1b(const struct generate_request *request, struct error *error);
struct schedule *generate_pipedream(const struct generate_request *request, struct error *error);
struct schedule *generate_vertical(const struct generate_request *request, struct error *error);
struct schedule *generate_pipedream_2bw(const struct generate_request *request, struct error *error);
struct schedule *generate_interleaved(const struct generate_request *request, struct error *error);
struct schedule *generate_looped_bfs(const struct generate_request *request, struct error *error);
struct schedule *generate_zb_h1(const struct generate_request *request, struct error *error);
struct schedule *generate_zb_h2(const struct generate_request *request, struct error *error);
struct schedule *generate_interleaved_zb(const struct generate_request *request, struct error *error);
struct schedule *generate_zb_v(const struct generate_request *request, struct error *error);
struct schedule *generate_v_half(const struct generate_request *request, struct error *error);
struct schedule *generate_v_min(const struct generate_request *request, struct error *error);
struct schedule *generate_chimera(const struct generate_request *request, struct error *error);
struct schedule *generate_dualpipe(const struct generate_request *request, struct error *error);
struct schedule *generate_dualpipev(const struct generate_request *request, struct error *error);
struct schedule *generate_hanayo(const struct generate_request *request, struct error *error);
struct schedule *generate_seq1f1b(const struct generate_request *request, struct error *error);
struct schedule *generate_forward_only(const struct generate_request *request, struct error *error);

// --- where the stages are --------------------------------------------------------

// An empty schedule with stage s on rank s; refuses any other number of chunks.
struct schedule *generate_one_stage_per_rank(const char *name, enum weights weights,
                                             const struct generate_request *request, struct error *error);

// An empty schedule with `chunks` stages per rank, stage s on rank s % p; refuses a single chunk, for
// which `instead` is the schedule.
struct schedule *generate_looped(const char *name, const struct generate_request *request, const char *instead,
                                 struct error *error);

// An empty schedule with the stages on a V: s and 2p - 1 - s on rank s; refuses any other number of chunks than two.
struct schedule *generate_v(const char *name, const struct generate_request *request, struct error *error);

// An empty schedule of two pipelines with p stages, down the ranks and up; even micro-batches go down. Refuses an
// odd number of ranks.
struct schedule *generate_two_ways(const char *name, const struct generate_request *request, struct error *error);

// Replaces the only route by `count` rows of S ranks, all 0. False only without memory.
bool generate_routes(struct schedule *schedule, uint32_t count, struct error *error);

// --- stages with several ranks (replicas.c) -------------------------------------------

// The ranks of one stage. Micro-batch i of number n among them is i * count + n.
struct replicas {
    uint32_t stage;
    uint32_t first, count;
    // Forwards before the first backward where forwards and backwards take turns: one count-th, rounded up,
    // of the ranks from this stage on (1F1B-RR).
    uint32_t ahead;
    uint32_t most_in_flight;  // micro-batches that any stage then has between their forward and their backward
};

// Adds the list of replica `number`.
typedef bool (*add_replica)(struct schedule *schedule, const struct replicas *replicas, uint32_t number,
                            struct error *error);

// A schedule with the request's replicas, or with stage s on rank s; refuses any other number of chunks than one.
struct schedule *generate_replicas(const char *name, enum weights weights, const struct generate_request *request,
                                   add_replica add_rank, struct error *error);

// How many of the micro-batches are this rank's; adds an action of the i-th of them; adds what ends a flush.
uint32_t replicas_share(const struct replicas *replicas, uint32_t number, uint32_t micro_batches);
bool replicas_add(struct schedule *schedule, const struct replicas *replicas, uint32_t number, enum action_kind kind,
                  uint32_t i, struct error *error);
bool replicas_add_step(struct schedule *schedule, const struct replicas *replicas, uint32_t number,
                       struct error *error);

// --- what the lists hold -----------------------------------------------------------

bool generate_add(struct schedule *schedule, uint32_t rank, enum action_kind kind, uint32_t stage,
                  uint32_t micro_batch, struct error *error);

// The STEP of each stage that the rank holds, in the order of the stages; after its REDUCE where there are copies.
bool generate_add_steps(struct schedule *schedule, uint32_t rank, struct error *error);

// Fills all lists of an empty schedule by rules, and adds the steps.
bool generate_by_rules(struct schedule *schedule, const struct greedy_rules *rules, struct error *error);

// The schedule if all went well; otherwise frees it and returns NULL.
struct schedule *generate_done(struct schedule *schedule, bool good);

// --- orders that several schedules have ----------------------------------------------

// The list of a rank that holds stage `rank` alone and splits its backwards: `ahead` forwards, then I and F in
// turns, each W `lag` backwards behind its I (zb_h1.c).
struct split_order {
    uint32_t ahead, lag;
    bool validates;  // whether the step before did not wait for other ranks
};
bool generate_add_split_rank(struct schedule *schedule, uint32_t rank, struct split_order order, struct error *error);

// Micro-batches go through the stages of a rank in rounds (interleaved.c): a round of `size` through the first
// stage, then the same through the next, and so on; then the next round.
struct rounds {
    uint32_t size, remainder;  // micro-batches of a round; of the last one, if that is smaller
};
struct rounds rounds_of(uint32_t ranks, uint32_t micro_batches);
// Adds the action that is number `k` of its kind on the rank; backwards go through the stages the other way.
bool rounds_add(const struct rounds *rounds, struct schedule *schedule, uint32_t rank, enum action_kind kind, uint32_t k,
                struct error *error);

// The list of a rank in two streams of work that pass each other (dualpipev.c): its first stage, nearer to the
// beginning of the stream that it is in, and its second.
struct way {
    uint32_t stage;
    uint32_t micro_batch, stride;  // the stream: micro_batch, micro_batch + stride, ...
};
struct dual_place {
    uint32_t ranks, place;  // of this one among those from the beginning of a stream to where it turns
    uint32_t micro_batches;  // of a stream
};
bool generate_add_two_ways(struct schedule *schedule, uint32_t rank, const struct way ways[2], struct dual_place place,
                           struct error *error);

// A whole schedule on a V, made from a pattern that each micro-batch follows (v_half.c); `most_kept` as in greedy.h.
struct v_turn {
    uint32_t forward, backward;  // slots of a stage's F and I
};
typedef void (*v_pattern)(uint32_t ranks, struct v_turn *turns);
struct schedule *generate_v_pattern(const char *name, const struct generate_request *request, v_pattern pattern,
                                    uint32_t most_kept, struct error *error);

#endif
