#include "trainer/click_batch.h"

#include <string.h>

#include "device/device.h"
#include "models/model.h"
#include "tests/test.h"

static struct model *model_of(struct click_sizes clicks, size_t samples)
{
    struct error error = { 0 };
    const struct model_sizes sizes = { .micro_batch = samples, .clicks = clicks };
    struct model *model = model_create("dlrm", &sizes, &error);
    assert_good(model, error);
    return model;
}

static const struct layer *source(const struct model *model, enum layer_data data)
{
    for (size_t i = 0; i < model->layer_count; i++)
        if (layer_data(&model->layers[i]) == data)
            return &model->layers[i];
    fail_msg("the model has no such source");
    return NULL;
}

static struct click_batch batch_of(const struct layer *layer)
{
    struct error error = { 0 };
    struct click_batch batch;
    assert_good(click_batch_create(layer, &batch, &error), error);
    click_batch_begin(layer, &batch);
    return batch;
}

static void add_drawn(const struct layer *layer, struct click_batch *batch, uint64_t *seed)
{
    const struct click_lists sample = click_batch_draw(layer, batch, seed);
    click_batch_add(layer, batch, &sample);
}

// Two slots of up to two ids, with tables of 4 and of 3 rows.
static const struct click_sizes two_slots = { .slots = 2, .ids = 2, .columns = 1, .row_count = 2, .rows = { 4, 3 } };

static void ids_become_rows_of_all_tables_together(void **state)
{
    (void)state;
    struct model *model = model_of(two_slots, 3);
    const struct layer *tables = source(model, DATA_IDS);
    struct click_batch batch = batch_of(tables);
    const uint32_t first_ids[] = { 3, 0, 2 }, first_ends[] = { 2, 3 }, last_ids[] = { 1000 }, last_ends[] = { 0, 1 };
    click_batch_add(tables, &batch, &(struct click_lists){ .ids = first_ids, .ends = first_ends });
    click_batch_add(tables, &batch, NULL);
    click_batch_add(tables, &batch, &(struct click_lists){ .ids = last_ids, .ends = last_ends });
    const int32_t rows[] = { 3, 0, 4 + 2, (int32_t)(4 + layer_table_row(3, 1000)) }, ends[] = { 2, 3, 3, 3, 3, 4 };
    assert_memory_equal(batch.rows, rows, sizeof rows);
    assert_memory_equal(batch.ends, ends, sizeof ends);
    for (size_t i = 0; i < 4; i++)
        assert_true(batch.weights[i] == 1);
    for (size_t i = 4; i < layer_most_ids(tables); i++)
        assert_true(batch.rows[i] == 0);
    click_batch_free(&batch);
    model_free(model);
}

// A batch begins anew: nothing of the one before it is left.
static void a_batch_goes_to_the_device_with_its_weights(void **state)
{
    (void)state;
    struct click_sizes sizes = two_slots;
    sizes.is_weighted = true;
    struct model *model = model_of(sizes, 2);
    const struct layer *tables = source(model, DATA_IDS);
    struct click_batch batch = batch_of(tables);
    uint64_t seed = 5;
    add_drawn(tables, &batch, &seed);
    add_drawn(tables, &batch, &seed);
    click_batch_begin(tables, &batch);
    const uint32_t ids[] = { 1, 2 }, ends[] = { 1, 2 };
    const float weights[] = { 0.5f, 3 };
    click_batch_add(tables, &batch, &(struct click_lists){ .ids = ids, .ends = ends, .weights = weights });
    click_batch_add(tables, &batch, NULL);
    struct error error = { 0 };
    struct device *device = device_open("cpu", &error);
    struct queue *queue = device ? queue_create(device, &error) : NULL;
    assert_good(queue, error);
    assert_int_equal(click_batch_bytes(tables), 3 * 256);
    void *place = device_allocate(device, click_batch_bytes(tables), &error);
    assert_good(place, error);
    struct layer_pass pass = { .base = { .queue = queue } };
    click_batch_upload(tables, &batch, place, &pass);
    assert_good(queue_wait(queue, &error), error);
    assert_memory_equal(pass.ids.rows, ((int32_t[8]){ 1, 4 + 2 }), 8 * sizeof(int32_t));
    assert_memory_equal(pass.ids.ends, ((int32_t[4]){ 1, 2, 2, 2 }), 4 * sizeof(int32_t));
    assert_memory_equal(pass.ids.weights, ((float[8]){ 0.5f, 3 }), 8 * sizeof(float));
    device_release(device, place);
    queue_free(queue);
    device_close(device);
    click_batch_free(&batch);
    model_free(model);
}

static void numbers_are_rows_of_their_own(void **state)
{
    (void)state;
    struct model *model = model_of((struct click_sizes){ .numbers = 3, .has_numbers = true }, 2);
    const struct layer *numbers = source(model, DATA_NUMBERS);
    struct click_batch batch = batch_of(numbers);
    click_batch_add(numbers, &batch, &(struct click_lists){ .numbers = (float[]){ 7, -1, 2.5f } });
    click_batch_add(numbers, &batch, NULL);
    assert_memory_equal(batch.numbers, ((float[6]){ 7, -1, 2.5f }), 6 * sizeof(float));
    click_batch_free(&batch);
    model_free(model);
}

// Id k is about as frequent as 1 / (k + 1): each doubling of the ids has as many as the one before it.
static void low_ids_are_drawn_more_often_and_all_are_rows(void **state)
{
    (void)state;
    enum { SAMPLES = 4096, ROWS = 1023, BITS = 10 };
    struct model *model = model_of((struct click_sizes){ .slots = 2, .columns = 1, .row_count = 2,
                                                         .rows = { ROWS, 5 } }, SAMPLES);
    const struct layer *tables = source(model, DATA_IDS);
    struct click_batch batch = batch_of(tables);
    uint64_t seed = 1, counts[BITS] = { 0 }, of_few[5] = { 0 };
    for (size_t i = 0; i < SAMPLES; i++)
        add_drawn(tables, &batch, &seed);
    for (size_t i = 0; i < SAMPLES; i++) {
        assert_true(batch.ends[2 * i] == (int32_t)(2 * i + 1) && batch.ends[2 * i + 1] == (int32_t)(2 * i + 2));
        const int32_t one = batch.rows[2 * i], other = batch.rows[2 * i + 1] - ROWS;
        assert_true(one >= 0 && one < ROWS && other >= 0 && other < 5);
        of_few[other]++;
        unsigned bits = 0;
        while (((one + 1) >> (bits + 1)) > 0)
            bits++;
        counts[bits]++;
    }
    for (unsigned bits = 0; bits < BITS; bits++)
        assert_true(counts[bits] > SAMPLES / BITS * 3 / 4 && counts[bits] < SAMPLES / BITS * 3 / 2);
    assert_true(of_few[0] > of_few[1] && of_few[1] > 0 && of_few[4] > 0);
    click_batch_free(&batch);
    model_free(model);
}

static void drawn_slots_have_from_none_to_all_ids(void **state)
{
    (void)state;
    enum { SAMPLES = 500, MOST = 3 };
    struct model *model = model_of((struct click_sizes){ .slots = 2, .ids = MOST, .columns = 1 }, SAMPLES);
    const struct layer *tables = source(model, DATA_IDS);
    struct click_batch batch = batch_of(tables);
    uint64_t seed = 3, counts[MOST + 1] = { 0 };
    for (size_t i = 0; i < SAMPLES; i++)
        add_drawn(tables, &batch, &seed);
    for (size_t bag = 0; bag < 2 * SAMPLES; bag++) {
        const int32_t length = batch.ends[bag] - (bag > 0 ? batch.ends[bag - 1] : 0);
        assert_true(length >= 0 && length <= MOST);
        counts[length]++;
    }
    for (int length = 0; length <= MOST; length++)
        assert_true(counts[length] > 2 * SAMPLES / (MOST + 1) / 2);
    click_batch_free(&batch);
    model_free(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_become_rows_of_all_tables_together),
        cmocka_unit_test(a_batch_goes_to_the_device_with_its_weights),
        cmocka_unit_test(numbers_are_rows_of_their_own),
        cmocka_unit_test(low_ids_are_drawn_more_often_and_all_are_rows),
        cmocka_unit_test(drawn_slots_have_from_none_to_all_ids),
    };
    return cmocka_run_group_tests_name("click_batch", tests, NULL, NULL);
}
