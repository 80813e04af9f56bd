// Text that a model writes comes from the logits behind its loss.
#include "trainer/sample.h"

#include <math.h>
#include <string.h>

#include "tests/test.h"
#include "trainer/held_out.h"
#include "trainer/model_spec.h"

enum { VOCABULARY = 256, SEQUENCE = 8 };

static struct model *model_of(const char *spec)
{
    struct error error = { 0 };
    struct model *model = model_from_spec(spec, PRECISION_FP32, &error);
    assert_good(model, error);
    return model;
}

// The loss is the mean over rows of log(sum exp(logits)) less the target's logit.
static void the_loss_follows_from_the_logits(void **state)
{
    const char *spec = *state;
    struct error error = { 0 };
    struct model *model = model_of(spec);
    struct device *device = device_open("cpu", &error);
    uint16_t tokens[SEQUENCE + 1] = { 'a', 0, 255, 'b', 'c', 7, 8, 9, 200 };
    const struct text_data data = { .held = tokens, .held_count = SEQUENCE + 1, .vocabulary = VOCABULARY };
    struct held_out held;
    float loss;
    assert_good(device && held_out_open(&held, model, device, &data, 3, &error), error);
    assert_good(twin_loss(held.twin, 0, 0, &loss, &error), error);
    double sum = 0;
    for (size_t row = 0; row < SEQUENCE; row++) {
        const float *logits = (const float *)layer_logits(&model->layers[model->layer_count - 1],
                                                          twin_saved(held.twin, model->layer_count - 1), row);
        double all = 0;
        for (size_t i = 0; i < VOCABULARY; i++)
            all += exp((double)logits[i]);
        sum += log(all) - (double)logits[tokens[row + 1]];
    }
    assert_true(fabs(sum / SEQUENCE - loss) < 1e-5);
    held_out_close(&held);
    device_close(device);
    model_free(model);
}

// --- what is drawn ------------------------------------------------------------------------

// Weights as the seed makes them, but larger.
static void make_kept(struct kept_model *kept, const char *spec, uint64_t seed)
{
    struct error error = { 0 };
    *kept = (struct kept_model){ .model = model_of(spec) };
    struct device *device = device_open("cpu", &error);
    assert_good(device, error);
    struct queue *queue = queue_create(device, &error);
    assert_good(queue, error);
    kept->weights = calloc(kept->model->layer_count + 1, sizeof *kept->weights);
    assert_non_null(kept->weights);
    for (size_t l = 0; l < kept->model->layer_count; l++) {
        const struct layer *layer = &kept->model->layers[l];
        const uint64_t bytes = layer_sizes(layer).parameter_bytes;
        void *there = device_allocate(device, bytes + 256, &error);
        kept->weights[l] = malloc(bytes + 1);
        assert_true(there && kept->weights[l]);
        layer_initialize(layer, queue, there, seed);
        queue_download(queue, kept->weights[l], there, bytes);
        assert_good(queue_wait(queue, &error), error);
        for (uint64_t i = 0; i < bytes / sizeof(float); i++)
            ((float *)kept->weights[l])[i] *= 20;  // or all bytes would be about as likely
        device_release(device, there);
    }
    queue_free(queue);
    device_close(device);
}

static void write_with(const struct kept_model *kept, const char *prompt, double temperature, uint64_t seed,
                       size_t tokens, unsigned char *to)
{
    struct error error = { 0 };
    struct text text = { 0 };
    const struct sample_settings settings = { prompt, tokens, temperature, seed };
    assert_good(sample_text(kept, &settings, &text, &error), error);
    assert_int_equal(text.length, tokens);
    memcpy(to, text.data, tokens);
    text_clear(&text);
}

static void the_same_seed_writes_the_same(void **state)
{
    (void)state;
    struct kept_model kept;
    unsigned char a[30], b[30];
    make_kept(&kept, "gpt-nano,width=16,blocks=1,heads=2,sequence=8", 1);
    write_with(&kept, "a", 1, 5, 30, a);
    write_with(&kept, "a", 1, 5, 30, b);
    assert_memory_equal(a, b, 30);
    write_with(&kept, "a", 1, 6, 30, b);
    assert_memory_not_equal(a, b, 30);
    write_with(&kept, "a", 0, 5, 30, a);
    write_with(&kept, "a", 0, 6, 30, b);
    assert_memory_equal(a, b, 30);
    kept_model_clear(&kept);
}

// Only the last bytes count, as many as the model's sequence is long; and each by itself goes on from those before it.
static void what_is_written_goes_on_from_what_stands_before_it(void **state)
{
    (void)state;
    struct kept_model kept;
    unsigned char a[12], b[12];
    make_kept(&kept, "gpt-nano,width=16,blocks=1,heads=2,sequence=8", 1);
    write_with(&kept, "0123456789abcdefgh", 0, 1, 12, a);
    write_with(&kept, "abcdefgh", 0, 1, 12, b);
    assert_memory_equal(a, b, 12);
    char longer[] = "bcdefgh?";
    longer[7] = (char)b[0];
    if (longer[7]) {
        write_with(&kept, longer, 0, 1, 11, a);
        assert_memory_equal(a, b + 1, 11);
    }
    write_with(&kept, "hgfedcba", 0, 1, 12, a);
    assert_memory_not_equal(a, b, 12);
    kept_model_clear(&kept);
}

static void models_of_other_tokens_are_refused(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct text text = { 0 };
    struct kept_model kept = { .model = model_of("gpt2,width=16,blocks=1,heads=2,sequence=8,micro_batch=1") };
    const struct sample_settings settings = { "a", 1, 1, 1 };
    assert_false(sample_text(&kept, &settings, &text, &error));
    assert_error(error, "model gpt2 is of 50257 tokens, and only those of bytes write text here");
    kept_model_clear(&kept);
}

int main(void)
{
    char own[] = "gpt-nano,width=16,blocks=1,heads=2,sequence=8,micro_batch=1";
    char tied[] = "gpt-nano,tied,padded,width=16,blocks=1,heads=2,sequence=8,micro_batch=1";
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(the_loss_follows_from_the_logits, own),
        cmocka_unit_test_prestate(the_loss_follows_from_the_logits, tied),
        cmocka_unit_test(the_same_seed_writes_the_same),
        cmocka_unit_test(what_is_written_goes_on_from_what_stands_before_it),
        cmocka_unit_test(models_of_other_tokens_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
