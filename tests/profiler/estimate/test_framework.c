#include "profiler/estimate/framework.h"

#include "tests/profiler/estimate/estimating.h"

static const char llama[] =
    "{\"model_type\": \"llama\", \"num_hidden_layers\": 2, \"hidden_size\": 4096, \"num_attention_heads\": 32,"
    " \"num_key_value_heads\": 8, \"intermediate_size\": 14336, \"vocab_size\": 32000, \"max_position_embeddings\": 4096}";

static struct estimate_request like(const char *name)
{
    struct error error = { 0 };
    struct estimate_request request = estimate_unsaid();
    request.like = framework_find(name, &error);
    assert_good(request.like, error);
    return request;
}

static void every_framework_says_what_it_is(void **state)
{
    (void)state;
    for (size_t i = 0; frameworks[i].name; i++) {
        struct error error = { 0 };
        assert_ptr_equal(framework_find(frameworks[i].name, &error), &frameworks[i]);
        assert_true(frameworks[i].about[0] && frameworks[i].source[0]);
        assert_true(frameworks[i].bf16.weights > 0 && frameworks[i].fp16.weights > 0);
    }
    struct error error = { 0 };
    assert_null(framework_find("megatorn", &error));
    assert_non_null(strstr(error.text, "\"megatorn\" is none of megatron, "));
    assert_non_null(strstr(error.text, "did you mean megatron?"));
}

static void what_is_said_is_not_the_frameworks(void **state)
{
    (void)state;
    struct estimate_request request = like("torchtitan");
    request.tensor = 2;
    request.loss = LOSS_FUSED;
    request.said = SAID_LOSS;
    struct estimate *made = estimate_on("h100-sxm", llama, request);
    assert_int_equal(made->request.attention, ATTENTION_FLASH);
    assert_int_equal(made->request.overlap, OVERLAP_NOTHING);
    assert_int_equal(made->request.loss, LOSS_FUSED);
    assert_true(made->request.sequence_parallel);
    free(made);
}

// Korthikanti's 18 bytes of bf16, and 16 of fp16; a recipe's 16; all by ZeRO-1 on 4 devices of which this has a share.
static void bytes_of_a_parameter_are_the_frameworks(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct transformer model;
    assert_good(transformer_read(llama, strlen(llama), "config.json", &model, &error), error);
    static const struct {
        const char *name, *dtype;
        unsigned all;
    } rows[] = {
        { "megatron", "bf16", 18 },  { "megatron", "fp16", 16 },  { "nemo", "bf16", 16 },
        { "deepspeed", "fp16", 20 }, { "deepspeed", "bf16", 20 }, { "fsdp", "bf16", 16 },
        { "megatron", "fp32", 16 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct estimate_request request = like(rows[i].name);
        request.dtype = rows[i].dtype;
        const struct framework_states states = framework_states(&model, &request);
        assert_int_equal(states.weights + states.gradients + states.optimizer + states.sums + states.step, rows[i].all);
    }
    struct estimate_request request = like("megatron");
    request.gradient_bytes = 2;
    assert_int_equal(framework_states(&model, &request).gradients, 2);
}

// Megatron-Core has schedules within layers for transformers, and none for models with Mamba.
static void messages_of_hybrids_are_hidden_only_if_they_are_said_to_be(void **state)
{
    (void)state;
    static const char jamba[] = "{\"model_type\": \"jamba\", \"num_hidden_layers\": 8}";
    static const char mixtral[] = "{\"model_type\": \"mixtral\", \"num_hidden_layers\": 8}";
    struct estimate_request request = like("bridge");
    request.sequence = 1024;
    struct estimate *hybrid = estimate_on("h100-sxm", jamba, request);
    struct estimate *other = estimate_on("h100-sxm", mixtral, request);
    request.hidden_experts = true;
    request.said = SAID_HIDDEN_EXPERTS;
    struct estimate *said = estimate_on("h100-sxm", jamba, request);
    assert_false(hybrid->request.hidden_experts);
    assert_true(other->request.hidden_experts && said->request.hidden_experts);
    free(hybrid);
    free(other);
    free(said);
}

static void a_device_without_a_kernel_keeps_scores(void **state)
{
    (void)state;
    struct estimate_request request = like("megatron");
    request.dtype = "fp16";
    struct estimate *made = estimate_on("v100-32", llama, request);
    assert_int_equal(made->request.attention, ATTENTION_PLAIN);
    struct error error = { 0 };
    struct transformer model = made->model;
    struct rated_device device = made->device;
    request.said = SAID_ATTENTION;
    request.attention = ATTENTION_FLASH;
    assert_false(estimate_model(&model, &device, &request, made, &error));
    assert_string_equal(error.text, "v100-32 has no such kernel for attention (flash; it has plain and recomputed)");
    free(made);
}

// torchtitan gathers what products in float8 read as float8; Megatron does not.
static void what_is_gathered_may_be_narrow(void **state)
{
    (void)state;
    double gathered[2];
    for (int i = 0; i < 2; i++) {
        struct estimate_request request = like("torchtitan");
        request.tensor = 8;
        request.products = i == 0 ? NULL : "fp8";
        struct estimate *made = estimate_on("h100-sxm", llama, request);
        gathered[i] = made->parts[PART_MLP].phases[ESTIMATE_W].communication_ns;
        free(made);
    }
    assert_true(gathered[1] < 0.75 * gathered[0]);
}

// Weights within 8 of 32 devices cross no node, and what they hold is a share of 8.
static void shares_may_be_within_a_group(void **state)
{
    (void)state;
    struct estimate_request request = like("fsdp");
    request.data = 32;
    request.shard = ESTIMATE_SHARD_WEIGHTS;
    struct estimate *all = estimate_on("h100-sxm", llama, request);
    request.within = 8;
    struct estimate *near = estimate_on("h100-sxm", llama, request);
    struct profile_layer over_all = { 0 }, over_near = { 0 };
    estimate_numbers(all, PART_MLP, &over_all);
    estimate_numbers(near, PART_MLP, &over_near);
    assert_true(over_near.parameter_bytes >= 4 * over_all.parameter_bytes - 8);
    assert_true(near->parts[PART_MLP].phases[ESTIMATE_F].hidden_ns < all->parts[PART_MLP].phases[ESTIMATE_F].hidden_ns);
    assert_true(all->reduce_ns == 0 && near->reduce_ns > 0);
    free(near);
    free(all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_framework_says_what_it_is),
        cmocka_unit_test(what_is_said_is_not_the_frameworks),
        cmocka_unit_test(bytes_of_a_parameter_are_the_frameworks),
        cmocka_unit_test(messages_of_hybrids_are_hidden_only_if_they_are_said_to_be),
        cmocka_unit_test(a_device_without_a_kernel_keeps_scores),
        cmocka_unit_test(what_is_gathered_may_be_narrow),
        cmocka_unit_test(shares_may_be_within_a_group),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
