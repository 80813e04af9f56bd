#include "tests/runtime/synthetic.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "common/number.h"
#include "common/random.h"
#include "runtime/transport/channels.h"

enum purpose { MADE_OUTPUT, MADE_GRADIENT, MADE_KEPT, MADE_THROUGH, MADE_HELD, MADE_RECOMPUTED };
static const char *const purpose_names[] = {
    "the output of stage %u", "the input gradient of stage %u", "what stage %u kept", "what stage %u kept through",
    "what stage %u held",
};

enum { STRIDE = 512 };  // bytes from one touched word to the next

// The stamp of written bytes: which stage wrote them, for which purpose, and when.
struct stamp {
    enum purpose purpose;
    uint32_t stage;
    uint32_t micro_batch;
    uint64_t step;
    uint32_t split;
    uint32_t version;  // of the weights, for bytes that the same stage reads again
};

static uint64_t pattern(const struct stamp *stamp, uint64_t offset)
{
    uint64_t seed = (uint64_t)stamp->purpose << 56 ^ (uint64_t)stamp->stage << 40 ^ (uint64_t)stamp->micro_batch << 8
                  ^ stamp->step << 20 ^ (uint64_t)stamp->split << 49 ^ (uint64_t)stamp->version << 32;
    seed = random_next(&seed) ^ offset;
    return random_next(&seed);
}

static void stamp_bytes(void *memory, uint64_t bytes, struct stamp stamp)
{
    for (uint64_t offset = 0; memory && offset + sizeof(uint64_t) <= bytes; offset += STRIDE) {
        const uint64_t word = pattern(&stamp, offset);
        memcpy((unsigned char *)memory + offset, &word, sizeof word);
    }
}

static bool bears_stamp(const void *memory, uint64_t bytes, struct stamp stamp, struct error *error)
{
    for (uint64_t offset = 0; memory && offset + sizeof(uint64_t) <= bytes; offset += STRIDE) {
        uint64_t word;
        memcpy(&word, (const unsigned char *)memory + offset, sizeof word);
        if (word == pattern(&stamp, offset))
            continue;
        char name[40];
        snprintf(name, sizeof name, purpose_names[stamp.purpose], stamp.stage);
        return error_set_kind(error, ERROR_MACHINE, "the bytes from %llu on are not %s for micro-batch %u, step %llu, "
                              "weight version %u", (unsigned long long)offset, name, stamp.micro_batch,
                              (unsigned long long)stamp.step, stamp.version);
    }
    return true;
}

// A stamp of this stage or a neighbour. What is sent to other stages has no version.
static struct stamp stamp_of(const struct stage_pass *pass, enum purpose purpose, uint32_t stage)
{
    return (struct stamp){ purpose, stage, pass->base.micro_batch, pass->base.step, pass->base.split, 0 };
}

static struct stamp own_stamp(const struct synthetic *self, const struct stage_pass *pass, enum purpose purpose)
{
    struct stamp stamp = stamp_of(pass, purpose, self->stage);
    if (pass->base.parameters) {
        float updates;
        memcpy(&updates, pass->base.parameters, sizeof updates);
        memcpy(&stamp.version, &updates, sizeof stamp.version);
    }
    return stamp;
}

static void sleep_until(uint64_t at_ns)
{
    const struct timespec time = { (time_t)(at_ns / 1000000000u), (long)(at_ns % 1000000000u) };
    while (clock_now_ns() < at_ns)
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL);
}

// The time of an action of `whole_ns`: its share, if the sequence is split. If actions done together have a time of
// their own, the first of them takes all of it.
static uint64_t time_of(const struct synthetic *self, const struct stage_pass *pass, enum action_kind kind,
                        uint64_t whole_ns)
{
    uint64_t overlapped_ns = 0;
    for (size_t i = 0; pass->together_count > 1 && i < pass->together_count; i++)
        if (pass->together[i].kind == ACTION_F)
            overlapped_ns = self->rows[pass->together[i].stage].overlapped_ns;
    if (overlapped_ns == 0)
        return cost_part(whole_ns, pass->base.split, pass->base.splits);
    const struct action first = pass->together[0];
    const bool is_first = first.kind == kind && first.stage == self->stage
                       && first.micro_batch == pass->base.micro_batch && first.split == pass->base.split;
    return is_first ? cost_part(overlapped_ns, pass->base.split, pass->base.splits) : 0;
}

// Bytes of this part of the sequence.
static uint64_t part_bytes(const struct stage_pass *pass, uint64_t bytes)
{
    return cost_part(bytes, pass->base.split, pass->base.splits);
}

static bool has_input(const struct synthetic *self, const struct stage_pass *pass, struct error *error)
{
    return self->stage == 0
        || bears_stamp(pass->base.input, part_bytes(pass, self->bytes.input),
                       stamp_of(pass, MADE_OUTPUT, self->stage - 1), error);
}

static bool do_forward(const struct synthetic *self, const struct stage_pass *pass, struct error *error)
{
    const uint64_t start_ns = clock_now_ns();
    if (!has_input(self, pass, error))
        return false;
    stamp_bytes(pass->base.workspace, self->bytes.transient, stamp_of(pass, MADE_KEPT, UINT16_MAX));
    stamp_bytes(pass->base.saved, part_bytes(pass, self->bytes.kept), own_stamp(self, pass, MADE_KEPT));
    stamp_bytes(pass->kept_through, part_bytes(pass, self->bytes.kept_through), own_stamp(self, pass, MADE_THROUGH));
    stamp_bytes(pass->base.output, part_bytes(pass, self->bytes.output), stamp_of(pass, MADE_OUTPUT, self->stage));
    if (self->stage + 1 == self->stages)  // the parts add up to one loss
        *pass->base.loss = pass->base.split + 1 < pass->base.splits ? 0 : (float)pass->base.micro_batch;
    sleep_until(start_ns + time_of(self, pass, ACTION_F, self->costs.forward_ns));
    return true;
}

// What B and I have in common: they check what was kept, and write the input's gradient.
static bool go_back(const struct synthetic *self, const struct stage_pass *pass, struct error *error)
{
    if (!bears_stamp(pass->base.saved, part_bytes(pass, self->bytes.kept), own_stamp(self, pass, MADE_KEPT), error)
        || (self->bytes.input_life != INPUT_UNTIL_F && !has_input(self, pass, error))
        || (pass->was_recomputed && !bears_stamp(pass->recomputed, part_bytes(pass, self->bytes.again),
                                                 own_stamp(self, pass, MADE_RECOMPUTED), error))
        || (self->stage + 1 < self->stages
            && !bears_stamp(pass->base.output_gradient, part_bytes(pass, self->bytes.output),
                            stamp_of(pass, MADE_GRADIENT, self->stage + 1), error)))
        return false;
    stamp_bytes(pass->base.workspace, self->bytes.transient, stamp_of(pass, MADE_HELD, UINT16_MAX));
    if (self->stage > 0)
        stamp_bytes(pass->base.input_gradient, part_bytes(pass, self->bytes.input),
                    stamp_of(pass, MADE_GRADIENT, self->stage));
    return true;
}

// What B and W have in common.
static bool add_gradient(const struct synthetic *self, const struct stage_pass *pass, struct error *error)
{
    if (!bears_stamp(pass->kept_through, part_bytes(pass, self->bytes.kept_through),
                     own_stamp(self, pass, MADE_THROUGH), error)
        || (self->bytes.input_life == INPUT_UNTIL_W && !has_input(self, pass, error)))
        return false;
    if (pass->base.gradients)
        *(float *)pass->base.gradients += 1.0f;
    return true;
}

// The time of recomputation: in R, and in B and I if no R has done it.
static uint64_t recompute_time(const struct synthetic *self, const struct stage_pass *pass)
{
    if (pass->was_recomputed)
        return 0;
    const uint64_t recompute_ns = cost_part(self->costs.recompute_ns, pass->base.split, pass->base.splits);
    pass->reruns->known_ns += recompute_ns;
    return recompute_ns;
}

static bool do_backward(const struct synthetic *self, const struct stage_pass *pass, struct error *error)
{
    const uint64_t start_ns = clock_now_ns();
    if (!go_back(self, pass, error) || !add_gradient(self, pass, error))
        return false;
    const uint64_t recompute_ns = recompute_time(self, pass);
    sleep_until(start_ns + time_of(self, pass, ACTION_B, self->costs.backward_ns) + recompute_ns);
    return true;
}

static bool do_backward_input(const struct synthetic *self, const struct stage_pass *pass, struct error *error)
{
    const uint64_t start_ns = clock_now_ns();
    if (!go_back(self, pass, error))
        return false;
    stamp_bytes(pass->base.held, part_bytes(pass, self->bytes.held), own_stamp(self, pass, MADE_HELD));
    const uint64_t recompute_ns = recompute_time(self, pass);
    sleep_until(start_ns + time_of(self, pass, ACTION_I, self->costs.backward_input_ns) + recompute_ns);
    return true;
}

static bool do_backward_weight(const struct synthetic *self, const struct stage_pass *pass, struct error *error)
{
    const uint64_t start_ns = clock_now_ns();
    if (!bears_stamp(pass->base.held, part_bytes(pass, self->bytes.held), own_stamp(self, pass, MADE_HELD), error)
        || !add_gradient(self, pass, error))
        return false;
    sleep_until(start_ns + time_of(self, pass, ACTION_W, self->costs.backward_weight_ns));
    return true;
}

static bool do_recompute(const struct synthetic *self, const struct stage_pass *pass, struct error *error)
{
    const uint64_t start_ns = clock_now_ns();
    if (self->bytes.input_life != INPUT_UNTIL_F && !has_input(self, pass, error))
        return false;
    stamp_bytes(pass->recomputed, part_bytes(pass, self->bytes.again), own_stamp(self, pass, MADE_RECOMPUTED));
    sleep_until(start_ns + recompute_time(self, pass));
    return true;
}

// --- called in the queue's order -----------------------------------------------------

typedef bool synthetic_function(const struct synthetic *self, const struct stage_pass *pass, struct error *error);

struct turn {
    synthetic_function *function;
    const struct synthetic *self;
    struct stage_pass pass;
};

static void take_turn(struct queue *queue, const void *arguments)
{
    const struct turn *turn = arguments;
    struct error error = { 0 };
    if (!turn->function(turn->self, &turn->pass, &error))
        queue_fail(queue, error.text);
}

static bool in_turn(synthetic_function *function, void *itself, const struct stage_pass *pass)
{
    const struct turn turn = { function, itself, *pass };
    queue_call(pass->base.queue, take_turn, &turn, sizeof turn);
    return true;
}

static bool forward(void *itself, const struct stage_pass *pass, struct error *error)
{
    (void)error;
    return in_turn(do_forward, itself, pass);
}

static bool backward(void *itself, const struct stage_pass *pass, struct error *error)
{
    (void)error;
    return in_turn(do_backward, itself, pass);
}

static bool backward_input(void *itself, const struct stage_pass *pass, struct error *error)
{
    (void)error;
    return in_turn(do_backward_input, itself, pass);
}

static bool backward_weight(void *itself, const struct stage_pass *pass, struct error *error)
{
    (void)error;
    return in_turn(do_backward_weight, itself, pass);
}

static bool recompute(void *itself, const struct stage_pass *pass, struct error *error)
{
    (void)error;
    return in_turn(do_recompute, itself, pass);
}

struct lingering {
    struct span_start start;
    uint64_t ns;
};

static void sleep_on(struct queue *queue, const void *arguments)
{
    (void)queue;
    const struct lingering *lingering = arguments;
    const struct span_start *start = &lingering->start;
    sleep_until((start->known_ns > 0 ? start->known_ns : event_time_ns(start->event)) + lingering->ns);
}

static void linger(void *itself, struct queue *queue, enum action_kind kind, struct span_start start)
{
    const struct synthetic *self = itself;
    const struct lingering lingering = { start, kind == ACTION_STEP ? self->costs.step_ns : self->costs.reduce_ns };
    queue_call(queue, sleep_on, &lingering, sizeof lingering);
}

static bool initialize(void *itself, struct queue *queue, void *weights, struct error *error)
{
    (void)itself;
    (void)queue;
    (void)weights;  // the slab is zero, and so is the count of updates
    (void)error;
    return true;
}

struct synthetic synthetic_from_costs(const struct cost_row *costs, uint32_t stages, uint32_t stage)
{
    const struct cost_row *row = &costs[stage];
    return (struct synthetic){
        .stage = stage,
        .stages = stages,
        .costs = *row,
        .rows = costs,
        .bytes = {
            .weights = round_to_256(row->version_bytes),
            .gradients = round_to_256(row->version_bytes),
            .version = round_to_256(row->version_bytes),
            .input = stage > 0 ? round_to_256(costs[stage - 1].output_bytes) : 0,
            .input_life = INPUT_UNTIL_F,
            .output = stage + 1 < stages ? round_to_256(row->output_bytes) : 0,
            .kept = round_to_256(row->kept_forward_bytes),
            .held = round_to_256(row->kept_weight_bytes),
            .transient = round_to_256(row->transient_bytes),
            .transient_with_recompute = round_to_256(row->transient_bytes),
            .again = round_to_256(row->again_bytes),
        },
    };
}

struct stage synthetic_stage(struct synthetic *synthetic)
{
    static const struct stage_functions functions = {
        .forward = forward,
        .backward = backward,
        .backward_input = backward_input,
        .backward_weight = backward_weight,
        .initialize = initialize,
        .recompute = recompute,
        .linger = linger,
    };
    return (struct stage){ .functions = &functions, .self = synthetic, .bytes = synthetic->bytes,
                           .takes_splits = true };
}
