#include "profiler/estimate/estimate.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/estimate/kernel_times.h"
#include "tests/document.h"

// GPT-3 of 175 billion parameters, as Korthikanti et al. have it.
static const char gpt3[] = "{\"model_type\": \"gpt2\", \"n_layer\": 96, \"n_embd\": 12288, \"n_head\": 96,"
                           " \"n_positions\": 2048, \"vocab_size\": 51200}";
static const char mixtral[] =
    "{\"model_type\": \"mixtral\", \"num_hidden_layers\": 32, \"hidden_size\": 4096, \"num_attention_heads\": 32,"
    " \"num_key_value_heads\": 8, \"intermediate_size\": 14336, \"vocab_size\": 32000, \"num_local_experts\": 8,"
    " \"num_experts_per_tok\": 2, \"max_position_embeddings\": 4096}";

static const char deepseek[] =
    "{\"model_type\": \"deepseek_v3\", \"num_hidden_layers\": 4, \"hidden_size\": 7168, \"num_attention_heads\": 128,"
    " \"intermediate_size\": 18432, \"vocab_size\": 129280, \"max_position_embeddings\": 4096, \"q_lora_rank\": 1536,"
    " \"kv_lora_rank\": 512, \"qk_nope_head_dim\": 128, \"qk_rope_head_dim\": 64, \"v_head_dim\": 128,"
    " \"n_routed_experts\": 256, \"num_experts_per_tok\": 8, \"moe_intermediate_size\": 2048, \"n_shared_experts\": 1,"
    " \"first_k_dense_replace\": 1}";

static bool try_to_estimate(const char *config, struct estimate_request request, struct estimate *estimate,
                            struct error *error)
{
    struct transformer model;
    struct rated_device device;
    assert_true(transformer_read(config, strlen(config), "config.json", &model, error));
    assert_true(rated_device_load("a100-80", &device, error));
    return estimate_model(&model, &device, &request, estimate, error);
}

static struct estimate *estimate(const char *config, struct estimate_request request)
{
    struct error error = { 0 };
    struct estimate *made = malloc(sizeof *made);
    assert_non_null(made);
    if (!try_to_estimate(config, request, made, &error))
        fail_msg("%s", error.text);
    return made;
}

// What one block keeps: its two inputs, and what its two layers save.
static double kept_by_block(enum attention_how attention, uint64_t tensor, bool sequence_parallel)
{
    struct estimate_request request = estimate_usual();
    request.dtype = "fp16";
    request.attention = attention;
    request.tensor = tensor;
    request.sequence_parallel = sequence_parallel;
    struct estimate *made = estimate(gpt3, request);
    const struct layer_estimate *of = made->parts;
    const uint64_t kept = of[PART_EMBEDDING].output_bytes + of[PART_ATTENTION].saved_bytes
        + of[PART_ATTENTION].output_bytes + of[PART_MLP].saved_bytes;
    free(made);
    return (double)kept;
}

static void activations_are_those_of_korthikanti(void **state)
{
    (void)state;
    const double s = 2048, b = 1, h = 12288, a = 96, t = 8, sbh = s * b * h;
    assert_true(kept_by_block(ATTENTION_PLAIN, 1, false) == sbh * (34 + 5 * a * s / h));
    assert_true(kept_by_block(ATTENTION_PLAIN, 8, false) == sbh * (10 + 24 / t + 5 * a * s / (h * t)));
    assert_true(kept_by_block(ATTENTION_PLAIN, 8, true) == sbh * (34 / t + 5 * a * s / (h * t)));
    assert_true(kept_by_block(ATTENTION_RECOMPUTED, 8, false) == sbh * (10 + 24 / t));
    assert_true(kept_by_block(ATTENTION_RECOMPUTED, 8, true) == sbh * 34 / t);
    // A fused kernel keeps one number of 4 bytes for each row of scores.
    assert_true(kept_by_block(ATTENTION_FUSED, 8, true) == sbh * 34 / t + 4 * s * b * a / t);
}

// Between I and W lie the inputs of a block's products and their outputs' gradients: 32 sbh (Qi et al. 2024,
// arXiv 2401.10241, table 1), and of sequence parallel ones a share.
static void what_waits_for_weights_is_that_of_zero_bubble(void **state)
{
    (void)state;
    const double sbh = 2048.0 * 12288;
    for (uint64_t tensor = 1; tensor <= 8; tensor *= 2) {
        struct estimate_request request = estimate_usual();
        request.attention = ATTENTION_PLAIN;
        request.tensor = tensor;
        request.sequence_parallel = tensor > 1;
        struct estimate *made = estimate(gpt3, request);
        const struct layer_estimate *of = made->parts;
        const uint64_t held = of[PART_ATTENTION].held_for_weight_bytes + of[PART_MLP].held_for_weight_bytes;
        assert_true((double)held == 32 * sbh / (double)tensor);
        free(made);
    }
}

// `what` of a layer is not kept, which are so many bytes, and the backward takes longer by it; all else stays.
static void is_cheaper_to_keep(const char *config, enum layer_part part, enum estimate_recompute what, double bytes)
{
    struct estimate_request request = estimate_usual();
    struct estimate *kept = estimate(config, request);
    request.recompute_tensors = what;
    struct estimate *again = estimate(config, request);
    const struct layer_estimate *of = &again->parts[part], *other = &kept->parts[part];
    assert_true((double)other->saved_bytes - (double)of->saved_bytes == bytes);
    assert_true((double)of->backward_workspace_bytes - (double)other->backward_workspace_bytes == bytes);
    assert_int_equal(of->held_for_weight_bytes, other->held_for_weight_bytes);
    assert_true(phase_estimate_ns(&of->phases[ESTIMATE_F]) == phase_estimate_ns(&other->phases[ESTIMATE_F]));
    assert_true(phase_estimate_ns(&of->phases[ESTIMATE_W]) == phase_estimate_ns(&other->phases[ESTIMATE_W]));
    assert_true(phase_estimate_ns(&of->phases[ESTIMATE_I]) > phase_estimate_ns(&other->phases[ESTIMATE_I]));
    free(kept);
    free(again);
}

static void what_is_computed_again_is_not_kept(void **state)
{
    (void)state;
    const double sbh = 2048.0 * 12288, tokens = 4096;
    is_cheaper_to_keep(gpt3, PART_ATTENTION, RECOMPUTE_NORMS, 2 * sbh);
    is_cheaper_to_keep(gpt3, PART_MLP, RECOMPUTE_NORMS, 2 * sbh);
    is_cheaper_to_keep(gpt3, PART_MLP, RECOMPUTE_ACTIVATIONS, 8 * sbh);
    // Of each token what its experts and the one that all share have between their products.
    is_cheaper_to_keep(deepseek, PART_EXPERTS, RECOMPUTE_ACTIVATIONS, 2 * tokens * 2048 * (8 + 1));
    is_cheaper_to_keep(deepseek, PART_ATTENTION, RECOMPUTE_LATENT, 2 * tokens * 128 * (192 + 192 + 128));
}

// With norms recomputed as well, those of latents are: of queries 1536, and of keys and values 512.
static void norms_of_latents_need_both(void **state)
{
    (void)state;
    const double tokens = 4096, normed = 2 * tokens * (1536 + 512), inputs = 2 * tokens * 7168;
    const double values = 2 * tokens * 128 * (192 + 192 + 128);
    uint64_t saved[2], back[2];
    for (int i = 0; i < 2; i++) {
        struct estimate_request request = estimate_usual();
        request.recompute_tensors = i ? RECOMPUTE_LATENT | RECOMPUTE_NORMS : 0;
        struct estimate *made = estimate(deepseek, request);
        saved[i] = made->parts[PART_ATTENTION].saved_bytes;
        back[i] = made->parts[PART_ATTENTION].backward_workspace_bytes;
        free(made);
    }
    assert_true((double)(saved[0] - saved[1]) == normed + inputs + values);
    assert_true((double)(back[1] - back[0]) == normed + inputs + values);
}

// In 16 bits all are kept as they are. Narrow ones have 8 or 12 bits, and 4 bytes for each 128 of them.
static void narrow_ones_are_kept_in_their_bits(void **state)
{
    (void)state;
    static const struct {
        enum layer_part part;
        unsigned narrow;
        double numbers, bits;
    } rows[] = {
        { PART_EXPERTS, NARROW_EXPERTS, 2.0 * 4096 * 2048 * (8 + 1), 8 },
        { PART_EXPERTS, NARROW_ACTIVATIONS, 2.0 * 4096 * 2048 * (8 + 1), 8 },
        { PART_MLP, NARROW_EXPERTS, 0, 8 },
        { PART_MLP, NARROW_ACTIVATIONS, 2.0 * 4096 * 18432, 8 },
        { PART_ATTENTION, NARROW_ATTENTION, 4096.0 * 128 * 128, 12 },
        { PART_ATTENTION, NARROW_EXPERTS | NARROW_ACTIVATIONS, 0, 8 },
    };
    struct estimate *wide = estimate(deepseek, estimate_usual());
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct estimate_request request = estimate_usual();
        request.narrow = rows[i].narrow;
        struct estimate *made = estimate(deepseek, request);
        const struct layer_estimate *of = &made->parts[rows[i].part], *other = &wide->parts[rows[i].part];
        const double less = rows[i].numbers * (2 - rows[i].bits / 8 - 4.0 / 128);
        assert_true((double)(other->saved_bytes - of->saved_bytes) == less);
        const bool is_slower = of->phases[ESTIMATE_F].passes_ns > other->phases[ESTIMATE_F].passes_ns;
        assert_int_equal(is_slower, rows[i].numbers > 0);
        free(made);
    }
    free(wide);
}

// Only where a token's weight meets an expert's output does the backward read that: 8 experts of 7168 numbers.
static void outputs_of_experts_are_kept_for_weights(void **state)
{
    (void)state;
    uint64_t saved[2];
    for (int inside = 0; inside < 2; inside++) {
        struct estimate_request request = estimate_usual();
        request.weighs_inside = inside;
        struct estimate *made = estimate(deepseek, request);
        saved[inside] = made->parts[PART_EXPERTS].saved_bytes;
        free(made);
    }
    assert_int_equal(saved[0] - saved[1], 2 * 4096 * 8 * 7168);
}

static void what_there_is_not_cannot_be_computed_again(void **state)
{
    (void)state;
    unsigned again;
    struct error error = { 0 };
    assert_true(estimate_recompute_parse("latent,norms", &again, &error));
    assert_int_equal(again, RECOMPUTE_LATENT | RECOMPUTE_NORMS);
    assert_false(estimate_recompute_parse("norms,norm", &again, &error));
    assert_error(error, "\"norm\" is none of norms, activations, latent");
    assert_true(estimate_narrow_parse("attention,experts", &again, &error));
    assert_int_equal(again, NARROW_ATTENTION | NARROW_EXPERTS);
    assert_true(estimate_narrow_parse("none", &again, &error));
    assert_int_equal(again, 0);
    error = (struct error){ 0 };
    assert_false(estimate_narrow_parse("experts,none", &again, &error));
    assert_error(error, "\"none\" is none of experts, activations, attention, or none");
}

// Dropout within attention keeps a mask and what has been dropped: 3 bytes of each score beside softmax's 2.
static void dropout_of_scores_is_apart_from_that_of_sums(void **state)
{
    (void)state;
    uint64_t saved[2];
    for (int drops = 0; drops < 2; drops++) {
        char config[400];
        snprintf(config, sizeof config, "%.*s, \"attention_dropout\": %s}", (int)strlen(mixtral) - 1, mixtral,
                 drops ? "0.1" : "0.0");
        struct estimate_request request = estimate_usual();
        request.attention = ATTENTION_PLAIN;
        struct estimate *made = estimate(config, request);
        saved[drops] = made->parts[PART_ATTENTION].saved_bytes;
        free(made);
    }
    assert_int_equal(saved[1] - saved[0], 3ull * 4096 * 4096 * 32);
}

// Kernels and launches take turns, so that a phase takes what both take, launches there and back; else the longer of the
// two.
static void who_waits_for_each_kernel_takes_both(void **state)
{
    (void)state;
    struct estimate_request request = estimate_usual();
    struct estimate *behind = estimate(gpt3, request);
    request.graphs = true;
    struct estimate *device = estimate(gpt3, request);
    request.graphs = false;
    request.blocking = true;
    struct estimate *turns = estimate(gpt3, request);
    for (int phase = 0; phase < ESTIMATE_PHASES; phase++) {
        const struct phase_estimate *of = &turns->parts[PART_MLP].phases[phase];
        const double alone = phase_estimate_ns(&device->parts[PART_MLP].phases[phase]);
        const double host = of->launches * (double)turns->device.host_ns;
        assert_true(fabs(phase_estimate_ns(of) - alone - 2 * host) < 1);
        assert_true(fabs(phase_estimate_ns(&behind->parts[PART_MLP].phases[phase]) - fmax(alone, host)) < 1);
    }
    free(behind);
    free(device);
    free(turns);
}

// Bytes of each logit: Megatron's are widened and gone (4 kept, 2 besides); PyTorch has its logits, what was widened and
// the logarithms in the forward, and the logarithms with two gradients in the backward; one kernel has no copy.
static void logits_are_there_as_often_as_the_loss_has_them(void **state)
{
    (void)state;
    static const struct {
        uint64_t saved, forward, backward;
    } of_each[] = { [LOSS_IN_PLACE] = { 4, 2, 2 }, [LOSS_PLAIN] = { 4, 6, 8 }, [LOSS_FUSED] = { 2, 0, 0 } };
    const uint64_t logits = 2048 * 51200, normed = 2 * 2048 * 12288;
    double passes = INFINITY;
    for (int how = LOSS_IN_PLACE; how <= LOSS_FUSED; how++) {
        struct estimate_request request = estimate_usual();
        request.loss = (enum loss_how)how;
        struct estimate *made = estimate(gpt3, request);
        const struct layer_estimate *head = &made->parts[PART_HEAD];
        assert_int_equal(head->saved_bytes, of_each[how].saved * logits + normed);
        assert_int_equal(head->workspace_bytes, of_each[how].forward * logits);
        assert_int_equal(head->backward_workspace_bytes, of_each[how].backward * logits);
        assert_true(head->phases[ESTIMATE_F].passes_ns <= passes);
        passes = head->phases[ESTIMATE_F].passes_ns;
        free(made);
    }
}

static void flops_are_those_of_the_formula(void **state)
{
    (void)state;
    struct estimate_request request = estimate_usual();
    request.dtype = "fp16";
    request.attention = ATTENTION_PLAIN;
    struct estimate *made = estimate(gpt3, request);
    const double s = 2048, h = 12288;
    const double flops = (double)(made->parts[PART_ATTENTION].flops + made->parts[PART_MLP].flops);
    assert_true(flops == 24 * s * h * h + 4 * s * s * h);
    free(made);
}

static void shares_of_all_devices_are_the_whole(void **state)
{
    (void)state;
    for (uint64_t tensor = 1; tensor <= 8; tensor *= 2)
        for (uint64_t expert = 1; expert <= tensor; expert *= 2) {
            struct estimate_request request = estimate_usual();
            request.tensor = tensor;
            request.expert = expert;
            struct estimate *made = estimate(mixtral, request);
            const struct layer_estimate *experts = &made->parts[PART_EXPERTS];
            assert_int_equal(experts->expert_parameters * expert, transformer_experts_parameters(&made->model));
            const uint64_t norm = made->model.hidden;
            const uint64_t whole = transformer_attention_parameters(&made->model) - norm;
            assert_int_equal((made->parts[PART_ATTENTION].parameters - norm) * tensor, whole);
            free(made);
        }
}

static void more_devices_take_less_each_and_talk_more(void **state)
{
    (void)state;
    double products = INFINITY, messages = -1;
    for (uint64_t tensor = 1; tensor <= 8; tensor *= 2) {
        struct estimate_request request = estimate_usual();
        request.tensor = tensor;
        request.overlap = OVERLAP_NOTHING;
        struct estimate *made = estimate(gpt3, request);
        const struct phase_estimate *forward = &made->parts[PART_MLP].phases[ESTIMATE_F];
        assert_true(forward->products_ns < products && forward->communication_ns > messages);
        products = forward->products_ns;
        messages = forward->communication_ns;
        free(made);
    }
}

static void the_profile_is_one_that_others_read(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct estimate *made = estimate(gpt3, estimate_usual());
    struct profile *profile = estimate_profile(made, &error);
    assert_good(profile, error);
    struct text text = { 0 };
    profile_write(profile, &text);
    struct profile *again = profile_read(text.data, text.length, "again", &error);
    assert_good(again, error);
    assert_string_equal(again->hash, profile->hash);
    assert_int_equal(again->layer_count, 2 * 96 + 2);
    assert_int_equal(again->source.how, PROFILE_ESTIMATED);
    assert_int_equal(again->one_owner_count, 1);
    for (size_t i = 0; i < again->layer_count; i++) {
        const struct spread *spread = &again->layers[i].spread[PHASE_FORWARD];
        assert_true(again->layers[i].has_spread[PHASE_FORWARD]);
        assert_int_equal(spread->median_ns, again->layers[i].forward_ns);
        assert_true(spread->min_ns < spread->median_ns && spread->median_ns < spread->p95_ns);
    }
    uint64_t bytes = 0;
    for (size_t i = 0; i < again->layer_count; i++)
        bytes += again->layers[i].parameter_bytes;
    assert_int_equal(bytes, 2 * transformer_parameters(&made->model));
    text_clear(&text);
    profile_free(again);
    profile_free(profile);
    free(made);
}

// 96 blocks over 8 x 1 devices with the same parameters: an eighth of the states is on each, or of the weights.
static void what_is_shared_is_counted_once(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct estimate_request request = estimate_usual();
    request.data = 8;
    request.whole_blocks = true;
    for (request.shard = ESTIMATE_SHARD_NONE; request.shard <= ESTIMATE_SHARD_WEIGHTS; request.shard++) {
        struct estimate *made = estimate(gpt3, request);
        struct profile *profile = estimate_profile(made, &error);
        assert_good(profile, error);
        uint64_t weights = 0, kept = 0;
        for (size_t i = 0; i < profile->layer_count; i++) {
            weights += profile->layers[i].parameter_bytes;
            kept += profile->layers[i].parameter_bytes - profile->layers[i].states_elsewhere_bytes;
        }
        const uint64_t all = 2 * transformer_parameters(&made->model), layers = profile->layer_count;
        const bool is_weights = request.shard == ESTIMATE_SHARD_WEIGHTS, is_shared = request.shard != ESTIMATE_SHARD_NONE;
        assert_in_range(weights, is_weights ? all / 8 : all, is_weights ? all / 8 + 2 * layers : all);
        assert_in_range(kept, is_shared ? all / 8 : all, is_shared ? all / 8 + 2 * layers : all);
        assert_false(profile_can_cut_after(profile, 1));
        assert_true(profile_can_cut_after(profile, 2));
        profile_free(profile);
        free(made);
    }
}

static void the_page_shows_what_is_written(void **state)
{
    (void)state;
    struct text text = { 0 };
    struct estimate *made = estimate(gpt3, estimate_usual());
    estimate_write(made, &text);
    assert_shown_as_written("docs/formats/estimate.md", text.data);
    text_clear(&text);
    free(made);
}

static void refuses(const char *config, struct estimate_request request, const char *sentence)
{
    struct error error = { 0 };
    struct estimate made;
    assert_false(try_to_estimate(config, request, &made, &error));
    assert_string_equal(error.text, sentence);
}

static double reduce_of(uint64_t context, uint64_t data, uint64_t apart, double *parameters)
{
    struct estimate_request request = estimate_usual();
    request.tensor = 2;
    request.context = context;
    request.data = data;
    request.inner_ranks = apart;
    struct estimate *made = estimate(gpt3, request);
    const double reduce = made->reduce_ns;
    *parameters = 0;
    for (int i = 0; i < LAYER_PARTS; i++)
        *parameters += (double)made->counts[i] * (double)made->parts[i].parameters;
    free(made);
    return reduce;
}

// With the ranks of a pipeline between, devices that hold the same are in other nodes: 2 x 4 devices are a node, of 2 x
// (4) x 4 there is one in each of four, and of 2 x 2 x (2) x 4 there are two.
static void ranks_between_move_a_data_group_apart(void **state)
{
    (void)state;
    struct rated_device device;
    struct error error = { 0 };
    double parameters;
    assert_good(rated_device_load("a100-80", &device, &error), error);
    const double beside = reduce_of(1, 4, 1, &parameters), apart = reduce_of(1, 4, 4, &parameters);
    assert_true(beside == collective_ns(&device, ALL_REDUCE, 4 * parameters, (struct group){ 4, 2, 1, 1 }));
    assert_true(apart == collective_ns(&device, ALL_REDUCE, 4 * parameters, (struct group){ 4, 8, 1, 1 }));
    assert_true(apart > 2 * beside);
    const double pairs = reduce_of(2, 4, 2, &parameters);
    assert_true(pairs == collective_ns(&device, ALL_REDUCE, 4 * parameters, (struct group){ 2, 2, 4, 8 }));
    assert_true(pairs < collective_ns(&device, ALL_REDUCE, 4 * parameters, (struct group){ 8, 8, 1, 1 }));
}

static void what_cannot_be_is_refused(void **state)
{
    (void)state;
    struct estimate_request request = estimate_usual();
    request.tensor = 7;
    refuses(gpt3, request, "the tensor degree of 7 does not divide the heads (96)");
    request = estimate_usual();
    request.context = 3;
    refuses(gpt3, request, "the context degree of 3 does not divide the sequence (2048)");
    request = estimate_usual();
    request.sequence = 2049;
    refuses(gpt3, request, "a sequence of 2049 tokens is longer than the 2048 positions that gpt2 learns: take at most so"
            " many, or a file with more of them (n_positions)");
    request = estimate_usual();
    request.expert = 8;
    refuses(gpt3, request, "an expert degree of 8 is for models with experts, and gpt2 has none");
    refuses(mixtral, request,
            "the expert degree of 8 does not divide the devices of a stage, tensor x context x data of them (1)");
    request.inner_ranks = request.tensor = 2;
    request.data = 4;
    refuses(mixtral, request,
            "the expert degree of 8 does not divide the devices of a stage of one pipeline, tensor x context of them (2)");
    request = estimate_usual();
    request.recompute_tensors = RECOMPUTE_LATENT;
    refuses(gpt3, request, "latent is for attention that is, and that of gpt2 is not");
    request.recompute_tensors = 0;
    request.products = "fp8";
    refuses(gpt3, request, "a100-80 has no products of fp8 (it has fp16, bf16, fp32, tf32)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(activations_are_those_of_korthikanti),
        cmocka_unit_test(what_waits_for_weights_is_that_of_zero_bubble),
        cmocka_unit_test(what_is_computed_again_is_not_kept),
        cmocka_unit_test(norms_of_latents_need_both),
        cmocka_unit_test(narrow_ones_are_kept_in_their_bits),
        cmocka_unit_test(outputs_of_experts_are_kept_for_weights),
        cmocka_unit_test(what_there_is_not_cannot_be_computed_again),
        cmocka_unit_test(dropout_of_scores_is_apart_from_that_of_sums),
        cmocka_unit_test(who_waits_for_each_kernel_takes_both),
        cmocka_unit_test(logits_are_there_as_often_as_the_loss_has_them),
        cmocka_unit_test(flops_are_those_of_the_formula),
        cmocka_unit_test(shares_of_all_devices_are_the_whole),
        cmocka_unit_test(more_devices_take_less_each_and_talk_more),
        cmocka_unit_test(what_is_shared_is_counted_once),
        cmocka_unit_test(the_page_shows_what_is_written),
        cmocka_unit_test(the_profile_is_one_that_others_read),
        cmocka_unit_test(ranks_between_move_a_data_group_apart),
        cmocka_unit_test(what_cannot_be_is_refused),
    };
    return cmocka_run_group_tests_name("estimate", tests, NULL, NULL);
}
