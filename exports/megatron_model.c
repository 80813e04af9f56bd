// The model itself as Megatron-LM's arguments, and a sentence for each part of it that they cannot express.

#include <string.h>

#include "exports/megatron.h"

static bool is_word(const char *word, const char *const *words)
{
    while (*words && strcmp(*words, word) != 0)
        words++;
    return *words;
}

// --- what cannot be said ------------------------------------------------------------------

// The argument depends on the function and on whether it is gated. A file of a gated model that names no function means
// "silu".
static const char *activation_argument(const struct transformer *model)
{
    static const char *const silu[] = { "", "silu", "swish", NULL };
    static const char *const gelu[] = { "", "gelu", "gelu_new", "gelu_fast", "gelu_pytorch_tanh", NULL };
    if (model->is_gated)
        return is_word(model->activation, silu) ? "--swiglu" : NULL;
    if (strcmp(model->activation, "relu2") == 0)
        return "--squared-relu";
    return is_word(model->activation, gelu) ? "" : NULL;
}

static void say_part(struct export *export, bool has, const char *what)
{
    if (has)
        export_say(export, "The model has %s; Megatron-LM's arguments do not say it.", what);
}

void megatron_say_model(struct export *export)
{
    const struct transformer *model = &export->estimated->model;
    if (!activation_argument(model))
        export_say(export, "The model's activation is %s%s; Megatron-LM's arguments do not say it.",
                   model->is_gated ? "a gated " : "", model->activation);
    say_part(export, model->norms_twice, "a norm behind attention and MLP, too");
    say_part(export, model->caps_logits, "logits capped between two bounds");
    say_part(export, model->norms_across, "norms of queries and keys across all heads");
    say_part(export, model->has_chunks, "attention within chunks of so many tokens, not a window");
    say_part(export, model->attention_biases && !model->output_bias && model->mlp_biases,
             "biases of attention and MLP, but none of attention's last product");
    say_part(export, model->output_bias && !model->mlp_biases, "a bias of attention's last product, but none of MLPs");
    say_part(export, model->mlp_biases && !model->attention_biases, "biases of MLPs, but none of attention");
    say_part(export, model->biased_experts && !model->mlp_biases, "biases of experts");
    say_part(export, model->positions && model->is_rotary, "learned positions beside rotary ones");
    say_part(export, model->index_chosen, "an indexer that chooses what attention reads");
    say_part(export, model->gates_attention, "a gate behind attention");
    say_part(export, model->idle_experts, "experts that hand tokens on as they are");
    say_part(export, model->expert_hidden, "experts that read fewer numbers than the hidden size");
    say_part(export, model->is_parallel, "attention and MLP side by side");
    say_part(export, model->bare_norms, "norms without weights");
    say_part(export, model->centered_norms, "layer norms without biases");
    say_part(export, model->embedding_norm, "a norm behind the embedding");
    say_part(export, model->head_bias, "a bias of the head");
    say_part(export, model->head_transform, "a product in front of the head");
    say_part(export, model->head_norm, "a second norm in front of the head");
    say_part(export, model->scales_layers, "what layers add scaled by a vector");
    say_part(export, model->buckets_each, "numbers for distances of tokens in each layer");
    say_part(export, model->has_alibi, "scores with slopes (ALiBi)");
    say_part(export, model->activation_parameters, "an activation with parameters");
}

// --- arguments ----------------------------------------------------------------------------

static void write_attention(struct export *export, const struct transformer *model)
{
    put_number(export, "--num-attention-heads", model->heads);
    if (model->is_latent) {
        put(export, "--multi-latent-attention");
        if (model->query_rank)
            put_number(export, "--q-lora-rank", model->query_rank);
        put_number(export, "--kv-lora-rank", model->value_rank);
        put_number(export, "--qk-head-dim", model->nope_size);
        put_number(export, "--qk-pos-emb-head-dim", model->rope_size);
        put_number(export, "--v-head-dim", model->value_size);
        put_number(export, "--kv-channels", model->value_size);
    } else {
        put_number(export, "--kv-channels", model->head_size);
        if (model->kv_heads != model->heads) {
            put(export, "--group-query-attention");
            put_number(export, "--num-query-groups", model->kv_heads);
        }
    }
    if (model->normed_heads)
        put(export, "--qk-layernorm");
    if (model->has_sinks)
        put(export, "--softmax-type learnable");
}

static void write_list(struct export *export, const char *argument, const struct transformer *model,
                       bool (*is)(const struct transformer *, uint64_t))
{
    text_add(export->text, "    %s '(", argument);
    for (uint64_t i = 0, end; i < model->layers; i = end) {
        for (end = i + 1; end < model->layers && is(model, end) == is(model, i); end++)
            ;
        text_add(export->text, "%s[%d]*%llu", i ? "+" : "", is(model, i), (unsigned long long)(end - i));
    }
    text_add(export->text, ")'\n");
}

// Each token sees itself and the tokens before it, `window` in all.
static void write_windows(struct export *export, const struct transformer *model)
{
    const uint64_t window = model->local_window ? model->local_window : model->window;
    if (window == 0)
        return;
    text_add(export->text, "    --window-size %llu,0\n", (unsigned long long)window - 1);
    if (model->local_window)
        write_list(export, "--window-attn-skip-freq", model, transformer_is_local);
}

static void write_positions(struct export *export, const struct transformer *model)
{
    const uint64_t sequence = export->estimated->request.sequence;
    const uint64_t longest = model->longest > sequence ? model->longest : sequence;
    put_number(export, "--max-position-embeddings", model->positions ? model->positions : longest);
    if (model->is_rotary)
        put(export, "--position-embedding-type rope");
    else if (!model->positions)
        put(export, "--position-embedding-type none");
    if (model->rotary_base)
        put_number(export, "--rotary-base", model->rotary_base);
}

static void write_experts(struct export *export, const struct transformer *model)
{
    put_number(export, "--num-experts", model->experts);
    put_number(export, "--moe-router-topk", model->chosen);
    put_number(export, "--moe-ffn-hidden-size", model->expert_ffn);
    if (model->shared_ffn)
        put_number(export, "--moe-shared-expert-intermediate-size", model->shared_ffn);
    if (model->gated_shared)
        put(export, "--moe-shared-expert-gate");
    if (model->corrected_router)
        put(export, "--moe-router-score-function sigmoid\n    --moe-router-enable-expert-bias");
    if (model->dense_layers > 0 || model->expert_every > 1)
        write_list(export, "--moe-layer-freq", model, transformer_has_experts);
    put(export, "--moe-grouped-gemm\n    --moe-router-dtype fp32");
}

void megatron_write_model(struct export *export)
{
    const struct transformer *model = &export->estimated->model;
    const char *activation = activation_argument(model);
    put_number(export, "--hidden-size", model->hidden);
    put_number(export, "--ffn-hidden-size", model->ffn);
    write_attention(export, model);
    write_windows(export, model);
    write_positions(export, model);
    put_number(export, "--vocab-size", model->vocabulary);
    if (activation && *activation)
        put(export, activation);
    put(export, model->has_layer_norm ? "--normalization LayerNorm" : "--normalization RMSNorm");
    if (!model->is_tied)
        put(export, "--untie-embeddings-and-output-weights");
    if (!model->mlp_biases)
        put(export, "--disable-bias-linear");
    if (model->attention_biases && !model->mlp_biases)
        put(export, "--add-qkv-bias");
    put(export, model->drops ? "--hidden-dropout 0.1" : "--hidden-dropout 0.0");
    put(export, model->drops_scores ? "--attention-dropout 0.1" : "--attention-dropout 0.0");
    if (model->experts)
        write_experts(export, model);
}
