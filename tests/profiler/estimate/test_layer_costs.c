#include "profiler/estimate/layer_costs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/profiler/estimate/estimating.h"

static const char mixtral[] =
    "{\"model_type\": \"mixtral\", \"num_hidden_layers\": 32, \"hidden_size\": 4096, \"num_attention_heads\": 32,"
    " \"num_key_value_heads\": 8, \"intermediate_size\": 14336, \"vocab_size\": 32000, \"num_local_experts\": 8,"
    " \"num_experts_per_tok\": 2, \"max_position_embeddings\": 4096}";

// Of GPT-OSS, with the types of its layers open.
#define OSS                                                                                                       \
    "{\"model_type\": \"gpt_oss\", \"num_hidden_layers\": 4, \"hidden_size\": 2880, \"num_attention_heads\": 64,"     \
    " \"num_key_value_heads\": 8, \"head_dim\": 64, \"intermediate_size\": 2880, \"vocab_size\": 201088,"              \
    " \"num_local_experts\": 32, \"num_experts_per_tok\": 4, \"max_position_embeddings\": 4096, \"layer_types\": "

static struct estimate *estimate(const char *config, struct estimate_request request)
{
    return estimate_on("a100-80", config, request);
}

// --- layers that see a window, or a chunk --------------------------------------

static struct profile *profile_of(const char *config, struct estimate_request request, struct estimate **made)
{
    struct error error = { 0 };
    *made = estimate(config, request);
    struct profile *profile = estimate_profile(*made, &error);
    assert_good(profile, error);
    return profile;
}

// A layer of a model that has both kinds is that of a model that has its kind alone.
static void layers_are_those_of_models_of_one_kind(void **state)
{
    (void)state;
    static const char types[] = "FSSF";
    struct estimate_request request = estimate_usual();
    request.context = 2;
    struct estimate *made[3];
    struct profile *mixed = profile_of(OSS "[\"full_attention\", \"sliding_attention\", \"sliding_attention\","
                                           " \"full_attention\"]}", request, &made[0]);
    struct profile *full = profile_of(OSS "[\"full_attention\", \"full_attention\", \"full_attention\","
                                          " \"full_attention\"]}", request, &made[1]);
    struct profile *windowed = profile_of(OSS "[\"sliding_attention\", \"sliding_attention\", \"sliding_attention\","
                                              " \"sliding_attention\"]}", request, &made[2]);
    for (size_t i = 0; i < mixed->layer_count; i++) {
        const bool is_windowed = i % 2 == 1 && types[i / 2] == 'S';
        const struct profile_layer *layer = &mixed->layers[i], *twin = &(is_windowed ? windowed : full)->layers[i];
        assert_string_equal(layer->name, twin->name);
        assert_string_equal(layer->kind, twin->kind);
        assert_int_equal(layer->forward_ns, twin->forward_ns);
        assert_int_equal(layer->backward_ns, twin->backward_ns);
        assert_int_equal(layer->saved_bytes, twin->saved_bytes);
        assert_int_equal(layer->flops, twin->flops);
    }
    const double pairs = 4096.0 / 2 * 128 * (1 - 128.0 / 4096 / 2), all = 4096.0 / 2 * 2048;
    assert_true(full->layers[3].flops - windowed->layers[3].flops == (uint64_t)(2 * (all - pairs) * 64 * 128));
    assert_true(windowed->layers[3].forward_ns < full->layers[3].forward_ns);
    assert_int_equal(made[0]->counts[PART_ATTENTION], 2);
    assert_int_equal(made[0]->counts[PART_WINDOWED], 2);
    assert_int_equal(made[2]->counts[PART_ATTENTION], 4);
    uint64_t bytes = 0;
    for (size_t i = 0; i < mixed->layer_count; i++)
        bytes += mixed->layers[i].parameter_bytes;
    assert_int_equal(bytes, 2 * transformer_parameters(&made[0]->model));
    profile_free(mixed);
    profile_free(full);
    profile_free(windowed);
    for (int i = 0; i < 3; i++)
        free(made[i]);
}

// Each token sees what came before in its chunk: added up one token after the other.
static void chunks_are_seen_token_by_token(void **state)
{
    (void)state;
    static const char llama4[] =
        "{\"model_type\": \"llama4_text\", \"num_hidden_layers\": 4, \"hidden_size\": 512, \"num_attention_heads\": 4,"
        " \"intermediate_size\": 512, \"intermediate_size_mlp\": 1024, \"vocab_size\": 1000, \"num_local_experts\": 2,"
        " \"num_experts_per_tok\": 1, \"attention_chunk_size\": 1024}";
    static const uint64_t sequences[] = { 512, 1024, 1536, 2048, 2560 };
    for (size_t i = 0; i < sizeof sequences / sizeof sequences[0]; i++) {
        struct estimate_request request = estimate_usual();
        request.sequence = sequences[i];
        struct estimate *made = estimate(llama4, request);
        uint64_t pairs = 0, all = 0;
        for (uint64_t token = 0; token < request.sequence; token++) {
            pairs += 2 * (token % 1024) + 1;  // of the diagonal half, as of all
            all += 2 * token + 1;
        }
        const uint64_t products = made->parts[PART_ATTENTION].flops - 2 * 512 * all;
        assert_int_equal(made->parts[PART_WINDOWED].flops, products + 2 * 512 * pairs);
        assert_int_equal(made->counts[PART_WINDOWED], 3);
        free(made);
    }
}

// --- what families have besides --------------------------------------------------

// Of 4096 x 4 tokens' outputs by 32 experts, in bf16 with sums in fp32; beside them the router's and the ups'.
static void biases_of_experts_take_their_passes(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct rated_device device;
    struct estimate plain, biased;
    struct transformer model;
    struct estimate_request request = estimate_usual();
    request.graphs = true;
    assert_good(rated_device_load("a100-80", &device, &error), error);
    assert_good(transformer_read(OSS "null}", strlen(OSS "null}"), "config.json", &model, &error), error);
    assert_good(estimate_model(&model, &device, &request, &biased, &error), error);
    model.biased_experts = false;
    assert_good(estimate_model(&model, &device, &request, &plain, &error), error);
    const double all = 4096 * 4 * 2880, one = all / 32, tokens = 4096;
    const double forward = 32 * (pass_ns(&device, 4 * one) + pass_ns(&device, 10 * one)) + pass_ns(&device, 8 * all)
        + pass_ns(&device, 6 * all);
    const double input = 32 * (pass_ns(&device, 6 * one) + pass_ns(&device, 8 * one) + pass_ns(&device, 4 * one))
        + pass_ns(&device, 6 * all) + pass_ns(&device, 4 * all);
    const double weight = 32 * (pass_ns(&device, 8 * one) + pass_ns(&device, 4 * one))
        + pass_ns(&device, 2 * tokens * 32) + pass_ns(&device, 2 * 2 * all);
    const double passes[] = { forward, input, weight };
    for (int i = 0; i < ESTIMATE_PHASES; i++) {
        const double more = phase_estimate_ns(&biased.parts[PART_EXPERTS].phases[i])
            - phase_estimate_ns(&plain.parts[PART_EXPERTS].phases[i]);
        assert_true(fabs(more - passes[i]) < 1);
        assert_true(phase_estimate_ns(&biased.parts[PART_ATTENTION].phases[i])
                    == phase_estimate_ns(&plain.parts[PART_ATTENTION].phases[i]));
    }
    assert_int_equal(biased.parts[PART_EXPERTS].parameters - plain.parts[PART_EXPERTS].parameters,
                     32 * (2 * 2880 + 2880) + 32);
}

// Of 4096 tokens: a norm more of each layer, whose input waits; logits of 1000 words that tanh keeps between bounds.
static void norms_and_caps_of_gemma_take_their_passes(void **state)
{
    (void)state;
    static const char config[] =
        "{\"model_type\": \"gemma2\", \"num_hidden_layers\": 4, \"hidden_size\": 2048, \"num_attention_heads\": 8,"
        " \"num_key_value_heads\": 4, \"intermediate_size\": 8192, \"vocab_size\": 1000,"
        " \"final_logit_softcapping\": 30.0}";
    struct error error = { 0 };
    struct rated_device device;
    struct estimate plain, whole;
    struct transformer model;
    struct estimate_request request = estimate_usual();
    request.graphs = true;
    request.sequence = 4096;
    assert_good(rated_device_load("a100-80", &device, &error), error);
    assert_good(transformer_read(config, strlen(config), "config.json", &model, &error), error);
    assert_good(estimate_model(&model, &device, &request, &whole, &error), error);
    model.norms_twice = model.caps_logits = false;
    assert_good(estimate_model(&model, &device, &request, &plain, &error), error);
    const double bytes = 2.0 * 4096 * 2048, logits = 2.0 * 4096 * 1000;
    const double norm[] = { pass_ns(&device, 2 * bytes), pass_ns(&device, 3 * bytes), 0 };
    const double cap[] = { 3 * pass_ns(&device, 2 * logits),
                           pass_ns(&device, 3 * logits) + 2 * pass_ns(&device, 2 * logits), 0 };
    for (int part = PART_ATTENTION; part <= PART_HEAD; part++) {
        const struct layer_estimate *one = &whole.parts[part], *other = &plain.parts[part];
        const bool is_head = part == PART_HEAD;
        if (part == PART_PREDICTED || part == PART_RECURRENT || whole.counts[part] == 0)
            continue;
        for (int i = 0; i < ESTIMATE_PHASES && part != PART_EXPERTS; i++) {
            const double more = phase_estimate_ns(&one->phases[i]) - phase_estimate_ns(&other->phases[i]);
            assert_true(fabs(more - (is_head ? cap : norm)[i]) < 1);
        }
        if (part != PART_EXPERTS)
            assert_int_equal(one->saved_bytes - other->saved_bytes, (uint64_t)(is_head ? logits : bytes));
        assert_int_equal(one->parameters - other->parameters, is_head || part == PART_EXPERTS ? 0 : 2048);
    }
}

#define LATENT                                                                                              \
    "\"num_hidden_layers\": 4, \"hidden_size\": 2048, \"num_attention_heads\": 16, \"intermediate_size\": 4096," \
    " \"vocab_size\": 1000, \"q_lora_rank\": 512, \"kv_lora_rank\": 256, \"qk_nope_head_dim\": 128,"           \
    " \"qk_rope_head_dim\": 64, \"v_head_dim\": 128, \"n_routed_experts\": 8, \"num_experts_per_tok\": 2,"       \
    " \"moe_intermediate_size\": 512"

// The first 1024 of 4096 tokens attend to all before them, and each of the others to 1024 that the indexer has chosen.
static void an_indexer_scores_all_tokens_and_attention_reads_the_best(void **state)
{
    (void)state;
    struct estimate_request request = estimate_usual();
    request.sequence = 4096;
    struct estimate *all = estimate_on("h100-sxm", "{\"model_type\": \"deepseek_v3\", " LATENT "}", request);
    struct estimate *best = estimate_on("h100-sxm", "{\"model_type\": \"deepseek_v32\", \"index_n_heads\": 8,"
                                        " \"index_head_dim\": 64, \"index_topk\": 1024, " LATENT "}", request);
    const uint64_t tokens = 4096, products = 512 * 8 * 64 + 2048 * (64 + 8), size = 16 * (192 + 128);
    const uint64_t pairs = tokens * tokens / 2, seen = tokens * 1024 - 1024 * 1024 / 2;
    const struct layer_estimate *one = &best->parts[PART_ATTENTION], *other = &all->parts[PART_ATTENTION];
    assert_int_equal(one->parameters - other->parameters, products + 2 * 64);
    assert_int_equal(one->flops + 2 * (pairs - seen) * size - other->flops,
                     2 * tokens * products + 2 * pairs * 8 * 64);
    assert_int_equal(one->saved_bytes - other->saved_bytes, 2 * tokens * (8 * 64 + 64 + 8) + 4 * tokens * 1024);
    free(all);
    free(best);
}

// Scores are of all pairs, twice those of a decoder. A product is in front of the head's table, or of patches.
static void encoders_attend_to_all_tokens(void **state)
{
    (void)state;
    const uint64_t tokens = 512, hidden = 768, patches = 197, pictures = 2;
    struct estimate_request request = estimate_usual();
    static const char encoder[] = "{\"model_type\": \"bert\", \"num_hidden_layers\": 2}";
    struct estimate *bert = estimate_on("h100-sxm", encoder, request);
    assert_int_equal(bert->parts[PART_ATTENTION].flops, 8 * tokens * hidden * hidden + 4 * tokens * tokens * hidden);
    assert_int_equal(bert->parts[PART_HEAD].flops, 2 * tokens * hidden * (hidden + 30522));
    request.micro_batch = pictures;
    struct estimate *vit = estimate_on("h100-sxm", "{\"model_type\": \"vit\", \"num_hidden_layers\": 2}", request);
    assert_int_equal(vit->parts[PART_EMBEDDING].flops, 2 * pictures * patches * 16 * 16 * 3 * hidden);
    assert_int_equal(vit->parts[PART_HEAD].flops, 2 * pictures * hidden * 2);
    free(bert);
    free(vit);
}

// One more layer behind the blocks: a block as the last, a product of twice the width, and the head once more.
static void what_predicts_a_token_further_on_is_a_layer(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct rated_device device;
    struct estimate plain, further;
    struct transformer model;
    struct estimate_request request = estimate_usual();
    request.graphs = true;
    assert_good(rated_device_load("a100-80", &device, &error), error);
    assert_good(transformer_read(OSS "null}", strlen(OSS "null}"), "config.json", &model, &error), error);
    model.biased_experts = false;
    assert_good(estimate_model(&model, &device, &request, &plain, &error), error);
    const uint64_t parameters = transformer_parameters(&model);
    model.predicted = 1;
    assert_good(estimate_model(&model, &device, &request, &further, &error), error);
    const uint64_t hidden = 2880, numbers = 4096 * hidden;
    const struct layer_estimate *layer = &further.parts[PART_PREDICTED], *last[] = {
        &plain.parts[estimate_attention_part(&model, model.layers - 1)],
        &plain.parts[estimate_rest_part(&model, model.layers - 1)] };
    assert_int_equal(further.counts[PART_PREDICTED], 1);
    assert_int_equal(estimate_layers(&model), 2 * model.layers + 3);
    assert_int_equal(layer->parameters,
                     last[0]->parameters + last[1]->parameters + 3 * hidden + 2 * hidden * hidden);
    assert_int_equal(transformer_parameters(&model), parameters + layer->parameters);
    assert_int_equal(layer->flops, last[0]->flops + last[1]->flops + 2 * 4096 * 2 * hidden * hidden);
    assert_int_equal(layer->output_bytes, 2 * 2 * numbers);  // what the blocks gave goes on, too
    assert_int_equal(layer->saved_bytes, last[0]->saved_bytes + last[1]->saved_bytes + 4 * 2 * numbers);
    const struct layer_estimate *head = &further.parts[PART_HEAD], *once = &plain.parts[PART_HEAD];
    assert_int_equal(head->flops, 2 * once->flops);
    assert_int_equal(head->saved_bytes, 2 * once->saved_bytes);
    assert_int_equal(head->parameters, once->parameters);
    for (int i = 0; i < ESTIMATE_PHASES; i++)
        assert_true(fabs(phase_estimate_ns(&head->phases[i]) - 2 * phase_estimate_ns(&once->phases[i])) < 1);
    request.without_mtp = true;
    assert_good(estimate_model(&model, &device, &request, &further, &error), error);
    assert_memory_equal(further.parts, plain.parts, sizeof plain.parts);
}

// But for `alike`, which are on all of them.
static void is_shared(const char *config, uint64_t tensor, uint64_t alike)
{
    struct estimate_request request = estimate_usual();
    request.tensor = tensor;
    struct estimate *made = estimate(config, request);
    const uint64_t whole = transformer_attention_parameters(&made->model) - alike;
    assert_int_equal((made->parts[PART_ATTENTION].parameters - alike) * tensor, whole);
    free(made);
}

static void attention_is_shared_but_for_norms_and_output_biases(void **state)
{
    (void)state;
    static const char olmo2[] =
        "{\"model_type\": \"olmo2\", \"num_hidden_layers\": 4, \"hidden_size\": 512, \"num_attention_heads\": 8,"
        " \"num_key_value_heads\": 8, \"intermediate_size\": 1024, \"vocab_size\": 1000, \"max_position_embeddings\": 4096}";
    for (uint64_t tensor = 1; tensor <= 8; tensor *= 2) {
        is_shared(mixtral, tensor, 4096);
        is_shared(OSS "null}", tensor, 2 * 2880);
        is_shared(olmo2, tensor, 512);
    }
}

// --- encoder and decoder ---------------------------------------------------------

// A decoder's attention is its own and one to the encoder's output, which all layers behind it pass on. Other layers
// are those of an encoder, and of a decoder alone.
static void a_decoder_attends_to_its_encoder(void **state)
{
    (void)state;
    static const char t5[] = "{\"model_type\": \"t5\", \"num_layers\": 3, \"num_decoder_layers\": 2, \"d_model\": 512,"
                             " \"d_kv\": 64, \"num_heads\": 8, \"d_ff\": 2048, \"vocab_size\": 1000,"
                             " \"dropout_rate\": 0}";
    struct estimate_request request = estimate_usual();
    request.sequence = 1024;
    request.graphs = true;
    struct estimate *made = estimate_on("h100-sxm", t5, request);
    const struct transformer *model = &made->model;
    static const enum layer_part parts[] = {
        PART_EMBEDDING, PART_ENCODER, PART_ENCODER_MLP, PART_ENCODER, PART_ENCODER_MLP, PART_ENCODER, PART_ENCODER_MLP,
        PART_CROSSING, PART_ATTENTION, PART_MLP, PART_ATTENTION, PART_MLP, PART_HEAD,
    };
    assert_int_equal(estimate_layers(model), sizeof parts / sizeof parts[0]);
    for (size_t l = 0; l < estimate_layers(model); l++)
        assert_int_equal(estimate_part(model, l), parts[l]);
    const uint64_t numbers = 1024 * 512, products = 4 * 2 * numbers * 512, scores = 4 * 1024 * numbers;
    const struct layer_estimate *encoder = &made->parts[PART_ENCODER], *decoder = &made->parts[PART_ATTENTION];
    assert_int_equal(encoder->flops, products + scores);
    assert_int_equal(decoder->flops, 2 * products + scores + scores / 2);
    assert_int_equal(decoder->parameters, 2 * encoder->parameters);
    assert_int_equal(encoder->output_bytes, 2 * numbers);
    assert_int_equal(made->parts[PART_ENCODER_MLP].output_bytes, 2 * numbers);
    assert_int_equal(made->parts[PART_CROSSING].output_bytes, 4 * numbers);
    assert_int_equal(decoder->output_bytes, 4 * numbers);
    assert_int_equal(made->parts[PART_MLP].output_bytes, 4 * numbers);
    // Twice as much is kept, and what the second attention reads. What is passed on is kept once, in front of them all.
    assert_int_equal(decoder->saved_bytes + decoder->output_bytes,
                     2 * (encoder->saved_bytes + encoder->output_bytes));
    assert_int_equal(made->parts[PART_MLP].saved_bytes + made->parts[PART_MLP].output_bytes,
                     made->parts[PART_ENCODER_MLP].saved_bytes + made->parts[PART_ENCODER_MLP].output_bytes);
    assert_true(decoder->phases[ESTIMATE_F].attention_ns > 1.3 * encoder->phases[ESTIMATE_F].attention_ns);
    free(made);
}

// --- pairs -----------------------------------------------------------------------

static double all_ns(const struct layer_estimate *layer)
{
    double ns = 0;
    for (int i = 0; i < ESTIMATE_PHASES; i++)
        ns += phase_estimate_ns(&layer->phases[i]);
    return ns;
}

// A block of a forward and a backward takes as long as its work, slowed by what sends, or as its messages.
static void pairs_hide_what_experts_send(void **state)
{
    (void)state;
    static const char config[] = "{\"model_type\": \"deepseek_v3\", " LATENT "}";
    for (int fast = 0; fast < 2; fast++) {
        struct estimate_request request = estimate_usual();
        request.sequence = 4096;
        request.expert = request.data = 8;
        request.graphs = true;
        struct estimate *open = estimate_on(fast ? "h100-sxm" : "a100-80", config, request);
        struct rated_device device = open->device;
        for (size_t l = 0; l < device.level_count && !fast; l++)
            device.levels[l].bytes_per_second /= 100;
        request.hidden_experts = true;
        struct estimate *paired = malloc(sizeof *paired), *alone = malloc(sizeof *alone);
        struct error error = { 0 };
        assert_true(paired && alone);
        assert_true(estimate_model(&open->model, &device, &request, paired, &error));
        request.hidden_experts = false;
        assert_true(estimate_model(&open->model, &device, &request, alone, &error));
        const struct layer_estimate *experts = &alone->parts[PART_EXPERTS], *before = &alone->parts[PART_ATTENTION];
        const double sent = experts->phases[ESTIMATE_F].dispatch_ns + experts->phases[ESTIMATE_I].dispatch_ns;
        const double work = all_ns(experts) + all_ns(before) - sent;
        double bound = 0;  // by multiprocessors
        for (int i = 0; i < ESTIMATE_PHASES; i++)
            bound += experts->phases[i].products_ns + experts->phases[i].attention_ns + before->phases[i].products_ns
                + before->phases[i].attention_ns;
        const double slowed = work + sent * 20 / (double)device.multiprocessors * bound / work;
        const double pair = all_ns(&paired->parts[PART_EXPERTS]) + all_ns(&paired->parts[PART_ATTENTION]);
        assert_true(fabs(pair - fmax(sent, slowed)) < 1e-6 * pair);
        assert_true(fast ? sent < slowed : sent > slowed);
        for (int i = ESTIMATE_F; i <= ESTIMATE_I; i++) {
            const struct phase_estimate *phase = &paired->parts[PART_EXPERTS].phases[i];
            assert_true(fabs(phase_estimate_ns(phase) + phase->paired_ns - phase_estimate_ns(&experts->phases[i])) < 1);
        }
        free(alone);
        free(paired);
        free(open);
    }
}

// Tokens and the gradients of outputs go in 8 bits, with a scale of 4 bytes for 128 of them; what comes back is wide.
static void narrow_dispatch_sends_less_one_way(void **state)
{
    (void)state;
    static const char config[] = "{\"model_type\": \"deepseek_v3\", " LATENT "}";
    struct estimate_request request = estimate_usual();
    double sent[2];
    request.sequence = 4096;
    request.expert = request.data = 8;
    request.products = "fp8";
    for (int narrow = 0; narrow < 2; narrow++) {
        request.dispatch = narrow ? DISPATCH_NARROW : DISPATCH_ONCE;
        struct estimate *made = estimate_on("h100-sxm", config, request);
        const double latency = 3 * (double)made->device.levels[0].latency_ns;  // of 8 devices, for each way
        sent[narrow] = made->parts[PART_EXPERTS].phases[ESTIMATE_F].dispatch_ns - 2 * latency;
        free(made);
    }
    assert_true(fabs(sent[1] / sent[0] - (1 + 4.0 / 128 + 2) / 4) < 1e-6);
}

// A fused kernel keeps its output as it is, beside the narrow copy that the next product reads. Scores do not need it.
static void attention_keeps_its_wide_output_beside_a_narrow_one(void **state)
{
    (void)state;
    static const char config[] =
        "{\"model_type\": \"llama\", \"num_hidden_layers\": 2, \"hidden_size\": 4096, \"num_attention_heads\": 32,"
        " \"intermediate_size\": 14336, \"vocab_size\": 32000, \"max_position_embeddings\": 4096}";
    const uint64_t numbers = 4096 * 4096;
    for (int fused = 0; fused < 2; fused++) {
        uint64_t saved[2];
        for (int narrow = 0; narrow < 2; narrow++) {
            struct estimate_request request = estimate_usual();
            request.attention = fused ? ATTENTION_FUSED : ATTENTION_PLAIN;
            request.products = narrow ? "fp8" : NULL;
            struct estimate *made = estimate_on("h100-sxm", config, request);
            saved[narrow] = made->parts[PART_ATTENTION].saved_bytes;
            free(made);
        }
        // Beside it, what the first products read is a byte less of each number.
        assert_int_equal(saved[0] - saved[1], numbers + numbers - (fused ? 2 * numbers : 0));
    }
}

// A window of 128 has 64 tokens on either side; both ends of a sequence of s have fewer: s w - w^2 / 4 pairs in all.
static void windows_of_encoders_have_two_sides(void **state)
{
    (void)state;
    struct estimate_request request = estimate_usual();
    request.sequence = 1024;
    static const char config[] = "{\"model_type\": \"modernbert\", \"num_hidden_layers\": 2}";
    struct estimate *made = estimate_on("h100-sxm", config, request);
    const double products = 2.0 * 1024 * 768 * 4 * 768, heads = 768;
    const double whole = (double)made->parts[PART_ATTENTION].flops, window = (double)made->parts[PART_WINDOWED].flops;
    assert_true(whole == products + 4 * 1024.0 * 1024 * heads);
    assert_true(window == products + 4 * (1024.0 * 128 - 128 * 128 / 4) * heads);
    free(made);
}

// Beside ViT each layer of DINOv2 keeps what its vector scales: 257 tokens of 768 numbers.
static void what_a_vector_scales_is_kept(void **state)
{
    (void)state;
    static const char *const configs[] = {
        "{\"model_type\": \"vit\", \"num_hidden_layers\": 2, \"patch_size\": 14}",
        "{\"model_type\": \"dinov2\", \"num_hidden_layers\": 2}",
    };
    uint64_t saved[2][2];
    for (int i = 0; i < 2; i++) {
        struct estimate *made = estimate_on("h100-sxm", configs[i], estimate_usual());
        saved[i][0] = made->parts[PART_ATTENTION].saved_bytes;
        saved[i][1] = made->parts[PART_MLP].saved_bytes;
        free(made);
    }
    assert_int_equal(saved[1][0] - saved[0][0], 2 * 257 * 768);
    assert_int_equal(saved[1][1] - saved[0][1], 2 * 257 * 768);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_decoder_attends_to_its_encoder),
        cmocka_unit_test(pairs_hide_what_experts_send),
        cmocka_unit_test(narrow_dispatch_sends_less_one_way),
        cmocka_unit_test(attention_keeps_its_wide_output_beside_a_narrow_one),
        cmocka_unit_test(layers_are_those_of_models_of_one_kind),
        cmocka_unit_test(chunks_are_seen_token_by_token),
        cmocka_unit_test(biases_of_experts_take_their_passes),
        cmocka_unit_test(norms_and_caps_of_gemma_take_their_passes),
        cmocka_unit_test(an_indexer_scores_all_tokens_and_attention_reads_the_best),
        cmocka_unit_test(encoders_attend_to_all_tokens),
        cmocka_unit_test(windows_of_encoders_have_two_sides),
        cmocka_unit_test(what_a_vector_scales_is_kept),
        cmocka_unit_test(what_predicts_a_token_further_on_is_a_layer),
        cmocka_unit_test(attention_is_shared_but_for_norms_and_output_biases),
    };
    return cmocka_run_group_tests_name("layer_costs", tests, NULL, NULL);
}
