// Kernels of experts beside loops: routing by sorting, rows by copying, products by kernel_matmul() group by group.
#include "device/expert_kernels.h"

#include "tests/device/kernel_rig.h"
#include "tests/device/slow_routing.h"

// A routing with room for what it sets.
struct routed {
    struct routing r;
    float *statistics, *loss;
};

static int32_t *some_places(struct rig *rig, size_t count)
{
    return (int32_t *)(void *)rig_output(rig, count);
}

static struct routed some_routing(struct rig *rig, uint64_t trial)
{
    struct routing r = { .router = slow_some_router(&rig->seed, trial), .auxiliary = 0.3f, .z = 0.1f };
    const size_t experts = r.router.experts, top = r.router.top;
    r.rows = rig_size(rig, 40);
    r.counted = trial % 3 ? r.rows : random_below(&rig->seed, r.rows + 1);
    r.capacity = trial % 2 ? 1 + random_below(&rig->seed, 1 + 2 * r.rows * top / experts) : 0;
    r.most = routing_most(r.rows, experts, top, r.capacity);
    float *logits = rig_buffer(rig, r.rows * experts, false), *bias = rig_buffer(rig, experts, false);
    slow_draw_logits(&rig->seed, trial / 4, logits, r.rows * experts);
    slow_draw_logits(&rig->seed, trial / 4, bias, experts);
    r.logits = logits;
    r.bias = r.router.kind == ROUTER_DEEPSEEK && trial % 16 < 8 ? bias : NULL;
    r.choices = some_places(rig, r.rows * top), r.slots = some_places(rig, r.rows * top);
    r.pairs = some_places(rig, r.most), r.ends = some_places(rig, experts);
    r.gates = rig_output(rig, r.rows * top), r.shares = rig_output(rig, experts);
    r.log_sums = rig_output(rig, r.rows);
    r.scores = r.router.kind == ROUTER_DEEPSEEK ? rig_output(rig, r.rows) : NULL;
    const struct routed routed = { r, rig_output(rig, routing_statistics(experts)), rig_output(rig, 1) };
    kernel_route(rig->queue, &routed.r, routed.statistics, routed.loss);
    rig_settle(rig);
    for (size_t slot = (size_t)r.ends[experts - 1]; slot < r.most; slot++)
        r.pairs[slot] = 0;  // the poison behind the last one is no output
    return routed;
}

static void check_route(struct rig *rig, uint64_t trial)
{
    const struct routed routed = some_routing(rig, trial);
    slow_check_routing(&routed.r, routed.statistics, *routed.loss);
}

static void tokens_take_their_best_experts_and_late_ones_are_dropped(void **state)
{
    (void)state;
    rig_try_everywhere(check_route, test_trials(200, 5000));
}

// The rows of one member, from `first` on.
static struct routing rows_of(struct rig *rig, const struct routing *whole, size_t first, size_t rows)
{
    const size_t experts = whole->router.experts, top = whole->router.top;
    const size_t behind = whole->counted > first ? whole->counted - first : 0;
    struct routing r = *whole;
    r.rows = rows;
    r.counted = behind < rows ? behind : rows;
    r.elsewhere = whole->counted - r.counted;
    r.most = routing_most(rows, experts, top, r.capacity);
    r.logits = whole->logits + first * experts;
    r.choices = some_places(rig, rows * top), r.slots = some_places(rig, rows * top);
    r.pairs = some_places(rig, r.most), r.ends = some_places(rig, experts);
    r.gates = rig_output(rig, rows * top), r.shares = rig_output(rig, experts);
    r.log_sums = rig_output(rig, rows);
    r.scores = whole->scores ? rig_output(rig, rows) : NULL;
    return r;
}

static size_t first_slot(const struct routing *r, size_t expert)
{
    return expert > 0 ? (size_t)r->ends[expert - 1] : 0;
}

// The slots of a member lie behind those of the members before it, expert by expert.
static void must_be_behind(const struct routing *whole, const struct routing *own, size_t first, const int32_t *kept,
                           size_t member)
{
    const size_t experts = whole->router.experts, top = whole->router.top;
    for (size_t pair = 0; pair < own->counted * top; pair++) {
        const size_t of_whole = first * top + pair;
        assert_int_equal(own->choices[pair], whole->choices[of_whole]);
        assert_true(own->gates[pair] == whole->gates[of_whole]);
        const size_t expert = (size_t)own->choices[pair];
        size_t before = 0;
        for (size_t m = 0; m < member; m++)
            before += (size_t)kept[m * experts + expert];
        const int32_t slot = own->slots[pair];
        assert_int_equal(slot < 0 ? -1 : (int64_t)(before + (size_t)slot - first_slot(own, expert)),
                         whole->slots[of_whole] < 0
                             ? -1 : (int64_t)((size_t)whole->slots[of_whole] - first_slot(whole, expert)));
        assert_true(slot < 0 || own->pairs[slot] == (int32_t)pair);
    }
    for (size_t e = 0; e < experts; e++)
        assert_int_equal((size_t)own->ends[e] - first_slot(own, e), kept[member * experts + e]);
    assert_true((size_t)own->ends[experts - 1] <= own->most);
}

static bool is_copied(uint64_t trial, size_t expert)
{
    return trial % 3 > 0 && (trial + expert) % 5 == 0;
}

static void check_members(struct rig *rig, uint64_t trial)
{
    const struct routed routed = some_routing(rig, trial);
    const struct routing *whole = &routed.r;
    const size_t experts = whole->router.experts, statistics = routing_statistics(experts);
    const size_t members = 1 + random_below(&rig->seed, whole->rows < 5 ? whole->rows : 5);
    void *blocks = rig_buffer(rig, members * routing_block_bytes(experts) / sizeof(float), true);
    struct routing own[5];
    for (size_t m = 0; m < members; m++) {
        const size_t first = whole->rows * m / members, end = whole->rows * (m + 1) / members;
        own[m] = rows_of(rig, whole, first, end - first);
        kernel_route_own(rig->queue, &own[m], (char *)blocks + m * routing_block_bytes(experts));
    }
    for (size_t m = 0; m < members; m++) {
        struct routing_members all = { .members = (uint32_t)members, .member = (uint32_t)m, .blocks = blocks,
                                       .kept = some_places(rig, members * experts),
                                       .taken = some_places(rig, experts) };
        float *numbers = rig_output(rig, statistics), *loss = rig_output(rig, 1);
        size_t taken = 0, end = 0;
        for (size_t e = 0; e < experts; e++) {
            all.own[e / 64] |= (uint64_t)(e % members == m && !is_copied(trial, e)) << e % 64;
            all.copied[e / 64] |= (uint64_t)is_copied(trial, e) << e % 64;
        }
        kernel_route_all(rig->queue, &own[m], &all, numbers, loss);
        rig_settle(rig);
        must_be_behind(whole, &own[m], whole->rows * m / members, all.kept, m);
        for (size_t e = 0; e < experts; e++) {
            assert_true(own[m].shares[e] == whole->shares[e]);
            if (is_copied(trial, e)) {
                end += (size_t)own[m].ends[e] - first_slot(&own[m], e);
                assert_int_equal(all.taken[taken++], end);
            }
        }
        for (size_t e = 0; e < experts; e++)
            if (e % members == m && !is_copied(trial, e)) {
                end += (size_t)whole->ends[e] - first_slot(whole, e);
                assert_int_equal(all.taken[taken++], end);
            }
        for (; taken < experts; taken++)
            all.taken[taken] = 0;  // no output
        assert_memory_equal(numbers, routed.statistics, (experts + 1) * sizeof *numbers);
        for (size_t i = experts + 1; i < statistics; i++)
            rig_close_to(numbers[i], (double)routed.statistics[i], 1e-6, "loss", i);
        rig_close_to(*loss, (double)*routed.loss, 1e-6, "both losses", 0);
        for (size_t slot = (size_t)own[m].ends[experts - 1]; slot < own[m].most; slot++)
            own[m].pairs[slot] = 0;
    }
}

static void members_give_the_slots_of_the_whole_micro_batch(void **state)
{
    (void)state;
    rig_try_everywhere(check_members, test_trials(200, 5000));
}

// What is behind the last slot is no output: of numbers that a check has read, those that must be the same again.
static void must_repeat(struct rig *rig, const float *numbers, size_t count)
{
    memcpy(rig_output(rig, count), numbers, count * sizeof *numbers);
}

static void check_rows(struct rig *rig, uint64_t trial)
{
    const struct routing r = some_routing(rig, trial).r;
    const size_t top = r.router.top, columns = rig_size(rig, 40), used = (size_t)r.ends[r.router.experts - 1];
    const bool is_gated = trial % 2;
    const float *in = rig_numbers(rig, r.rows * columns, 1), *add = rig_numbers(rig, r.rows * columns, 1);
    const float *rows = rig_numbers(rig, r.most * columns, 1);
    float *sorted = rig_buffer(rig, r.most * columns, false), *sums = rig_output(rig, r.rows * columns);
    float *gates = rig_output(rig, r.rows * top);
    kernel_permute(rig->queue, &r, rig_values(rig, sorted), rig_values(rig, in), columns, is_gated);
    kernel_combine(rig->queue, &r, rig_values(rig, sums), rig_values(rig, rows),
                   trial % 3 ? rig_values(rig, add) : NULL, columns, is_gated);
    kernel_gate_gradients(rig->queue, &r, gates, rig_values(rig, in), rig_values(rig, rows), columns);
    rig_settle(rig);
    for (size_t i = 0; i < used * columns; i++) {
        const size_t pair = (size_t)r.pairs[i / columns];
        rig_value_close_to(sorted[i], (double)in[pair / top * columns + i % columns]
                                      * (is_gated ? (double)r.gates[pair] : 1), 1e-6, "sorted", i);
    }
    for (size_t i = 0; i < r.rows * columns; i++) {
        double sum = trial % 3 ? (double)add[i] : 0;
        for (size_t pair = i / columns * top; pair < (i / columns + 1) * top; pair++)
            if (r.slots[pair] >= 0)
                sum += (is_gated ? (double)r.gates[pair] : 1)
                     * (double)rows[(size_t)r.slots[pair] * columns + i % columns];
        rig_value_close_to(sums[i], sum, 1e-5, "sum", i);
    }
    for (size_t pair = 0; pair < r.rows * top; pair++) {
        double sum = 0;
        for (size_t c = 0; r.slots[pair] >= 0 && c < columns; c++)
            sum += (double)in[pair / top * columns + c] * (double)rows[(size_t)r.slots[pair] * columns + c];
        rig_close_to(gates[pair], sum, 1e-5, "gradient of a gate", pair);
    }
    must_repeat(rig, sorted, used * columns);
}

static void rows_go_to_their_slots_and_back(void **state)
{
    (void)state;
    rig_try_everywhere(check_rows, test_trials(60, 1000));
}

// The product of each group alone; every number must have its bits. The first groups are given apart.
static void check_products(struct rig *rig, uint64_t trial)
{
    const struct routing r = some_routing(rig, trial).r;
    const size_t groups = r.router.experts, k = rig_size(rig, 20), n = rig_size(rig, 20);
    const bool is_back = trial % 2;
    const float *in = rig_numbers(rig, r.most * k, 1), *weight = rig_numbers(rig, groups * k * n, 1);
    const float *bias = rig_numbers(rig, groups * n, 1);
    float *out = rig_buffer(rig, r.most * n, false), *one = rig_buffer(rig, r.most * n, false);
    float *before = rig_buffer(rig, r.most * n, false), *one_before = rig_buffer(rig, r.most * n, false);
    const bool has_gelu = trial / 2 % 2;
    struct matmul product = { .m = r.most, .n = n, .k = k, .transpose_b = is_back, .a = rig_values(rig, in),
                              .b = rig_values(rig, weight), .c = rig_values(rig, out),
                              .bias = trial % 3 ? rig_values(rig, bias) : NULL,
                              .before_gelu = has_gelu ? rig_values(rig, before) : NULL };
    const size_t apart = random_below(&rig->seed, groups);
    struct matmul behind = product;
    behind.b = rig_values(rig, weight + apart * k * n);
    behind.bias = product.bias ? rig_values(rig, bias + apart * n) : NULL;
    kernel_grouped_matmul(rig->queue, &behind, r.ends, apart, groups - apart);
    kernel_grouped_matmul(rig->queue, &product, r.ends, 0, apart);
    for (size_t g = 0, first = 0; g < groups; first = (size_t)r.ends[g++]) {
        struct matmul alone = product;
        alone.m = (size_t)r.ends[g] - first;
        alone.a = rig_values(rig, in + first * k);
        alone.b = rig_values(rig, weight + g * k * n);
        alone.c = rig_values(rig, one + first * n);
        alone.bias = product.bias ? rig_values(rig, bias + g * n) : NULL;
        alone.before_gelu = has_gelu ? rig_values(rig, one_before + first * n) : NULL;
        if (alone.m > 0)
            kernel_matmul(rig->queue, &alone);
    }
    rig_settle(rig);
    const size_t used = (size_t)r.ends[groups - 1] * n;
    assert_memory_equal(out, one, used * sizeof(float));
    if (has_gelu)
        assert_memory_equal(before, one_before, used * sizeof(float));
    must_repeat(rig, out, used);
}

static void each_group_has_the_bits_of_its_product(void **state)
{
    (void)state;
    rig_try_everywhere(check_products, test_trials(60, 1000));
}

static void check_sums(struct rig *rig, uint64_t trial)
{
    const struct routing r = some_routing(rig, trial).r;
    const size_t groups = r.router.experts, m = rig_size(rig, 20), n = rig_size(rig, 20);
    const float *in = rig_numbers(rig, r.most * m, 1), *gradient = rig_numbers(rig, r.most * n, 1);
    float *before, *bias_before;
    float *sums = rig_sums(rig, groups * m * n, &before), *bias = rig_sums(rig, groups * n, &bias_before);
    const struct matmul product = { .m = m, .n = n, .k = r.most, .transpose_a = true, .a = rig_values(rig, in),
                                    .b = rig_values(rig, gradient), .sums = sums };
    const size_t apart = random_below(&rig->seed, groups);
    struct matmul behind = product;
    behind.sums = sums + apart * m * n;
    kernel_grouped_matmul(rig->queue, &product, r.ends, 0, apart);
    kernel_grouped_matmul(rig->queue, &behind, r.ends, apart, groups - apart);
    kernel_grouped_sum_columns(rig->queue, bias, rig_values(rig, gradient), r.ends, 0, apart, n);
    kernel_grouped_sum_columns(rig->queue, bias + apart * n, rig_values(rig, gradient), r.ends, apart, groups - apart,
                               n);
    rig_settle(rig);
    for (size_t g = 0, first = 0; g < groups; first = (size_t)r.ends[g++])
        for (size_t c = 0; c < n; c++) {
            double of_bias = (double)bias_before[g * n + c];
            for (size_t row = first; row < (size_t)r.ends[g]; row++)
                of_bias += (double)gradient[row * n + c];
            rig_close_to(bias[g * n + c], of_bias, 1e-5, "bias", g * n + c);
            for (size_t i = 0; i < m; i++) {
                const size_t at = (g * m + i) * n + c;
                double sum = (double)before[at];
                for (size_t row = first; row < (size_t)r.ends[g]; row++)
                    sum += (double)in[row * m + i] * (double)gradient[row * n + c];
                rig_close_to(sums[at], sum, 1e-5, "sum", at);
            }
        }
}

static void gradients_of_matrices_and_biases_are_added_by_group(void **state)
{
    (void)state;
    rig_try_everywhere(check_sums, test_trials(60, 1000));
}

static double slow_silu(double x)
{
    return x / (1 + exp(-x));
}

static void check_swiglu(struct rig *rig, uint64_t trial)
{
    const size_t columns = rig_size(rig, 40), rows = rig_size(rig, 9), used = trial % 3 ? rows : rows / 2;
    int32_t *end = (int32_t *)(void *)rig_buffer(rig, 1, false);
    const struct activation activation = { true, rows, columns, trial % 2 ? NULL : end };
    const size_t done = trial % 2 ? rows : used;
    const float *in = rig_numbers(rig, rows * 2 * columns, 8), *gradient = rig_numbers(rig, rows * columns, 1);
    float *out = rig_buffer(rig, rows * columns, false), *again = rig_buffer(rig, rows * columns, false);
    float *in_gradient = rig_buffer(rig, rows * 2 * columns, false);
    *end = (int32_t)used;
    kernel_activate(rig->queue, &activation, rig_values(rig, out), rig_values(rig, in));
    kernel_activate_backward(rig->queue, &activation, rig_values(rig, in_gradient), rig_values(rig, again),
                             rig_values(rig, gradient), rig_values(rig, in));
    rig_settle(rig);
    for (size_t i = 0; i < done * columns; i++) {
        const size_t left = i / columns * 2 * columns + i % columns, right = left + columns;
        const double x = (double)in[left], y = (double)in[right], g = (double)gradient[i], s = 1 / (1 + exp(-x));
        rig_value_close_to(out[i], slow_silu(x) * y, 1e-5, "swiglu", i);
        rig_value_close_to(in_gradient[left], g * y * s * (1 + x * (1 - s)), 1e-5, "left", i);
        rig_value_close_to(in_gradient[right], g * slow_silu(x), 1e-5, "right", i);
        assert_true(again[i] == out[i]);
    }
    must_repeat(rig, out, done * columns);
    must_repeat(rig, in_gradient, done * 2 * columns);
}

static void swiglu_is_that_of_double(void **state)
{
    (void)state;
    rig_try_everywhere(check_swiglu, test_trials(40, 1000));
}

static void check_bias(struct rig *rig, uint64_t trial)
{
    const size_t experts = 1 + random_below(&rig->seed, 12);
    float *counts = rig_buffer(rig, experts, false), *before;
    double sum = 0;
    for (size_t e = 0; e < experts; e++)
        sum += (double)(counts[e] = (float)random_below(&rig->seed, trial % 2 ? 2 : 9));
    float *bias = rig_sums(rig, experts, &before);
    kernel_move_bias(rig->queue, bias, counts, experts, 0.25f);
    rig_settle(rig);
    for (size_t e = 0; e < experts; e++) {
        const double mean = sum / (double)experts, own = (double)counts[e];
        const float move = own < mean - 1e-9 ? 0.25f : own > mean + 1e-9 ? -0.25f : 0;
        assert_true(bias[e] == before[e] + move);
    }
}

static void a_bias_moves_towards_the_mean(void **state)
{
    (void)state;
    rig_try_everywhere(check_bias, test_trials(40, 1000));
}

// A NaN reaches the gates of its token, and no other token; every place stays within its bounds.
static void a_nan_stays_one_in_its_token(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct device *device = device_open("cpu", &error);
    assert_good(device, error);
    struct queue *queue = queue_create(device, &error);
    for (int kind = ROUTER_SWITCH; kind <= ROUTER_DEEPSEEK; kind++) {
        const size_t top = kind == ROUTER_SWITCH ? 1 : 2;
        float logits[] = { 1, 2, 3, 4, NAN, NAN, NAN, NAN, 1, NAN, 3, 2 }, gates[6], shares[4], log_sums[3], scores[3];
        float statistics[8], loss;
        int32_t choices[6], slots[6], pairs[6], ends[4];
        const struct routing routing = {
            .router = { (enum router_kind)kind, 4, top, 2, 1, 1 }, .rows = 3, .counted = 3, .most = 6, .logits = logits,
            .choices = choices, .slots = slots, .pairs = pairs, .ends = ends, .gates = gates, .shares = shares,
            .log_sums = log_sums, .scores = scores,
        };
        kernel_route(queue, &routing, statistics, &loss);
        assert_good(queue_wait(queue, &error), error);
        for (size_t k = 0; k < top; k++) {
            assert_true(gates[k] == gates[k]);
            assert_true(isnan(gates[top + k]) && isnan(gates[2 * top + k]));
            assert_int_equal(choices[top + k], k);
        }
        assert_int_equal(choices[0], 3);
        assert_int_equal(choices[2 * top], 2);
        assert_int_equal(ends[3], 3 * top);
    }
    queue_free(queue);
    device_close(device);
}

static void must_refuse(const struct routing *routing, const char *sentence)
{
    struct error error = { 0 };
    struct device *device = device_open("cpu", &error);
    assert_good(device, error);
    struct queue *queue = queue_create(device, &error);
    kernel_route(queue, routing, NULL, NULL);
    assert_false(queue_wait(queue, &error));
    assert_string_equal(error.text, sentence);
    queue_free(queue);
    device_close(device);
}

static void wrong_calls_fail_the_queue(void **state)
{
    (void)state;
    must_refuse(&(struct routing){ .router = { ROUTER_MIXTRAL, 4, 5, 1, 1, 1 } },
                "a router has no experts or too many, or a token takes more than there are");
    must_refuse(&(struct routing){ .router = { ROUTER_MIXTRAL, 257, 2, 1, 1, 1 } },
                "a router has no experts or too many, or a token takes more than there are");
    must_refuse(&(struct routing){ .router = { ROUTER_DEEPSEEK, 8, 2, 3, 1, 1 } },
                "the groups of a router do not divide its experts, or are too many");
    must_refuse(&(struct routing){ .router = { ROUTER_DEEPSEEK, 8, 3, 4, 1, 1 } },
                "the best groups of a router have fewer experts than a token takes");
    must_refuse(&(struct routing){ .router = { ROUTER_MIXTRAL, 4, 2, 1, 1, 1 }, .rows = 3, .counted = 4 },
                "a routing has more tokens than rows, or more than 2^31 - 1 pairs");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_take_their_best_experts_and_late_ones_are_dropped),
        cmocka_unit_test(members_give_the_slots_of_the_whole_micro_batch),
        cmocka_unit_test(rows_go_to_their_slots_and_back),
        cmocka_unit_test(each_group_has_the_bits_of_its_product),
        cmocka_unit_test(gradients_of_matrices_and_biases_are_added_by_group),
        cmocka_unit_test(swiglu_is_that_of_double),
        cmocka_unit_test(a_bias_moves_towards_the_mean),
        cmocka_unit_test(a_nan_stays_one_in_its_token),
        cmocka_unit_test(wrong_calls_fail_the_queue),
    };
    return cmocka_run_group_tests_name("experts", tests, NULL, NULL);
}
