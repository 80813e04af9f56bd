// A layer of tables in plain C, whose gradient is a list of rows if a plan can have it (touched_rows). It has the bits
// of a gradient as large as the tables by any plan.
#include <stdatomic.h>
#include <string.h>

#include "api/weir.h"
#include "tests/test.h"

enum { SAMPLES = 4, COLUMNS = 3, FIRST = 5, SECOND = 70, ALL = FIRST + SECOND };
enum { MICRO_BATCHES = 4, LAYERS = 3, STEPS = 5 };
enum { NUMBERS = SAMPLES * COLUMNS, TABLE_BYTES = ALL * COLUMNS * sizeof(float), ALIGN = 256 };

// Row `k` of sample `s`: one of each table. Rows come again, in a micro-batch and in those behind it.
static uint32_t row_of(const struct weir_pass *pass, uint32_t s, uint32_t k)
{
    const uint32_t some = (uint32_t)pass->step * 7 + pass->micro_batch * 5 + s * s * 3;
    return k == 0 ? some % 3 : FIRST + some % 11;
}

static bool look_up(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    const float *table = pass->parameters;
    float *out = pass->output;
    (void)self;
    (void)error;
    for (uint32_t s = 0; s < SAMPLES; s++)
        for (uint32_t c = 0; c < COLUMNS; c++)
            out[s * COLUMNS + c] = table[row_of(pass, s, 0) * COLUMNS + c] + table[row_of(pass, s, 1) * COLUMNS + c];
    return true;
}

static bool hold(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    (void)self;
    (void)pass;
    (void)error;
    return true;
}

static uint64_t aligned(uint64_t bytes)
{
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

// The sums of a row in a list, as weir_layer.h lays one out.
static float *sums_in_list(char *list, uint64_t room, uint32_t row)
{
    uint32_t *count = (uint32_t *)(void *)list, *numbers = (uint32_t *)(void *)(list + ALIGN);
    uint32_t *places = (uint32_t *)(void *)(list + ALIGN + aligned(room * sizeof *numbers));
    float *sums = (float *)(void *)((char *)places + aligned(ALL * sizeof *places));
    if (places[row] >= *count || numbers[places[row]] != row) {
        assert_true(*count < room);
        places[row] = *count;
        numbers[*count] = row;
        memset(sums + (*count)++ * COLUMNS, 0, COLUMNS * sizeof *sums);
    }
    return sums + places[row] * COLUMNS;
}

static atomic_uint lists, wholes;  // of the last run, by all ranks

static bool add_rows(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    const float *gradient = pass->held;
    (void)self;
    (void)error;
    lists += pass->gradient_rows > 0;
    wholes += pass->gradient_rows == 0;
    for (uint32_t s = 0; s < SAMPLES; s++)
        for (uint32_t k = 0; k < 2; k++) {
            const uint32_t row = row_of(pass, s, k);
            float *sums = pass->gradient_rows > 0 ? sums_in_list(pass->gradients, pass->gradient_rows, row)
                                                  : (float *)pass->gradients + row * COLUMNS;
            for (uint32_t c = 0; c < COLUMNS; c++)
                sums[c] += gradient[s * COLUMNS + c];
        }
    return true;
}

static bool first_table(void *self, void *queue, void *parameters, struct weir_error *error)
{
    float *table = parameters;
    (void)self;
    (void)queue;
    (void)error;
    for (int i = 0; i < ALL * COLUMNS; i++)
        table[i] = (float)(i % 7) / 8 - 0.4f;
    return true;
}

// y = p x, with one number p.
static bool scale_forward(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    (void)self;
    (void)error;
    for (int i = 0; i < NUMBERS; i++)
        ((float *)pass->output)[i] = *(const float *)pass->parameters * ((const float *)pass->input)[i];
    return true;
}

static bool scale_backward_input(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    (void)self;
    (void)error;
    for (int i = 0; i < NUMBERS; i++)
        ((float *)pass->input_gradient)[i] = *(const float *)pass->parameters * ((const float *)pass->held)[i];
    return true;
}

static bool scale_backward_weight(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    (void)self;
    (void)error;
    for (int i = 0; i < NUMBERS; i++)
        *(float *)pass->gradients += ((const float *)pass->held)[i] * ((const float *)pass->input)[i];
    return true;
}

static bool first_scale(void *self, void *queue, void *parameters, struct weir_error *error)
{
    (void)self;
    (void)queue;
    (void)error;
    *(float *)parameters = 1.5f;
    return true;
}

// Half the mean square of the difference from 1.
static bool loss_forward(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    float sum = 0;
    (void)self;
    (void)error;
    for (int i = 0; i < NUMBERS; i++) {
        const float x = ((const float *)pass->input)[i] - 1;
        sum += x * x;
    }
    if (pass->loss)
        *pass->loss = sum / (2 * NUMBERS);
    return true;
}

static bool loss_backward(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    (void)self;
    (void)error;
    for (int i = 0; i < NUMBERS; i++)
        ((float *)pass->input_gradient)[i] = (((const float *)pass->input)[i] - 1) * pass->share / NUMBERS;
    return true;
}

static const struct weir_range whole_table[] = { { 0, TABLE_BYTES } };
static const struct weir_tensor two_tables[] = { { "first", FIRST, COLUMNS, 0 },
                                                 { "second", SECOND, COLUMNS, FIRST * COLUMNS * sizeof(float) } };

static void fill(struct weir_layer layers[LAYERS])
{
    const uint64_t output = NUMBERS * sizeof(float);
    layers[0] = (struct weir_layer){
        .name = "tables", .kind = "tables", .parameter_bytes = TABLE_BYTES, .output_bytes = output,
        .held_for_weight_bytes = output, .undecayed = whole_table, .undecayed_count = 1, .tensors = two_tables,
        .tensor_count = 2, .touched_rows = SAMPLES, .forward = look_up, .backward_input = hold,
        .backward_weight = add_rows, .initialize = first_table,
    };
    layers[1] = (struct weir_layer){
        .name = "scale", .kind = "scale", .parameter_bytes = sizeof(float), .output_bytes = output,
        .input_kept = WEIR_INPUT_KEPT_WEIGHT, .held_for_weight_bytes = output, .forward = scale_forward,
        .backward_input = scale_backward_input, .backward_weight = scale_backward_weight, .initialize = first_scale,
    };
    layers[2] = (struct weir_layer){
        .name = "loss", .kind = "loss", .input_kept = WEIR_INPUT_KEPT_BOTH, .forward = loss_forward,
        .backward_input = loss_backward, .backward_weight = hold,
    };
}

static struct weir_plan *plan_of(const struct weir_layer *layers, const struct weir_partition_options *options)
{
    struct weir_error error = { 0 };
    struct weir_partition_options planning = *options;
    struct weir_profile *profile = weir_profile_layers(layers, LAYERS, NULL, &error);
    assert_good(profile, error);
    planning.micro_batches = MICRO_BATCHES;
    planning.cluster = planning.cluster ? planning.cluster : "2 devices, 1MiB, 10GB/s 1us";
    planning.schedule = planning.schedule ? planning.schedule : "1f1b";
    struct weir_plan *plan = weir_partition(profile, &planning, &error);
    if (!plan)
        fail_msg("%s, %s: %s", planning.schedule, planning.optimizer, error.text);
    weir_profile_free(profile);
    return plan;
}

// The twin's gradients are as large as the tables, but for adam-rows, whose are lists of all rows.
static void must_agree(const struct weir_partition_options *planning, const struct weir_runtime_options *options,
                       bool are_lists)
{
    struct weir_layer layers[LAYERS];
    struct weir_error error = { 0 };
    fill(layers);
    struct weir_plan *plan = plan_of(layers, planning);
    const bool is_lazy = strcmp(planning->optimizer, "adam-rows") == 0;
    atomic_store(&lists, 0);
    atomic_store(&wholes, 0);
    if (!weir_verify(plan, layers, LAYERS, options, STEPS, &error))
        fail_msg("%s, %s: %s", planning->schedule, planning->optimizer, error.text);
    assert_int_equal(lists > 0, are_lists);
    assert_int_equal(wholes > 0, !is_lazy);
    weir_plan_free(plan);
}

static void lists_leave_the_bits_of_whole_gradients(void **state)
{
    (void)state;
    static const char *const schedules[] = { "gpipe", "1f1b", "zb-h1", "zb-h2" };
    static const char *const optimizers[] = { "sgd", "adagrad", "adagrad-rows", "adam-rows" };
    for (size_t s = 0; s < sizeof schedules / sizeof schedules[0]; s++)
        for (size_t o = 0; o < 4; o++)
            for (int clips = 0; clips < 2; clips++)
                must_agree(WEIR_OPTIONS(partition, .schedule = schedules[s], .optimizer = optimizers[o]),
                           WEIR_OPTIONS(runtime, .rate = 0.5f, .clip = clips ? 0.01f : 0), true);
}

static void without_a_flush_tables_are_updated_in_place(void **state)
{
    (void)state;
    const struct weir_runtime_options *usual = WEIR_OPTIONS(runtime, .rate = 0.5f);
    must_agree(WEIR_OPTIONS(partition, .optimizer = "sgd", .schedule = "pipedream"), usual, true);
    must_agree(WEIR_OPTIONS(partition, .optimizer = "adagrad", .schedule = "vertical"), usual, true);
    must_agree(WEIR_OPTIONS(partition, .optimizer = "adagrad-rows", .schedule = "pipedream-2bw"), usual, true);
}

static void what_has_no_lists_has_whole_gradients(void **state)
{
    (void)state;
    static const uint32_t two[] = { 2, 2 };
    static const char four[] = "4 devices, 1MiB, 10GB/s 1us", host[] = "2 devices, 1MiB, 10GB/s 1us, host 1GiB 10GB/s";
    const struct weir_runtime_options *usual = WEIR_OPTIONS(runtime, .rate = 0.5f);
    must_agree(WEIR_OPTIONS(partition, .optimizer = "momentum"), usual, false);
    must_agree(WEIR_OPTIONS(partition, .optimizer = "adamw"), usual, false);
    must_agree(WEIR_OPTIONS(partition, .optimizer = "adagrad", .cluster = host, .optimizer_on_host = true), usual,
               false);
    must_agree(WEIR_OPTIONS(partition, .optimizer = "sgd", .cluster = four, .replicas = { two, 2 }), usual, false);
    must_agree(WEIR_OPTIONS(partition, .optimizer = "adagrad-rows", .cluster = four, .replicas = { two, 2 }), usual,
               false);
    must_agree(WEIR_OPTIONS(partition, .optimizer = "adagrad-rows", .cluster = host, .optimizer_on_host = true), usual,
               false);
    must_agree(WEIR_OPTIONS(partition, .optimizer = "sgd", .cluster = four, .replicas = { two, 2 },
                            .shard = "optimizer"), usual, false);
}

// --- what is refused ---------------------------------------------------------------------------------

static bool own_update(void *self, const struct weir_update *update, struct weir_error *error)
{
    (void)self;
    (void)update;
    (void)error;
    return true;
}

static bool add_weighted_rows(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    const bool good = add_rows(self, pass, error);
    for (uint32_t i = 0; pass->gradient_rows == 0 && i < ALL * COLUMNS; i++)
        ((float *)pass->gradients)[i] += 1e-2f * ((const float *)pass->parameters)[i];
    return good;
}

static void a_backward_that_reads_rows_is_blamed(void **state)
{
    (void)state;
    struct weir_layer layers[LAYERS];
    struct weir_error error = { 0 };
    fill(layers);
    assert_good(weir_layers_check(layers, LAYERS, NULL, &error), error);
    layers[0].backward_weight = add_weighted_rows;
    assert_false(weir_layers_check(layers, LAYERS, NULL, &error));
    assert_string_equal(error.text, "layer 0 (tables): backward_weight reads parameters for gradients, which a layer"
                                    " with touched_rows does in forward alone: without a flush, rows may be newer by"
                                    " then");
}

static void must_refuse(const struct weir_layer *layers, const char *sentence)
{
    struct weir_error error = { 0 };
    assert_null(weir_profile_layers(layers, LAYERS, NULL, &error));
    assert_int_equal(error.code, 2);
    assert_string_equal(error.text, sentence);
}

static void must_not_plan(const struct weir_partition_options *options, const char *sentence)
{
    struct weir_layer layers[LAYERS];
    struct weir_error error = { 0 };
    struct weir_partition_options planning = *options;
    fill(layers);
    struct weir_profile *profile = weir_profile_layers(layers, LAYERS, NULL, &error);
    assert_good(profile, error);
    planning.micro_batches = MICRO_BATCHES;
    planning.cluster = "4 devices, 1MiB, 10GB/s 1us, host 1GiB 10GB/s";
    planning.schedule = planning.schedule ? planning.schedule : "1f1b";
    assert_null(weir_partition(profile, &planning, &error));
    if (!strstr(error.text, sentence))
        fail_msg("%s", error.text);
    weir_profile_free(profile);
}

// Rows without a gradient cannot be told from others there, or a row is cut.
static void optimizers_of_rows_are_refused_without_lists(void **state)
{
    (void)state;
    static const uint32_t two[] = { 2, 2 };
    must_not_plan(WEIR_OPTIONS(partition, .optimizer = "adam-rows", .schedule = "pipedream", .ranks = 2),
                  "optimizer adam-rows: only a schedule that flushes has lists of the rows to update; use one, or take"
                  " adagrad-rows");
    must_not_plan(WEIR_OPTIONS(partition, .optimizer = "adam-rows", .optimizer_on_host = true, .ranks = 2),
                  "optimizer adam-rows: the rows to update are in a list on the device; leave the optimizer and all"
                  " layers there, or take adagrad-rows");
    must_not_plan(WEIR_OPTIONS(partition, .optimizer = "adagrad-rows", .replicas = { two, 2 }, .shard = "optimizer"),
                  "optimizer adagrad-rows: rows of tables are updated whole, and shares cut through them; do not share"
                  " its state, or take adagrad");
}

static void what_cannot_be_is_refused(void **state)
{
    (void)state;
    struct weir_layer layers[LAYERS];
    struct weir_error error = { 0 };
    fill(layers);
    struct weir_plan *plan = plan_of(layers, WEIR_OPTIONS(partition, .optimizer = "sgd"));
    assert_null(weir_runtime_create(plan, layers, LAYERS, WEIR_OPTIONS(runtime, .update = own_update), &error));
    assert_int_equal(error.code, 2);
    assert_string_equal(error.text, "the gradients of tables on stage 0 are lists of rows, which an update of one's own"
                        " does not read: plan with momentum or adamw, whose gradients are as large as the tables");
    weir_plan_free(plan);
    layers[0].undecayed_count = 0;
    must_refuse(layers, "layer 0 (tables): touched_rows: rows without a gradient stay as they are, so that none may"
                " decay: name all parameters in undecayed");
    fill(layers);
    layers[0].tensors = NULL;
    must_refuse(layers, "layer 0 (tables): touched_rows: needs tensors, whose rows they are");
    struct weir_tensor wrong[] = { two_tables[0], two_tables[1] };
    wrong[1].rows = 5, wrong[1].columns = COLUMNS + 1;
    layers[0].tensors = wrong;
    must_refuse(layers, "layer 0 (tables): touched_rows: tensor second is not right behind the one before it with as"
                " many columns");
    fill(layers);
    layers[1].tied = &layers[0];
    must_refuse(layers, "layer 1 (scale): tied: layer tables has touched_rows, and only it may read its parameters");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_leave_the_bits_of_whole_gradients),
        cmocka_unit_test(without_a_flush_tables_are_updated_in_place),
        cmocka_unit_test(what_has_no_lists_has_whole_gradients),
        cmocka_unit_test(a_backward_that_reads_rows_is_blamed),
        cmocka_unit_test(optimizers_of_rows_are_refused_without_lists),
        cmocka_unit_test(what_cannot_be_is_refused),
    };
    return cmocka_run_group_tests_name("weir.h, rows", tests, NULL, NULL);
}
