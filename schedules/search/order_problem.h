// The request of a search, in a form that is fast to query, since a search does so millions of times. And an order
// as a search sees it: which move each rank makes next. The micro-batch of a move follows from how often the move
// was made before.
//
//     rank 0 of two, V      moves   F0 F0 F3 I3 F3 I3 W3 I0 ...     chunk 0 is stage 0, chunk 1 stage 3
#ifndef SCHEDULES_ORDER_PROBLEM_H
#define SCHEDULES_ORDER_PROBLEM_H

#include "common/arrays.h"
#include "schedules/search/order_search.h"

#define NEVER_NS UINT64_MAX

struct order_stage {
    uint64_t cost_ns[3];         // by enum move_kind
    uint64_t before_ns, after_ns;  // time of messages from the stage before, and to the one after
    uint64_t kept_forward_bytes, kept_weight_bytes;
    uint64_t reserve_bytes;  // bytes that F must leave free, so that its micro-batch can proceed
    uint32_t rank;
};

enum move_kind { MOVE_F, MOVE_I, MOVE_W };

struct order_problem {
    const struct order_request *request;
    uint32_t ranks, stages, chunks, micro_batches;
    uint32_t moves;              // of each rank: 3 * chunks * micro_batches
    struct order_stage *stage;   // all stages
    uint32_t *stage_of;          // [rank * chunks + chunk], from the first stage to the last
    bool grows;                  // whether some I needs room, because its stage keeps more after I than after F
    uint64_t *room_bytes;        // per rank: the bytes that micro-batches may keep
    uint64_t *work_ns;           // per rank: the time of all its moves, without STEP
    uint64_t *step_ns;           // per rank
    uint64_t *head_ns;           // per rank: when its first F can start, and does start
    uint64_t *offset_ns;         // per rank: what the objective subtracts from its last end
    struct arrays arrays;        // all of these
};

bool order_problem_create(struct order_problem *problem, const struct order_request *request, struct error *error);
void order_problem_clear(struct order_problem *problem);

// Reports this many more units of work. Returns false if the search must end.
static inline bool problem_goes_on(const struct order_problem *problem, uint64_t units)
{
    const struct order_request *request = problem->request;
    if (request->progress)
        request->progress(request->self, units);
    return !request->interrupted || !*request->interrupted;
}

// The work of weighing a node of a beam or tree, in units.
static inline uint64_t problem_node_work(const struct order_problem *problem)
{
    return 20 + (uint64_t)problem->stages * problem->micro_batches * (2 + 3 * problem->chunks) / 16;
}

static inline uint32_t problem_stage(const struct order_problem *problem, uint32_t rank, uint32_t chunk)
{
    return problem->stage_of[rank * problem->chunks + chunk];
}

// How many more bytes a stage keeps of a micro-batch after I than after F.
static inline uint64_t order_stage_growth(const struct order_stage *stage)
{
    return stage->kept_weight_bytes > stage->kept_forward_bytes ? stage->kept_weight_bytes - stage->kept_forward_bytes
                                                                : 0;
}

// The most micro-batches that can be between F and I on a stage: there must be room for the I of one of them.
static inline uint32_t problem_most_ahead(const struct order_problem *problem, uint32_t stage)
{
    const struct order_stage *here = &problem->stage[stage];
    const uint64_t room = problem->room_bytes[here->rank] - order_stage_growth(here), kept = here->kept_forward_bytes;
    return kept && room / kept < problem->micro_batches ? (uint32_t)(room / kept) : problem->micro_batches;
}

// --- an order ------------------------------------------------------------------

typedef uint8_t order_move;  // 3 * chunk + kind
enum { MOST_CHUNKS = 64 };

// An order is an array of ranks * problem->moves moves, rank by rank. Returns the part of a rank.
static inline order_move *order_of_rank(const struct order_problem *problem, order_move *order, uint32_t rank)
{
    return order + (size_t)rank * problem->moves;
}

// Times orders. It holds the memory for that, so that many orders can be timed.
struct order_clock {
    const struct order_problem *problem;
    uint64_t *f_arrived, *i_arrived;  // [stage * micro_batches + i]: when the input arrives; or NEVER_NS
    uint32_t *done;                   // [stage * 3 + kind]: moves made
    uint32_t *at;                     // per rank: moves made
    uint64_t *free_ns;                // per rank: end of its last move
    uint64_t *ends_ns;                // of every move of the order, rank by rank; NULL: not wanted
    struct arrays arrays;             // the others
};

bool order_clock_create(struct order_clock *clock, const struct order_problem *problem, struct error *error);
void order_clock_clear(struct order_clock *clock);

// The order's time by the problem's objective; NEVER_NS if the order deadlocks or exceeds a rank's room.
uint64_t order_time(struct order_clock *clock, const order_move *order);

// Resets the clock to the start: only the inputs of stage 0 are there.
void order_clock_reset(struct order_clock *clock);

// Records that a move of a stage ends at a moment, for the stages that need its result. Returns the stage that gets
// a message, or UINT32_MAX if none does.
uint32_t order_clock_give(struct order_clock *clock, uint32_t stage, enum move_kind kind, uint32_t micro_batch,
                          uint64_t end_ns);

// The time by the objective, once every rank is done.
uint64_t order_clock_result(const struct order_clock *clock);

// The order as a schedule, with its costs. Freed by schedule_free().
struct schedule *order_schedule(const struct order_problem *problem, const order_move *order, struct error *error);

#endif
