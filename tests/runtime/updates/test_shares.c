#include "runtime/updates/shares.h"

#include <string.h>

#include "common/number.h"
#include "tests/test.h"

static const struct exempt undecayed[] = { { 0, 3 }, { 4, 12 }, { 30, 33 } };
static const struct stage stage = { .shard = SHARD_OPTIMIZER, .exempt = undecayed, .exempt_count = 3 };

// 33 elements, of which each of three replicas has 11.
static void a_share_knows_what_of_it_does_not_decay(void **state)
{
    (void)state;
    static const struct exempt expected[3][2] = { { { 0, 3 }, { 4, 11 } }, { { 0, 1 } }, { { 8, 11 } } };
    static const size_t counts[3] = { 2, 1, 1 };
    for (uint32_t copy = 0; copy < 3; copy++) {
        struct error error = { 0 };
        struct share share;
        assert_good(share_open(&share, &stage, 33, copy, 3, &error), error);
        assert_true(share.first == 11 * copy && share.count == 11);
        assert_int_equal(share.exempt_count, counts[copy]);
        assert_memory_equal(share.exempt, expected[copy], counts[copy] * sizeof share.exempt[0]);
        share_close(&share);
    }
}

static void shares_are_all_there_is_and_begin_where_others_end(void **state)
{
    (void)state;
    for (uint64_t count = 0; count < 20; count++) {
        for (uint32_t copies = 2; copies < 7; copies++) {
            uint64_t end = 0;
            for (uint32_t copy = 0; copy < copies; copy++) {
                struct error error = { 0 };
                struct share share;
                assert_good(share_open(&share, &stage, count, copy, copies, &error), error);
                assert_int_equal(share.first, end);
                assert_true(share.count <= count / copies + 1);
                end += share.count;
                share_close(&share);
            }
            assert_int_equal(end, count);
        }
    }
}

// A share of 11 of these 33 begins and ends within parts.
static void a_share_knows_the_rates_of_what_it_has(void **state)
{
    (void)state;
    static const struct stage_part parts[] = {
        { .layer = 4, .end = 15, .numbers = 15, .rate_factor = 0.5f },
        { .layer = 5, .first = 15, .end = 20, .numbers = 5, .is_frozen = true },
        { .layer = 6, .first = 20, .end = 33, .numbers = 13 },
    };
    const struct stage paced = { .shard = SHARD_OPTIMIZER, .parts = parts, .part_count = 3 };
    struct error error = { 0 };
    struct share share;
    assert_good(share_open(&share, &paced, 33, 1, 3, &error), error);
    assert_null(share.edges);
    const struct optimizer_buffers whole = { .count = 33 }, own = share_buffers(&share, PRECISION_FP32, whole);
    assert_int_equal(own.part_count, 3);
    for (size_t i = 0; i < 3; i++) {
        static const uint64_t ends[] = { 0, 4, 9, 11 };
        assert_true(own.parts[i].first == ends[i] && own.parts[i].end == ends[i + 1]);
        assert_true(own.parts[i].layer == 4 + i && own.parts[i].is_frozen == parts[i].is_frozen
                    && own.parts[i].rate_factor == parts[i].rate_factor);
    }
    share_close(&share);
}

static void who_shares_nothing_has_all(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct share share;
    const struct stage plain = { .exempt = undecayed, .exempt_count = 3 };
    assert_good(share_open(&share, &plain, 33, 1, 3, &error), error);
    assert_true(share.first == 0 && share.count == 33 && share.copies == 1);
    const struct optimizer_buffers whole = { .count = 33, .exempt = undecayed, .exempt_count = 3 };
    const struct optimizer_buffers own = share_buffers(&share, PRECISION_FP32, whole);
    assert_true(own.exempt == undecayed && own.exempt_count == 3 && own.count == 33);
    share_close(&share);
}

// --- what is updated together is in one share ------------------------------------------------

enum { MOST_PARTS = 4, MOST_TENSORS = 4, MOST_NUMBERS = MOST_PARTS * MOST_TENSORS * 4096, MOST_COPIES = 5 };

// A stage of layers with a few tensors each, or none that are named, which stand at multiples of 64, with what a plan
// says of it.
struct layers {
    enum optimizer_kind kind;
    struct stage stage;
    struct stage_part parts[MOST_PARTS];
    struct weir_tensor tensors[MOST_PARTS][MOST_TENSORS];
    struct exempt exempt[MOST_PARTS * MOST_TENSORS];
    struct shared_states states;
    uint64_t count, state;  // numbers, with what is between; bytes of the optimizer's
};

static uint64_t draw_tensor(struct weir_tensor *tensor, uint64_t at, uint64_t *seed)
{
    const bool is_vector = random_below(seed, 2);
    const uint64_t rows = is_vector ? 0 : 2 + random_below(seed, 60);
    const uint64_t columns = 1 + random_below(seed, is_vector ? 4000 : 60);
    *tensor = (struct weir_tensor){ "tensor", rows, columns, at * sizeof(float) };
    return (rows > 0 ? rows : 1) * columns;
}

static void draw_part(struct layers *layers, size_t i, uint64_t *seed)
{
    struct stage_part *part = &layers->parts[i];
    const size_t tensors = random_below(seed, 6) == 0 ? 0 : 1 + random_below(seed, MOST_TENSORS);
    *part = (struct stage_part){ .layer = (uint32_t)i, .first = layers->count, .tensors = layers->tensors[i],
                                 .tensor_count = tensors, .state = layers->state };
    uint64_t factored = 0;
    if (tensors > 0)
        part->numbers = random_below(seed, 3) == 0 ? 64 * random_below(seed, 20) : 0;
    layers->states.tensor = max_u64(layers->states.tensor, part->numbers * sizeof(float));  // as large as zeros in front
    for (size_t t = 0; t < tensors; t++) {
        const uint64_t at = (part->numbers + 63) / 64 * 64, count = draw_tensor(&layers->tensors[i][t], at, seed);
        const struct weir_tensor *tensor = &layers->tensors[i][t];
        factored += optimizer_factored((struct shape){ tensor->rows > 0 ? tensor->rows : 1, tensor->columns });
        part->numbers = at + count;
        layers->states.tensor = max_u64(layers->states.tensor, round_to_256(count * sizeof(float)));
        if (tensor->rows == 0)
            layers->exempt[layers->stage.exempt_count++] = (struct exempt){ part->first + at, part->first + at + count };
    }
    if (tensors == 0) {  // one vector
        factored = part->numbers = random_below(seed, 3000);
        layers->states.tensor = max_u64(layers->states.tensor, round_to_256(part->numbers * sizeof(float)));
    }
    part->end = part->first + (part->numbers + 63) / 64 * 64;
    layers->count = part->end;
    const bool has_blocks = layers->kind == OPTIMIZER_ADAM_8BIT;
    layers->state += round_to_256(has_blocks ? optimizer_block_bytes(part->numbers) : factored * sizeof(float));
    part->state_end = layers->state;
}

static void draw_layers(struct layers *layers, enum optimizer_kind kind, uint64_t *seed)
{
    *layers = (struct layers){ .kind = kind };
    layers->stage = (struct stage){ .shard = SHARD_OPTIMIZER, .unit = optimizer_unit(kind), .parts = layers->parts,
                                    .exempt = layers->exempt, .part_count = 1 + random_below(seed, MOST_PARTS) };
    for (size_t i = 0; i < layers->stage.part_count; i++)
        draw_part(layers, i, seed);
    if (!optimizer_keeps_blocks(kind))
        layers->state = optimizer_copies(kind) * layers->count * sizeof(float);
    layers->states.layers = (uint32_t)layers->stage.part_count;
    layers->states.weights = layers->count * sizeof(float);
    layers->states.optimizer = layers->state;
}

static bool may_begin(const struct layers *layers, uint64_t at)
{
    bool may = at == layers->count;
    for (size_t i = 0; i < layers->stage.part_count; i++) {
        const struct stage_part *part = &layers->parts[i];
        const bool is_within = part->first <= at && at < part->end;
        const bool has_blocks = layers->stage.unit == UPDATES_BLOCKS;
        may |= is_within && (at == part->first || (has_blocks && (at - part->first) % 2048 == 0));
        for (size_t t = 0; is_within && layers->stage.unit == UPDATES_TENSORS && t < part->tensor_count; t++)
            may |= at == part->first + part->tensors[t].first_byte / sizeof(float);
    }
    return may;
}

// Step by step back from where an even share begins.
static void each_begins_where_it_may(const struct layers *layers, uint32_t copies)
{
    const struct storage storage = { .optimizer = layers->kind, .shard = SHARD_OPTIMIZER };
    for (uint32_t copy = 0; copy < copies; copy++) {
        struct error error = { 0 };
        struct share share;
        uint64_t first = layers->count * copy / copies;
        while (!may_begin(layers, first))
            first--;
        assert_good(share_open(&share, &layers->stage, layers->count, copy, copies, &error), error);
        assert_true(share.first == first && share.edges[copy] == first);
        assert_int_equal(share.edges[copy + 1], share.first + share.count);
        assert_int_equal(share.edges[copies], layers->count);
        assert_true(share.count * sizeof(float)
                    <= storage_share(&storage, layers->states.weights, layers->states.tensor, copies));
        struct stage planned = layers->stage;
        planned.bytes.optimizer = storage_state_share(&storage, &layers->states, copies);
        assert_good(share_fits(&share, &planned, layers->kind, &error), error);
        share_close(&share);
    }
}

// What the optimizer reads and writes: of the stage, or of a share of it.
struct held {
    float *weights, *gradients, *state;
};

static struct held held_open(uint64_t count, uint64_t state)
{
    const struct held held = { calloc(count + 1, sizeof(float)), calloc(count + 1, sizeof(float)),
                               calloc(state + 1, sizeof(float)) };
    assert_true(held.weights && held.gradients && held.state);
    return held;
}

static void held_close(struct held *held)
{
    free(held->weights);
    free(held->gradients);
    free(held->state);
}

// Between tensors there are zeros.
static void draw_numbers(const struct layers *layers, float *numbers, uint64_t *seed)
{
    for (size_t i = 0; i < layers->stage.part_count; i++) {
        const struct stage_part *part = &layers->parts[i];
        for (size_t t = 0; t < part->tensor_count || t == 0; t++) {
            const struct weir_tensor all = { "all", 0, part->numbers, 0 };
            const struct weir_tensor *tensor = part->tensor_count > 0 ? &part->tensors[t] : &all;
            float *at = numbers + part->first + tensor->first_byte / sizeof(float);
            for (uint64_t n = 0; n < (tensor->rows > 0 ? tensor->rows : 1) * tensor->columns; n++)
                at[n] = (float)random_unit(seed) - 0.5f;
        }
    }
}

static struct optimizer_buffers buffers_of(const struct layers *layers, const struct held *held)
{
    return (struct optimizer_buffers){
        .next = (struct values *)(void *)held->weights, .weights = (const struct values *)(const void *)held->weights,
        .gradients = held->gradients, .state = held->state, .count = layers->count, .exempt = layers->exempt,
        .exempt_count = layers->stage.exempt_count, .parts = layers->parts, .part_count = layers->stage.part_count,
    };
}

// Of all the state that is kept by layers, each byte is some copy's, in its own; what is not is behind the last number.
static void take_pieces(const struct layers *layers, const struct share *share, const struct held *own, uint8_t *whole,
                        uint8_t *taken)
{
    for (size_t i = 0; i < layers->stage.part_count; i++) {
        if (layers->parts[i].numbers == 0)
            continue;
        const struct share_pieces pieces = share_block_pieces(share, &layers->stage, layers->parts[i].state);
        for (size_t p = 0; p < pieces.count; p++) {
            memcpy(whole + pieces.at[p].first, (const uint8_t *)own->state + pieces.at[p].at, pieces.at[p].count);
            for (uint64_t n = 0; n < pieces.at[p].count; n++)
                assert_int_equal(taken[pieces.at[p].first + n]++, 0);
        }
    }
}

// By copies of as much as the weights: the n-th number of each is that of a weight.
static void take_copies(const struct layers *layers, const struct share *share, const struct held *own, float *whole)
{
    const struct share_pieces pieces = share_pieces(share, 0, layers->count);
    for (uint64_t copy = 0; pieces.count > 0 && copy < optimizer_copies(layers->kind); copy++)
        memcpy(whole + copy * layers->count + pieces.at[0].first, own->state + copy * share->count + pieces.at[0].at,
               pieces.at[0].count * sizeof(float));
}

struct updating {
    struct optimizer optimizer;
    struct queue *queue;
    float *gradients[2];
};

static void update_twice(const struct updating *updating, struct optimizer_buffers buffers, uint64_t first)
{
    for (uint64_t update = 1; update <= 2; update++) {
        buffers.gradients = updating->gradients[update - 1] + first;
        if (buffers.count > 0)
            optimizer_update(&updating->optimizer, update, updating->queue, &buffers);
    }
}

// The share's state is its own, and begins as zeroes.
static void update_share(const struct updating *updating, const struct layers *layers, const struct held *begun,
                         const struct share *share, struct held *joined, uint8_t *taken)
{
    struct held own = held_open(layers->count, layers->state);
    memcpy(own.weights, begun->weights, layers->count * sizeof(float));
    update_twice(updating, share_buffers(share, PRECISION_FP32, buffers_of(layers, &own)), share->first);
    memcpy(joined->weights + share->first, own.weights + share->first, share->count * sizeof(float));
    if (optimizer_keeps_blocks(layers->kind))
        take_pieces(layers, share, &own, (uint8_t *)joined->state, taken);
    else
        take_copies(layers, share, &own, joined->state);
    held_close(&own);
}

static void are_updated_as_a_whole(const struct layers *layers, uint32_t copies, struct queue *queue, uint64_t *seed)
{
    struct held begun = held_open(layers->count, layers->state), joined = held_open(layers->count, layers->state);
    struct held other = held_open(layers->count, layers->state);
    uint8_t *taken = calloc(layers->state + 1, 1);
    struct updating updating = { optimizer_default(layers->kind), queue, { begun.gradients, joined.gradients } };
    assert_non_null(taken);
    updating.optimizer.rate = 0.1f;
    updating.optimizer.decay = 0.01f;
    draw_numbers(layers, begun.weights, seed);
    draw_numbers(layers, updating.gradients[0], seed);
    draw_numbers(layers, updating.gradients[1], seed);
    for (uint32_t copy = 0; copy < copies; copy++) {
        struct error error = { 0 };
        struct share share;
        assert_good(share_open(&share, &layers->stage, layers->count, copy, copies, &error), error);
        update_share(&updating, layers, &begun, &share, &joined, taken);
        share_close(&share);
    }
    memcpy(other.weights, begun.weights, layers->count * sizeof(float));
    update_twice(&updating, buffers_of(layers, &other), 0);
    assert_memory_equal(joined.weights, other.weights, layers->count * sizeof(float));
    assert_memory_equal(joined.state, other.state, layers->state);
    free(taken);
    held_close(&begun);
    held_close(&joined);
    held_close(&other);
}

static void what_is_updated_together_is_in_one_share(void **state)
{
    (void)state;
    const enum optimizer_kind kinds[] = { OPTIMIZER_ADAM_8BIT, OPTIMIZER_LARS, OPTIMIZER_LAMB, OPTIMIZER_ADAFACTOR };
    struct error error = { 0 };
    struct device *device = device_open("cpu", &error);
    struct queue *queue = device ? queue_create(device, &error) : NULL;
    assert_good(queue, error);
    for (uint64_t trial = 0; trial < test_trials(200, 4000); trial++) {
        uint64_t seed = trial;
        struct layers layers;
        draw_layers(&layers, kinds[trial % 4], &seed);
        const uint32_t copies = 2 + (uint32_t)random_below(&seed, MOST_COPIES - 1);
        each_begins_where_it_may(&layers, copies);
        are_updated_as_a_whole(&layers, copies, queue, &seed);
    }
    assert_good(queue_wait(queue, &error), error);
    queue_free(queue);
    device_close(device);
}

static void a_share_of_more_than_was_planned_is_refused(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct share share;
    const struct weir_tensor tensors[] = { { "one", 0, 64, 0 }, { "other", 0, 640, 256 } };
    const struct stage_part part = { .end = 704, .numbers = 704, .tensors = tensors, .tensor_count = 2 };
    const struct stage two = { .shard = SHARD_OPTIMIZER, .unit = UPDATES_TENSORS, .parts = &part, .part_count = 1,
                               .bytes.optimizer = 352 * sizeof(float) };
    assert_good(share_open(&share, &two, 704, 1, 2, &error), error);
    assert_false(share_fits(&share, &two, OPTIMIZER_LARS, &error));
    assert_error(error, "a replica's share of whole tensors is larger than the plan has counted, since layers have larger"
                        " ones than their profile says: profile the model, and partition, anew");
    share_close(&share);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_share_knows_what_of_it_does_not_decay),
        cmocka_unit_test(shares_are_all_there_is_and_begin_where_others_end),
        cmocka_unit_test(a_share_knows_the_rates_of_what_it_has),
        cmocka_unit_test(who_shares_nothing_has_all),
        cmocka_unit_test(what_is_updated_together_is_in_one_share),
        cmocka_unit_test(a_share_of_more_than_was_planned_is_refused),
    };
    return cmocka_run_group_tests_name("shares", tests, NULL, NULL);
}
