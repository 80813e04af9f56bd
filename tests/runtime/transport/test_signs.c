// What replicas bring together, by the formula in double: the transport is played by loops over the copies.
#include "runtime/transport/signs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/random.h"
#include "tests/test.h"

enum { MOST_COPIES = 4, MOST_NUMBERS = 70 * 64 };

struct copy {
    float momentum[MOST_NUMBERS], seconds[MOST_NUMBERS], errors[MOST_NUMBERS], gradients[MOST_NUMBERS];
};

struct bench {
    struct device *device;
    struct queue *queue;
    uint32_t copies;
    uint64_t count;
    struct copy copy[MOST_COPIES];
    double momentum[MOST_NUMBERS], errors[MOST_COPIES][MOST_NUMBERS];  // of the formula
};

static const float beta1 = 0.9f;

// Some numbers have no second moment, and then no momentum, no error and, it may be, a gradient.
static void draw(struct bench *bench, uint64_t *seed)
{
    for (uint64_t i = 0; i < bench->count; i++) {
        const bool counts = random_below(seed, 5) > 0;
        const float momentum = counts ? (float)random_unit(seed) - 0.5f : 0;
        bench->momentum[i] = (double)momentum;
        for (uint32_t c = 0; c < bench->copies; c++) {
            bench->copy[c].momentum[i] = momentum;
            bench->copy[c].seconds[i] = counts ? 1 : 0;
            bench->copy[c].errors[i] = counts ? (float)random_unit(seed) - 0.5f : 0;
            bench->copy[c].gradients[i] = (float)random_unit(seed) - 0.5f;
            bench->errors[c][i] = (double)bench->copy[c].errors[i];
        }
    }
}

static bool counts_at(const struct bench *bench, uint64_t i)
{
    return bench->copy[0].seconds[i] > 0;
}

// What signs say of these numbers of a block, which is taken from them.
static void take(const struct bench *bench, double *numbers, double *said, uint64_t first, uint64_t end)
{
    double sum = 0, have = 0;
    for (uint64_t i = first; i < end; i++)
        if (counts_at(bench, i))
            sum += fabs(numbers[i]), have++;
    for (uint64_t i = first; i < end; i++) {
        said[i] = !counts_at(bench, i) ? 0 : numbers[i] < 0 ? -sum / have : sum / have;
        numbers[i] -= said[i];
    }
}

static void bring_together(struct bench *bench, uint64_t block, uint32_t owner)
{
    const uint64_t first = block * SIGN_BLOCK, rest = bench->count - first;
    const uint64_t end = first + (rest < SIGN_BLOCK ? rest : SIGN_BLOCK);
    static double said[MOST_NUMBERS];
    double *mean = bench->errors[owner];
    const double beta = (double)beta1, copies = bench->copies;
    for (uint32_t c = 0; c < bench->copies; c++)
        for (uint64_t i = first; i < end; i++)
            if (counts_at(bench, i))
                bench->errors[c][i] += (beta * bench->momentum[i]
                                        + (1 - beta) * copies * (double)bench->copy[c].gradients[i])
                                     / (c == owner ? copies : 1);
    for (uint32_t c = 0; c < bench->copies; c++) {
        if (c == owner)
            continue;
        take(bench, bench->errors[c], said, first, end);
        for (uint64_t i = first; i < end; i++)
            mean[i] += said[i] / copies;
    }
    take(bench, mean, bench->momentum, first, end);
}

static uint32_t owner_of(const struct bench *bench, uint64_t block)
{
    uint32_t owner = 0;
    while (share_first(sign_block_count(bench->count), owner + 1, bench->copies) <= block)
        owner++;
    return owner;
}

static struct signs signs_of(struct bench *bench, uint32_t c)
{
    struct copy *copy = &bench->copy[c];
    return (struct signs){ copy->momentum, copy->seconds, copy->errors, copy->gradients, bench->count, c,
                           bench->copies, beta1 };
}

// As transports do.
static void exchange(struct bench *bench, const struct reduction *what)
{
    for (uint32_t owner = 0; owner < bench->copies; owner++) {
        const struct reduction_share share = reduction_share(&what[owner], owner, bench->copies);
        struct sign_block *own = (struct sign_block *)what[owner].numbers + share.first;
        for (uint32_t c = 0; c < bench->copies; c++)
            if (c != owner)
                what[owner].compression->add(bench->queue, &what[owner], share,
                                             (struct sign_block *)what[c].numbers + share.first, bench->copies);
        what[owner].compression->compress(bench->queue, &what[owner], share);
        for (uint32_t c = 0; c < bench->copies; c++)
            if (c != owner && share.count > 0)
                memcpy((struct sign_block *)what[c].numbers + share.first, own, share.count * sizeof *own);
    }
}

static void must_be_near(float got, double want, const char *what, uint64_t i)
{
    if (!(fabs((double)got - want) <= 1e-6))
        fail_msg("%s %llu is %.9g, should be %.9g", what, (unsigned long long)i, (double)got, want);
}

static void compare(const struct bench *bench)
{
    for (uint64_t i = 0; i < bench->count; i++) {
        for (uint32_t c = 0; c < bench->copies; c++) {
            must_be_near(bench->copy[c].momentum[i], bench->momentum[i], "momentum", i);
            must_be_near(bench->copy[c].errors[i], bench->errors[c][i], "what is left of", i);
            assert_memory_equal(&bench->copy[c].momentum[i], &bench->copy[0].momentum[i], sizeof(float));
            assert_true(bench->copy[c].gradients[i] == 0);
            assert_true(counts_at(bench, i) || (bench->copy[c].momentum[i] == 0 && bench->copy[c].errors[i] == 0));
        }
    }
}

static void try_exchange(struct bench *bench)
{
    struct reduction what[MOST_COPIES];
    for (uint64_t block = 0; block < sign_block_count(bench->count); block++)
        bring_together(bench, block, owner_of(bench, block));
    for (uint32_t c = 0; c < bench->copies; c++) {
        const struct signs signs = signs_of(bench, c);
        what[c] = signs_begin(&signs, bench->queue, 0);
        assert_true(what[c].count * what[c].number_bytes <= bench->count * sizeof(float));
        assert_int_equal(what[c].count * what[c].number_bytes, (bench->count + 1023) / 1024 * 132);
    }
    exchange(bench, what);
    for (uint32_t c = 0; c < bench->copies; c++) {
        const struct signs signs = signs_of(bench, c);
        signs_end(&signs, bench->queue);
    }
    compare(bench);
}

static void momentum_of_all_is_that_of_the_formula(void **state)
{
    (void)state;
    struct error error = { 0 };
    uint64_t seed = 83;
    struct bench *bench = calloc(1, sizeof *bench);
    assert_non_null(bench);
    bench->device = device_open("cpu", &error);
    assert_good(bench->device, error);
    bench->queue = queue_create(bench->device, &error);
    assert_good(bench->queue, error);
    for (uint64_t trial = 0; trial < test_trials(60, 600); trial++) {
        bench->copies = 2 + (uint32_t)random_below(&seed, MOST_COPIES - 1);
        bench->count = 64 * (1 + random_below(&seed, trial % 3 ? 70 : 2));
        draw(bench, &seed);
        try_exchange(bench);
    }
    queue_free(bench->queue);
    device_close(bench->device);
    free(bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(momentum_of_all_is_that_of_the_formula),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
