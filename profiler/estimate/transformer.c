#include "profiler/estimate/transformer.h"

#include <stdlib.h>
#include <string.h>

#include "common/expert_rules.h"
#include "common/json.h"
#include "profiler/estimate/transformer_families.h"

static const uint64_t MOST_PARAMETERS = (uint64_t)1 << 46;

// --- the file -----------------------------------------------------------------

static void check(const struct json *root, struct transformer *model)
{
    if (model->head_size == 0 && model->heads > 0) {
        if (model->hidden % model->heads != 0)
            json_refuse(root, "its %llu heads do not divide its hidden size of %llu",
                        (unsigned long long)model->heads, (unsigned long long)model->hidden);
        model->head_size = model->hidden / model->heads;
    }
    if (model->kv_heads > 0 && model->heads % model->kv_heads != 0)
        json_refuse(root, "its %llu heads of keys and values do not divide its %llu heads",
                    (unsigned long long)model->kv_heads, (unsigned long long)model->heads);
    if (model->chosen > model->experts)
        json_refuse_key(root, "num_experts_per_tok", "is %llu, of %llu experts", (unsigned long long)model->chosen,
                        (unsigned long long)model->experts);
    if (!model->is_latent) {
        model->nope_size = model->head_size;
        model->value_size = model->head_size;
    }
}

// What their class has for the idle ones: matrices up, which nothing reads (LongcatFlashExperts.gate_up_proj).
static uint64_t idle_parameters(const struct transformer *model)
{
    return model->idle_experts * (model->is_gated ? 2 : 1) * model->hidden * model->expert_ffn;
}

static void say_idle(const struct transformer *model, struct text *notes)
{
    uint64_t layers = 0;
    for (uint64_t i = 0; i < model->layers; i++)
        layers += transformer_has_experts(model, i);
    if (notes && model->idle_experts > 0)
        text_add(notes, "zero_expert_num: of the parameters %.3g billion are matrices that its class has for these %llu"
                 " experts, and that nothing reads\n", (double)(layers * idle_parameters(model)) / 1e9,
                 (unsigned long long)model->idle_experts);
}

static bool read(struct json_document *document, struct transformer *model, struct text *notes, struct error *error)
{
    struct json root = json_root(document);
    *model = (struct transformer){ 0 };
    transformer_read_family(&root, model, notes);
    if (!json_ok(document, error))
        return false;
    check(&root, model);
    if (transformer_parameters(model) > MOST_PARAMETERS)
        json_refuse(&root, "says a model of more than 7 * 10^13 parameters");
    say_idle(model, notes);
    return json_ok(document, error);
}

// Python writes infinite limits into its JSON, such as "time_step_limit": [0.0, Infinity]. No estimate reads them.
static void replace_infinite(char *text, size_t length)
{
    static const char *const words[] = { "-Infinity", "Infinity", "NaN" };
    bool is_string = false;
    for (size_t i = 0; i < length; i++) {
        if (text[i] == '"')
            is_string = !is_string;
        i += is_string && text[i] == '\\';
        for (size_t w = 0; !is_string && w < sizeof words / sizeof words[0]; w++) {
            const size_t size = strlen(words[w]);
            if (length - i < size || strncmp(text + i, words[w], size) != 0)
                continue;
            memset(text + i, ' ', size);
            text[i] = '0';
        }
    }
}

static bool read_text(char *text, size_t length, const char *name, struct transformer *model, struct text *notes,
                      struct error *error)
{
    replace_infinite(text, length);
    struct json_document *document = json_parse(text, length, name, error);
    const bool good = document && read(document, model, notes, error);
    json_free(document);
    return good;
}

bool transformer_read(const char *text, size_t length, const char *name, struct transformer *transformer,
                      struct error *error)
{
    char *copy = malloc(length + 1);
    if (!copy)
        return error_no_memory(error, "a model's configuration");
    memcpy(copy, text, length);
    const bool good = read_text(copy, length, name, transformer, NULL, error);
    free(copy);
    return good;
}

bool transformer_load_noting(const char *path, struct transformer *transformer, struct text *notes,
                             struct error *error)
{
    size_t length;
    char *text = text_load(path, &length, error);
    const char *name = strcmp(path, "-") == 0 ? "standard input" : path;
    const bool good = text && read_text(text, length, name, transformer, notes, error);
    free(text);
    return good;
}

bool transformer_load(const char *path, struct transformer *transformer, struct error *error)
{
    return transformer_load_noting(path, transformer, NULL, error);
}

// --- parameters ---------------------------------------------------------------

bool transformer_has_experts(const struct transformer *model, uint64_t layer)
{
    if (model->marks_experts)
        return transformer_is(model, layer, LAYER_SPARSE);
    if (model->experts == 0 || layer < model->dense_layers)
        return false;
    // Qwen counts layers from 1, and DeepSeek from 0. This makes a difference if not every layer has experts.
    const uint64_t number = model->is_latent ? layer : layer + 1;
    return number % model->expert_every == 0;
}

bool transformer_takes(const struct transformer *model, uint64_t sequence, struct error *error)
{
    if (sequence == 0)
        return error_set(error, "the model's file does not say how long a sequence is: say how many tokens (sequence)");
    // OPT learns two that no token has.
    const uint64_t taken = model->longest > 0 && model->longest < model->positions ? model->longest : model->positions;
    if (taken > 0 && sequence > taken)
        return error_set(error, "a sequence of %llu tokens is longer than the %llu positions that %s learns: take at"
                         " most so many, or a file with more of them (n_positions)", (unsigned long long)sequence,
                         (unsigned long long)taken, model->name);
    return true;
}

bool transformer_is_local(const struct transformer *model, uint64_t layer)
{
    return model->local_window > 0 && model->is_local[layer];
}

bool transformer_is_encoding(const struct transformer *model, uint64_t layer)
{
    return layer < model->encoder_layers;
}

bool transformer_is(const struct transformer *model, uint64_t layer, enum layer_mark mark)
{
    return layer < TRANSFORMER_MOST_LAYERS && model->marks[layer] & mark;
}

static uint64_t norm_of(const struct transformer *model)
{
    return model->bare_norms ? 0 : model->has_layer_norm ? 2 * model->hidden : model->hidden;
}

uint64_t transformer_norm_parameters(const struct transformer *model)
{
    return (model->norms_twice ? 2 : 1) * norm_of(model) + (model->scales_layers ? model->hidden : 0);
}

uint64_t transformer_second_norm_parameters(const struct transformer *model)
{
    return model->shares_norm ? 0 : transformer_norm_parameters(model);
}

static uint64_t bucket_parameters(const struct transformer *model)
{
    return model->position_buckets * model->heads;
}

uint64_t transformer_own_buckets(const struct transformer *model)
{
    return model->buckets_each ? bucket_parameters(model) : 0;
}

uint64_t transformer_embedding_parameters(const struct transformer *model)
{
    // A product with patches has a bias, and each other token a vector.
    const uint64_t patches = model->patch_numbers + 1 + model->patch_tokens + model->has_mask_token;
    const uint64_t rows = model->patch_numbers > 0 ? patches : model->vocabulary;
    return (rows + model->positions + model->token_types) * model->hidden
        + (model->buckets_each ? 0 : bucket_parameters(model)) + (model->embedding_norm ? norm_of(model) : 0);
}

// Queries of many heads, one key with a layer norm, and a weight for each head.
static uint64_t indexer_parameters(const struct transformer *model)
{
    const uint64_t from = model->query_rank > 0 ? model->query_rank : model->hidden;
    return model->index_chosen == 0 ? 0
        : from * model->index_heads * model->index_size + model->hidden * (model->index_size + model->index_heads)
            + 2 * model->index_size;
}

static uint64_t latent_parameters(const struct transformer *model)
{
    const uint64_t queries = model->heads * model->head_size;
    const uint64_t query = model->query_rank > 0
        ? model->hidden * model->query_rank + model->query_rank + model->query_rank * queries
        : model->hidden * queries;
    const uint64_t values = model->value_rank * model->heads * (model->nope_size + model->value_size);
    const uint64_t latent = model->value_rank + model->rope_size;
    return query + model->hidden * latent + model->value_rank + values
        + model->heads * model->value_size * model->hidden + indexer_parameters(model);
}

static uint64_t head_norms(const struct transformer *model)
{
    if (model->bare_norms)
        return 0;
    return model->norms_across ? (model->heads + model->kv_heads) * model->head_size : 2 * model->head_size;
}

static uint64_t own_attention_parameters(const struct transformer *model)
{
    if (model->is_latent)
        return latent_parameters(model);
    const uint64_t queries = model->heads * model->head_size * (model->gates_attention ? 2 : 1);
    const uint64_t all = queries + 2 * model->kv_heads * model->head_size;
    uint64_t parameters = all * model->hidden + model->heads * model->head_size * model->hidden;
    parameters += model->attention_biases ? all : 0;
    parameters += model->output_bias ? model->hidden : 0;
    parameters += model->has_sinks ? model->heads : 0;
    return parameters + (model->normed_heads ? head_norms(model) : 0);
}

uint64_t transformer_attention_parameters(const struct transformer *model)
{
    return transformer_norm_parameters(model) + own_attention_parameters(model);
}

uint64_t transformer_crossing_parameters(const struct transformer *model)
{
    return model->encoder_layers == 0 ? 0 : norm_of(model) + (model->buckets_each ? 0 : bucket_parameters(model));
}

// A step size, a decay and a skip for each channel, and a product of low rank that makes the former.
static uint64_t mamba_parameters(const struct transformer *model)
{
    const uint64_t inner = model->scan_heads * model->scan_size, narrow = model->scan_rank + 2 * model->scan_state;
    const uint64_t norms = model->scan_norm ? narrow : 0;
    return inner * (narrow + model->scan_rank + 1 + model->scan_state + 1) + norms;
}

// The same of Mamba 2 for each head. The delta rule has no skip, and lightning attention has decays that are fixed.
static uint64_t head_parameters(const struct transformer *model)
{
    const uint64_t inner = model->scan_heads * model->scan_size;
    switch (model->recurrence) {
    case RECURRENCE_MAMBA2:
        return 3 * model->scan_heads + (model->scan_norm ? inner : 0);
    case RECURRENCE_DELTA:
        return model->scan_heads + model->scan_size
            + (model->scan_rank > 0 ? inner + 2 * model->scan_rank * inner : model->scan_heads);
    case RECURRENCE_CONVOLUTION:
        return 0;
    default:
        return inner;
    }
}

uint64_t transformer_recurrent_parameters(const struct transformer *model)
{
    const uint64_t inner = model->scan_heads * model->scan_size, in = transformer_scan_width(model);
    const uint64_t convolved = transformer_convolved_width(model);
    uint64_t parameters = model->hidden * (in + inner) + (model->scan_bias ? in + model->hidden : 0);
    if (model->scan_kernel > 0)
        parameters += convolved * (model->scan_kernel + (model->scan_conv_bias ? 1 : 0));
    parameters += model->recurrence == RECURRENCE_MAMBA ? mamba_parameters(model) : head_parameters(model);
    return transformer_norm_parameters(model) + parameters
        + (model->side_by_side ? own_attention_parameters(model) : 0);
}

uint64_t transformer_scan_width(const struct transformer *model)
{
    const uint64_t inner = model->scan_heads * model->scan_size, shared = model->scan_groups * model->scan_state;
    switch (model->recurrence) {
    case RECURRENCE_MAMBA2:
        return 2 * inner + 2 * shared + model->scan_heads;
    case RECURRENCE_DELTA:
        return inner + 2 * shared + model->scan_heads
            + (model->scan_rank > 0 ? 2 * model->scan_rank : inner + model->scan_heads);
    case RECURRENCE_LIGHTNING:
        return 4 * inner;
    case RECURRENCE_CONVOLUTION:
        return 3 * inner;
    default:
        return 2 * inner;
    }
}

uint64_t transformer_convolved_width(const struct transformer *model)
{
    const uint64_t inner = model->scan_heads * model->scan_size;
    return model->scan_kernel == 0 ? 0
        : model->recurrence == RECURRENCE_MAMBA ? inner : inner + 2 * model->scan_groups * model->scan_state;
}

static uint64_t matrices(const struct transformer *model, uint64_t hidden, uint64_t ffn)
{
    return (model->is_gated ? 3 : 2) * hidden * ffn;
}

static uint64_t mlp_biases(const struct transformer *model, uint64_t ffn)
{
    return (model->is_gated ? 2 : 1) * ffn + model->hidden;
}

uint64_t transformer_mlp_parameters(const struct transformer *model)
{
    const uint64_t biases = model->mlp_biases ? mlp_biases(model, model->ffn) : 0;
    return transformer_second_norm_parameters(model) + matrices(model, model->hidden, model->ffn) + biases
        + model->activation_parameters;
}

uint64_t transformer_experts_parameters(const struct transformer *model)
{
    const uint64_t biases = model->biased_experts ? mlp_biases(model, model->expert_ffn) : 0;
    const uint64_t hidden = model->expert_hidden ? model->expert_hidden : model->hidden;
    const double matrices = expert_matrices((double)hidden, (double)model->expert_ffn, model->is_gated);
    return model->experts * ((uint64_t)matrices + biases) + idle_parameters(model);
}

uint64_t transformer_router_parameters(const struct transformer *model)
{
    const bool is_corrected = model->corrected_router && !model->buffered_correction;
    const uint64_t choices = model->experts + model->idle_experts;
    uint64_t parameters = transformer_second_norm_parameters(model) + model->hidden * choices;
    parameters += matrices(model, model->hidden, model->shared_ffn) + 2 * model->hidden * model->expert_hidden;
    parameters += model->mlp_biases && model->shared_ffn > 0 ? mlp_biases(model, model->shared_ffn) : 0;
    parameters += model->mlp_biases && model->expert_hidden > 0 ? model->expert_hidden + model->hidden : 0;
    parameters += is_corrected || model->biased_experts ? model->experts : 0;
    return parameters + (model->gated_shared ? model->hidden : 0);
}

uint64_t transformer_head_parameters(const struct transformer *model)
{
    return (model->head_norm ? 2 : 1) * norm_of(model)
        + (model->is_tied ? 0 : (model->reads_mean ? 2 : 1) * model->vocabulary * model->hidden)
        + (model->head_bias ? model->vocabulary : 0)
        + (model->head_transform ? (model->hidden + !model->plain_transform) * model->hidden : 0);
}

static uint64_t block_parameters(const struct transformer *model, uint64_t block)
{
    uint64_t parameters = 0;
    if (!transformer_is(model, block, LAYER_WITHOUT_MIXER))
        parameters += transformer_is(model, block, LAYER_RECURRENT) ? transformer_recurrent_parameters(model)
                                                                    : transformer_attention_parameters(model);
    if (!transformer_is(model, block, LAYER_WITHOUT_MLP))
        parameters += transformer_has_experts(model, block)
            ? transformer_experts_parameters(model) + transformer_router_parameters(model)
            : transformer_mlp_parameters(model);
    parameters += transformer_own_buckets(model);
    const bool has_cross = model->encoder_layers > 0 && !transformer_is_encoding(model, block);
    return parameters + (has_cross ? transformer_attention_parameters(model) : 0);
}

// If layers are alone, it has attention and what has the last MLPs.
static uint64_t last_block_parameters(const struct transformer *model)
{
    if (!model->has_lone_layers)
        return block_parameters(model, model->layers - 1);
    return transformer_attention_parameters(model)
        + (model->experts ? transformer_experts_parameters(model) + transformer_router_parameters(model)
                          : transformer_mlp_parameters(model));
}

// A layer that predicts tokens further on has norms of its input and output, a product of both, and a block like the
// last. The table and the head that it borrows are not counted (DeepSeek-AI, arXiv 2412.19437, 2.2).
static uint64_t predicted_parameters(const struct transformer *model)
{
    return 3 * norm_of(model) + 2 * model->hidden * model->hidden + last_block_parameters(model);
}

uint64_t transformer_file_parameters(const struct transformer *model)
{
    const uint64_t tables = model->is_tied ? 1 : 2;
    return transformer_parameters(model) + model->predicted * tables * model->vocabulary * model->hidden;
}

uint64_t transformer_parameters(const struct transformer *model)
{
    uint64_t sum = transformer_embedding_parameters(model) + transformer_head_parameters(model)
        + transformer_crossing_parameters(model);
    for (uint64_t i = 0; i < model->layers; i++)
        sum += block_parameters(model, i);
    return sum + (model->predicted ? model->predicted * predicted_parameters(model) : 0);
}
