// Evaluations of a range of samples predict what a plain loop over micro-batches does, in a pipeline and in a twin.
#include "trainer/predictions.h"

#include "tests/trainer/clicks.h"
#include "tests/trainer/small_pipeline.h"
#include "trainer/held_samples.h"

enum { ROWS = 4 };
static const char spec[] = "dlrm,numbers=2,slots=3,ids=2,rows=7,columns=4,bottom=8,top=8,micro_batch=4";
static const struct random_clicks shape = { 1, 40, 9, 3, 2, 7, 2 };

// The twin: the same samples as those held out of another document, a micro-batch after the other.
static void predict_plainly(const struct small_pipeline *trained, struct sample_range range, float *logits,
                            double *nats)
{
    struct random_clicks alone = shape;
    struct sample_data data;
    struct held_twin twin;
    struct error error = { 0 };
    alone.seed = shape.seed;
    alone.train = range.first;
    alone.held = range.count;
    random_clicks_load(&alone, &data);
    assert_good(held_twin_open(&twin, trained->model, &data, trained->device, &error), error);
    small_pipeline_give(trained, twin.twin, true);
    *nats = 0;
    for (uint64_t first = 0; first < range.count; first += ROWS) {
        float loss, outputs[64];
        assert_good(twin_loss(twin.twin, 0, (uint32_t)(first / ROWS), &loss, &error), error);
        assert_good(twin_read_output(twin.twin, trained->layers->layer_count - 2, outputs, &error), error);
        for (uint64_t i = 0; i < ROWS && first + i < range.count; i++)
            logits[first + i] = outputs[i];
        *nats += (double)loss * ROWS;
    }
    held_twin_close(&twin);
    sample_data_clear(&data);
}

static void check(struct small_pipeline *trained, struct sample_range range, uint32_t most, const float *wanted,
                  double wanted_nats)
{
    struct error error = { 0 };
    struct predictions found = { .model = trained->model, .data = trained->course.data, .range = range,
                                 .pipeline = trained->pipeline, .device = trained->device,
                                 .settings = &trained->settings };
    assert_good(predictions_open(&found, most, &error), error);
    assert_true(found.micro_batches <= most);
    trained->course.evaluated = predictions_range(&found);
    trained->course.evaluation_samples = predictions_samples(&found);
    uint64_t number = 0;
    double nats = 0;
    for (uint64_t e = 0; e < found.evaluations; e++) {
        assert_good(predictions_run(&found, e, &error), error);
        assert_non_null(found.evaluation);  // it runs on the pipeline's own ranks
        nats += predictions_nats(&found);
        for (uint64_t i = 0; i < predictions_count(&found, e); i++, number++)
            if (*predictions_at(&found, i) != wanted[number])
                fail_msg("%llu samples from %llu, at most %u micro-batches: sample %llu has %.9g, and alone %.9g",
                         (unsigned long long)range.count, (unsigned long long)range.first, most,
                         (unsigned long long)number, (double)*predictions_at(&found, i), (double)wanted[number]);
    }
    assert_int_equal(number, range.count);
    assert_true(nats > 0 && nats - wanted_nats < 1e-9 && wanted_nats - nats < 1e-9);
    predictions_close(&found);
}

static void samples_are_predicted_as_by_a_plain_loop(void **state)
{
    (void)state;
    static const struct sample_range ranges[] = { { 40, 9 }, { 1, 39 }, { 3, 16 }, { 38, 5 }, { 7, 1 }, { 1, 48 } };
    struct small_pipeline trained;
    struct sample_data data;
    random_clicks_load(&shape, &data);
    small_pipeline_train(&trained, spec, &data, 3);
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        float wanted[64];
        double nats;
        predict_plainly(&trained, ranges[i], wanted, &nats);
        for (uint32_t most = 1; most <= 13; most += 3)
            check(&trained, ranges[i], most, wanted, nats);
    }
    small_pipeline_clear(&trained);
    sample_data_clear(&data);
}

// Afterwards training goes on as if nothing had been predicted.
static void training_goes_on_to_the_same_bits(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct sample_data data;
    float numbers[2][4096];
    random_clicks_load(&shape, &data);
    for (int predicts = 0; predicts < 2; predicts++) {
        struct small_pipeline trained;
        float wanted[64];
        double nats;
        small_pipeline_train(&trained, spec, &data, 3);
        predict_plainly(&trained, (struct sample_range){ 2, 20 }, wanted, &nats);
        if (predicts)
            check(&trained, (struct sample_range){ 2, 20 }, 2, wanted, nats);
        assert_good(session_step(trained.pipeline->session, &error), error);
        uint64_t bytes = 0;
        for (uint32_t l = 0; l < trained.layers->layer_count; l++) {
            const uint64_t more = trained.layers->layers[l].parameter_bytes;
            assert_true(bytes + more <= sizeof numbers[0]);
            char *to = (char *)numbers[predicts] + bytes;
            assert_good(pipeline_read_parameters(trained.pipeline, l, 0, more, to, &error), error);
            bytes += more;
        }
        assert_memory_equal(numbers[predicts], numbers[0], bytes);
        small_pipeline_clear(&trained);
    }
    sample_data_clear(&data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples_are_predicted_as_by_a_plain_loop),
        cmocka_unit_test(training_goes_on_to_the_same_bits),
    };
    return cmocka_run_group_tests(tests, clicks_make_folder, clicks_remove_folder);
}
