// Kernels of experts: who takes which token, the rows on their way to experts and back, and the experts' products. The
// rules of kernels.h hold here too.
//
//     tokens       0       1       2       3       two choices each, `top`; a choice is a pair, whose number is
//     choices      2 0     2 1     2 0     1 2     token * top + choice
//
//     experts      0     1     2                   ends 2 4 7
//     pairs        1 5   3 6   0 2 4               by slot: sorted by expert, and then in the order of the tokens.
//                                                  With a capacity of 3 the last pair, 7, is dropped
//
// Slots are packed: expert e has those from ends[e - 1], or from 0, up to ends[e]. How many there are is known to the
// device alone, so `most` says for how many there is room. What is in the room behind the last end is undefined, and
// no kernel reads it.
//
// Positions are those of Megatron's drop policy "position": an expert takes pairs in the order of the tokens, whichever
// choice of the token it is, until it has `capacity`. Each further pair is dropped, and adds nothing to its token.
#ifndef DEVICE_EXPERT_KERNELS_H
#define DEVICE_EXPERT_KERNELS_H

#include "device/kernels.h"
#include "device/routing.h"

// The routing of a micro-batch. Its first `counted` rows are tokens; others are not routed.
struct routing {
    struct router router;
    size_t rows, counted;
    size_t capacity;        // pairs of one expert; 0: no limit
    size_t most;            // room for slots
    size_t elsewhere;       // tokens of the micro-batch that other members have
    float auxiliary, z;     // coefficients of the losses
    const float *logits;    // [rows][experts]
    const float *bias;      // [experts], of deepseek; NULL: none
    // What the forward sets and the backward reads:
    int32_t *choices;       // [rows][top], the expert of each pair; -1: not a token
    int32_t *slots;         // [rows][top]; -1: the pair is dropped, or is not one of a token
    int32_t *pairs;         // [most], the pair of each slot
    int32_t *ends;          // [experts]
    float *gates;           // [rows][top]
    float *shares;          // [experts]: how much of all choices it is, or with gshard of all first choices
    float *log_sums;        // [rows]
    float *scores;          // [rows], likewise the sum of deepseek's sigmoids; NULL for others
};

// Rules of the CPU's kernels and of the GPU's: the sums of a token, how many slots are in use, and how many of a
// member's pairs an expert takes.
ROUTER_RULE struct router_sums routing_sums_of(const struct routing *routing, size_t row)
{
    const struct router_sums sums = { routing->log_sums[row], routing->scores ? routing->scores[row] : 1 };
    return sums;
}
ROUTER_RULE size_t routing_slots(const struct routing *routing)
{
    return (size_t)routing->ends[routing->router.experts - 1];
}
ROUTER_RULE size_t routing_pairs_kept(const struct routing *routing, size_t before, size_t count)
{
    const size_t room = before < routing->capacity ? routing->capacity - before : 0;
    return routing->capacity > 0 && count > room ? room : count;
}
// The most slots that a routing may need.
static inline size_t routing_most(size_t rows, size_t experts, size_t top, size_t capacity)
{
    const size_t pairs = rows * top;
    return capacity > 0 && experts * capacity < pairs ? experts * capacity : pairs;
}
// Statistics of a micro-batch, which are added up to those of several. Both losses are without their coefficients:
//
//     counts         the pairs of each expert, with those that are dropped
//     dropped        how many pairs are dropped
//     auxiliary      experts * the sum over the experts of share * mean probability
//     z              the mean of the squares of log_sums
//     micro_batches  1
static inline size_t routing_statistics(size_t experts)
{
    return experts + 4;
}
struct routing_sums {
    const float *counts;
    float dropped, auxiliary, z, micro_batches;
};
static inline struct routing_sums routing_sums(const float *statistics, size_t experts)
{
    const float *behind = statistics + experts;
    const struct routing_sums sums = { statistics, behind[0], behind[1], behind[2], behind[3] };
    return sums;
}
// `loss` is what both losses count together. `statistics` may be NULL.
void kernel_route(struct queue *queue, const struct routing *routing, float *statistics, float *loss);

// The same for the tokens of a micro-batch that several members have, each a run of them, in the order of members.
// Each member chooses for its own, and leaves a block of what it has counted. All blocks then give each member the
// positions of its pairs in the whole micro-batch, and all of them the same shares, losses and statistics:
//
//     kernel_route_own()   block 0 | block 1 | ..   each member writes its own, and members gather all of them
//     kernel_route_all()   slots of own pairs; how many rows each member sends to each expert; where those end that
//                          this member's experts take
//
// An expert that all members have takes on each of them the pairs of that member's tokens. Its rows come before those
// of the member's own experts.
struct routing_block {
    double *means, *squares;   // sums of probabilities, by expert, and of squared log_sums
    int32_t *counts, *firsts;  // pairs, and those of first choices, by expert
};
static inline size_t routing_block_bytes(size_t experts)
{
    return (2 * experts + 1) * sizeof(double);
}
ROUTER_RULE struct routing_block routing_block_in(void *blocks, size_t experts, size_t member)
{
    double *at = (double *)blocks + member * (2 * experts + 1);
    int32_t *counts = (int32_t *)(at + experts + 1);
    const struct routing_block block = { at, at + experts, counts, counts + experts };
    return block;
}
struct routing_members {
    uint32_t members, member;
    uint64_t own[ROUTER_EXPERTS / 64];     // bit e: this member alone has expert e
    uint64_t copied[ROUTER_EXPERTS / 64];  // bit e: all members have it
    void *blocks;
    int32_t *kept;   // [members][experts], rows that go to each expert, without those that are dropped
    int32_t *taken;  // for each copied expert, then for each of this member's own: the end of the rows that it takes
};
// Whether an expert's bit is set.
ROUTER_RULE bool routing_has(const uint64_t *experts, size_t e)
{
    return experts[e / 64] >> e % 64 & 1;
}
void kernel_route_own(struct queue *queue, const struct routing *routing, void *block);
void kernel_route_all(struct queue *queue, const struct routing *routing, const struct routing_members *members,
                      float *statistics, float *loss);
// The gradient of the logits, from that of the gates. Both losses add theirs, times `weight`.
void kernel_route_backward(struct queue *queue, const struct routing *routing, struct values *logits_gradient,
                           const float *gates_gradient, float weight);
// bias += speed where an expert has had fewer pairs than the mean of `counts`, and -= speed where it has had more.
void kernel_move_bias(struct queue *queue, float *bias, const float *counts, size_t experts, float speed);

// out[slot] = the row of its token, times the gate of its pair if `is_gated`.
void kernel_permute(struct queue *queue, const struct routing *routing, struct values *out, const struct values *in,
                    size_t columns, bool is_gated);
// out[row] = add[row] + the sum over its pairs, in the order of its choices, of gate * in[slot]. Without `is_gated`
// gates count as 1. `add` may be NULL.
void kernel_combine(struct queue *queue, const struct routing *routing, struct values *out, const struct values *in,
                    const struct values *add, size_t columns, bool is_gated);
// The gradient of each gate: the product of the row of `out_gradient` and of that of its slot. Dropped pairs have 0.
void kernel_gate_gradients(struct queue *queue, const struct routing *routing, float *gates_gradient,
                           const struct values *out_gradient, const struct values *in, size_t columns);

// A product for each group of rows, whose ends are on the device. The matmul is that of one group, tightly packed:
// `m` rows at most, or with `sums` a `k` of that many (then transpose_a is set). The groups are `groups` of those that
// have ends, from group `first` on. Group first + e has matrix e of b and bias, or matrix e of the sums. Rows of
// before_gelu are those of c. A group without rows does nothing.
void kernel_grouped_matmul(struct queue *queue, const struct matmul *matmul, const int32_t *ends, size_t first,
                           size_t groups);
// The backward of the biases: sums[e][column] is added to, for group first + e.
void kernel_grouped_sum_columns(struct queue *queue, float *sums, const struct values *in, const int32_t *ends,
                                size_t first, size_t groups, size_t columns);

// What is between the two products of an expert: GELU, or SwiGLU of rows that are twice as wide.
//
//     gelu      out = gelu(in)
//     swiglu    out = silu(left) * right,   in = left | right
struct activation {
    bool is_swiglu;
    size_t rows, columns;  // of `out`
    const int32_t *used;   // on the device: so many of the rows are in use; NULL: all
};
void kernel_activate(struct queue *queue, const struct activation *activation, struct values *out,
                     const struct values *in);
// Writes the forward's output again, too. `out` may be `out_gradient`.
void kernel_activate_backward(struct queue *queue, const struct activation *activation, struct values *in_gradient,
                              struct values *out, const struct values *out_gradient, const struct values *in);

#endif
