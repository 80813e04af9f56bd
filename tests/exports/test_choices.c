// Each thing that a plan depends on is taken away, or made another, one at a time: what is exported, or what is said of
// it, is then another, in every format.
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "exports/export.h"
#include "partitioner/evaluate/reprice.h"
#include "partitioner/search/search_request.h"
#include "profiler/estimate/estimated.h"
#include "tests/partitioner/resolve.h"
#include "tests/profiler/estimate/estimating.h"

static const char llama[] =
    "{\"model_type\": \"llama\", \"num_hidden_layers\": 6, \"hidden_size\": 1024, \"num_attention_heads\": 16,"
    " \"num_key_value_heads\": 8, \"intermediate_size\": 4096, \"vocab_size\": 32000, \"max_position_embeddings\": 8192,"
    " \"rope_theta\": 500000.0, \"hidden_act\": \"silu\"}";
static const char gpt2[] = "{\"model_type\": \"gpt2\", \"n_layer\": 6, \"n_embd\": 1024, \"n_head\": 16,"
                           " \"n_positions\": 8192, \"vocab_size\": 51200}";
static const char gemma[] =
    "{\"model_type\": \"gemma3_text\", \"num_hidden_layers\": 6, \"hidden_size\": 1024, \"num_attention_heads\": 16,"
    " \"num_key_value_heads\": 8, \"intermediate_size\": 4096, \"vocab_size\": 32000, \"max_position_embeddings\": 8192}";
static const char deepseek[] =
    "{\"model_type\": \"deepseek_v3\", \"num_hidden_layers\": 6, \"hidden_size\": 1024, \"num_attention_heads\": 16,"
    " \"intermediate_size\": 4096, \"vocab_size\": 32000, \"max_position_embeddings\": 8192, \"q_lora_rank\": 512,"
    " \"kv_lora_rank\": 256, \"qk_nope_head_dim\": 128, \"qk_rope_head_dim\": 64, \"v_head_dim\": 128,"
    " \"n_routed_experts\": 64, \"num_experts_per_tok\": 8, \"moe_intermediate_size\": 512, \"n_shared_experts\": 1,"
    " \"rope_theta\": 10000}";

// --- what is asked ------------------------------------------------------------------------

struct asked {
    const char *config, *schedule;
    uint32_t chunks, micro_batches, cut;  // stage 1 begins so many layers further on
    bool runs_again;
    enum optimizer_kind optimizer;
    struct estimate_request how;
};

static struct asked plain(const char *config)
{
    struct asked asked = { .config = config, .schedule = "1f1b", .chunks = 1, .micro_batches = 8,
                           .optimizer = OPTIMIZER_ADAMW_MASTER, .how = estimate_usual() };
    asked.how.tensor = 2;
    asked.how.data = 4;
    asked.how.sequence = 4096;
    asked.how.whole_blocks = true;
    asked.how.gradient_bytes = 4;
    return asked;
}

// Everything on, as one trains DeepSeek-V3: what is taken away is missed.
static struct asked rich(void)
{
    struct asked asked = plain(deepseek);
    asked.schedule = "interleaved";
    asked.chunks = 2;
    asked.how = (struct estimate_request){
        .tensor = 2, .context = 2, .expert = 8, .data = 2, .inner_ranks = 1, .micro_batch = 2, .sequence = 4096,
        .dtype = "bf16",
        .products = "fp8", .attention = ATTENTION_FLASH, .overlap = OVERLAP_ALL, .shard = ESTIMATE_SHARD_OPTIMIZER,
        .dispatch = DISPATCH_ONCE, .loss = LOSS_FUSED,
        .recompute_tensors = RECOMPUTE_NORMS | RECOMPUTE_ACTIVATIONS | RECOMPUTE_LATENT,
        .sequence_parallel = true, .graphs = true, .blocking = true, .hidden_experts = true, .whole_blocks = true,
        .fused_passes = true, .gradient_bytes = 4,
    };
    return asked;
}

static struct profile *profile_of(const struct asked *asked)
{
    struct error error = { 0 };
    struct estimate *made = estimate_on("h100-sxm", asked->config, asked->how);
    struct profile *profile = estimate_profile(made, &error);
    assert_good(profile, error);
    free(made);
    return profile;
}

// Two ranks; cuts behind blocks.
static struct plan *plan_for(const struct asked *asked, const struct profile *profile)
{
    struct error error = { 0 };
    const uint32_t stages = 2 * asked->chunks, layers = (uint32_t)profile->layer_count;
    struct cluster *cluster = cluster_load("2 devices, 4000GiB, 10GB/s 1us", &error);
    assert_good(cluster, error);
    struct search_request request = { .profile = profile, .cluster = cluster, .schedule = asked->schedule, .ranks = 2,
                                      .chunks = asked->chunks, .micro_batches = asked->micro_batches,
                                      .storage.optimizer = asked->optimizer };
    resolve(&request);
    struct plan *plan = search_begin_plan(&request, stages, &error);
    assert_good(plan, error);
    for (uint32_t s = 0; s < stages; s++) {
        const uint32_t first = s ? 1 + 2 * (6 * s / stages) + (s == 1 ? asked->cut : 0) : 0;
        const uint32_t end = s + 1 < stages ? 1 + 2 * (6 * (s + 1) / stages) + (s == 0 ? asked->cut : 0) : layers;
        const uint32_t block = s ? first : 1;
        const struct segment again = { block, block + 2 };
        assert_good(plan_set_stage(plan, s, profile, (struct segment){ first, end }, s % 2, &again, asked->runs_again,
                                   &error), error);
    }
    assert_good(plan_price(plan, profile, &error), error);
    cluster_free(cluster);
    return plan;
}

// What is exported and what is said, one behind the other.
static struct text told(const char *name, const struct asked *given, void (*change)(struct profile *, const void *),
                        const void *with)
{
    struct error error = { 0 };
    struct asked asked = *given;
    if (strcmp(name, "torchgpipe") == 0)
        asked.schedule = "gpipe", asked.chunks = 1;
    if (strcmp(name, "deepspeed") == 0 || strcmp(name, "nanotron") == 0)
        asked.schedule = "1f1b", asked.chunks = 1;
    struct profile *profile = profile_of(&asked);
    struct plan *plan = plan_for(&asked, profile);
    if (change)
        change(profile, with);
    struct text text = { 0 }, said = { 0 };
    const struct export_request request = { .plan = plan, .profile = profile };
    const bool good = plan_export(export_find(name, &error), &request, &text, &said, &error);
    if (!good)
        fail_msg("%s: %s", name, error.text);
    text_add(&text, "%s", said.data);
    text_clear(&said);
    plan_free(plan);
    profile_free(profile);
    return text;
}

static void assert_differs(const char *what, const struct asked *asked, void (*change)(struct profile *, const void *),
                           const void *with, const struct asked *other)
{
    for (const struct export_format *format = export_formats; format->name; format++) {
        struct text before = told(format->name, asked, NULL, NULL), after = told(format->name, other, change, with);
        if (strcmp(before.data, after.data) == 0)
            fail_msg("%s: %s is dropped in silence", format->title, what);
        text_clear(&before);
        text_clear(&after);
    }
}

// --- what the profile was estimated for, and the model ---------------------------------------

struct member {
    const char *name;
    size_t at, size;
    uint64_t value;
    const char *config;  // NULL: in the rich one
};

#define HOW(member, value) \
    { #member, offsetof(struct estimated, request.member), sizeof(((struct estimated *)0)->request.member), value, NULL }
#define PLAIN(member, value) \
    { #member, offsetof(struct estimated, request.member), sizeof(((struct estimated *)0)->request.member), value, llama }
#define OF(config, member, value) \
    { #member, offsetof(struct estimated, model.member), sizeof(((struct estimated *)0)->model.member), value, config }

static const struct member members[] = {
    HOW(tensor, 4), HOW(context, 1), HOW(expert, 4), HOW(data, 4), HOW(inner_ranks, 2), HOW(sequence, 2048),
    HOW(attention, ATTENTION_FUSED), HOW(attention, ATTENTION_PLAIN), HOW(attention, ATTENTION_RECOMPUTED),
    HOW(overlap, OVERLAP_NOTHING), HOW(overlap, OVERLAP_BACKWARD), HOW(shard, ESTIMATE_SHARD_NONE),
    HOW(shard, ESTIMATE_SHARD_GRADIENTS), HOW(shard, ESTIMATE_SHARD_WEIGHTS), HOW(dispatch, DISPATCH_EACH),
    HOW(loss, LOSS_IN_PLACE), HOW(loss, LOSS_PLAIN), HOW(recompute_tensors, RECOMPUTE_NORMS | RECOMPUTE_ACTIVATIONS),
    HOW(recompute_tensors, RECOMPUTE_NORMS | RECOMPUTE_LATENT),
    HOW(recompute_tensors, RECOMPUTE_ACTIVATIONS | RECOMPUTE_LATENT), HOW(sequence_parallel, 0), HOW(graphs, 0),
    HOW(blocking, 0), HOW(hidden_experts, 0), HOW(fused_passes, 0),
    HOW(loss, LOSS_KERNEL), HOW(loss, LOSS_COMPILED), HOW(gradient_bytes, 2), HOW(within, 2),
    HOW(narrow, NARROW_ATTENTION), HOW(narrow, NARROW_EXPERTS), HOW(narrow, NARROW_ACTIVATIONS),
    PLAIN(tensor, 1), PLAIN(context, 2), PLAIN(data, 1), PLAIN(inner_ranks, 2), PLAIN(sequence, 8192),
    PLAIN(attention, ATTENTION_FLASH), PLAIN(attention, ATTENTION_PLAIN), PLAIN(attention, ATTENTION_RECOMPUTED),
    PLAIN(overlap, OVERLAP_NOTHING), PLAIN(overlap, OVERLAP_ALL), PLAIN(shard, ESTIMATE_SHARD_OPTIMIZER),
    PLAIN(shard, ESTIMATE_SHARD_GRADIENTS), PLAIN(shard, ESTIMATE_SHARD_WEIGHTS), PLAIN(loss, LOSS_PLAIN),
    PLAIN(loss, LOSS_FUSED), PLAIN(recompute_tensors, RECOMPUTE_NORMS),
    PLAIN(recompute_tensors, RECOMPUTE_ACTIVATIONS), PLAIN(sequence_parallel, 1), PLAIN(graphs, 1),
    PLAIN(blocking, 1), PLAIN(fused_passes, 1),
    PLAIN(loss, LOSS_KERNEL), PLAIN(loss, LOSS_COMPILED), PLAIN(gradient_bytes, 2),
    OF(llama, hidden, 2048), OF(llama, heads, 32), OF(llama, kv_heads, 16), OF(llama, head_size, 128),
    OF(llama, ffn, 8192), OF(llama, vocabulary, 64000), OF(gpt2, positions, 16384), OF(llama, longest, 16384),
    OF(llama, window, 1024), OF(gemma, local_window, 1024), OF(gemma, has_chunks, 1), OF(llama, is_gated, 0),
    OF(llama, is_tied, 1), OF(llama, has_layer_norm, 1), OF(llama, norms_twice, 1), OF(llama, caps_logits, 1),
    OF(llama, drops, 1), OF(gpt2, drops, 0), OF(llama, drops_scores, 1), OF(gpt2, drops_scores, 0), OF(llama, is_rotary, 0),
    OF(llama, rotary_base, 10000), OF(llama, attention_biases, 1), OF(gpt2, attention_biases, 0), OF(llama, output_bias, 1),
    OF(gpt2, output_bias, 0), OF(llama, mlp_biases, 1), OF(gpt2, mlp_biases, 0), OF(llama, normed_heads, 1),
    OF(llama, norms_across, 1), OF(llama, has_sinks, 1), OF(deepseek, experts, 32), OF(deepseek, chosen, 4),
    OF(deepseek, expert_ffn, 1024), OF(deepseek, shared_ffn, 0), OF(deepseek, dense_layers, 2),
    OF(deepseek, expert_every, 2), OF(deepseek, gated_shared, 1), OF(deepseek, corrected_router, 0),
    OF(deepseek, biased_experts, 1), OF(deepseek, is_latent, 0), OF(deepseek, query_rank, 0), OF(deepseek, value_rank, 128),
    OF(deepseek, nope_size, 64), OF(deepseek, rope_size, 32), OF(deepseek, value_size, 64),
    OF(deepseek, idle_experts, 64), OF(llama, head_transform, 1), OF(llama, head_norm, 1),
    OF(llama, scales_layers, 1), OF(llama, buckets_each, 1),
};

static void set_member(struct profile *profile, const void *with)
{
    const struct member *member = with;
    char *at = (char *)profile->estimated + member->at;
    const uint64_t whole = member->value;
    const unsigned word = (unsigned)member->value;
    const bool flag = member->value != 0;
    memcpy(at, member->size == 8 ? (const void *)&whole : member->size == 4 ? (const void *)&word : &flag, member->size);
}

static void what_a_profile_was_estimated_for_is_in_the_file_or_said(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++) {
        const struct asked asked = members[i].config ? plain(members[i].config) : rich();
        char what[60];
        snprintf(what, sizeof what, "%s = %llu", members[i].name, (unsigned long long)members[i].value);
        assert_differs(what, &asked, set_member, &members[i], &asked);
    }
}

static void set_word(struct profile *profile, const void *with)
{
    const char *word = with;
    if (strcmp(word, "local") == 0)
        profile->estimated->model.is_local[5] = !profile->estimated->model.is_local[5];
    else if (strncmp(word, "fp", 2) == 0)
        snprintf(profile->estimated->products, sizeof profile->estimated->products, "%s", word);
    else
        snprintf(profile->estimated->model.activation, sizeof profile->estimated->model.activation, "%s", word);
}

static void its_words_are_in_the_file_or_said(void **state)
{
    (void)state;
    const struct asked dense = plain(llama), mixed = plain(gemma), plain_gpt = plain(gpt2);
    assert_differs("fp8", &dense, set_word, "fp8", &dense);
    assert_differs("fp4", &dense, set_word, "fp4", &dense);
    assert_differs("fp6", &dense, set_word, "fp6", &dense);
    assert_differs("gelu", &dense, set_word, "gelu", &dense);
    assert_differs("relu2", &plain_gpt, set_word, "relu2", &plain_gpt);
    assert_differs("relu", &plain_gpt, set_word, "relu", &plain_gpt);
    assert_differs("local layers", &mixed, set_word, "local", &mixed);
}

// --- what the plan says itself -----------------------------------------------------------------

static void set_dtype(struct profile *profile, const void *with)
{
    free(profile->dtype);
    profile->dtype = strdup(with);
}

static void what_is_planned_is_in_the_file_or_said(void **state)
{
    (void)state;
    static const char *const dtypes[] = { "fp16", "fp32", "tf32" };
    const struct asked asked = plain(llama);
    for (size_t i = 0; i < 3; i++)
        assert_differs(dtypes[i], &asked, set_dtype, dtypes[i], &asked);
    struct asked other = asked;
    other.how.micro_batch = 2;
    assert_differs("the micro-batch", &asked, NULL, NULL, &other);
    other = asked;
    other.micro_batches = 16;
    assert_differs("micro-batches", &asked, NULL, NULL, &other);
    other = asked;
    other.optimizer = OPTIMIZER_SGD_MASTER;
    assert_differs("the optimizer", &asked, NULL, NULL, &other);
    other.optimizer = OPTIMIZER_ADAMW;
    assert_differs("the optimizer's copies", &asked, NULL, NULL, &other);
}

// The order of actions alone has no layers.
static void what_is_where_and_runs_again_is_in_the_file(void **state)
{
    (void)state;
    const struct asked asked = plain(llama);
    for (const struct export_format *format = export_formats; format->name; format++) {
        struct asked cut = asked, again = asked;
        cut.cut = 2;
        again.runs_again = true;
        struct text before = told(format->name, &asked, NULL, NULL), moved = told(format->name, &cut, NULL, NULL);
        struct text recomputed = told(format->name, &again, NULL, NULL);
        assert_string_not_equal(before.data, moved.data);
        assert_string_not_equal(before.data, recomputed.data);
        text_clear(&before);
        text_clear(&moved);
        text_clear(&recomputed);
    }
}

static void the_same_gives_the_same(void **state)
{
    (void)state;
    const struct asked asked[] = { plain(llama), plain(gemma), rich() };
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++)
        for (const struct export_format *format = export_formats; format->name; format++) {
            struct text once = told(format->name, &asked[i], NULL, NULL), twice = told(format->name, &asked[i], NULL, NULL);
            assert_string_equal(once.data, twice.data);
            text_clear(&once);
            text_clear(&twice);
        }
}

static void other_blocks_than_were_estimated_are_refused(void **state)
{
    (void)state;
    const struct asked asked = plain(llama);
    struct profile *profile = profile_of(&asked);
    struct plan *plan = plan_for(&asked, profile);
    struct error error = { 0 };
    struct text text = { 0 }, said = { 0 };
    const struct export_request request = { .plan = plan, .profile = profile };
    profile->estimated->model.layers = 7;
    assert_false(plan_export(export_find("megatron", &error), &request, &text, &said, &error));
    assert_error(error, "the profile was estimated of 7 blocks, and the plan has 6");
    text_clear(&text);
    text_clear(&said);
    plan_free(plan);
    profile_free(profile);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_profile_was_estimated_for_is_in_the_file_or_said),
        cmocka_unit_test(its_words_are_in_the_file_or_said),
        cmocka_unit_test(what_is_planned_is_in_the_file_or_said),
        cmocka_unit_test(what_is_where_and_runs_again_is_in_the_file),
        cmocka_unit_test(the_same_gives_the_same),
        cmocka_unit_test(other_blocks_than_were_estimated_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
