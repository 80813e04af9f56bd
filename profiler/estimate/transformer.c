#include "profiler/estimate/transformer.h"

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

static bool read(struct json_document *document, struct transformer *model, struct error *error)
{
    struct json root = json_root(document);
    *model = (struct transformer){ 0 };
    transformer_read_family(&root, model);
    if (!json_ok(document, error))
        return false;
    check(&root, model);
    if (transformer_parameters(model) > MOST_PARAMETERS)
        json_refuse(&root, "says a model of more than 7 * 10^13 parameters");
    return json_ok(document, error);
}

bool transformer_read(const char *text, size_t length, const char *name, struct transformer *transformer,
                      struct error *error)
{
    struct json_document *document = json_parse(text, length, name, error);
    const bool good = document && read(document, transformer, error);
    json_free(document);
    return good;
}

bool transformer_load(const char *path, struct transformer *transformer, struct error *error)
{
    struct json_document *document = json_load(path, error);
    const bool good = document && read(document, transformer, error);
    json_free(document);
    return good;
}

// --- parameters ---------------------------------------------------------------

bool transformer_has_experts(const struct transformer *model, uint64_t layer)
{
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
    if (model->positions > 0 && sequence > model->positions)
        return error_set(error, "a sequence of %llu tokens is longer than the %llu positions that %s learns: take at"
                         " most so many, or a file with more of them (n_positions)", (unsigned long long)sequence,
                         (unsigned long long)model->positions, model->name);
    return true;
}

bool transformer_is_local(const struct transformer *model, uint64_t layer)
{
    return model->local_window > 0 && model->is_local[layer];
}

static uint64_t norm_of(const struct transformer *model)
{
    return model->has_layer_norm ? 2 * model->hidden : model->hidden;
}

uint64_t transformer_norm_parameters(const struct transformer *model)
{
    return (model->norms_twice ? 2 : 1) * norm_of(model);
}

uint64_t transformer_embedding_parameters(const struct transformer *model)
{
    return (model->vocabulary + model->positions) * model->hidden;
}

static uint64_t latent_parameters(const struct transformer *model)
{
    const uint64_t queries = model->heads * model->head_size;
    const uint64_t query = model->query_rank > 0
        ? model->hidden * model->query_rank + model->query_rank + model->query_rank * queries
        : model->hidden * queries;
    const uint64_t values = model->value_rank * model->heads * (model->nope_size + model->value_size);
    return query + model->hidden * (model->value_rank + model->rope_size) + model->value_rank + values
        + model->heads * model->value_size * model->hidden;
}

static uint64_t head_norms(const struct transformer *model)
{
    return model->norms_across ? (model->heads + model->kv_heads) * model->head_size : 2 * model->head_size;
}

uint64_t transformer_attention_parameters(const struct transformer *model)
{
    if (model->is_latent)
        return transformer_norm_parameters(model) + latent_parameters(model);
    const uint64_t queries = model->heads * model->head_size, all = queries + 2 * model->kv_heads * model->head_size;
    uint64_t parameters = transformer_norm_parameters(model) + all * model->hidden + queries * model->hidden;
    parameters += model->attention_biases ? all : 0;
    parameters += model->output_bias ? model->hidden : 0;
    parameters += model->has_sinks ? model->heads : 0;
    return parameters + (model->normed_heads ? head_norms(model) : 0);
}

static uint64_t mlp_matrices(const struct transformer *model, uint64_t ffn)
{
    return (model->is_gated ? 3 : 2) * model->hidden * ffn;
}

static uint64_t mlp_biases(const struct transformer *model, uint64_t ffn)
{
    return (model->is_gated ? 2 : 1) * ffn + model->hidden;
}

uint64_t transformer_mlp_parameters(const struct transformer *model)
{
    const uint64_t biases = model->mlp_biases ? mlp_biases(model, model->ffn) : 0;
    return transformer_norm_parameters(model) + mlp_matrices(model, model->ffn) + biases;
}

uint64_t transformer_experts_parameters(const struct transformer *model)
{
    const uint64_t biases = model->biased_experts ? mlp_biases(model, model->expert_ffn) : 0;
    return model->experts * (mlp_matrices(model, model->expert_ffn) + biases);
}

uint64_t transformer_router_parameters(const struct transformer *model)
{
    uint64_t parameters = transformer_norm_parameters(model) + model->hidden * model->experts;
    parameters += mlp_matrices(model, model->shared_ffn);
    parameters += model->corrected_router || model->biased_experts ? model->experts : 0;
    return parameters + (model->gated_shared ? model->hidden : 0);
}

uint64_t transformer_head_parameters(const struct transformer *model)
{
    return norm_of(model) + (model->is_tied ? 0 : model->vocabulary * model->hidden);
}

static uint64_t block_parameters(const struct transformer *model, uint64_t block)
{
    return transformer_attention_parameters(model)
        + (transformer_has_experts(model, block)
               ? transformer_experts_parameters(model) + transformer_router_parameters(model)
               : transformer_mlp_parameters(model));
}

uint64_t transformer_predicted_parameters(const struct transformer *model)
{
    return 3 * norm_of(model) + 2 * model->hidden * model->hidden + block_parameters(model, model->layers - 1);
}

uint64_t transformer_parameters(const struct transformer *model)
{
    uint64_t sum = transformer_embedding_parameters(model) + transformer_head_parameters(model);
    for (uint64_t i = 0; i < model->layers; i++)
        sum += block_parameters(model, i);
    return sum + (model->predicted ? model->predicted * transformer_predicted_parameters(model) : 0);
}
