#include "models/hugging_face.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "common/json.h"

// By kind and tensor; names in half-blocks follow their block's number.
static const struct known {
    const struct layer_kind *kind;
    const char *own, *theirs;
} known[] = {
    { &layer_embedding, "words", "wte.weight" },
    { &layer_embedding, "positions", "wpe.weight" },
    { &layer_attention, "norm.gain", "ln_1.weight" },
    { &layer_attention, "norm.offset", "ln_1.bias" },
    { &layer_attention, "qkv.weight", "attn.c_attn.weight" },
    { &layer_attention, "qkv.bias", "attn.c_attn.bias" },
    { &layer_attention, "out.weight", "attn.c_proj.weight" },
    { &layer_attention, "out.bias", "attn.c_proj.bias" },
    { &layer_mlp, "norm.gain", "ln_2.weight" },
    { &layer_mlp, "norm.offset", "ln_2.bias" },
    { &layer_mlp, "up.weight", "mlp.c_fc.weight" },
    { &layer_mlp, "up.bias", "mlp.c_fc.bias" },
    { &layer_mlp, "down.weight", "mlp.c_proj.weight" },
    { &layer_mlp, "down.bias", "mlp.c_proj.bias" },
    { &layer_head, "norm.gain", "ln_f.weight" },
    { &layer_head, "norm.offset", "ln_f.bias" },
};

static const char *find(const struct layer *layer, const char *tensor)
{
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (known[i].kind == layer->kind && strcmp(known[i].own, tensor) == 0)
            return known[i].theirs;
    return NULL;
}

bool hugging_face_has(const struct model *model)
{
    if (model->sizes.pattern.window > 0)
        return false;
    for (size_t l = 0; l < model->layer_count; l++) {
        struct tensor tensors[LAYER_TENSORS];
        const size_t count = layer_tensors(&model->layers[l], tensors);
        if (count == 0)
            return false;
        for (size_t t = 0; t < count; t++)
            if (!find(&model->layers[l], tensors[t].name))
                return false;
    }
    return true;
}

void hugging_face_name(const struct layer *layer, const struct tensor *tensor, char name[HUGGING_FACE_NAME])
{
    const char *theirs = find(layer, tensor->name);
    assert(theirs);
    if (layer->kind == &layer_embedding || layer->kind == &layer_head)
        snprintf(name, HUGGING_FACE_NAME, "transformer.%s", theirs);
    else  // each block has two half-blocks, behind the embedding
        snprintf(name, HUGGING_FACE_NAME, "transformer.h.%u.%s", (layer->index - 1) / 2, theirs);
}

static const char *type_name(enum precision precision)
{
    static const char *const names[] = { [PRECISION_FP32] = "float32", [PRECISION_BF16] = "bfloat16",
                                         [PRECISION_FP16] = "float16" };
    return names[precision];
}

void hugging_face_config(const struct model *model, struct text *text)
{
    struct json_writer json = json_writer(text);
    json_begin_object(&json, NULL, JSON_LINES);
    json_begin_array(&json, "architectures", JSON_INLINE);
    json_put_string(&json, NULL, "GPT2LMHeadModel");
    json_close(&json);
    json_put_string(&json, "model_type", "gpt2");
    json_put_string(&json, "dtype", type_name(model->sizes.precision));
    json_put_u64(&json, "vocab_size", model->vocabulary);
    json_put_u64(&json, "n_positions", model->sizes.sequence);
    json_put_u64(&json, "n_embd", model->sizes.width);
    json_put_u64(&json, "n_layer", model->sizes.blocks);
    json_put_u64(&json, "n_head", model->sizes.heads);
    json_put_string(&json, "activation_function", "gelu_new");  // tanh approximation
    json_put_fraction(&json, "layer_norm_epsilon", 1e-5);
    json_put_fraction(&json, "embd_pdrop", (double)model->sizes.dropout);
    json_put_fraction(&json, "resid_pdrop", (double)model->sizes.dropout);
    json_put_fraction(&json, "attn_pdrop", 0);
    json_put_bool(&json, "tie_word_embeddings", true);
    // GPT-2's end-of-text token is its last one. Other vocabularies have no such token.
    if (model->vocabulary == 50257) {
        json_put_u64(&json, "bos_token_id", 50256);
        json_put_u64(&json, "eos_token_id", 50256);
    } else {
        json_put_null(&json, "bos_token_id");
        json_put_null(&json, "eos_token_id");
    }
    json_close(&json);
}
