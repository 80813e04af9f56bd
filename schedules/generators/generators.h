// The generators of generate.h, and the helpers that they share.
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
struct schedule *generate_tables_ahead(const struct generate_request *request, struct error *error);
struct schedule *generate_forward_only(const struct generate_request *request, struct error *error);

struct generator_flight gpipe_flight(const struct generate_request *request, uint32_t rank);
struct generator_flight one_way_flight(const struct generate_request *request, uint32_t rank);  // 1f1b, zb-h1, zb-h2
struct generator_flight interleaved_flight(const struct generate_request *request, uint32_t rank);
struct generator_flight zb_v_flight(const struct generate_request *request, uint32_t rank);

// --- placement of stages --------------------------------------------------------

// An empty schedule with stage s on rank s. Refuses any number of chunks but one.
struct schedule *generate_one_stage_per_rank(const char *name, enum weights weights,
                                             const struct generate_request *request, struct error *error);

// An empty schedule with `chunks` stages per rank, stage s on rank s % p. Refuses a single chunk; `instead` names
// the schedule for that case.
struct schedule *generate_looped(const char *name, const struct generate_request *request, const char *instead,
                                 struct error *error);

// An empty schedule with the stages in the shape of a V: s and 2p - 1 - s on rank s. Refuses any number of chunks
// but two.
struct schedule *generate_v(const char *name, const struct generate_request *request, struct error *error);

// An empty schedule of two pipelines with p stages, one down the ranks and one up. Even micro-batches go down.
// Refuses an odd number of ranks.
struct schedule *generate_two_ways(const char *name, const struct generate_request *request, struct error *error);

// Replaces the only route by `count` rows of S ranks, all 0. Returns false only if memory runs out.
bool generate_routes(struct schedule *schedule, uint32_t count, struct error *error);

// --- stages with several ranks (replicas.c) -------------------------------------------

// The ranks of one stage. The i-th micro-batch of rank number n among them is i * count + n.
struct replicas {
    uint32_t stage;
    uint32_t first, count;
    // Forwards before the first backward in schedules that alternate between the two: the number of ranks from this
    // stage on, divided by `count` and rounded up (1F1B-RR).
    uint32_t ahead;
    uint32_t most_in_flight;  // the most micro-batches that any stage then has between their forward and their backward
};

// Adds the list of replica `number`.
typedef bool (*add_replica)(struct schedule *schedule, const struct replicas *replicas, uint32_t number,
                            struct error *error);

// A schedule with the request's replicas, or with stage s on rank s. Refuses any number of chunks but one.
struct schedule *generate_replicas(const char *name, enum weights weights, const struct generate_request *request,
                                   add_replica add_rank, struct error *error);

// The first function returns how many of the micro-batches this rank has. The second adds an action for the i-th of
// them. The third adds the end of a flush.
uint32_t replicas_share(const struct replicas *replicas, uint32_t number, uint32_t micro_batches);
bool replicas_add(struct schedule *schedule, const struct replicas *replicas, uint32_t number, enum action_kind kind,
                  uint32_t i, struct error *error);
bool replicas_add_step(struct schedule *schedule, const struct replicas *replicas, uint32_t number,
                       struct error *error);

// --- contents of the lists ---------------------------------------------------------

bool generate_add(struct schedule *schedule, uint32_t rank, enum action_kind kind, uint32_t stage,
                  uint32_t micro_batch, struct error *error);

// Adds the STEP of each stage of the rank, in the order of the stages. If a stage has copies, its REDUCE comes
// before.
bool generate_add_steps(struct schedule *schedule, uint32_t rank, struct error *error);

// Fills all lists of an empty schedule by rules (greedy.h), and adds the steps.
bool generate_by_rules(struct schedule *schedule, const struct greedy_rules *rules, struct error *error);

// The same for forwards before backwards, and earlier micro-batches before later ones, with each stage as far ahead as
// in 1F1B. `most_kept` is as in greedy.h. Both functions return NULL after an error, or if there is no schedule.
struct schedule *generate_in_turns(struct schedule *schedule, uint32_t most_kept, struct error *error);

// Fills each rank's list, and adds the steps.
struct schedule *generate_ranks(struct schedule *schedule,
                                bool (*add_rank)(struct schedule *schedule, uint32_t rank, struct error *error),
                                struct error *error);

// Returns the schedule if `good`; otherwise frees it and returns NULL.
struct schedule *generate_done(struct schedule *schedule, bool good);

// --- orders shared by several schedules ----------------------------------------------

// Adds the list of a rank that holds only stage `rank` and splits its backwards: `ahead` forwards, then I and F
// alternately. Each W comes `lag` backwards after its I (zb_h1.c).
struct split_order {
    uint32_t ahead, lag;
    bool validates;  // whether the previous step did not wait for other ranks
};
bool generate_add_split_rank(struct schedule *schedule, uint32_t rank, struct split_order order, struct error *error);

// Micro-batches pass through the stages of a rank in rounds (interleaved.c). The first `size` micro-batches pass
// through the first stage, then through the next, and so on. Then the next round begins.
struct rounds {
    uint32_t size, remainder;  // micro-batches in a round; in the last one, if that is smaller
};
struct rounds rounds_of(uint32_t ranks, uint32_t micro_batches);
// Adds a rank's list without its steps: first `fill` forwards, and as many as are in a round for each of its stages but
// one. Then forwards and backwards alternate. If these are split, each W comes `rank` backwards after its I.
bool rounds_add_rank(struct schedule *schedule, uint32_t rank, uint32_t fill, bool splits_backward,
                     struct error *error);

// Adds the list of a rank in two streams of micro-batches that run in opposite directions (dualpipev.c). The two
// `ways` are its first stage, which is nearer to the beginning of its stream, and its second.
struct way {
    uint32_t stage;
    uint32_t micro_batch, stride;  // the micro-batches of the stream: micro_batch, micro_batch + stride, ...
};
struct dual_place {
    uint32_t ranks, place;  // the ranks from the beginning of a stream to its turn; this one's position among them
    uint32_t micro_batches;  // in each stream
};
bool generate_add_two_ways(struct schedule *schedule, uint32_t rank, const struct way ways[2], struct dual_place place,
                           struct error *error);

// A whole schedule in the shape of a V, made from a pattern that each micro-batch follows (v_half.c). `most_kept` is
// as in greedy.h.
struct v_turn {
    uint32_t forward, backward;  // slots of a stage's F and I
};
typedef void (*v_pattern)(uint32_t ranks, struct v_turn *turns);
struct schedule *generate_v_pattern(const char *name, const struct generate_request *request, v_pattern pattern,
                                    uint32_t most_kept, struct error *error);

#endif
