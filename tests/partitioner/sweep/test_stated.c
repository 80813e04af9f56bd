#include "partitioner/sweep/stated_weeks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/estimate/framework.h"
#include "tests/document.h"
#include "tests/test.h"

// GPT of 22 billion parameters, Korthikanti et al. 2022, table 3.
static const char gpt22b[] = "{\"model_type\": \"gpt2\", \"n_layer\": 48, \"n_embd\": 6144, \"n_head\": 64,"
                             " \"n_positions\": 2048, \"vocab_size\": 51200}";
static const char small[] =
    "{\"model_type\": \"llama\", \"num_hidden_layers\": 14, \"hidden_size\": 2048, \"num_attention_heads\": 16,"
    " \"num_key_value_heads\": 8, \"intermediate_size\": 8192, \"vocab_size\": 32000, \"max_position_embeddings\": 4096}";

// Whose embedding and head weigh next to nothing.
static const char even[] =
    "{\"model_type\": \"llama\", \"num_hidden_layers\": 14, \"hidden_size\": 2048, \"num_attention_heads\": 16,"
    " \"num_key_value_heads\": 8, \"intermediate_size\": 8192, \"vocab_size\": 512, \"max_position_embeddings\": 4096}";

struct question {
    struct transformer model;
    struct rated_device device;
    struct stated_request request;
};

static void ask(struct question *question, const char *config, const char *device, const char *like)
{
    struct error error = { 0 };
    assert_good(transformer_read(config, strlen(config), "config.json", &question->model, &error), error);
    assert_good(rated_device_load(device, &question->device, &error), error);
    question->request = (struct stated_request){
        .model = &question->model, .device = &question->device, .how = estimate_unsaid(), .schedule = "1f1b",
        .ranks = 1, .chunks = 1, .micro_batches = 8,
    };
    question->request.how.like = framework_find(like, &error);
    assert_good(question->request.how.like, error);
}

static struct judgement *judge(const struct question *question)
{
    struct error error = { 0 };
    struct judgement *judgement = stated_judge(&question->request, &error);
    assert_good(judgement, error);
    return judgement;
}

static double sum(const struct stated_time *time)
{
    return time->products_ns + time->attention_ns + time->passes_ns + time->messages_ns + time->host_ns + time->again_ns
        + time->waiting_ns + time->reduce_ns + time->update_ns;
}

static double iteration(const struct question *question)
{
    struct judgement *judgement = judge(question);
    const double ns = (double)judgement->iteration_ns;
    judgement_free(judgement);
    return ns;
}

static void close_to(double value, double expected, double part)
{
    if (fabs(value - expected) > part * expected)
        fail_msg("%g is not %g", value, expected);
}

// --- time ---------------------------------------------------------------------

static void where_time_goes_is_all_of_it(void **state)
{
    (void)state;
    struct question question;
    ask(&question, small, "h100-sxm", "megatron");
    question.request.how.tensor = 2;
    question.request.how.data = 2;
    question.request.ranks = 4;
    question.request.recompute = (struct stated_recompute){ .how = STATED_BLOCKS, .blocks = UINT64_MAX };
    struct judgement *judgement = judge(&question);
    close_to(sum(&judgement->time), (double)judgement->iteration_ns, 1e-6);
    assert_true(judgement->time.again_ns > 0 && judgement->time.waiting_ns > 0);
    judgement_free(judgement);
}

// The published time is 1.1 s with selective recomputation, and 1.42 s with all of it.
static void korthikantis_small_model_takes_what_it_took(void **state)
{
    (void)state;
    struct question question;
    ask(&question, gpt22b, "a100-80", "megatron-2022");
    question.request.how.tensor = 8;
    question.request.how.micro_batch = 4;
    question.request.how.dtype = "fp16";
    question.request.micro_batches = 1;
    question.request.how.sequence_parallel = true;
    question.request.how.said = SAID_SEQUENCE_PARALLEL;
    question.request.recompute.how = STATED_SELECTIVE;
    close_to(iteration(&question), 1.1e9, 0.1);
    question.request.how.sequence_parallel = false;
    question.request.recompute = (struct stated_recompute){ .how = STATED_BLOCKS, .blocks = UINT64_MAX };
    close_to(iteration(&question), 1.42e9, 0.1);
}

// m + p - 1 stages' times, where stages are even and messages take next to nothing.
static void a_pipeline_waits_as_its_formula_says(void **state)
{
    (void)state;
    struct question question;
    ask(&question, even, "h100-sxm", "megatron");
    question.request.how.graphs = true;
    question.request.how.said = SAID_GRAPHS;
    question.request.micro_batches = 32;
    const double alone = iteration(&question);
    question.request.ranks = 7;
    close_to(iteration(&question), alone / 7 * (32 + 6) / 32, 0.1);
}

// One micro-batch waits for each message there and back: one of what the blocks gave, and behind what predicts a token
// further on one of both. Links of half the rate take as long again for the bytes.
static void what_predicts_hands_on_what_it_was_given_too(void **state)
{
    (void)state;
    struct question question;
    double ns[2], rate = 0;
    ask(&question, small, "h100-sxm", "megatron");
    question.model.predicted = 1;
    question.request.layout = "Et*14|m|L";
    question.request.ranks = 3;
    question.request.micro_batches = 1;
    struct judgement *judgement = judge(&question);
    const double output = (double)judgement->estimate.parts[PART_ATTENTION].output_bytes;
    judgement_free(judgement);
    for (int i = 0; i < 2; i++) {
        ns[i] = iteration(&question);
        rate = rated_message_rate(&question.device.levels[0]);
        for (size_t l = 0; l < question.device.level_count; l++)
            question.device.levels[l].bytes_per_second /= 2;
    }
    close_to(ns[1] - ns[0], 2 * (1 + 2) * output / rate / 2 * 1e9, 0.001);
    question.request.how.without_mtp = true;
    struct error error = { 0 };
    assert_null(stated_judge(&question.request, &error));
    assert_error(error, "layout: it has m, multi-token prediction, which was to be left out");
}

static void fewer_micro_batches_than_ranks_are_judged(void **state)
{
    (void)state;
    struct question question;
    ask(&question, small, "h100-sxm", "megatron");
    question.request.ranks = 7;
    question.request.micro_batches = 2;
    struct judgement *judgement = judge(&question);
    assert_true(judgement->time.waiting_ns > 0.5 * (double)judgement->iteration_ns);
    judgement_free(judgement);
}

// All chunks of a rank hide what adding up gradients takes, and not only the first of them.
static void more_chunks_hide_no_less(void **state)
{
    (void)state;
    struct question question;
    ask(&question, small, "h100-sxm", "megatron");
    question.request.how.data = 64;
    question.request.how.shard = ESTIMATE_SHARD_OPTIMIZER;
    question.request.ranks = 2;
    double reduce[2];
    for (int i = 0; i < 2; i++) {
        question.request.chunks = i == 0 ? 1 : 7;
        question.request.schedule = i == 0 ? "1f1b" : "interleaved";
        struct judgement *judgement = judge(&question);
        reduce[i] = judgement->time.reduce_ns;
        judgement_free(judgement);
    }
    close_to(reduce[1], reduce[0], 0.2);
}

// DTensor's collectives are waited for unless async TP is asked for.
static void what_a_framework_hides_is_its_own(void **state)
{
    (void)state;
    struct question question;
    ask(&question, small, "h100-sxm", "torchtitan");
    question.request.how.tensor = 8;
    question.request.how.graphs = true;
    question.request.how.said = SAID_GRAPHS;
    const double waits = iteration(&question);
    question.request.how.overlap = OVERLAP_ALL;
    question.request.how.said |= SAID_OVERLAP;
    assert_true(iteration(&question) < 0.95 * waits);
}

// --- pairs of a forward and a backward ----------------------------------------

static const char deepseek[] =
    "{\"model_type\": \"deepseek_v3\", \"num_hidden_layers\": 61, \"hidden_size\": 7168,"
    " \"num_attention_heads\": 128, \"intermediate_size\": 18432, \"vocab_size\": 129280, \"n_routed_experts\": 256,"
    " \"num_experts_per_tok\": 8, \"moe_intermediate_size\": 2048, \"n_shared_experts\": 1,"
    " \"first_k_dense_replace\": 3, \"n_group\": 8, \"topk_group\": 4, \"num_nextn_predict_layers\": 1,"
    " \"q_lora_rank\": 1536, \"kv_lora_rank\": 512, \"qk_nope_head_dim\": 128, \"qk_rope_head_dim\": 64,"
    " \"v_head_dim\": 128, \"max_position_embeddings\": 4096}";

static void ask_deepseek(struct question *question)
{
    ask(question, deepseek, "h800", "deepseek");
    question->request.how.products = "fp8";
    question->request.how.sequence = 4096;
    question->request.how.expert = 64;
    question->request.how.data = 128;
    question->request.how.shard = ESTIMATE_SHARD_OPTIMIZER;
    question->request.schedule = "dualpipe";
    question->request.ranks = 16;
    question->request.micro_batches = 120;
    question->request.recompute =
        (struct stated_recompute){ .how = STATED_MODULES,
                                   .again = RECOMPUTE_NORMS | RECOMPUTE_LATENT | RECOMPUTE_ACTIVATIONS };
}

// 1,543 tokens a second and device were published (arXiv 2412.19437: 180,000 hours of a device for 10^12 tokens).
static void deepseek_takes_what_it_took(void **state)
{
    (void)state;
    struct question question;
    ask_deepseek(&question);
    struct judgement *judgement = judge(&question);
    close_to(judgement->tokens_per_second, 1543, 0.1);
    close_to(sum(&judgement->time), (double)judgement->iteration_ns, 1e-6);
    assert_true(judgement->fits);
    // A block keeps its two inputs, latents of queries and of keys and values, 4 bytes of each head, and attention's
    // output in 12 bits. Experts keep what they read in 8 bits, what their activations read in 8 bits, and what the
    // router says of 256 experts and 8 that are chosen. Each 128 numbers have a scale of 4 bytes. 17 micro-batches wait
    // in stages of 4 blocks, and one more is made in a pair with a backward.
    const double tokens = 4096, scale = 4.0 / 128, sent = 8 * tokens;
    const double attention = 2 * tokens * (1536 + 512 + 64) + 4 * tokens * 128 + tokens * 16384 * (1.5 + scale);
    const double experts = sent * 7168 + (sent + tokens) * 2 * 2048 * (1 + scale) + 4 * tokens * (2 * 256 + 8);
    const double block = attention + experts + 2 * 2 * tokens * 7168;
    close_to(judgement->bytes[1].activations, 18 * 4 * block, 0.005);
    judgement_free(judgement);
}

// The rank that has the last stage has the first one of the other pipeline: its table is read there again.
static void ends_on_one_rank_share_a_table(void **state)
{
    (void)state;
    struct question question;
    ask_deepseek(&question);
    question.request.how.micro_batch = 1;
    double weights[2];
    for (int pairs = 0; pairs < 2; pairs++) {
        question.request.schedule = pairs ? "dualpipe" : "1f1b";
        struct judgement *judgement = judge(&question);
        weights[pairs] = judgement->bytes[0].weights + (pairs ? 0 : judgement->bytes[15].weights);
        judgement_free(judgement);
    }
    assert_true(weights[0] - weights[1] == 2.0 * 129280 * 7168);
}

// What is not in a pair is not hidden, and schedules without pairs hide nothing.
static void pairs_alone_hide_what_experts_send(void **state)
{
    (void)state;
    static const struct { const char *schedule; uint32_t chunks; bool pairs; } rows[] = {
        { "1f1b", 1, false }, { "zb-v", 2, false }, { "interleaved", 2, true }, { "dualpipe", 1, true },
        { "dualpipev", 2, true },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct question question;
        ask_deepseek(&question);
        question.request.how.without_mtp = true;
        question.request.micro_batches = 128;
        question.request.schedule = rows[i].schedule;
        question.request.chunks = rows[i].chunks;
        const double hidden = iteration(&question);
        question.request.how.hidden_experts = false;
        question.request.how.said = SAID_HIDDEN_EXPERTS;
        const double open = iteration(&question);
        assert_true(rows[i].pairs ? hidden < 0.9 * open : hidden == open);
    }
}

// Both of a rank's stages are held whole, and half of their micro-batches worked on. Twice the devices share states.
static void copies_are_held_and_share_states(void **state)
{
    (void)state;
    struct question question;
    ask(&question, small, "h100-sxm", "megatron");
    question.request.ranks = 2;
    question.request.how.data = 2;
    question.request.how.shard = ESTIMATE_SHARD_OPTIMIZER;
    struct judgement *one = judge(&question);
    question.request.schedule = "dualpipe";
    struct judgement *two = judge(&question);
    for (int rank = 0; rank < 2; rank++) {
        close_to(two->bytes[rank].weights, one->bytes[0].weights + one->bytes[1].weights, 1e-6);
        close_to(two->bytes[rank].optimizer, (one->bytes[0].optimizer + one->bytes[1].optimizer) / 2, 1e-6);
    }
    assert_true(two->devices == one->devices);
    close_to(judgement_sequences(two), judgement_sequences(one), 1e-9);
    judgement_free(one);
    judgement_free(two);
}

// --- bytes --------------------------------------------------------------------

// 16 bytes of each parameter with gradients of 2, 18 with those of 4; the optimizer's shared by 4.
static void states_are_the_frameworks(void **state)
{
    (void)state;
    struct question question;
    ask(&question, small, "h100-sxm", "megatron");
    const double parameters = (double)transformer_parameters(&question.model);
    struct judgement *judgement = judge(&question);
    close_to(judgement->bytes[0].weights, 2 * parameters, 1e-3);
    close_to(judgement->bytes[0].gradients, 4 * parameters, 1e-3);
    close_to(judgement->bytes[0].optimizer, 12 * parameters, 1e-3);
    judgement_free(judgement);
    question.request.how.data = 4;
    question.request.how.shard = ESTIMATE_SHARD_OPTIMIZER;
    question.request.how.gradient_bytes = 2;
    judgement = judge(&question);
    close_to(judgement->bytes[0].gradients, 2 * parameters, 1e-3);
    close_to(judgement->bytes[0].optimizer, 3 * parameters, 1e-3);
    judgement_free(judgement);
}

static double activations(const struct question *question)
{
    struct judgement *judgement = judge(question);
    const double bytes = judgement->bytes[0].activations;
    judgement_free(judgement);
    return bytes;
}

// The first rank of p keeps p micro-batches; of blocks that run again their inputs, 2 sbh of each.
static void what_runs_again_is_not_kept(void **state)
{
    (void)state;
    struct question question;
    ask(&question, small, "h100-sxm", "megatron");
    question.request.ranks = 2;
    const double all = activations(&question), block = 2.0 * 4096 * 2048;
    question.request.recompute = (struct stated_recompute){ .how = STATED_BLOCKS, .blocks = UINT64_MAX };
    close_to(activations(&question), 2 * 7 * block, 0.01);
    question.request.recompute.blocks = 3;
    const double some = activations(&question);
    close_to(some, all * 4 / 7 + 2 * 3 * block, 0.02);
    question.request.recompute = (struct stated_recompute){ .how = STATED_MODULES, .modules = MODULE_MLP };
    assert_true(activations(&question) < all);
}

static void gathered_weights_are_work(void **state)
{
    (void)state;
    struct question question;
    ask(&question, small, "h100-sxm", "torchtitan");
    question.request.how.data = 32;
    question.request.how.shard = ESTIMATE_SHARD_WEIGHTS;
    struct judgement *over_all = judge(&question);
    question.request.how.within = 8;
    struct judgement *near = judge(&question);
    close_to(near->bytes[0].weights, 4 * over_all->bytes[0].weights, 0.01);
    assert_true(over_all->fits && near->fits);
    judgement_free(near);
    judgement_free(over_all);
}

// --- layouts -------------------------------------------------------------------

static void has_blocks(const char *layout, uint32_t stages, const char *blocks)
{
    struct question question;
    struct error error = { 0 };
    struct text text = { 0 };
    ask(&question, small, "h100-sxm", "megatron");
    question.request.layout = layout;
    question.request.ranks = stages;
    struct stated_stage *made = stated_stages(&question.request, &error);
    assert_good(made, error);
    for (uint32_t s = 0; s < stages; s++)
        text_add(&text, "%s%s%.0f%s", s ? " " : "", made[s].counts[PART_EMBEDDING] > 0 ? "E" : "",
                 made[s].counts[PART_ATTENTION], made[s].counts[PART_HEAD] > 0 ? "L" : "");
    assert_string_equal(text.data, blocks);
    text_clear(&text);
    free(made);
}

static void layouts_are_megatrons(void **state)
{
    (void)state;
    has_blocks(NULL, 2, "E7 7L");
    has_blocks(NULL, 4, "E3 4 4 3L");  // one less at both ends
    has_blocks(NULL, 3, "E4 5 5L");    // where that divides nothing, as even as can be
    has_blocks("Et*2|(t*3|)*3t,t*2,L", 5, "E2 3 3 3 3L");
    has_blocks("E|(tt|)*7L", 9, "E0 2 2 2 2 2 2 2 0L");
    has_blocks("Et*7|t*7mL", 2, "E7 8L");  // which predicts one more
}

static void refuses_layout(const char *layout, const char *sentence)
{
    struct question question;
    struct error error = { 0 };
    ask(&question, small, "h100-sxm", "megatron");
    question.request.layout = layout;
    question.request.ranks = 2;
    assert_null(stated_judge(&question.request, &error));
    if (!strstr(error.text, sentence))
        fail_msg("%s", error.text);
}

static void what_cannot_be_is_refused(void **state)
{
    (void)state;
    refuses_layout("Et*7|t*6L", "layout: it has 13 blocks of the model's 14");
    refuses_layout("Et*7t*7L", "layout: it has 1 stages, and ranks x chunks are 2");
    refuses_layout("E|t|t*13L", "layout: it has more stages than ranks x chunks (2)");
    refuses_layout("E(t*7|t*7L", "layout: a bracket is not closed");
    refuses_layout("Et*7)|t*7L", "layout: a bracket is not opened");
    refuses_layout("Ex*7|t*7L", "layout: it has another letter");
    refuses_layout("Et*0|t*7L", "layout: a * has a number from 1 to 4096 behind it");
    refuses_layout("(((((((((t)))))))))", "layout: ");
    struct question question;
    struct error error = { 0 };
    static const uint32_t blocks[] = { 7, 6 };
    ask(&question, small, "h100-sxm", "megatron");
    question.request.ranks = 2;
    question.request.blocks = (struct sweep_list){ blocks, 2 };
    assert_null(stated_judge(&question.request, &error));
    assert_string_equal(error.text, "blocks: they are not the model's 14 in all");
    error = (struct error){ 0 };
    question.request.blocks.count = 0;
    question.request.schedule = "pipedream";
    assert_null(stated_judge(&question.request, &error));
    assert_string_equal(error.text, "pipedream does not flush: its iterations are not of so many sequences");
}

static void recomputation_is_a_word_a_number_or_modules(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct stated_recompute recompute;
    assert_true(stated_recompute_parse("none", &recompute, &error) && recompute.how == STATED_NOTHING);
    assert_true(stated_recompute_parse("full", &recompute, &error) && recompute.blocks == UINT64_MAX);
    assert_true(stated_recompute_parse("3", &recompute, &error) && recompute.blocks == 3);
    assert_true(stated_recompute_parse("mlp,layernorm", &recompute, &error) && recompute.modules == MODULE_MLP);
    assert_int_equal(recompute.again, RECOMPUTE_NORMS);
    assert_false(stated_recompute_parse("mlp,half", &recompute, &error));
    assert_non_null(strstr(error.text, "\"mlp,half\" is none of none, selective, full, "));
    assert_false(stated_recompute_parse("", &recompute, &error));
}

// Judged, a plan takes what it was planned for, and a little more where messages are waited for.
static void the_best_of_a_sweep_is_judged_alike(void **state)
{
    (void)state;
    struct question question;
    struct error error = { 0 };
    static const uint32_t ranks[] = { 2 };
    ask(&question, small, "h100-sxm", "megatron");
    const struct config_request request = {
        .model = &question.model, .device = &question.device, .how = estimate_unsaid(), .devices = 4, .global_batch = 16,
        .ranks = { ranks, 1 }, .storage.optimizer = OPTIMIZER_ADAMW_MASTER, .budget = 1000, .threads = 1,
    };
    struct config_sweep *sweep = config_sweep_run(&request, &error);
    assert_good(sweep, error);
    struct judgement *judged = stated_judge_best(sweep, &error);
    assert_good(judged, error);
    close_to((double)judged->iteration_ns, (double)sweep->best->iteration_ns, 0.05);
    assert_true(judged->fits);
    judgement_free(judged);
    config_sweep_free(sweep);
}

// --- fine-tuning -----------------------------------------------------------------

// Frozen weights have no gradients and no states. A LoRA of rank 16 trains 16 (in + out) of each linear layer.
static void what_is_frozen_has_weights_alone(void **state)
{
    (void)state;
    struct question question;
    struct error error = { 0 };
    ask(&question, small, "h100-sxm", "megatron");
    question.request.ranks = 2;
    question.request.how.graphs = true;
    question.request.how.said = SAID_GRAPHS;
    struct judgement *full = judge(&question);
    assert_true(fine_tuning_read_lora("16", &question.request.how.tuning, &error));
    struct judgement *lora = judge(&question);
    const double block = 16 * (3 * 2048 + 4096 + 2048 + 2048) + 16 * (2 * 2048 + 2 * 8192 + 8192 + 2048);
    close_to(lora->bytes[0].gradients, 4 * 7 * block, 1e-6);
    close_to(lora->bytes[0].optimizer, 12 * 7 * block, 1e-6);
    close_to(lora->bytes[0].weights, full->bytes[0].weights + 2 * 7 * block, 1e-6);
    assert_true(lora->time.products_ns < full->time.products_ns && lora->time.update_ns < full->time.update_ns / 20);
    // Two thirds of the products of frozen layers are left.
    assert_true(lora->time.products_ns > 0.66 * full->time.products_ns);
    judgement_free(lora);
    // With nothing in front of the head to train, blocks only run forward, and keep nothing.
    question.request.how.tuning = (struct fine_tuning){ .frozen = TUNED_EMBEDDING | TUNED_ATTENTION | TUNED_MLP };
    struct judgement *head = judge(&question);
    assert_true(head->bytes[0].gradients == 0 && head->bytes[0].optimizer == 0);
    assert_true(head->bytes[0].activations < 0.3 * full->bytes[0].activations);
    assert_true(head->time.attention_ns < 0.35 * full->time.attention_ns);
    judgement_free(head);
    judgement_free(full);
}

static void packed_sequences_see_their_own_tokens(void **state)
{
    (void)state;
    struct question question;
    struct error error = { 0 };
    double ns[2];
    ask(&question, small, "h100-sxm", "megatron");
    question.request.how.sequence = 4096;
    for (int packed = 0; packed < 2; packed++) {
        if (packed)
            assert_true(fine_tuning_read_lengths("512:50%,1536:50%", &question.request.how.tuning, &error));
        struct judgement *judgement = judge(&question);
        ns[packed] = judgement->time.attention_ns;
        judgement_free(judgement);
    }
    // A token sees (512 512 + 1536 1536) / (512 + 1536) / 2 tokens, and not 4096 / 2; but for the kernels' own time.
    close_to(ns[1], ns[0] * 1280 / 4096, 0.05);
}

static void what_cannot_be_tuned_is_a_sentence(void **state)
{
    (void)state;
    static const struct {
        const char *text, *sentence;
        bool (*read)(const char *, struct fine_tuning *, struct error *);
    } rows[] = {
        { "attention,nose", "\"nose\" is none of embedding, attention, mlp, experts, head, all",
          fine_tuning_read_frozen },
        { "all", "with all parts frozen nothing is trained (LoRA freezes them, and trains matrices beside them)",
          fine_tuning_read_frozen },
        { "0", "\"0\" is not a rank of 1 to 4096, and what has it, such as 16:attention,mlp", fine_tuning_read_lora },
        { "16:experts", "\"16:experts\": LoRA is estimated for attention and mlp", fine_tuning_read_lora },
        { "512:30%", "the shares are 30 % together, not 100", fine_tuning_read_lengths },
        { "512:30%;", "\"512:30%;\": a comma is behind each share", fine_tuning_read_lengths },
        { "0:100%", "\"0:100%\" is not a length in tokens and its share of sequences, such as 2048:70%",
          fine_tuning_read_lengths },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct fine_tuning tuning = { 0 };
        struct error error = { 0 };
        assert_false(rows[i].read(rows[i].text, &tuning, &error));
        assert_error(error, rows[i].sentence);
    }
    struct fine_tuning lora = { 0 }, frozen = { 0 };
    struct error error = { 0 };
    assert_true(fine_tuning_read_lora("16", &lora, &error) && fine_tuning_read_frozen("mlp", &frozen, &error));
    assert_false(fine_tuning_read_frozen("mlp", &lora, &error));
    assert_error(error, "LoRA freezes all parts already; leave out the frozen parts, or LoRA");
    error = (struct error){ 0 };
    assert_false(fine_tuning_read_lora("16", &frozen, &error));
    assert_error(error, "LoRA freezes all parts already; leave out the frozen parts, or LoRA");
    struct question question;
    error = (struct error){ 0 };
    ask(&question, small, "h100-sxm", "megatron");
    assert_true(fine_tuning_read_lengths("8192:100%", &question.request.how.tuning, &error));
    assert_null(stated_judge(&question.request, &error));
    assert_error(error, "sequences of 8192 tokens do not fit into packed ones of 4096");
    error = (struct error){ 0 };
    question.request.how.tuning = (struct fine_tuning){ .frozen = TUNED_EXPERTS };
    assert_null(stated_judge(&question.request, &error));
    assert_error(error, "llama has no experts that could be frozen: leave that out");
}

// --- over weeks -----------------------------------------------------------------

static void choices_about_broken_devices_are_tried(void **state)
{
    (void)state;
    struct question question;
    struct error error = { 0 };
    struct weeks weeks;
    ask(&question, small, "h100-sxm", "megatron");
    question.request.how.data = 4;
    question.request.ranks = 2;
    struct judgement *judgement = judge(&question);
    struct weeks_request request = { .mtbf_ns = UINT64_C(36000000000000), .checkpoint_rate = 1000000000,
                                     .restart_ns = UINT64_C(60000000000) };
    assert_good(weeks_of(judgement, &request, &weeks, &error), error);
    assert_int_equal(weeks.count, 1);
    const double parameters = (double)transformer_parameters(&question.model);
    close_to((double)weeks.checkpoint_bytes, parameters * (2 + 12), 1e-9);
    close_to(weeks.restart_s, 60 + weeks.checkpoint_s, 1e-9);
    request.repair_ns = UINT64_C(36000000000000);
    assert_good(weeks_of(judgement, &request, &weeks, &error), error);
    // A device is broken half of the time. With a spare less of it is waited for, and with 3 of 4 pipelines nothing.
    close_to(weeks.choices[0].shares.waiting, 0.5, 1e-9);
    assert_true(weeks.choices[1].spares == 1 && weeks.choices[1].shares.waiting < 0.25);
    const struct weeks_choice *elastic = &weeks.choices[weeks.count - 1];
    assert_true(elastic->elastic && elastic->shares.waiting < 0.01 && elastic->shares.fewer > 0.1);
    for (size_t i = 0; i < weeks.count; i++)
        assert_true(weeks.choices[weeks.best].paid >= weeks.choices[i].paid);
    request.elastic = true;
    assert_good(weeks_of(judgement, &request, &weeks, &error), error);
    assert_int_equal(weeks.count, 1);
    judgement_free(judgement);
    question.request.how.data = 1;
    judgement = judge(&question);
    assert_false(weeks_of(judgement, &request, &weeks, &error));
    assert_error(error, "an elastic run: this layout has no fewer pipelines that could go on without a broken device,"
                        " or no repair time is stated in which they would");
    judgement_free(judgement);
}

static void the_page_shows_what_is_written(void **state)
{
    (void)state;
    struct question question;
    struct config_row row = { .schedule = "1f1b" };
    const struct config_sweep sweep = { .best = &row };
    struct text text = { 0 };
    ask(&question, small, "h100-sxm", "megatron");
    struct judgement *judgement = judge(&question);
    struct error error = { 0 };
    struct weeks weeks;
    const struct weeks_request request = { .mtbf_ns = UINT64_C(3600000000000), .checkpoint_rate = 1000000000,
                                           .restart_ns = UINT64_C(60000000000) };
    assert_good(weeks_of(judgement, &request, &weeks, &error), error);
    const struct stated_more more = { &sweep, judgement, &weeks };
    judgement_write(judgement, &more, &text);
    assert_shown_as_written("docs/formats/judgement.md", text.data);
    text_clear(&text);
    judgement_free(judgement);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(where_time_goes_is_all_of_it),
        cmocka_unit_test(korthikantis_small_model_takes_what_it_took),
        cmocka_unit_test(a_pipeline_waits_as_its_formula_says),
        cmocka_unit_test(what_predicts_hands_on_what_it_was_given_too),
        cmocka_unit_test(fewer_micro_batches_than_ranks_are_judged),
        cmocka_unit_test(more_chunks_hide_no_less),
        cmocka_unit_test(what_a_framework_hides_is_its_own),
        cmocka_unit_test(deepseek_takes_what_it_took),
        cmocka_unit_test(ends_on_one_rank_share_a_table),
        cmocka_unit_test(pairs_alone_hide_what_experts_send),
        cmocka_unit_test(copies_are_held_and_share_states),
        cmocka_unit_test(states_are_the_frameworks),
        cmocka_unit_test(what_runs_again_is_not_kept),
        cmocka_unit_test(gathered_weights_are_work),
        cmocka_unit_test(layouts_are_megatrons),
        cmocka_unit_test(what_cannot_be_is_refused),
        cmocka_unit_test(recomputation_is_a_word_a_number_or_modules),
        cmocka_unit_test(the_best_of_a_sweep_is_judged_alike),
        cmocka_unit_test(what_is_frozen_has_weights_alone),
        cmocka_unit_test(packed_sequences_see_their_own_tokens),
        cmocka_unit_test(what_cannot_be_tuned_is_a_sentence),
        cmocka_unit_test(choices_about_broken_devices_are_tried),
        cmocka_unit_test(the_page_shows_what_is_written),
    };
    return cmocka_run_group_tests_name("stated", tests, NULL, NULL);
}
