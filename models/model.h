// A model: layers in a row, each reading what the one before it hands on, and some one more.
//
//     embedding  block0.attention  block0.mlp  block1.attention  ..  head
//
//     embedding --> block0 --> block1 --.      mlp-unet,blocks=2: the way up ends each
//         |            |                |      block in a sum with what the one that
//     .- sum <- block3 <- sum <- block2 <      mirrors it has read
//     '--> head
//
// The built-in models read bytes, or tokens of a larger vocabulary, and predict the
// next one. Each has sizes of its own, any of which may be chosen otherwise.
#ifndef MODELS_MODEL_H
#define MODELS_MODEL_H

#include "common/error.h"
#include "models/layer.h"

struct model_sizes {  // 0: the model's own
    size_t micro_batch;  // sequences in it
    size_t sequence;
    size_t width;
    size_t blocks;
    size_t heads;
    float dropout;
    enum precision precision;  // of the device that the model is to run on
    enum tying { TYING_OWN, TYING_TIED, TYING_UNTIED } tying;  // the head's words: the embedding's, or its own
    bool padded;  // room for a multiple of 128 words, for the matrix units of GPUs; no token names those behind
};

struct model {
    const char *name;
    struct model_sizes sizes;
    size_t vocabulary;
    size_t padding;  // words behind them
    bool tied;  // the last layer reads the first one's words
    size_t layer_count;
    struct layer layers[];
};

// By name: "gpt-nano", "gpt-10m", "gpt2", "mlp" or "mlp-unet". NULL where there is no such model, or
// its sizes do not go together. Freed by model_free().
struct model *model_create(const char *name, const struct model_sizes *sizes, struct error *error);
void model_free(struct model *model);

struct model_kind {
    const char *name;
    const char *sentence;  // what it is
    struct model_sizes sizes;
    size_t vocabulary;
};
// The built-in models; `count` of them.
const struct model_kind *model_kinds(size_t *count);

uint64_t model_parameter_count(const struct model *model);  // without padding, as flops are
uint64_t model_flops(const struct model *model);            // of a micro-batch's forward
size_t model_tokens(const struct model *model);             // of a micro-batch
uint64_t model_parameter_bytes(const struct model *model);  // of all layers one behind the other
uint64_t model_gradient_bytes(const struct model *model);   // of all parameters: floats

#endif
