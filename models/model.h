// A model: layers in a row. Each reads the output of the layer before it, and some read one more.
//
//     embedding  block0.attention  block0.mlp  block1.attention  ..  head
//
//     embedding --> block0 --> block1 --.      mlp-unet,blocks=2: each block on the
//         |            |                |      way up ends in a sum with the input of
//     .- sum <- block3 <- sum <- block2 <      the block that mirrors it
//     '--> head
//
// The built-in models read bytes, or tokens of a larger vocabulary, and predict the next one. Each has default sizes,
// any of which may be changed.
#ifndef MODELS_MODEL_H
#define MODELS_MODEL_H

#include "common/error.h"
#include "models/layer.h"

struct model_sizes {  // 0: the model's default
    size_t micro_batch;  // number of sequences
    size_t sequence;
    size_t width;
    size_t blocks;
    size_t heads;
    float dropout;
    enum precision precision;  // of the device that the model is to run on
    enum tying { TYING_OWN, TYING_TIED, TYING_UNTIED } tying;  // head's words: by default, the embedding's, its own
    bool padded;  // words padded to a multiple of 128, for the tensor cores of GPUs; no token names the added ones
};

struct model {
    const char *name;
    struct model_sizes sizes;
    size_t vocabulary;
    size_t padding;  // words added behind the vocabulary
    bool tied;  // the last layer reads the first one's words
    size_t layer_count;
    struct layer layers[];
};

// Makes a model by name: "gpt-nano", "gpt-10m", "gpt2", "mlp" or "mlp-unet". NULL with the reason if there is no such
// model, or if its sizes do not fit together. model_free() frees it.
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

uint64_t model_parameter_count(const struct model *model);  // without padding, like flops
uint64_t model_flops(const struct model *model);            // of a micro-batch's forward
size_t model_tokens(const struct model *model);             // of a micro-batch
uint64_t model_parameter_bytes(const struct model *model);  // of all layers, one after the other
uint64_t model_gradient_bytes(const struct model *model);   // of all parameters: floats

#endif
