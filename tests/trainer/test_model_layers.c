// The layers of our own models keep to what weir_layer.h asks of anybody's, and their gradients are forward's.
#include "trainer/model_layers.h"

#include "device/device.h"
#include "runtime/guard/check_layers.h"
#include "tests/test.h"
#include "trainer/model_spec.h"

static struct model_row {
    const char *name, *spec;
} model_rows[] = {
    { "gpt_nano", "gpt-nano,width=32,heads=2,blocks=1,sequence=16,micro_batch=2" },
    { "gpt_nano_tied", "gpt-nano,tied,width=32,heads=2,blocks=1,sequence=16,micro_batch=2" },
    { "gpt_nano_of_odd_sizes", "gpt-nano,width=24,heads=3,blocks=1,sequence=13,micro_batch=3" },
    { "dlrm", "dlrm,numbers=3,rows=5/40/7,columns=6,ids=3,bottom=9,top=11,micro_batch=5" },
    { "dlrm_of_crosses", "dlrm,numbers=3,rows=5/40/7,columns=6,cross=2,rank=4,top=11,weighted,ids=2,micro_batch=5" },
    { "wide_and_deep", "wide-and-deep,numbers=3,rows=5/40/7,columns=6,mean,ids=4,top=11,micro_batch=5" },
    { "deepfm_without_numbers", "deepfm,numbers=0,rows=5/40/7,columns=6,top=11,micro_batch=5" },
};

static void a_models_layers_keep_to_their_word(void **state)
{
    const struct model_row *row = *state;
    struct error error = { 0 };
    struct device *device = device_open("cpu", &error);
    assert_good(device, error);
    struct model *model = model_from_spec(row->spec, PRECISION_FP32, &error);
    assert_good(model, error);
    const struct batch_settings batches = { .batches = BATCHES_RANDOM, .seed = 1, .samples = 1 };
    struct model_layers *layers = model_layers_create(model, device, &batches, &error);
    assert_good(layers, error);
    const struct layer_checking checking = { .loss_share = 1 };
    assert_good(layers_check(layers->layers, layers->layer_count, &checking, &error), error);
    model_layers_free(layers);
    model_free(model);
    device_close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_ROW(a_models_layers_keep_to_their_word, &model_rows[0]),
        TEST_ROW(a_models_layers_keep_to_their_word, &model_rows[1]),
        TEST_ROW(a_models_layers_keep_to_their_word, &model_rows[2]),
        TEST_ROW(a_models_layers_keep_to_their_word, &model_rows[3]),
        TEST_ROW(a_models_layers_keep_to_their_word, &model_rows[4]),
        TEST_ROW(a_models_layers_keep_to_their_word, &model_rows[5]),
        TEST_ROW(a_models_layers_keep_to_their_word, &model_rows[6]),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
