#include "partitioner/sweep/config_sweep.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "partitioner/plan_search.h"
#include "profiler/cluster.h"
#include "tests/document.h"
#include "tests/test.h"

static const char llama[] =
    "{\"model_type\": \"llama\", \"num_hidden_layers\": 6, \"hidden_size\": 4096, \"num_attention_heads\": 32,"
    " \"num_key_value_heads\": 8, \"intermediate_size\": 14336, \"vocab_size\": 32000, \"max_position_embeddings\": 4096}";
static const char mixtral[] =
    "{\"model_type\": \"mixtral\", \"num_hidden_layers\": 4, \"hidden_size\": 2048, \"num_attention_heads\": 16,"
    " \"num_key_value_heads\": 8, \"intermediate_size\": 7168, \"vocab_size\": 32000, \"num_local_experts\": 8,"
    " \"num_experts_per_tok\": 2, \"max_position_embeddings\": 4096}";
static const char tied[] = "{\"model_type\": \"gpt2\", \"n_layer\": 6, \"n_embd\": 2048, \"n_head\": 16,"
                           " \"n_positions\": 2048, \"vocab_size\": 50304}";

struct question {
    struct transformer model;
    struct rated_device device;
    struct config_request request;
};

static void ask(struct question *question, const char *config, uint32_t devices, uint64_t memory_bytes)
{
    struct error error = { 0 };
    assert_good(transformer_read(config, strlen(config), "config.json", &question->model, &error), error);
    assert_good(rated_device_load("h100-sxm", &question->device, &error), error);
    question->request = (struct config_request){
        .model = &question->model, .device = &question->device, .how = estimate_usual(), .devices = devices,
        .global_batch = 32, .storage.optimizer = OPTIMIZER_ADAMW_MASTER, .memory_bytes = memory_bytes, .threads = 2,
    };
}

static struct config_sweep *run(const struct config_request *request)
{
    struct error error = { 0 };
    struct config_sweep *sweep = config_sweep_run(request, &error);
    assert_good(sweep, error);
    return sweep;
}

// By itself, with much work, whatever else was found; UINT64_MAX: there is no plan.
static uint64_t alone(const struct config_sweep *sweep, const struct config_row *row)
{
    struct error error = { 0 }, why = { 0 };
    struct profile *profile = config_profile(&sweep->request, row, &error);
    assert_good(profile, error);
    struct cluster *cluster = config_cluster(&sweep->request, row, config_memory(sweep, row->shard), &error);
    assert_good(cluster, error);
    struct search_shortage shortage;
    struct storage storage = sweep->request.storage;
    storage.tied_apart = row->ranks > 1 && storage_can_tie_apart(profile, storage.optimizer, true);
    const struct search_request search = {
        .profile = profile, .cluster = cluster, .schedule = row->schedule, .ranks = row->ranks, .chunks = row->chunks,
        .micro_batches = row->micro_batches, .storage = storage, .limits.budget = 500000, .found.shortage = &shortage,
    };
    struct plan *plan = plan_search(&search, &why);
    const uint64_t found = plan ? plan->iteration_ns + row->between_ns : UINT64_MAX;
    plan_free(plan);
    cluster_free(cluster);
    profile_free(profile);
    return found;
}

// Of one placement alone, whether the sweep of both has kept it or not: no plan is below what that calls a bound.
static void holds_placed(const struct config_sweep *both, enum config_placement placement)
{
    struct config_request request = both->request;
    request.placements = (struct config_placements){ &placement, 1 };
    struct config_sweep *sweep = run(&request);
    for (size_t i = 0; i < sweep->count; i++)
        assert_true(alone(sweep, &sweep->rows[i]) >= both->lower_bound_ns);
    config_sweep_free(sweep);
}

// Every configuration planned by itself, on nodes of so many devices: none is below what its row, or the sweep, calls a
// bound; none that is said not to fit has a plan; and the best is the best, where the sweep says that nothing is quicker.
static void holds_with(const char *config, uint32_t devices, uint64_t memory_bytes, uint64_t node, uint32_t slow,
                       bool hides)
{
    struct question question;
    ask(&question, config, devices, memory_bytes);
    question.request.how.hidden_experts = hides;
    static const uint32_t sizes[] = { 1, 2 };
    question.request.slow = slow;
    question.request.slow_permille = 600;
    question.request.micro_batches = (struct sweep_list){ sizes, 2 };
    question.device.levels[0].size = node;
    struct config_sweep *sweep = run(&question.request);
    uint64_t best = UINT64_MAX;
    assert_true(sweep->count > 20);
    for (size_t i = 0; i < sweep->count; i++) {
        const struct config_row *row = &sweep->rows[i];
        const uint64_t found = alone(sweep, row);
        assert_true((row->plan != NULL) == row->is_best);
        assert_true(row->outcome != CONFIG_NOT_TRIED);
        if (row->outcome == CONFIG_DOES_NOT_FIT || row->outcome == CONFIG_REFUSED)
            assert_true(found == UINT64_MAX);
        else if (found < row->bound_ns || found < row->lower_bound_ns)
            fail_msg("%s t %u p %u v %u m %u: %llu, but its bounds are %llu and %llu", row->schedule, row->tensor,
                     row->ranks, row->chunks, row->micro_batches, (unsigned long long)found,
                     (unsigned long long)row->bound_ns, (unsigned long long)row->lower_bound_ns);
        best = found < best ? found : best;
    }
    if (best == UINT64_MAX) {
        assert_null(sweep->best);
    } else {
        assert_non_null(sweep->best);
        assert_true(sweep->lower_bound_ns <= best);
        assert_true(sweep->best->iteration_ns <= best + best / 100);
        assert_int_equal(sweep->best->iteration_ns, sweep->best->plan->iteration_ns + sweep->best->between_ns);
    }
    if (sweep->best && node < devices)
        holds_placed(sweep, PLACEMENT_PIPELINE_INSIDE);
    config_sweep_free(sweep);
}

static void holds(const char *config, uint32_t devices, uint64_t memory_bytes, uint64_t node, uint32_t slow)
{
    holds_with(config, devices, memory_bytes, node, slow, false);
}

#define GIB (UINT64_C(1) << 30)

static void nothing_beats_what_it_calls_a_bound(void **state)
{
    (void)state;
    holds(llama, 8, 70 * GIB, 8, 0);
    holds(llama, 8, 8 * GIB, 2, 0);
    holds(mixtral, 8, 30 * GIB, 4, 0);
    holds(tied, 4, 20 * GIB, 8, 0);
    holds(llama, 8, GIB / 2, 8, 0);
}

static void nothing_does_where_devices_are_slow(void **state)
{
    (void)state;
    holds(llama, 8, 12 * GIB, 2, 2);
    holds(tied, 8, 10 * GIB, 4, 3);
}

// Schedules with pairs are in the space if pairs hide something. In the others all that experts send is waited for.
static void nothing_does_where_pairs_hide_messages(void **state)
{
    (void)state;
    holds_with(mixtral, 8, 30 * GIB, 4, 0, true);
    holds_with(mixtral, 8, 70 * GIB, 2, 0, true);
    struct question question;
    ask(&question, mixtral, 8, 70 * GIB);
    question.request.how.hidden_experts = question.request.how.graphs = true;
    struct config_sweep *sweep = run(&question.request);
    double work[2] = { 0, 0 };
    for (size_t i = 0; i < sweep->count; i++) {
        const struct config_row *row = &sweep->rows[i];
        if (row->ranks != 2 || row->expert != 4 || row->tensor > 1 || row->micro_batch > 1 || row->shard)
            continue;
        if (strcmp(row->schedule, "1f1b") == 0)
            work[0] = row->work_ns;
        if (strcmp(row->schedule, "dualpipe") == 0)
            work[1] = row->work_ns;
    }
    assert_true(work[1] > 0 && work[1] < work[0]);
    config_sweep_free(sweep);
}

// With all of their rate they are like the others; the less they have the longer it takes, up to what it takes to leave
// them out, and that is a question of its own.
static void slow_devices_take_part_or_are_left_out(void **state)
{
    (void)state;
    struct question question;
    ask(&question, llama, 16, 0);
    struct config_sweep *all = run(&question.request);
    question.request.without = 2;
    struct config_sweep *without = run(&question.request);
    question.request.without = 0;
    question.request.slow = 2;
    uint64_t last = all->best->iteration_ns;
    for (uint32_t permille = 1000; permille > 100; permille -= 300) {
        question.request.slow_permille = permille;
        struct config_sweep *slow = run(&question.request);
        assert_int_equal(config_left_out_ns(slow), without->best->iteration_ns);
        if (permille == 1000)
            assert_int_equal(slow->best->iteration_ns, last);
        assert_true(slow->best->iteration_ns + last / 50 >= last);  // a plan is within some percent of the best
        assert_true(slow->lower_bound_ns >= all->lower_bound_ns);
        last = slow->best->iteration_ns;
        config_sweep_free(slow);
    }
    assert_true(last > all->best->iteration_ns);
    config_sweep_free(without);
    config_sweep_free(all);
}

static void write_all(const struct config_sweep *sweep, struct text *text)
{
    config_write(sweep, text);
    config_write_csv(sweep, text);
    config_print(sweep, text);
}

static void the_number_of_threads_changes_nothing(void **state)
{
    (void)state;
    struct question question;
    struct text one = { 0 }, three = { 0 };
    ask(&question, llama, 16, 12 * GIB);
    question.request.threads = 1;
    struct config_sweep *alone = run(&question.request);
    question.request.threads = 3;
    struct config_sweep *together = run(&question.request);
    write_all(alone, &one);
    write_all(together, &three);
    assert_string_equal(one.data, three.data);
    text_clear(&one);
    text_clear(&three);
    config_sweep_free(alone);
    config_sweep_free(together);
}

// 6 N and attention, per token: three times what layers count forward, whatever the way to share them out.
static void utilization_is_of_the_models_flops(void **state)
{
    (void)state;
    struct question question;
    ask(&question, llama, 8, 0);
    struct config_sweep *sweep = run(&question.request);
    const struct transformer *model = &question.model;
    const double products = 6 * (double)(transformer_parameters(model) - transformer_embedding_parameters(model));
    const double tokens = 32.0 * 4096, attention = 3 * 2 * 2 * (double)model->layers * 4096 / 2 * 4096;
    const double flops = tokens * (products + attention);
    assert_true(fabs(sweep->model_flops / flops - 1) < 0.01);
    const double peak = (double)rated_device_product(&question.device, "bf16")->gigaflops * 1e9 * 8;
    assert_true(fabs(config_utilization(sweep, 2000000000) - sweep->model_flops / 2 / peak) < 1e-9);
    assert_true(fabs(config_tokens_per_second(sweep, 2000000000) - tokens / 2 / 8) < 1e-3);
    config_sweep_free(sweep);
}

// With 16 less 3 devices no way to share out uses more than 13, nor so few that one more pipeline would fit and divide.
static void devices_can_be_missing(void **state)
{
    (void)state;
    struct question question;
    ask(&question, llama, 16, 0);
    question.request.without = 3;
    question.request.price = 2;
    question.request.watts = 500;
    struct config_sweep *sweep = run(&question.request);
    assert_non_null(sweep->best);
    for (size_t i = 0; i < sweep->count; i++) {
        const struct config_row *row = &sweep->rows[i];
        const uint32_t group = row->tensor * row->context * row->ranks;
        assert_true(group * row->data <= 13);
        assert_int_equal(row->data * row->micro_batch * row->micro_batches, 32);
        for (uint32_t d = row->data + 1; group * d <= 13; d++)
            assert_true(32 % (d * row->micro_batch) != 0);
    }
    const double seconds = 1e9 / (32.0 * 4096) * 0.5;  // of 10^9 tokens at half a second an iteration
    assert_true(fabs(config_price(sweep, 500000000) - 2 * 13 * seconds / 3600) < 1e-6);
    assert_true(fabs(config_energy(sweep, 500000000) - 0.5 * 13 * seconds / 3600) < 1e-6);
    config_sweep_free(sweep);
}

static void what_was_asked_for_is_all_there_is(void **state)
{
    (void)state;
    static const uint32_t tensor[] = { 2 }, ranks[] = { 1, 4 }, sizes[] = { 1 };
    static const enum estimate_shard shards[] = { ESTIMATE_SHARD_OPTIMIZER };
    static const char *const schedules[] = { "1f1b" };
    static const enum config_placement placements[] = { PLACEMENT_PIPELINE_INSIDE };
    struct question question;
    ask(&question, llama, 16, 0);
    question.request.placements = (struct config_placements){ placements, 1 };
    question.request.tensor = (struct sweep_list){ tensor, 1 };
    question.request.ranks = (struct sweep_list){ ranks, 2 };
    question.request.micro_batches = (struct sweep_list){ sizes, 1 };
    question.request.shards = (struct config_shards){ shards, 1 };
    question.request.schedules = schedules;
    question.request.schedule_count = 1;
    struct config_sweep *sweep = run(&question.request);
    assert_int_equal(sweep->count, 2);
    for (size_t i = 0; i < sweep->count; i++) {
        assert_int_equal(sweep->rows[i].tensor, 2);
        assert_int_equal(sweep->rows[i].placement == PLACEMENT_PIPELINE_INSIDE, sweep->rows[i].ranks == 4);
        assert_int_equal(sweep->rows[i].ranks * sweep->rows[i].data, 8);
        assert_int_equal(sweep->rows[i].micro_batches * sweep->rows[i].data, 32);
    }
    config_sweep_free(sweep);
}

static size_t count(const char *text, const char *what)
{
    size_t found = 0;
    for (const char *at = text; (at = strstr(at, what)); at++)
        found++;
    return found;
}

static void a_picture_has_a_dot_for_each_plan(void **state)
{
    (void)state;
    struct question question;
    struct text svg = { 0 }, none = { 0 };
    ask(&question, llama, 8, 0);
    struct config_sweep *sweep = run(&question.request);
    config_draw(sweep, &svg);
    assert_int_equal(count(svg.data, "<circle"), sweep->counts[CONFIG_PLANNED]);
    assert_int_equal(count(svg.data, "<path class=\"stair\""), 1);
    assert_null(strstr(svg.data, "nan"));
    assert_null(strstr(svg.data, "inf"));
    config_sweep_free(sweep);
    ask(&question, llama, 8, GIB / 2);
    sweep = run(&question.request);
    config_draw(sweep, &none);
    assert_int_equal(count(none.data, "<circle"), 0);
    assert_null(strstr(none.data, "inf"));
    config_sweep_free(sweep);
    text_clear(&svg);
    text_clear(&none);
}

static void the_page_shows_what_is_written(void **state)
{
    (void)state;
    struct question question;
    struct text text = { 0 };
    ask(&question, llama, 8, 0);
    question.request.slow = 2;
    question.request.slow_permille = 800;
    struct config_sweep *sweep = run(&question.request);
    config_write(sweep, &text);
    assert_shown_as_written("docs/formats/configs.md", text.data);
    text_clear(&text);
    config_sweep_free(sweep);
}

static void refuses(struct question *question, const char *sentence)
{
    struct error error = { 0 };
    assert_null(config_sweep_run(&question->request, &error));
    assert_error(error, sentence);
}

static void what_cannot_be_is_a_sentence(void **state)
{
    (void)state;
    struct question question;
    static const char *const asynchronous[] = { "pipedream" }, *const unknown[] = { "1f2b" };
    ask(&question, llama, 8, 0);
    question.request.schedules = asynchronous;
    question.request.schedule_count = 1;
    refuses(&question, "pipedream does not flush: its iterations are not of so many sequences");
    question.request.schedules = unknown;
    struct error error = { 0 };
    assert_null(config_sweep_run(&question.request, &error));
    assert_non_null(strstr(error.text, "1f2b"));
    ask(&question, llama, 8, 0);
    question.request.storage.shard = SHARD_OPTIMIZER;
    refuses(&question, "a sweep over configurations chooses what is shared, and has no host");
    ask(&question, llama, 129, 0);
    question.device.levels[1].size = 16;
    refuses(&question, "129 devices are more than the levels of h100-sxm hold (128)");
    ask(&question, llama, 8, 0);
    question.request.slow = 8;
    question.request.slow_permille = 500;
    refuses(&question, "8 of 8 devices are slow, which leaves none; say how fast the device is instead");
    question.request.slow = 1;
    question.request.slow_permille = 1001;
    refuses(&question, "slow devices have 1 to 1000 thousandths of the rate of others, not 1001");
    ask(&question, llama, 8, 0);
    question.model.longest = 0;
    refuses(&question, "the model's file does not say how long a sequence is: say how many tokens (sequence)");
}

// What is asked, and the obstacle that the furthest way to share out meets.
struct obstacle {
    uint32_t devices, tensor, expert, ranks, chunks, micro_batch;
    uint64_t global_batch;
    const char *sentence;
};

static void the_furthest_obstacle_is_told(void **state)
{
    (void)state;
    static const struct obstacle obstacles[] = {
        { 8, 3, 1, 1, 1, 1, 8, "tensor 3 x context 1 does not divide the devices" },
        { 8, 1, 1, 3, 1, 1, 8, "a pipeline has 1 to 8 ranks (blocks, embedding and head), which divide the 8 devices left by"
                               " tensor 1 x context 1; none of those asked for does" },
        { 8, 1, 1, 2, 1, 3, 8, "4 pipelines with micro-batches of 3 have no even share of the sequences, or more than 16384"
                               " micro-batches" },
        { 8, 1, 2, 2, 1, 1, 8, "an expert degree of 2 is for models with experts, and llama has none" },
        { 8, 1, 1, 8, 2, 1, 8, "interleaved has 16 stages on 8 ranks, and the model's blocks, embedding and head are 8" },
        { 8, 1, 1, 4, 2, 1, 4, "a pipeline of 4 ranks has fewer micro-batches (2) than ranks, so that some are always"
                               " idle" },
        { 8, 2, 1, 4, 2, 1, 6, "interleaved takes a multiple of 4 ranks, not 6 micro-batches" },
    };
    static const char *const interleaved[] = { "interleaved" };
    static const uint32_t one = 1;
    for (size_t i = 0; i < sizeof obstacles / sizeof obstacles[0]; i++) {
        const struct obstacle *of = &obstacles[i];
        struct question question;
        ask(&question, llama, of->devices, 0);
        question.request.global_batch = of->global_batch;
        question.request.tensor = (struct sweep_list){ &of->tensor, 1 };
        question.request.context = (struct sweep_list){ &one, 1 };
        question.request.expert = (struct sweep_list){ &of->expert, 1 };
        question.request.ranks = (struct sweep_list){ &of->ranks, 1 };
        question.request.chunks = (struct sweep_list){ &of->chunks, 1 };
        question.request.micro_batches = (struct sweep_list){ &of->micro_batch, 1 };
        question.request.schedules = interleaved;
        question.request.schedule_count = 1;
        char sentence[300];
        snprintf(sentence, sizeof sentence, "no configuration of %u devices takes a batch of %u: %s", of->devices,
                 (unsigned)of->global_batch, of->sentence);
        refuses(&question, sentence);
    }
}

static void it_can_be_ended(void **state)
{
    (void)state;
    static volatile sig_atomic_t yes = 1;
    struct question question;
    ask(&question, llama, 8, 0);
    question.request.interrupted = &yes;
    struct config_sweep *sweep = run(&question.request);
    assert_null(sweep->best);
    assert_string_equal(sweep->stopped, "interrupted");
    assert_int_equal(sweep->counts[CONFIG_NOT_TRIED], sweep->count);
    config_sweep_free(sweep);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_beats_what_it_calls_a_bound),
        cmocka_unit_test(nothing_does_where_devices_are_slow),
        cmocka_unit_test(nothing_does_where_pairs_hide_messages),
        cmocka_unit_test(slow_devices_take_part_or_are_left_out),
        cmocka_unit_test(the_number_of_threads_changes_nothing),
        cmocka_unit_test(utilization_is_of_the_models_flops),
        cmocka_unit_test(devices_can_be_missing),
        cmocka_unit_test(what_was_asked_for_is_all_there_is),
        cmocka_unit_test(a_picture_has_a_dot_for_each_plan),
        cmocka_unit_test(the_page_shows_what_is_written),
        cmocka_unit_test(what_cannot_be_is_a_sentence),
        cmocka_unit_test(the_furthest_obstacle_is_told),
        cmocka_unit_test(it_can_be_ended),
    };
    return cmocka_run_group_tests_name("config_sweep", tests, NULL, NULL);
}
